//! Checks of `max` and `min`.

use std::collections::{BTreeMap, BTreeSet};

use afterwrite_demo::exact::ExactNumber;
use afterwrite_model::record::Item;

use super::super::numbers::stored;
use super::super::oracle::{OfferedExtreme, RollupKey, extremes};
use super::super::run::SimulationRun;
use super::super::state::StateTable;
use super::super::store::Store;
use super::super::stream::StreamRecord;

/// The values of one measure: all that were written, and those that were counted.
#[derive(Default)]
struct OfferedValues {
    written: BTreeSet<ExactNumber>,
    counted: BTreeSet<ExactNumber>,
    is_largest: bool,
}

type ValuesByMeasure = BTreeMap<(RollupKey, &'static str), OfferedValues>;

/// An extreme is a value that was written, and no current or counted value is beyond it.
pub(super) fn check_extremes<S: Store + 'static>(
    run: &SimulationRun<S>,
    state: &StateTable,
    items: &[(&str, Item)],
) -> Vec<String> {
    // A malformed record that a later one has passed is not counted.
    let is_counted = |record: &StreamRecord| {
        let item = (record.partition.clone(), record.sort.clone());
        record.malformed.is_none() && !run.items_with_unseen_images.contains(&item)
    };
    let mut offered = ValuesByMeasure::new();
    for record in &run.streams.records {
        if let Some(image) = &record.new {
            add(&mut offered, record.table, image, is_counted(record));
        }
    }
    for (table, item) in items {
        add(&mut offered, table, item, true);
    }
    let problem = |((target, measure), values): (&(RollupKey, &str), &OfferedValues)| {
        let found = state.rollups.get(target).and_then(|item| stored(item, measure));
        let beyond = if values.is_largest { values.counted.last() } else { values.counted.first() };
        let is_beaten = |beyond: &ExactNumber| {
            found.as_ref().is_none_or(|found| if values.is_largest { found < beyond } else { found > beyond })
        };
        let is_unknown = found.as_ref().is_some_and(|found| !values.written.contains(found));
        (is_unknown || beyond.is_some_and(is_beaten)).then(|| {
            let (partition, sort) = target;
            format!(
                "{partition} {sort} {measure} is {found:?}; {beyond:?} was counted, unknown: {is_unknown}"
            )
        })
    };
    offered.iter().filter_map(problem).collect()
}

fn add(offered: &mut ValuesByMeasure, table: &str, image: &Item, is_counted: bool) {
    for OfferedExtreme { target, largest, smallest, value } in extremes(table, image) {
        for (measure, is_largest) in [(Some(largest), true), (smallest, false)] {
            let Some(measure) = measure else { continue };
            let values = offered.entry((target.clone(), measure)).or_default();
            values.is_largest = is_largest;
            values.written.insert(value.clone());
            if is_counted {
                values.counted.insert(value.clone());
            }
        }
    }
}
