//! The marker of an expiry: it is settled, parked, or the marker cannot be read.

use afterwrite_model::record::{AttributeValue, Item, Position};
use afterwrite_model::{Error, ErrorKind};

use super::entry::ParkedPosition;
use super::keys::BEHIND;

/// A marker of an expiry in the state table.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StoredMarker<'r> {
    pub(crate) position: Position<'r>,
    pub(crate) state: MarkerState,
}

/// The state of a stored marker.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum MarkerState {
    /// The expiry is settled.
    Settled,
    /// The expiry is parked.
    Parked,
    /// Something else has changed the marker, so that it is unknown whether the expiry is settled. It has this mark.
    Unreadable { behind: AttributeValue<'static> },
}

impl MarkerState {
    /// Reads the marker of the expiry at `position`.
    pub(crate) fn of(stored: &Item, position: &Position<'_>) -> Self {
        let Some(behind) = stored.get(BEHIND) else { return Self::Settled };
        let parked = behind.as_text().and_then(|text| ParkedPosition::parse(text).ok());
        let is_readable = parked.is_some_and(|parked| {
            parked.position == *position && parked.reason != ErrorKind::Unreadable.name()
        });
        if is_readable { Self::Parked } else { Self::Unreadable { behind: behind.clone() } }
    }
}

impl<'r> StoredMarker<'r> {
    /// Whether the expiry is settled.
    pub(crate) fn is_settled(&self) -> bool {
        self.state == MarkerState::Settled
    }

    /// The marker after it was written: settled, or parked for this reason.
    pub(crate) fn written(position: Position<'r>, parked: Option<&'static str>) -> Self {
        let state = match parked {
            None => MarkerState::Settled,
            Some(reason) if reason == ErrorKind::Unreadable.name() => {
                MarkerState::Unreadable { behind: AttributeValue::text(parked_mark(&position, reason)) }
            }
            Some(_) => MarkerState::Parked,
        };
        Self { position, state }
    }

    /// Whether the index of parked items lists the expiry.
    pub(crate) fn is_parked(&self) -> bool {
        match &self.state {
            MarkerState::Settled => false,
            MarkerState::Parked => true,
            MarkerState::Unreadable { behind } => {
                behind.as_text() == Some(&*parked_mark(&self.position, ErrorKind::Unreadable.name()))
            }
        }
    }

    /// Why the expiry cannot be settled, if its marker cannot be read.
    pub(crate) fn error(&self) -> Option<Error> {
        match &self.state {
            MarkerState::Settled | MarkerState::Parked => None,
            MarkerState::Unreadable { .. } => Some(
                Error::new(ErrorKind::Unreadable, "the marker of an expiry cannot be read")
                    .with("attribute", BEHIND)
                    .hint("Only Afterwrite may write the ledger. If the expiry is not settled, delete the marker and replay the record; otherwise remove `behind` from the marker"),
            ),
        }
    }
}

/// The attribute `behind` of the marker of a parked expiry.
pub(crate) fn parked_mark(position: &Position<'_>, reason: &str) -> String {
    [&position.to_text(), " ", reason].concat()
}
