//! The comparison of everything that was derived with the recount: every rollup and every mirrored attribute, digit by digit.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::exact::ExactNumber;
use crate::item::ItemValue;
use crate::recount::{ComparedValue, EXPIRES_AT, Recount};
use crate::rollups::{MeasureValues, RollupKey, RollupSet};

/// The result of a comparison.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RecountVerdict {
    /// Compared rollups; the shards of a rollup are one.
    pub rollups: usize,
    /// Compared values in them.
    pub values: usize,
    /// Compared attributes of the application's items.
    pub mirrored: usize,
    /// The values that differ.
    pub differences: Vec<ComparedValue>,
}

impl RecountVerdict {
    /// Whether nothing differs.
    #[must_use]
    pub fn is_equal(&self) -> bool {
        self.differences.is_empty()
    }

    fn compare_rollup(&mut self, key: &RollupKey, recount: &Recount, rollup: Option<&MeasureValues>) {
        let (absent, zero) = (MeasureValues::new(), ItemValue::Number(ExactNumber::ZERO));
        let (expected, found) = (recount.rollups.get(key).unwrap_or(&absent), rollup.unwrap_or(&absent));
        let names: BTreeSet<&String> = expected.keys().chain(found.keys()).collect();
        for name in names {
            let (expected, found) = (expected.get(name), found.get(name));
            let is_expiry = name == EXPIRES_AT;
            if is_expiry && rollup.is_none() {
                continue;
            }
            self.values += usize::from(!is_expiry || expected.is_some());
            // A sum that never counted may be absent or zero.
            let default = (!is_expiry && !recount.computed.contains(name)).then_some(&zero);
            if expected.or(default) != found.or(default) {
                let (place, attribute) = (key.to_string(), name.clone());
                let (expected, found) = (expected.cloned(), found.cloned());
                self.differences.push(ComparedValue { place, attribute, expected, found });
            }
        }
    }
}

/// Compares a recount with the stored rollups and with the mirrored attributes.
#[must_use]
pub fn compare(recount: &Recount, rollups: &RollupSet) -> RecountVerdict {
    let mirrored = recount.mirrored.len();
    let mut verdict = RecountVerdict { rollups: rollups.0.len(), mirrored, ..RecountVerdict::default() };
    let keys: BTreeSet<&RollupKey> = recount.rollups.keys().chain(rollups.0.keys()).collect();
    for key in keys {
        verdict.compare_rollup(key, recount, rollups.0.get(key));
    }
    let differing = recount.mirrored.iter().filter(|value| value.expected != value.found);
    verdict.differences.extend(differing.cloned());
    verdict
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::item::{SdkItem, TableItem, attribute, item, with};
    use crate::recount::{ExtremeRule, WorkloadOutcome};

    fn rollup(partition: &str, attempts: i64) -> SdkItem {
        item(json!({
            "PK": partition, "SK": "ROLLUP#TOTAL", "EntityType": "ROLLUP",
            "attempts": attempts, "settled_attempts": 1, "rev": 99, "passed": 0,
        }))
    }

    fn key() -> RollupKey {
        RollupKey::new("ADMIN#a", "ROLLUP#TOTAL")
    }

    /// A recount of an item that exists and an item that has expired.
    fn recount(attempts: i64, settled: i64) -> Recount {
        let expired = vec![TableItem { table: String::new(), item: SdkItem::new() }];
        let outcome = WorkloadOutcome { items: expired.clone(), expired, ..WorkloadOutcome::default() };
        Recount::of(&outcome, |sums, _| {
            let counted = if sums.expired { settled } else { attempts - settled };
            sums.add(key(), &[("attempts", counted.into())]);
        })
    }

    fn differences(recount: &Recount, state: &[SdkItem]) -> usize {
        compare(recount, &RollupSet::of(state)).differences.len()
    }

    #[test]
    fn shards_are_added_up_and_zero_may_be_absent() {
        let state = [rollup("ADMIN#a#SHARD#0", 3), rollup("ADMIN#a#SHARD#1", 4)];
        assert_eq!(differences(&recount(7, 2), &state), 0);
    }

    #[test]
    fn one_wrong_digit_is_found_anywhere() {
        let state = [rollup("ADMIN#a", 7)];
        assert_eq!(differences(&recount(7, 1), &state), 0);
        assert_eq!(differences(&recount(8, 1), &state), 1);
        assert_eq!(differences(&recount(7, 2), &state), 1);
        assert_eq!(differences(&Recount::default(), &state), 2);
        assert_eq!(differences(&recount(7, 1), &[]), 2);
    }

    #[test]
    fn an_average_of_nothing_is_absent_and_one_of_zeros_is_zero() {
        let found = |average: Option<i64>| {
            let mut rollup = rollup("ADMIN#a", 1);
            rollup.extend(average.map(|average| ("average".to_owned(), attribute(json!(average)))));
            [rollup]
        };
        let mut nothing = recount(1, 1);
        nothing.average("average", "attempts", "absent");
        assert_eq!([differences(&nothing, &found(None)), differences(&nothing, &found(Some(0)))], [0, 1]);
        let mut zeros = recount(1, 1);
        zeros.average("average", "absent", "attempts");
        assert_eq!([differences(&zeros, &found(None)), differences(&zeros, &found(Some(0)))], [1, 0]);
    }

    #[test]
    fn an_extreme_and_an_expiry_must_be_exact() {
        let state = |last: &str, expires_at: i64| {
            [with(rollup("ADMIN#a", 1), json!({ "last": last, "expires_at": expires_at }))]
        };
        let mut expected = recount(1, 1);
        for day in ["2026-02-05", "2026-02-07", "2026-02-06"] {
            expected.see(&key(), "last", ItemValue::Text(day.to_owned()), ExtremeRule::Largest);
        }
        expected.expire_at(key(), 100);
        assert_eq!(differences(&expected, &state("2026-02-07", 100)), 0);
        assert_eq!(differences(&expected, &state("2026-02-06", 100)), 1);
        assert_eq!(differences(&expected, &state("2026-02-07", 101)), 1);
        assert_eq!(differences(&expected, &[rollup("ADMIN#a", 1)]), 2);
        expected.drop_expired(100);
        assert_eq!(differences(&expected, &[]), 0);
    }

    #[test]
    fn a_wrong_or_missing_mirrored_attribute_is_a_difference() {
        let project = item(json!({ "count": 0, "stats": { "seen": 2 } }));
        let mut expected = Recount::default();
        expected.mirror("ADMIN#a", &project, "count", expected.sum(&key(), "questions"));
        expected.mirror("ADMIN#a", &project, "stats.seen", Some(ItemValue::Number(2.into())));
        expected.mirror("ADMIN#a", &project, "stats.average", None);
        assert_eq!(differences(&expected, &[]), 0);
        expected.mirror("ADMIN#a", &project, "count", None);
        expected.mirror("ADMIN#a", &project, "stats.seen", Some(ItemValue::Number(1.into())));
        expected.mirror("ADMIN#a", &project, "stats.none", Some(ItemValue::Number(ExactNumber::ZERO)));
        assert_eq!(differences(&expected, &[]), 3);
    }
}
