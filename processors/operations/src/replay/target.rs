//! The handlers that records are delivered to.

use std::future::Future;

use afterwrite_functions::{FailedRecord, StreamAggregator, StreamRelay};
use afterwrite_ledger::tables::Tables;
use afterwrite_model::clock::Clock;
use afterwrite_model::record::Timestamp;
use afterwrite_model::{Error, Result};
use afterwrite_services::{Cache, DeliveryStream, Distribution, ObjectStore, PathQueue};

use crate::jobs::JobTotals;

/// A handler of batches.
pub trait RecordTarget: Send + Sync {
    /// Delivers a Lambda event.
    ///
    /// # Errors
    /// The invocation fails as a whole: a wrong setting, an unknown table.
    fn deliver(&self, event: &[u8], deadline: Timestamp) -> impl Future<Output = Result<TargetOutcome>>;
}

/// The outcome of a delivery.
#[derive(Debug, Default)]
pub struct TargetOutcome {
    /// Counters by name.
    pub totals: JobTotals,
    /// The records that were not processed, and why.
    pub failed: Vec<FailedRecord>,
    /// The records that can never be processed as they are; their items are marked.
    pub parked: Vec<FailedRecord>,
}

/// No handler: records are delivered to the other one only.
#[derive(Clone, Copy, Debug)]
pub struct NoTarget;

impl RecordTarget for NoTarget {
    async fn deliver(&self, _event: &[u8], _deadline: Timestamp) -> Result<TargetOutcome> {
        Ok(TargetOutcome::default())
    }
}

impl<T: RecordTarget> RecordTarget for Option<T> {
    async fn deliver(&self, event: &[u8], deadline: Timestamp) -> Result<TargetOutcome> {
        match self {
            Some(target) => target.deliver(event, deadline).await,
            None => Ok(TargetOutcome::default()),
        }
    }
}

impl<T: Tables, C: Clock> RecordTarget for StreamAggregator<T, C> {
    async fn deliver(&self, event: &[u8], deadline: Timestamp) -> Result<TargetOutcome> {
        let handled = Box::pin(self.handle(event, deadline)).await?;
        let mut outcome =
            TargetOutcome { failed: handled.failures, parked: handled.parked, ..TargetOutcome::default() };
        outcome.count("unmatched", handled.unmatched);
        for (name, number) in handled.totals.named() {
            outcome.count(name, number);
        }
        Ok(outcome)
    }
}

impl<K, D, Q, S, O, C> RecordTarget for StreamRelay<K, D, Q, S, O, C>
where
    K: Cache,
    D: Distribution,
    Q: PathQueue,
    S: DeliveryStream,
    O: ObjectStore,
    C: Clock,
{
    async fn deliver(&self, event: &[u8], deadline: Timestamp) -> Result<TargetOutcome> {
        let relayed = Box::pin(self.handle(event, deadline)).await?;
        let mut outcome = TargetOutcome { failed: relayed.failures, ..TargetOutcome::default() };
        if let Some(invalidated) = relayed.invalidated {
            outcome.count_len("keys_invalidated", invalidated.keys);
            outcome.count_len("paths_invalidated", invalidated.paths + invalidated.queued_paths);
        }
        if let Some(archived) = relayed.archived {
            outcome.count("lines_archived", archived.lines);
        }
        Ok(outcome)
    }
}

impl TargetOutcome {
    /// Whether a further delivery can process what failed.
    pub(super) fn retryable(&self) -> Option<&Error> {
        self.failed.iter().map(|failed| &failed.error).find(|error| error.is_retryable())
    }

    fn count(&mut self, name: &str, number: impl TryInto<u64>) {
        let number = number.try_into().unwrap_or(u64::MAX);
        if number > 0 {
            self.totals.insert(name.to_owned(), number);
        }
    }

    fn count_len(&mut self, name: &str, number: usize) {
        self.count(name, number);
    }
}
