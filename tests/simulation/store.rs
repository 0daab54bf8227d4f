//! The tables of a run as the application, TTL and the stream use them: what [`Tables`] does not offer.

use std::sync::Arc;

use afterwrite::effect::ItemKey;
use afterwrite::record::{Item, Timestamp};
use afterwrite::sink::Tables;
use afterwrite_memory::{IndexDefinition, ItemChange, MemoryTables, TableDefinition};

pub(crate) const MAIN: &str = "main";
pub(crate) const EVENTS: &str = "events";
pub(crate) const STATE: &str = "state";

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
}

/// The tables in memory. The state table has a stream for the [`super::watcher::StateWatcher`].
pub(crate) fn in_memory() -> MemoryTables {
    let tables = MemoryTables::new();
    let index = IndexDefinition::new("GSI1", "GSI1PK").sort("GSI1SK");
    tables.create_table(TableDefinition::new(MAIN, "PK").sort("SK").index(index).streamed());
    tables.create_table(TableDefinition::new(EVENTS, "id").streamed());
    tables.create_table(TableDefinition::new(STATE, "PK").sort("SK").streamed());
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

/// An item's key in one of the run's tables.
pub(crate) fn key(table: &str, partition: &str, sort: Option<&str>) -> ItemKey {
    let attribute = |name: &str, value: &str| afterwrite::effect::KeyAttribute {
        name: Arc::from(name),
        value: value.to_owned().into(),
    };
    let partition_name = if table == EVENTS { "id" } else { "PK" };
    ItemKey {
        table: Arc::from(table),
        partition: attribute(partition_name, partition),
        sort: sort.map(|sort| attribute("SK", sort)),
    }
}

/// A text attribute; empty if absent.
pub(crate) fn text<'i>(item: &'i Item, name: &str) -> &'i str {
    item.get(name).and_then(|value| value.as_text()).unwrap_or("")
}
