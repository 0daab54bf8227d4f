//! Parked records: what the ledger knows of the records that cannot be counted.

use afterwrite_model::record::{AttributeValue, ChangeRecord, Position};
use afterwrite_model::table::OnExpiry;
use afterwrite_model::{Error, ErrorKind};

use super::decide::{RecordDecision, RecordIndexes};
use super::item::{CountBasis, ItemState, LedgerItem, Reconciliation};
use super::plan::ItemWork;
use super::records::DefectiveRecord;
use super::{PoisonPolicy, StepContext};
use crate::state::entry::ParkedPosition;
use crate::state::marker::{MarkerState, StoredMarker};

impl LedgerItem<'_> {
    /// Whether the ledger has passed a record and does not mark it as missing. An expiry must also be settled.
    pub(crate) fn is_counted(&self, record: &DefectiveRecord<'_>) -> bool {
        let Some(position) = record.position else { return false };
        if let Some(unreadable) = &self.unreadable {
            return unreadable.position.as_ref().is_some_and(|passed| position <= passed);
        }
        let Some(entry) = &self.entry else { return false };
        entry.has_passed(position, record.created_at)
            && entry.behind.as_ref().is_none_or(|behind| behind.position != *position)
            && (!self.must_settle(record) || self.is_settled(position))
    }

    /// Whether the ledger marks the record as missing.
    pub(crate) fn is_parked(&self, record: &DefectiveRecord<'_>, poison: PoisonPolicy) -> bool {
        let Some(position) = record.position else { return false };
        if poison == PoisonPolicy::Fail || !record.error.kind().is_poison() {
            return false;
        }
        if self.must_settle(record) && self.unreadable.is_none() {
            return self.is_parked_expiry(position);
        }
        let behind = self.behind();
        behind.is_some_and(|behind| *position <= behind.position)
    }

    /// The record that the stored entry marks as missing.
    pub(super) fn behind(&self) -> Option<&ParkedPosition<'_>> {
        let unreadable = || self.unreadable.as_ref().and_then(|unreadable| unreadable.behind.as_ref());
        self.entry.as_ref().map_or_else(unreadable, |entry| entry.behind.as_ref())
    }

    pub(super) fn is_parked_expiry(&self, position: &Position<'_>) -> bool {
        self.markers.iter().any(|marker| marker.position == *position && marker.is_parked())
    }

    pub(crate) fn must_settle(&self, record: &DefectiveRecord<'_>) -> bool {
        record.is_expiry && record.change.map_or_else(|| self.may_settle(), |change| self.settles(change))
    }

    /// Whether the record with this index is an expiry that is settled.
    pub(super) fn settles_record(&self, index: usize) -> bool {
        self.records.is_expiry(index)
            && self.records.changes.get(index).is_some_and(|record| self.settles(record))
    }

    /// Whether the expiry of a record is settled: by the entity that the item was of. An item that was of no entity has nothing to settle.
    fn settles(&self, record: &ChangeRecord<'_>) -> bool {
        if self.candidates.by_key().is_some() || !record.old.has_attributes() {
            return self.may_settle();
        }
        // An expiry that was parked before it could be read is settled, whatever its entity: that removes the mark.
        self.is_parked_expiry(&record.position)
            || self
                .candidates
                .before(record)
                .is_some_and(|identity| identity.entity.on_expiry == OnExpiry::Keep)
    }

    /// Whether expiries of such an item are settled, as far as its key shows.
    pub(super) fn may_settle(&self) -> bool {
        self.candidates.any(|entity| entity.on_expiry == OnExpiry::Keep)
    }

    pub(crate) fn is_settled(&self, position: &Position<'_>) -> bool {
        self.markers.iter().any(|marker| marker.position == *position && marker.is_settled())
    }

    /// Whether a record of the next plan has been parked by an earlier delivery.
    pub(super) fn retries_parked_record(&self, decision: &RecordDecision) -> bool {
        decision
            .open_records()
            .any(|index| !self.records.errors.contains_key(&index) && self.is_marked(index))
    }

    /// Whether an earlier delivery has parked these records, and this one has rejected them again, in a transaction with
    /// others. There is no need to isolate them until the deadline: if they failed then, they would hold up their shard.
    /// An item that offers outputs to lookups must be delivered until they are remembered.
    pub(super) fn are_parked_again(&self, records: &[usize]) -> bool {
        let are_marked = records.iter().all(|index| self.is_marked(*index));
        self.peers.is_retry && are_marked && self.peers.group.is_some() && !self.is_looked_up()
    }

    /// Whether the ledger marks exactly this record as missing.
    fn is_marked(&self, index: usize) -> bool {
        let behind = self.behind();
        self.records.changes.get(index).is_some_and(|record| {
            behind.is_some_and(|behind| behind.position == record.position)
                || self.is_parked_expiry(&record.position)
        })
    }
}

impl<'r> LedgerItem<'r> {
    /// Gives the records that depend on an unreadable entry or marker an error, and removes the errors of those that no
    /// longer do.
    pub(super) fn note_unreadable(&mut self) {
        self.records.errors.retain(|_, error| error.kind() != ErrorKind::Unreadable);
        for (index, record) in self.records.changes.iter().enumerate() {
            let marker = self.markers.iter().find(|marker| marker.position == record.position);
            let of_marker = marker.and_then(StoredMarker::error);
            let of_entry = self.unreadable.as_ref().map(|unreadable| unreadable.error.restated());
            if let Some(error) = of_entry.or(of_marker) {
                self.records.errors.entry(index).or_insert(error);
            }
        }
    }

    /// Parks the records of an item whose entry cannot be read. Without records, or if records are not parked, the item
    /// fails.
    pub(super) fn decide_unreadable(&mut self, error: &Error, context: StepContext<'_>) -> ItemState<'r> {
        self.peers.is_retry = false;
        let is_requested = match self.reconciliation {
            Reconciliation::Requested => true,
            Reconciliation::Unneeded
            | Reconciliation::Needed
            | Reconciliation::Done
            | Reconciliation::Impossible => false,
        };
        if is_requested || context.core.poison == PoisonPolicy::Fail {
            return ItemState::Failed(error.restated());
        }
        self.reconciliation = Reconciliation::Unneeded;
        let is_looked_up = self.is_looked_up();
        self.records.decode_old_images(&context.core.model.attributes, |_| is_looked_up);
        ItemState::AwaitingLookup(CountBasis::Unreadable)
    }

    /// The mark of the newest record that an unreadable entry has not passed, unless it has the mark already.
    pub(super) fn work_of_unreadable(&self) -> ItemWork<'r> {
        let missing = self.records.defective().filter(|record| {
            let is_known = self.is_counted(record) || self.is_parked(record, PoisonPolicy::Park);
            !is_known && record.error.kind().is_poison()
        });
        let newest = missing.filter_map(|record| record.position).max();
        let reason = ErrorKind::Unreadable.name().into();
        let behind =
            newest.map(|position| ParkedPosition { position: position.clone().into_owned(), reason });
        ItemWork {
            state: None,
            settlements: Vec::new(),
            behind,
            parked_expiries: Vec::new(),
            start: Position::start_of(""),
            records: RecordIndexes::new(),
            newest: None,
        }
    }

    /// The mark of the marker at this position, if the marker cannot be read.
    pub(crate) fn unreadable_marker(&self, position: &Position<'_>) -> Option<&AttributeValue<'static>> {
        let marker = self.markers.iter().find(|marker| marker.position == *position)?;
        match &marker.state {
            MarkerState::Unreadable { behind } => Some(behind),
            MarkerState::Settled | MarkerState::Parked => None,
        }
    }
}
