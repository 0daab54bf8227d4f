//! DynamoDB tables.
//!
//! A request is sent once and has a time limit; callers retry by their own policy, within the deadline that they have. Only they
//! know what a write's condition means for a second attempt. The number of concurrent requests, and so of sockets, is limited for
//! all callers together.

mod expression;
mod fault;
mod partition;
mod query;
mod read;
mod scan;
mod server_clock;
mod setup;
mod value;
mod write;

use std::sync::Arc;
use std::time::Duration;

use afterwrite_ledger::tables::{
    ConsumedUnits, IndexPage, IndexQuery, PartialRead, ReadSnapshot, ScanPage, ScanRequest, TableScan,
    TableSummary, Tables, TransactError, WriteError,
};
use afterwrite_model::Error;
use afterwrite_model::effect::{ItemKey, Write};
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::timeout::TimeoutConfig;
use tokio::sync::{Semaphore, SemaphorePermit};

pub use self::expression::WriteExpressions;
pub use self::fault::index_scan_error;
pub use self::partition::{PartitionPage, PartitionPart, PartitionQuery};
pub use self::server_clock::ServerClock;
pub use self::setup::{key_schema_mismatch, missing_index, missing_table};
pub use self::value::{item_from_sdk, item_to_sdk, key_to_sdk};

/// The number of concurrent requests of a client and its clones; further requests wait. The ledger sends as many at once (`CONCURRENCY` in its
/// `policy`), so that its requests, whose time limits have begun, do not wait here.
pub const MAX_CONCURRENT_REQUESTS: usize = 16;
/// The time limit of a read or a single write. DynamoDB responds within milliseconds; a connection that died while the function was
/// frozen never does.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);
/// The time limit of a transaction. The outcome of a transaction that exceeds it is unknown and must be read.
const TRANSACTION_TIMEOUT: Duration = Duration::from_secs(3);

/// DynamoDB, through the AWS SDK.
#[derive(Clone, Debug)]
pub struct DynamoDb {
    client: Client,
    /// With the time limit of transactions.
    transactor: Client,
    slots: Arc<Semaphore>,
}

impl DynamoDb {
    /// Uses the configuration of a client, with this module's time limits for each attempt and without retries.
    #[must_use]
    pub fn new(client: Client) -> Self {
        let once = client.config().to_builder().retry_config(RetryConfig::disabled()).build();
        Self::retrying(Client::from_conf(once))
    }

    /// As [`DynamoDb::new`], but with the client's retries: for callers that only read and have no deadline of their own.
    #[must_use]
    pub fn retrying(client: Client) -> Self {
        let timeouts = client.config().timeout_config().cloned().unwrap_or_else(TimeoutConfig::disabled);
        let limited = |limit: Duration| {
            let timeouts = timeouts.to_builder().operation_attempt_timeout(limit).build();
            Client::from_conf(client.config().to_builder().timeout_config(timeouts).build())
        };
        let slots = Arc::new(Semaphore::new(MAX_CONCURRENT_REQUESTS));
        Self { client: limited(REQUEST_TIMEOUT), transactor: limited(TRANSACTION_TIMEOUT), slots }
    }

    /// The view type of a table's stream; `None` if it has none.
    ///
    /// # Errors
    /// A table that does not exist or may not be described.
    pub async fn stream_view(&self, table: &str) -> Result<Option<String>, Error> {
        let _slot = self.slot().await;
        scan::stream_view(&self.client, table).await
    }

    /// A page of one partition of a table or an index, in the order of its sort key.
    ///
    /// # Errors
    /// As [`Tables::read`]; `Configuration` for a missing index.
    pub async fn query_partition(&self, query: &PartitionQuery) -> Result<PartitionPage, Error> {
        let _slot = self.slot().await;
        partition::query(&self.client, query).await
    }

    /// Waits until a request may be sent; it must end before the permit is dropped. Nothing closes the semaphore, so there is always
    /// a permit.
    async fn slot(&self) -> Option<SemaphorePermit<'_>> {
        self.slots.acquire().await.ok()
    }
}

impl Tables for DynamoDb {
    async fn read(&self, keys: &[ItemKey]) -> Result<ReadSnapshot, Error> {
        read::read(self, keys).await
    }

    async fn read_some(&self, keys: &[ItemKey]) -> Result<PartialRead, Error> {
        read::read_some(self, keys).await
    }

    async fn write(&self, write: &Write) -> Result<ConsumedUnits, WriteError> {
        let _slot = self.slot().await;
        write::write(&self.client, write).await
    }

    async fn transact(&self, writes: &[Write]) -> Result<ConsumedUnits, TransactError> {
        let _slot = self.slot().await;
        write::transact(&self.transactor, writes).await
    }

    async fn query_index(&self, query: &IndexQuery) -> Result<IndexPage, Error> {
        let _slot = self.slot().await;
        query::query(&self.client, query).await
    }
}

impl TableScan for DynamoDb {
    async fn scan(&self, request: &ScanRequest) -> Result<ScanPage, Error> {
        let _slot = self.slot().await;
        scan::scan(&self.client, request).await
    }

    async fn describe(&self, table: &str) -> Result<TableSummary, Error> {
        let _slot = self.slot().await;
        scan::describe(&self.client, table).await
    }
}

/// The tables of some keys, each once, for an error's context.
fn table_names<'k>(keys: impl Iterator<Item = &'k ItemKey>) -> String {
    let mut tables: Vec<&str> = keys.map(|key| &*key.table).collect();
    tables.sort_unstable();
    tables.dedup();
    tables.join(", ")
}
