//! Rollups that items have left: if the author of such a change stops before it has refreshed their mirrors, and the records of the
//! change do not name them, only the item's entry does.

use std::collections::BTreeMap;

use super::run::SimulationRun;
use super::state_keys::{StateKey, entry_key};
use super::store::Store;

/// How often a consumer crashes when one of its items has left a rollup, per thousand.
const CRASHES_AFTER_LEAVING: u64 = 400;
/// The attempts of an operator to complete a reconciliation before tombstones expire.
const REPEATED_RECONCILIATIONS: u32 = 8;

impl<S: Store + 'static> SimulationRun<S> {
    /// Notes the rollups that items have left in the last turn of a task. Sometimes its process crashes then: it has not
    /// refreshed any mirror of them yet.
    pub(crate) fn note_left_rollups(&mut self, index: usize) {
        let left = std::mem::take(&mut self.watcher.left);
        let may_crash = !left.is_empty() && self.options.crashes && self.has_faults;
        self.tasks[index].left.extend(left);
        if may_crash && self.random.chance(CRASHES_AFTER_LEAVING) {
            self.coverage.record("consumer crashed after an item left a rollup");
            self.end_task(index, "crashed after an item left a rollup");
        }
    }

    /// An operator repeats the reconciliations that stopped, and reconciles the items whose author stopped after they had left a
    /// rollup. Once their tombstones have expired, nothing may name the stale mirrors any more.
    pub(crate) fn reconcile_before_tombstones_expire(&mut self) {
        self.end_tasks();
        let unrefreshed = std::mem::take(&mut self.unrefreshed);
        if !unrefreshed.is_empty() {
            let newest = self.newest_records();
            self.reconcile_again.extend(unrefreshed.iter().filter_map(|key| newest.get(key)));
        }
        for _ in 0..REPEATED_RECONCILIATIONS {
            self.reconcile_again();
        }
    }

    /// The newest record of each item, by the key of its ledger entry.
    pub(crate) fn newest_records(&self) -> BTreeMap<StateKey, usize> {
        let keys = self
            .streams
            .records
            .iter()
            .map(|record| entry_key(record.table, &record.partition, record.sort.as_deref()));
        keys.zip(0..).collect()
    }
}
