//! DynamoDB tables, as traits: reads, conditional writes, transactions and index queries ([`Tables`]), and reading whole tables
//! ([`TableScan`]); with the sizes of items, and what a write costs.
//!
//! The ledger needs no service, only these traits: `afterwrite-services` implements them with DynamoDB, the tests in memory.

mod item_size;
mod table_index;
mod table_scan;

use std::future::Future;
use std::sync::Arc;

use afterwrite_model::effect::{ItemKey, KeyAttribute, Write, WriteRefusal};
use afterwrite_model::record::{Item, Timestamp};
use afterwrite_model::{Error, ErrorKind};

pub use self::item_size::{MAX_ITEM_BYTES, item_bytes, value_bytes, write_units};
pub use self::table_index::{IndexProjection, TableIndex};
pub use self::table_scan::{RecoveryState, ScanPage, ScanRequest, TableScan, TableSummary};

/// DynamoDB's limit on the actions of one transaction.
pub const MAX_TRANSACTION_ACTIONS: usize = 100;
/// BatchGetItem's limit of keys.
pub const MAX_READ_KEYS: usize = 100;
/// DynamoDB's limit on the total size of a transaction's items, in bytes.
pub const MAX_TRANSACTION_BYTES: usize = 4 * 1024 * 1024;
/// The next step for throttled requests, as errors name it.
pub const THROTTLE_HINT: &str = "Give the table more capacity, or its hot rollup `shards`";

/// The DynamoDB operations that Afterwrite uses.
///
/// An operation that returned [`afterwrite_model::ErrorKind::Unavailable`], or whose future was dropped, may have taken effect: callers need
/// conditions from which they can tell whether it did. Nothing is retried here: callers retry by
/// [`RetryPolicy`](afterwrite_model::retry::RetryPolicy) and set the deadline with [`within`](afterwrite_model::clock::within).
pub trait Tables: Send + Sync {
    /// Reads any number of items, strongly consistent. The items of the result align with `keys`. The read as a whole is not atomic:
    /// it may see some writes and miss earlier ones to other items.
    ///
    /// # Errors
    /// `Unavailable` when throttled or unreachable; `Configuration` for a missing table, a different key schema or a missing
    /// permission.
    fn read(&self, keys: &[ItemKey]) -> impl Future<Output = Result<ReadSnapshot, Error>> + Send;

    /// As [`Tables::read`], but a throttled partition, or a part of the read that failed, leaves only its own keys unread. Tables without
    /// such faults read all keys or fail.
    ///
    /// # Errors
    /// As [`Tables::read`]. `Unavailable` means that no key was read.
    fn read_some(&self, keys: &[ItemKey]) -> impl Future<Output = Result<PartialRead, Error>> + Send {
        async { self.read(keys).await.map(PartialRead::from) }
    }

    /// Reads the items that lookups find by their primary key, as [`Tables::read_some`] does. Tables in memory
    /// that stand for the application's may return a deleted item here, as it was before its deletion; [`Tables::read_some`] never does.
    ///
    /// # Errors
    /// As [`Tables::read_some`].
    fn read_looked_up(&self, keys: &[ItemKey]) -> impl Future<Output = Result<PartialRead, Error>> + Send {
        self.read_some(keys)
    }

    /// Carries out one write.
    ///
    /// # Errors
    /// [`WriteError`], which distinguishes a refused write from one whose effect is unknown.
    fn write(&self, write: &Write) -> impl Future<Output = Result<ConsumedUnits, WriteError>> + Send;

    /// Carries out all writes or none: at most [`MAX_TRANSACTION_ACTIONS`], each to a different item, together at most
    /// [`MAX_TRANSACTION_BYTES`].
    ///
    /// # Errors
    /// [`TransactError`], with a reason for each write if the transaction was cancelled.
    fn transact(&self, writes: &[Write])
    -> impl Future<Output = Result<ConsumedUnits, TransactError>> + Send;

    /// Returns one page of the items of a global secondary index with these key values, eventually consistent.
    ///
    /// # Errors
    /// As [`Tables::read`]; `Configuration` for a missing index.
    fn query_index(&self, query: &IndexQuery) -> impl Future<Output = Result<IndexPage, Error>> + Send;
}

impl<T: Tables> Tables for Arc<T> {
    fn read(&self, keys: &[ItemKey]) -> impl Future<Output = Result<ReadSnapshot, Error>> + Send {
        (**self).read(keys)
    }

    fn read_some(&self, keys: &[ItemKey]) -> impl Future<Output = Result<PartialRead, Error>> + Send {
        (**self).read_some(keys)
    }

    fn read_looked_up(&self, keys: &[ItemKey]) -> impl Future<Output = Result<PartialRead, Error>> + Send {
        (**self).read_looked_up(keys)
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

    fn query_index(&self, query: &IndexQuery) -> impl Future<Output = Result<IndexPage, Error>> + Send {
        (**self).query_index(query)
    }
}

/// The result of [`Tables::read`].
#[derive(Clone, Debug)]
pub struct ReadSnapshot {
    /// The items, aligned with the requested keys; `None` for an item that does not exist.
    pub items: Vec<Option<Item>>,
    /// The server's time of the response (HTTP `Date`, whole seconds); of several responses, the earliest.
    pub server_time: Timestamp,
}

/// The result of [`Tables::read_some`].
#[derive(Clone, Debug)]
pub struct PartialRead {
    /// The items, aligned with the requested keys.
    pub items: Vec<ReadItem>,
    /// As [`ReadSnapshot::server_time`].
    pub server_time: Timestamp,
}

/// The item with a key, or `None` if it does not exist.
pub type ReadItem = Result<Option<Item>, Unprocessed>;

/// The error of a read whose items do not align with its keys.
#[must_use]
pub fn misaligned_read() -> Error {
    Error::new(ErrorKind::State, "a read returned fewer items than keys; this is a defect of Afterwrite")
}

/// Why a key was not read: its partition is throttled, or the request for it failed. The key can be requested again.
#[derive(Clone, Debug)]
pub struct Unprocessed(Arc<Error>);

impl From<Error> for Unprocessed {
    fn from(cause: Error) -> Self {
        Self(Arc::new(cause))
    }
}

impl From<ReadSnapshot> for PartialRead {
    fn from(read: ReadSnapshot) -> Self {
        Self { items: read.items.into_iter().map(Ok).collect(), server_time: read.server_time }
    }
}

impl From<Unprocessed> for Error {
    fn from(Unprocessed(cause): Unprocessed) -> Self {
        Arc::try_unwrap(cause).unwrap_or_else(|shared| shared.restated())
    }
}

/// A query of an index by exact key values.
#[derive(Clone, Debug, PartialEq)]
pub struct IndexQuery {
    /// The table's name in the account.
    pub table: Arc<str>,
    /// The index's name.
    pub index: Arc<str>,
    /// The values of the index's key attributes: the whole partition key, and as much of the sort key, from the left, as the query restricts.
    pub key: Vec<KeyAttribute>,
    /// The most items of a page, at least 1.
    pub page_items: u16,
    /// The position in the index after which the page begins; `None` for the first page. Only [`IndexPage::next`] sets it.
    pub start_after: Option<Item>,
}

/// A page of the items that a query of an index returns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IndexPage {
    /// The items, in the order of the index's sort key. A page may be empty although others follow.
    pub items: Vec<Item>,
    /// The query of the next page; `None` after the last page.
    pub next: Option<IndexQuery>,
}

/// The capacity units that a write consumed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConsumedUnits {
    /// Write capacity units, indexes included: one per started KB, two per started KB in a transaction.
    pub write_units: u64,
}

/// Why a single write was not carried out.
#[derive(Debug)]
pub enum WriteError {
    /// The write was refused and had no effect.
    Refused(WriteRefusal),
    /// The request failed. If its kind is `Unavailable`, the write may have taken effect.
    Failed(Error),
}

/// Why a transaction was not carried out.
#[derive(Debug)]
pub enum TransactError {
    /// The transaction was cancelled and had no effect. Aligns with the writes; `None` for a write that was not at fault.
    Cancelled(Vec<Option<WriteRefusal>>),
    /// The request failed. If its kind is `Unavailable`, the transaction may have taken effect.
    Failed(Error),
}
