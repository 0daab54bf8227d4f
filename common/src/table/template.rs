//! Key templates: `ROLLUP#SHELF#{shelf_id}#DAY#{bought_at:day}`.
//!
//! A template works both ways: [`Template::render`] makes a key from values, [`Template::parse`] finds the values in a key.
//! Between two variables there is always literal text, so that a key has one reading: every variable but the last takes
//! the shortest text before the literal that follows it, the last takes all that is left.

use std::fmt;
use std::sync::Arc;

use super::load::problem::ProblemCode;
use super::load::suggestion::{did_you_mean, listed};
use super::named::NamedValue as _;
use super::time_bucket::{TimeBucket, fits_shape};
use super::time_format::{NotAFormat, TimeFormat};
use super::time_reading::TimeReading;
use crate::record::NamedZone;

/// A key template: literal text and variables. The default has no pieces: it stands for one that could not be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Template {
    /// Literals and variables in order; no two variables are neighbours.
    pub pieces: Vec<TemplatePiece>,
    /// A character that the values of variables do not contain, if the table declares one. A variable with a format of fixed length is exempt.
    pub separator: Option<char>,
}

/// A piece of a [`Template`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TemplatePiece {
    /// Text as it is.
    Literal(Arc<str>),
    /// A variable, an index into the owner's list of variables, and how its value is written.
    Variable(usize, ValueFormat),
}

impl TemplatePiece {
    /// The text, if it is literal.
    pub(super) fn literal(&self) -> Option<&str> {
        match self {
            Self::Literal(text) => Some(text),
            Self::Variable(..) => None,
        }
    }

    /// The index and the format, if it is a variable.
    pub(super) fn variable(&self) -> Option<(usize, ValueFormat)> {
        match self {
            Self::Literal(_) => None,
            Self::Variable(index, format) => Some((*index, *format)),
        }
    }
}

/// How a value is written into a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueFormat {
    /// As it is: text, a number's digits, `true` or `false`.
    Plain,
    /// The part of the calendar that a time lies in.
    Time(TimeFormat),
}

impl ValueFormat {
    /// The format of a time; `None` for the format of a variable without one.
    #[must_use]
    pub fn time(self) -> Option<TimeFormat> {
        match self {
            Self::Plain => None,
            Self::Time(format) => Some(format),
        }
    }

    /// The same format of a value that is read in this way.
    #[must_use]
    pub(super) fn read_as(self, reading: TimeReading) -> Self {
        match self {
            Self::Plain => self,
            Self::Time(format) => Self::Time(TimeFormat { reading, ..format }),
        }
    }

    /// For a format of fixed length, what its text looks like: `0` stands for any digit.
    pub(super) fn shape(self) -> Option<&'static str> {
        match self {
            Self::Plain => None,
            Self::Time(format) => Some(format.bucket.shape()),
        }
    }
}

/// Why a text is not a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NotATemplate {
    /// It has no text at all.
    Empty,
    /// A brace has no partner, or stands inside another.
    Braces,
    /// `{}`.
    Nameless,
    /// A variable whose name has a space or another character that names do not have.
    InvalidName(String),
    /// Two variables follow each other.
    Neighbours(String, String),
    /// `{variable:format}` with a format that does not exist.
    UnknownFormat(NotAFormat),
}

impl fmt::Display for NotATemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("a key template must not be empty"),
            Self::Braces => f.write_str("unbalanced braces in the template; variables are written `{name}`"),
            Self::Nameless => f.write_str("a variable without a name; variables are written `{name}`"),
            Self::InvalidName(name) => write!(
                f,
                "`{{{name}}}`: the name of a variable is made of letters, digits, `_`, `-` and `.`; correct it"
            ),
            Self::Neighbours(first, second) => write!(
                f,
                "`{{{first}}}` and `{{{second}}}` follow each other, and a key could be split in several ways; put text between them"
            ),
            Self::UnknownFormat(NotAFormat::UnknownBucket(format)) => {
                write!(f, "unknown format `{format}`; known formats are {}", listed(TimeBucket::NAMES))?;
                f.write_str(&did_you_mean(format, TimeBucket::NAMES.iter().copied()))
            }
            Self::UnknownFormat(NotAFormat::UnknownZone(zone)) => f.write_str(&unknown_zone(zone)),
        }
    }
}

impl NotATemplate {
    pub(super) fn code(&self) -> ProblemCode {
        match self {
            Self::UnknownFormat(NotAFormat::UnknownBucket(_)) => ProblemCode::UnknownFormat,
            Self::UnknownFormat(NotAFormat::UnknownZone(_)) => ProblemCode::UnknownTimeZone,
            Self::InvalidName(_) => ProblemCode::InvalidName,
            Self::Empty | Self::Braces | Self::Nameless | Self::Neighbours(..) => {
                ProblemCode::InvalidTemplate
            }
        }
    }
}

/// The message about a zone that is not in the database.
pub(super) fn unknown_zone(zone: &str) -> String {
    let nearest = did_you_mean(zone, NamedZone::names());
    format!("unknown time zone `{zone}`; write a name of the IANA database, such as `Europe/Berlin`{nearest}")
}

/// Splits `bought_at:day` into the name and the format.
pub(super) fn split_format(variable: &str) -> Result<(&str, ValueFormat), NotATemplate> {
    let Some((name, format)) = variable.rsplit_once(':') else { return Ok((variable, ValueFormat::Plain)) };
    match TimeFormat::parse(format) {
        Ok(format) if !name.is_empty() => Ok((name, ValueFormat::Time(format))),
        Ok(_) => Err(NotATemplate::Nameless),
        Err(problem) => Err(NotATemplate::UnknownFormat(problem)),
    }
}

impl Template {
    /// Reads a template. Its variables are appended to `variables` under their whole names (`bought_at:day`), each once.
    pub(super) fn compile(text: &str, variables: &mut Vec<Arc<str>>) -> Result<Self, NotATemplate> {
        let mut pieces = Vec::new();
        let mut previous: Option<&str> = None;
        let mut rest = text;
        while !rest.is_empty() {
            let literal = &rest.get(..rest.find(['{', '}']).unwrap_or(rest.len())).unwrap_or_default();
            if !literal.is_empty() {
                pieces.push(TemplatePiece::Literal(Arc::from(*literal)));
                previous = None;
                rest = rest.get(literal.len()..).unwrap_or_default();
                continue;
            }
            let inside = rest.strip_prefix('{').ok_or(NotATemplate::Braces)?;
            let (name, after) = inside.split_once('}').ok_or(NotATemplate::Braces)?;
            if name.contains('{') {
                return Err(NotATemplate::Braces);
            }
            if name.is_empty() {
                return Err(NotATemplate::Nameless);
            }
            if let Some(previous) = previous {
                return Err(NotATemplate::Neighbours(previous.to_owned(), name.to_owned()));
            }
            let (base, format) = split_format(name)?;
            if !base.chars().all(|character| character.is_alphanumeric() || "_-.".contains(character)) {
                return Err(NotATemplate::InvalidName(base.to_owned()));
            }
            pieces.push(TemplatePiece::Variable(index_of(name, variables), format));
            previous = Some(name);
            rest = after;
        }
        if pieces.is_empty() {
            return Err(NotATemplate::Empty);
        }
        Ok(Self { pieces, separator: None })
    }

    /// The key of these values, which are aligned with the owner's list of variables and already formatted. A variable
    /// without a value is left out.
    #[must_use]
    pub fn render(&self, values: &[impl AsRef<str>]) -> String {
        let mut key = String::new();
        for piece in &self.pieces {
            key.push_str(match piece {
                TemplatePiece::Literal(text) => text,
                TemplatePiece::Variable(index, _) => values.get(*index).map_or("", AsRef::as_ref),
            });
        }
        key
    }

    /// Finds the values of the variables in a key. `bindings` is aligned with the owner's list of variables; one that is
    /// already bound (by the other attribute of the same primary key) must have the same value here. After `false`
    /// the bindings mean nothing.
    pub fn parse<'t>(&self, text: &'t str, bindings: &mut [Option<&'t str>]) -> bool {
        let mut rest = text;
        let mut pieces = self.pieces.as_slice();
        loop {
            // Pieces of a fixed length, then a variable of any.
            let fixed = pieces.iter().take_while(|piece| !is_open(piece)).count();
            let Some((chunk, after)) = pieces.split_at_checked(fixed) else { return false };
            let Some(left) = bind_chunk(chunk, rest, bindings) else { return false };
            let Some((piece, after)) = after.split_first() else { return left.is_empty() };
            let Some((index, _)) = piece.variable() else { return false };
            let next = after.iter().take_while(|piece| !is_open(piece)).count();
            let Some((chunk, beyond)) = after.split_at_checked(next) else { return false };
            let length =
                if beyond.is_empty() { last_length(chunk, left) } else { shortest_length(chunk, left) };
            let Some((value, left)) = length.and_then(|length| left.split_at_checked(length)) else {
                return false;
            };
            let is_separated = self.separator.is_some_and(|separator| value.contains(separator));
            if value.is_empty() || is_separated || !bind(index, value, bindings) {
                return false;
            }
            rest = left;
            pieces = after;
        }
    }

    /// Whether there is a text that both templates match. A variable that occurs more than once counts as several: the
    /// result may then be `true` for templates that only equal values distinguish.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        // Most templates of a model begin with different text, and need no further comparison.
        let mut beginnings = self.leading_literal().bytes().zip(other.leading_literal().bytes());
        if beginnings.any(|(mine, theirs)| mine != theirs) {
            return false;
        }
        let (mine, theirs) = (self.symbols(), other.symbols());
        // Both are walked together: a state is the position in each.
        let width = theirs.len() + 1;
        let mut seen = vec![false; (mine.len() + 1) * width];
        let mut open = vec![(0, 0)];
        while let Some((i, j)) = open.pop() {
            if i == mine.len() && j == theirs.len() {
                return true;
            }
            match seen.get_mut(i * width + j) {
                Some(seen) if !*seen => *seen = true,
                _ => continue,
            }
            let (a, b) = (mine.get(i), theirs.get(j));
            if a.is_some_and(TemplateSymbol::is_rest) {
                open.push((i + 1, j));
            }
            if b.is_some_and(TemplateSymbol::is_rest) {
                open.push((i, j + 1));
            }
            if let (Some(a), Some(b)) = (a, b)
                && a.meets(b)
            {
                open.push((i + usize::from(!a.is_rest()), j + usize::from(!b.is_rest())));
            }
        }
        false
    }

    /// Whether a text begins with the first literal: a cheap test that most texts of other templates fail.
    pub(crate) fn begins(&self, text: &str) -> bool {
        text.starts_with(self.leading_literal())
    }

    /// The text before the first variable.
    pub(super) fn leading_literal(&self) -> &str {
        match self.pieces.first() {
            Some(TemplatePiece::Literal(text)) => text,
            Some(TemplatePiece::Variable(..)) | None => "",
        }
    }

    fn symbols(&self) -> Vec<TemplateSymbol> {
        let mut symbols = Vec::new();
        for piece in &self.pieces {
            match piece {
                TemplatePiece::Literal(text) => symbols.extend(text.chars().map(TemplateSymbol::Exactly)),
                TemplatePiece::Variable(_, format) => match format.shape() {
                    None => symbols.extend([
                        TemplateSymbol::Any { except: self.separator },
                        TemplateSymbol::Rest { except: self.separator },
                    ]),
                    Some(shape) => symbols.extend(shape.chars().map(|character| match character {
                        '0' => TemplateSymbol::Digit,
                        other => TemplateSymbol::Exactly(other),
                    })),
                },
            }
        }
        symbols
    }
}

/// The characters that a template accepts at a position.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TemplateSymbol {
    Exactly(char),
    Digit,
    /// Any character but the separator.
    Any {
        except: Option<char>,
    },
    /// Any number of such characters, none included.
    Rest {
        except: Option<char>,
    },
}

impl TemplateSymbol {
    fn is_rest(&self) -> bool {
        match self {
            Self::Rest { .. } => true,
            Self::Exactly(_) | Self::Digit | Self::Any { .. } => false,
        }
    }

    fn meets(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Exactly(a), Self::Exactly(b)) => a == b,
            (Self::Exactly(character), Self::Digit) | (Self::Digit, Self::Exactly(character)) => {
                character.is_ascii_digit()
            }
            (Self::Exactly(character), Self::Any { except } | Self::Rest { except })
            | (Self::Any { except } | Self::Rest { except }, Self::Exactly(character)) => {
                *except != Some(*character)
            }
            // A separator never is a digit, so any digit will do; and two separators leave other characters.
            (Self::Digit | Self::Any { .. } | Self::Rest { .. }, Self::Digit)
            | (_, Self::Any { .. } | Self::Rest { .. }) => true,
        }
    }
}

fn index_of(name: &str, variables: &mut Vec<Arc<str>>) -> usize {
    if let Some(index) = variables.iter().position(|known| **known == *name) {
        return index;
    }
    variables.push(Arc::from(name));
    variables.len() - 1
}

/// Whether a piece is a variable of any length.
fn is_open(piece: &TemplatePiece) -> bool {
    match piece {
        TemplatePiece::Literal(_) => false,
        TemplatePiece::Variable(_, format) => format.shape().is_none(),
    }
}

fn bind<'t>(index: usize, value: &'t str, bindings: &mut [Option<&'t str>]) -> bool {
    match bindings.get_mut(index) {
        Some(Some(bound)) => *bound == value,
        Some(binding) => {
            *binding = Some(value);
            true
        }
        None => false,
    }
}

/// The rest of a text that begins with these pieces of fixed length.
fn match_chunk<'t>(
    chunk: &[TemplatePiece],
    text: &'t str,
    mut bound: impl FnMut(usize, &'t str) -> bool,
) -> Option<&'t str> {
    let mut rest = text;
    for piece in chunk {
        match piece {
            TemplatePiece::Literal(literal) => rest = rest.strip_prefix(&**literal)?,
            TemplatePiece::Variable(index, format) => {
                let shape = format.shape()?;
                let (value, after) = rest.split_at_checked(shape.len())?;
                if !fits_shape(value, shape) || !bound(*index, value) {
                    return None;
                }
                rest = after;
            }
        }
    }
    Some(rest)
}

fn bind_chunk<'t>(
    chunk: &[TemplatePiece],
    text: &'t str,
    bindings: &mut [Option<&'t str>],
) -> Option<&'t str> {
    match_chunk(chunk, text, |index, value| bind(index, value, bindings))
}

/// How long a variable is that these pieces follow, and then another variable: as short as they allow, but not empty.
fn shortest_length(chunk: &[TemplatePiece], text: &str) -> Option<usize> {
    // A variable follows no variable, so the chunk begins with a literal.
    let literal = chunk.first()?.literal()?;
    let mut from = text.chars().next()?.len_utf8();
    loop {
        let start = from + text.get(from..)?.find(literal)?;
        if match_chunk(chunk, text.get(start..)?, |_, _| true).is_some() {
            return Some(start);
        }
        from = start + text.get(start..)?.chars().next()?.len_utf8();
    }
}

/// How long the last variable is, after which these pieces end the text.
fn last_length(chunk: &[TemplatePiece], text: &str) -> Option<usize> {
    let ending = chunk.iter().map(|piece| match piece {
        TemplatePiece::Literal(literal) => literal.len(),
        TemplatePiece::Variable(_, format) => format.shape().map_or(0, str::len),
    });
    text.len().checked_sub(ending.sum())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn template(text: &str) -> Template {
        Template::compile(text, &mut Vec::new()).unwrap_or_else(|problem| panic!("{text}: {problem}"))
    }

    /// The values of the variables, in the order of their first occurrence.
    fn parse(text: &str, key: &str) -> Option<Vec<String>> {
        let mut variables = Vec::new();
        let template = Template::compile(text, &mut variables).unwrap();
        let mut bindings = vec![None; variables.len()];
        template
            .parse(key, &mut bindings)
            .then(|| bindings.into_iter().map(|value| value.unwrap().to_owned()).collect())
    }

    #[test]
    fn a_variable_is_listed_once_with_its_format() {
        let mut variables = vec![Arc::from("known")];
        let template = Template::compile("A#{day}#{bought_at:day}#{known}#{day}", &mut variables).unwrap();
        assert_eq!(
            variables.iter().map(|name| &**name).collect::<Vec<_>>(),
            ["known", "day", "bought_at:day"]
        );
        assert_eq!(template.render(&["k", "d", "2026-02-06"]), "A#d#2026-02-06#k#d");
    }

    #[test]
    fn invalid_templates() {
        let problem = |text: &str| Template::compile(text, &mut Vec::new()).unwrap_err();
        assert_eq!(problem(""), NotATemplate::Empty);
        for text in ["{", "}", "A#{b", "A#b}", "{a{b}}", "{{a}}", "A}{b}"] {
            assert_eq!(problem(text), NotATemplate::Braces, "{text}");
        }
        assert_eq!(problem("A#{}"), NotATemplate::Nameless);
        assert_eq!(problem("A#{:day}"), NotATemplate::Nameless);
        for name in ["task id", "a\tb", "a/b", " a"] {
            assert_eq!(problem(&format!("A#{{{name}}}")), NotATemplate::InvalidName(name.into()));
        }
        assert_eq!(problem("{a}{b:day}"), NotATemplate::Neighbours("a".into(), "b:day".into()));
        let unknown = |format| NotATemplate::UnknownFormat(format);
        assert_eq!(problem("{a:dya}"), unknown(NotAFormat::UnknownBucket("dya".into())));
        assert_eq!(problem("{a:dya@Europe/Berlin}"), unknown(NotAFormat::UnknownBucket("dya".into())));
        for zone in ["Europe/Berlyn", "europe/berlin", ""] {
            let problem = problem(&format!("{{a:day@{zone}}}"));
            assert_eq!(problem, unknown(NotAFormat::UnknownZone(zone.into())), "{zone}");
        }
        assert_eq!(problem("{:day@Europe/Berlin}"), NotATemplate::Nameless);
    }

    #[test]
    fn keys_are_parsed() {
        let cases: &[(&str, &str, Option<&[&str]>)] = &[
            ("PROJECT#{id}", "PROJECT#p1", Some(&["p1"])),
            ("PROJECT#{id}", "PROJECT#", None),
            ("PROJECT#{id}", "PROJECTS#p1", None),
            ("ROLLUP#TOTAL", "ROLLUP#TOTAL", Some(&[])),
            ("ROLLUP#TOTAL", "ROLLUP#TOTAL#", None),
            ("{id}", "anything#at all", Some(&["anything#at all"])),
            ("{id}", "", None),
            // Variables before the last take the shortest text, the last takes what is left.
            ("U#{date}#{action}#{time}", "U#d#a#t#t", Some(&["d", "a", "t#t"])),
            ("{a}#{b}", "##x", Some(&["#", "x"])),
            ("{a}#{b}", "x##", Some(&["x", "#"])),
            ("{a}#END", "x#END#END", Some(&["x#END"])),
            ("{a}#END", "#END", None),
            // Characters of several bytes, and literals that begin within the first one.
            ("{a}é{b}", "éééx", Some(&["é", "éx"])),
            ("{a}ü", "öü", Some(&["ö"])),
            // A day is ten characters, and no others.
            ("D#{at:day}", "D#2026-02-06", Some(&["2026-02-06"])),
            ("D#{at:day}", "D#2026-02-0", None),
            ("D#{at:day}", "D#2026-02-06T", None),
            ("D#{at:day}", "D#2026-O2-06", None),
            ("D#{at:day}", "D#éééé-02-06", None),
            ("{at:day}#{rest}", "2026-02-06#x", Some(&["2026-02-06", "x"])),
            // The other formats have fixed lengths, too, with a zone or without.
            ("D#{at:day@Europe/Berlin}", "D#2026-02-06", Some(&["2026-02-06"])),
            ("{at:minute}#{rest}", "2026-02-06T14:30#x", Some(&["2026-02-06T14:30", "x"])),
            ("{at:minute}", "2026-02-06T14", None),
            ("{a}#{at:hour}", "x#2026-02-06T14", Some(&["x", "2026-02-06T14"])),
            ("{a}#{at:week}#{b}", "x#2026-06#2026-W06#z", Some(&["x#2026-06", "2026-W06", "z"])),
            ("{at:month}", "2026-02", Some(&["2026-02"])),
            ("{at:quarter}", "2026-Q1", Some(&["2026-Q1"])),
            ("{at:quarter}", "2026-01", None),
            ("{at:year}#{at:month}", "2026#2026-02", Some(&["2026", "2026-02"])),
            // The first `#` is followed by no day, so the variable goes on.
            ("{a}#{at:day}#{b}", "x#y#2026-02-06#z", Some(&["x#y", "2026-02-06", "z"])),
            ("{a}#{at:day}", "x#2026-02-06#2026-02-07", Some(&["x#2026-02-06", "2026-02-07"])),
            // One variable, one value.
            ("{a}#{a}", "x#x", Some(&["x"])),
            ("{a}#{a}", "x#y", None),
        ];
        for (text, key, values) in cases {
            let expected = values.map(|values| values.iter().map(|value| (*value).to_owned()).collect());
            assert_eq!(parse(text, key), expected, "{text} against {key}");
        }
    }

    #[test]
    fn a_variable_of_both_keys_has_one_value() {
        let mut variables = Vec::new();
        let partition = Template::compile("USER#{email}", &mut variables).unwrap();
        let sort = Template::compile("USER#{email}", &mut variables).unwrap();
        for (sort_key, fits) in [("USER#a@x", true), ("USER#b@x", false)] {
            let mut bindings = [None];
            assert!(partition.parse("USER#a@x", &mut bindings));
            assert_eq!(sort.parse(sort_key, &mut bindings), fits);
        }
    }

    #[test]
    fn a_separator_limits_what_variables_match() {
        let separated = |text: &str| Template { separator: Some('#'), ..template(text) };
        for (text, key, matches) in [
            ("ORDER#{a}", "ORDER#1", true),
            ("ORDER#{a}", "ORDER#1#ITEM#2", false),
            ("{a}-{b}#{c}", "x-y-z#1", true),
            ("{a}-{b}#{c}", "x#-y#1", false),
        ] {
            assert_eq!(separated(text).parse(key, &mut [None; 3]), matches, "{text} against {key}");
        }
        let (order, line) = (separated("ORDER#{a}"), separated("ORDER#{a}#ITEM#{b}"));
        assert!(!order.overlaps(&line) && !line.overlaps(&order));
        // Keys of rollups are not restricted: one of these can be the key of an order.
        assert!(order.overlaps(&template("ORDER#{a}")) && template("{any}").overlaps(&order));
        assert!(!order.overlaps(&template("ORDER#{a}#ROLLUP")));
    }

    #[test]
    fn overlaps_of_everyday_keys() {
        for (a, b, overlap) in [
            ("QUESTION#{id}", "QUESTION#{id}", true),
            ("QUESTION#{id}", "ROLLUP#{id}", false),
            ("ROLLUP#PROJECT#{id}#TOTAL", "ROLLUP#PROJECT#{id}#DAY#{at:day}", false),
            ("ROLLUP#PROJECT#{id}#{at:day}", "ROLLUP#PROJECT#{id}#DAY#{at:day}", true),
            ("ROLLUP#{any}", "ROLLUP#TOTAL", true),
            ("ROLLUP#DAY#{at:day}", "ROLLUP#DAY#TOTAL", false),
            ("ROLLUP#DAY#{at:day}", "ROLLUP#DAY#2026-02-06", true),
            ("ROLLUP#{at:day}", "ROLLUP#{at:hour}", false),
            ("ROLLUP#{at:month}", "ROLLUP#{at:quarter}", false),
            ("ROLLUP#{at:week}", "ROLLUP#{at:week@Europe/Berlin}", true),
            ("{id}", "x", true),
            ("{id}x", "x", false),
            ("A#{id}", "A#", false),
            ("{a}é", "{b}è", false),
        ] {
            assert_eq!(template(a).overlaps(&template(b)), overlap, "{a} and {b}");
            assert_eq!(template(b).overlaps(&template(a)), overlap, "{b} and {a}");
        }
    }

    /// Templates over two letters, each variable once; a `:day` would be too long for brute force.
    fn small_template() -> impl Strategy<Value = String> {
        prop_oneof![small_template_of("[ab]", 2), small_template_of("[ab]{1,2}", 1)]
    }

    fn small_template_of(literal: &'static str, most: usize) -> impl Strategy<Value = String> {
        (prop::option::of(literal), prop::collection::vec(literal, 0..=most), any::<bool>()).prop_map(
            |(first, between, ends_in_variable)| {
                let mut text = first.unwrap_or_default();
                for (index, literal) in between.iter().enumerate() {
                    text.push_str(&format!("{{v{index}}}{literal}"));
                }
                if ends_in_variable || text.is_empty() {
                    text.push_str("{last}");
                }
                text
            },
        )
    }

    /// All texts over two letters of up to this length.
    fn small_texts(length: usize) -> Vec<String> {
        let mut texts = vec![String::new()];
        let mut from = 0;
        for _ in 0..length {
            for index in from..texts.len() {
                for letter in ["a", "b"] {
                    texts.push(format!("{}{letter}", texts[index]));
                }
            }
            from = texts.len() / 2;
        }
        texts.sort();
        texts.dedup();
        texts
    }

    /// Whether some values of the variables make this key: tries them all.
    fn matches_somehow(pieces: &[TemplatePiece], key: &str) -> bool {
        match pieces.split_first() {
            None => key.is_empty(),
            Some((TemplatePiece::Literal(text), rest)) => {
                key.strip_prefix(&**text).is_some_and(|key| matches_somehow(rest, key))
            }
            Some((TemplatePiece::Variable(..), rest)) => {
                (1..=key.len()).any(|length| matches_somehow(rest, &key[length..]))
            }
        }
    }

    /// A template of some shape and values of its variables that do not contain the literal that follows them.
    fn template_and_values() -> impl Strategy<Value = (String, Vec<String>)> {
        let literal = "[#A-ZÄé]{1,4}";
        let value = "[a-zß0-9.@ üλ🙂]{1,6}";
        let last = "[a-zß#A-ZÄé.🙂]{1,8}";
        (prop::option::of(literal), prop::collection::vec((value, literal), 0..4), prop::option::of(last))
            .prop_map(|(first, parts, last)| {
                let mut text = first.unwrap_or_default();
                let mut values = Vec::new();
                for (index, (value, literal)) in parts.into_iter().enumerate() {
                    text.push_str(&format!("{{v{index}}}{literal}"));
                    values.push(value);
                }
                if let Some(last) = last {
                    text.push_str("{last}");
                    values.push(last);
                }
                if text.is_empty() {
                    text.push('#');
                }
                (text, values)
            })
    }

    proptest! {
        #[test]
        fn a_rendered_key_parses_to_the_same_values((text, values) in template_and_values()) {
            let key = template(&text).render(&values);
            prop_assert_eq!(parse(&text, &key), Some(values));
        }

        #[test]
        fn a_parsed_key_renders_the_same(text in small_template(), key in "[ab]{0,7}") {
            if let Some(values) = parse(&text, &key) {
                prop_assert_eq!(template(&text).render(&values), key);
            }
        }

        #[test]
        fn a_key_is_parsed_if_any_values_make_it(text in small_template(), key in "[ab]{0,7}") {
            prop_assert_eq!(parse(&text, &key).is_some(), matches_somehow(&template(&text).pieces, &key));
        }

        #[test]
        fn overlap_agrees_with_trying_every_text(a in small_template(), b in small_template()) {
            let (first, second) = (template(&a), template(&b));
            // If they overlap, then in a text of both beginnings and endings, all literals between, and a letter for each
            // variable: here at most 10 letters.
            let meets = small_texts(10)
                .iter()
                .any(|text| matches_somehow(&first.pieces, text) && matches_somehow(&second.pieces, text));
            prop_assert_eq!(first.overlaps(&second), meets, "{} and {}", a, b);
        }
    }
}
