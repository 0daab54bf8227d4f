//! Writes a script through the AWS SDK as its application would: lanes concurrently, and without counting anything.

use std::sync::atomic::{AtomicUsize, Ordering};

use afterwrite_local::dynamodb::{EmbeddedDynamoDb, TableDefinition};
use afterwrite_model::{Error, ErrorKind, Result};
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{Put, TransactWriteItem};
use futures::future::try_join_all;

use crate::item::{SdkItem, TableItem};
use crate::script::{Script, ScriptLane, ScriptStep, has_expired};

/// Writes scripts to an application's tables.
#[derive(Debug)]
pub struct ScriptWriter {
    client: Client,
    tables: Vec<TableDefinition>,
    written: AtomicUsize,
}

impl ScriptWriter {
    /// A writer of an application's tables.
    #[must_use]
    pub fn new(client: Client, tables: Vec<TableDefinition>) -> Self {
        Self { client, tables, written: AtomicUsize::new(0) }
    }

    /// The number of items written so far.
    #[must_use]
    pub fn written(&self) -> usize {
        self.written.load(Ordering::Relaxed)
    }

    /// Writes all rounds; returns the items that time to live deleted.
    ///
    /// # Errors
    /// `Unavailable` if a write fails, `State` if the server did not delete exactly the expired items.
    pub async fn play(&self, script: &Script, server: &EmbeddedDynamoDb) -> Result<Vec<TableItem>> {
        let mut expired = Vec::new();
        for round in &script.rounds {
            try_join_all(round.iter().map(|lane| self.write_lane(lane))).await?;
            expired.extend(self.expire(server).await?);
        }
        Ok(expired)
    }

    /// All items of all source tables, strongly consistent.
    ///
    /// # Errors
    /// `Unavailable` if a table cannot be read.
    pub async fn items(&self) -> Result<Vec<TableItem>> {
        let mut all = Vec::new();
        for TableDefinition { name, .. } in &self.tables {
            let items = scan(&self.client, name).await?.into_iter();
            all.extend(items.map(|item| TableItem { table: name.clone(), item }));
        }
        Ok(all)
    }

    async fn write_lane(&self, lane: &ScriptLane) -> Result<()> {
        for step in &lane.steps {
            match step {
                ScriptStep::Put { table, items } => self.put(table, items).await?,
                ScriptStep::Set { table, key, attributes } => self.set(table, key, attributes).await?,
                ScriptStep::Delete { table, key } => {
                    let delete = self.client.delete_item().table_name(*table).set_key(Some(key.clone()));
                    delete.send().await.map_err(|error| failed("deleting an item", error))?;
                }
            }
            self.written.fetch_add(step.writes(), Ordering::Relaxed);
        }
        Ok(())
    }

    async fn put(&self, table: &str, items: &[SdkItem]) -> Result<()> {
        if let [item] = items {
            let put = self.client.put_item().table_name(table).set_item(Some(item.clone())).send().await;
            return put.map(drop).map_err(|error| failed("putting an item", error));
        }
        let mut request = self.client.transact_write_items();
        for item in items {
            let put = Put::builder().table_name(table).set_item(Some(item.clone())).build();
            let put = put.map_err(|error| failed("putting items", error))?;
            request = request.transact_items(TransactWriteItem::builder().put(put).build());
        }
        request.send().await.map(drop).map_err(|error| failed("putting items", error))
    }

    async fn set(&self, table: &str, key: &SdkItem, attributes: &SdkItem) -> Result<()> {
        let mut request = self.client.update_item().table_name(table).set_key(Some(key.clone()));
        let mut assignments = Vec::new();
        for (position, (name, value)) in attributes.iter().enumerate() {
            assignments.push(format!("#{position} = :{position}"));
            request = request
                .expression_attribute_names(format!("#{position}"), name)
                .expression_attribute_values(format!(":{position}"), value.clone());
        }
        let set = request.update_expression(format!("SET {}", assignments.join(", "))).send().await;
        set.map(drop).map_err(|error| failed("updating an item", error))
    }

    /// Lets DynamoDB delete the expired items, and returns their last states. No lane is written meanwhile.
    async fn expire(&self, server: &EmbeddedDynamoDb) -> Result<Vec<TableItem>> {
        let now = jiff::Timestamp::now().as_second();
        let mut due = self.items().await?;
        due.retain(|item| has_expired(item, &self.tables, now));
        let swept = server.sweep_expired().await?;
        if swept != due.len() {
            let message = "the embedded DynamoDB did not delete exactly the expired items";
            return Err(Error::new(ErrorKind::State, message)
                .with("expired", due.len().to_string())
                .with("deleted", swept.to_string()));
        }
        Ok(due)
    }
}

/// All items of a table, strongly consistent.
pub(crate) async fn scan(client: &Client, table: &str) -> Result<Vec<SdkItem>> {
    let pages = client.scan().table_name(table).consistent_read(true).into_paginator().items().send();
    pages.collect::<Result<_, _>>().await.map_err(|error| failed("scanning a table", error))
}

fn failed(action: &str, cause: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::new(ErrorKind::Unavailable, format!("{action} failed")).caused_by(cause)
}
