//! Removes what a batch of changes has made stale from the cache and from CloudFront.
//!
//! ```text
//! changes ─▶ projection::StaleCaches ─┬─▶ keys ──▶ sink::Cache         retried until gone, or until the deadline
//!            each key and path once   └─▶ paths ─▶ sink::Distribution  within its limits; waits while it is busy
//!                                                       │
//!                     failures by record ◀──────────────┘   of both, for exactly the records that needed the key or path
//! ```
//!
//! Every request here is idempotent, so a record that failed is simply redelivered.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::paths::{EventIds, PathInvalidation, invalidations};
use crate::clock::Clock;
use crate::entity::ItemIdentity;
use crate::projection::{StaleCaches, StaleKey};
use crate::record::{Image, Timestamp};
use crate::retry::RetryPolicy;
use crate::sink::{Cache, Distribution, DistributionError};
use crate::table::Model;
use crate::{Error, ErrorKind};

/// How long an unreachable cache is retried. Longer would only delay the shard, and the records are redelivered anyway.
const CACHE_LIMIT: Duration = Duration::from_secs(5);
/// How long a batch waits for CloudFront to finish earlier invalidations, and the pause between two attempts.
const BUSY_LIMIT: Duration = Duration::from_secs(10);
const BUSY_PAUSE: Duration = Duration::from_secs(1);
/// How long one CloudFront request may take.
const REQUEST_LIMIT: Duration = Duration::from_secs(5);

/// A change of one item, decoded.
pub struct InvalidationChange<'c> {
    /// The record's index in the batch.
    pub record: usize,
    /// The record's event id, which stays the same when it is redelivered.
    pub event_id: &'c str,
    /// The item's entity and key, according to the model.
    pub identity: &'c ItemIdentity<'c, 'c>,
    /// The item before the change; `None` for an INSERT.
    pub old: Option<Image<'c>>,
    /// The item after the change; `None` for a REMOVE.
    pub new: Option<&'c Image<'c>>,
}

/// The outcome of a batch.
#[derive(Debug, Default)]
pub struct InvalidationOutcome {
    /// The first error of each record that failed, by the record's index.
    pub failures: BTreeMap<usize, Error>,
    /// The totals of the batch.
    pub totals: InvalidationTotals,
}

/// The totals of a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InvalidationTotals {
    /// Cache keys that were removed, replaced by a tombstone, or given the next generation.
    pub keys: usize,
    /// The same by rule: an index into [`Model::caches`], and how many keys.
    pub keys_by_rule: BTreeMap<usize, usize>,
    /// CloudFront paths invalidated, after coalescing.
    pub paths: usize,
    /// Commands sent to the cache.
    pub commands: u64,
    /// Requests sent to CloudFront.
    pub requests: u64,
    /// Time from the start of the batch until its last cache key was gone, in milliseconds; `None` without keys.
    pub keys_gone_ms: Option<u64>,
}

/// Invalidates caches. Without a cache or a distribution, that part is skipped.
#[derive(Debug)]
pub struct CacheInvalidator<K, D, C> {
    model: Arc<Model>,
    cache: Option<K>,
    distribution: Option<D>,
    clock: C,
}

impl<K: Cache, D: Distribution, C: Clock> CacheInvalidator<K, D, C> {
    /// An invalidator for a model's caches.
    pub fn new(model: Arc<Model>, cache: Option<K>, distribution: Option<D>, clock: C) -> Self {
        Self { model, cache, distribution, clock }
    }

    /// Invalidates what these changes have made stale, by `deadline` at the latest.
    pub async fn invalidate(
        &self,
        changes: &[InvalidationChange<'_>],
        deadline: Timestamp,
    ) -> InvalidationOutcome {
        let started = self.clock.now();
        let (mut stale, mut failures) = (StaleCaches::default(), BTreeMap::new());
        for change in changes {
            let images = (change.old.as_ref(), change.new);
            if let Err(error) = stale.add(&self.model, change.identity, change.record, images) {
                failures.insert(change.record, error);
            }
        }
        let event_ids: EventIds<'_> = changes.iter().map(|change| (change.record, change.event_id)).collect();
        let (of_cache, of_distribution) = futures::join!(
            self.invalidate_keys(&stale, started, deadline),
            self.invalidate_paths(&stale, &event_ids, deadline)
        );
        for (record, error) in of_cache.failures.into_iter().chain(of_distribution.failures) {
            failures.entry(record).or_insert(error);
        }
        let InvalidationTotals { paths, requests, .. } = of_distribution.totals;
        InvalidationOutcome { failures, totals: InvalidationTotals { paths, requests, ..of_cache.totals } }
    }

    /// Sends the keys until all are gone, or retrying is pointless or too late.
    async fn invalidate_keys(
        &self,
        stale: &StaleCaches,
        started: Timestamp,
        deadline: Timestamp,
    ) -> InvalidationOutcome {
        let mut outcome = InvalidationOutcome::default();
        let Some(cache) = &self.cache else { return outcome };
        let deadline = deadline.min(started.plus(CACHE_LIMIT));
        let mut pending: Vec<StaleKey> = stale.keys().collect();
        let mut attempt = 0;
        while !pending.is_empty() {
            let now = self.clock.now();
            let invalidated = cache.invalidate(&pending, now, deadline.since(now)).await;
            outcome.totals.commands += invalidated.commands;
            let mut retryable = Vec::new();
            for (key, result) in pending.into_iter().zip(invalidated.results) {
                match result {
                    Ok(()) => {
                        outcome.totals.keys += 1;
                        *outcome.totals.keys_by_rule.entry(key.rule).or_default() += 1;
                    }
                    Err(error) if error.is_retryable() => retryable.push((key, error)),
                    Err(error) => outcome.fail(key.records, &error),
                }
            }
            attempt += 1;
            if !retryable.is_empty() && !RetryPolicy::STANDARD.wait(attempt, deadline, &self.clock).await {
                retryable.drain(..).for_each(|(key, error)| outcome.fail(key.records, &error));
            }
            pending = retryable.into_iter().map(|(key, _)| key).collect();
        }
        if outcome.totals.keys > 0 {
            let elapsed = self.clock.now().since(started).as_millis();
            outcome.totals.keys_gone_ms = Some(u64::try_from(elapsed).unwrap_or(u64::MAX));
        }
        outcome
    }

    /// Sends the paths. A request that is rejected is split: one bad path must not stop the others.
    async fn invalidate_paths(
        &self,
        stale: &StaleCaches,
        event_ids: &EventIds<'_>,
        deadline: Timestamp,
    ) -> InvalidationOutcome {
        let mut outcome = InvalidationOutcome::default();
        let Some(distribution) = &self.distribution else { return outcome };
        let mut pending = invalidations(stale.paths(), event_ids);
        pending.reverse();
        let busy_deadline = deadline.min(self.clock.now().plus(BUSY_LIMIT));
        while let Some(request) = pending.pop() {
            match self.send(distribution, &request, busy_deadline, deadline, &mut outcome.totals).await {
                Ok(()) => outcome.totals.paths += request.paths.len(),
                Err(error) if error.kind() == ErrorKind::Rejected && request.paths.len() > 1 => {
                    pending.extend(request.halves(stale.paths(), event_ids));
                }
                Err(error) => outcome.fail(request.records, &error),
            }
        }
        outcome
    }

    /// Sends one invalidation; waits until `busy_deadline` while CloudFront is busy with earlier ones.
    async fn send(
        &self,
        distribution: &D,
        request: &PathInvalidation,
        busy_deadline: Timestamp,
        deadline: Timestamp,
        totals: &mut InvalidationTotals,
    ) -> Result<(), Error> {
        loop {
            let limit = deadline.since(self.clock.now()).min(REQUEST_LIMIT);
            totals.requests += 1;
            match distribution.invalidate(&request.paths, &request.reference, limit).await {
                Ok(()) => return Ok(()),
                Err(DistributionError::Busy(_)) if self.clock.now().plus(BUSY_PAUSE) <= busy_deadline => {
                    self.clock.sleep(BUSY_PAUSE).await;
                }
                Err(DistributionError::Busy(error) | DistributionError::Failed(error)) => return Err(error),
            }
        }
    }
}

impl InvalidationOutcome {
    /// Fails these records; a record keeps its first error.
    fn fail(&mut self, records: impl IntoIterator<Item = usize>, error: &Error) {
        for record in records {
            self.failures.entry(record).or_insert_with(|| error.restated());
        }
    }
}
