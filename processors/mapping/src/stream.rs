//! A stream as the mapping reads it: shards, and the records of a shard in order.

use std::collections::BTreeMap;
use std::future::Future;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

use afterwrite_model::record::Timestamp;
use afterwrite_model::{Error, Result};
use serde::Deserialize;
use serde_json::value::RawValue;

/// A stream that can be read as the API of DynamoDB Streams allows it.
pub trait StreamSource: Send + Sync {
    /// The stream's ARN. A re-created stream has another one.
    fn arn(&self) -> &str;

    /// Lists shards, closed ones included: the first page, or the page after the shard `after`. DynamoDB returns up to 100 in a page.
    ///
    /// # Errors
    /// `Unavailable` when throttled or unreachable; `Stream` if the stream does not exist any more.
    fn describe(&self, after: Option<&str>) -> impl Future<Output = Result<ShardPage>> + Send;

    /// Returns an iterator over a shard's records. It is valid for 15 minutes.
    ///
    /// # Errors
    /// [`StreamReadError::Trimmed`] if records after the position are not kept any more; [`StreamReadError::Gone`] if the shard is not.
    fn iterator(
        &self,
        shard: &str,
        position: &ShardPosition,
    ) -> impl Future<Output = Result<String, StreamReadError>> + Send;

    /// Reads the next records: at most 1,000, or 1 MB.
    ///
    /// # Errors
    /// After [`StreamReadError::IteratorExpired`] a new iterator is needed.
    fn read(&self, iterator: &str) -> impl Future<Output = Result<RecordPage, StreamReadError>> + Send;
}

/// How long a stream keeps a record.
pub const STREAM_RETENTION: Duration = Duration::from_secs(24 * 60 * 60);

/// A page of a stream's shards.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShardPage {
    /// The shards, in no particular order.
    pub shards: Vec<StreamShard>,
    /// The shard after which the next page begins; `None` after the last page.
    pub next: Option<String>,
}

/// A shard, open or closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamShard {
    /// Its id.
    pub id: String,
    /// The shard that it continues, whose records come first.
    pub parent: Option<String>,
    /// The sequence number at which the shard begins, if the stream names it.
    pub first: Option<String>,
}

impl StreamShard {
    /// The position of the shard's first record, at which a read fails if the record has been trimmed, if the stream names it.
    pub(crate) fn beginning(&self) -> ShardPosition {
        self.first.clone().map_or(ShardPosition::TrimHorizon, ShardPosition::First)
    }
}

/// A position in a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShardPosition {
    /// Before the oldest record that is kept.
    TrimHorizon,
    /// At this sequence number, at which the shard begins. Unlike `TrimHorizon`, it fails if records of the shard have been trimmed.
    First(String),
    /// After the newest record.
    Latest,
    /// Before the first record of this time or later, in whole seconds: records state their time to the second. If records of that time
    /// have been trimmed, it is the oldest record that is kept.
    At(Timestamp),
    /// After the record with this sequence number.
    After(String),
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

/// The parts of a record that delivery needs.
#[derive(Deserialize)]
struct RecordEnvelope<'r> {
    #[serde(borrow, default)]
    dynamodb: ChangeEnvelope<'r>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct ChangeEnvelope<'r> {
    #[serde(borrow)]
    keys: BTreeMap<String, &'r RawValue>,
    approximate_creation_date_time: Option<f64>,
}

impl StreamRecord {
    /// When the change was made, if the record names it.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "epoch milliseconds are far below 2^53")]
    pub fn created_at(&self) -> Option<Timestamp> {
        let seconds = self.envelope()?.approximate_creation_date_time?;
        Some(Timestamp::from_epoch_ms((seconds * 1000.0) as i64))
    }

    /// A hash of the item's key: records of one item have the same.
    pub(crate) fn key_hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        for (name, value) in self.envelope().map(|envelope| envelope.keys).unwrap_or_default() {
            (name, value.get()).hash(&mut hasher);
        }
        hasher.finish()
    }

    fn envelope(&self) -> Option<ChangeEnvelope<'_>> {
        serde_json::from_str::<RecordEnvelope<'_>>(&self.json).ok().map(|envelope| envelope.dynamodb)
    }
}

/// Why a read returned no page.
#[derive(Debug)]
pub enum StreamReadError {
    /// The iterator is older than 15 minutes.
    IteratorExpired,
    /// The records at this position are older than 24 hours and have been removed.
    Trimmed,
    /// The shard is not kept any more. DynamoDB may list it for some time after it has removed it.
    Gone,
    /// The read failed.
    ReadFailed(Error),
}

impl From<Error> for StreamReadError {
    fn from(error: Error) -> Self {
        Self::ReadFailed(error)
    }
}
