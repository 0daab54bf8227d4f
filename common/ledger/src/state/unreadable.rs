//! An entry that something else than Afterwrite has changed.

use afterwrite_model::Error;
use afterwrite_model::effect::WriteCondition;
use afterwrite_model::record::{AttributePath, AttributeValue, Item, Position};

use super::entry::{AS_OF, CONTRIBUTIONS, GENERATION, POSITION};
use super::parked::ParkedPosition;
use super::{BEHIND, EXPIRES_AT, REV};

/// The attributes that decide whether a stored entry still equals the entry that was read.
const DECISIVE: [&str; 7] = [POSITION, REV, GENERATION, CONTRIBUTIONS, AS_OF, EXPIRES_AT, BEHIND];

/// A stored entry that cannot be read, because something else has changed it.
///
/// The rollups contain what such an entry counted, and nothing else names it. So it is never replaced: it is only marked
/// as behind, and keeps all other attributes until a person restores or deletes it.
#[derive(Debug)]
pub(crate) struct UnreadableEntry {
    stored: Item,
    /// Why it cannot be read.
    pub(crate) error: Error,
    /// The position up to which records are counted, if at least that can be read.
    pub(crate) position: Option<Position<'static>>,
    /// The newest record that it marks as missing.
    pub(crate) behind: Option<ParkedPosition<'static>>,
}

impl UnreadableEntry {
    pub(crate) fn new(stored: Item, error: Error) -> Self {
        let text = |name: &str| stored.get(name).and_then(AttributeValue::as_text);
        let position = text(POSITION).and_then(|text| Position::parse(text).ok());
        let behind = text(BEHIND).and_then(|text| ParkedPosition::parse(text));
        Self { position: position.map(Position::into_owned), behind, stored, error }
    }

    /// Holds while the stored entry equals the entry that was read.
    pub(crate) fn unchanged(&self) -> WriteCondition {
        let paths = DECISIVE.map(AttributePath::from);
        let unchanged = paths.iter().map(|path| WriteCondition::unchanged(path, &self.stored));
        WriteCondition::All(std::iter::once(WriteCondition::ItemExists).chain(unchanged).collect())
    }
}
