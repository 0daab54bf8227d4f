//! The sum of partial rollups: items of one rollup that were counted apart from each other, each over a part of the source items.
//!
//! Additions commute, so counts and sums of the parts are added, exactly. `max` and `min` of the parts are compared; averages and percentiles are computed
//! from the merged sums. The result is the item that one ledger would have left, except for its `rev`: see [`RollupMerger::finish`].

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use afterwrite_model::effect::update::updated;
use afterwrite_model::projection::ExtremeRule;
use afterwrite_model::record::{AttributeValue, Decimal, Item};
use afterwrite_model::table::{MeasureKind, Model};
use afterwrite_model::{Error, ErrorKind, Result};

use crate::state::rollup::{RollupUpdate, computed_change, rollup_revision};
use crate::state::{ENTITY_TYPE, EXPIRES_AT, PARTITION_KEY, REV, SORT_KEY};

/// How the values of an attribute in two parts become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AttributeMerge {
    /// They are added.
    Sum,
    /// One of them is kept.
    Extreme(ExtremeRule),
    /// It follows from others, or from the rollup's key.
    Computed,
}

/// Merges partial rollups of a model.
#[derive(Debug)]
pub struct RollupMerger {
    model: Arc<Model>,
    /// The attributes of each rollup, aligned with [`Model::rollups`].
    attributes: Vec<BTreeMap<Arc<str>, AttributeMerge>>,
}

impl RollupMerger {
    /// Merges rollups of this model.
    #[must_use]
    pub fn new(model: Arc<Model>) -> Self {
        let mut attributes = vec![BTreeMap::new(); model.rollups.len()];
        for aggregate in &model.aggregates {
            let measures = aggregate.measures.iter();
            let merges: Vec<_> = measures
                .flat_map(|measure| {
                    let merge = |name: &Arc<str>| (Arc::clone(name), AttributeMerge::of(&measure.kind, name));
                    measure.attributes().iter().map(merge).collect::<Vec<_>>()
                })
                .collect();
            for destination in &aggregate.into {
                if let Some(known) = attributes.get_mut(destination.rollup) {
                    known.extend(merges.iter().cloned());
                }
            }
        }
        for (known, rollup) in attributes.iter_mut().zip(&model.rollups) {
            let ranked = rollup.ranks.iter().map(|rank| Arc::clone(&rank.attribute));
            known.extend(ranked.map(|attribute| (attribute, AttributeMerge::Computed)));
        }
        Self { model, attributes }
    }

    /// Adds a part to the sum of others. Both have the rollup's key; an empty sum takes the part as it is.
    ///
    /// # Errors
    /// [`ErrorKind::State`] if the part is not of a rollup of the model; [`ErrorKind::Rejected`] if a sum exceeds 38 digits. Neither names the
    /// rollup's key.
    pub fn add(&self, sum: &mut Item, part: Item) -> Result<()> {
        if sum.is_empty() {
            self.rollups_of(&part)?;
            *sum = part;
            return Ok(());
        }
        let rollups = self.rollups_of(sum)?;
        for (name, value) in part {
            let Some(known) = sum.get(&name) else {
                sum.insert(name, value);
                continue;
            };
            let merged = match self.merge_of(&rollups, &name)? {
                AttributeMerge::Computed => continue,
                AttributeMerge::Extreme(rule) => {
                    if !rule.prefers(&value, known) {
                        continue;
                    }
                    value
                }
                AttributeMerge::Sum => added(&name, known, &value)?,
            };
            sum.insert(name, merged);
        }
        Ok(())
    }

    /// Completes a sum: averages and percentiles are computed, and `first_revision` is added to `rev`.
    ///
    /// Copies of the rollup (mirrors) carry its `rev`, and an older one never replaces a newer one. A rollup of a new state table must
    /// therefore continue above every `rev` that copies of its predecessor can have.
    ///
    /// # Errors
    /// As [`RollupMerger::add`].
    pub fn finish(&self, sum: &mut Item, first_revision: i64) -> Result<()> {
        for rollup in self.rollups_of(sum)? {
            for computed in self.model.rollups.get(rollup).map_or(&[][..], |rollup| &rollup.computed) {
                let change = computed_change(computed, &RollupUpdate::default(), Some(sum));
                *sum = updated(std::mem::take(sum), change.as_slice())
                    .map_err(|reason| Error::new(ErrorKind::Rejected, reason))?;
            }
        }
        let rev = added(REV, &rollup_revision(Some(sum)), &Decimal::from(first_revision).into())?;
        sum.insert(Cow::Borrowed(REV), rev);
        Ok(())
    }

    /// The rollups that may be this item; rollups that overlap have other measures.
    fn rollups_of(&self, item: &Item) -> Result<Vec<usize>> {
        let text = |name: &str| item.get(name).and_then(AttributeValue::as_text).unwrap_or_default();
        let (partition, sort) = (text(PARTITION_KEY), text(SORT_KEY));
        let rollups = self.model.rollups.iter().enumerate();
        let rollups = rollups.filter(|(_, rollup)| rollup.has_stored_key(partition, sort));
        let rollups: Vec<usize> = rollups.map(|(index, _)| index).collect();
        if rollups.is_empty() {
            return Err(Error::new(ErrorKind::State, "a partial rollup has a key of no rollup of the model")
                .hint("Use one model for all steps of a bulk backfill"));
        }
        Ok(rollups)
    }

    fn merge_of(&self, rollups: &[usize], name: &str) -> Result<AttributeMerge> {
        match name {
            REV => return Ok(AttributeMerge::Sum),
            // The parts of one rollup agree on these.
            PARTITION_KEY | SORT_KEY | ENTITY_TYPE | EXPIRES_AT => return Ok(AttributeMerge::Computed),
            _ => {}
        }
        let mut known = rollups.iter().filter_map(|index| self.attributes.get(*index)?.get(name));
        known.next().copied().ok_or_else(|| {
            Error::new(
                ErrorKind::State,
                "a partial rollup has an attribute that is not a measure of the model",
            )
            .with("attribute", name)
            .hint("Use one model for all steps of a bulk backfill")
        })
    }
}

impl AttributeMerge {
    /// Of an attribute of a measure of this kind.
    fn of(kind: &MeasureKind, attribute: &str) -> Self {
        match kind {
            MeasureKind::Count
            | MeasureKind::Sum { .. }
            | MeasureKind::Histogram { .. }
            | MeasureKind::Percentiles { .. } => Self::Sum,
            MeasureKind::Max(_, _, mixed) => Self::Extreme(ExtremeRule::Largest(*mixed)),
            MeasureKind::Latest(latest) if **latest.seen() == *attribute => {
                Self::Extreme(ExtremeRule::Latest)
            }
            MeasureKind::Min(_, _, mixed) => Self::Extreme(ExtremeRule::Smallest(*mixed)),
            MeasureKind::Latest(_) | MeasureKind::Average { .. } | MeasureKind::Percentile { .. } => {
                Self::Computed
            }
        }
    }
}

fn added(
    name: &str,
    one: &AttributeValue<'_>,
    other: &AttributeValue<'_>,
) -> Result<AttributeValue<'static>> {
    let sum = one.as_number().zip(other.as_number()).and_then(|(one, other)| one.plus(other).ok());
    sum.map(AttributeValue::N).ok_or_else(|| {
        Error::new(ErrorKind::Rejected, "the sum of a measure exceeds the 38 digits of a DynamoDB number")
            .with("measure", name)
            .hint("Count this table with `afterwrite backfill` without --bulk: it reports the items that cannot be added")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODEL: &str = r#"
name = "shelves"
generation = 1
tables.t.key = ["pk"]
[entities.book]
key = { pk = "BOOK#{shelf}#{book}" }
attributes = { price = "N", at = "S", title = "S" }

[rollups.shelf]
key = { PK = "SHELF#{shelf}", SK = "R" }
[rollups.all]
key = { PK = "ALL#{shelf}", SK = "R" }
shards = 2

[[aggregates]]
name = "books"
of = "book"
into = "shelf"
[aggregates.measures]
books = "count"
total = { sum = "price" }
mean = { avg = "total", over = "books" }
dearest = { max = "price" }
first = { min = "at:day" }
newest = { latest = "title", by = "at" }

[[aggregates]]
name = "everything"
of = "book"
into = "all"
measures.books = "count"
"#;

    fn merger() -> RollupMerger {
        let model = Model::parse(MODEL, "m.toml").unwrap_or_else(|errors| panic!("{errors}"));
        RollupMerger::new(Arc::new(model))
    }

    fn part(key: &str, numbers: &[(&'static str, &str)], first: Option<&str>) -> Item {
        let mut item: Item =
            [("PK".into(), key.to_owned().into()), ("SK".into(), "R".into())].into_iter().collect();
        for (name, number) in numbers {
            item.insert((*name).into(), AttributeValue::N(number.parse().unwrap()));
        }
        item.extend(first.map(|first| ("first".into(), AttributeValue::text(first))));
        item
    }

    #[test]
    fn parts_are_added_compared_and_averaged() {
        let merger = merger();
        let one = [("books", "2"), ("total", "10.1"), ("mean", "5.05"), ("dearest", "9"), ("rev", "1")];
        let other = [("books", "1"), ("total", "0.9"), ("mean", "0.9"), ("dearest", "0.9"), ("rev", "2")];
        let mut sum = Item::new();
        merger.add(&mut sum, part("SHELF#a", &one, Some("2026-02-06"))).unwrap();
        merger.add(&mut sum, part("SHELF#a", &other, Some("2026-02-05"))).unwrap();
        merger.finish(&mut sum, 100).unwrap();
        let merged =
            [("books", "3"), ("total", "11"), ("mean", "3.666667"), ("dearest", "9"), ("rev", "103")];
        assert_eq!(sum, part("SHELF#a", &merged, Some("2026-02-05")));
    }

    #[test]
    fn the_latest_value_is_that_of_the_latest_part() {
        let merger = merger();
        let mut sum = Item::new();
        for (at, title) in [("2026-02-05", "old"), ("2026-02-07", "new"), ("2026-02-06", "middle")] {
            let seen = format!("{at}\tkey\tS{title}");
            let mut item = part("SHELF#a", &[("books", "1"), ("rev", "1")], None);
            item.extend(
                [("newest_seen", seen.as_str()), ("newest", title)]
                    .map(|(name, text)| (Cow::Borrowed(name), AttributeValue::text(text.to_owned()))),
            );
            merger.add(&mut sum, item).unwrap();
        }
        merger.finish(&mut sum, 0).unwrap();
        assert_eq!(sum.get("newest"), Some(&AttributeValue::text("new")));
        assert_eq!(sum.get("newest_seen"), Some(&AttributeValue::text("2026-02-07\tkey\tSnew")));
    }

    #[test]
    fn the_order_of_parts_does_not_matter() {
        let merger = merger();
        let parts = [
            part("SHELF#a", &[("books", "1"), ("rev", "1")], None),
            part("SHELF#a", &[("books", "2"), ("dearest", "3"), ("rev", "1")], Some("2026-02-05")),
            part("SHELF#a", &[("total", "-7"), ("dearest", "-3"), ("rev", "1")], Some("2026-02-04")),
        ];
        let merge = |order: [usize; 3]| {
            let mut sum = Item::new();
            for index in order {
                merger.add(&mut sum, parts[index].clone()).unwrap();
            }
            sum
        };
        assert_eq!(merge([0, 1, 2]), merge([2, 1, 0]));
        assert_eq!(merge([0, 1, 2]), merge([1, 2, 0]));
    }

    #[test]
    fn a_shard_is_a_rollup_of_its_own_and_other_items_are_refused() {
        let merger = merger();
        let mut sum = Item::new();
        merger.add(&mut sum, part("ALL#a#SHARD#1", &[("books", "1"), ("rev", "1")], None)).unwrap();
        let foreign = part("OTHER", &[("books", "1")], None);
        assert_eq!(merger.add(&mut Item::new(), foreign).unwrap_err().kind(), ErrorKind::State);
        let twice = || part("ALL#a#SHARD#1", &[("unknown", "1")], None);
        merger.add(&mut sum, twice()).unwrap();
        assert_eq!(merger.add(&mut sum, twice()).unwrap_err().kind(), ErrorKind::State);
    }

    #[test]
    fn a_sum_beyond_38_digits_is_an_error_that_names_the_measure_only() {
        let merger = merger();
        let mut sum = part("SHELF#secret", &[("total", "99999999999999999999999999999999999999")], None);
        let more = part("SHELF#secret", &[("total", "0.1")], None);
        let error = merger.add(&mut sum, more).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Rejected);
        assert!(error.to_string().contains("total") && !error.to_string().contains("secret"), "{error}");
    }
}
