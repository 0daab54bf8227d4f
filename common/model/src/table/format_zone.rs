//! The zone of a format's calendar: UTC, a zone of the IANA database, or the zone that each item states (`day@city_zone`).

use std::borrow::Cow;
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

impl ItemZone {
    /// The name as a format has it: in quotes if it would mean something else, such as a zone of the database, without them.
    fn written(&self) -> Cow<'_, str> {
        let name = &*self.name;
        let is_bare = !is_unfit_bare(name) && NamedZone::of_name(name).is_none();
        let path: Option<AttributePath> = if is_bare { None } else { name.parse().ok() };
        path.map_or(Cow::Borrowed(name), |path| Cow::Owned(path.quoted()))
    }
}

/// As templates write it, behind the name of the bucket: `@Europe/Berlin`.
impl fmt::Display for FormatZone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Utc => Ok(()),
            Self::Named(zone) => write!(f, "@{}", zone.name()),
            Self::OfItem(zone) => write!(f, "@{}", zone.written()),
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

#[cfg(test)]
mod tests {
    use crate::table::{Model, ProblemCode};

    /// The codes of a model whose zone is this name, and whose attributes and paths have odd names.
    fn codes(zone: &str) -> Vec<ProblemCode> {
        let source = format!(
            r##"
            name = "zones"
            generation = 1
            tables.t.key = ["pk"]
            [entities.thing]
            key = {{ pk = "T#{{id}}" }}
            attributes = {{ at = "S", "'t z'" = "S", "'tz:b'" = "S", "'{{tz}}'" = "S", "'it''s'" = "S", "'CET'" = "S", tz = "S" }}
            [rollups.day]
            key = {{ PK = "DAY#{{at:day@{zone}}}", SK = "ROLLUP" }}
            [[aggregates]]
            name = "things"
            of = "thing"
            into = "day"
            measures.things = "count"
            [[caches]]
            of = "thing"
            paths = ["/{{'{{tz}}':path}}"]
            "##
        );
        Model::check(&source, "zones.toml").problems.iter().map(|problem| problem.code).collect()
    }

    #[test]
    fn the_name_of_a_zone_can_be_quoted() {
        for zone in ["tz", "'tz'", "'t z'", "'tz:b'", "'{tz}'", "'it''s'", "'CET'", "CET", "Europe/Berlin"] {
            assert_eq!(codes(zone), [], "{zone}");
        }
        assert_eq!(codes("'Europe/Berlin'"), [ProblemCode::UnknownTimeZone], "a name, which is not declared");
    }
}
