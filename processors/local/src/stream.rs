//! A stream as the poller reads it: shards, and the records of a shard in order.

use std::future::Future;

use afterwrite::{Error, Result};

/// A stream that can be polled.
pub trait StreamSource: Send + Sync {
    /// Lists every shard of the stream, closed ones included.
    ///
    /// # Errors
    /// `Unavailable` when throttled or unreachable; `Stream` if the stream is gone.
    fn shards(&self) -> impl Future<Output = Result<Vec<StreamShard>>> + Send;

    /// Returns an iterator over a shard's records: after a sequence number, or from the oldest that is kept.
    ///
    /// # Errors
    /// As [`StreamSource::shards`]; `Stream` if records after that number are no longer kept.
    fn iterator(&self, shard: &str, after: Option<&str>) -> impl Future<Output = Result<String>> + Send;

    /// Reads the next records.
    ///
    /// # Errors
    /// After [`StreamReadError::IteratorExpired`] a new iterator is needed.
    fn read(&self, iterator: &str) -> impl Future<Output = Result<RecordPage, StreamReadError>> + Send;
}

/// A shard, open or closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamShard {
    /// Its id.
    pub id: String,
    /// The shard that it continues. That one's records come first.
    pub parent: Option<String>,
}

/// The records that one read returned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordPage {
    /// The records, in order.
    pub records: Vec<StreamRecord>,
    /// Whether there are no more records for now. A page may be empty without it: a filter may have dropped its records.
    pub is_at_end: bool,
    /// The iterator for the next read; `None` at the end of a closed shard.
    pub next: Option<String>,
}

/// One change record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamRecord {
    /// Its number in the shard, which a partial batch response names.
    pub sequence_number: String,
    /// The record as Lambda delivers it, JSON.
    pub json: String,
}

/// Why a read returned no page.
#[derive(Debug)]
pub enum StreamReadError {
    /// The iterator is older than 15 minutes.
    IteratorExpired,
    /// The read failed.
    ReadFailed(Error),
}
