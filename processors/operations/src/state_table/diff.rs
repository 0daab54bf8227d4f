//! Compares two state tables.

use std::collections::BTreeSet;
use std::sync::Arc;

use afterwrite_ledger::state::{
    AS_OF, BEHIND, CONTRIBUTIONS, ENTITY_TYPE, EXPIRES_AT, FINGERPRINT, GENERATION, LEDGER_TYPE, LOOKUP_TYPE,
    PARTITION_KEY, POSITION, REV, ROLLUP_TYPE, SORT_KEY, UNRECORDED, UPDATED_AT, key_in,
};
use afterwrite_ledger::tables::{ScanRequest, TableScan, Tables};
use afterwrite_model::Result;
use afterwrite_model::effect::ItemKey;
use afterwrite_model::record::{AttributeValue, Item};
use afterwrite_model::table::Rank;
use afterwrite_preview::tables::plain_value;
use serde::Serialize;
use serde_json::value::RawValue;

/// Items of the other table that are read at once.
const READ_AT_ONCE: usize = 100;

/// Attributes that depend on how often and when an item was written.
const IGNORED: [&str; 4] = [REV, UPDATED_AT, ENTITY_TYPE, EXPIRES_AT];
/// The same, of entries and other items without measures. A measure can have these names.
const IGNORED_WITHOUT_MEASURES: [&str; 5] = [POSITION, AS_OF, GENERATION, FINGERPRINT, BEHIND];

/// The kind of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DifferenceKind {
    /// Only the first table has the item.
    OnlyFirst,
    /// Only the second table has the item.
    OnlySecond,
    /// An attribute differs.
    Attribute,
}

impl DifferenceKind {
    /// The difference in words.
    #[must_use]
    pub fn describe(self, attribute: &str, first: &str, second: &str) -> String {
        match self {
            Self::OnlyFirst => "only in the first table".to_owned(),
            Self::OnlySecond => "only in the second table".to_owned(),
            Self::Attribute => format!("{attribute}: {first} and {second}"),
        }
    }
}

/// One difference. Keys, measures and contributions are shown; nothing else of an item is in a state table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StateDifference {
    /// `ROLLUP`, `LEDGER` or `LOOKUP`.
    pub entity_type: String,
    /// The partition key.
    #[serde(rename = "PK")]
    pub partition: String,
    /// The sort key.
    #[serde(rename = "SK")]
    pub sort: String,
    /// The kind of difference.
    pub kind: DifferenceKind,
    /// The attribute; empty if a whole item is missing.
    pub attribute: String,
    /// The value in the first table.
    pub first: Option<String>,
    /// The value in the second table.
    pub second: Option<String>,
}

/// The number of compared items and of differences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StateDiffTotals {
    /// Rollups, entries and lookups of the first table.
    pub first_items: u64,
    /// Those of the second table.
    pub second_items: u64,
    /// Differences.
    pub differences: u64,
}

/// A comparison of two state tables. Measures, contributions and lookups must be equal; revisions, positions and times may differ. An item
/// that counts nothing equals a missing one: a rollup whose measures are 0, a tombstone that names no unrecorded life. Expiry markers are not compared: the rollups
/// have what they settled.
#[derive(Debug)]
pub struct StateDiff<T> {
    tables: T,
    first: Arc<str>,
    second: Arc<str>,
}

impl<T: Tables + TableScan> StateDiff<T> {
    /// A comparison of these tables.
    pub fn new(tables: T, first: Arc<str>, second: Arc<str>) -> Self {
        Self { tables, first, second }
    }

    /// Compares the tables; `report` is called with each difference. Memory is bounded by a page of a scan.
    ///
    /// # Errors
    /// As [`TableScan::scan`] and [`Tables::read`].
    pub async fn compare(&self, mut report: impl FnMut(StateDifference)) -> Result<StateDiffTotals> {
        let mut found = 0;
        let mut count = |difference: StateDifference| {
            found += 1;
            report(difference);
        };
        let mut compare = |one: &Item, other: Option<&Item>| differences(one, other, &mut count);
        let first_items = self.scan(&self.first, &self.second, &mut compare).await?;
        let mut compare = |one: &Item, other: Option<&Item>| {
            if other.is_none() && counts(one) {
                count(missing(one, DifferenceKind::OnlySecond));
            }
        };
        let second_items = self.scan(&self.second, &self.first, &mut compare).await?;
        Ok(StateDiffTotals { first_items, second_items, differences: found })
    }

    /// Passes each compared item of `table` to `compare`, with the item of `other` that has its key.
    async fn scan(
        &self,
        table: &Arc<str>,
        other: &Arc<str>,
        compare: &mut impl FnMut(&Item, Option<&Item>),
    ) -> Result<u64> {
        let mut request = Some(ScanRequest { is_consistent: true, ..ScanRequest::whole(Arc::clone(table)) });
        let mut compared = 0;
        while let Some(now) = request {
            let page = self.tables.scan(&now).await?;
            let items: Vec<Item> = page.items.into_iter().filter(is_compared).collect();
            for items in items.chunks(READ_AT_ONCE) {
                let keys: Vec<ItemKey> = items.iter().filter_map(|item| key_in(other, item)).collect();
                let others = self.tables.read(&keys).await?.items;
                for (item, other) in items.iter().zip(others) {
                    compare(item, other.as_ref());
                    compared += 1;
                }
            }
            request = page.next.map(|next| ScanRequest { start_after: Some(next), ..now });
        }
        Ok(compared)
    }
}

/// Whether the item is a rollup, an entry or a lookup. A marker has no contributions.
fn is_compared(item: &Item) -> bool {
    match text(item, ENTITY_TYPE) {
        ROLLUP_TYPE | LOOKUP_TYPE => true,
        LEDGER_TYPE => item.contains_key(CONTRIBUTIONS),
        _ => false,
    }
}

/// The differences of an item of the first table from that of the second one.
fn differences(one: &Item, other: Option<&Item>, report: &mut impl FnMut(StateDifference)) {
    let Some(other) = other else {
        if counts(one) {
            report(missing(one, DifferenceKind::OnlyFirst));
        }
        return;
    };
    let names: BTreeSet<_> = one.keys().chain(other.keys()).filter(|name| has_value_of(one, name)).collect();
    for name in names {
        let (first, second) = (one.get(name), other.get(name));
        let is_equal = match &**name {
            CONTRIBUTIONS => counted_parts(one) == counted_parts(other),
            _ => first == second || (is_zero(first) && is_zero(second)),
        };
        if is_equal {
            continue;
        }
        report(StateDifference {
            attribute: name.to_string(),
            first: first.map(plain_value),
            second: second.map(plain_value),
            ..missing(one, DifferenceKind::Attribute)
        });
    }
}

fn missing(item: &Item, kind: DifferenceKind) -> StateDifference {
    StateDifference {
        entity_type: text(item, ENTITY_TYPE).to_owned(),
        partition: text(item, PARTITION_KEY).to_owned(),
        sort: text(item, SORT_KEY).to_owned(),
        kind,
        attribute: String::new(),
        first: None,
        second: None,
    }
}

/// Whether an item counts something.
fn counts(item: &Item) -> bool {
    match text(item, ENTITY_TYPE) {
        // A tombstone may name a life that ended without a record.
        LEDGER_TYPE => item.contains_key(UNRECORDED) || !counted_parts(item).is_empty(),
        ROLLUP_TYPE => item.iter().any(|(name, value)| {
            has_value_of(item, name)
                && ![PARTITION_KEY, SORT_KEY].contains(&&**name)
                && !Rank::names_group(name, value)
                && !is_zero(Some(value))
        }),
        _ => true,
    }
}

/// Whether an attribute of an item is compared.
fn has_value_of(item: &Item, name: &str) -> bool {
    let has_measures = text(item, ENTITY_TYPE) == ROLLUP_TYPE;
    !IGNORED.contains(&name) && (has_measures || !IGNORED_WITHOUT_MEASURES.contains(&name))
}

/// The contributions of an entry, without the mirrored rollups that its last write left, which follow `null`.
fn counted_parts(entry: &Item) -> Vec<&str> {
    let parts: Vec<&RawValue> = serde_json::from_str(text(entry, CONTRIBUTIONS)).unwrap_or_default();
    parts.into_iter().map(RawValue::get).filter(|part| !part.starts_with("[null")).collect()
}

/// Whether a measure is 0 or absent.
fn is_zero(value: Option<&AttributeValue<'_>>) -> bool {
    value.is_none_or(|value| value.as_number().is_some_and(|number| number.is_zero()))
}

fn text<'i>(item: &'i Item, name: &str) -> &'i str {
    item.get(name).and_then(AttributeValue::as_text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c6_measures_with_names_of_attributes_of_entries_are_compared() {
        let item = |entity_type: &'static str, position: i64| {
            Item::from([
                ("PK".into(), AttributeValue::text("ALL")),
                ("EntityType".into(), AttributeValue::text(entity_type)),
                ("position".into(), AttributeValue::N(position.into())),
            ])
        };
        assert!(has_value_of(&item("ROLLUP", 15), "position") && counts(&item("ROLLUP", 15)));
        assert!(!has_value_of(&item("LEDGER", 15), "position") && !has_value_of(&item("ROLLUP", 15), "rev"));
        assert!(!counts(&item("ROLLUP", 0)));
    }
}
