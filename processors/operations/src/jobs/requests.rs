//! Requests that are repeated while they are throttled or unavailable: requests for a job's items, and requests of plans.

use std::future::Future;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use afterwrite_ledger::tables::{ReadSnapshot, Tables, TransactError, WriteError};
use afterwrite_model::clock::Clock;
use afterwrite_model::effect::{ItemKey, Write, WriteRefusal};
use afterwrite_model::record::{Item, Timestamp};
use afterwrite_model::retry::RetryPolicy;
use afterwrite_model::{Error, ErrorKind, Result};

use super::wait::time_of_day;

/// How long a request is repeated.
const REQUEST_TIME: Duration = Duration::from_secs(20);

/// A request that has failed, and is repeated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepeatedRequest {
    /// When it failed first.
    pub since: Timestamp,
    /// Until when it is repeated.
    pub until: Timestamp,
    /// Why it failed last.
    pub failure: String,
}

impl RepeatedRequest {
    /// `repeats a request until 10:15:00Z: Scan: DynamoDB could not be reached (table: Orders)`.
    #[must_use]
    pub fn line(&self) -> String {
        format!("repeats a request until {}: {}", time_of_day(self.until), self.failure)
    }
}

/// The requests of this process that are repeated now, each with its number.
static REPEATED: Mutex<Vec<(u64, RepeatedRequest)>> = Mutex::new(Vec::new());

/// The request of this process that is repeated now and is given up first; `None` if none is repeated.
#[must_use]
pub fn repeated_request() -> Option<RepeatedRequest> {
    let first = repeated_requests().iter().min_by_key(|(_, request)| request.until).cloned();
    first.map(|(_, request)| request)
}

fn repeated_requests() -> MutexGuard<'static, Vec<(u64, RepeatedRequest)>> {
    REPEATED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Shows a request among those that are repeated, until it is dropped.
struct ShownRequest {
    number: u64,
}

impl ShownRequest {
    fn new(request: RepeatedRequest) -> Self {
        let mut shown = repeated_requests();
        let number = shown.last().map_or(0, |(number, _)| number + 1);
        shown.push((number, request));
        Self { number }
    }

    fn fail_again(&self, failure: String) {
        let mut shown = repeated_requests();
        if let Some((_, request)) = shown.iter_mut().find(|(number, _)| *number == self.number) {
            request.failure = failure;
        }
    }
}

impl Drop for ShownRequest {
    fn drop(&mut self) {
        repeated_requests().retain(|(number, _)| *number != self.number);
    }
}

/// Repeats a request while its error can be retried, for a time. Meanwhile [`repeated_request`] has it.
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
    let mut shown: Option<ShownRequest> = None;
    loop {
        match request().await {
            Err(error) if error.is_retryable() => {
                attempt += 1;
                let failure = error.without_hint().to_string();
                match &shown {
                    Some(shown) => shown.fail_again(failure),
                    None => {
                        let since = clock.now();
                        shown = Some(ShownRequest::new(RepeatedRequest { since, until: deadline, failure }));
                    }
                }
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

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use futures::executor::block_on;

    use super::*;

    /// A clock that stands still.
    struct StoppedClock;

    impl Clock for StoppedClock {
        fn now(&self) -> Timestamp {
            Timestamp::from_epoch_ms(0)
        }

        async fn sleep(&self, _duration: Duration) {}

        async fn until(&self, _time: Timestamp) {}

        fn permille(&self) -> u32 {
            0
        }
    }

    #[test]
    fn a_request_is_shown_while_it_is_repeated() {
        let (attempts, shown) = (Cell::new(0), Cell::new(None));
        let request = || {
            attempts.set(attempts.get() + 1);
            let failed = attempts.get() == 1;
            shown.set(repeated_request());
            async move {
                if failed {
                    Err(Error::new(ErrorKind::Unavailable, "no response").hint("Wait"))
                } else {
                    Ok(())
                }
            }
        };
        block_on(repeated(&StoppedClock, Duration::from_secs(60), request)).unwrap();
        let line = shown.take().map(|request| request.line());
        assert_eq!(line.as_deref(), Some("repeats a request until 00:01:00Z: no response"));
        assert_eq!((attempts.get(), repeated_request()), (2, None));
    }
}
