//! A model in words: every part under its name, with names in the place of indexes.

use serde::Serialize;

use super::{
    AggregateDescription, ArchiveScope, CacheDescription, DatasetDescription, EntityDescription,
    EventDescription, LookupDescription, MirrorDescription, Model, NamedList, RollupDescription, RollupKeys,
    Table,
};

/// A model in words: what `afterwrite model show` prints and `afterwrite model diff` compares.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModelDescription {
    /// The model's name.
    pub name: String,
    /// Grows with every change.
    pub generation: u64,
    /// Which change records are archived.
    pub archive: ArchiveScope,
    /// The key attributes of the source tables.
    pub tables: NamedList<Vec<String>>,
    /// The separators of tables whose values never contain them.
    #[serde(skip)]
    pub separators: NamedList<String>,
    /// The keys of the indexes that the application needs, by `<table>.<index>`.
    #[serde(skip_serializing_if = "NamedList::is_empty")]
    pub indexes: NamedList<String>,
    /// The kinds of items.
    pub entities: NamedList<EntityDescription>,
    /// The values that are looked up on other items.
    pub lookups: NamedList<LookupDescription>,
    /// How values are written into the keys of rollups; absent if they are written as they are.
    #[serde(skip_serializing_if = "RollupKeys::is_plain")]
    pub rollup_keys: RollupKeys,
    /// The items that hold measures.
    pub rollups: NamedList<RollupDescription>,
    /// The aggregates, which count items into the rollups.
    pub aggregates: NamedList<AggregateDescription>,
    /// By `<entity>.<attribute>`.
    pub mirrors: NamedList<MirrorDescription>,
    /// The cache keys and paths that are stale once an item has changed.
    pub caches: Vec<CacheDescription>,
    /// The changes that other systems hear of.
    #[serde(skip_serializing_if = "NamedList::is_empty")]
    pub events: NamedList<EventDescription>,
    /// The rows that analysts query.
    pub datasets: NamedList<DatasetDescription>,
    /// The SQL of saved queries.
    pub queries: NamedList<String>,
}

impl Model {
    /// The model in words.
    #[must_use]
    pub fn describe(&self) -> ModelDescription {
        let entities = self.entities.iter().enumerate();
        ModelDescription {
            name: self.name.to_string(),
            generation: self.generation,
            archive: self.archive,
            tables: self.tables.iter().map(|table| (&table.name, table.describe())).collect(),
            separators: self.tables.iter().filter_map(Table::described_separator).collect(),
            indexes: self.tables.iter().flat_map(Table::describe_indexes).collect(),
            entities: entities.map(|(index, entity)| (&entity.name, entity.describe(self, index))).collect(),
            lookups: self.lookups.iter().map(|lookup| (&lookup.name, lookup.describe(self))).collect(),
            rollup_keys: self.rollup_keys,
            rollups: self.rollups.iter().map(|rollup| (&rollup.name, rollup.describe())).collect(),
            aggregates: self
                .aggregates
                .iter()
                .map(|counted| (&counted.name, counted.describe(self)))
                .collect(),
            mirrors: self.mirrors.iter().flat_map(|mirror| mirror.describe(self)).collect(),
            caches: self.caches.iter().map(|rule| rule.describe(self)).collect(),
            events: self.events.iter().map(|rule| (&rule.name, rule.describe(self))).collect(),
            datasets: self.datasets.iter().map(|dataset| (&dataset.name, dataset.describe(self))).collect(),
            queries: self.queries.iter().map(|query| (&query.name, query.sql.to_string())).collect(),
        }
    }
}
