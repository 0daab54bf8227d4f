//! A second opinion on everything that is derived: what a workload's own recount is made of.
//!
//! A recount knows what its workload derives, and shares nothing with the engine, neither code nor the model file. It goes
//! through the items that are there in the end and those that time to live took; and, for what does not retract, through every
//! state that any item was ever written in.

use std::collections::{BTreeMap, BTreeSet};

use super::exact::Exact;
use super::item::{Item, Placed, Value, at};

/// The key of an item of the state table: `PK`, without a shard, and `SK`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key(pub String, pub String);

impl Key {
    /// A key.
    pub fn new(partition: impl Into<String>, sort: impl Into<String>) -> Self {
        Self(partition.into(), sort.into())
    }
}

/// Sums by measure.
pub type Sums = BTreeMap<String, Exact>;

/// How a workload ended.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// When it was written, in epoch seconds.
    pub now: i64,
    /// The items of all source tables in the end.
    pub items: Vec<Placed>,
    /// The items that time to live took, as they were.
    pub expired: Vec<Placed>,
    /// Every state that every item was ever written in.
    pub images: Vec<Placed>,
}

/// An item that may count, and whether time to live took it.
#[derive(Clone, Copy, Debug)]
pub struct Countable<'o> {
    /// Its table.
    pub table: &'o str,
    /// The item.
    pub item: &'o Item,
    /// Whether it has expired.
    pub expired: bool,
}

impl Outcome {
    /// What is there, and what expired.
    pub fn countable(&self) -> impl Iterator<Item = Countable<'_>> {
        let there = self.items.iter().map(|placed| (placed, false));
        there
            .chain(self.expired.iter().map(|placed| (placed, true)))
            .map(|(Placed { table, item }, expired)| Countable { table, item, expired })
    }
}

/// Which of two values stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// The largest ever seen.
    Largest,
    /// The smallest ever seen.
    Smallest,
}

/// What an application's item shows of a rollup, and what it must show.
#[derive(Clone, Debug, PartialEq)]
pub struct Shown {
    /// The item.
    pub place: String,
    /// The attribute's path.
    pub path: String,
    /// What must stand there.
    pub expected: Option<Value>,
    /// What does.
    pub found: Option<Value>,
}

/// Everything that must be found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counted {
    /// The sums of each rollup, what expired included.
    pub sums: BTreeMap<Key, Sums>,
    /// What of them comes from expired items.
    pub settled: BTreeMap<Key, Sums>,
    /// Averages and extremes: a value, or none.
    pub computed: BTreeMap<Key, BTreeMap<String, Value>>,
    /// The names of averages and extremes: where one is not expected, nought is as wrong as anything.
    pub computed_names: BTreeSet<String>,
    /// When rollups expire, of all that may be there.
    pub expiries: BTreeMap<Key, i64>,
    /// What applications' items show.
    pub shown: Vec<Shown>,
}

impl Counted {
    /// Counts an item into a rollup.
    pub fn add(&mut self, key: &Key, measures: &[(&str, Exact)], expired: bool) {
        add(&mut self.sums, key, measures);
        if expired {
            add(&mut self.settled, key, measures);
        }
    }

    /// Shows a value to an extreme.
    pub fn see(&mut self, key: &Key, name: &str, value: Value, keep: Keep) {
        self.computed_names.insert(name.to_owned());
        let extremes = self.computed.entry(key.clone()).or_default();
        let is_beaten = extremes.get(name).is_none_or(|known| match keep {
            Keep::Largest => value > *known,
            Keep::Smallest => value < *known,
        });
        if is_beaten {
            extremes.insert(name.to_owned(), value);
        }
    }

    /// Computes an average in every rollup that has counted something.
    pub fn average(&mut self, name: &str, sum: &str, count: &str) {
        self.computed_names.insert(name.to_owned());
        for (key, sums) in &self.sums {
            let of = |name: &str| sums.get(name).copied().unwrap_or_default();
            if let Some(average) = of(sum).over(of(count)) {
                let computed = self.computed.entry(key.clone()).or_default();
                computed.insert(name.to_owned(), Value::Number(average));
            }
        }
    }

    /// Drops the rollups that are over: nothing is counted into them any more.
    pub fn drop_expired(&mut self, now: i64) {
        let over = |key: &Key| self.expiries.get(key).is_some_and(|at| *at <= now);
        self.sums.retain(|key, _| !over(key));
        self.settled.retain(|key, _| !over(key));
        self.computed.retain(|key, _| !over(key));
        self.expiries.retain(|_, at| *at > now);
    }

    /// A sum as an item shows it: one that never counted is nought.
    #[must_use]
    pub fn sum(&self, key: &Key, name: &str) -> Option<Value> {
        let sum = self.sums.get(key).and_then(|sums| sums.get(name)).copied();
        Some(Value::Number(sum.unwrap_or_default()))
    }

    /// An average or extreme as an item shows it: one of nothing is absent.
    #[must_use]
    pub fn computed(&self, key: &Key, name: &str) -> Option<Value> {
        self.computed.get(key).and_then(|computed| computed.get(name)).cloned()
    }

    /// Notes what must stand at a path of an item that is there.
    pub fn show(&mut self, place: &str, item: &Item, path: &str, expected: Option<Value>) {
        let found = at(item, path).map(Value::of);
        self.shown.push(Shown { place: place.to_owned(), path: path.to_owned(), expected, found });
    }
}

fn add(into: &mut BTreeMap<Key, Sums>, key: &Key, measures: &[(&str, Exact)]) {
    let sums = into.entry(key.clone()).or_default();
    for (name, value) in measures {
        *sums.entry((*name).to_owned()).or_default() += *value;
    }
}

/// The variable part of a text between these.
#[must_use]
pub fn within<'t>(text: &'t str, before: &str, after: &str) -> Option<&'t str> {
    text.strip_prefix(before)?.strip_suffix(after).filter(|part| !part.is_empty())
}

/// The first second of a date, `yyyy-mm-dd`.
#[must_use]
pub fn start_of_day(date: &str) -> Option<i64> {
    format!("{date}T00:00:00Z").parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_second)
}
