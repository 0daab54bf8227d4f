//! Single requests, retried until they succeed, cannot succeed, or the deadline is reached.

use super::{InvocationContext, Ledger};
use crate::clock::Clock;
use crate::effect::{ItemKey, Write, WriteRefusal};
use crate::retry::RetryPolicy;
use crate::sink::{ReadSnapshot, Tables, WriteError};
use crate::{Error, ErrorKind, Result};

/// Concurrent single requests.
pub(super) const CONCURRENCY: usize = 16;

impl<T: Tables, C: Clock> Ledger<T, C> {
    /// Reads items, strongly consistent.
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
            self.check_deadline(invocation)?;
            match self.tables.read(keys).await {
                Err(error) if error.is_retryable() => {
                    attempt += 1;
                    if !self.wait(attempt, invocation).await {
                        return Err(error);
                    }
                }
                result => return result,
            }
        }
    }

    /// Sends a write that its own condition makes idempotent, until its result is known or the deadline is reached.
    pub(super) async fn write_retrying(
        &self,
        write: &Write,
        invocation: &InvocationContext,
    ) -> Result<(), WriteError> {
        let mut attempt = 0;
        loop {
            self.check_deadline(invocation).map_err(WriteError::Failed)?;
            let error = match self.tables.write(write).await {
                Ok(consumed) => {
                    invocation.tally.write_units.add(consumed.write_units);
                    return Ok(());
                }
                Err(error) => error,
            };
            let can_retry = match &error {
                WriteError::Refused(WriteRefusal::Conflict) => {
                    invocation.tally.conflicts.add(1);
                    true
                }
                WriteError::Refused(WriteRefusal::Throttled) => true,
                WriteError::Refused(WriteRefusal::Condition(_) | WriteRefusal::Invalid(_)) => false,
                WriteError::Failed(error) => error.is_retryable(),
            };
            attempt += 1;
            if !can_retry || !self.wait(attempt, invocation).await {
                return Err(error);
            }
        }
    }

    /// Fails after the deadline: the response of a request that starts now would come too late.
    fn check_deadline(&self, invocation: &InvocationContext) -> Result<()> {
        if self.clock.now() < invocation.deadline {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Conflict, "the deadline passed before the item was done"))
    }

    /// Waits before another attempt; returns `false` if the deadline leaves no time for one.
    pub(super) async fn wait(&self, attempt: u32, invocation: &InvocationContext) -> bool {
        let is_time = RetryPolicy::STANDARD.wait(attempt, invocation.deadline, &self.clock).await;
        invocation.tally.retries.add(u64::from(is_time));
        is_time
    }

    /// The error of a write that is not retried any more.
    pub(super) fn write_error(&self, write: &Write, error: WriteError) -> Error {
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
}
