//! Requests on a job's items, repeated while they are throttled or unavailable.

use std::future::Future;
use std::time::Duration;

use afterwrite_ledger::tables::{ReadSnapshot, Tables, TransactError, WriteError};
use afterwrite_model::clock::Clock;
use afterwrite_model::effect::{ItemKey, Write, WriteRefusal};
use afterwrite_model::record::Item;
use afterwrite_model::retry::RetryPolicy;
use afterwrite_model::{Error, ErrorKind, Result};

/// How long a request is repeated.
const REQUEST_TIME: Duration = Duration::from_secs(20);

/// Repeats a request while its error can be retried, for a time.
///
/// # Errors
/// The last error.
pub async fn repeated<O, F: Future<Output = Result<O>>>(
    clock: &impl Clock,
    time: Duration,
    mut request: impl FnMut() -> F,
) -> Result<O> {
    let deadline = clock.now().plus(time);
    let mut attempt = 0;
    loop {
        match request().await {
            Err(error) if error.is_retryable() => {
                attempt += 1;
                if !RetryPolicy::STANDARD.wait(attempt, deadline, clock).await {
                    return Err(error);
                }
            }
            result => return result,
        }
    }
}

/// Reads items of jobs.
pub(super) async fn read(tables: &impl Tables, clock: &impl Clock, keys: &[ItemKey]) -> Result<ReadSnapshot> {
    repeated(clock, REQUEST_TIME, || tables.read(keys)).await
}

/// Carries out an idempotent write; returns the stored item if the condition does not hold.
pub(super) async fn write(tables: &impl Tables, clock: &impl Clock, write: &Write) -> Result<Option<Item>> {
    let attempt = || async move {
        match tables.write(write).await {
            Ok(_) => Ok(None),
            Err(WriteError::Refused(refusal)) => refused(refusal).map(Some),
            Err(WriteError::Failed(error)) => Err(error),
        }
    };
    repeated(clock, REQUEST_TIME, attempt).await
}

/// Carries out an idempotent transaction; returns whether its conditions hold.
pub(super) async fn transact(tables: &impl Tables, clock: &impl Clock, writes: &[Write]) -> Result<bool> {
    let attempt = || async move {
        match tables.transact(writes).await {
            Ok(_) => Ok(true),
            Err(TransactError::Cancelled(refusals)) => {
                let stored = refusals.into_iter().flatten().map(refused).collect::<Result<Vec<_>>>();
                stored.map(|_| false)
            }
            Err(TransactError::Failed(error)) => Err(error),
        }
    };
    repeated(clock, REQUEST_TIME, attempt).await
}

/// The stored item if a condition does not hold; the error of any other refusal.
fn refused(refusal: WriteRefusal) -> Result<Item> {
    match refusal {
        WriteRefusal::Condition(stored) => Ok(stored.unwrap_or_default()),
        WriteRefusal::Conflict | WriteRefusal::Throttled => {
            Err(Error::new(ErrorKind::Unavailable, "DynamoDB could not take the state of a job"))
        }
        WriteRefusal::Invalid(reason) => {
            Err(Error::new(ErrorKind::Rejected, "DynamoDB rejected the state of a job")
                .with("reason", reason))
        }
    }
}
