//! Requests to the tables, each bounded by the invocation's deadline.

use std::time::Duration;

use super::tally::CommitTally;
use crate::clock::{Clock, within};
use crate::effect::{ItemKey, Write, WriteRefusal};
use crate::record::{Item, Timestamp};
use crate::retry::RetryPolicy;
use crate::sink::{ConsumedUnits, IndexPage, IndexQuery, ReadSnapshot, Tables, TransactError, WriteError};
use crate::{Error, ErrorKind, Result};

/// Concurrent requests of one kind: transactions, or single writes, or writes of mirrors.
pub(crate) const CONCURRENCY: usize = 16;

/// Sends the requests of one invocation, and counts them.
#[derive(Debug)]
pub(crate) struct Requests<'l, T, C> {
    pub(crate) tables: &'l T,
    pub(crate) clock: &'l C,
    /// No request is started after this time, and none is waited for.
    pub(crate) deadline: Timestamp,
    pub(crate) tally: CommitTally,
}

impl<T: Tables, C: Clock> Requests<'_, T, C> {
    /// Reads items, strongly consistent, until it succeeds or the deadline is reached.
    pub(crate) async fn read(&self, keys: &[ItemKey]) -> Result<ReadSnapshot> {
        if keys.is_empty() {
            return Ok(ReadSnapshot { items: Vec::new(), server_time: self.clock.now() });
        }
        let mut attempt = 0;
        loop {
            match self.bounded(self.tables.read(keys)).await.and_then(|read| read) {
                Err(error) if error.is_retryable() => {
                    attempt += 1;
                    if !self.wait(attempt).await {
                        return Err(error);
                    }
                }
                result => return result,
            }
        }
    }

    /// Reads the items that lookups find by their primary keys, once.
    pub(crate) async fn read_looked_up(&self, keys: &[ItemKey]) -> Result<Vec<Option<Item>>> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        Ok(self.bounded(self.tables.read_looked_up(keys)).await??.items)
    }

    /// Queries an index once.
    pub(crate) async fn query_index(&self, query: &IndexQuery) -> Result<IndexPage> {
        self.bounded(self.tables.query_index(query)).await?
    }

    /// Sends a transaction once.
    pub(crate) async fn transact(&self, writes: &[Write]) -> Result<(), TransactError> {
        let result = self.bounded(self.tables.transact(writes)).await;
        self.count_units(result.map_err(TransactError::Failed)??);
        Ok(())
    }

    /// Sends a write once.
    pub(crate) async fn write(&self, write: &Write) -> Result<(), WriteError> {
        let result = self.bounded(self.tables.write(write)).await;
        self.count_units(result.map_err(WriteError::Failed)??);
        Ok(())
    }

    fn count_units(&self, consumed: ConsumedUnits) {
        self.tally.write_units.add(consumed.write_units);
    }

    /// Sends a write that its own condition makes idempotent, until its result is known or the deadline is reached.
    pub(crate) async fn write_retrying(&self, write: &Write) -> Result<(), WriteError> {
        let mut attempt = 0;
        loop {
            let Err(error) = self.write(write).await else { return Ok(()) };
            let can_retry = match &error {
                WriteError::Refused(WriteRefusal::Conflict) => {
                    self.tally.conflicts.add(1);
                    true
                }
                WriteError::Refused(WriteRefusal::Throttled) => true,
                WriteError::Refused(WriteRefusal::Condition(_) | WriteRefusal::Invalid(_)) => false,
                WriteError::Failed(error) => error.is_retryable(),
            };
            attempt += 1;
            if !can_retry || !self.wait(attempt).await {
                return Err(error);
            }
        }
    }

    /// The result of a request, unless the deadline passes first. A write that is cut off may still take effect.
    async fn bounded<F: Future>(&self, request: F) -> Result<F::Output> {
        let passed = || Error::new(ErrorKind::Unavailable, "the deadline passed before the item was done");
        within(self.clock, self.deadline, request).await.ok_or_else(passed)
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

/// The error of a write that is not retried any more.
pub(crate) fn write_error(write: &Write, error: WriteError) -> Error {
    let refusal = match error {
        WriteError::Refused(refusal) => refusal,
        WriteError::Failed(error) => return error,
    };
    match refusal {
        WriteRefusal::Conflict => {
            Error::new(ErrorKind::Conflict, "another writer was writing the item until the deadline")
        }
        WriteRefusal::Condition(_) => {
            Error::new(ErrorKind::Conflict, "the item kept changing until the deadline")
        }
        WriteRefusal::Throttled => {
            Error::new(ErrorKind::Unavailable, "DynamoDB throttled the write until the deadline")
                .hint("Give the table more capacity, or its hot rollup `shards`")
        }
        WriteRefusal::Invalid(reason) => {
            Error::new(ErrorKind::Rejected, format!("DynamoDB rejected the write: {reason}"))
        }
    }
    .with("table", write.key.table.as_ref())
}
