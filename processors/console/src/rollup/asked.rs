//! The rollups that an address asks for, by the values of their keys.

use afterwrite_model::Result;

use super::shape::RollupShape;
use crate::links::VALUE;
use crate::query::PageQuery;

/// The parameters of the first and the last bucket.
pub(crate) const FROM: &str = "from";
pub(crate) const TO: &str = "to";
/// The buckets before or after a bound, if the other bound is not given.
const DEFAULT_BUCKETS: i64 = 30;

/// The rollups that are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AskedRollups {
    /// None yet.
    Nothing,
    /// The rollup with these values, aligned with the variables.
    One(Vec<String>),
    /// The rollups from one bucket to another.
    Buckets(AskedBuckets),
    /// The rollups with this `PK`, without a shard, whose `SK` has this beginning.
    Listed {
        /// The `PK`.
        partition: String,
        /// The beginning of the `SK`.
        beginning: String,
    },
    /// Values are missing: the sentence says which.
    Incomplete(String),
}

/// Buckets from one to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AskedBuckets {
    /// The values of the key, aligned with the variables; that of the bucket is empty.
    pub(crate) values: Vec<String>,
    /// The variable that is the bucket.
    pub(crate) bucket: usize,
    /// The first bucket.
    pub(crate) from: String,
    /// The last bucket.
    pub(crate) to: String,
}

impl AskedBuckets {
    /// The values of the rollup of one bucket.
    pub(crate) fn values_of(&self, bucket: &str) -> Vec<String> {
        let mut values = self.values.clone();
        if let Some(value) = values.get_mut(self.bucket) {
            bucket.clone_into(value);
        }
        values
    }
}

/// The parameter with the value of a variable.
pub(crate) fn parameter(variable: &str) -> String {
    format!("{VALUE}{variable}")
}

/// The rollups that a query asks for.
///
/// # Errors
/// `Configuration` if a bucket has another form, or the last bucket is before the first.
pub(crate) fn asked(shape: &RollupShape<'_>, query: &PageQuery) -> Result<AskedRollups> {
    let values: Vec<Option<&str>> =
        shape.rollup.variables.iter().map(|variable| query.get(&parameter(variable))).collect();
    let known = |index: usize| values.get(index).copied().flatten();
    let owned = || values.iter().map(|value| value.unwrap_or_default().to_owned()).collect::<Vec<_>>();
    if values.iter().all(Option::is_some) {
        return Ok(AskedRollups::One(owned()));
    }
    let (from, to) = (query.get(FROM), query.get(TO));
    if let Some((bucket, format)) = shape.bucket()
        && (0..values.len()).all(|index| index == bucket || known(index).is_some())
        && (from.is_some() || to.is_some())
    {
        for bound in [from, to].into_iter().flatten() {
            shape.check_form(bucket, bound)?;
        }
        let near = |bound: Option<&str>, buckets| format.bucket.shifted(bound?, buckets);
        let first = from.map(str::to_owned).or_else(|| near(to, -DEFAULT_BUCKETS));
        let last = to.map(str::to_owned).or_else(|| near(from, DEFAULT_BUCKETS));
        let (from, to) = (first.unwrap_or_default(), last.unwrap_or_default());
        if from > to {
            return Err(shape.refused("the last bucket is before the first"));
        }
        return Ok(AskedRollups::Buckets(AskedBuckets { values: owned(), bucket, from, to }));
    }
    Ok(listed(shape, &values))
}

/// The rollups of a partition, if its values are known.
fn listed(shape: &RollupShape<'_>, values: &[Option<&str>]) -> AskedRollups {
    let known = |index: usize| values.get(index).copied().flatten();
    let in_partition = |index: usize| shape.reader.fields.get(index).is_some_and(|field| field.is_partition);
    let missing: Vec<usize> = (0..values.len()).filter(|index| known(*index).is_none()).collect();
    let missing_of_partition: Vec<usize> =
        missing.iter().copied().filter(|index| in_partition(*index)).collect();
    if !missing_of_partition.is_empty() {
        if values.iter().all(Option::is_none) {
            return AskedRollups::Nothing;
        }
        return AskedRollups::Incomplete(missing_text(shape, &missing_of_partition));
    }
    let first_missing = missing.first().copied().unwrap_or(values.len());
    if let Some(later) =
        (first_missing..values.len()).find(|index| !in_partition(*index) && known(*index).is_some())
    {
        let (later, first) = (shape.variable(later), shape.variable(first_missing));
        return AskedRollups::Incomplete(format!(
            "`{later}` is given, but `{first}`, which is before it in the key, is not"
        ));
    }
    // A value that no key contains marks the place up to which the sort key is known.
    const END: &str = "\u{0}";
    let marked: Vec<&str> = values.iter().map(|value| value.unwrap_or(END)).collect();
    let (partition, sort) = shape.rollup.key(&marked);
    let beginning = sort.split(END).next().unwrap_or_default().to_owned();
    AskedRollups::Listed { partition, beginning }
}

fn missing_text(shape: &RollupShape<'_>, missing: &[usize]) -> String {
    let names: Vec<String> = missing.iter().map(|index| format!("`{}`", shape.variable(*index))).collect();
    let is_bucket = |index: &usize| shape.bucket().is_some_and(|(bucket, _)| bucket == *index);
    if missing.iter().all(is_bucket) {
        return format!("Write {}, or the first and the last bucket", names.join(", "));
    }
    format!("A rollup is found by its partition key: write {}, too", names.join(", "))
}
