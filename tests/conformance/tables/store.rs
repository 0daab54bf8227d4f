//! The two implementations, and the tables that every case uses.

use afterwrite_ledger::tables::{
    ConsumedUnits, IndexPage, IndexQuery, ReadSnapshot, ScanPage, ScanRequest, TableScan, TableSummary,
    Tables, TransactError, WriteError,
};
use afterwrite_local::dynamodb::EmbeddedDynamoDb;
use afterwrite_memory::{
    IndexDefinition, KeyAttributeType, KeyDefinition, MemoryTables, TableDefinition, item_key,
};
use afterwrite_model::Error;
use afterwrite_model::effect::{ItemKey, KeyAttribute, Write};
use afterwrite_model::record::{AttributeValue, Item};
use afterwrite_services::dynamodb::DynamoDb;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, GlobalSecondaryIndex, KeySchemaElement, KeyType, Projection,
    ProjectionType, ScalarAttributeType,
};

/// Keys `PK`, `SK` (strings); indexes `GSI1` (`GSI1PK`, `GSI1SK`) and `GSI2` (`GSI2PK`).
pub(super) const PAIR: &str = "pair";
/// Key `ID`, a number.
pub(super) const NUMBERED: &str = "numbered";
/// Keys `ID` and `AT`, bytes and a number.
pub(super) const BINARY: &str = "binary";

/// Tables under test.
pub(super) trait TableStore: Tables {
    /// All items of a table, in an order that depends only on the items.
    async fn scan(&self, table: &str) -> Vec<Item>;
}

/// The tables in memory.
pub(super) fn in_memory() -> MemoryTables {
    let tables = MemoryTables::new();
    tables.create_table(
        TableDefinition::new(PAIR, "PK")
            .sort("SK")
            .index(IndexDefinition::new("GSI1", "GSI1PK").sort("GSI1SK"))
            .index(IndexDefinition::new("GSI2", "GSI2PK"))
            .streamed(),
    );
    tables.create_table(TableDefinition::new(NUMBERED, KeyDefinition::new("ID", KeyAttributeType::Number)));
    tables.create_table(
        TableDefinition::new(BINARY, KeyDefinition::new("ID", KeyAttributeType::Binary))
            .sort(KeyDefinition::new("AT", KeyAttributeType::Number)),
    );
    tables
}

impl TableStore for MemoryTables {
    async fn scan(&self, table: &str) -> Vec<Item> {
        sorted(MemoryTables::scan(self, table))
    }
}

/// The embedded DynamoDB with a client.
pub(super) struct EmbeddedTables {
    pub(super) client: Client,
    tables: DynamoDb,
    _server: EmbeddedDynamoDb,
}

/// Starts an embedded DynamoDB with the tables; dropping it stops it.
pub(super) async fn embedded() -> EmbeddedTables {
    let server = EmbeddedDynamoDb::start().await.unwrap();
    let client = server.client();
    let text = ScalarAttributeType::S;
    create(
        &client,
        PAIR,
        &[("PK", text.clone()), ("SK", text)],
        &[("GSI1", &["GSI1PK", "GSI1SK"]), ("GSI2", &["GSI2PK"])],
    )
    .await;
    create(&client, NUMBERED, &[("ID", ScalarAttributeType::N)], &[]).await;
    create(&client, BINARY, &[("ID", ScalarAttributeType::B), ("AT", ScalarAttributeType::N)], &[]).await;
    EmbeddedTables { tables: DynamoDb::new(client.clone()), client, _server: server }
}

async fn create(
    client: &Client,
    table: &str,
    keys: &[(&str, ScalarAttributeType)],
    indexes: &[(&str, &[&str])],
) {
    let index_keys = indexes.iter().flat_map(|(_, names)| names.iter());
    let definitions = keys
        .iter()
        .map(|(name, key_type)| (*name, key_type.clone()))
        .chain(index_keys.map(|name| (*name, ScalarAttributeType::S)))
        .map(|(name, key_type)| {
            AttributeDefinition::builder().attribute_name(name).attribute_type(key_type).build().unwrap()
        })
        .collect();
    let indexes: Vec<_> = indexes
        .iter()
        .map(|(name, names)| {
            GlobalSecondaryIndex::builder()
                .index_name(*name)
                .set_key_schema(Some(key_schema(names)))
                .projection(Projection::builder().projection_type(ProjectionType::All).build())
                .build()
                .unwrap()
        })
        .collect();
    let names: Vec<&str> = keys.iter().map(|(name, _)| *name).collect();
    client
        .create_table()
        .table_name(table)
        .set_key_schema(Some(key_schema(&names)))
        .set_attribute_definitions(Some(definitions))
        .set_global_secondary_indexes((!indexes.is_empty()).then_some(indexes))
        .billing_mode(BillingMode::PayPerRequest)
        .send()
        .await
        .unwrap();
}

fn key_schema(names: &[&str]) -> Vec<KeySchemaElement> {
    let elements = names.iter().zip([KeyType::Hash, KeyType::Range]);
    elements
        .map(|(name, role)| KeySchemaElement::builder().attribute_name(*name).key_type(role).build().unwrap())
        .collect()
}

impl Tables for EmbeddedTables {
    async fn read(&self, keys: &[ItemKey]) -> Result<ReadSnapshot, Error> {
        self.tables.read(keys).await
    }

    async fn write(&self, write: &Write) -> Result<ConsumedUnits, WriteError> {
        self.tables.write(write).await
    }

    async fn transact(&self, writes: &[Write]) -> Result<ConsumedUnits, TransactError> {
        self.tables.transact(writes).await
    }

    async fn query_index(&self, query: &IndexQuery) -> Result<IndexPage, Error> {
        self.tables.query_index(query).await
    }
}

impl TableScan for EmbeddedTables {
    async fn scan(&self, request: &ScanRequest) -> Result<ScanPage, Error> {
        self.tables.scan(request).await
    }

    async fn describe(&self, table: &str) -> Result<TableSummary, Error> {
        self.tables.describe(table).await
    }
}

impl TableStore for EmbeddedTables {
    /// Scans [`PAIR`] for keys, then reads the items as the product does.
    async fn scan(&self, table: &str) -> Vec<Item> {
        assert_eq!(table, PAIR);
        let scan = self.client.scan().table_name(table).consistent_read(true).into_paginator().items().send();
        let found = scan.try_collect().await.unwrap();
        let text = |item: &std::collections::HashMap<_, aws_sdk_dynamodb::types::AttributeValue>,
                    name: &str| { item[name].as_s().unwrap().clone() };
        let keys: Vec<ItemKey> =
            found.iter().map(|item| pair(&text(item, "PK"), &text(item, "SK"))).collect();
        let items = self.read(&keys).await.unwrap().items;
        sorted(items.into_iter().map(|item| item.unwrap()).collect())
    }
}

fn sorted(mut items: Vec<Item>) -> Vec<Item> {
    items.sort_by_cached_key(|item| format!("{:?}{:?}", item.get("PK"), item.get("SK")));
    items
}

/// A key of [`PAIR`].
pub(super) fn pair(partition: &str, sort: &str) -> ItemKey {
    item_key(PAIR, partition, sort)
}

/// A key attribute.
pub(super) fn attribute(name: &str, value: impl Into<AttributeValue<'static>>) -> KeyAttribute {
    KeyAttribute { name: name.into(), value: value.into() }
}
