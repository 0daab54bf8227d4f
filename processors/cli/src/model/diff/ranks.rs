//! The differences of a rollup's ranks. Contributions do not depend on them, so nothing is reconciled.

use afterwrite_model::table::{NamedList, RankDescription};

use super::{Differences, PartChange, changed_parts, from_to};

pub(super) fn compare(
    rollup: &str,
    old: &NamedList<RankDescription>,
    new: &NamedList<RankDescription>,
    differences: &mut Differences,
) {
    for (measure, change) in changed_parts(old, new) {
        let (change, consequence) = match change {
            PartChange::Added(rank) => (
                format!("rank of {measure} added: {}", described(rank)),
                format!(
                    "The state table needs the index rank_{measure}. Items of the rollup get into it when they are counted into, and all of them by `afterwrite backfill`, which sets the attribute rank_{measure} and changes nothing else."
                ),
            ),
            PartChange::Removed(_) => {
                differences.orphaned.push(format!(
                    "the attribute rank_{measure} of the items of rollup {rollup}, and the index rank_{measure} unless another rollup ranks {measure}"
                ));
                (
                    format!("rank of {measure} removed"),
                    "Items keep their places in the index, but new items are not in it.".to_owned(),
                )
            }
            PartChange::Changed(before, now) => (
                from_to(&format!("rank of {measure}"), &described(before), &described(now)),
                "Items move to their new groups when they are counted into, and all of them by `afterwrite backfill`. Until then, readers find an item in its old or its new group.".to_owned(),
            ),
        };
        differences.add(format!("rollup {rollup}"), change, consequence);
    }
}

/// A rank in words: `within GAME#{game}, 4 shards`.
fn described(rank: &RankDescription) -> String {
    match rank.shards {
        1 => format!("within {}", rank.within),
        shards => format!("within {}, {shards} shards", rank.within),
    }
}
