//! Single requests, sent again while it can help and there is time.

use super::{InvocationContext, Ledger};
use crate::clock::Clock;
use crate::effect::{ItemKey, Write, WriteRefusal};
use crate::retry::RetryPolicy;
use crate::sink::{ReadSnapshot, Tables, WriteError};
use crate::{Error, ErrorKind, Result};

/// Single requests under way at once.
pub(super) const CONCURRENCY: usize = 16;

impl<T: Tables, C: Clock> Ledger<T, C> {
    /// Reads items, strongly consistent; again until they are read, cannot be, or there is no time left.
    pub(super) async fn read(
        &self,
        keys: &[ItemKey],
        invocation: &InvocationContext,
    ) -> Result<ReadSnapshot> {
        if keys.is_empty() {
            return Ok(ReadSnapshot { items: Vec::new(), server_time: self.clock.now() });
        }
        let mut attempt = 0;
        loop {
            self.in_time(invocation)?;
            match self.tables.read(keys).await {
                Err(error) if error.is_retryable() => {
                    attempt += 1;
                    if !self.wait(attempt, invocation).await {
                        return Err(error);
                    }
                }
                answer => return answer,
            }
        }
    }

    /// Sends a write that is idempotent by its own condition, until its fate is known or there is no time left.
    pub(super) async fn write_retrying(
        &self,
        write: &Write,
        invocation: &InvocationContext,
    ) -> Result<(), WriteError> {
        let mut attempt = 0;
        loop {
            self.in_time(invocation).map_err(WriteError::Failed)?;
            let error = match self.tables.write(write).await {
                Ok(consumed) => {
                    invocation.tally.write_units.add(consumed.write_units);
                    return Ok(());
                }
                Err(error) => error,
            };
            let again = match &error {
                WriteError::Refused(WriteRefusal::Conflict) => {
                    invocation.tally.conflicts.add(1);
                    true
                }
                WriteError::Refused(WriteRefusal::Throttled) => true,
                WriteError::Refused(WriteRefusal::Condition(_) | WriteRefusal::Invalid(_)) => false,
                WriteError::Failed(error) => error.is_retryable(),
            };
            attempt += 1;
            if !again || !self.wait(attempt, invocation).await {
                return Err(error);
            }
        }
    }

    /// No request is begun when the time is up: its answer would come too late.
    fn in_time(&self, invocation: &InvocationContext) -> Result<()> {
        if self.clock.now() < invocation.deadline {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Conflict, "the time was up before the item was done"))
    }

    /// Waits before another attempt; `false` if there is no time for one.
    pub(super) async fn wait(&self, attempt: u32, invocation: &InvocationContext) -> bool {
        let is_time = RetryPolicy::STANDARD.wait(attempt, invocation.deadline, &self.clock).await;
        invocation.tally.retries.add(u64::from(is_time));
        is_time
    }

    /// The error that a refusal comes to when nothing more can be done about it.
    pub(super) fn refused(&self, write: &Write, refusal: WriteRefusal) -> Error {
        let table = write.key.table.as_ref();
        match refusal {
            WriteRefusal::Conflict => {
                Error::new(ErrorKind::Conflict, "another writer held the item until the time was up")
            }
            WriteRefusal::Condition(_) => {
                Error::new(ErrorKind::Conflict, "the item kept changing until the time was up")
            }
            WriteRefusal::Throttled => {
                Error::new(ErrorKind::Unavailable, "DynamoDB throttled until the time was up")
                    .hint("Give the table more capacity, or its hot rollup `shards`")
            }
            WriteRefusal::Invalid(reason) => {
                Error::new(ErrorKind::Rejected, format!("DynamoDB refuses the write: {reason}"))
            }
        }
        .with("table", table)
    }
}
