//! The definition of a table of the embedded DynamoDB.

use std::collections::{BTreeMap, BTreeSet};

use afterwrite_ledger::state::{BEHIND, EXPIRES_AT, PARTITION_KEY, SORT_KEY};
use afterwrite_model::table::{Model, RankIndex};
use afterwrite_model::{Error, ErrorKind, Result};
use dynoxide::actions::create_table::CreateTableRequest;
use dynoxide::actions::update_table::UpdateTableRequest;
use dynoxide::actions::update_time_to_live::{TimeToLiveSpecification, UpdateTimeToLiveRequest};
use serde_json::{Value, json};

/// The index of a state table that lists parked items.
pub const PARKED_INDEX: &str = "parked";

/// A table to create; it is billed by request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableDefinition {
    /// Its name.
    pub name: String,
    /// Its primary key.
    pub key: KeyDefinition,
    /// Its global secondary indexes, by name; they project all attributes.
    pub indexes: Vec<(String, KeyDefinition)>,
    /// Whether it has a stream of new and old images.
    pub stream: bool,
    /// The attribute with the epoch second after which DynamoDB may delete an item.
    pub ttl_attribute: Option<String>,
}

/// The attributes of a key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyDefinition {
    /// The partition key; of several attributes, the first.
    pub partition: String,
    /// The sort key, if there is one; of several attributes, the first.
    pub sort: Option<String>,
    /// The other attributes of the partition key of an index.
    pub more_partition: Vec<String>,
    /// The other attributes of the sort key of an index.
    pub more_sort: Vec<String>,
    /// The types (`N`, `B`) of attributes that are not of type `S`, by name.
    pub types: BTreeMap<String, String>,
}

impl KeyDefinition {
    /// A key of a partition and a sort key.
    #[must_use]
    pub fn new(partition: &str, sort: &str) -> Self {
        Self { partition: partition.to_owned(), sort: Some(sort.to_owned()), ..Self::default() }
    }

    /// A key of a partition key only.
    #[must_use]
    pub fn partition_only(partition: &str) -> Self {
        Self { partition: partition.to_owned(), ..Self::default() }
    }

    /// A key of an index, of up to four attributes each.
    #[must_use]
    pub fn of_several(partition: Vec<String>, sort: Vec<String>) -> Self {
        let (mut partition, mut sort) = (partition.into_iter(), sort.into_iter());
        Self {
            partition: partition.next().unwrap_or_default(),
            sort: sort.next(),
            more_partition: partition.collect(),
            more_sort: sort.collect(),
            types: BTreeMap::new(),
        }
    }

    /// Whether a key has several attributes, which the database does not know.
    pub(crate) fn has_several(&self) -> bool {
        !self.more_partition.is_empty() || !self.more_sort.is_empty()
    }

    /// All attributes of the partition key.
    pub(crate) fn whole_partition(&self) -> impl Iterator<Item = &String> {
        std::iter::once(&self.partition).chain(&self.more_partition)
    }

    /// All attributes of the sort key.
    pub(crate) fn whole_sort(&self) -> impl Iterator<Item = &String> {
        self.sort.iter().chain(&self.more_sort)
    }

    /// The type of an attribute.
    pub(crate) fn type_of(&self, attribute: &str) -> &str {
        self.types.get(attribute).map_or("S", |kind| kind)
    }

    /// The names of the attributes that the database knows: one of each key.
    pub fn attributes(&self) -> impl Iterator<Item = &String> {
        std::iter::once(&self.partition).chain(&self.sort)
    }

    fn schema(&self) -> Value {
        let roles = self.attributes().zip(["HASH", "RANGE"]);
        roles.map(|(name, role)| json!({ "AttributeName": name, "KeyType": role })).collect()
    }
}

fn stream_specification() -> Value {
    json!({ "StreamEnabled": true, "StreamViewType": "NEW_AND_OLD_IMAGES" })
}

/// An index that has all attributes.
fn index_json(name: &str, key: &KeyDefinition) -> Value {
    json!({ "IndexName": name, "KeySchema": key.schema(), "Projection": { "ProjectionType": "ALL" } })
}

impl TableDefinition {
    /// A state table, as `infra/README.md` defines it.
    #[must_use]
    pub fn state(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            key: KeyDefinition::new(PARTITION_KEY, SORT_KEY),
            indexes: vec![(PARKED_INDEX.to_owned(), KeyDefinition::partition_only(BEHIND))],
            stream: false,
            ttl_attribute: Some(EXPIRES_AT.to_owned()),
        }
    }

    /// The same state table with the indexes of the model's ranks.
    #[must_use]
    pub fn ranked(mut self, model: &Model) -> Self {
        self.indexes.extend(model.rank_indexes().into_iter().map(|RankIndex { attribute, measure }| {
            let types = BTreeMap::from([(measure.to_string(), "N".to_owned())]);
            (attribute.to_string(), KeyDefinition { types, ..KeyDefinition::new(&attribute, &measure) })
        }));
        self
    }

    pub(super) fn create_request(&self) -> Result<CreateTableRequest> {
        let indexes = self.indexes.iter().map(|(name, key)| index_json(name, key));
        let indexes: Option<Value> = (!self.indexes.is_empty()).then(|| indexes.collect());
        let request = json!({
            "TableName": self.name,
            "BillingMode": "PAY_PER_REQUEST",
            "KeySchema": self.key.schema(),
            "AttributeDefinitions": self.attribute_definitions(self.keys()),
            "GlobalSecondaryIndexes": indexes,
            "StreamSpecification": self.stream.then(stream_specification),
        });
        serde_json::from_value(request).map_err(|error| self.invalid(error))
    }

    /// Adds a stream to the table.
    pub(super) fn stream_request(&self) -> Result<UpdateTableRequest> {
        let request = json!({ "TableName": self.name, "StreamSpecification": stream_specification() });
        serde_json::from_value(request).map_err(|error| self.invalid(error))
    }

    /// Adds an index to the table.
    pub(super) fn index_request(&self, name: &str, key: &KeyDefinition) -> Result<UpdateTableRequest> {
        let request = json!({
            "TableName": self.name,
            "AttributeDefinitions": self.attribute_definitions([&self.key, key].into_iter()),
            "GlobalSecondaryIndexUpdates": [{ "Create": index_json(name, key) }],
        });
        serde_json::from_value(request).map_err(|error| self.invalid(error))
    }

    /// The attributes of keys, with their types. A type that any key of the table states counts: `S` is only the default.
    fn attribute_definitions<'d>(&'d self, keys: impl Iterator<Item = &'d KeyDefinition>) -> Vec<Value> {
        let stated: BTreeMap<&String, &String> = self.keys().flat_map(|key| &key.types).collect();
        let names: BTreeSet<&String> = keys.flat_map(KeyDefinition::attributes).collect();
        let kind = |name: &String| stated.get(name).map_or("S", |kind| kind.as_str());
        names.into_iter().map(|name| json!({ "AttributeName": name, "AttributeType": kind(name) })).collect()
    }

    /// The keys of the table and its indexes.
    fn keys(&self) -> impl Iterator<Item = &KeyDefinition> {
        std::iter::once(&self.key).chain(self.indexes.iter().map(|(_, key)| key))
    }

    fn invalid(&self, cause: serde_json::Error) -> Error {
        Error::new(ErrorKind::Configuration, "the definition of a table is invalid")
            .with("table", &self.name)
            .caused_by(cause)
    }

    pub(super) fn ttl_request(&self) -> Option<UpdateTimeToLiveRequest> {
        let attribute_name = self.ttl_attribute.clone()?;
        let time_to_live_specification = TimeToLiveSpecification { attribute_name, enabled: true };
        Some(UpdateTimeToLiveRequest { table_name: self.name.clone(), time_to_live_specification })
    }
}
