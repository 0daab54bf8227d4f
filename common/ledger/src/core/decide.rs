//! Decides which records of an item still have to be counted. Pure: a function of the ledger entry, the records and the
//! time.

use afterwrite_model::record::{ChangeRecord, Timestamp};
use smallvec::SmallVec;

use crate::policy::{CLOCK_TOLERANCE, TOMBSTONE_LIFETIME};
use crate::state::entry::LedgerEntry;
use crate::state::marker::StoredMarker;

/// Indexes of records; usually one.
pub(crate) type RecordIndexes = SmallVec<[usize; 2]>;

/// The decision on the records of an item, by their indexes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RecordDecision {
    /// The records that are not counted yet, oldest first. The last one has the state to count.
    pub(crate) uncounted: RecordIndexes,
    /// The TTL expiries to settle.
    pub(crate) expiries: RecordIndexes,
    /// TTL expiries that the entry has passed and whose marker may have expired, so that it is unknown whether they were
    /// settled. They are reported, never applied.
    pub(crate) too_old_expiries: RecordIndexes,
    /// The records that are older than [`TOMBSTONE_LIFETIME`] and have no entry: the item itself must be read.
    pub(crate) needing_item: RecordIndexes,
    /// Whether the records change the unrecorded changes of the item's life.
    pub(crate) changes_lives: bool,
}

impl RecordDecision {
    /// Whether all records are counted already.
    #[must_use]
    pub(crate) fn is_empty(&self) -> bool {
        self.uncounted.is_empty()
            && self.expiries.is_empty()
            && self.needing_item.is_empty()
            && !self.changes_lives
    }

    /// The records to count or to settle, oldest first.
    pub(crate) fn open_records(&self) -> impl Iterator<Item = usize> {
        // Both lists are sorted.
        let last = self.uncounted.last().max(self.expiries.last()).copied();
        let has = |indexes: &RecordIndexes, index: usize| indexes.binary_search(&index).is_ok();
        let is_open = move |index: &usize| has(&self.uncounted, *index) || has(&self.expiries, *index);
        last.into_iter().flat_map(|last| 0..=last).filter(is_open)
    }
}

/// Decides on `records`, which belong to one item and are ordered by position.
///
/// `markers` are the stored markers of the item's expiries. `settles` decides whether the record with an index is an expiry that is settled. `judged_at` is the time at which their age is judged: see
/// [`TombstoneHistory`](super::TombstoneHistory). `is_item_read` means that the item was
/// read after its entry was found absent, so that records older than tombstones are done.
pub(crate) fn decide(
    entry: Option<&LedgerEntry>,
    records: &[&ChangeRecord<'_>],
    markers: &[StoredMarker<'_>],
    settles: impl Fn(usize) -> bool,
    judged_at: Timestamp,
    is_item_read: bool,
) -> RecordDecision {
    // A record must be judged too old before the tombstone it could collide with is gone, even if one of the clocks is
    // slow.
    let oldest = judged_at.minus(TOMBSTONE_LIFETIME).plus(CLOCK_TOLERANCE);
    let is_too_old = |record: &ChangeRecord<'_>| record.created_at.is_some_and(|created| created < oldest);
    // An entry that only marks the item as parked has no information about older records.
    let entry = entry.filter(|entry| entry.has_counted());
    let mut decision = RecordDecision::default();
    for (index, record) in records.iter().enumerate() {
        let is_counted = match entry {
            Some(entry) => entry.has_passed(&record.position, record.created_at),
            None => is_too_old(record),
        };
        if !is_counted {
            decision.uncounted.push(index);
        }
        if entry.is_none() && is_too_old(record) && !is_item_read {
            decision.needing_item.push(index);
        }
        let marker = markers.iter().find(|marker| marker.position == record.position);
        if settles(index) && marker.is_none_or(|marker| !marker.is_settled()) {
            // The transaction that settles an expiry advances the entry past it. So an expiry that the entry has not
            // passed was never settled, even if its marker would be gone. Nor was a parked one.
            let is_certain = !is_too_old(record) || marker.is_some() || (entry.is_some() && !is_counted);
            let expiries = if is_certain { &mut decision.expiries } else { &mut decision.too_old_expiries };
            expiries.push(index);
        }
    }
    decision
}
