//! The comparison of a world with its workload's own recount.

use std::collections::BTreeMap;

use afterwrite_demo::item::{ItemValue, SdkItem};
use afterwrite_demo::recount::{ComparedValue, Recount, WorkloadOutcome};
use afterwrite_demo::rollups::RollupSet;
use afterwrite_demo::verdict::compare;

use super::{OperationWorld, STATE, sdk_item};

/// Values by place and attribute.
type RecountedValues = BTreeMap<(String, String), Option<ItemValue>>;

impl OperationWorld {
    /// The differences from the workload's own recount.
    pub(crate) fn differences(&self) -> Vec<ComparedValue> {
        self.differences_in(STATE)
    }

    /// The differences of a state table from the workload's own recount.
    ///
    /// A backfill that counts an item passes over its older records, so that a `max` or `min` need not have seen every state of the item. A value
    /// is compared only if the last states of the items determine it.
    pub(crate) fn differences_in(&self, state_table: &str) -> Vec<ComparedValue> {
        let state: Vec<SdkItem> = self.rows(state_table).iter().map(sdk_item).collect();
        let outcome = self.outcome();
        let mut differences = compare(&self.workload.recount(&outcome), &RollupSet::of(&state)).differences;
        if !differences.is_empty() {
            let images = outcome.items.iter().chain(&outcome.expired).cloned().collect();
            let last = values(self.workload.recount(&WorkloadOutcome { images, ..outcome }));
            differences.retain(|value| {
                let place = (value.place.clone(), value.attribute.clone());
                last.get(&place).cloned().flatten() == value.expected
            });
        }
        differences
    }

    /// The workload's own recount.
    pub(crate) fn recount(&self) -> Recount {
        self.workload.recount(&self.outcome())
    }

    fn outcome(&self) -> WorkloadOutcome {
        let outcome = self.state.lock().unwrap().outcome.clone();
        WorkloadOutcome { items: self.items(), ..outcome }
    }
}

fn values(recount: Recount) -> RecountedValues {
    let rollups = recount.rollups.into_iter().flat_map(|(key, measures)| {
        let place = key.to_string();
        measures.into_iter().map(move |(name, value)| ((place.clone(), name), Some(value)))
    });
    let mirrored = recount.mirrored.into_iter();
    rollups.chain(mirrored.map(|value| ((value.place, value.attribute), value.expected))).collect()
}
