//! Whether what was derived is what must have been: every rollup and every mirrored count, to the last digit.

use std::collections::BTreeMap;

use serde::Serialize;

use super::platform::{Item, Key};
use super::recount::{Counted, Measures, number, text};

/// What a comparison found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Verdict {
    /// How many rollup items were compared.
    pub(super) rollups: usize,
    /// How many numbers in them.
    pub(super) numbers: usize,
    /// How many mirrored counts.
    pub(super) question_counts: usize,
    /// What differs.
    pub(super) differences: Vec<Difference>,
}

/// A number that is not what it must be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Difference {
    #[serde(rename = "PK")]
    pub(super) partition: String,
    #[serde(rename = "SK")]
    pub(super) sort: String,
    pub(super) measure: String,
    pub(super) expected: i64,
    pub(super) found: i64,
}

impl Verdict {
    pub(super) fn is_equal(&self) -> bool {
        self.differences.is_empty()
    }
}

/// Compares a recount with the items of the state table and of the platform's own.
pub(super) fn compare(expected: &Counted, state: &[Item], platform: &[Item]) -> Verdict {
    let mut verdict = Verdict::default();
    let (found, settled) = stored_rollups(state);
    verdict.rollups = found.len();
    verdict.compare_measures(&expected.rollups, &found, "");
    verdict.compare_measures(&expected.settled, &settled, SETTLED);
    for (key, expected) in &expected.question_counts {
        let item = platform.iter().find(|item| text(item, "PK") == key.0 && text(item, "SK") == key.1);
        let found = item.and_then(|item| number(item, "question_count")).unwrap_or(-1);
        verdict.question_counts += 1;
        verdict.compare_number(key, "question_count", *expected, found);
    }
    verdict
}

const SETTLED: &str = "settled_";
/// Attributes of a rollup that are numbers and no measures.
const BOOKKEEPING: [&str; 2] = ["rev", "expires_at"];

/// The measures of the stored rollups, and those that time to live settled. The shards of one rollup are added up.
fn stored_rollups(state: &[Item]) -> (BTreeMap<Key, Measures>, BTreeMap<Key, Measures>) {
    let (mut found, mut settled) = (BTreeMap::new(), BTreeMap::new());
    for item in state.iter().filter(|item| text(item, "EntityType") == "ROLLUP") {
        let partition = text(item, "PK");
        let partition = partition.rsplit_once("#SHARD#").map_or(partition, |(partition, _)| partition);
        let key = Key(partition.to_owned(), text(item, "SK").to_owned());
        let measures: &mut Measures = found.entry(key.clone()).or_default();
        for name in item.keys().filter(|name| !BOOKKEEPING.contains(&name.as_str())) {
            let Some(value) = number(item, name) else { continue };
            if let Some(name) = name.strip_prefix(SETTLED) {
                let settled: &mut Measures = settled.entry(key.clone()).or_default();
                *settled.entry(name.to_owned()).or_default() += value;
            } else {
                *measures.entry(name.clone()).or_default() += value;
            }
        }
    }
    (found, settled)
}

impl Verdict {
    /// A measure that is on one side only counts as nought on the other.
    fn compare_measures(
        &mut self,
        expected: &BTreeMap<Key, Measures>,
        found: &BTreeMap<Key, Measures>,
        prefix: &str,
    ) {
        let none = Measures::new();
        let keys: std::collections::BTreeSet<&Key> = expected.keys().chain(found.keys()).collect();
        for key in keys {
            let (expected, found) = (expected.get(key).unwrap_or(&none), found.get(key).unwrap_or(&none));
            let names: std::collections::BTreeSet<&String> = expected.keys().chain(found.keys()).collect();
            for name in names {
                let of = |measures: &Measures| measures.get(name).copied().unwrap_or(0);
                self.numbers += 1;
                self.compare_number(key, &format!("{prefix}{name}"), of(expected), of(found));
            }
        }
    }

    fn compare_number(&mut self, key: &Key, measure: &str, expected: i64, found: i64) {
        if expected != found {
            let (partition, sort) = (key.0.clone(), key.1.clone());
            self.differences.push(Difference {
                partition,
                sort,
                measure: measure.to_owned(),
                expected,
                found,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::platform::{item, number as n, text as s};
    use super::*;

    fn rollup(partition: &str, attempts: i64) -> Item {
        item([
            ("PK", s(partition)),
            ("SK", s("ROLLUP#TOTAL")),
            ("EntityType", s("ROLLUP")),
            ("attempts", n(attempts)),
            ("settled_attempts", n(1)),
            ("rev", n(99)),
            ("passed", n(0)),
        ])
    }

    fn counted(attempts: i64, settled: i64) -> Counted {
        let key = Key("ADMIN#a".to_owned(), "ROLLUP#TOTAL".to_owned());
        let measures =
            |value| BTreeMap::from([(key.clone(), Measures::from([("attempts".to_owned(), value)]))]);
        Counted { rollups: measures(attempts), settled: measures(settled), ..Counted::default() }
    }

    #[test]
    fn shards_are_added_up_and_nought_may_be_absent() {
        let state = [rollup("ADMIN#a#SHARD#0", 3), rollup("ADMIN#a#SHARD#1", 4)];
        assert!(compare(&counted(7, 2), &state, &[]).is_equal());
    }

    #[test]
    fn one_digit_is_found_wherever_it_is() {
        let state = [rollup("ADMIN#a", 7)];
        assert!(compare(&counted(7, 1), &state, &[]).is_equal());
        assert_eq!(compare(&counted(8, 1), &state, &[]).differences.len(), 1);
        assert_eq!(compare(&counted(7, 2), &state, &[]).differences.len(), 1);
        assert_eq!(compare(&Counted::default(), &state, &[]).differences.len(), 2);
        assert_eq!(compare(&counted(7, 1), &[], &[]).differences.len(), 2);
    }

    #[test]
    fn a_count_that_no_item_shows_is_a_difference() {
        let key = Key("ADMIN#a".to_owned(), "PROJECT#p".to_owned());
        let expected = Counted { question_counts: BTreeMap::from([(key, 0)]), ..Counted::default() };
        let project =
            |count| item([("PK", s("ADMIN#a")), ("SK", s("PROJECT#p")), ("question_count", n(count))]);
        assert!(compare(&expected, &[], &[project(0)]).is_equal());
        assert!(!compare(&expected, &[], &[project(1)]).is_equal());
        assert!(!compare(&expected, &[], &[]).is_equal());
    }
}
