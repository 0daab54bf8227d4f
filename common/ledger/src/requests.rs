//! Requests to the tables. Each has a part of the time that is left until the deadline of the invocation.

use std::future::Future;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use afterwrite_model::clock::{Clock, within};
use afterwrite_model::effect::{ItemKey, Write, WriteRefusal};
use afterwrite_model::record::{Item, Timestamp};
use afterwrite_model::retry::RetryPolicy;
use afterwrite_model::{Error, ErrorKind, Result};
use futures::stream::{StreamExt as _, iter};
use tokio::sync::Semaphore;
use tokio::task::unconstrained;

use super::dyn_tables::{DynClock, DynTables};
use super::policy::{CLOCK_TOLERANCE, CONCURRENCY, RequestKind, begin_time};
use super::tally::CommitTally;
use crate::tables::{
    ConsumedUnits, IndexPage, IndexQuery, MAX_READ_KEYS, PartialRead, ReadItem, THROTTLE_HINT, TransactError,
    Unprocessed, WriteError, misaligned_read,
};

/// Sends the requests of one invocation, and counts them.
pub(crate) struct Requests<'l> {
    pub(crate) tables: &'l dyn DynTables,
    pub(crate) clock: &'l dyn DynClock,
    /// No request is started after this time, and none is waited for.
    pub(crate) deadline: Timestamp,
    pub(crate) tally: &'l CommitTally,
    /// How far DynamoDB's time is ahead of the clock, in milliseconds, by the newest read; 0 before it. A response arrives after it was sent, so
    /// the difference is rather too small.
    service_ahead_ms: AtomicI64,
    /// A request holds a slot while it is sent. Its time does not begin before.
    slots: Semaphore,
}

impl<'l> Requests<'l> {
    /// The requests of an invocation, which has until this deadline.
    pub(crate) fn new(
        tables: &'l dyn DynTables,
        clock: &'l dyn DynClock,
        deadline: Timestamp,
        tally: &'l CommitTally,
    ) -> Self {
        Self {
            tables,
            clock,
            deadline,
            tally,
            service_ahead_ms: AtomicI64::new(0),
            slots: Semaphore::new(CONCURRENCY),
        }
    }

    /// DynamoDB's time at this time of the clock, as far as reads have shown it: its time decides which rollups have expired.
    pub(crate) fn service_time(&self, now: Timestamp) -> Timestamp {
        Timestamp::from_epoch_ms(now.epoch_ms().saturating_add(self.service_ahead_ms.load(Ordering::Relaxed)))
    }

    /// Notes the time of a response. A difference beyond the tolerance is ignored, because no clock explains it: tables that stand for
    /// DynamoDB may have no time, and DynamoDB's client refuses to work by a clock that differs so much.
    fn note_service_time(&self, server_time: Timestamp, now: Timestamp) {
        let ahead_ms = server_time.epoch_ms().saturating_sub(now.epoch_ms());
        if u128::from(ahead_ms.unsigned_abs()) <= CLOCK_TOLERANCE.as_millis() {
            self.service_ahead_ms.store(ahead_ms, Ordering::Relaxed);
        }
    }

    /// Reads items once, strongly consistent. A retryable fault leaves the keys that it concerns unread; the read succeeds even if it
    /// concerns all of them.
    pub(crate) async fn read(&self, keys: &[ItemKey]) -> Result<PartialRead> {
        self.read_parts(keys, parts(keys).map(|part| self.tables.read_some(part))).await
    }

    /// Reads the parts concurrently. Each part has its own time limit, so a part that hangs leaves only its own keys unread.
    async fn read_parts(
        &self,
        keys: &[ItemKey],
        reads: impl Iterator<Item = impl Future<Output = Result<PartialRead>>>,
    ) -> Result<PartialRead> {
        let results = send_all(reads.map(|read| self.bounded(RequestKind::Read, read))).await;
        let (mut items, mut server_time) = (Vec::with_capacity(keys.len()), None);
        for (part, result) in parts(keys).zip(results) {
            match result.flatten() {
                Ok(read) => {
                    items.extend(read.items);
                    server_time = server_time.into_iter().chain([read.server_time]).min();
                }
                Err(error) if error.is_retryable() => {
                    items.extend(vec![Err(Unprocessed::from(error)); part.len()]);
                }
                Err(error) => return Err(error),
            }
        }
        let now = self.clock.now();
        if let Some(server_time) = server_time {
            self.note_service_time(server_time, now);
        }
        Ok(PartialRead { items, server_time: server_time.unwrap_or(now) })
    }

    /// Reads an item once, strongly consistent.
    pub(crate) async fn read_one(&self, key: &ItemKey) -> Result<Option<Item>> {
        let mut items = self.read(std::slice::from_ref(key)).await?.items;
        Ok(items.pop().ok_or_else(misaligned_read)??)
    }

    /// Reads the items that lookups find by their primary keys, as [`Requests::read`] does.
    pub(crate) async fn read_looked_up(&self, keys: &[ItemKey]) -> Result<Vec<ReadItem>> {
        Ok(self.read_parts(keys, parts(keys).map(|part| self.tables.read_looked_up(part))).await?.items)
    }

    /// Queries an index once.
    pub(crate) async fn query_index(&self, query: &IndexQuery) -> Result<IndexPage> {
        self.bounded(RequestKind::Read, self.tables.query_index(query)).await?
    }

    /// Sends a transaction once.
    pub(crate) async fn transact(&self, writes: &[Write]) -> Result<(), TransactError> {
        let result = self.bounded(RequestKind::Write, self.tables.transact(writes)).await;
        self.count_units(result.map_err(TransactError::Failed)??);
        Ok(())
    }

    /// Sends a write once.
    pub(crate) async fn write(&self, write: &Write) -> Result<(), WriteError> {
        let result = self.bounded(RequestKind::Write, self.tables.write(write)).await;
        self.count_units(result.map_err(WriteError::Failed)??);
        Ok(())
    }

    fn count_units(&self, consumed: ConsumedUnits) {
        self.tally.write_units.add(consumed.write_units);
    }

    /// The error of a write whose refusal its author does not expect.
    pub(crate) fn write_error(&self, write: &Write, error: WriteError) -> Error {
        let is_conflict = matches!(error, WriteError::Refused(WriteRefusal::Conflict));
        self.tally.conflicts.add(u64::from(is_conflict));
        write_error(write, error)
    }

    /// The result of a request, unless its time ends first. A request that hangs leaves time for one retry and for the queued requests. A
    /// write that is cut off may still take effect.
    async fn bounded<F: Future>(&self, kind: RequestKind, request: F) -> Result<F::Output> {
        // Requests to tables in memory are done at once: Tokio's budget must not interrupt them while slots are free.
        let _slot = self.before_deadline(unconstrained(self.slots.acquire())).await?;
        let limit = self.clock.now().plus(kind.time(self.time_left())).min(self.deadline);
        within(self.clock, limit, request).await.ok_or_else(time_ended)
    }

    async fn before_deadline<F: Future>(&self, request: F) -> Result<F::Output> {
        within(self.clock, self.deadline, request).await.ok_or_else(time_ended)
    }

    /// The time until the deadline.
    pub(crate) fn time_left(&self) -> Duration {
        self.deadline.since(self.clock.now())
    }

    /// Sends requests as [`send_all`] does, but begins none after a while: some of them may hang. `None` for each that was not begun.
    pub(crate) async fn send_some<F: Future>(
        &self,
        requests: impl IntoIterator<Item = F>,
    ) -> Vec<Option<F::Output>> {
        let limit = self.clock.now().plus(begin_time(self.time_left())).min(self.deadline);
        let requests = requests
            .into_iter()
            .map(|request| async move { if self.clock.now() < limit { Some(request.await) } else { None } });
        send_all(requests).await
    }

    /// Whether the deadline is reached.
    pub(crate) fn is_over(&self) -> bool {
        self.clock.now() >= self.deadline
    }

    /// Waits before another attempt; returns `false` if the deadline leaves no time for one.
    pub(crate) async fn wait(&self, attempt: u32) -> bool {
        let is_time = RetryPolicy::STANDARD.wait(attempt, self.deadline, self.clock).await;
        self.tally.retries.add(u64::from(is_time));
        is_time
    }

    /// Waits; returns `false` at once if the deadline comes first.
    pub(crate) async fn pause(&self, duration: Duration) -> bool {
        let is_time = self.clock.now().plus(duration) < self.deadline;
        if is_time {
            self.clock.sleep(duration).await;
        }
        is_time
    }
}

/// The keys of each request of a read.
fn parts(keys: &[ItemKey]) -> std::slice::Chunks<'_, ItemKey> {
    keys.chunks(MAX_READ_KEYS)
}

/// Sends requests, [`CONCURRENCY`] at once. The results are in the order of the requests, but none that takes long holds up others.
pub(crate) async fn send_all<F: Future>(requests: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let numbered =
        requests.into_iter().enumerate().map(|(number, request)| async move { (number, request.await) });
    let mut results: Vec<_> = iter(numbered).buffer_unordered(CONCURRENCY).collect().await;
    results.sort_unstable_by_key(|(number, _)| *number);
    results.into_iter().map(|(_, result)| result).collect()
}

/// The error of a request that was not done in time.
pub(crate) fn time_ended() -> Error {
    Error::new(ErrorKind::Unavailable, "the time of the request ended before it was done")
}

/// The error of a write that was refused, or failed.
pub(crate) fn write_error(write: &Write, error: WriteError) -> Error {
    let refusal = match error {
        WriteError::Refused(refusal) => refusal,
        WriteError::Failed(error) => return error,
    };
    match refusal {
        WriteRefusal::Conflict => Error::new(ErrorKind::Conflict, "another writer is writing the item"),
        WriteRefusal::Condition(_) => Error::new(ErrorKind::Conflict, "the item keeps changing"),
        WriteRefusal::Throttled => {
            Error::new(ErrorKind::Unavailable, "DynamoDB throttles the write").hint(THROTTLE_HINT)
        }
        WriteRefusal::Invalid(reason) => {
            Error::new(ErrorKind::Rejected, format!("DynamoDB rejected the write: {reason}"))
        }
    }
    .with("table", write.key.table.as_ref())
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::{Arc, Mutex};

    use afterwrite_model::clock::SystemClock;
    use afterwrite_model::effect::KeyAttribute;

    use super::*;
    use crate::tables::{ReadSnapshot, Tables};

    /// Tables without items, whose reads have these server times.
    struct TimedReads(Mutex<Vec<Timestamp>>);

    impl Tables for TimedReads {
        async fn read(&self, keys: &[ItemKey]) -> Result<ReadSnapshot, Error> {
            let server_time = self.0.lock().unwrap().pop().expect("a time for each read");
            Ok(ReadSnapshot { items: vec![None; keys.len()], server_time })
        }

        async fn write(&self, _: &Write) -> Result<ConsumedUnits, WriteError> {
            pending().await
        }

        async fn transact(&self, _: &[Write]) -> Result<ConsumedUnits, TransactError> {
            pending().await
        }

        async fn query_index(&self, _: &IndexQuery) -> Result<IndexPage, Error> {
            pending().await
        }
    }

    #[tokio::test]
    async fn a_read_in_parts_is_of_the_earliest_of_their_times() {
        let key = |number: usize| ItemKey {
            table: Arc::from("app"),
            partition: KeyAttribute { name: Arc::from("PK"), value: number.to_string().into() },
            sort: None,
        };
        let keys: Vec<ItemKey> = (0..2 * MAX_READ_KEYS + 1).map(key).collect();
        let times = [7, 5, 6].map(Timestamp::from_epoch_seconds);
        let (tables, tally) = (TimedReads(Mutex::new(times.to_vec())), CommitTally::default());
        let deadline = SystemClock.now().plus(Duration::from_secs(60));
        let requests = Requests::new(&tables, &SystemClock, deadline, &tally);
        let read = requests.read(&keys).await.unwrap();
        assert_eq!((read.items.len(), read.server_time), (keys.len(), Timestamp::from_epoch_seconds(5)));
    }

    #[tokio::test]
    async fn the_service_has_its_own_time() {
        let now = SystemClock.now();
        let behind = Timestamp::from_epoch_ms(now.epoch_ms() - 600_000);
        let (tables, tally) = (TimedReads(Mutex::new(vec![behind])), CommitTally::default());
        let requests = Requests::new(&tables, &SystemClock, now.plus(Duration::from_secs(60)), &tally);
        assert_eq!(requests.service_time(now), now);
        let key = KeyAttribute { name: Arc::from("PK"), value: "1".into() };
        requests.read(&[ItemKey { table: Arc::from("app"), partition: key, sort: None }]).await.unwrap();
        let behind_by = now.since(requests.service_time(now));
        assert!((599..660).contains(&behind_by.as_secs()), "{behind_by:?}");
    }
}
