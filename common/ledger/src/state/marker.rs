//! The marker of an expiry: it is settled, parked, or the marker cannot be read.

use std::borrow::Cow;

use afterwrite_model::effect::{ItemKey, Write, WriteAction, WriteCondition};
use afterwrite_model::entity::SourceKey;
use afterwrite_model::projection::MAX_SORT_KEY;
use afterwrite_model::record::{AttributePath, AttributeValue, Decimal, Item, Position, Timestamp};
use afterwrite_model::table::Model;
use afterwrite_model::{Error, ErrorKind, Result};

use super::entry::{EXPIRED, LedgerEntry, ledger_partition, source_sort};
use super::parked::ParkedPosition;
use super::{BEHIND, EXPIRES_AT, HASHED, LEDGER_TYPE, StateKeys, hashed_key, item_of_type};
use crate::policy::TOMBSTONE_LIFETIME;

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
    /// Whether an item of the state table is a marker of an expiry that is not settled.
    pub(crate) fn is_parked(item: &Item) -> bool {
        super::is_of_type(item, LEDGER_TYPE) && item.contains_key(BEHIND) && !LedgerEntry::is_entry(item)
    }

    /// Reads the marker of the expiry at `position`.
    pub(crate) fn of(stored: &Item, position: &Position<'_>) -> Self {
        let Some(behind) = stored.get(BEHIND) else { return Self::Settled };
        let parked = behind.as_text().and_then(|text| ParkedPosition::parse(text));
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

/// A marker to write.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ExpiryMarker<'r> {
    /// The position of the expiry.
    pub(crate) position: Position<'r>,
    /// The name of the error's kind, if the expiry cannot be settled and is parked.
    pub(crate) parked: Option<&'static str>,
}

impl ExpiryMarker<'_> {
    /// The key of the marker of the expiry of `source` at this position.
    ///
    /// # Errors
    /// [`ErrorKind::State`] if the model has no such table.
    pub(crate) fn key(
        keys: &StateKeys,
        model: &Model,
        source: &SourceKey<'_>,
        position: &Position<'_>,
    ) -> Result<ItemKey> {
        let (sort, position) = (source_sort(source), position.to_text());
        let marker = [sort, EXPIRED, &position].concat();
        // The hash of an entry's key is made of the key alone; that of a marker's starts with the separator.
        let marker = if marker.len() > MAX_SORT_KEY || sort.contains(HASHED) {
            hashed_key(&marker, &[EXPIRED, &marker].concat(), MAX_SORT_KEY)
        } else {
            marker
        };
        Ok(keys.key(ledger_partition(model, source)?, marker))
    }

    /// The write of the marker at `key`. `unreadable` is the mark of the stored marker that it replaces, if that cannot be read.
    pub(crate) fn write(
        &self,
        key: ItemKey,
        unreadable: Option<&AttributeValue<'static>>,
        now: Timestamp,
    ) -> Write {
        let mut stored = item_of_type(LEDGER_TYPE);
        let condition = match self.parked {
            Some(reason) => {
                let behind = parked_mark(&self.position, reason);
                stored.insert(Cow::Borrowed(BEHIND), AttributeValue::text(behind));
                unreadable.map_or(WriteCondition::ItemAbsent, |unreadable| {
                    WriteCondition::Equals(AttributePath::from(BEHIND), unreadable.clone())
                })
            }
            None => {
                let expires_at = now.plus(TOMBSTONE_LIFETIME).epoch_seconds();
                stored.insert(Cow::Borrowed(EXPIRES_AT), Decimal::from(expires_at).into());
                // A parked expiry can be settled later. `behind` is never NULL, so every present value differs.
                let is_parked = WriteCondition::Differs(AttributePath::from(BEHIND), AttributeValue::Null);
                WriteCondition::Any(vec![WriteCondition::ItemAbsent, is_parked])
            }
        };
        Write { key, condition, action: WriteAction::Put(stored) }
    }
}

/// The attribute `behind` of the marker of a parked expiry.
fn parked_mark(position: &Position<'_>, reason: &str) -> String {
    [&position.to_text(), " ", reason].concat()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::super::entry::LedgerEntry;
    use super::*;

    proptest! {
        #[test]
        fn a_written_marker_reads_as_what_was_written(
            sequence_number in "[1-9][0-9]{0,39}",
            kind in 0..3_usize,
        ) {
            let position = Position::new("2026-02-06T10:00:00.000", sequence_number).unwrap();
            let parked =
                [None, Some(ErrorKind::Rejected.name()), Some(ErrorKind::Unreadable.name())][kind];
            let keys = StateKeys::new(Arc::from("state"));
            let marker = ExpiryMarker { position: position.clone(), parked };
            let write = marker.write(keys.item("P", "S"), None, Timestamp::from_epoch_seconds(0));
            let WriteAction::Put(stored) = write.action else { panic!("a marker is put") };
            let state = MarkerState::of(&stored, &position);
            prop_assert_eq!(&StoredMarker { position: position.clone(), state }, &StoredMarker::written(position, parked));
        }
    }

    #[test]
    fn entries_and_markers_of_any_source_keys_never_share_a_key() {
        let model = Model::load(Model::DEFAULT_NAME).unwrap();
        let keys = StateKeys::new(Arc::from("state"));
        let positions =
            [Position::start_of("2026-02-06T10:00:00.000"), Position::start_of("2026-02-07T10:00:00.000")];
        let long = "k".repeat(1_100);
        let mut sorts: Vec<String> = ["a", "a#EXPIRED#b", "a#SHA256#b", &long].map(str::to_owned).to_vec();
        // Keys that an application would have to copy from the state table.
        let copied = |source: &str, keys: &StateKeys| {
            let source =
                SourceKey { table: 0, partition: Cow::Borrowed("P"), sort: Some(Cow::Borrowed(source)) };
            let entry = LedgerEntry::key(keys, &model, &source).unwrap();
            let markers =
                positions.iter().map(|position| ExpiryMarker::key(keys, &model, &source, position).unwrap());
            let all = std::iter::once(entry).chain(markers).map(|key| key.sort.unwrap().value);
            all.map(|sort| sort.as_text().unwrap().to_owned()).collect::<Vec<_>>()
        };
        for _ in 0..2 {
            let stored: Vec<String> = sorts.iter().flat_map(|sort| copied(sort, &keys)).collect();
            sorts.extend(stored);
            sorts = sorts.into_iter().collect::<BTreeSet<_>>().into_iter().collect();
        }
        let stored: Vec<String> = sorts.iter().flat_map(|sort| copied(sort, &keys)).collect();
        assert!(stored.iter().all(|sort| sort.len() <= MAX_SORT_KEY));
        assert_eq!(stored.iter().collect::<BTreeSet<_>>().len(), stored.len(), "{} source keys", sorts.len());
    }
}
