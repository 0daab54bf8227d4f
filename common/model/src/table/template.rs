//! Key templates: `ROLLUP#SHELF#{shelf_id}#DAY#{bought_at:day}`.
//!
//! A template works both ways: [`Template::render`] makes a key from values, [`Template::parse`] finds the values in a key.
//! Between two variables there is always literal text, so that a key has one reading: every variable but the last takes
//! the shortest text before the literal that follows it, the last takes all that is left.

mod overlap;

use std::borrow::Cow;
use std::sync::Arc;

use smallvec::SmallVec;

use super::format_zone::{ItemZone, is_unfit_bare};
use super::template_problem::NotATemplate;
use super::term::Term;
use super::time_bucket::fits_shape;
use super::time_format::TimeFormat;
use super::time_reading::TimeReading;
use crate::record::{AttributePath, InvalidPath, unquoted_places};

/// A key template: literal text and variables. The default has no pieces: it stands for one that could not be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Template {
    /// Literals and variables in order; no two variables are neighbours.
    pub pieces: Vec<TemplatePiece>,
    /// A character that the values of variables do not contain, if the table declares one. A variable with a format of fixed length is exempt.
    pub separator: Option<char>,
    /// Whether a variable can be empty: values of items are written into keys of rollups as they are. No key of an application's items is read so.
    pub may_be_empty: bool,
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
    pub(super) fn variable(&self) -> Option<(usize, &ValueFormat)> {
        match self {
            Self::Literal(_) => None,
            Self::Variable(index, format) => Some((*index, format)),
        }
    }
}

/// How a value is written into a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValueFormat {
    /// As it is: text, a number's digits, `true` or `false`.
    Plain,
    /// The part of the calendar that a time lies in.
    Time(TimeFormat),
}

impl ValueFormat {
    /// The format of a time; `None` for the format of a variable without one.
    #[must_use]
    pub fn time(&self) -> Option<&TimeFormat> {
        match self {
            Self::Plain => None,
            Self::Time(format) => Some(format),
        }
    }

    /// Whether the value is written as it is.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.time().is_none()
    }

    /// The zone of its calendar, if each item states it.
    pub(super) fn item_zone(&self) -> Option<&ItemZone> {
        self.time().and_then(|format| format.zone.of_item())
    }

    /// The value that states the zone of its calendar, if each item does.
    pub(crate) fn zone_term(&self) -> Option<&Term> {
        self.item_zone().and_then(|zone| zone.term.as_ref())
    }

    /// The same format of a value that is read in this way.
    #[must_use]
    pub(super) fn read_as(self, reading: TimeReading) -> Self {
        match self {
            Self::Plain => Self::Plain,
            Self::Time(format) => Self::Time(TimeFormat { reading, ..format }),
        }
    }

    /// The same format, whose zone is this value of the item.
    #[must_use]
    pub(super) fn with_zone_of(&self, term: Term) -> Self {
        match self {
            Self::Plain => Self::Plain,
            Self::Time(format) => {
                Self::Time(TimeFormat { zone: format.zone.bound_to(term), ..format.clone() })
            }
        }
    }

    /// For a format of fixed length, what its text looks like: `0` stands for any digit.
    pub(super) fn shape(&self) -> Option<&'static str> {
        match self {
            Self::Plain => None,
            Self::Time(format) => Some(format.bucket.shape()),
        }
    }
}

/// Splits `bought_at:day` into the name and the format.
pub(super) fn split_format(variable: &str) -> Result<(&str, ValueFormat), NotATemplate> {
    let colon = unquoted_places(variable, |character| character == ':').last();
    let split = colon.and_then(|colon| variable.split_at_checked(colon));
    let Some((name, format)) = split else { return Ok((variable, ValueFormat::Plain)) };
    let format = format.strip_prefix(':').unwrap_or(format);
    match TimeFormat::parse(format) {
        Ok(format) if !name.is_empty() => Ok((name, ValueFormat::Time(format))),
        Ok(_) => Err(NotATemplate::Nameless),
        Err(problem) => Err(NotATemplate::UnknownFormat(problem)),
    }
}

/// Splits the text after the `{` of a variable at the brace that follows its name, which may have braces in quotes.
pub(super) fn split_at_brace(inside: &str) -> Option<(&str, &str)> {
    let brace = unquoted_places(inside, |character| "{}".contains(character)).next();
    inside.split_at_checked(brace?)
}

/// A name, with or without a format, in its canonical form: in quotes only where it needs them.
pub(super) fn canonical_name(written: &str) -> Result<Cow<'_, str>, InvalidPath> {
    if !written.contains('\'') {
        return Ok(Cow::Borrowed(written));
    }
    let (base, format) = match split_format(written) {
        Ok((base, ValueFormat::Time(format))) => (base, format!(":{format}")),
        Ok((base, ValueFormat::Plain)) => (base, String::new()),
        Err(_) => (written, String::new()),
    };
    let path: AttributePath = base.parse()?;
    Ok(Cow::Owned(format!("{path}{format}")))
}

/// A name in the way in which it is compared. A name that cannot be read stays as it is; it is reported where it is resolved.
pub(super) fn known_name(written: &str) -> Cow<'_, str> {
    canonical_name(written).unwrap_or(Cow::Borrowed(written))
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
            let (name, after) = split_at_brace(inside).ok_or_else(|| NotATemplate::open_variable(inside))?;
            let after = after.strip_prefix('}').ok_or(NotATemplate::Braces)?;
            if name.is_empty() {
                return Err(NotATemplate::Nameless);
            }
            if let Some(previous) = previous {
                return Err(NotATemplate::Neighbours(previous.to_owned(), name.to_owned()));
            }
            let (base, format) = split_format(name)?;
            if is_unfit_bare(base) {
                return Err(NotATemplate::InvalidName(base.to_owned()));
            }
            let known = canonical_name(name)
                .map_err(|problem| NotATemplate::InvalidPath(base.to_owned(), problem))?;
            pieces.push(TemplatePiece::Variable(index_of(&known, variables), format));
            previous = Some(name);
            rest = after;
        }
        if pieces.is_empty() {
            return Err(NotATemplate::Empty);
        }
        Ok(Self { pieces, ..Self::default() })
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

    /// The template that matches this text only.
    pub(super) fn literal(text: &str) -> Self {
        Self { pieces: vec![TemplatePiece::Literal(Arc::from(text))], ..Self::default() }
    }

    /// The template with the written value of a variable in its places.
    pub(super) fn with_value(&self, variable: usize, written: &str) -> Self {
        let pieces = self.pieces.iter().map(|piece| match piece {
            TemplatePiece::Variable(index, _) if *index == variable => {
                TemplatePiece::Literal(Arc::from(written))
            }
            TemplatePiece::Variable(..) | TemplatePiece::Literal(_) => piece.clone(),
        });
        let Self { separator, may_be_empty, .. } = *self;
        Self { pieces: pieces.collect(), separator, may_be_empty }
    }

    /// Finds the values of the variables in a key. `bindings` is aligned with the owner's list of variables. A variable
    /// that is already bound (by the other attribute of the same primary key) must have the same value here. After `false`
    /// the bindings mean nothing. A variable is empty only if the key has no other reading.
    pub fn parse<'t>(&self, text: &'t str, bindings: &mut [Option<&'t str>]) -> bool {
        if !self.may_be_empty {
            return self.find_values(text, bindings, ValueLength::AtLeastOne);
        }
        let bound = SmallVec::<[Option<&str>; 4]>::from_slice(bindings);
        self.begins(text)
            && (self.find_values(text, bindings, ValueLength::AtLeastOne) || {
                bindings.copy_from_slice(&bound);
                self.find_values(text, bindings, ValueLength::Any)
            })
    }

    fn find_values<'t>(&self, text: &'t str, bindings: &mut [Option<&'t str>], length: ValueLength) -> bool {
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
            let found = if beyond.is_empty() {
                last_length(chunk, left)
            } else {
                shortest_length(chunk, left, length)
            };
            let Some((value, left)) = found.and_then(|found| left.split_at_checked(found)) else {
                return false;
            };
            let is_separated = self.separator.is_some_and(|separator| value.contains(separator));
            let is_too_short = value.is_empty() && length == ValueLength::AtLeastOne;
            if is_too_short || is_separated || !bind(index, value, bindings) {
                return false;
            }
            rest = left;
            pieces = after;
        }
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

/// How long the value of a variable is in one reading of a key.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ValueLength {
    AtLeastOne,
    Any,
}

/// How long a variable is that these pieces follow, and then another variable: as short as they allow.
fn shortest_length(chunk: &[TemplatePiece], text: &str, length: ValueLength) -> Option<usize> {
    // A variable follows no variable, so the chunk begins with a literal.
    let literal = chunk.first()?.literal()?;
    let mut from = match length {
        ValueLength::AtLeastOne => text.chars().next()?.len_utf8(),
        ValueLength::Any => 0,
    };
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
mod tests;
