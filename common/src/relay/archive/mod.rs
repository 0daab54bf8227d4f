//! The archive: every change record, kept for good as a line of JSON.
//!
//! ```text
//! lines ─┬─ up to 1,000 KiB ─▶ pack ─▶ PutRecordBatch ── some failed? ──▶ those alone, after a pause ─┐
//!        │                    (pack)        ▲                                                      │
//!        │                                  └──────────────────────────────────────────────────────┘
//!        └─ larger ──────────▶ gzip ─▶ PutObject, under the prefix that the delivery stream writes to
//! ```
//!
//! Nothing is lost: a line either is acknowledged or its record is reported, and comes again. Something may come out
//! twice, after an answer that was lost, a batch that was delivered again, or by Firehose's own doing; readers drop duplicates
//! by event id.

mod direct;
mod pack;
mod tally;

use std::future::Future;
use std::pin::pin;

use futures::future::{Either, join, select};
use futures::{StreamExt as _, stream};

pub use self::direct::object_key;
pub use self::pack::{DeliveryRecord, MAX_LINE_BYTES, pack, requests};
pub use self::tally::ArchiveTotals;
use crate::clock::Clock;
use crate::commit::RecordFailure;
use crate::record::Timestamp;
use crate::retry::RetryPolicy;
use crate::sink::{DeliveryStream, ObjectStore};
use crate::{Error, ErrorKind};

/// Objects written at once. Each may be some megabytes.
const CONCURRENT_OBJECTS: usize = 4;

/// One line for the archive.
#[derive(Clone, Copy, Debug)]
pub struct ArchiveLine<'l> {
    /// The place of its record in the batch.
    pub index: usize,
    /// The record's `eventID`; empty if it has none.
    pub event_id: &'l str,
    /// The line, newline included.
    pub text: &'l str,
}

/// What became of the lines of a batch.
#[derive(Debug, Default)]
pub struct ArchiveOutcome {
    /// The records that were not archived, in order of their places.
    pub failures: Vec<RecordFailure>,
    /// What was done.
    pub totals: ArchiveTotals,
}

/// Archives lines. It holds no state of an invocation, so that any number of them may run at once.
#[derive(Debug)]
pub struct Archiver<S, O, C> {
    stream: S,
    bucket: O,
    clock: C,
}

impl<S: DeliveryStream, O: ObjectStore, C: Clock> Archiver<S, O, C> {
    /// An archive behind `stream`, which delivers to `bucket`.
    pub fn new(stream: S, bucket: O, clock: C) -> Self {
        Self { stream, bucket, clock }
    }

    /// The delivery stream.
    #[must_use]
    pub fn stream(&self) -> &S {
        &self.stream
    }

    /// The bucket.
    #[must_use]
    pub fn bucket(&self) -> &O {
        &self.bucket
    }

    /// Archives lines, trying again what failed for the time being until `deadline`.
    pub async fn archive(&self, lines: &[ArchiveLine<'_>], deadline: Timestamp) -> ArchiveOutcome {
        let (small, large): (Vec<ArchiveLine<'_>>, Vec<ArchiveLine<'_>>) =
            lines.iter().partition(|line| line.text.len() <= MAX_LINE_BYTES);
        let (streamed, stored) =
            join(Box::pin(self.deliver(&small, deadline)), Box::pin(self.store(&large, deadline))).await;
        let mut outcome = streamed;
        outcome.failures.extend(stored.failures);
        outcome.failures.sort_by_key(|failure| failure.index);
        outcome.totals += stored.totals;
        outcome
    }

    /// Hands lines to the delivery stream.
    async fn deliver(&self, lines: &[ArchiveLine<'_>], deadline: Timestamp) -> ArchiveOutcome {
        let mut outcome = ArchiveOutcome::default();
        let mut pending = pack(lines);
        let mut attempt = 0;
        loop {
            let mut failed = Vec::new();
            for request in requests(pending) {
                failed.extend(self.send(request, deadline, &mut outcome).await);
            }
            if failed.is_empty() {
                return outcome;
            }
            attempt += 1;
            if !RetryPolicy::STANDARD.wait(attempt, deadline, &self.clock).await {
                for (pack, error) in failed {
                    outcome.fail(&pack, &error);
                }
                return outcome;
            }
            outcome.totals.retries += count(failed.len());
            pending = failed.into_iter().map(|(pack, _)| pack).collect();
        }
    }

    /// Sends one request; gives back what is worth another try, and why it failed.
    async fn send(
        &self,
        request: Vec<DeliveryRecord>,
        deadline: Timestamp,
        outcome: &mut ArchiveOutcome,
    ) -> Vec<(DeliveryRecord, Error)> {
        let data: Vec<&[u8]> = request.iter().map(|pack| pack.data.as_slice()).collect();
        let answers = match self.within(deadline, self.stream.put_batch(&data)).await {
            Ok(answers) => answers,
            Err(error) => request.iter().map(|_| Err(error.restated())).collect(),
        };
        let mut again = Vec::new();
        for (pack, answer) in request.into_iter().zip(answers) {
            match answer {
                Ok(()) => outcome.totals.deliver(&pack),
                Err(error) if error.is_retryable() => again.push((pack, error)),
                Err(error) => outcome.fail(&pack, &error),
            }
        }
        again
    }

    /// Writes lines to the bucket, an object each.
    async fn store(&self, lines: &[ArchiveLine<'_>], deadline: Timestamp) -> ArchiveOutcome {
        let store_each = stream::iter(lines).map(|line| Box::pin(self.store_one(*line, deadline)));
        store_each
            .buffer_unordered(CONCURRENT_OBJECTS)
            .fold(ArchiveOutcome::default(), |mut outcome, stored| async move {
                outcome.totals += stored.totals;
                outcome.failures.extend(stored.failures);
                outcome
            })
            .await
    }

    async fn store_one(&self, line: ArchiveLine<'_>, deadline: Timestamp) -> ArchiveOutcome {
        let mut outcome = ArchiveOutcome::default();
        let key = object_key(self.clock.now(), &line);
        let mut attempt = 0;
        loop {
            let put = async { self.bucket.put(&key, direct::gzip(line.text)?).await };
            let error = match self.within(deadline, put).await {
                Ok(()) => {
                    outcome.totals.store(&line);
                    return outcome;
                }
                Err(error) => error,
            };
            attempt += 1;
            if !error.is_retryable() || !RetryPolicy::STANDARD.wait(attempt, deadline, &self.clock).await {
                outcome.failures.push(RecordFailure { index: line.index, error });
                return outcome;
            }
            outcome.totals.retries += 1;
        }
    }

    /// What a request answers, or that it did not in time.
    async fn within<A>(
        &self,
        deadline: Timestamp,
        request: impl Future<Output = Result<A, Error>>,
    ) -> Result<A, Error> {
        let left = deadline.since(self.clock.now());
        match select(pin!(request), pin!(self.clock.sleep(left))).await {
            Either::Left((answer, _)) => answer,
            Either::Right(_) => {
                Err(Error::new(ErrorKind::Unavailable, "the archive did not answer before the time was up"))
            }
        }
    }
}

impl ArchiveOutcome {
    fn fail(&mut self, pack: &DeliveryRecord, error: &Error) {
        let failure = |index: &usize| RecordFailure { index: *index, error: error.restated() };
        self.failures.extend(pack.indexes.iter().map(failure));
    }
}

fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}
