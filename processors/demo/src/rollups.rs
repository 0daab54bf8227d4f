//! The rollups of the state table as readers see them: the shards of a rollup are added up.

use std::collections::BTreeMap;
use std::fmt;

use crate::exact::ExactNumber;
use crate::item::{ItemValue, SdkItem, text_of};

/// Attributes of a rollup that are not measures.
const BOOKKEEPING: [&str; 5] = ["PK", "SK", "EntityType", "rev", "updated_at"];

/// The key of a rollup: `PK`, without a shard, and `SK`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RollupKey(pub String, pub String);

impl RollupKey {
    /// The key of these attributes.
    pub fn new(partition: impl Into<String>, sort: impl Into<String>) -> Self {
        Self(partition.into(), sort.into())
    }
}

impl fmt::Display for RollupKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.0, self.1)
    }
}

/// Values by measure.
pub type MeasureValues = BTreeMap<String, ItemValue>;

/// All rollups by key, without their bookkeeping attributes.
#[derive(Clone, Debug, Default)]
pub struct RollupSet(pub BTreeMap<RollupKey, MeasureValues>);

impl RollupSet {
    /// The rollups among the items of a state table.
    #[must_use]
    pub fn of(state: &[SdkItem]) -> Self {
        let mut rollups = BTreeMap::new();
        for item in state.iter().filter(|item| text_of(item, "EntityType") == "ROLLUP") {
            let partition = text_of(item, "PK");
            let partition = partition.rsplit_once("#SHARD#").map_or(partition, |(partition, _)| partition);
            let measures: &mut MeasureValues =
                rollups.entry(RollupKey::new(partition, text_of(item, "SK"))).or_default();
            let is_measure = |name: &str| !BOOKKEEPING.contains(&name) && !name.starts_with("rank_");
            for (name, attribute) in item.iter().filter(|(name, _)| is_measure(name)) {
                let value = match (measures.get(name), ItemValue::of(attribute)) {
                    (Some(ItemValue::Number(sum)), ItemValue::Number(more)) => {
                        ItemValue::Number(sum.plus(&more))
                    }
                    (_, value) => value,
                };
                measures.insert(name.clone(), value);
            }
        }
        Self(rollups)
    }

    /// A number of a rollup; zero if it is absent.
    #[must_use]
    pub fn number(&self, partition: &str, sort: &str, measure: &str) -> ExactNumber {
        let measures = self.0.get(&RollupKey::new(partition, sort));
        measures.map_or(ExactNumber::ZERO, |measures| number(measures, measure))
    }

    /// The rollups of a partition whose sort keys have this prefix, in order: the result of one query. Each comes with the
    /// rest of its sort key.
    pub fn query<'r>(
        &'r self,
        partition: &str,
        prefix: &'r str,
    ) -> impl DoubleEndedIterator<Item = (&'r str, &'r MeasureValues)> + use<'r> {
        let partition = partition.to_owned();
        let rollups = self.0.iter().filter(move |(key, _)| key.0 == partition);
        rollups.filter_map(move |(key, measures)| Some((key.1.strip_prefix(prefix)?, measures)))
    }

    /// The rollups with this sort key whose partition keys have this prefix, each with the rest of its partition key.
    pub fn each<'r>(
        &'r self,
        prefix: &'r str,
        sort: &'r str,
    ) -> impl Iterator<Item = (&'r str, &'r MeasureValues)> {
        let rollups = self.0.iter().filter(move |(key, _)| key.1 == sort);
        rollups.filter_map(move |(key, measures)| Some((key.0.strip_prefix(prefix)?, measures)))
    }
}

/// A number among measures; zero if it is absent.
#[must_use]
pub fn number(measures: &MeasureValues, name: &str) -> ExactNumber {
    measures.get(name).map_or(ExactNumber::ZERO, ItemValue::number)
}
