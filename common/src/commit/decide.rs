//! Which of an item's records still have to be counted: a pure decision of its ledger entry, its records and the time.

use std::time::Duration;

use smallvec::SmallVec;

use super::entry::LedgerEntry;
use crate::record::{ChangeRecord, Position, Timestamp};
use crate::table::OnExpiry;

/// How long tombstones and expiry markers live.
pub const TOMBSTONE_LIFE: Duration = Duration::from_secs(35 * 24 * 60 * 60);
/// By how much two clocks may differ, and a stream's times may be off.
pub const CLOCK_TOLERANCE: Duration = Duration::from_secs(15 * 60);

/// Numbers of records: mostly of one.
pub type RecordIndexes = SmallVec<[usize; 2]>;

/// What is to be done with an item's records; the numbers index them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordDecision {
    /// Those not counted yet, oldest first: the last of them is the state to count.
    pub live: RecordIndexes,
    /// The TTL expiries to settle.
    pub expiries: RecordIndexes,
    /// The TTL expiries that nobody can tell any more whether they were settled: reported, never applied.
    pub too_old: RecordIndexes,
    /// A record is older than tombstones live and there is no entry: the item itself must be asked.
    pub needs_item: bool,
}

impl RecordDecision {
    /// Whether there is nothing to do: all records are counted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.live.is_empty() && self.expiries.is_empty() && !self.needs_item
    }
}

/// Decides on `records`, which are in order of position and all of one item.
///
/// `claimed` tells whether the expiry at a position has been settled. `item_asked` says that the item has been read and
/// counted since the entry was found absent, so that over-old records are done.
pub fn decide(
    entry: Option<&LedgerEntry>,
    records: &[&ChangeRecord<'_>],
    claimed: impl Fn(&Position<'_>) -> bool,
    on_expiry: OnExpiry,
    now: Timestamp,
    item_asked: bool,
) -> RecordDecision {
    // A record must be judged too old before the tombstone it could collide with is gone, whosever clock is slow.
    let oldest = now.minus(TOMBSTONE_LIFE).plus(CLOCK_TOLERANCE);
    let is_over_old = |record: &ChangeRecord<'_>| record.created_at.is_some_and(|created| created < oldest);
    let mut decision = RecordDecision::default();
    for (index, record) in records.iter().enumerate() {
        let counted = match entry {
            Some(entry) => {
                let reconciled_since = entry.as_of.zip(record.created_at);
                record.position <= entry.position
                    || reconciled_since.is_some_and(|(as_of, created)| created < as_of.minus(CLOCK_TOLERANCE))
            }
            None => is_over_old(record),
        };
        if !counted {
            decision.live.push(index);
        }
        if entry.is_none() && is_over_old(record) && !item_asked {
            decision.needs_item = true;
        }
        if record.expired && on_expiry == OnExpiry::Keep && !claimed(&record.position) {
            let settle = if is_over_old(record) { &mut decision.too_old } else { &mut decision.expiries };
            settle.push(index);
        }
    }
    decision
}
