//! Places in a model file: lines, columns, and how far the token at an offset reaches.

use std::ops::Range;

use toml_parser::Source;
use toml_parser::lexer::{Token, TokenKind};

/// A range of a model file that lies within one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceSpan {
    /// The same range in bytes of the file.
    pub bytes: Range<usize>,
    /// The line, from 1.
    pub line: usize,
    /// The first column in characters, from 1.
    pub column: usize,
    /// The column behind the last character; equal to `column` if there is no character at this place.
    pub end_column: usize,
}

/// The lines and tokens of a model file.
pub(super) struct SourceMap<'s> {
    source: &'s str,
    /// Where each line begins.
    lines: Vec<usize>,
    tokens: Vec<Token>,
}

impl<'s> SourceMap<'s> {
    pub(super) fn of(source: &'s str) -> Self {
        let later = source.match_indices('\n').map(|(end, _)| end + 1);
        let lines = std::iter::once(0).chain(later).collect();
        Self { source, lines, tokens: Source::new(source).lex().into_vec() }
    }

    /// The span of a range. An empty range stands for the whole token, list or table that begins there. A range over
    /// several lines is cut at the end of the first.
    pub(super) fn span(&self, place: &Range<usize>) -> SourceSpan {
        let start = place.start.min(self.source.len());
        let end = if place.is_empty() { self.end_of_token(start) } else { place.end };
        let line = self.lines.partition_point(|begin| *begin <= start);
        let begin = self.lines.get(line.saturating_sub(1)).copied().unwrap_or(0);
        let line_end = self.lines.get(line).map_or(self.source.len(), |next| next - 1);
        let end = end.min(line_end.max(start));
        let width = |range: Range<usize>| self.source.get(range).map_or(0, |text| text.chars().count());
        let column = width(begin..start) + 1;
        let end_column = column + width(start..end);
        SourceSpan { bytes: start..end, line, column, end_column }
    }

    /// The end of what begins at an offset: a string, a number, a name, a list with its brackets, a section's header.
    fn end_of_token(&self, start: usize) -> usize {
        let index = self.tokens.partition_point(|token| token.span().end() <= start);
        let Some((token, rest)) = self.tokens.get(index..).and_then(<[Token]>::split_first) else {
            return start;
        };
        let kind = token.kind();
        if is_opening(kind) {
            return end_of_brackets(token, rest);
        }
        if matches!(kind, TokenKind::Whitespace | TokenKind::Comment | TokenKind::Newline | TokenKind::Eof) {
            return start;
        }
        let is_number = kind == TokenKind::Atom && self.source.get(start..).is_some_and(begins_as_number);
        let is_more = |next: &&Token| is_number && matches!(next.kind(), TokenKind::Atom | TokenKind::Dot);
        rest.iter().take_while(is_more).last().unwrap_or(token).span().end()
    }
}

fn is_opening(kind: TokenKind) -> bool {
    matches!(kind, TokenKind::LeftSquareBracket | TokenKind::LeftCurlyBracket)
}

/// The end of the bracket that closes this one; its own end if none does.
fn end_of_brackets(open: &Token, rest: &[Token]) -> usize {
    let mut depth = 1_usize;
    for token in rest {
        let kind = token.kind();
        depth += usize::from(is_opening(kind));
        depth -= usize::from(matches!(kind, TokenKind::RightSquareBracket | TokenKind::RightCurlyBracket));
        if depth == 0 {
            return token.span().end();
        }
    }
    open.span().end()
}

/// A number may have dots in it; a key's dots lie between keys.
fn begins_as_number(text: &str) -> bool {
    text.trim_start_matches(['+', '-']).starts_with(|first: char| first.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_at<'s>(source: &'s str, begin: &str) -> &'s str {
        let at = source.find(begin).unwrap();
        let span = SourceMap::of(source).span(&(at..at));
        &source[span.bytes]
    }

    #[test]
    fn a_place_stands_for_the_token_that_begins_there() {
        let source =
            "name = \"a b\" # text\n[[aggregates]]\nwhen.price = [1.50, -2]\nkey = { PK = 'x', n = [{}] }\n";
        for (begin, text) in [
            ("name", "name"),
            ("\"a", "\"a b\""),
            ("[[agg", "[[aggregates]]"),
            ("when", "when"),
            ("[1", "[1.50, -2]"),
            ("1.5", "1.50"),
            ("{", "{ PK = 'x', n = [{}] }"),
            ("# text", ""),
        ] {
            assert_eq!(text_at(source, begin), text);
        }
    }

    #[test]
    fn a_span_ends_with_its_line() {
        let source = "ä = [\n 1,\n]";
        let span = SourceMap::of(source).span(&("ä = ".len().."ä = ".len()));
        assert_eq!((span.line, span.column, span.end_column), (1, 5, 6));
        let end = SourceMap::of(source).span(&(source.len()..source.len()));
        assert_eq!((end.line, end.column, end.end_column), (3, 2, 2));
    }
}
