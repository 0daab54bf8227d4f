//! Reading whole tables: pages of a parallel scan, and what a table is.
//!
//! Only operations (backfill, verify) read whole tables; no function of the stream does. So this is a trait of its own.

use std::future::Future;
use std::sync::Arc;

use afterwrite_model::Error;
use afterwrite_model::record::{Item, Timestamp};

use super::table_index::TableIndex;

/// Reads whole tables.
///
/// Requests are sent once; they only read, so that a caller can always repeat them.
pub trait TableScan: Send + Sync {
    /// Reads one page of a segment.
    ///
    /// # Errors
    /// `Unavailable` when throttled or unreachable; `Configuration` for a missing table or permission.
    fn scan(&self, request: &ScanRequest) -> impl Future<Output = Result<ScanPage, Error>> + Send;

    /// Describes a table.
    ///
    /// # Errors
    /// As [`TableScan::scan`].
    fn describe(&self, table: &str) -> impl Future<Output = Result<TableSummary, Error>> + Send;
}

impl<T: TableScan> TableScan for Arc<T> {
    fn scan(&self, request: &ScanRequest) -> impl Future<Output = Result<ScanPage, Error>> + Send {
        (**self).scan(request)
    }

    fn describe(&self, table: &str) -> impl Future<Output = Result<TableSummary, Error>> + Send {
        (**self).describe(table)
    }
}

/// A page of one segment of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct ScanRequest {
    /// The table's name in the account.
    pub table: Arc<str>,
    /// The segment, less than `segments`.
    pub segment: u32,
    /// The number of segments, 1 to 1,000,000. Every item is in exactly one of them.
    pub segments: u32,
    /// Whether the page has every write that was acknowledged before the request; costs twice as much.
    pub is_consistent: bool,
    /// The most items of a page; `None` for as many as 1 MB holds.
    pub page_items: Option<u32>,
    /// The key after which the page begins; `None` for the first page. Whether this item still exists does not matter.
    pub start_after: Option<Item>,
}

impl ScanRequest {
    /// The first page of the whole table.
    #[must_use]
    pub fn whole(table: Arc<str>) -> Self {
        Self { table, segment: 0, segments: 1, is_consistent: false, page_items: None, start_after: None }
    }
}

/// A page of a scan.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScanPage {
    /// The items. A page may be empty although others follow.
    pub items: Vec<Item>,
    /// The read units that it consumed, rounded up; 0 if the service did not report them.
    pub read_units: u64,
    /// The key after which the next page begins; `None` after the last page.
    pub next: Option<Item>,
}

/// A table, as its service describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableSummary {
    /// The id that the service gave the table at its creation; a table that is created again under the same name has another. `None` if the service
    /// has no ids.
    pub id: Option<String>,
    /// Its ARN, with account and region; `None` if the service has none.
    pub arn: Option<String>,
    /// The time of its creation, or of its restore; `None` if the service does not tell it.
    pub created_at: Option<Timestamp>,
    /// The number of items. DynamoDB updates it about every six hours.
    pub items: u64,
    /// Their size in bytes, updated as often.
    pub bytes: u64,
    /// Its global secondary indexes.
    pub indexes: Vec<TableIndex>,
    /// The label of the current stream, if the table has one.
    pub stream_label: Option<String>,
    /// Whether the table can be restored to a point in time.
    pub recovery: RecoveryState,
    /// The service's time of the description, or the local time if the service sent none.
    pub described_at: Timestamp,
}

/// Whether a table can be restored to a point in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveryState {
    /// It can.
    Enabled,
    /// It cannot.
    Disabled,
    /// The service did not report it: the permission is missing, or an emulator does not know the request.
    Unknown,
    /// It is a table of an emulator, such as `afterwrite dev` or DynamoDB Local: their tables are in the account 000000000000.
    Emulated,
}
