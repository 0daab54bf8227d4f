//! Whether what was derived is what must have been: every rollup and every mirrored attribute, to the last digit.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::exact::Exact;
use super::item::Value;
use super::recount::{Counted, Key, Sums};
use super::rollups::{Measures, Rollups};

/// What a comparison found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// How many rollups were compared, the shards of one being one.
    pub rollups: usize,
    /// How many values in them.
    pub values: usize,
    /// How many attributes that applications' items show.
    pub mirrored: usize,
    /// What differs.
    pub differences: Vec<Difference>,
}

/// A value that is not what it must be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The item: a rollup's `PK` and `SK`, or an application's.
    pub place: String,
    /// The attribute.
    pub attribute: String,
    /// What it must be; none if it must be absent.
    pub expected: Option<String>,
    /// What it is.
    pub found: Option<String>,
}

impl Verdict {
    /// Whether nothing differs.
    #[must_use]
    pub fn is_equal(&self) -> bool {
        self.differences.is_empty()
    }
}

const SETTLED: &str = "settled_";
const EXPIRES_AT: &str = "expires_at";

/// Compares a recount with the rollups that were found. What items show, the recount has noted itself.
#[must_use]
pub fn compare(expected: &Counted, found: &Rollups) -> Verdict {
    let mut verdict = Verdict { rollups: found.len(), mirrored: expected.shown.len(), ..Verdict::default() };
    let keys: BTreeSet<&Key> =
        expected.sums.keys().chain(expected.computed.keys()).chain(found.keys()).collect();
    for key in keys {
        verdict.compare_rollup(key, expected, found.get(key));
    }
    for shown in expected.shown.iter().filter(|shown| shown.expected != shown.found) {
        verdict.differs(&shown.place, &shown.path, shown.expected.as_ref(), shown.found.as_ref());
    }
    verdict
}

impl Verdict {
    fn compare_rollup(&mut self, key: &Key, expected: &Counted, found: Option<&Measures>) {
        let (place, none) = (format!("{} {}", key.0, key.1), Measures::new());
        let found_measures = found.unwrap_or(&none);
        let wanted = wanted(key, expected);
        let names: BTreeSet<&String> = wanted.keys().chain(found_measures.keys()).collect();
        for name in names.into_iter().filter(|name| *name != EXPIRES_AT) {
            self.values += 1;
            let (wanted, found) = (wanted.get(name), found_measures.get(name));
            // A sum that never counted may be absent or nought.
            let is_sum = !expected.computed_names.contains(name);
            let filled = |value: Option<&Value>| match value {
                None if is_sum => Some(Value::Number(Exact::ZERO)),
                other => other.cloned(),
            };
            if filled(wanted) != filled(found) {
                self.differs(&place, name, wanted, found);
            }
        }
        if found.is_some() {
            let wanted = expected.expiries.get(key).map(|at| Value::Number(Exact::whole(*at)));
            let found = found_measures.get(EXPIRES_AT);
            self.values += usize::from(wanted.is_some());
            if wanted.as_ref() != found {
                self.differs(&place, EXPIRES_AT, wanted.as_ref(), found);
            }
        }
    }

    fn differs(&mut self, place: &str, attribute: &str, expected: Option<&Value>, found: Option<&Value>) {
        let said = |value: Option<&Value>| value.map(Value::to_string);
        self.differences.push(Difference {
            place: place.to_owned(),
            attribute: attribute.to_owned(),
            expected: said(expected),
            found: said(found),
        });
    }
}

/// What a rollup must hold.
fn wanted(key: &Key, expected: &Counted) -> BTreeMap<String, Value> {
    let sums = |of: &BTreeMap<Key, Sums>, prefix: &str| -> Vec<(String, Value)> {
        let sums = of.get(key).into_iter().flatten();
        sums.map(|(name, sum)| (format!("{prefix}{name}"), Value::Number(*sum))).collect()
    };
    let computed = expected.computed.get(key).cloned().unwrap_or_default();
    let all = sums(&expected.sums, "").into_iter().chain(sums(&expected.settled, SETTLED));
    all.chain(computed).collect()
}

#[cfg(test)]
mod tests {
    use super::super::item::{Item, item, text, whole};
    use super::super::recount::Keep;
    use super::*;

    fn rollup(partition: &str, attempts: i64) -> Item {
        item([
            ("PK", text(partition)),
            ("SK", text("ROLLUP#TOTAL")),
            ("EntityType", text("ROLLUP")),
            ("attempts", whole(attempts)),
            ("settled_attempts", whole(1)),
            ("rev", whole(99)),
            ("passed", whole(0)),
        ])
    }

    fn key() -> Key {
        Key::new("ADMIN#a", "ROLLUP#TOTAL")
    }

    fn counted(attempts: i64, settled: i64) -> Counted {
        let measures =
            |value| BTreeMap::from([(key(), Sums::from([("attempts".to_owned(), Exact::whole(value))]))]);
        Counted { sums: measures(attempts), settled: measures(settled), ..Counted::default() }
    }

    fn differences(expected: &Counted, state: &[Item]) -> usize {
        compare(expected, &Rollups::of(state)).differences.len()
    }

    #[test]
    fn shards_are_added_up_and_nought_may_be_absent() {
        let state = [rollup("ADMIN#a#SHARD#0", 3), rollup("ADMIN#a#SHARD#1", 4)];
        assert_eq!(differences(&counted(7, 2), &state), 0);
    }

    #[test]
    fn one_digit_is_found_wherever_it_is() {
        let state = [rollup("ADMIN#a", 7)];
        assert_eq!(differences(&counted(7, 1), &state), 0);
        assert_eq!(differences(&counted(8, 1), &state), 1);
        assert_eq!(differences(&counted(7, 2), &state), 1);
        assert_eq!(differences(&Counted::default(), &state), 2);
        assert_eq!(differences(&counted(7, 1), &[]), 2);
    }

    #[test]
    fn an_average_of_nothing_is_absent_and_one_of_noughts_is_nought() {
        let found = |average: Option<i64>| {
            let mut rollup = rollup("ADMIN#a", 1);
            rollup.extend(average.map(|average| ("average".to_owned(), whole(average))));
            [rollup]
        };
        let mut nothing = counted(1, 1);
        nothing.average("average", "attempts", "absent");
        assert_eq!([differences(&nothing, &found(None)), differences(&nothing, &found(Some(0)))], [0, 1]);
        let mut noughts = counted(1, 1);
        noughts.average("average", "absent", "attempts");
        assert_eq!([differences(&noughts, &found(None)), differences(&noughts, &found(Some(0)))], [1, 0]);
    }

    #[test]
    fn an_extreme_and_an_expiry_must_be_the_very_ones() {
        let state = |last: &str, expires_at: i64| {
            let mut rollup = rollup("ADMIN#a", 1);
            rollup.insert("last".to_owned(), text(last));
            rollup.insert("expires_at".to_owned(), whole(expires_at));
            [rollup]
        };
        let mut expected = counted(1, 1);
        for day in ["2026-02-05", "2026-02-07", "2026-02-06"] {
            expected.see(&key(), "last", Value::Text(day.to_owned()), Keep::Largest);
        }
        expected.expiries.insert(key(), 100);
        assert_eq!(differences(&expected, &state("2026-02-07", 100)), 0);
        assert_eq!(differences(&expected, &state("2026-02-06", 100)), 1);
        assert_eq!(differences(&expected, &state("2026-02-07", 101)), 1);
        assert_eq!(differences(&expected, &[rollup("ADMIN#a", 1)]), 2);
        expected.drop_expired(100);
        assert_eq!(differences(&expected, &[]), 0);
    }

    #[test]
    fn what_an_item_shows_wrongly_or_not_at_all_is_a_difference() {
        let project = item([("count", whole(0)), ("stats", super::super::item::map([("seen", whole(2))]))]);
        let mut expected = Counted::default();
        expected.show("ADMIN#a", &project, "count", expected.sum(&key(), "questions"));
        expected.show("ADMIN#a", &project, "stats.seen", Some(Value::Number(Exact::whole(2))));
        expected.show("ADMIN#a", &project, "stats.average", None);
        assert_eq!(differences(&expected, &[]), 0);
        expected.show("ADMIN#a", &project, "count", None);
        expected.show("ADMIN#a", &project, "stats.seen", Some(Value::Number(Exact::whole(1))));
        expected.show("ADMIN#a", &project, "stats.none", Some(Value::Number(Exact::ZERO)));
        assert_eq!(differences(&expected, &[]), 3);
    }
}
