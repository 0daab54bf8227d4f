//! The event source mapping: delivers a stream's records to a function as Lambda does.
//!
//! Each shard is read on its own, a parent to its end before its children. A batch is delivered until its handler has
//! accepted all of it:
//!
//! ```text
//!            read                     deliver                      verdict
//! shard ─────────▶ buffer ─ batch ─────────────▶ handler ─┬─ all accepted ───────────▶ next batch
//!   ▲                         ▲                           ├─ failed from a record on ─▶ again from there
//!   │ until it is finished,   └──────── backoff ──────────┤
//!   └ then its children                                   └─ failed as a whole ────────▶ again
//! ```
//!
//! A batch that fails [`MappingSettings::max_attempts`] times without progress is narrowed: the response names the failing
//! record, or the batch is bisected until one record is left. That record is reported, counted and skipped, so that a poison
//! record does not block its shard forever.

mod delivery;
mod progress;
mod response;
mod settings;

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use afterwrite::{Error, Result};
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use tokio::time::Instant;

use self::delivery::ShardDelivery;
use self::progress::length;
pub use self::progress::{PollerCounts, PollerProgress, SkippedRecord};
pub use self::settings::{EventHandler, MappingSettings, RedeliveryFaults};
use crate::stream::{StreamReadError, StreamRecord, StreamShard, StreamSource};

/// Lambda's limit for the payload of an invocation.
const MAX_EVENT_BYTES: usize = 6 * 1024 * 1024;
/// The pause after a read that found the end of the stream.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// How often the poller looks for new shards.
const DESCRIBE_EVERY: Duration = Duration::from_secs(1);

/// Polls one stream for one handler.
#[derive(Debug)]
pub struct StreamPoller<'a, Source, Function> {
    source: &'a Source,
    handler: &'a Function,
    settings: &'a MappingSettings,
    progress: &'a PollerProgress,
}

/// The position in a shard, and the records that were read but not delivered.
#[derive(Default)]
struct ShardCursor {
    shard: String,
    iterator: Option<String>,
    last_read: Option<String>,
    buffer: VecDeque<StreamRecord>,
    buffered_since: Option<Instant>,
}

impl<'a, Source: StreamSource, Function: EventHandler> StreamPoller<'a, Source, Function> {
    /// A poller of `source` that starts at the oldest record and calls `handler`.
    #[must_use]
    pub fn new(
        source: &'a Source,
        handler: &'a Function,
        settings: &'a MappingSettings,
        progress: &'a PollerProgress,
    ) -> Self {
        Self { source, handler, settings, progress }
    }

    /// Delivers the stream until `writers_done` is set and everything that was written before is delivered.
    ///
    /// # Errors
    /// The stream's error once retries do not help; the handler's error if redelivery cannot help (a missing table, a stream
    /// that the model does not know).
    pub async fn run_until_drained(&self, writers_done: &AtomicBool) -> Result<()> {
        let mut ended = BTreeMap::<String, bool>::new();
        let mut running = FuturesUnordered::new();
        loop {
            let was_done = writers_done.load(Ordering::SeqCst);
            let started = self.start_shards(&mut ended).await?;
            running.extend(started.into_iter().map(|cursor| self.run_shard(cursor, writers_done)));
            if running.is_empty() {
                if was_done {
                    return Ok(());
                }
                tokio::time::sleep(POLL_INTERVAL).await;
            } else if let Ok(Some(shard)) = tokio::time::timeout(DESCRIBE_EVERY, running.next()).await {
                ended.insert(shard?, true);
            }
        }
    }

    /// Cursors of the shards that can be read now: those whose parent has ended or is no longer listed. `ended` holds
    /// every shard that was started, and whether it has ended.
    async fn start_shards(&self, ended: &mut BTreeMap<String, bool>) -> Result<Vec<ShardCursor>> {
        let shards = self.retrying(|| self.source.shards()).await?;
        let parent_is_behind = |shard: &StreamShard| {
            shard.parent.as_ref().is_none_or(|parent| {
                ended.get(parent).copied().unwrap_or(false) || !shards.iter().any(|other| other.id == *parent)
            })
        };
        let ready: Vec<ShardCursor> = shards
            .iter()
            .filter(|shard| !ended.contains_key(&shard.id) && parent_is_behind(shard))
            .map(|shard| ShardCursor { shard: shard.id.clone(), ..ShardCursor::default() })
            .collect();
        ended.extend(ready.iter().map(|cursor| (cursor.shard.clone(), false)));
        Ok(ready)
    }

    /// Delivers a shard to its end; returns its id.
    async fn run_shard(&self, mut cursor: ShardCursor, writers_done: &AtomicBool) -> Result<String> {
        let shard = cursor.shard.clone();
        let mut delivery = ShardDelivery::new(self.handler, self.settings, self.progress, &shard);
        while self.step(&mut cursor, &mut delivery, writers_done).await? {}
        Ok(shard)
    }

    /// One read, and the batches that it fills. Returns whether there may be more records: not at the end of a closed shard,
    /// nor if the read found the end of the stream although all writers were done before it.
    async fn step(
        &self,
        cursor: &mut ShardCursor,
        delivery: &mut ShardDelivery<'_, Function>,
        writers_done: &AtomicBool,
    ) -> Result<bool> {
        let was_done = writers_done.load(Ordering::SeqCst);
        let is_at_end = self.read(cursor).await?;
        let is_finished = cursor.iterator.is_none();
        let is_drained = was_done && is_at_end;
        while let Some(batch) = cursor.take_batch(self.settings, is_finished || is_drained) {
            delivery.deliver(&batch).await?;
        }
        if is_finished || is_drained {
            return Ok(false);
        }
        if is_at_end {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        Ok(true)
    }

    /// Reads once into the cursor's buffer; returns whether there are no more records for now. `cursor.iterator` is `None`
    /// at the end of a closed shard.
    async fn read(&self, cursor: &mut ShardCursor) -> Result<bool> {
        let page = loop {
            let iterator = match cursor.iterator.take() {
                Some(iterator) => iterator,
                None => {
                    self.retrying(|| self.source.iterator(&cursor.shard, cursor.last_read.as_deref())).await?
                }
            };
            let read = self.retrying(|| async {
                match self.source.read(&iterator).await {
                    Ok(page) => Ok(Some(page)),
                    Err(StreamReadError::IteratorExpired) => Ok(None),
                    Err(StreamReadError::ReadFailed(error)) => Err(error),
                }
            });
            // The iterator has expired: open the shard again, after the last record that was read.
            if let Some(page) = read.await? {
                break page;
            }
        };
        self.progress.count(|counts| counts.read += length(&page.records));
        if let Some(last) = page.records.last() {
            cursor.last_read = Some(last.sequence_number.clone());
            cursor.buffered_since.get_or_insert_with(Instant::now);
        }
        cursor.buffer.extend(page.records);
        cursor.iterator = page.next;
        Ok(page.is_at_end)
    }

    /// A call to the stream, repeated with backoff while that can help.
    async fn retrying<T, Call>(&self, call: impl Fn() -> Call) -> Result<T>
    where
        Call: Future<Output = Result<T, Error>>,
    {
        let mut attempt = 1;
        loop {
            match call().await {
                Err(error) if error.is_retryable() && attempt < self.settings.max_attempts => {
                    tokio::time::sleep(self.settings.pause_after(attempt)).await;
                    attempt += 1;
                }
                result => return result,
            }
        }
    }
}

impl ShardCursor {
    /// The next batch, if it is full, has waited long enough, or is the last.
    fn take_batch(&mut self, settings: &MappingSettings, is_last: bool) -> Option<Vec<StreamRecord>> {
        let since = self.buffered_since?;
        let is_due = is_last || since.elapsed() >= settings.batch_window;
        if self.buffer.len() < settings.batch_size && !is_due {
            return None;
        }
        let mut bytes = 0;
        let fits = |record: &&StreamRecord| {
            bytes += record.json.len() + 1;
            bytes <= MAX_EVENT_BYTES
        };
        let length = self.buffer.iter().take(settings.batch_size.max(1)).take_while(fits).count().max(1);
        let batch: Vec<StreamRecord> = self.buffer.drain(..length.min(self.buffer.len())).collect();
        self.buffered_since = if self.buffer.is_empty() { None } else { Some(Instant::now()) };
        (!batch.is_empty()).then_some(batch)
    }
}

#[cfg(test)]
mod tests;
