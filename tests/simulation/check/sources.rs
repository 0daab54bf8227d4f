//! Checks of rollups that are sources.

use afterwrite_model::record::Item;

use super::super::run::SimulationRun;
use super::super::source_rollups::{STATE_IN_ENTRIES, SourceRollup};
use super::super::state::StateTable;
use super::super::state_keys::StateKey;
use super::super::store::{STATE, Store};

/// The items of rollups that a generation uses as sources, whether or not it is the generation of the run.
pub(super) fn source_items(state: &StateTable) -> impl Iterator<Item = &Item> {
    let sources =
        state.rollups.iter().filter(|((partition, sort), _)| SourceRollup::of_key(partition, sort).is_some());
    sources.map(|(_, item)| item)
}

/// Whether an entry has the key of an item of a source rollup. A backfill counts such an item although no record of it was delivered.
pub(super) fn is_counted_source(entry: &StateKey, generation: u64) -> bool {
    let (partition, sort) = entry;
    let of_state = partition.strip_prefix("LEDGER#").and_then(|rest| rest.strip_prefix(STATE_IN_ENTRIES));
    let source = of_state.and_then(|key| SourceRollup::of_key(key.strip_prefix('#')?, sort));
    source.is_some_and(|source| source.first_generation() <= generation)
}

/// The function gets the records of source rollups, and no other record of the state table: its own writes do not invoke it again.
pub(super) fn check_filter<S: Store + 'static>(run: &SimulationRun<S>) -> Option<String> {
    let delivered = run.streams.records.iter().filter(|record| record.table == STATE).count();
    let changes = run.watcher.source_changes;
    (delivered != changes).then(|| {
        format!(
            "{delivered} records of the state table passed the filter, of {changes} changes of source rollups"
        )
    })
}
