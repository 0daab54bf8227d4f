//! Syntax errors: finds the error that explains the rest.
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

mod brackets;
mod keys;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use toml::de::Error as TomlError;
use toml_parser::parser::{RecursionGuard, ValidateWhitespace, parse_document};
use toml_parser::{Expected, ParseError, Source};

use self::brackets::{BracketScan, range};
use self::keys::KeyScan;
use super::problem::{ProblemCode, ProblemCollector};

/// How deep values may lie within one another: the limit of `toml`.
const MAX_DEPTH: u32 = 80;

/// The parser's description of a value that is neither a string nor anything else.
const UNQUOTED: &str = "string values must be quoted";

/// The message about a line that begins with `[` and cannot be read as a header.
const HALF_HEADER: &str = "a header has as many brackets at its end as at its beginning, and a line of its own: `[rollups.<name>]`, `[[aggregates]]`";

/// The message of `toml` for a key that is defined again.
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
    // A header that is read as another section puts its keys there: they only seem to be defined again.
    let headers = scan.keys.headers.iter().filter(|header| scan.line_of(header.place.start) < broken_line);
    let misread = headers.filter_map(|header| Some((header.place.clone(), header.problem()?)));
    let misread: Vec<_> = misread.collect();
    for (place, (code, message)) in &misread {
        problems.report(*code, place.clone(), message.clone()).caused_by(message.clone());
    }
    if !misread.is_empty() {
        return;
    }
    // The content of a broken line is unknown, so a key behind it may only seem to be defined again.
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

/// An error that explains other errors.
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
        // A value without its quotes may hold a `#`, which hides the rest of its line.
        let is_cause = |error: &ParseError, at: usize| {
            at <= barrier || (error.description() == UNQUOTED && self.line_of(at) == self.line_of(barrier))
        };
        for (error, place) in errors.into_iter().filter(|(error, place)| is_cause(error, place.start)) {
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
        let line = self.line_of(place.start);
        let unopened = self.brackets.unopened.iter().find(|bracket| self.line_of(bracket.start) == line);
        let (place, message) = match unopened {
            Some(bracket) => (bracket.clone(), self.unopened_bracket(bracket)),
            None if self.is_header(place.start) => (place, HALF_HEADER.to_owned()),
            None => (place.clone(), described(error, self.source.get(place).unwrap_or_default())),
        };
        SyntaxCause { code: ProblemCode::SyntaxError, place, message, related: Vec::new() }
    }

    fn unopened_bracket(&self, bracket: &Range<usize>) -> String {
        let (closing, opening) =
            if self.source.get(bracket.clone()) == Some("}") { ('}', '{') } else { (']', '[') };
        format!("this `{closing}` closes nothing; add the missing `{opening}`, or remove it")
    }

    /// Whether a place is behind the `[` with which its line begins, and in no list.
    fn is_header(&self, at: usize) -> bool {
        let before = self.source.get(..at).unwrap_or_default();
        let line = before.rsplit('\n').next().unwrap_or_default();
        line.trim_start().starts_with('[') && self.brackets.enclosing(at).is_none()
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

/// An error in words. The parser's own words name the tokens that it could read next, and seldom the token that is missing.
fn described(error: &ParseError, found: &str) -> String {
    match error.description() {
        UNQUOTED => format!("`{found}` is not a value; a string is written in quotes: `\"{found}\"`"),
        "missing opening quote" => "the opening quote of this string is missing; add it".to_owned(),
        "missing comma between array elements" | "missing comma between key-value pairs" => {
            "a `,` is missing here, or a quote before it; add it".to_owned()
        }
        "unexpected key or value" => {
            "the value ends before this; write several values as a list, `[1, 2]`, and several keys as an inline table, `{ a = 1, b = 2 }`".to_owned()
        }
        other => {
            let expected: Vec<String> = error.expected().into_iter().flatten().filter_map(expected_character).collect();
            let expected = if expected.is_empty() { String::new() } else { format!("; expected {}", expected.join(" or ")) };
            format!("{other}{expected}")
        }
    }
}

/// A character that the grammar expects; what it describes in words is clear from the error's description.
fn expected_character(expected: &Expected) -> Option<String> {
    match expected {
        Expected::Literal("\n") => Some("the end of the line".to_owned()),
        Expected::Literal(text) => Some(format!("`{text}`")),
        Expected::Description(_) | _ => None,
    }
}

#[cfg(test)]
mod tests {
    use toml::de::DeTable;

    use super::*;

    /// The reported problems: line, column, code and message.
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
        assert_eq!(reported, ["2:22 error[AW001]: a `,` is missing here, or a quote before it; add it"]);
    }

    #[test]
    fn independent_errors_are_each_reported() {
        assert_eq!(
            reported("a =\nb = 1\nc 2\nd = { e = [] f = 2 g = [] h = 1 }\nh = 01\n"),
            [
                "1:4 error[AW001]: a value is missing",
                "3:3 error[AW001]: key with no value; expected `=`",
                "4:14 error[AW001]: a `,` is missing here, or a quote before it; add it",
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
        let source = include_str!("../../models/exambuddy.toml");
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
