//! The handlers that records are delivered to.

use std::future::Future;

use afterwrite_functions::{FailedRecord, StreamAggregator, StreamRelay};
use afterwrite_ledger::tables::Tables;
use afterwrite_model::clock::Clock;
use afterwrite_model::record::Timestamp;
use afterwrite_model::{Error, Result};
use afterwrite_services::{Cache, DeliveryStream, Distribution, EventTarget, ObjectStore, PathQueue};

use crate::jobs::{JobTotals, count, job_totals};

job_totals! {
    /// The counters of delivered records, beside those of the ledger.
    pub enum DeliveryTotal {
        LookupsCopied = "lookups_copied",
        Records = "records",
        /// Texts that are not change records.
        Rejected = "rejected",
        /// Records that were not processed.
        Failed = "failed",
        /// Records that can never be processed as they are.
        Unprocessable = "unprocessable",
        /// Records of rollups of an earlier state table, which are not counted.
        RollupsNotCounted = "rollups_not_counted",
        /// Records of changes that a restore has undone, which are left out.
        Undone = "left_out_as_undone",
        /// Records of items that no entity has.
        Unmatched = "unmatched",
        KeysInvalidated = "keys_invalidated",
        PathsInvalidated = "paths_invalidated",
        LinesArchived = "lines_archived",
        EventsPublished = "events_published",
    }
}

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
    /// How many records of rollups were left out.
    pub not_counted: u64,
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
        outcome.totals.add(DeliveryTotal::Unmatched, handled.unmatched);
        for (name, number) in handled.totals.named() {
            outcome.totals.add(name, number);
        }
        Ok(outcome)
    }
}

impl<K, D, Q, S, O, C, T> RecordTarget for StreamRelay<K, D, Q, S, O, C, T>
where
    K: Cache,
    D: Distribution,
    Q: PathQueue,
    S: DeliveryStream,
    O: ObjectStore,
    C: Clock,
    T: EventTarget,
{
    async fn deliver(&self, event: &[u8], deadline: Timestamp) -> Result<TargetOutcome> {
        let relayed = Box::pin(self.handle(event, deadline)).await?;
        let mut outcome = TargetOutcome { failed: relayed.failures, ..TargetOutcome::default() };
        if let Some(invalidated) = relayed.invalidated {
            outcome.totals.add(DeliveryTotal::KeysInvalidated, count(invalidated.keys));
            let paths = invalidated.paths + invalidated.queued_paths;
            outcome.totals.add(DeliveryTotal::PathsInvalidated, count(paths));
        }
        if let Some(archived) = relayed.archived {
            outcome.totals.add(DeliveryTotal::LinesArchived, archived.lines);
        }
        if let Some(notified) = relayed.notified {
            outcome.totals.add(DeliveryTotal::EventsPublished, count(notified.sent + notified.queued));
        }
        Ok(outcome)
    }
}

impl TargetOutcome {
    /// Whether a further delivery can process what failed.
    pub(super) fn retryable(&self) -> Option<&Error> {
        self.failed.iter().map(|failed| &failed.error).find(|error| error.is_retryable())
    }
}
