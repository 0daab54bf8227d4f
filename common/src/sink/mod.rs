//! Effects → the world: one trait, one file a service.

mod configuration;
mod connect;
pub mod dynamodb;
pub mod firehose;
pub mod memory;
pub mod s3;
mod service;
pub mod size;

use std::future::Future;
use std::sync::Arc;

use crate::Error;
use crate::effect::{Key, KeyAttribute, Refusal, Write};
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
    fn read(&self, keys: &[Key]) -> impl Future<Output = Result<Snapshot, Error>> + Send;

    /// Carries out one write.
    ///
    /// # Errors
    /// [`WriteError`], which says whether the write was refused or its fate is unknown.
    fn write(&self, write: &Write) -> impl Future<Output = Result<Consumed, WriteError>> + Send;

    /// Carries out all writes or none: at most [`MAX_TRANSACTION_ACTIONS`], each to another item, together at most
    /// [`MAX_TRANSACTION_BYTES`].
    ///
    /// # Errors
    /// [`TransactError`], with a reason for each write if the transaction was cancelled.
    fn transact(&self, writes: &[Write]) -> impl Future<Output = Result<Consumed, TransactError>> + Send;

    /// The items that a global secondary index holds under these key values, eventually consistent.
    ///
    /// # Errors
    /// As [`Tables::read`]; `Configuration` for a missing index.
    fn query_index(&self, query: &IndexQuery) -> impl Future<Output = Result<Vec<Item>, Error>> + Send;
}

impl<T: Tables> Tables for Arc<T> {
    fn read(&self, keys: &[Key]) -> impl Future<Output = Result<Snapshot, Error>> + Send {
        (**self).read(keys)
    }

    fn write(&self, write: &Write) -> impl Future<Output = Result<Consumed, WriteError>> + Send {
        (**self).write(write)
    }

    fn transact(&self, writes: &[Write]) -> impl Future<Output = Result<Consumed, TransactError>> + Send {
        (**self).transact(writes)
    }

    fn query_index(&self, query: &IndexQuery) -> impl Future<Output = Result<Vec<Item>, Error>> + Send {
        (**self).query_index(query)
    }
}

/// What [`Tables::read`] found.
#[derive(Clone, Debug)]
pub struct Snapshot {
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
pub struct Consumed {
    /// Write capacity units, indexes included: 1 a KB begun, 2 a KB begun in a transaction.
    pub write_units: u64,
}

/// Why a single write was not carried out.
#[derive(Debug)]
pub enum WriteError {
    /// It was refused and has had no effect.
    Refused(Refusal),
    /// The request failed; if its kind is `Unavailable`, the write may have taken effect all the same.
    Failed(Error),
}

/// Why a transaction was not carried out.
#[derive(Debug)]
pub enum TransactError {
    /// It was cancelled and has had no effect. Aligns with the writes; `None` where a write itself was fine.
    Cancelled(Vec<Option<Refusal>>),
    /// The request failed; if its kind is `Unavailable`, the transaction may have taken effect all the same.
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
