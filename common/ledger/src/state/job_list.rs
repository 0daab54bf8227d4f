//! The list of the newest jobs, which finds them without a scan. It has an attribute for each job: its id, with the time of its creation.

use std::sync::Arc;

use afterwrite_model::effect::{AttributeChange, ItemKey, Write, WriteAction, WriteCondition};
use afterwrite_model::record::{AttributePath, Decimal, Item, Timestamp};

use super::job::{self, JOB_TYPE};
use super::{ENTITY_TYPE, PARTITION_KEY, SORT_KEY, set, time_value};

/// The attributes that are not ids.
const OTHERS: [&str; 3] = [PARTITION_KEY, SORT_KEY, ENTITY_TYPE];

/// The key of the list.
#[must_use]
pub fn key(state_table: &Arc<str>) -> ItemKey {
    job::key(state_table, "")
}

/// The write that adds a job to the list, and removes others.
#[must_use]
pub fn write(key: ItemKey, (id, created_at): (&str, Timestamp), removed: &[String]) -> Write {
    let mut changes = vec![set(ENTITY_TYPE, JOB_TYPE.into()), set(id, time_value(created_at))];
    changes.extend(removed.iter().map(|id| AttributeChange::Remove(AttributePath::from(id.as_str()))));
    Write { key, condition: WriteCondition::Always, action: WriteAction::Update(changes) }
}

/// The listed ids, the oldest first.
#[must_use]
pub fn decode(list: &Item) -> Vec<String> {
    let ids = list.iter().filter(|(name, _)| !OTHERS.contains(&name.as_ref()));
    let mut ids: Vec<(i64, &str)> =
        ids.map(|(id, at)| (at.as_number().and_then(Decimal::to_i64).unwrap_or(0), id.as_ref())).collect();
    ids.sort_unstable();
    ids.into_iter().map(|(_, id)| id.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_list_has_the_jobs_that_were_added_and_not_removed(
            jobs in proptest::collection::btree_map("[a-z]{1,5}-[0-9]{1,3}", 0..4_000_000_000_i64, 2..9),
        ) {
            let (mut list, mut expected) = (None, Vec::new());
            for (id, created_ms) in &jobs {
                let write = write(key(&Arc::from("state")), (id, Timestamp::from_epoch_ms(*created_ms)), &[]);
                list = write.applied(list.as_ref()).unwrap();
                expected.push((*created_ms, id.clone()));
            }
            expected.sort();
            let mut expected: Vec<String> = expected.into_iter().map(|(_, id)| id).collect();
            prop_assert_eq!(&decode(list.as_ref().unwrap()), &expected);
            let last = expected.split_off(expected.len() - 1).remove(0);
            let at = Timestamp::from_epoch_ms(jobs[&last]);
            let left = write(key(&Arc::from("state")), (&last, at), &expected).applied(list.as_ref()).unwrap();
            prop_assert_eq!(decode(&left.unwrap()), [last]);
        }
    }
}
