//! The tables behind HTTP: an embedded DynamoDB, spoken to by the product's own client.
//!
//! A call is carried out in whole while its future is polled, so that the scheduler decides as it does in memory, and a seed is
//! the same run in both. What changed is told by reading before and after: nobody else writes meanwhile.

use afterwrite_memory::ItemChange;
use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Mutex, MutexGuard, PoisonError};

use afterwrite::effect::{ItemKey, Write, WriteAction, WriteCondition};
use afterwrite::record::{AttributeValue, Item, Timestamp};
use afterwrite::sink::dynamodb::DynamoDb;
use afterwrite::sink::{ConsumedUnits, IndexQuery, ReadSnapshot, Tables, TransactError, WriteError};
use afterwrite::{Error, Result};
use afterwrite_local::dynamodb::{EmbeddedDynamoDb, KeyDefinition, TableDefinition};
use tokio::runtime::Runtime;

use super::store::{EVENTS, MAIN, STATE, Store};

/// The embedded DynamoDB and what is known of it.
pub(crate) struct Served {
    runtime: Runtime,
    tables: DynamoDb,
    _server: EmbeddedDynamoDb,
    state: Mutex<State>,
}

struct State {
    now: Timestamp,
    /// Every key that was ever written, in the order of the keys.
    keys: BTreeMap<(String, String, String), ItemKey>,
    changes: BTreeMap<String, Vec<ItemChange>>,
}

/// Starts a server with the run's tables; it ends when it is dropped.
pub(crate) fn served() -> Served {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let server = runtime.block_on(EmbeddedDynamoDb::start()).unwrap();
    let client = server.client();
    let table = |name: &str, key: KeyDefinition, indexes: &[&str]| TableDefinition {
        name: name.to_owned(),
        key,
        indexes: indexes
            .iter()
            .map(|name| ((*name).to_owned(), KeyDefinition::new("GSI1PK", "GSI1SK")))
            .collect(),
        ..TableDefinition::default()
    };
    let without_sort_key = KeyDefinition::partition_only("id");
    for table in [
        table(MAIN, KeyDefinition::new("PK", "SK"), &["GSI1"]),
        table(EVENTS, without_sort_key, &[]),
        table(STATE, KeyDefinition::new("PK", "SK"), &[]),
    ] {
        runtime.block_on(server.create_table(&table)).unwrap();
    }
    let state = State { now: Timestamp::from_epoch_ms(0), keys: BTreeMap::new(), changes: BTreeMap::new() };
    Served { runtime, tables: DynamoDb::new(client), _server: server, state: Mutex::new(state) }
}

impl Served {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stored(&self, keys: &[ItemKey]) -> Vec<Option<Item>> {
        self.runtime.block_on(self.tables.read(keys)).unwrap().items
    }

    /// Carries out something that writes to these items, and notes what has changed.
    fn noting<A>(&self, keys: Vec<ItemKey>, is_expiry: bool, call: impl Future<Output = A>) -> A {
        let before = self.stored(&keys);
        let answer = self.runtime.block_on(call);
        let after = self.stored(&keys);
        let mut state = self.lock();
        let time = state.now;
        for (key, (old, new)) in keys.into_iter().zip(before.into_iter().zip(after)) {
            let text = |value: &AttributeValue<'_>| value.as_text().unwrap_or("").to_owned();
            let sort = key.sort.as_ref().map(|sort| text(&sort.value)).unwrap_or_default();
            let place = (key.table.to_string(), text(&key.partition.value), sort);
            state.keys.insert(place, key.clone());
            if old != new {
                let change = ItemChange { key: key.clone(), old, new, time, is_expiry };
                state.changes.entry(key.table.to_string()).or_default().push(change);
            }
        }
        answer
    }

    fn write_plainly(&self, key: ItemKey, action: WriteAction, is_expiry: bool) {
        let write = Write { key: key.clone(), condition: WriteCondition::Always, action };
        self.noting(vec![key], is_expiry, self.tables.write(&write)).unwrap();
    }
}

impl Tables for Served {
    async fn read(&self, keys: &[ItemKey]) -> Result<ReadSnapshot, Error> {
        let snapshot = self.runtime.block_on(self.tables.read(keys))?;
        // The server's clock is of this world, the run's is not.
        let server_time = Timestamp::from_epoch_seconds(self.lock().now.epoch_seconds());
        Ok(ReadSnapshot { server_time, ..snapshot })
    }

    async fn write(&self, write: &Write) -> Result<ConsumedUnits, WriteError> {
        self.noting(vec![write.key.clone()], false, self.tables.write(write))
    }

    async fn transact(&self, writes: &[Write]) -> Result<ConsumedUnits, TransactError> {
        let keys = writes.iter().map(|write| write.key.clone()).collect();
        self.noting(keys, false, self.tables.transact(writes))
    }

    async fn query_index(&self, query: &IndexQuery) -> Result<Vec<Item>, Error> {
        self.runtime.block_on(self.tables.query_index(query))
    }
}

impl Store for Served {
    fn set_time(&self, now: Timestamp) {
        self.lock().now = now;
    }

    fn put(&self, table: &str, item: Item) {
        let text = |name: &str| super::store::text(&item, name).to_owned();
        let key = match table {
            EVENTS => super::store::key(table, &text("id"), None),
            _ => super::store::key(table, &text("PK"), Some(&text("SK"))),
        };
        self.write_plainly(key, WriteAction::Put(item), false);
    }

    fn delete(&self, key: &ItemKey) {
        self.write_plainly(key.clone(), WriteAction::Delete, false);
    }

    fn expire(&self, key: &ItemKey) {
        self.write_plainly(key.clone(), WriteAction::Delete, true);
    }

    fn get(&self, key: &ItemKey) -> Option<Item> {
        self.stored(std::slice::from_ref(key)).pop().flatten()
    }

    fn scan(&self, table: &str) -> Vec<Item> {
        let keys: Vec<ItemKey> =
            self.lock().keys.values().filter(|key| *key.table == *table).cloned().collect();
        if keys.is_empty() { Vec::new() } else { self.stored(&keys).into_iter().flatten().collect() }
    }

    fn take_changes(&self, table: &str) -> Vec<ItemChange> {
        self.lock().changes.remove(table).unwrap_or_default()
    }

    fn sweep(&self, table: &str) {
        let now = self.lock().now.epoch_seconds();
        for item in self.scan(table) {
            let expires_at = item.get("expires_at").and_then(AttributeValue::as_number);
            if expires_at.is_some_and(|at| *at < now.into()) {
                let text = |name| super::store::text(&item, name);
                self.expire(&super::store::key(table, text("PK"), Some(text("SK"))));
            }
        }
    }
}
