//! Reconciliations by an operator: of items that have left rollups, and of items that a changed model counts differently.
//!
//! Rollups that items have left: if the author of such a change stops before it has refreshed their mirrors, and the records of the
//! change do not name them, only the item's entry does.
//!
//! The backfill after a change of the model: the items that the old model counted, and all items of rollups that only the new model uses as
//! sources. One level follows another.

use std::collections::BTreeMap;
use std::time::Duration;

use afterwrite_ledger::{ItemRecords, SourceItem as LedgerItem};
use afterwrite_model::entity::SourceKey;
use afterwrite_model::record::Item;

use super::run::{SimulationRun, TaskKind, TaskResult};
use super::source_rollups::{HIGHEST_LEVEL, SourceRollup};
use super::state::StateTable;
use super::state_keys::{StateKey, entry_key};
use super::store::{STATE, Store, text};
use super::stream::StreamRecord;

/// The attempts of an operator to complete a reconciliation before tombstones expire.
const REPEATED_RECONCILIATIONS: u32 = 8;

/// How often a level's records are delivered before the backfill counts the next level, per thousand.
const DELIVERIES_BETWEEN_LEVELS: u64 = 500;

/// The time since the last function with the old model ended. Within the tolerance of clocks, a reconciliation does not pass a record that
/// such a function acknowledged, so that a later replay of this record alone would count an older state.
const SINCE_OLD_MODEL: Duration = Duration::from_secs(16 * 60);

impl<S: Store + 'static> SimulationRun<S> {
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

    /// Counts the levels, the lowest first.
    pub(crate) fn backfill(&mut self) {
        self.advance(SINCE_OLD_MODEL);
        for level in 0..=HIGHEST_LEVEL {
            self.backfill_level(level);
            if self.random.chance(DELIVERIES_BETWEEN_LEVELS) {
                self.drain();
            }
        }
        self.drain();
    }

    /// Reconciles the items of a level that the old generation counted, and the items of its new sources.
    fn backfill_level(&mut self, level: u32) {
        let items = self.tables.inner().scan(STATE);
        let new_sources: Vec<Item> =
            items.iter().filter(|item| is_of_new_source(item, level)).cloned().collect();
        let state = match StateTable::read(items) {
            Ok(state) => state,
            Err(problem) => return self.problems.push(problem),
        };
        let level_of = |record: &StreamRecord| record.source().map_or(0, SourceRollup::level);
        for (key, record) in self.newest_records() {
            let is_old = state.entries.get(&key).is_some_and(|entry| entry.generation < 2);
            if is_old && level_of(&self.streams.records[record]) == level {
                self.reconcile(record);
                self.finish_tasks();
            }
        }
        for item in new_sources {
            let is_known =
                state.entries.contains_key(&entry_key(STATE, text(&item, "PK"), Some(text(&item, "SK"))));
            self.coverage.record(if is_known {
                "new source backfilled that has an entry"
            } else {
                "new source backfilled that has no entry"
            });
            self.reconcile_rollup(item);
            self.finish_tasks();
        }
    }

    /// Starts a reconciliation of an item of a source rollup, which may have no record.
    fn reconcile_rollup(&mut self, item: Item) {
        let label = self.streams.label(STATE).to_owned();
        self.spawn(TaskKind::Reconcile, Vec::new(), |process, deadline| {
            Box::pin(async move {
                let ledger = process.ledger();
                let table = ledger.model().state_source().expect("rollups of the model are sources");
                let source = SourceKey::of_item(ledger.model(), table, &item).unwrap();
                let candidates = source.candidates(ledger.model());
                let item =
                    LedgerItem { source: &source, candidates: &candidates, records: ItemRecords::new() };
                Ok(TaskResult::Reconciled(ledger.reconcile(vec![item], &label, deadline).await?))
            })
        });
    }
}

/// Whether an item of the state table is of a rollup of this level that only generation 2 uses as a source.
fn is_of_new_source(item: &Item, level: u32) -> bool {
    let source = SourceRollup::of_key(text(item, "PK"), text(item, "SK"));
    source.is_some_and(|source| source.first_generation() == 2 && source.level() == level)
}
