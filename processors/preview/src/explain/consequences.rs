//! Everything that follows from one item, as a result.

use std::collections::BTreeMap;
use std::fmt;

use afterwrite_model::Error;
use afterwrite_model::harmless::harmless;
use afterwrite_model::table::NamedList;
use serde::{Serialize, Serializer};

use super::events::ItemEvent;

/// The consequences of an item in one table.
#[derive(Debug, Default, Serialize)]
pub struct Consequences {
    /// The table's name in the model.
    pub table: String,
    /// Its entity.
    pub entity: String,
    /// The values of its key's variables.
    pub key: NamedList<String>,
    /// Its contributions to rollups.
    pub counted: Vec<RollupContribution>,
    /// The outputs of lookups that are not known, if some of its contributions depend on them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unknown_outputs: Vec<String>,
    /// The lookups that it needs.
    pub asks: Vec<LookupResult>,
    /// Its outputs for other items that look it up.
    pub answers: Vec<LookupResult>,
    /// The copies of measures that it shows.
    pub shows: Vec<MirroredValue>,
    /// The cache keys that its change makes stale.
    pub stale_keys: Vec<StaleCacheKey>,
    /// The paths that its change makes stale.
    pub stale_paths: Vec<String>,
    /// The events of its creation.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<ItemEvent>,
    /// Its rows in datasets.
    pub rows: Vec<DatasetRow>,
    /// The parts of the model whose conditions leave the item out.
    pub left_out: Vec<LeftOut>,
    /// Values that make stale paths which nobody requests.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The number of aggregates that leave the item out, because it does not fit them.
    pub skipped: u64,
    /// Attributes that never leave the table.
    pub secret: Vec<String>,
    /// Why it cannot be counted, or has no rows or stale keys.
    pub problems: Vec<ItemProblem>,
}

/// Why an item cannot be counted, or has no rows or stale keys. As text, its advice follows.
#[derive(Debug, PartialEq, Eq)]
pub struct ItemProblem {
    /// The error alone.
    pub problem: String,
    /// The user's next step, or the event that follows by itself.
    pub advice: Option<String>,
    /// Whether the record is delivered again because of it; otherwise it is parked.
    pub is_redelivered: bool,
}

impl From<Error> for ItemProblem {
    fn from(error: Error) -> Self {
        Self {
            problem: error.without_hint().to_string(),
            advice: error.advice().map(|advice| harmless(advice).into_owned()),
            is_redelivered: error.is_retryable(),
        }
    }
}

impl fmt::Display for ItemProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problem)?;
        self.advice.iter().try_for_each(|advice| write!(f, ". {advice}"))
    }
}

impl Serialize for ItemProblem {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The item's contribution to one rollup.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RollupContribution {
    /// The rollup's `PK`.
    #[serde(rename = "PK")]
    pub partition: String,
    /// The rollup's `SK`.
    #[serde(rename = "SK")]
    pub sort: String,
    /// The change of each measure, with its sign; of `max` and `min`, the value as a bound.
    pub measures: NamedList<String>,
    /// When the rollup expires, in seconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<i64>,
}

/// The key of a lookup, and its outputs.
#[derive(Debug, PartialEq, Serialize)]
pub struct LookupResult {
    /// The lookup.
    pub lookup: String,
    /// Its key.
    pub by: String,
    /// Its outputs.
    pub gives: NamedList<String>,
}

/// A mirrored attribute of the item.
#[derive(Debug, PartialEq, Serialize)]
pub struct MirroredValue {
    /// The path of the attribute.
    pub attribute: String,
    /// The measure.
    pub measure: String,
    /// The rollup's `PK`.
    #[serde(rename = "PK")]
    pub partition: String,
    /// The rollup's `SK`.
    #[serde(rename = "SK")]
    pub sort: String,
}

/// A cache key.
#[derive(Debug, PartialEq, Serialize)]
pub struct StaleCacheKey {
    /// The key.
    pub key: String,
    /// How it is made stale.
    pub remedy: String,
}

/// A row of a dataset.
#[derive(Debug, PartialEq, Serialize)]
pub struct DatasetRow {
    /// The dataset.
    pub dataset: String,
    /// The day of its partition.
    pub dt: String,
    /// Whether the item has no day: all such rows are in one partition.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub has_no_day: bool,
    /// The name of the value that the day is taken from.
    #[serde(skip)]
    pub day_of: String,
    /// The values of the row. A column is null if the item has no value for it, or a value that does not fit.
    pub columns: NamedList<Option<String>>,
    /// The content of `_rescued`: values that do not fit their columns, in DynamoDB's JSON, and `null` for a required value that is missing.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub rescued: BTreeMap<String, String>,
}

/// A part that leaves the item out.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// `aggregate orders`, `aggregate orders: measure paid`, `dataset orders`, `cache of order`.
    pub part: String,
    /// The condition that does not hold, as the model has it; or the values that are missing.
    pub needs: String,
    /// The item's value, if it has one.
    pub found: String,
    /// Whether `found` has the item's value, which not everyone may see.
    #[serde(skip)]
    pub shows_value: bool,
}
