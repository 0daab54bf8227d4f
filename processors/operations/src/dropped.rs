//! Contributions to rollups that are sources and had expired when an item was reconciled: the levels above lack them.

use std::mem;
use std::sync::{Mutex, PoisonError};

use afterwrite_ledger::CommitTotals;

use crate::jobs::JobTotals;

/// The counter of these contributions, which the ledger names: see [`CommitTotals`].
pub const DROPPED_CONTRIBUTIONS: &str = "dropped_contributions";

/// The dropped contributions that no step of a job has reported yet. A step that fails is repeated, and does not find them again.
#[derive(Debug, Default)]
pub(crate) struct UnreportedDrops(Mutex<u64>);

impl UnreportedDrops {
    /// Adds those of a reconciliation.
    pub(crate) fn add(&self, done: &CommitTotals) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) += done.dropped_contributions;
    }

    /// Moves all of them to the totals of a step.
    pub(crate) fn report(&self, totals: &mut JobTotals) {
        let dropped = mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        totals.add(DROPPED_CONTRIBUTIONS, dropped);
    }
}
