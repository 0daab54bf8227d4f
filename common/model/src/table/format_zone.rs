//! The zone of a format's calendar: UTC, a zone of the IANA database, or the zone that each item states (`day@city_zone`).

use std::fmt;
use std::sync::Arc;

use super::term::Term;
use crate::record::{AttributePath, NamedZone};

/// The zone of a format's calendar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FormatZone {
    /// UTC.
    Utc,
    /// The same zone for all items.
    Named(NamedZone),
    /// The zone whose name each item holds.
    OfItem(Arc<ItemZone>),
}

/// The value of an item that is the name of a zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemZone {
    /// Its name in the model.
    pub name: Arc<str>,
    /// The value. A template on its own does not know; the scope of an entity does.
    pub term: Option<Term>,
}

impl FormatZone {
    /// Reads the text after the `@`: a zone of the database, otherwise the name of a value. `None` if it is neither.
    pub(super) fn parse(written: &str) -> Option<Self> {
        if let Some(zone) = NamedZone::of_name(written) {
            return Some(Self::Named(zone));
        }
        if written.is_empty() || is_unfit_bare(written) {
            return None;
        }
        let name: AttributePath = written.parse().ok()?;
        Some(Self::OfItem(Arc::new(ItemZone { name: Arc::from(name.to_string()), term: None })))
    }

    /// Whether it is UTC.
    pub(super) fn is_utc(&self) -> bool {
        match self {
            Self::Utc => true,
            Self::Named(_) | Self::OfItem(_) => false,
        }
    }

    /// Whether it is the same as a zone that all items have; `None` is UTC.
    pub(super) fn is_fixed_as(&self, zone: Option<NamedZone>) -> bool {
        match self {
            Self::Utc => zone.is_none(),
            Self::Named(own) => zone == Some(*own),
            Self::OfItem(_) => false,
        }
    }

    /// The zone that all items have; `None` is UTC, in which the buckets of a zone of each item are read again.
    pub(super) fn of_all(&self) -> Option<NamedZone> {
        match self {
            Self::Named(zone) => Some(*zone),
            Self::Utc | Self::OfItem(_) => None,
        }
    }

    /// The same zone; if each item states it, in this value.
    pub(super) fn bound_to(&self, term: Term) -> Self {
        match self {
            Self::Utc | Self::Named(_) => self.clone(),
            Self::OfItem(zone) => {
                Self::OfItem(Arc::new(ItemZone { name: Arc::clone(&zone.name), term: Some(term) }))
            }
        }
    }

    /// The value that each item states the zone in.
    #[must_use]
    pub fn of_item(&self) -> Option<&ItemZone> {
        match self {
            Self::Utc | Self::Named(_) => None,
            Self::OfItem(zone) => Some(zone),
        }
    }
}

/// As templates write it, behind the name of the bucket: `@Europe/Berlin`.
impl fmt::Display for FormatZone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Utc => Ok(()),
            Self::Named(zone) => write!(f, "@{}", zone.name()),
            Self::OfItem(zone) => write!(f, "@{}", zone.name),
        }
    }
}

/// Whether a name has characters that it can have only in quotes.
pub(super) fn is_unfit_bare(base: &str) -> bool {
    let is_fit = |character: char| character.is_alphanumeric() || "_-.".contains(character);
    let mut is_start = true;
    for character in base.chars() {
        if is_start && character == '\'' {
            // The quotes are checked where the path is read.
            return false;
        }
        if !is_fit(character) {
            return true;
        }
        is_start = character == '.';
    }
    false
}
