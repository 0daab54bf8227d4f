//! Checks of what applications' items show.

use afterwrite_demo::exact::ExactNumber;
use afterwrite_model::record::{AttributeValue, Item};

use super::super::numbers::stored;
use super::super::oracle::{ItemKind, item_kind, neighbours};
use super::super::run::SimulationRun;
use super::super::state::StateTable;
use super::super::store::{MAIN, Store, text};

/// Nothing loops: however often records are delivered, our writes to the application's items are bounded by its own.
/// Nearly all runs have fewer.
pub(super) fn check_own_writes<S: Store + 'static>(run: &SimulationRun<S>) -> Option<String> {
    let (own, others) = (run.own_writes, run.application_writes);
    (own > 2 * others + 10)
        .then(|| format!("{own} writes to the application's items followed {others} of its own"))
}

/// Every mirroring item shows the measures of its rollup.
pub(super) fn check_mirrors(state: &StateTable, items: &[(&str, Item)]) -> Vec<String> {
    let mut problems = Vec::new();
    for (table, item) in items.iter().filter(|(table, _)| *table == MAIN) {
        let (partition, sort) = (text(item, "PK"), text(item, "SK"));
        match item_kind(table, partition, Some(sort)) {
            ItemKind::Project { project, .. } => {
                let Some(owner) = state.remembered.owners.get(project) else {
                    problems.push(format!("the owner of {project} is not remembered"));
                    continue;
                };
                let target = (format!("OWNER#{owner}"), format!("ROLLUP#PROJECT#{project}"));
                for (name, measure) in [("task_count", "tasks"), ("done_count", "done")] {
                    let wanted = Some(state.number(&target, measure));
                    problems.extend(check_copy(partition, sort, name, stored(item, name), wanted));
                }
            }
            ItemKind::Shop { .. } => problems.extend(check_shop(state, item)),
            ItemKind::Reading { sensor } => {
                let target = (partition.to_owned(), "ROLLUP#LEVEL".to_owned());
                let wanted = state.rollups.get(&target).and_then(|rollup| stored(rollup, "highest"));
                problems.extend(check_copy(partition, sort, "highest", stored(item, "highest"), wanted));
                let wanted = Some(state.number(&neighbours(sensor), "neighbours"));
                problems.extend(check_copy(
                    partition,
                    sort,
                    "neighbours",
                    stored(item, "neighbours"),
                    wanted,
                ));
            }
            _ => {}
        }
    }
    problems
}

/// A shop shows its statistics in a map. The number of kinds is counted by the second level.
fn check_shop(state: &StateTable, item: &Item) -> Vec<String> {
    let (partition, sort) = (text(item, "PK"), text(item, "SK"));
    let target = (partition.to_owned(), "ROLLUP#VISITS".to_owned());
    let measure = |name| state.rollups.get(&target).and_then(|rollup| stored(rollup, name));
    let count = |name| Some(measure(name).unwrap_or_default());
    let empty = Item::new();
    let stats = match item.get("stats") {
        Some(AttributeValue::M(stats)) => stats,
        _ => &empty,
    };
    let wanted = [
        ("visits", count("visits")),
        ("average", measure("score_average")),
        ("best", measure("best")),
        ("kinds", count("kinds")),
    ];
    let problem = |(name, wanted)| check_copy(partition, sort, name, stored(stats, name), wanted);
    wanted.into_iter().filter_map(problem).collect()
}

fn check_copy(
    partition: &str,
    sort: &str,
    name: &str,
    found: Option<ExactNumber>,
    wanted: Option<ExactNumber>,
) -> Option<String> {
    (found != wanted).then(|| format!("{partition} {sort} shows {name} = {found:?}, not {wanted:?}"))
}
