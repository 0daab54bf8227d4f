//! The shape of a key: constant words and variables between separators.

use std::collections::BTreeSet;

use super::texts::{WordStyle, folded, segments, word_style};

/// Characters that texts contain too, such as names and addresses.
pub(super) const OF_TEXT: [char; 3] = ['.', '_', '-'];

/// A segment of a key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum KeySegment {
    Constant(String),
    /// Any text after the prefix. The last segment of a shape takes all that is left.
    Variable(String),
}

impl KeySegment {
    /// The text, if it is constant.
    pub(super) fn constant(&self) -> Option<&str> {
        match self {
            Self::Constant(text) => Some(text),
            Self::Variable(_) => None,
        }
    }
}

/// The shape of a key attribute.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct KeyShape {
    pub(super) separator: Option<char>,
    pub(super) segments: Vec<KeySegment>,
}

impl KeyShape {
    /// A shape that matches every key.
    pub(super) fn open() -> Self {
        Self { separator: None, segments: vec![KeySegment::Variable(String::new())] }
    }

    /// The shape as a template, with a name for each variable.
    pub(super) fn template(&self, names: &[String]) -> String {
        let mut names = names.iter();
        let segments = self.segments.iter().map(|segment| match segment {
            KeySegment::Constant(text) => text.clone(),
            KeySegment::Variable(prefix) => {
                format!("{prefix}{{{}}}", names.next().map_or("", String::as_str))
            }
        });
        segments.collect::<Vec<_>>().join(&self.separator_text())
    }

    /// The values of the variables in a key of this shape.
    pub(super) fn values(&self, text: &str) -> Vec<String> {
        let parts = segments(text, self.separator);
        let last = self.segments.len().saturating_sub(1);
        let value = |(index, segment): (usize, &KeySegment)| {
            let KeySegment::Variable(prefix) = segment else { return None };
            let value = match index == last {
                true => parts.get(index..).unwrap_or_default().join(&self.separator_text()),
                false => parts.get(index).copied().unwrap_or_default().to_owned(),
            };
            Some(value.strip_prefix(prefix.as_str()).map_or(value.clone(), str::to_owned))
        };
        self.segments.iter().enumerate().filter_map(value).collect()
    }

    fn separator_text(&self) -> String {
        self.separator.map(String::from).unwrap_or_default()
    }

    /// The constants, in order.
    pub(super) fn constants(&self) -> impl Iterator<Item = &str> {
        self.segments.iter().filter_map(KeySegment::constant)
    }

    /// For each variable, the word right before it, and how many variables are between them.
    pub(super) fn prefixes(&self) -> Vec<(Option<&str>, usize)> {
        let (mut word, mut distance, mut prefixes) = (None, 0, Vec::new());
        for segment in &self.segments {
            match segment {
                KeySegment::Constant(text) => (word, distance) = (Some(text.as_str()), 0),
                KeySegment::Variable(prefix) => {
                    if !prefix.is_empty() {
                        (word, distance) = (Some(prefix.as_str()), 0);
                    }
                    prefixes.push((word, distance));
                    distance += 1;
                }
            }
        }
        prefixes
    }

    /// Moves a text that begins all values of a variable into the shape if it is the name of an attribute of these items, as in
    /// ElectroDB's `employee_{employee}`.
    pub(super) fn with_prefixes(mut self, keys: &[&str], attributes: &BTreeSet<String>) -> Self {
        let rows: Vec<Vec<String>> = keys.iter().map(|key| self.values(key)).collect();
        let variables = self.segments.iter_mut().filter_map(|segment| match segment {
            KeySegment::Constant(_) => None,
            KeySegment::Variable(prefix) => Some(prefix),
        });
        for (place, prefix) in variables.enumerate() {
            let mut values = rows.iter().filter_map(|row| row.get(place));
            let Some(first) = values.next() else { continue };
            let ends = first.char_indices().filter(|(_, one)| OF_TEXT.contains(one) || ":=".contains(*one));
            let names = ends.filter_map(|(end, _)| Some((first.get(..end)?, first.get(..=end)?)));
            let mut names = names.filter(|(name, _)| attributes.contains(&folded(name)));
            if let Some((_, found)) = names.next_back()
                && values.all(|value| value.len() > found.len() && value.starts_with(found))
            {
                *prefix = found.to_owned();
            }
        }
        self
    }
}

/// The position of a segment, with the style of the nearest constant before it.
#[derive(Clone, Copy)]
pub(super) enum SegmentPosition {
    Start,
    AfterConstant(Option<WordStyle>),
    AfterVariable(Option<WordStyle>),
}

impl SegmentPosition {
    /// The position after these segments.
    pub(super) fn after(path: &[KeySegment]) -> Self {
        let nearest = path.iter().rev().find_map(KeySegment::constant).and_then(word_style);
        match path.last() {
            None => Self::Start,
            // After a separator that begins the key.
            Some(KeySegment::Constant(text)) if text.is_empty() && path.len() == 1 => Self::Start,
            Some(KeySegment::Constant(_)) => Self::AfterConstant(nearest),
            Some(KeySegment::Variable(_)) => Self::AfterVariable(nearest),
        }
    }
}
