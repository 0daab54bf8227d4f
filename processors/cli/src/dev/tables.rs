//! The tables of a model, as they are created for development.

use std::collections::BTreeMap;
use std::sync::Arc;

use afterwrite_demo::workloads;
use afterwrite_local::dynamodb::{KeyDefinition, TableDefinition};
use afterwrite_model::table::{KeySchema, KeyType, Lookup, Model, SecondaryIndex, Table};

/// The TTL attribute of tables whose application is not known and for which the model names no TTL attribute.
const TTL_ATTRIBUTE: &str = "ttl";

/// The source tables under their deployed names, with the indexes that the model declares. A built-in model has the tables of its
/// application; the tables of another model follow from its keys and lookups.
pub(super) fn source_tables(model: &Model, names: &[Arc<str>]) -> Vec<TableDefinition> {
    let designed = workloads::of(&model.name).map(|workload| workload.tables()).unwrap_or_default();
    let definition = |(index, table): (usize, &Table)| {
        let known = designed.iter().find(|designed| *designed.name == *table.name).cloned();
        let mut definition = known.unwrap_or_else(|| derived_table(model, index, table));
        for declared in &table.indexes {
            definition.indexes.retain(|(name, _)| **name != *declared.name);
            definition.indexes.push((declared.name.to_string(), index_key(declared)));
        }
        definition
    };
    let definitions = model.tables.iter().enumerate().map(definition);
    definitions
        .zip(names)
        .map(|(definition, name)| TableDefinition { name: name.to_string(), ..definition })
        .collect()
}

/// A table with the keys that the model names, and the indexes of its lookups that it does not declare.
fn derived_table(model: &Model, index: usize, table: &Table) -> TableDefinition {
    let is_here =
        |lookup: &&Lookup| model.entities.get(lookup.of).is_some_and(|entity| entity.table == index);
    let mut indexes: BTreeMap<String, KeyDefinition> = BTreeMap::new();
    for lookup in model.lookups.iter().filter(is_here) {
        let (Some(index), [(partition, _), sort @ ..]) = (lookup.index(), lookup.key.as_slice()) else {
            continue;
        };
        let key =
            indexes.entry(index.to_string()).or_insert_with(|| KeyDefinition::partition_only(partition));
        // Only a declared index has more than two key attributes.
        if let [(sort, _), ..] = sort {
            key.sort = Some(sort.to_string());
        }
    }
    TableDefinition {
        name: table.name.to_string(),
        key: KeyDefinition {
            partition: table.partition_key.name.to_string(),
            sort: table.sort_key.as_ref().map(|key| key.name.to_string()),
            types: table.key().filter_map(other_type).collect(),
            ..KeyDefinition::default()
        },
        indexes: indexes.into_iter().collect(),
        stream: true,
        ttl_attribute: Some(ttl_attribute(model, index)),
    }
}

/// The TTL attribute that the model names for a table, or else the usual name.
fn ttl_attribute(model: &Model, table: usize) -> String {
    let mut entities = model.entities.iter().filter(|entity| entity.table == table);
    let named = entities.find_map(|entity| entity.ttl.as_ref());
    named.map_or_else(|| TTL_ATTRIBUTE.to_owned(), |path| model.attributes.name(path.root).to_string())
}

fn index_key(index: &SecondaryIndex) -> KeyDefinition {
    let names = |key: &[KeySchema]| key.iter().map(|key| key.name.to_string()).collect::<Vec<_>>();
    let (partition, sort) = (names(&index.partition), names(&index.sort));
    let types = index.key().filter_map(other_type).collect();
    KeyDefinition { types, ..KeyDefinition::of_several(partition, sort) }
}

/// The type of a key attribute that is not text.
fn other_type(key: &KeySchema) -> Option<(String, String)> {
    match key.key_type {
        KeyType::Text => None,
        KeyType::Number | KeyType::Binary => Some((key.name.to_string(), key.key_type.name().to_owned())),
    }
}
