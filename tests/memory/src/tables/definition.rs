//! Definitions of tables: keys, indexes, stream.

use std::sync::Arc;

use afterwrite_ledger::tables::{IndexProjection, TableIndex};
use afterwrite_model::effect::KeyAttribute;
use afterwrite_model::record::AttributeValue;

/// The definition of a table, as in `CreateTable`.
#[derive(Clone, Debug)]
pub struct TableDefinition {
    pub(super) name: String,
    pub(super) keys: IndexKeySchema,
    pub(super) indexes: Vec<IndexDefinition>,
    pub(super) has_stream: bool,
}

impl TableDefinition {
    /// A table with a partition key only.
    pub fn new(name: impl Into<String>, partition: impl Into<KeyDefinition>) -> Self {
        let keys = IndexKeySchema::of(partition.into());
        Self { name: name.into(), keys, indexes: Vec::new(), has_stream: false }
    }

    /// The same table with a sort key.
    #[must_use]
    pub fn sort(mut self, sort: impl Into<KeyDefinition>) -> Self {
        self.keys.sort = Some(sort.into());
        self
    }

    /// The same table with another global secondary index, which projects all attributes.
    #[must_use]
    pub fn index(mut self, index: IndexDefinition) -> Self {
        self.indexes.push(index);
        self
    }

    /// Its indexes as `DescribeTable` reports them.
    pub(super) fn table_indexes(&self) -> Vec<TableIndex> {
        let keys =
            |index: &IndexDefinition| index.keys.definitions().map(|key| Arc::from(&*key.name)).collect();
        let indexes = self.indexes.iter();
        indexes.map(|index| TableIndex { keys: keys(index), projection: IndexProjection::All }).collect()
    }

    /// The same table with a stream of new and old images, which [`super::MemoryTables::take_changes`] reads.
    #[must_use]
    pub fn streamed(mut self) -> Self {
        self.has_stream = true;
        self
    }
}

/// The definition of a global secondary index.
#[derive(Clone, Debug)]
pub struct IndexDefinition {
    pub(super) name: String,
    pub(super) keys: IndexKeySchema,
}

impl IndexDefinition {
    /// An index with a partition key only.
    pub fn new(name: impl Into<String>, partition: impl Into<KeyDefinition>) -> Self {
        Self { name: name.into(), keys: IndexKeySchema::of(partition.into()) }
    }

    /// The same index with another attribute of its partition key.
    #[must_use]
    pub fn partition(mut self, partition: impl Into<KeyDefinition>) -> Self {
        self.keys.more_partition.push(partition.into());
        self
    }

    /// The same index with an attribute of its sort key.
    #[must_use]
    pub fn sort(mut self, sort: impl Into<KeyDefinition>) -> Self {
        match self.keys.sort {
            None => self.keys.sort = Some(sort.into()),
            Some(_) => self.keys.more_sort.push(sort.into()),
        }
        self
    }
}

/// The key attributes of a table or an index.
#[derive(Clone, Debug)]
pub(super) struct IndexKeySchema {
    pub(super) partition: KeyDefinition,
    /// The other attributes of the partition key of an index.
    pub(super) more_partition: Vec<KeyDefinition>,
    pub(super) sort: Option<KeyDefinition>,
    /// The other attributes of the sort key of an index.
    pub(super) more_sort: Vec<KeyDefinition>,
}

impl IndexKeySchema {
    fn of(partition: KeyDefinition) -> Self {
        Self { partition, more_partition: Vec::new(), sort: None, more_sort: Vec::new() }
    }

    pub(super) fn definitions(&self) -> impl Iterator<Item = &KeyDefinition> {
        std::iter::once(&self.partition).chain(&self.more_partition).chain(self.sorted())
    }

    /// The attributes of the sort key.
    pub(super) fn sorted(&self) -> impl Iterator<Item = &KeyDefinition> {
        self.sort.iter().chain(&self.more_sort)
    }

    /// The first attribute that a query states and the index does not have in this place, or that the query lacks.
    pub(super) fn unfit<'k>(&'k self, query: &'k [KeyAttribute]) -> Option<&'k str> {
        let mut definitions = self.definitions();
        for attribute in query {
            let fits =
                |key: &KeyDefinition| *key.name == *attribute.name && key.key_type.admits(&attribute.value);
            if !definitions.next().is_some_and(fits) {
                return Some(&attribute.name);
            }
        }
        let missing = self.more_partition.get(query.len().saturating_sub(1));
        missing.map(|key| key.name.as_str())
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        self.definitions().any(|key| key.name == name)
    }
}

/// A key attribute's name and type. A bare name means a string (`S`), the type of nearly every key.
#[derive(Clone, Debug)]
pub struct KeyDefinition {
    pub(super) name: String,
    pub(super) key_type: KeyAttributeType,
}

impl KeyDefinition {
    /// A key attribute of the given type.
    pub fn new(name: impl Into<String>, key_type: KeyAttributeType) -> Self {
        Self { name: name.into(), key_type }
    }
}

impl From<&str> for KeyDefinition {
    fn from(name: &str) -> Self {
        Self::new(name, KeyAttributeType::Text)
    }
}

/// The types of key attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyAttributeType {
    /// `S`
    Text,
    /// `N`
    Number,
    /// `B`
    Binary,
}

impl KeyAttributeType {
    pub(super) fn admits(self, value: &AttributeValue<'_>) -> bool {
        matches!(
            (self, value),
            (Self::Text, AttributeValue::S(_))
                | (Self::Number, AttributeValue::N(_))
                | (Self::Binary, AttributeValue::B(_))
        )
    }
}
