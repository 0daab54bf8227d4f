//! Syntax errors: which of them explains the others.
//!
//! A parser that continues after an error reports what follows from it, too: behind a `{` without its `}`, every line of the
//! file is in the wrong place. The grammar is therefore read once more, with two things that the first pass does not keep:
//!
//! ```text
//! brackets   which bracket encloses each place, and which is never closed
//! keys       where each key and section was defined first
//! ```
//!
//! Then one error is reported of a line and of a bracket, none behind a bracket that is not closed, and that bracket itself.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

use toml::de::Error as TomlError;
use toml_parser::decoder::Encoding;
use toml_parser::lexer::{Token, TokenKind};
use toml_parser::parser::{EventReceiver, RecursionGuard, ValidateWhitespace, parse_document};
use toml_parser::{ErrorSink, Expected, ParseError, Source, Span};

use super::problem::{ProblemCode, ProblemCollector};

/// How deep values may lie within one another: the limit of `toml`.
const MAX_DEPTH: u32 = 80;

/// What `toml` calls a key that is defined again.
const DUPLICATE_KEY: &str = "duplicate key";

/// Reports the causes among the errors of a file.
pub(super) fn report_syntax_errors(source: &str, errors: &[TomlError], problems: &mut ProblemCollector<'_>) {
    let scan = SyntaxScan::of(source);
    let causes = scan.causes();
    let broken_line = causes.first().map_or(usize::MAX, |cause| scan.line_of(cause.place.start));
    for cause in causes {
        let problem = problems.report(cause.code, cause.place, cause.message);
        for (place, message) in cause.related {
            problem.related(place, message);
        }
    }
    // What a broken line contains is not known, so a key behind it may only seem to be defined again.
    let semantic = errors.iter().filter(|error| scan.errors.is_empty() || error.message() == DUPLICATE_KEY);
    for error in semantic {
        let place = error.span().unwrap_or(0..0);
        if scan.line_of(place.start) >= broken_line || scan.keys.is_in_repeated_section(place.start) {
            continue;
        }
        if error.message() == DUPLICATE_KEY {
            report_duplicate_key(&scan, place, problems);
        } else {
            problems.report(ProblemCode::SyntaxError, place, error.message());
        }
    }
    if !problems.has_errors()
        && let Some(first) = errors.first()
    {
        problems.report(ProblemCode::SyntaxError, first.span().unwrap_or(0..0), first.message());
    }
}

fn report_duplicate_key(scan: &SyntaxScan<'_>, place: Range<usize>, problems: &mut ProblemCollector<'_>) {
    let first = scan.keys.repeated.get(&place.start).cloned();
    let name = scan.source.get(place.clone()).unwrap_or_default();
    let message = format!("`{name}` is defined twice; define it once");
    let problem = problems.report(ProblemCode::DuplicateKey, place, message);
    if let Some(first) = first {
        problem.related(first, "first defined here");
    }
}

/// An error that explains others.
struct SyntaxCause {
    code: ProblemCode,
    place: Range<usize>,
    message: String,
    related: Vec<(Range<usize>, String)>,
}

/// The errors of the grammar, and what is needed to find their causes.
struct SyntaxScan<'s> {
    source: &'s str,
    errors: Vec<ParseError>,
    brackets: BracketScan,
    keys: KeyScan<'s>,
}

impl<'s> SyntaxScan<'s> {
    fn of(text: &'s str) -> Self {
        let source = Source::new(text);
        let tokens = source.lex().into_vec();
        let mut keys = KeyScan::of(source);
        let mut errors: Vec<ParseError> = Vec::new();
        let mut whitespace = ValidateWhitespace::new(&mut keys, source);
        let mut receiver = RecursionGuard::new(&mut whitespace, MAX_DEPTH);
        parse_document(&tokens, &mut receiver, &mut errors);
        Self { source: text, errors, brackets: BracketScan::of(&tokens), keys }
    }

    fn causes(&self) -> Vec<SyntaxCause> {
        let unclosed = self.brackets.unclosed.first().cloned();
        let barrier = unclosed.as_ref().map_or(usize::MAX, |bracket| bracket.start);
        let strings = &self.keys.unclosed_strings;
        let is_in_string = |at: usize| strings.iter().any(|string| (string.start..=string.end).contains(&at));
        let errors = self.errors.iter().map(|error| (error, error.unexpected().map_or(0..0, range)));
        let errors: Vec<_> = errors.filter(|(_, place)| !is_in_string(place.start)).collect();
        let stumble = errors.iter().map(|(_, place)| place.start).find(|at| *at > barrier);
        let mut causes: BTreeMap<usize, SyntaxCause> = BTreeMap::new();
        let mut brackets: BTreeSet<usize> = BTreeSet::new();
        // A string that is not closed explains what its line lacks: a comma, a bracket.
        let strings = strings.iter().filter(|string| string.start < stumble.unwrap_or(usize::MAX));
        let strings: Vec<&Range<usize>> = strings.collect();
        for string in &strings {
            brackets.extend(self.brackets.enclosing(string.start));
            causes
                .entry(self.line_of(string.start))
                .or_insert_with(|| self.unclosed_string((*string).clone()));
        }
        for (error, place) in errors.into_iter().filter(|(_, place)| place.start <= barrier) {
            let is_new = self.brackets.enclosing(place.start).is_none_or(|bracket| brackets.insert(bracket));
            if is_new {
                causes.entry(self.line_of(place.start)).or_insert_with(|| self.invalid(error, place));
            }
        }
        if let Some(bracket) = unclosed
            && strings.iter().all(|string| string.start < barrier)
        {
            let line = self.line_of(bracket.start);
            causes.entry(line).or_insert_with(|| self.unclosed_bracket(bracket, stumble));
        }
        causes.into_values().collect()
    }

    fn invalid(&self, error: &ParseError, place: Range<usize>) -> SyntaxCause {
        let mut message = error.description().to_owned();
        let expected: Vec<String> =
            error.expected().into_iter().flatten().filter_map(expected_character).collect();
        if !expected.is_empty() {
            message.push_str("; expected ");
            message.push_str(&expected.join(" or "));
        }
        SyntaxCause { code: ProblemCode::SyntaxError, place, message, related: Vec::new() }
    }

    fn unclosed_string(&self, place: Range<usize>) -> SyntaxCause {
        let quote = self.source.get(place.start..).and_then(|text| text.chars().next()).unwrap_or('"');
        SyntaxCause {
            code: ProblemCode::UnclosedDelimiter,
            place,
            message: format!("the string that begins here is not closed; add the missing `{quote}`"),
            related: Vec::new(),
        }
    }

    fn unclosed_bracket(&self, place: Range<usize>, stumbles: Option<usize>) -> SyntaxCause {
        let (thing, closing) = match self.source.get(place.clone()) {
            Some("{") => ("inline table", '}'),
            _ => ("list", ']'),
        };
        let related = stumbles
            .filter(|at| self.line_of(*at) != self.line_of(place.start))
            .map(|at| (at..at, format!("this is read as part of the {thing}")));
        SyntaxCause {
            code: ProblemCode::UnclosedDelimiter,
            message: format!("the {thing} that begins here is not closed; add the missing `{closing}`"),
            place,
            related: related.into_iter().collect(),
        }
    }

    fn line_of(&self, at: usize) -> usize {
        self.source.get(..at).map_or(usize::MAX, |before| before.matches('\n').count())
    }
}

fn range(span: Span) -> Range<usize> {
    span.start()..span.end()
}

/// A character that the grammar expects; what it describes in words is clear from the error's description.
fn expected_character(expected: &Expected) -> Option<String> {
    match expected {
        Expected::Literal("\n") => Some("the end of the line".to_owned()),
        Expected::Literal(text) => Some(format!("`{text}`")),
        Expected::Description(_) | _ => None,
    }
}

/// The brackets of values: `{` of inline tables and `[` of lists, not those of section headers.
#[derive(Default)]
struct BracketScan {
    /// Brackets in the order of the file, each with the end of what it encloses.
    closed: Vec<Range<usize>>,
    /// Those that nothing closes.
    unclosed: Vec<Range<usize>>,
}

impl BracketScan {
    fn of(tokens: &[Token]) -> Self {
        let mut scan = Self::default();
        let mut open: Vec<&Token> = Vec::new();
        let mut is_header = false;
        let mut is_line_start = true;
        for token in tokens {
            match token.kind() {
                TokenKind::Newline => {
                    is_header = false;
                    is_line_start = true;
                    continue;
                }
                TokenKind::Whitespace => continue,
                TokenKind::LeftSquareBracket if is_line_start && open.is_empty() => is_header = true,
                TokenKind::LeftSquareBracket | TokenKind::LeftCurlyBracket if !is_header => open.push(token),
                TokenKind::RightSquareBracket if !is_header => {
                    scan.close(&mut open, TokenKind::LeftSquareBracket, token);
                }
                TokenKind::RightCurlyBracket if !is_header => {
                    scan.close(&mut open, TokenKind::LeftCurlyBracket, token);
                }
                TokenKind::LeftSquareBracket
                | TokenKind::LeftCurlyBracket
                | TokenKind::RightSquareBracket
                | TokenKind::RightCurlyBracket
                | TokenKind::Dot
                | TokenKind::Equals
                | TokenKind::Comma
                | TokenKind::Comment
                | TokenKind::LiteralString
                | TokenKind::BasicString
                | TokenKind::MlLiteralString
                | TokenKind::MlBasicString
                | TokenKind::Atom
                | TokenKind::Eof => {}
            }
            is_line_start = false;
        }
        scan.unclosed.extend(open.into_iter().map(|token| range(token.span())));
        scan.unclosed.sort_by_key(|bracket| bracket.start);
        scan
    }

    /// Closes the innermost bracket of a kind; those within it are not closed. A closing bracket without any is ignored.
    fn close(&mut self, open: &mut Vec<&Token>, kind: TokenKind, closing: &Token) {
        let Some(position) = open.iter().rposition(|token| token.kind() == kind) else { return };
        let mut closed = open.drain(position..);
        if let Some(token) = closed.next() {
            self.closed.push(token.span().start()..closing.span().end());
        }
        self.unclosed.extend(closed.map(|token| range(token.span())));
    }

    /// Where the innermost closed bracket around a place begins.
    fn enclosing(&self, at: usize) -> Option<usize> {
        let around = self.closed.iter().filter(|bracket| bracket.start < at && at < bracket.end);
        around.map(|bracket| bracket.start).max()
    }
}

/// Where keys and sections are defined.
struct KeyScan<'s> {
    source: Source<'s>,
    /// The first definition of each path. An inline table and an entry of `[[list]]` have a path element of their own.
    defined: HashMap<Vec<String>, Range<usize>>,
    /// The first definition of a key, by where a later one begins.
    repeated: HashMap<usize, Range<usize>>,
    unclosed_strings: Vec<Range<usize>>,
    /// The contents of sections that were defined before: their keys repeat because the section does.
    repeated_sections: Vec<Range<usize>>,
    /// The path of each `[[list]]`'s newest entry.
    entries: HashMap<Vec<String>, String>,
    section: Vec<String>,
    inline_tables: Vec<Vec<String>>,
    /// The keys that were read since the last definition, with the place of the last.
    pending: Vec<String>,
    last_key: Range<usize>,
    unnamed: usize,
}

impl<'s> KeyScan<'s> {
    fn of(source: Source<'s>) -> Self {
        Self {
            source,
            defined: HashMap::new(),
            repeated: HashMap::new(),
            unclosed_strings: Vec::new(),
            repeated_sections: Vec::new(),
            entries: HashMap::new(),
            section: Vec::new(),
            inline_tables: Vec::new(),
            pending: Vec::new(),
            last_key: 0..0,
            unnamed: 0,
        }
    }

    /// A path element that no key can be.
    fn unnamed(&mut self) -> String {
        self.unnamed += 1;
        format!("\u{0}{}", self.unnamed)
    }

    /// Notes a definition; returns whether the path was defined before.
    fn define(&mut self, path: Vec<String>) -> bool {
        let place = self.last_key.clone();
        let first = self.defined.get(&path).cloned();
        let is_repeated = first.is_some();
        match first {
            Some(first) => drop(self.repeated.insert(place.start, first)),
            None => drop(self.defined.insert(path, place)),
        }
        is_repeated
    }

    fn is_in_repeated_section(&self, at: usize) -> bool {
        self.repeated_sections.iter().any(|section| section.contains(&at))
    }

    /// A header ends the section before it.
    fn open_section(&mut self, header: Span) {
        self.pending.clear();
        if let Some(section) = self.repeated_sections.last_mut() {
            section.end = section.end.min(header.start());
        }
    }

    /// The path of a header, through the newest entries of the lists that it names.
    fn header_path(&mut self) -> Vec<String> {
        let names = std::mem::take(&mut self.pending);
        let last = names.len().saturating_sub(1);
        let mut path = Vec::new();
        for (position, name) in names.into_iter().enumerate() {
            path.push(name);
            if position < last {
                path.extend(self.entries.get(&path).cloned());
            }
        }
        path
    }

    /// Notes a string that ends without its quote.
    fn check_string(&mut self, span: Span, encoding: Option<Encoding>, errors: &[ParseError]) {
        let is_unclosed = |error: &ParseError| error.unexpected().is_some_and(|at| at.start() >= span.end());
        if encoding.is_some() && errors.iter().any(is_unclosed) {
            self.unclosed_strings.push(range(span));
        }
    }
}

impl EventReceiver for KeyScan<'_> {
    fn std_table_open(&mut self, span: Span, _error: &mut dyn ErrorSink) {
        self.open_section(span);
    }

    fn std_table_close(&mut self, span: Span, _error: &mut dyn ErrorSink) {
        let path = self.header_path();
        if self.define(path.clone()) {
            self.repeated_sections.push(span.end()..usize::MAX);
        }
        self.section = path;
    }

    fn array_table_open(&mut self, span: Span, _error: &mut dyn ErrorSink) {
        self.open_section(span);
    }

    fn array_table_close(&mut self, _span: Span, _error: &mut dyn ErrorSink) {
        let path = self.header_path();
        let entry = self.unnamed();
        self.entries.insert(path.clone(), entry.clone());
        self.section = path;
        self.section.push(entry);
    }

    fn inline_table_open(&mut self, _span: Span, _error: &mut dyn ErrorSink) -> bool {
        let path = vec![self.unnamed()];
        self.inline_tables.push(path);
        true
    }

    fn inline_table_close(&mut self, _span: Span, _error: &mut dyn ErrorSink) {
        self.inline_tables.pop();
    }

    fn simple_key(&mut self, span: Span, encoding: Option<Encoding>, error: &mut dyn ErrorSink) {
        let Some(raw) = self.source.get(span) else { return };
        let raw = toml_parser::Raw::new_unchecked(raw.as_str(), encoding, span);
        let (mut name, mut errors) = (String::new(), Vec::new());
        raw.decode_key(&mut name, &mut errors);
        self.check_string(span, encoding, &errors);
        errors.into_iter().for_each(|one| error.report_error(one));
        self.pending.push(name);
        self.last_key = range(span);
    }

    fn key_val_sep(&mut self, _span: Span, _error: &mut dyn ErrorSink) {
        let mut path = self.inline_tables.last().unwrap_or(&self.section).clone();
        path.append(&mut self.pending);
        self.define(path);
    }

    fn scalar(&mut self, span: Span, encoding: Option<Encoding>, error: &mut dyn ErrorSink) {
        if span.is_empty() {
            error.report_error(ParseError::new("a value is missing").with_unexpected(span));
            return;
        }
        let Some(raw) = self.source.get(span) else { return };
        let raw = toml_parser::Raw::new_unchecked(raw.as_str(), encoding, span);
        let mut errors = Vec::new();
        let _kind = raw.decode_scalar(&mut (), &mut errors);
        self.check_string(span, encoding, &errors);
        errors.into_iter().for_each(|one| error.report_error(one));
    }
}

#[cfg(test)]
mod tests {
    use toml::de::DeTable;

    use super::*;

    /// What is reported: line, column, code and message.
    fn reported(source: &str) -> Vec<String> {
        let (_, errors) = DeTable::parse_recoverable(source);
        let mut problems = ProblemCollector::of(source);
        report_syntax_errors(source, &errors, &mut problems);
        let problems = problems.finish();
        problems
            .iter()
            .map(|problem| format!("{}:{} {problem}", problem.span.line, problem.span.column))
            .collect()
    }

    #[test]
    fn a_missing_brace_is_one_problem_where_the_brace_opens() {
        let source = "a = { b = 1, c = { d = 2 }\n[next]\nx = 1\ny = { z = 3 }\n[[list]]\nq = [1, 2]\n";
        assert_eq!(
            reported(source),
            [
                "1:5 error[AW002]: the inline table that begins here is not closed; add the missing `}` (line 2: this is read as part of the inline table)"
            ]
        );
    }

    #[test]
    fn a_missing_bracket_is_one_problem_where_the_bracket_opens() {
        assert_eq!(
            reported("ok = 1\na = [\"x\", \"y\"\n[next]\nx = 1\n"),
            [
                "2:5 error[AW002]: the list that begins here is not closed; add the missing `]` (line 3: this is read as part of the list)"
            ]
        );
        assert_eq!(
            reported("a = { b = [1, 2 }\nc = 1\n"),
            ["1:11 error[AW002]: the list that begins here is not closed; add the missing `]`"]
        );
    }

    #[test]
    fn a_missing_quote_is_one_problem_where_the_string_begins() {
        for (source, place) in [
            ("name = \"library\nx = 1\n", "1:8"),
            ("x = [\n  \"a,\n  \"b\",\n]\n", "2:3"),
            ("x = 1\nk = { PK = \"a\", SK = \"b }\ny = { z = 1 }\n", "2:22"),
            ("x = 'a\n", "1:5"),
            ("x = \"\"\"a\ny = 1\n", "1:5"),
            ("x = [\"a\",\n  \"b]\n[y]\nz = { a = 1 }\n", "2:3"),
        ] {
            let reported = reported(source);
            assert!(
                matches!(reported.as_slice(), [one] if one.starts_with(&format!("{place} error[AW002]: the string"))),
                "{source}: {reported:?}"
            );
        }
    }

    #[test]
    fn a_quote_in_the_wrong_place_is_one_problem() {
        let reported = reported("x = 1\nk = { PK = \"a, SK = \"b\" }\ny = { z = 1 }\n");
        assert_eq!(reported, ["2:22 error[AW001]: missing comma between key-value pairs; expected `,`"]);
    }

    #[test]
    fn independent_errors_are_each_reported() {
        assert_eq!(
            reported("a =\nb = 1\nc 2\nd = { e = [] f = 2 g = [] h = 1 }\nh = 01\n"),
            [
                "1:4 error[AW001]: a value is missing",
                "3:3 error[AW001]: key with no value; expected `=`",
                "4:14 error[AW001]: missing comma between key-value pairs; expected `,`",
                "5:5 error[AW001]: unexpected leading zero",
            ]
        );
    }

    #[test]
    fn a_key_that_is_defined_twice_has_two_places() {
        for (source, place, first) in [
            ("a = 1\nb = 2\na = 3\n", "3:1", "line 1"),
            ("[x.day]\na = 1\n[y.day]\n[x.day]\nb = 1\n", "4:4", "line 1"),
            ("[x.day]\na = 1\n[x.day]\na = 1\n[z]\n", "3:4", "line 1"),
            ("[[l]]\na = 1\n[[l]]\na = 1\nb = { a = 1 }\na = 2\n", "6:1", "line 4"),
            ("[[l]]\n[l.m]\na = 1\n[[l]]\n[l.m]\na = 1\n[l.m]\n", "7:4", "line 5"),
            ("k = { a = 1, a = 2 }\n", "1:14", "line 1"),
            ("k.a = 1\nk.b = 1\nk.a = 2\n", "3:3", "line 1"),
        ] {
            let reported = reported(source);
            assert_eq!(reported.len(), 1, "{source}: {reported:?}");
            assert!(
                reported[0].starts_with(&format!("{place} error[AW003]"))
                    && reported[0].ends_with(&format!("({first}: first defined here)")),
                "{source}: {reported:?}"
            );
        }
    }

    #[test]
    fn an_unclosed_header_does_not_hide_the_next_line() {
        let reported = reported("[rollups.day\nkey = 1\n[x]\ny 2\n");
        assert_eq!(reported.len(), 2, "{reported:?}");
        assert!(reported[0].starts_with("1:13 ") && reported[1].starts_with("4:3 "), "{reported:?}");
    }

    #[test]
    fn one_missing_character_is_one_problem_on_its_line() {
        let source = include_str!("../models/exambuddy.toml");
        for (at, character) in source.char_indices().filter(|(_, one)| "{}[]\"=,".contains(*one)) {
            let line = 1 + source[..at].matches('\n').count();
            let broken = format!("{}{}", &source[..at], &source[at + 1..]);
            let (_, errors) = DeTable::parse_recoverable(&broken);
            if errors.is_empty() {
                continue;
            }
            let reported = reported(&broken);
            let context = format!("line {line} without {character}: {reported:#?}");
            assert!(reported.len() == 1 && reported[0].starts_with(&format!("{line}:")), "{context}");
        }
    }
}
