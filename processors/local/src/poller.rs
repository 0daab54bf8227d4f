//! The event source mapping: carries a stream's records to a handler as Lambda does, at its core.
//!
//! Each shard is read by itself, a parent to its end before its children. A batch is delivered until its handler has
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
//! A batch that fails [`Settings::max_attempts`] times without progress is narrowed: the response names the failing record,
//! or the batch is bisected until one record is left. That one is reported, counted and skipped, so that a poison
//! record never blocks its shard for ever.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use afterwrite::{Error, Result};
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use tokio::time::Instant;

use super::delivery::Delivery;
use super::progress::Progress;
use super::stream::{ReadError, Record, Shard, StreamSource};

/// The most that one event may weigh: Lambda's limit on a payload.
const MAX_EVENT_BYTES: usize = 6 * 1024 * 1024;
/// How often the stream is asked for new shards.
const DESCRIBE_EVERY: Duration = Duration::from_secs(1);

/// What Lambda runs: an event's bytes and the time that is left, to the response's JSON.
pub trait Handler {
    /// Handles one event.
    ///
    /// # Errors
    /// The invocation failed as a whole.
    fn handle(&self, event: Vec<u8>, remaining: Duration) -> impl Future<Output = Result<Vec<u8>>>;
}

impl<F, Handling> Handler for F
where
    F: Fn(Vec<u8>, Duration) -> Handling,
    Handling: Future<Output = Result<Vec<u8>>>,
{
    fn handle(&self, event: Vec<u8>, remaining: Duration) -> impl Future<Output = Result<Vec<u8>>> {
        self(event, remaining)
    }
}

/// How a stream is polled and delivered.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The most records of one batch.
    pub batch_size: usize,
    /// How long a batch that is not full waits for more.
    pub batch_window: Duration,
    /// The function's timeout: how long one invocation may take.
    pub timeout: Duration,
    /// Deliveries of a batch without progress until what blocks it is skipped.
    pub max_attempts: u32,
    /// The pause before the second delivery; it doubles with each, up to `max_backoff`.
    pub backoff: Duration,
    /// The longest pause between two deliveries.
    pub max_backoff: Duration,
    /// The pause after a read that gave nothing.
    pub poll_interval: Duration,
    /// What goes wrong on purpose.
    pub faults: Faults,
}

impl Default for Settings {
    /// As a new event source mapping has them, but for bounded attempts and quicker polling.
    fn default() -> Self {
        Self {
            batch_size: 100,
            batch_window: Duration::ZERO,
            timeout: Duration::from_secs(60),
            max_attempts: 8,
            backoff: Duration::from_millis(50),
            max_backoff: Duration::from_secs(5),
            poll_interval: Duration::from_millis(20),
            faults: Faults::default(),
        }
    }
}

/// What goes wrong on purpose, for the demo and for tests: all of it is what Lambda may do.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// Of a thousand accepted batches, how many are delivered once more, whole or in part.
    pub redeliver_per_mille: u32,
    /// What the choice is drawn from: the same seed, the same choices.
    pub seed: u64,
}

/// Polls one stream for one handler.
#[derive(Debug)]
pub struct Poller<'a, Source, Function> {
    source: &'a Source,
    handler: &'a Function,
    settings: &'a Settings,
    progress: &'a Progress,
}

/// A shard on its way to its end.
struct Cursor {
    shard: String,
    iterator: Option<String>,
    last_read: Option<String>,
    buffer: VecDeque<Record>,
    buffered_since: Option<Instant>,
}

impl<'a, Source: StreamSource, Function: Handler> Poller<'a, Source, Function> {
    /// A poller of `source` that starts at the oldest record and calls `handler`.
    #[must_use]
    pub fn new(
        source: &'a Source,
        handler: &'a Function,
        settings: &'a Settings,
        progress: &'a Progress,
    ) -> Self {
        Self { source, handler, settings, progress }
    }

    /// Delivers the stream until `writers_done` is set and nothing that was written before is left.
    ///
    /// # Errors
    /// What the stream fails with once retries do not help; what the handler fails with if it is of a kind that no delivery
    /// mends (a missing table, a stream that the model does not know).
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
                tokio::time::sleep(self.settings.poll_interval).await;
            } else if let Ok(Some(shard)) = tokio::time::timeout(DESCRIBE_EVERY, running.next()).await {
                ended.insert(shard?, true);
            }
        }
    }

    /// Cursors of the shards that may be read now: those whose parent has ended or is no longer shown. `ended` holds
    /// every shard that was started, and whether it has ended.
    async fn start_shards(&self, ended: &mut BTreeMap<String, bool>) -> Result<Vec<Cursor>> {
        let shards = self.retrying(|| self.source.shards()).await?;
        let parent_is_behind = |shard: &Shard| {
            shard.parent.as_ref().is_none_or(|parent| {
                ended.get(parent).copied().unwrap_or(false) || !shards.iter().any(|other| other.id == *parent)
            })
        };
        let ready: Vec<Cursor> = shards
            .iter()
            .filter(|shard| !ended.contains_key(&shard.id) && parent_is_behind(shard))
            .map(|shard| Cursor::new(&shard.id))
            .collect();
        ended.extend(ready.iter().map(|cursor| (cursor.shard.clone(), false)));
        Ok(ready)
    }

    /// Delivers a shard until nothing is left of it, and names it.
    async fn run_shard(&self, mut cursor: Cursor, writers_done: &AtomicBool) -> Result<String> {
        let shard = cursor.shard.clone();
        let mut delivery = Delivery::new(self.handler, self.settings, self.progress, &shard);
        while self.step(&mut cursor, &mut delivery, writers_done).await? {}
        Ok(shard)
    }

    /// One read, and the batches that it fills. Says whether there may be more: not once the shard is closed and read to
    /// its end, nor if nothing came although all writers were done before the read.
    async fn step(
        &self,
        cursor: &mut Cursor,
        delivery: &mut Delivery<'_, Function>,
        writers_done: &AtomicBool,
    ) -> Result<bool> {
        let was_done = writers_done.load(Ordering::SeqCst);
        let found = self.read(cursor).await?;
        let is_finished = cursor.iterator.is_none();
        let is_drained = was_done && found == 0;
        while let Some(batch) = cursor.take_batch(self.settings, is_finished || is_drained) {
            delivery.deliver(&batch).await?;
        }
        if is_finished || is_drained {
            return Ok(false);
        }
        if found == 0 {
            tokio::time::sleep(self.settings.poll_interval).await;
        }
        Ok(true)
    }

    /// Reads once into the cursor's buffer and says how many records came; `cursor.iterator` is `None` at a closed
    /// shard's end.
    async fn read(&self, cursor: &mut Cursor) -> Result<usize> {
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
                    Err(ReadError::Expired) => Ok(None),
                    Err(ReadError::Failed(error)) => Err(error),
                }
            });
            // An expired iterator: the loop opens the shard again, after what was read last.
            if let Some(page) = read.await? {
                break page;
            }
        };
        let found = page.records.len();
        self.progress.read(found);
        if let Some(last) = page.records.last() {
            cursor.last_read = Some(last.sequence_number.clone());
            cursor.buffered_since.get_or_insert_with(Instant::now);
        }
        cursor.buffer.extend(page.records);
        cursor.iterator = page.next;
        Ok(found)
    }

    /// A call to the stream, again with backoff while that can help.
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

impl Settings {
    /// The pause after so many failed attempts.
    pub(super) fn pause_after(&self, attempts: u32) -> Duration {
        let factor = 2_u32.saturating_pow(attempts.saturating_sub(1));
        self.backoff.saturating_mul(factor).min(self.max_backoff)
    }
}

impl Cursor {
    fn new(shard: &str) -> Self {
        Self {
            shard: shard.to_owned(),
            iterator: None,
            last_read: None,
            buffer: VecDeque::new(),
            buffered_since: None,
        }
    }

    /// The next batch, if it is full, has waited long enough, or is the last.
    fn take_batch(&mut self, settings: &Settings, is_last: bool) -> Option<Vec<Record>> {
        let since = self.buffered_since?;
        let is_due = is_last || since.elapsed() >= settings.batch_window;
        if self.buffer.len() < settings.batch_size && !is_due {
            return None;
        }
        let mut bytes = 0;
        let fits = |record: &&Record| {
            bytes += record.json.len() + 1;
            bytes <= MAX_EVENT_BYTES
        };
        let length = self.buffer.iter().take(settings.batch_size.max(1)).take_while(fits).count().max(1);
        let batch: Vec<Record> = self.buffer.drain(..length.min(self.buffer.len())).collect();
        self.buffered_since = if self.buffer.is_empty() { None } else { Some(Instant::now()) };
        (!batch.is_empty()).then_some(batch)
    }
}

#[cfg(test)]
mod tests;
