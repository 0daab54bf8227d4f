//! Parked records: what the ledger knows of the records that cannot be counted.

use super::PoisonPolicy;
use super::decide::RecordDecision;
use super::item::LedgerItem;
use super::records::DefectiveRecord;
use crate::record::{ChangeRecord, Position};
use crate::table::OnExpiry;

impl LedgerItem<'_> {
    /// Whether the ledger has passed a record and does not mark it as missing. An expiry must also be settled.
    pub(crate) fn is_counted(&self, record: &DefectiveRecord<'_>) -> bool {
        let (Some(position), Some(entry)) = (record.position, &self.entry) else { return false };
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
        if self.must_settle(record) {
            return self.is_parked_expiry(position);
        }
        let behind = self.entry.as_ref().and_then(|entry| entry.behind.as_ref());
        behind.is_some_and(|behind| *position <= behind.position)
    }

    pub(super) fn is_parked_expiry(&self, position: &Position<'_>) -> bool {
        self.markers.iter().any(|marker| marker.position == *position && marker.is_parked)
    }

    pub(crate) fn must_settle(&self, record: &DefectiveRecord<'_>) -> bool {
        record.is_expiry && record.change.map_or_else(|| self.may_settle(), |change| self.settles(change))
    }

    /// Whether the expiry of a record is settled: by the entity that the item was of. An item that was of no entity has nothing to settle.
    pub(super) fn settles(&self, record: &ChangeRecord<'_>) -> bool {
        if self.candidates.by_key().is_some() || !record.old.is_present() {
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
        self.markers.iter().any(|marker| marker.position == *position && !marker.is_parked)
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
        self.is_retried && are_marked && self.group.is_some() && !self.is_looked_up()
    }

    /// Whether the ledger marks exactly this record as missing.
    fn is_marked(&self, index: usize) -> bool {
        let behind = self.entry.as_ref().and_then(|entry| entry.behind.as_ref());
        self.records.changes.get(index).is_some_and(|record| {
            behind.is_some_and(|behind| behind.position == record.position)
                || self.is_parked_expiry(&record.position)
        })
    }
}
