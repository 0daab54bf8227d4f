//! Which bracket encloses each place of a file, and which is never closed.

use std::ops::Range;

use toml_parser::Span;
use toml_parser::lexer::{Token, TokenKind};

/// Opening brackets, each with its closing bracket.
const PAIRS: [(TokenKind, TokenKind); 2] = [
    (TokenKind::LeftSquareBracket, TokenKind::RightSquareBracket),
    (TokenKind::LeftCurlyBracket, TokenKind::RightCurlyBracket),
];

/// The brackets of values: `{` of inline tables and `[` of lists, not the brackets of section headers.
#[derive(Default)]
pub(super) struct BracketScan {
    /// Brackets in the order of the file, each with the end of what it encloses.
    closed: Vec<Range<usize>>,
    /// Opening brackets that nothing closes.
    pub(super) unclosed: Vec<Range<usize>>,
    /// Closing brackets that nothing opened.
    pub(super) unopened: Vec<Range<usize>>,
}

impl BracketScan {
    pub(super) fn of(tokens: &[Token]) -> Self {
        let mut scan = Self::default();
        let mut open: Vec<&Token> = Vec::new();
        let mut is_header = false;
        let mut is_line_start = true;
        for token in tokens {
            let kind = token.kind();
            if kind == TokenKind::Newline {
                (is_header, is_line_start) = (false, true);
                continue;
            }
            if kind == TokenKind::Whitespace {
                continue;
            }
            is_header |= is_line_start && open.is_empty() && kind == TokenKind::LeftSquareBracket;
            is_line_start = false;
            if is_header {
                continue;
            }
            if PAIRS.iter().any(|(opening, _)| *opening == kind) {
                open.push(token);
            }
            if let Some((opening, _)) = PAIRS.iter().find(|(_, closing)| *closing == kind) {
                scan.close(&mut open, *opening, token);
            }
        }
        scan.unclosed.extend(open.into_iter().map(|token| range(token.span())));
        scan.unclosed.sort_by_key(|bracket| bracket.start);
        scan
    }

    /// Closes the innermost bracket of a kind; those within it are not closed.
    fn close(&mut self, open: &mut Vec<&Token>, kind: TokenKind, closing: &Token) {
        let Some(position) = open.iter().rposition(|token| token.kind() == kind) else {
            return self.unopened.push(range(closing.span()));
        };
        let mut closed = open.drain(position..);
        if let Some(token) = closed.next() {
            self.closed.push(token.span().start()..closing.span().end());
        }
        self.unclosed.extend(closed.map(|token| range(token.span())));
    }

    /// Where the innermost closed bracket around a place begins.
    pub(super) fn enclosing(&self, at: usize) -> Option<usize> {
        let around = self.closed.iter().filter(|bracket| bracket.start < at && at < bracket.end);
        around.map(|bracket| bracket.start).max()
    }
}

pub(super) fn range(span: Span) -> Range<usize> {
    span.start()..span.end()
}
