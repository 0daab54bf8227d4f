//! The tables of a run as the application, TTL and the stream use them: what [`Tables`] does not offer.

use std::sync::Arc;

use afterwrite_ledger::tables::Tables;
use afterwrite_memory::{
    IndexDefinition, ItemChange, KeyAttributeType, KeyDefinition, MemoryTables, TableDefinition,
};
use afterwrite_model::effect::{ItemKey, KeyAttribute};
use afterwrite_model::record::{AttributeValue, Item, Timestamp};
use afterwrite_model::table::Model;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::events::state::EventBypass;
use super::model::model;

pub(crate) const MAIN: &str = "main";
pub(crate) const EVENTS: &str = "events";
/// A table with a binary and a number key.
pub(crate) const METERS: &str = "meters";
pub(crate) const STATE: &str = "state";
/// The index of the rank, and the attribute that is its partition key.
pub(crate) const RANK: &str = "rank_seconds_sum";
/// The measure that is ranked.
pub(crate) const RANKED: &str = "seconds_sum";

/// Tables that the application can read and write. These calls take effect immediately and never fail.
pub(crate) trait Store: Tables {
    /// Sets the time of changes and reads.
    fn set_time(&self, now: Timestamp);
    /// Puts an item, as the application.
    fn put(&self, table: &str, item: Item);
    /// Deletes an item, as the application.
    fn delete(&self, key: &ItemKey);
    /// Deletes an item, as TTL.
    fn expire(&self, key: &ItemKey);
    /// Reads an item.
    fn get(&self, key: &ItemKey) -> Option<Item>;
    /// Reads all items in the order of their keys.
    fn scan(&self, table: &str) -> Vec<Item>;
    /// The changes since the last call.
    fn take_changes(&self, table: &str) -> Vec<ItemChange>;
    /// Deletes the items whose `expires_at` has passed, as TTL.
    fn sweep(&self, table: &str);
    /// The model of a generation, as the product's processes have it.
    fn model(&self, generation: u64) -> Arc<Model> {
        model(generation)
    }
    /// Whether the event source mapping filters the state table's stream.
    fn is_filtered(&self) -> bool {
        true
    }
    /// The guard of events that is switched off.
    fn event_bypass(&self) -> Option<EventBypass> {
        None
    }
}

/// The tables in memory. The state table has a stream for the [`super::watcher::StateWatcher`].
pub(crate) fn in_memory() -> MemoryTables {
    let tables = MemoryTables::new();
    let index = IndexDefinition::new("GSI1", "GSI1PK").sort("GSI1SK");
    tables.create_table(TableDefinition::new(MAIN, "PK").sort("SK").index(index).streamed());
    tables.create_table(TableDefinition::new(EVENTS, "id").streamed());
    let code = KeyDefinition::new("code", KeyAttributeType::Binary);
    let number = KeyDefinition::new("number", KeyAttributeType::Number);
    tables.create_table(TableDefinition::new(METERS, code).sort(number).streamed());
    let ranked = KeyDefinition::new(RANKED, KeyAttributeType::Number);
    let rank = IndexDefinition::new(RANK, RANK).sort(ranked);
    tables.create_table(TableDefinition::new(STATE, "PK").sort("SK").index(rank).streamed());
    tables
}

impl Store for MemoryTables {
    fn set_time(&self, now: Timestamp) {
        self.set_time(now);
    }

    fn put(&self, table: &str, item: Item) {
        self.put(table, item).unwrap();
    }

    fn delete(&self, key: &ItemKey) {
        self.delete(key).unwrap();
    }

    fn expire(&self, key: &ItemKey) {
        self.expire(key).unwrap();
    }

    fn get(&self, key: &ItemKey) -> Option<Item> {
        self.get(key)
    }

    fn scan(&self, table: &str) -> Vec<Item> {
        self.scan(table)
    }

    fn take_changes(&self, table: &str) -> Vec<ItemChange> {
        self.take_changes(table)
    }

    fn sweep(&self, table: &str) {
        self.sweep(table, "expires_at").unwrap();
    }
}

/// A key of texts in one of the run's tables.
pub(crate) fn key(table: &str, partition: &str, sort: Option<&str>) -> ItemKey {
    let (partition_name, sort_name) = key_names(table);
    let attribute =
        |name: &str, value: &str| KeyAttribute { name: Arc::from(name), value: value.to_owned().into() };
    ItemKey {
        table: Arc::from(table),
        partition: attribute(partition_name, partition),
        sort: sort_name.zip(sort).map(|(name, sort)| attribute(name, sort)),
    }
}

/// The key of an item of one of the run's tables.
pub(crate) fn key_of_item(table: &str, item: &Item) -> ItemKey {
    let (partition, sort) = key_names(table);
    let attribute =
        |name: &str| KeyAttribute { name: Arc::from(name), value: item.get(name).cloned().unwrap() };
    ItemKey { table: Arc::from(table), partition: attribute(partition), sort: sort.map(attribute) }
}

fn key_names(table: &str) -> (&'static str, Option<&'static str>) {
    match table {
        EVENTS => ("id", None),
        METERS => ("code", Some("number")),
        _ => ("PK", Some("SK")),
    }
}

/// The text of a key attribute: a number's digits, or binary as base64.
pub(crate) fn key_text(value: &AttributeValue<'_>) -> String {
    match value {
        AttributeValue::S(text) => text.to_string(),
        AttributeValue::N(number) => number.to_string(),
        AttributeValue::B(bytes) => STANDARD.encode(bytes),
        other => panic!("a key of type {}", other.type_name()),
    }
}

/// The texts of an item's key.
pub(crate) fn key_texts(table: &str, item: &Item) -> (String, Option<String>) {
    let ItemKey { partition, sort, .. } = key_of_item(table, item);
    (key_text(&partition.value), sort.map(|sort| key_text(&sort.value)))
}

/// A text attribute; empty if absent.
pub(crate) fn text<'i>(item: &'i Item, name: &str) -> &'i str {
    item.get(name).and_then(|value| value.as_text()).unwrap_or("")
}
