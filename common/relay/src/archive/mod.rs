//! The archive: every change record, kept permanently as a line of JSON.
//!
//! ```text
//! lines ─┬─ up to 1,000 KiB ─▶ pack ─▶ PutRecordBatch ─── failed records alone, after a delay ──┐
//!        │                              ▲                                                       │
//!        │                              └───────────────────────────────────────────────────────┘
//!        └─ larger ──────────▶ large_line: gzip ─▶ PutObject, under the prefix of the delivery stream
//! ```
//!
//! No line is lost: each is acknowledged, or its record is reported and redelivered. A line may be archived twice: after a lost response,
//! after a redelivered batch, or by Firehose itself. Readers drop duplicates by event id.

mod large_line;
mod pack;
mod totals;

use std::pin::pin;

use afterwrite_model::clock::Clock;
use afterwrite_model::record::{RecordFailure, Timestamp};
use afterwrite_model::retry::RetryPolicy;
use afterwrite_model::{Error, ErrorKind};
use afterwrite_services::{DeliveryStream, ObjectStore};
use futures::future::{Either, join, select};
use futures::{StreamExt as _, stream};

pub use self::pack::MAX_LINE_BYTES;
use self::pack::{DeliveryRecord, pack_lines, split_requests};
pub use self::totals::ArchiveTotals;

/// Objects written concurrently. Each may have some megabytes.
const CONCURRENT_OBJECTS: usize = 4;

/// A line for the archive.
#[derive(Clone, Copy, Debug)]
pub struct ArchiveLine<'l> {
    /// The index of its record in the batch.
    pub index: usize,
    /// The record's `eventID`; empty if it has none.
    pub event_id: &'l str,
    /// The line, newline included.
    pub text: &'l str,
}

/// The outcome of a batch.
#[derive(Debug, Default)]
pub struct ArchiveOutcome {
    /// The records that were not archived, by index.
    pub failures: Vec<RecordFailure>,
    /// The totals of the batch.
    pub totals: ArchiveTotals,
}

/// Archives changes. It keeps no state, so invocations may share it.
#[derive(Debug)]
pub struct ChangeArchiver<S, O, C> {
    stream: S,
    bucket: O,
    clock: C,
}

impl<S: DeliveryStream, O: ObjectStore, C: Clock> ChangeArchiver<S, O, C> {
    /// An archiver for `stream`, which delivers to `bucket`.
    pub fn new(stream: S, bucket: O, clock: C) -> Self {
        Self { stream, bucket, clock }
    }

    /// Archives lines; retries until `deadline`.
    pub async fn archive(&self, lines: &[ArchiveLine<'_>], deadline: Timestamp) -> ArchiveOutcome {
        let (small, large): (Vec<_>, Vec<_>) =
            lines.iter().partition(|line| line.text.len() <= MAX_LINE_BYTES);
        let delivered = Box::pin(self.deliver(pack_lines(&small), deadline));
        let (mut outcome, stored) = join(delivered, Box::pin(self.store_all(&large, deadline))).await;
        outcome.add(stored);
        outcome.failures.sort_by_key(|failure| failure.index);
        outcome
    }

    /// Sends records to the delivery stream until each is acknowledged, or retrying is pointless or too late.
    async fn deliver(&self, records: Vec<DeliveryRecord>, deadline: Timestamp) -> ArchiveOutcome {
        let mut outcome = ArchiveOutcome::default();
        let mut pending = records;
        for attempt in 1.. {
            let mut retryable = Vec::new();
            for request in split_requests(pending) {
                retryable.extend(self.send(request, deadline, &mut outcome).await);
            }
            if retryable.is_empty() {
                break;
            }
            if !RetryPolicy::STANDARD.wait(attempt, deadline, &self.clock).await {
                retryable.iter().for_each(|(record, error)| outcome.fail(record, error));
                break;
            }
            outcome.totals.retries += count(retryable.len());
            pending = retryable.into_iter().map(|(record, _)| record).collect();
        }
        outcome
    }

    /// Sends one request. Returns the records that can be retried, with their errors.
    async fn send(
        &self,
        request: Vec<DeliveryRecord>,
        deadline: Timestamp,
        outcome: &mut ArchiveOutcome,
    ) -> Vec<(DeliveryRecord, Error)> {
        let data: Vec<&[u8]> = request.iter().map(|record| record.data.as_slice()).collect();
        let results = match self.within(deadline, self.stream.put_batch(&data)).await {
            Ok(results) => results,
            Err(error) => request.iter().map(|_| Err(error.restated())).collect(),
        };
        let mut retryable = Vec::new();
        for (record, result) in request.into_iter().zip(results) {
            match result {
                Ok(()) => outcome.totals.add_record(&record),
                Err(error) if error.is_retryable() => retryable.push((record, error)),
                Err(error) => outcome.fail(&record, &error),
            }
        }
        retryable
    }

    /// Writes lines to the bucket, an object each.
    async fn store_all(&self, lines: &[ArchiveLine<'_>], deadline: Timestamp) -> ArchiveOutcome {
        let stored = stream::iter(lines).map(|line| Box::pin(self.store(line, deadline)));
        let mut stored = stored.buffer_unordered(CONCURRENT_OBJECTS);
        let mut outcome = ArchiveOutcome::default();
        while let Some(one) = stored.next().await {
            outcome.add(one);
        }
        outcome
    }

    async fn store(&self, line: &ArchiveLine<'_>, deadline: Timestamp) -> ArchiveOutcome {
        let mut outcome = ArchiveOutcome::default();
        let key = large_line::object_key(self.clock.now(), line);
        for attempt in 1.. {
            let put = async { self.bucket.put(&key, large_line::gzip(line.text)?).await };
            let Err(error) = self.within(deadline, put).await else {
                outcome.totals.add_object(line);
                break;
            };
            if !error.is_retryable() || !RetryPolicy::STANDARD.wait(attempt, deadline, &self.clock).await {
                outcome.failures.push(RecordFailure { index: line.index, error });
                break;
            }
            outcome.totals.retries += 1;
        }
        outcome
    }

    /// The result of a request, or an error if it has not responded by `deadline`.
    async fn within<A>(
        &self,
        deadline: Timestamp,
        request: impl Future<Output = Result<A, Error>>,
    ) -> Result<A, Error> {
        let left = deadline.since(self.clock.now());
        match select(pin!(request), pin!(self.clock.sleep(left))).await {
            Either::Left((result, _)) => result,
            Either::Right(_) => {
                Err(Error::new(ErrorKind::Unavailable, "the archive did not respond before the deadline"))
            }
        }
    }
}

impl ArchiveOutcome {
    fn fail(&mut self, record: &DeliveryRecord, error: &Error) {
        let failures =
            record.indexes.iter().map(|index| RecordFailure { index: *index, error: error.restated() });
        self.failures.extend(failures);
    }

    fn add(&mut self, other: Self) {
        self.failures.extend(other.failures);
        self.totals += other.totals;
    }
}

fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}
