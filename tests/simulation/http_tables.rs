//! The tables over HTTP: an embedded DynamoDB and the product's client.
//!
//! A call completes while its future is polled, so the scheduler decides as in memory and a seed has the same steps in
//! both. Changes are found by reading the items before and after a call; nothing else writes in between.

use afterwrite_memory::ItemChange;
use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Mutex, MutexGuard, PoisonError};

use afterwrite_ledger::tables::{
    ConsumedUnits, IndexPage, IndexQuery, ReadSnapshot, Tables, TransactError, WriteError,
};
use afterwrite_local::dynamodb::{EmbeddedDynamoDb, KeyDefinition, TableDefinition};
use afterwrite_model::effect::{ItemKey, Write, WriteAction, WriteCondition};
use afterwrite_model::record::{AttributeValue, Item, Timestamp};
use afterwrite_model::{Error, Result};
use afterwrite_services::dynamodb::DynamoDb;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType,
};
use tokio::runtime::Runtime;

use super::store::{EVENTS, MAIN, METERS, RANK, RANKED, STATE, Store, key_of_item, key_text};

/// The embedded DynamoDB, and the keys and changes so far.
pub(crate) struct HttpTables {
    runtime: Runtime,
    tables: DynamoDb,
    _server: EmbeddedDynamoDb,
    state: Mutex<ServerState>,
}

struct ServerState {
    now: Timestamp,
    /// Every written key, in the order of the keys.
    keys: BTreeMap<(String, String, String), ItemKey>,
    changes: BTreeMap<String, Vec<ItemChange>>,
}

/// Starts a server with the run's tables; dropping the result stops it.
pub(crate) fn start() -> HttpTables {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let server = runtime.block_on(EmbeddedDynamoDb::start()).unwrap();
    let client = server.client();
    let table = |name: &str, key: KeyDefinition, indexes: &[(&str, KeyDefinition)]| TableDefinition {
        name: name.to_owned(),
        key,
        indexes: indexes.iter().map(|(name, key)| ((*name).to_owned(), key.clone())).collect(),
        ..TableDefinition::default()
    };
    let of_projects = KeyDefinition::new("GSI1PK", "GSI1SK");
    let types = BTreeMap::from([(RANKED.to_owned(), "N".to_owned())]);
    let rank = KeyDefinition { types, ..KeyDefinition::new(RANK, RANKED) };
    let without_sort_key = KeyDefinition::partition_only("id");
    for table in [
        table(MAIN, KeyDefinition::new("PK", "SK"), &[("GSI1", of_projects)]),
        table(EVENTS, without_sort_key, &[]),
        table(STATE, KeyDefinition::new("PK", "SK"), &[(RANK, rank)]),
    ] {
        runtime.block_on(server.create_table(&table)).unwrap();
    }
    runtime.block_on(create_meters(&client));
    let state =
        ServerState { now: Timestamp::from_epoch_ms(0), keys: BTreeMap::new(), changes: BTreeMap::new() };
    HttpTables { runtime, tables: DynamoDb::new(client), _server: server, state: Mutex::new(state) }
}

/// Creates the table with a binary and a number key.
async fn create_meters(client: &Client) {
    let mut request = client.create_table().table_name(METERS).billing_mode(BillingMode::PayPerRequest);
    for (name, key_type, scalar) in
        [("code", KeyType::Hash, ScalarAttributeType::B), ("number", KeyType::Range, ScalarAttributeType::N)]
    {
        let attribute = AttributeDefinition::builder().attribute_name(name).attribute_type(scalar);
        let element = KeySchemaElement::builder().attribute_name(name).key_type(key_type);
        request =
            request.attribute_definitions(attribute.build().unwrap()).key_schema(element.build().unwrap());
    }
    request.send().await.unwrap();
}

impl HttpTables {
    fn lock(&self) -> MutexGuard<'_, ServerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stored(&self, keys: &[ItemKey]) -> Vec<Option<Item>> {
        self.runtime.block_on(self.tables.read(keys)).unwrap().items
    }

    /// Makes a call that writes to these items, and records the changes.
    fn record_changes<A>(&self, keys: Vec<ItemKey>, is_expiry: bool, call: impl Future<Output = A>) -> A {
        let before = self.stored(&keys);
        let result = self.runtime.block_on(call);
        let after = self.stored(&keys);
        let mut state = self.lock();
        let time = state.now;
        for (key, (old, new)) in keys.into_iter().zip(before.into_iter().zip(after)) {
            let sort = key.sort.as_ref().map(|sort| key_text(&sort.value)).unwrap_or_default();
            let text_key = (key.table.to_string(), key_text(&key.partition.value), sort);
            state.keys.insert(text_key, key.clone());
            if old != new {
                let change = ItemChange { key: key.clone(), old, new, time, is_expiry };
                state.changes.entry(key.table.to_string()).or_default().push(change);
            }
        }
        result
    }

    fn write_unconditionally(&self, key: ItemKey, action: WriteAction, is_expiry: bool) {
        let write = Write { key: key.clone(), condition: WriteCondition::Always, action };
        self.record_changes(vec![key], is_expiry, self.tables.write(&write)).unwrap();
    }
}

impl Tables for HttpTables {
    async fn read(&self, keys: &[ItemKey]) -> Result<ReadSnapshot, Error> {
        let snapshot = self.runtime.block_on(self.tables.read(keys))?;
        // The server has the real time; the run has simulated time.
        let server_time = Timestamp::from_epoch_seconds(self.lock().now.epoch_seconds());
        Ok(ReadSnapshot { server_time, ..snapshot })
    }

    async fn write(&self, write: &Write) -> Result<ConsumedUnits, WriteError> {
        self.record_changes(vec![write.key.clone()], false, self.tables.write(write))
    }

    async fn transact(&self, writes: &[Write]) -> Result<ConsumedUnits, TransactError> {
        let keys = writes.iter().map(|write| write.key.clone()).collect();
        self.record_changes(keys, false, self.tables.transact(writes))
    }

    async fn query_index(&self, query: &IndexQuery) -> Result<IndexPage, Error> {
        self.runtime.block_on(self.tables.query_index(query))
    }
}

impl Store for HttpTables {
    fn set_time(&self, now: Timestamp) {
        self.lock().now = now;
    }

    fn put(&self, table: &str, item: Item) {
        let key = key_of_item(table, &item);
        self.write_unconditionally(key, WriteAction::Put(item), false);
    }

    fn delete(&self, key: &ItemKey) {
        self.write_unconditionally(key.clone(), WriteAction::Delete, false);
    }

    fn expire(&self, key: &ItemKey) {
        self.write_unconditionally(key.clone(), WriteAction::Delete, true);
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
