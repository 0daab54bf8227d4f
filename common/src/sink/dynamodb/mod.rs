//! The [`Tables`] that are DynamoDB's.
//!
//! Writes are sent once: whether one may be sent again is for the caller to decide, who knows what its condition would then
//! say. Reads are repeated by the SDK's standard retries, and here where a batch is answered in part.

mod expression;
mod fault;
mod query;
mod read;
mod value;
mod write;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryConfig;

use super::{ConsumedUnits, IndexQuery, ReadSnapshot, Tables, TransactError, WriteError};
use crate::Error;
use crate::effect::{ItemKey, Write};
use crate::record::Item;

/// DynamoDB, spoken to through the AWS SDK.
#[derive(Clone, Debug)]
pub struct DynamoDb {
    reader: Client,
    writer: Client,
}

impl DynamoDb {
    /// Takes a client as it is configured, but for retries: writes have none.
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

/// The tables that some keys are of, each once, for an error's context.
fn tables_of<'k>(keys: impl Iterator<Item = &'k ItemKey>) -> String {
    let mut tables: Vec<&str> = keys.map(|key| &*key.table).collect();
    tables.sort_unstable();
    tables.dedup();
    tables.join(", ")
}
