//! A second opinion on everything that is derived: the building blocks of a workload's own recount.
//!
//! A recount knows what its workload derives, and shares nothing with the engine: no code, no model file. It reads the items
//! that exist in the end and the items that time to live deleted; and, for values that never go back, every state in which any
//! item was ever written.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::exact::ExactNumber;
use crate::item::{ItemValue, SdkItem, TableItem, value_at};
use crate::rollups::{MeasureValues, RollupKey, number};

/// The attribute of a rollup's time to live.
pub(crate) const EXPIRES_AT: &str = "expires_at";

/// Between the partition key of a rollup and the measure, in the partition key of the members of a distinct count.
const DISTINCT: &str = "#DISTINCT#";

/// How a workload ended.
#[derive(Clone, Debug, Default)]
pub struct WorkloadOutcome {
    /// When it was written, in epoch seconds.
    pub now: i64,
    /// The items of all source tables in the end.
    pub items: Vec<TableItem>,
    /// The items that time to live deleted, in their last state.
    pub expired: Vec<TableItem>,
    /// Every state in which every item was ever written.
    pub images: Vec<TableItem>,
}

/// Which of two values an extreme keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtremeRule {
    /// The largest value ever.
    Largest,
    /// The smallest value ever.
    Smallest,
}

/// An attribute with the value that it must have and the value that it has; `None` is an absent attribute.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ComparedValue {
    /// The item: a rollup's `PK` and `SK`, or an application's item.
    pub place: String,
    /// The attribute's path.
    pub attribute: String,
    /// The value that it must have.
    pub expected: Option<ItemValue>,
    /// The value that it has.
    pub found: Option<ItemValue>,
}

/// Everything that must have been derived.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recount {
    /// The measures of each rollup.
    pub rollups: BTreeMap<RollupKey, MeasureValues>,
    /// The names of averages and extremes. Only sums may be zero instead of absent.
    pub computed: BTreeSet<String>,
    /// The mirrored attributes of the application's items.
    pub mirrored: Vec<ComparedValue>,
}

impl Recount {
    /// Counts every item that exists or has expired.
    pub fn of(outcome: &WorkloadOutcome, mut count: impl FnMut(&mut RollupSums<'_>, &TableItem)) -> Self {
        let mut recount = Self::default();
        for (items, expired) in [(&outcome.items, false), (&outcome.expired, true)] {
            let mut sums = RollupSums { recount: &mut recount, expired };
            items.iter().for_each(|item| count(&mut sums, item));
        }
        recount
    }

    /// Offers a value to an extreme.
    pub fn see(&mut self, key: &RollupKey, name: &str, value: ItemValue, rule: ExtremeRule) {
        self.computed.insert(name.to_owned());
        let measures = self.rollups.entry(key.clone()).or_default();
        let replaces = measures.get(name).is_none_or(|known| match rule {
            ExtremeRule::Largest => value > *known,
            ExtremeRule::Smallest => value < *known,
        });
        if replaces {
            measures.insert(name.to_owned(), value);
        }
    }

    /// Computes an average in every rollup that has counted something.
    pub fn average(&mut self, name: &str, sum: &str, count: &str) {
        self.computed.insert(name.to_owned());
        for measures in self.rollups.values_mut() {
            if let Some(average) = number(measures, sum).divided_by(&number(measures, count), 6) {
                measures.insert(name.to_owned(), ItemValue::Number(average));
            }
        }
    }

    /// Counts the members of a distinct count that have items into their rollup.
    pub fn count_members(&mut self, measure: &str) {
        let suffix = format!("{DISTINCT}{measure}");
        let rollup = |key: &RollupKey| {
            let (sort, _) = key.1.rsplit_once('#')?;
            Some(RollupKey::new(key.0.strip_suffix(&suffix)?, sort))
        };
        let members = self.rollups.iter().filter(|(_, values)| number(values, "count") > ExactNumber::ZERO);
        let counted: Vec<RollupKey> = members.filter_map(|(key, _)| rollup(key)).collect();
        let mut sums = RollupSums { recount: self, expired: false };
        counted.into_iter().for_each(|key| sums.add(key, &[(measure, ExactNumber::one())]));
    }

    /// Adds to rollups that count other rollups. Time to live has deleted none of those, so nothing of it is settled.
    pub fn above(&mut self, count: impl FnOnce(&mut RollupSums<'_>, &BTreeMap<RollupKey, MeasureValues>)) {
        let below = self.rollups.clone();
        count(&mut RollupSums { recount: self, expired: false }, &below);
    }

    /// Sets when a rollup expires, in epoch seconds.
    pub fn expire_at(&mut self, key: RollupKey, at: i64) {
        let expires_at = ItemValue::Number(at.into());
        self.rollups.entry(key).or_default().insert(EXPIRES_AT.to_owned(), expires_at);
    }

    /// Drops the rollups that have expired: nothing is counted into them any more.
    pub fn drop_expired(&mut self, now: i64) {
        let now = ExactNumber::from(now);
        self.rollups.retain(|_, measures| measures.get(EXPIRES_AT).is_none_or(|at| at.number() > now));
    }

    /// A sum as an item shows it: zero if nothing was counted.
    #[must_use]
    pub fn sum(&self, key: &RollupKey, name: &str) -> Option<ItemValue> {
        self.computed(key, name).or(Some(ItemValue::Number(ExactNumber::ZERO)))
    }

    /// An average or an extreme as an item shows it: absent if nothing was counted.
    #[must_use]
    pub fn computed(&self, key: &RollupKey, name: &str) -> Option<ItemValue> {
        self.rollups.get(key).and_then(|measures| measures.get(name)).cloned()
    }

    /// Compares a mirrored attribute of an item with its expected value.
    pub fn mirror(&mut self, place: &str, item: &SdkItem, path: &str, expected: Option<ItemValue>) {
        let found = value_at(item, path).map(ItemValue::of);
        self.mirrored.push(ComparedValue {
            place: place.to_owned(),
            attribute: path.to_owned(),
            expected,
            found,
        });
    }
}

/// The sums of a recount, while items are counted.
#[derive(Debug)]
pub struct RollupSums<'r> {
    recount: &'r mut Recount,
    /// Whether time to live deleted the items: then they also count as settled.
    pub expired: bool,
}

impl RollupSums<'_> {
    /// Adds an item's measures to a rollup.
    pub fn add(&mut self, key: RollupKey, measures: &[(&str, ExactNumber)]) {
        let sums = self.recount.rollups.entry(key).or_default();
        for (name, value) in measures {
            let settled = self.expired.then(|| format!("settled_{name}"));
            for name in std::iter::once((*name).to_owned()).chain(settled) {
                let sum = number(sums, &name).plus(value);
                sums.insert(name, ItemValue::Number(sum));
            }
        }
    }
}

/// A member of a distinct count of a rollup: the rollup that holds the number of items with a value.
#[must_use]
pub fn member(rollup: &RollupKey, measure: &str, value: &str) -> RollupKey {
    RollupKey::new(format!("{}{DISTINCT}{measure}", rollup.0), format!("{}#{value}", rollup.1))
}

/// The variable part of a text with this prefix.
#[must_use]
pub fn after<'t>(text: &'t str, prefix: &str) -> Option<&'t str> {
    text.strip_prefix(prefix).filter(|part| !part.is_empty())
}

/// The first second of a date, `yyyy-mm-dd`.
#[must_use]
pub fn start_of_day(date: &str) -> Option<i64> {
    format!("{date}T00:00:00Z").parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_second)
}
