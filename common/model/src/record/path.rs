//! The place of an attribute in an item, and how it is written.
//!
//! A path is names with dots between them: `stats.books`. A name that has a dot, a colon or another character of the notation is written in
//! single quotes: `'example.txt'`, `stats.'first.edition'`, and a quote in it twice: `'the reader''s'`. Any name may be quoted.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use smallvec::{SmallVec, smallvec};

use super::{AttributeValue, Item};

/// The place of an attribute in an item: its name, or the names of the maps around it, outermost first, and its name.
///
/// ```
/// use afterwrite_model::record::AttributePath;
/// let path: AttributePath = "stats.books".parse()?;
/// assert_eq!((&**path.root(), path.within().len(), path.to_string()), ("stats", 1, "stats.books".to_owned()));
/// let quoted: AttributePath = "'stats.books'".parse()?;
/// assert_eq!(quoted, AttributePath::from("stats.books"), "the dot is part of the name");
/// assert_eq!(quoted.to_string(), "'stats.books'");
/// # Ok::<(), afterwrite_model::record::InvalidPath>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttributePath {
    /// At least one; most attributes are at the top level.
    names: SmallVec<[Arc<str>; 1]>,
}

impl AttributePath {
    /// The place below a top-level attribute, through maps of these names.
    #[must_use]
    pub fn nested(root: Arc<str>, within: impl IntoIterator<Item = Arc<str>>) -> Self {
        Self { names: std::iter::once(root).chain(within).collect() }
    }

    /// All names, outermost first.
    #[must_use]
    pub fn names(&self) -> &[Arc<str>] {
        &self.names
    }

    /// The top-level attribute.
    #[must_use]
    #[expect(clippy::indexing_slicing, reason = "every constructor adds a name")]
    pub fn root(&self) -> &Arc<str> {
        &self.names[0]
    }

    /// The names within the top-level attribute, outermost first.
    #[must_use]
    pub fn within(&self) -> &[Arc<str>] {
        self.names.get(1..).unwrap_or_default()
    }

    /// The names of the innermost map around the attribute; `None` for a top-level attribute.
    #[must_use]
    pub fn parent(&self) -> Option<&[Arc<str>]> {
        self.names.split_last().map(|(_, parent)| parent).filter(|parent| !parent.is_empty())
    }

    /// The maps around the attribute, outermost first.
    pub fn maps(&self) -> impl Iterator<Item = Self> {
        (1..self.names.len()).map(|depth| Self { names: self.names.iter().take(depth).cloned().collect() })
    }

    /// The attribute next to this one whose name ends in `suffix`: `stats.books_rev`.
    #[must_use]
    pub fn with_suffix(&self, suffix: &str) -> Self {
        let mut names = self.names.clone();
        if let Some(last) = names.last_mut() {
            *last = Arc::from(format!("{last}{suffix}"));
        }
        Self { names }
    }

    /// The path with quotes around every name.
    #[must_use]
    pub fn quoted(&self) -> String {
        let names: Vec<String> = self.names.iter().map(|name| quoted(name)).collect();
        names.join(".")
    }

    /// Whether this is the other, or lies within it.
    #[must_use]
    pub fn is_within(&self, other: &Self) -> bool {
        self.names.starts_with(&other.names)
    }

    /// The value at this place of an item.
    #[must_use]
    pub fn read<'i>(&self, item: &'i Item) -> Option<&'i AttributeValue<'static>> {
        let mut value = item.get(&**self.root())?;
        for name in self.within() {
            let AttributeValue::M(members) = value else { return None };
            value = members.get(&**name)?;
        }
        Some(value)
    }

    /// Whether one of the two is the other, or lies within it.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        self.names.iter().zip(&other.names).all(|(mine, theirs)| mine == theirs)
    }
}

/// As model files write it: with dots between the names, and quotes around a name that needs them.
impl fmt::Display for AttributePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, name) in self.names.iter().enumerate() {
            write!(f, "{}{}", if place == 0 { "" } else { "." }, written_name(name))?;
        }
        Ok(())
    }
}

impl FromStr for AttributePath {
    type Err = InvalidPath;

    fn from_str(text: &str) -> Result<Self, InvalidPath> {
        let (mut names, mut rest) = (SmallVec::new(), text);
        loop {
            let (name, after) = first_name(rest)?;
            names.push(Arc::from(name));
            match after.strip_prefix('.') {
                Some(more) => rest = more,
                None if after.is_empty() => return Ok(Self { names }),
                None => return Err(InvalidPath::TextAfterQuote),
            }
        }
    }
}

/// Why a text is not the path of an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidPath {
    /// A name is empty.
    EmptyName,
    /// A quote is not closed.
    OpenQuote,
    /// Something else than a dot follows a quoted name.
    TextAfterQuote,
    /// A character that is part of a name only in quotes, because it looks like the notation of other tools.
    Unquoted(char),
}

/// The problem, and the text to write instead.
impl fmt::Display for InvalidPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EmptyName => f.write_str("write names with single dots between them"),
            Self::OpenQuote => {
                f.write_str("close the quote; a quote within a quoted name is written twice: `'the reader''s'`")
            }
            Self::TextAfterQuote => f.write_str("write a dot or nothing after a quoted name"),
            Self::Unquoted('[' | ']' | '*') => f.write_str(
                "a path through a list means every element, as in `lines.sku`; if the character is part of a name, write the name in single quotes",
            ),
            Self::Unquoted(character) => {
                write!(f, "if {character:?} is part of a name, write the name in single quotes: `'first.name'`")
            }
        }
    }
}

impl std::error::Error for InvalidPath {}

/// Opens and closes a quoted name.
const QUOTE: char = '\'';

/// A name as a path has it: in quotes if it would mean something else without them.
#[must_use]
pub fn written_name(name: &str) -> Cow<'_, str> {
    let is_special = |character: char| ".:{}".contains(character) || must_be_quoted(character);
    let is_bare = !name.is_empty() && !name.starts_with(QUOTE) && name.trim() == name;
    if is_bare && !name.contains(is_special) {
        return Cow::Borrowed(name);
    }
    Cow::Owned(quoted(name))
}

fn quoted(name: &str) -> String {
    format!("{QUOTE}{}{QUOTE}", name.replace(QUOTE, "''"))
}

/// The places of the wanted characters outside quoted names. A name begins at the start, after a dot, and after the `@` of a format.
pub(crate) fn unquoted_places(text: &str, is_wanted: impl Fn(char) -> bool) -> impl Iterator<Item = usize> {
    let (mut is_start, mut is_quoted) = (true, false);
    let mut is_found = move |character: char| {
        match (is_quoted, character) {
            // A quote that is written twice closes a name and opens it again.
            (true, QUOTE) => (is_quoted, is_start) = (false, true),
            (true, _) => {}
            (false, QUOTE) if is_start => is_quoted = true,
            (false, _) => {
                is_start = ".@".contains(character);
                return is_wanted(character);
            }
        }
        false
    };
    text.char_indices().filter_map(move |(at, character)| is_found(character).then_some(at))
}

/// Whether a character is part of a name only in quotes, although the notation does not use it.
fn must_be_quoted(character: char) -> bool {
    "[]*\"`".contains(character) || character.is_control()
}

/// The first name of a path, and the text after it.
fn first_name(text: &str) -> Result<(Cow<'_, str>, &str), InvalidPath> {
    let Some(quoted) = text.strip_prefix(QUOTE) else {
        let (name, after) = text.split_at(text.find('.').unwrap_or(text.len()));
        return match name.chars().find(|character| must_be_quoted(*character)) {
            _ if name.is_empty() => Err(InvalidPath::EmptyName),
            Some(character) => Err(InvalidPath::Unquoted(character)),
            None => Ok((Cow::Borrowed(name), after)),
        };
    };
    let (mut name, mut rest) = (String::new(), quoted);
    loop {
        let (part, after) = rest.split_once(QUOTE).ok_or(InvalidPath::OpenQuote)?;
        name.push_str(part);
        match after.strip_prefix(QUOTE) {
            Some(more) => {
                name.push(QUOTE);
                rest = more;
            }
            None if name.is_empty() => return Err(InvalidPath::EmptyName),
            None => return Ok((Cow::Owned(name), after)),
        }
    }
}

impl From<&str> for AttributePath {
    /// A top-level attribute of exactly this name: dots are part of it.
    fn from(name: &str) -> Self {
        Self::from(Arc::from(name))
    }
}

impl From<Arc<str>> for AttributePath {
    fn from(name: Arc<str>) -> Self {
        Self { names: smallvec![name] }
    }
}

impl From<&Arc<str>> for AttributePath {
    fn from(name: &Arc<str>) -> Self {
        Self::from(Arc::clone(name))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_path_is_read_as_it_is_written() {
        for (written, names, canonical) in [
            ("a", &["a"][..], "a"),
            ("a.b", &["a", "b"], "a.b"),
            ("'a.b'", &["a.b"], "'a.b'"),
            ("'a'.b", &["a", "b"], "a.b"),
            ("a.'b.c'.d", &["a", "b.c", "d"], "a.'b.c'.d"),
            ("'it''s'", &["it's"], "it's"),
            ("''''", &["'"], "''''"),
            ("aws:rep:updatetime", &["aws:rep:updatetime"], "'aws:rep:updatetime'"),
            ("First Name", &["First Name"], "First Name"),
            ("größe", &["größe"], "größe"),
            ("'[*]'", &["[*]"], "'[*]'"),
        ] {
            let path: AttributePath =
                written.parse().unwrap_or_else(|problem| panic!("{written}: {problem}"));
            let read: Vec<&str> = path.names().iter().map(|name| &**name).collect();
            assert_eq!((read.as_slice(), &*path.to_string()), (names, canonical), "{written}");
        }
    }

    #[test]
    fn a_text_that_is_not_a_path_is_refused() {
        for (written, problem) in [
            ("", InvalidPath::EmptyName),
            ("a..b", InvalidPath::EmptyName),
            ("a.", InvalidPath::EmptyName),
            ("''", InvalidPath::EmptyName),
            ("'a", InvalidPath::OpenQuote),
            ("'a''", InvalidPath::OpenQuote),
            ("'a'b", InvalidPath::TextAfterQuote),
            ("a[0].b", InvalidPath::Unquoted('[')),
            ("a.*", InvalidPath::Unquoted('*')),
        ] {
            assert_eq!(written.parse::<AttributePath>(), Err(problem), "{written}");
        }
    }

    #[test]
    fn quoted_characters_are_passed_over() {
        let colons = |text| unquoted_places(text, |character| character == ':').collect::<Vec<_>>();
        assert_eq!(colons("'a:b':day"), [5]);
        assert_eq!(colons("a.'b:''c:':day"), [10]);
        assert_eq!(colons("it's:day"), [4]);
        assert_eq!(colons("at:day@'the:zone'"), [2]);
    }

    proptest! {
        #[test]
        fn every_name_has_a_written_form(
            names in proptest::collection::vec("[ -~]{1,6}|\\PC{1,4}|[.:'{}\n]{1,4}", 1..4),
        ) {
            let mut parts = names.iter().map(|name| Arc::from(name.as_str()));
            let path = AttributePath::nested(parts.next().unwrap(), parts);
            prop_assert_eq!(path.to_string().parse(), Ok(path));
        }
    }
}
