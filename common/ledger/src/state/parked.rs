//! The mark of a record that could not be counted: an attribute of ledger entries and expiry markers.

use std::borrow::Cow;

use afterwrite_model::record::Position;

/// The newest record of an item that could not be counted, and why. It never has item contents.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ParkedPosition<'r> {
    /// The record's position.
    pub(crate) position: Position<'r>,
    /// The name of the error's kind.
    pub(crate) reason: Cow<'r, str>,
}

impl ParkedPosition<'_> {
    /// `<position> <reason>`: also the key of the sparse index that lists parked items.
    pub(crate) fn to_text(&self) -> String {
        format!("{} {}", self.position.to_text(), self.reason)
    }

    pub(crate) fn into_owned(self) -> ParkedPosition<'static> {
        let (position, reason) = (self.position.into_owned(), Cow::Owned(self.reason.into_owned()));
        ParkedPosition { position, reason }
    }

    pub(crate) fn parse(text: &str) -> Option<ParkedPosition<'static>> {
        let (position, reason) = text.split_once(' ')?;
        let position = Position::parse(position).ok()?.into_owned();
        Some(ParkedPosition { position, reason: Cow::Owned(reason.to_owned()) })
    }
}
