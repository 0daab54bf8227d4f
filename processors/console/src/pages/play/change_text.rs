//! The parts of a change as texts, and the page of its item.

use afterwrite_preview::trace::{RecordTrace, TracedEvent, TracedRollup, TracedRow};

use crate::links::item_link;
use crate::served::Served;

/// The table and the key.
pub(super) fn item_name(trace: &RecordTrace) -> String {
    format!("{} {}", trace.table, trace.key.join(" "))
}

/// The key of the rollup.
pub(super) fn rollup_name(rollup: &TracedRollup) -> String {
    format!("{} {}", rollup.partition, rollup.sort)
}

/// The differences of the measures.
pub(super) fn differences(rollup: &TracedRollup) -> String {
    let measures = rollup.measures.iter().map(|(name, number)| format!("{name} {number}"));
    measures.collect::<Vec<_>>().join(", ")
}

/// The page of the item.
pub(super) fn item_address(served: &Served, trace: &RecordTrace) -> Option<String> {
    let config = &served.context.config;
    let table = config.model.table_deployed_as(&config.table_names, &trace.table)?;
    let (partition, sort) = (trace.key.first()?, trace.key.get(1));
    Some(item_link(&config.model.tables.get(table)?.name, partition, sort.map(String::as_str)))
}

/// The name and the id of an event.
pub(super) fn event_name(event: &TracedEvent) -> String {
    format!("{} {}", event.name, event.id)
}

/// The dataset, the day and the operation of a row.
pub(super) fn row_name(row: &TracedRow) -> String {
    format!("{} dt={} {}", row.dataset, row.dt, row.operation)
}
