//! The tables of a model, as they are created for development.

use std::collections::BTreeMap;
use std::sync::Arc;

use afterwrite::table::{KeySchema, KeyType, Lookup, Model, Table};
use afterwrite_demo::workloads;
use afterwrite_local::dynamodb::{KeyDefinition, TableDefinition};

/// The attribute that expires items of tables whose application is not known.
const TTL_ATTRIBUTE: &str = "ttl";

/// The source tables under their deployed names: those of a built-in model's application, or else what the model tells of its own.
pub(super) fn source_tables(model: &Model, names: &[Arc<str>]) -> Vec<TableDefinition> {
    let designed = workloads::of(&model.name).map(|workload| workload.tables()).unwrap_or_default();
    let definition = |(index, table): (usize, &Table)| {
        let known = designed.iter().find(|designed| *designed.name == *table.name).cloned();
        known.unwrap_or_else(|| derived_table(model, index, table))
    };
    let definitions = model.tables.iter().enumerate().map(definition);
    definitions
        .zip(names)
        .map(|(definition, name)| TableDefinition { name: name.to_string(), ..definition })
        .collect()
}

/// A table with the keys that the model names, and the indexes of its lookups.
fn derived_table(model: &Model, index: usize, table: &Table) -> TableDefinition {
    let is_here =
        |lookup: &&Lookup| model.entities.get(lookup.of).is_some_and(|entity| entity.table == index);
    let mut indexes: BTreeMap<String, KeyDefinition> = BTreeMap::new();
    for lookup in model.lookups.iter().filter(is_here) {
        let Some(index) = lookup.index() else { continue };
        let key = indexes
            .entry(index.to_string())
            .or_insert_with(|| KeyDefinition::partition_only(&lookup.partition.0));
        if let Some((sort, _)) = &lookup.sort {
            key.sort = Some(sort.to_string());
        }
    }
    TableDefinition {
        name: table.name.to_string(),
        key: KeyDefinition {
            partition: table.partition_key.name.to_string(),
            sort: table.sort_key.as_ref().map(|key| key.name.to_string()),
            types: table.key().filter_map(other_type).collect(),
        },
        indexes: indexes.into_iter().collect(),
        stream: true,
        ttl_attribute: Some(TTL_ATTRIBUTE.to_owned()),
    }
}

/// The type of a key attribute that is not text.
fn other_type(key: &KeySchema) -> Option<(String, String)> {
    match key.key_type {
        KeyType::Text => None,
        KeyType::Number | KeyType::Binary => Some((key.name.to_string(), key.key_type.name().to_owned())),
    }
}
