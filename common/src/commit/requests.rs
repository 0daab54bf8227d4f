//! Requests to the tables, each bounded by the invocation's deadline.

use std::future::Future;
use std::time::Duration;

use super::tally::CommitTally;
use crate::clock::{Clock, within};
use crate::effect::{ItemKey, Write, WriteRefusal};
use crate::record::{Item, Timestamp};
use crate::retry::RetryPolicy;
use crate::sink::{
    ConsumedUnits, IndexPage, IndexQuery, PartialRead, ReadItem, THROTTLE_HINT, Tables, TransactError,
    Unprocessed, WriteError, misaligned_read,
};
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
    /// Reads items once, strongly consistent. A retryable fault leaves the keys that it concerns unread; the read succeeds even if it
    /// concerns all of them.
    pub(crate) async fn read(&self, keys: &[ItemKey]) -> Result<PartialRead> {
        self.read_keys(keys, self.tables.read_some(keys)).await
    }

    async fn read_keys(
        &self,
        keys: &[ItemKey],
        read: impl Future<Output = Result<PartialRead>>,
    ) -> Result<PartialRead> {
        if keys.is_empty() {
            return Ok(PartialRead { items: Vec::new(), server_time: self.clock.now() });
        }
        match self.bounded(read).await.flatten() {
            Err(error) if error.is_retryable() => {
                let items = vec![Err(Unprocessed::from(error)); keys.len()];
                Ok(PartialRead { items, server_time: self.clock.now() })
            }
            read => read,
        }
    }

    /// Reads an item once, strongly consistent.
    pub(crate) async fn read_one(&self, key: &ItemKey) -> Result<Option<Item>> {
        let mut items = self.read(std::slice::from_ref(key)).await?.items;
        Ok(items.pop().ok_or_else(misaligned_read)??)
    }

    /// Reads the items that lookups find by their primary keys, as [`Requests::read`] does.
    pub(crate) async fn read_looked_up(&self, keys: &[ItemKey]) -> Result<Vec<ReadItem>> {
        Ok(self.read_keys(keys, self.tables.read_looked_up(keys)).await?.items)
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

    /// The error of a write whose refusal its author does not expect.
    pub(crate) fn write_error(&self, write: &Write, error: WriteError) -> Error {
        let is_conflict = matches!(error, WriteError::Refused(WriteRefusal::Conflict));
        self.tally.conflicts.add(u64::from(is_conflict));
        write_error(write, error)
    }

    /// The result of a request, unless the deadline passes first. A write that is cut off may still take effect.
    async fn bounded<F: Future>(&self, request: F) -> Result<F::Output> {
        let passed = || Error::new(ErrorKind::Unavailable, "the deadline passed before the request was done");
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
