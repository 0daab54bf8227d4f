//! The rollups that the state table holds, as readers see them: the shards of one are one.

use std::collections::BTreeMap;

use super::exact::Exact;
use super::item::{Item, Value, text_of};
use super::recount::Key;

/// Attributes of a rollup that are no measures.
const BOOKKEEPING: [&str; 5] = ["PK", "SK", "EntityType", "rev", "updated_at"];

/// Measures by name.
pub type Measures = BTreeMap<String, Value>;

/// All rollups by key, with whatever they hold but bookkeeping.
#[derive(Clone, Debug, Default)]
pub struct Rollups(BTreeMap<Key, Measures>);

impl Rollups {
    /// Those among the items of a state table.
    #[must_use]
    pub fn of(state: &[Item]) -> Self {
        let mut rollups = BTreeMap::new();
        for item in state.iter().filter(|item| text_of(item, "EntityType") == "ROLLUP") {
            let partition = text_of(item, "PK");
            let partition = partition.rsplit_once("#SHARD#").map_or(partition, |(partition, _)| partition);
            let key = Key::new(partition, text_of(item, "SK"));
            let measures: &mut Measures = rollups.entry(key).or_default();
            for (name, attribute) in item.iter().filter(|(name, _)| !BOOKKEEPING.contains(&name.as_str())) {
                let value = match (measures.get(name), Value::of(attribute)) {
                    (Some(Value::Number(so_far)), Value::Number(more)) => Value::Number(*so_far + more),
                    (_, value) => value,
                };
                measures.insert(name.clone(), value);
            }
        }
        Self(rollups)
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All keys.
    pub fn keys(&self) -> impl Iterator<Item = &Key> {
        self.0.keys()
    }

    /// What a rollup holds.
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<&Measures> {
        self.0.get(key)
    }

    /// A number of a rollup; nought if it holds none.
    #[must_use]
    pub fn number(&self, partition: &str, sort: &str, measure: &str) -> Exact {
        self.get(&Key::new(partition, sort)).map_or(Exact::ZERO, |measures| number(measures, measure))
    }

    /// The rollups of a partition whose sort key begins so, in order: what one query gives. Each comes with the rest of its
    /// sort key.
    pub fn query<'r>(
        &'r self,
        partition: &str,
        prefix: &'r str,
    ) -> impl Iterator<Item = (&'r str, &'r Measures)> + use<'r> {
        let partition = partition.to_owned();
        let found = self.0.iter().filter(move |(key, _)| key.0 == partition);
        found.filter_map(move |(key, measures)| Some((key.1.strip_prefix(prefix)?, measures)))
    }

    /// The rollups with this sort key, each with the rest of a partition that begins so.
    pub fn each<'r>(
        &'r self,
        prefix: &'r str,
        sort: &'r str,
    ) -> impl Iterator<Item = (&'r str, &'r Measures)> {
        let found = self.0.iter().filter(move |(key, _)| key.1 == sort);
        found.filter_map(move |(key, measures)| Some((key.0.strip_prefix(prefix)?, measures)))
    }
}

/// A number among measures; nought if there is none.
#[must_use]
pub fn number(measures: &Measures, name: &str) -> Exact {
    measures.get(name).map_or(Exact::ZERO, Value::number)
}
