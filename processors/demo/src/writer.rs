//! Writes a script through the AWS SDK, as its application would: several lanes at once, and it counts nothing.

use std::sync::atomic::{AtomicU64, Ordering};

use afterwrite::{Error, ErrorKind, Result};
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{Put, TransactWriteItem};
use futures::future::try_join_all;

use super::item::{Item, Placed};
use super::script::{Lane, Script, Step, has_expired};
use afterwrite_local::dynamodb::EmbeddedDynamoDb;
use afterwrite_local::dynamodb::TableDefinition;

/// The application's hand.
#[derive(Debug)]
pub(super) struct Writer {
    client: Client,
    tables: Vec<TableDefinition>,
    written: AtomicU64,
}

impl Writer {
    pub(super) fn new(client: Client, tables: Vec<TableDefinition>) -> Self {
        Self { client, tables, written: AtomicU64::new(0) }
    }

    /// How many items it has written.
    pub(super) fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Writes all rounds, and gives the items that time to live took.
    pub(super) async fn play(&self, script: &Script, server: &EmbeddedDynamoDb) -> Result<Vec<Placed>> {
        let mut expired = Vec::new();
        for round in &script.rounds {
            try_join_all(round.iter().map(|lane| self.write(lane))).await?;
            expired.extend(self.expire(server).await?);
        }
        Ok(expired)
    }

    /// All items of all source tables, strongly consistent.
    pub(super) async fn items(&self) -> Result<Vec<Placed>> {
        let mut all = Vec::new();
        for TableDefinition { name, .. } in &self.tables {
            let items = scan(&self.client, name).await?.into_iter();
            all.extend(items.map(|item| Placed { table: name.clone(), item }));
        }
        Ok(all)
    }

    async fn write(&self, lane: &Lane) -> Result<()> {
        for step in &lane.steps {
            match step {
                Step::Put { table, item } => self.put(table, item).await?,
                Step::PutTogether { table, items } => self.put_together(table, items).await?,
                Step::Set { table, key, attributes } => self.set(table, key, attributes).await?,
                Step::Delete { table, key } => self.delete(table, key).await?,
            }
            self.written.fetch_add(step.writes(), Ordering::Relaxed);
        }
        Ok(())
    }

    async fn put(&self, table: &str, item: &Item) -> Result<()> {
        let put = self.client.put_item().table_name(table).set_item(Some(item.clone())).send().await;
        put.map(|_| ()).map_err(|error| failed("putting an item", error.into_service_error()))
    }

    async fn put_together(&self, table: &str, items: &[Item]) -> Result<()> {
        let mut request = self.client.transact_write_items();
        for item in items {
            let put = Put::builder().table_name(table).set_item(Some(item.clone())).build();
            let put = put.map_err(|error| failed("putting items", error))?;
            request = request.transact_items(TransactWriteItem::builder().put(put).build());
        }
        let put = request.send().await;
        put.map(|_| ()).map_err(|error| failed("putting items", error.into_service_error()))
    }

    async fn set(&self, table: &str, key: &Item, attributes: &Item) -> Result<()> {
        let mut request = self.client.update_item().table_name(table).set_key(Some(key.clone()));
        let mut assignments = Vec::new();
        for (position, (name, value)) in attributes.iter().enumerate() {
            assignments.push(format!("#{position} = :{position}"));
            request = request
                .expression_attribute_names(format!("#{position}"), name)
                .expression_attribute_values(format!(":{position}"), value.clone());
        }
        let set = request.update_expression(format!("SET {}", assignments.join(", "))).send().await;
        set.map(|_| ()).map_err(|error| failed("updating an item", error.into_service_error()))
    }

    async fn delete(&self, table: &str, key: &Item) -> Result<()> {
        let delete = self.client.delete_item().table_name(table).set_key(Some(key.clone())).send().await;
        delete.map(|_| ()).map_err(|error| failed("deleting an item", error.into_service_error()))
    }

    /// Has DynamoDB take what has expired, and keeps it as it was. No lane is written meanwhile.
    async fn expire(&self, server: &EmbeddedDynamoDb) -> Result<Vec<Placed>> {
        let now = jiff::Timestamp::now().as_second();
        let is_due = |placed: &Placed| {
            let table = self.tables.iter().find(|table| table.name == placed.table);
            has_expired(&placed.item, table.and_then(|table| table.ttl_attribute.as_deref()), now)
        };
        let due: Vec<Placed> = self.items().await?.into_iter().filter(is_due).collect();
        let swept = server.sweep_expired().await?;
        if swept != due.len() {
            return Err(Error::new(
                ErrorKind::State,
                "the embedded DynamoDB expired other items than were due",
            )
            .with("due", due.len().to_string())
            .with("expired", swept.to_string()));
        }
        Ok(due)
    }
}

/// All items of a table, strongly consistent.
pub(super) async fn scan(client: &Client, table: &str) -> Result<Vec<Item>> {
    let mut pages = client.scan().table_name(table).consistent_read(true).into_paginator().send();
    let mut items = Vec::new();
    while let Some(page) = pages.next().await {
        let page = page.map_err(|error| failed("scanning a table", error.into_service_error()))?;
        items.extend(page.items.unwrap_or_default());
    }
    Ok(items)
}

fn failed(doing: &str, cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::new(ErrorKind::Unavailable, format!("{doing} failed")).caused_by(cause)
}
