//! A table's stream as it grows: every shard is polled, parents before their children. Nothing is stored: this reader follows a stream
//! for a person. It counts as one of the two readers that a shard allows.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use afterwrite_model::Result;
use afterwrite_model::record::Timestamp;

use crate::aws::DeployedStream;
use crate::filter::FilterCriteria;
use crate::shard_reader::MAX_LOSSES;
use crate::stream::{ShardPosition, StreamReadError, StreamShard, StreamSource as _};

/// How often the shards are listed: a shard is replaced after about four hours.
const LIST_EVERY: Duration = Duration::from_secs(10);

/// Where the reader starts in the shards that exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamStart {
    /// After the newest record.
    Latest,
    /// At the oldest record, up to 24 hours ago.
    Oldest,
    /// At the first record of this time or later.
    At(Timestamp),
}

/// Follows a table's stream.
#[derive(Debug)]
pub struct TableStream {
    stream: DeployedStream,
    start: StreamStart,
    filters: FilterCriteria,
    /// The shards that are read.
    cursors: BTreeMap<String, ShardCursor>,
    /// The shards that were read to their end, or that ended before the start.
    ended: BTreeSet<String>,
    listed: Option<Instant>,
}

/// The position in a shard.
#[derive(Debug)]
struct ShardCursor {
    iterator: Option<String>,
    position: ShardPosition,
    /// How often its records, or the shard itself, were not kept any more.
    losses: u32,
}

impl TableStream {
    /// Follows this stream.
    #[must_use]
    pub fn new(stream: DeployedStream, start: StreamStart) -> Self {
        let (cursors, ended) = (BTreeMap::new(), BTreeSet::new());
        Self { stream, start, filters: FilterCriteria::default(), cursors, ended, listed: None }
    }

    /// Returns only the records that a mapping with these filters would deliver.
    #[must_use]
    pub fn filtered(self, filters: FilterCriteria) -> Self {
        Self { filters, ..self }
    }

    /// Reads every open shard once; returns the records as Lambda delivers them. Empty if there is nothing new.
    ///
    /// # Errors
    /// Those of [`DeployedStream`].
    pub async fn next_records(&mut self) -> Result<Vec<String>> {
        if self.listed.is_none_or(|listed| listed.elapsed() >= LIST_EVERY) {
            self.list_shards().await?;
        }
        let mut records = Vec::new();
        let shards: Vec<String> = self.cursors.keys().cloned().collect();
        for shard in shards {
            records.extend(self.read_shard(&shard).await?);
        }
        Ok(records)
    }

    /// Opens the shards whose parent has ended.
    async fn list_shards(&mut self) -> Result<()> {
        let (mut shards, mut after) = (Vec::<StreamShard>::new(), None);
        loop {
            let page = self.stream.describe(after.as_deref()).await?;
            shards.extend(page.shards);
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        let position = match (self.start, self.listed) {
            (StreamStart::Latest, None) => ShardPosition::Latest,
            // A shard that is listed later may be the child of one that ended before the time.
            (StreamStart::At(time), _) => ShardPosition::At(time),
            (StreamStart::Latest, Some(_)) | (StreamStart::Oldest, _) => ShardPosition::TrimHorizon,
        };
        if position == ShardPosition::Latest {
            // A shard with a child is closed: its newest record is past.
            self.ended.extend(shards.iter().filter_map(|shard| shard.parent.clone()));
        }
        for StreamShard { id, parent, .. } in &shards {
            let parent_is_read = parent.as_ref().is_none_or(|parent| {
                self.ended.contains(parent) || !shards.iter().any(|shard| shard.id == *parent)
            });
            if parent_is_read && !self.ended.contains(id) && !self.cursors.contains_key(id) {
                let cursor = ShardCursor { iterator: None, position: position.clone(), losses: 0 };
                self.cursors.insert(id.clone(), cursor);
            }
        }
        self.listed = Some(Instant::now());
        Ok(())
    }

    async fn read_shard(&mut self, shard: &str) -> Result<Vec<String>> {
        let Some(cursor) = self.cursors.get_mut(shard) else { return Ok(Vec::new()) };
        let read = async {
            let iterator = match cursor.iterator.take() {
                Some(iterator) => iterator,
                None => self.stream.iterator(shard, &cursor.position).await?,
            };
            self.stream.read(&iterator).await
        };
        let page = match read.await {
            Ok(page) => page,
            // The next read gets another iterator.
            Err(StreamReadError::IteratorExpired) => return Ok(Vec::new()),
            Err(StreamReadError::Trimmed | StreamReadError::Gone) => {
                cursor.position = ShardPosition::TrimHorizon;
                cursor.losses += 1;
                if cursor.losses == MAX_LOSSES {
                    self.end_shard(shard).await?;
                }
                return Ok(Vec::new());
            }
            Err(StreamReadError::ReadFailed(error)) => return Err(error),
        };
        if let Some(last) = page.records.last() {
            cursor.position = ShardPosition::After(last.sequence_number.clone());
        }
        cursor.losses = 0;
        cursor.iterator = page.next;
        if cursor.iterator.is_none() {
            self.end_shard(shard).await?;
        }
        let records = page.records.into_iter().map(|record| record.json);
        Ok(records.filter(|json| self.filters.accepts(json)).collect())
    }

    /// Ends a shard: its children can be read now.
    async fn end_shard(&mut self, shard: &str) -> Result<()> {
        self.cursors.remove(shard);
        self.ended.insert(shard.to_owned());
        self.list_shards().await
    }
}
