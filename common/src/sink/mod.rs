//! Effects → the world: one trait a kind of service, one file a service.

pub mod cloudfront;
mod configuration;
mod connect;
pub mod dynamodb;
pub mod firehose;
pub mod memory;
pub mod redis;
pub mod s3;
mod service;
pub mod size;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use crate::Error;
use crate::effect::{ItemKey, KeyAttribute, Write, WriteRefusal};
use crate::projection::StaleKey;
use crate::record::{Item, Timestamp};

pub use self::connect::http_client;

/// DynamoDB's limit on the actions of one transaction.
pub const MAX_TRANSACTION_ACTIONS: usize = 100;
/// DynamoDB's limit on the items of one transaction together, in bytes.
pub const MAX_TRANSACTION_BYTES: usize = 4 * 1024 * 1024;

/// DynamoDB's tables, as far as Afterwrite needs them.
///
/// Every operation may have taken effect although it returned [`crate::ErrorKind::Unavailable`]: callers must be able to tell,
/// by their conditions, whether it did. No operation retries a write by itself.
pub trait Tables: Send + Sync {
    /// Reads items, strongly consistent, any number of them; the answer aligns with `keys`.
    ///
    /// # Errors
    /// `Unavailable` when throttled or unreachable, `Configuration` for a missing table, wrong keys or no permission.
    fn read(&self, keys: &[ItemKey]) -> impl Future<Output = Result<ReadSnapshot, Error>> + Send;

    /// Carries out one write.
    ///
    /// # Errors
    /// [`WriteError`], which says whether the write was refused or its fate is unknown.
    fn write(&self, write: &Write) -> impl Future<Output = Result<ConsumedUnits, WriteError>> + Send;

    /// Carries out all writes or none: at most [`MAX_TRANSACTION_ACTIONS`], each to another item, together at most
    /// [`MAX_TRANSACTION_BYTES`].
    ///
    /// # Errors
    /// [`TransactError`], with a reason for each write if the transaction was cancelled.
    fn transact(&self, writes: &[Write])
    -> impl Future<Output = Result<ConsumedUnits, TransactError>> + Send;

    /// The items that a global secondary index holds under these key values, eventually consistent.
    ///
    /// # Errors
    /// As [`Tables::read`]; `Configuration` for a missing index.
    fn query_index(&self, query: &IndexQuery) -> impl Future<Output = Result<Vec<Item>, Error>> + Send;
}

impl<T: Tables> Tables for Arc<T> {
    fn read(&self, keys: &[ItemKey]) -> impl Future<Output = Result<ReadSnapshot, Error>> + Send {
        (**self).read(keys)
    }

    fn write(&self, write: &Write) -> impl Future<Output = Result<ConsumedUnits, WriteError>> + Send {
        (**self).write(write)
    }

    fn transact(
        &self,
        writes: &[Write],
    ) -> impl Future<Output = Result<ConsumedUnits, TransactError>> + Send {
        (**self).transact(writes)
    }

    fn query_index(&self, query: &IndexQuery) -> impl Future<Output = Result<Vec<Item>, Error>> + Send {
        (**self).query_index(query)
    }
}

/// What [`Tables::read`] found.
#[derive(Clone, Debug)]
pub struct ReadSnapshot {
    /// The items, aligned with the keys asked for.
    pub items: Vec<Option<Item>>,
    /// The server's time when it answered (HTTP `Date`, whole seconds); the earliest, if it took several requests.
    pub server_time: Timestamp,
}

/// Exact values for an index's keys.
#[derive(Clone, Debug, PartialEq)]
pub struct IndexQuery {
    /// The table, by the name it has where it lives.
    pub table: Arc<str>,
    /// The index's name.
    pub index: Arc<str>,
    /// Its partition key.
    pub partition: KeyAttribute,
    /// Its sort key, if the query names one.
    pub sort: Option<KeyAttribute>,
}

/// What a write consumed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConsumedUnits {
    /// Write capacity units, indexes included: 1 a KB begun, 2 a KB begun in a transaction.
    pub write_units: u64,
}

/// Why a single write was not carried out.
#[derive(Debug)]
pub enum WriteError {
    /// It was refused and has had no effect.
    Refused(WriteRefusal),
    /// The request failed; if its kind is `Unavailable`, the write may have taken effect all the same.
    Failed(Error),
}

/// Why a transaction was not carried out.
#[derive(Debug)]
pub enum TransactError {
    /// It was cancelled and has had no effect. Aligns with the writes; `None` where a write itself was fine.
    Cancelled(Vec<Option<WriteRefusal>>),
    /// The request failed; if its kind is `Unavailable`, the transaction may have taken effect all the same.
    Failed(Error),
}

/// A cache that holds copies of items under keys.
pub trait Cache: Send + Sync {
    /// Makes the keys go, each by its remedy, and then tells listeners which went. `now` is the time to number new generations by; the
    /// answer comes within `limit`, and may then be [`crate::ErrorKind::Unavailable`] for keys that are gone all the same.
    fn invalidate(
        &self,
        keys: &[StaleKey],
        now: Timestamp,
        limit: Duration,
    ) -> impl Future<Output = InvalidatedKeys> + Send;
}

/// What [`Cache::invalidate`] did.
#[derive(Debug)]
pub struct InvalidatedKeys {
    /// What became of each key, aligned with the keys.
    pub answers: Vec<Result<(), Error>>,
    /// How many commands were sent.
    pub commands: u64,
}

/// A content delivery network's distribution that holds copies of responses under paths.
pub trait Distribution: Send + Sync {
    /// Begins to invalidate these paths: at most 3,000, of which at most 15 end in a wildcard. The same `reference` with the same paths
    /// begins it only once.
    ///
    /// # Errors
    /// [`DistributionError`]; `Unavailable` within `limit` if no answer came.
    fn invalidate(
        &self,
        paths: &[String],
        reference: &str,
        limit: Duration,
    ) -> impl Future<Output = Result<(), DistributionError>> + Send;
}

/// Why an invalidation was not begun.
#[derive(Debug)]
pub enum DistributionError {
    /// Too many earlier ones are in progress: it can be when they are done, which takes seconds to minutes.
    Busy(Error),
    /// Anything else.
    Failed(Error),
}

/// The messages of an error and its causes.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
