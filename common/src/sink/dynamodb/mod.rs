//! DynamoDB tables.
//!
//! A write is sent once: only the caller knows what its condition says about a second attempt. Reads are retried by the SDK's standard
//! retries, and here when a batch is answered in part.

mod expression;
mod fault;
mod query;
mod read;
mod setup;
mod value;
mod write;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryConfig;

pub use self::setup::{key_schema_mismatch, missing_index, missing_table};
use super::{ConsumedUnits, IndexQuery, ReadSnapshot, Tables, TransactError, WriteError};
use crate::Error;
use crate::effect::{ItemKey, Write};
use crate::record::Item;

/// DynamoDB, through the AWS SDK.
#[derive(Clone, Debug)]
pub struct DynamoDb {
    reader: Client,
    writer: Client,
}

impl DynamoDb {
    /// Uses a client with its configuration, except that writes are not retried.
    #[must_use]
    pub fn new(client: Client) -> Self {
        let once = client.config().to_builder().retry_config(RetryConfig::disabled()).build();
        Self { writer: Client::from_conf(once), reader: client }
    }
}

impl Tables for DynamoDb {
    async fn read(&self, keys: &[ItemKey]) -> Result<ReadSnapshot, Error> {
        read::read(&self.reader, keys).await
    }

    async fn write(&self, write: &Write) -> Result<ConsumedUnits, WriteError> {
        write::write(&self.writer, write).await
    }

    async fn transact(&self, writes: &[Write]) -> Result<ConsumedUnits, TransactError> {
        write::transact(&self.writer, writes).await
    }

    async fn query_index(&self, query: &IndexQuery) -> Result<Vec<Item>, Error> {
        query::query(&self.reader, query).await
    }
}

/// The tables of some keys, each once, for an error's context.
fn table_names<'k>(keys: impl Iterator<Item = &'k ItemKey>) -> String {
    let mut tables: Vec<&str> = keys.map(|key| &*key.table).collect();
    tables.sort_unstable();
    tables.dedup();
    tables.join(", ")
}
