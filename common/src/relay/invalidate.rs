//! Makes what a batch of changes has left stale go from the cache and from CloudFront.
//!
//! ```text
//! changes ─▶ projection::Stale ─┬─▶ keys ──▶ sink::Cache         sent again until gone, or the time is up
//!            each key once      └─▶ paths ─▶ sink::Distribution  within its limits; busy: waited for
//!                                                 │
//!                     failures by record ◀────────┘   of either, for exactly the records that needed it
//! ```
//!
//! Everything here can be done twice, so a record that failed simply comes again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::paths::{PathInvalidation, halves, requests};
use crate::clock::Clock;
use crate::entity::ItemIdentity;
use crate::projection::{StaleCaches, StaleKey, StalePath};
use crate::record::{Image, Timestamp};
use crate::retry::RetryPolicy;
use crate::sink::{Cache, Distribution, DistributionError};
use crate::table::Model;
use crate::{Error, ErrorKind};

/// How long an unreachable cache is tried for: longer only holds up the shard, and the records come again.
const CACHE_PATIENCE: Duration = Duration::from_secs(5);
/// How long a batch waits for CloudFront to finish earlier invalidations.
const BUSY_PATIENCE: Duration = Duration::from_secs(10);
/// How long between two looks whether it has.
const BUSY_PAUSE: Duration = Duration::from_secs(1);
/// How long one CloudFront request may take.
const REQUEST_LIMIT: Duration = Duration::from_secs(5);

/// A change of one item, decoded.
#[derive(Clone, Copy)]
pub struct InvalidationChange<'c> {
    /// The record's index in the batch.
    pub record: usize,
    /// The record's event id, which stays the same when it is delivered again.
    pub event_id: &'c str,
    /// What the item is.
    pub identity: &'c ItemIdentity<'c, 'c>,
    /// The item before the change, if there was one.
    pub old: Option<&'c Image<'c>>,
    /// The item after the change, if there is one.
    pub new: Option<&'c Image<'c>>,
}

/// What became of a batch.
#[derive(Debug, Default)]
pub struct InvalidationOutcome {
    /// What went wrong, by the record's index.
    pub failures: BTreeMap<usize, Error>,
    /// What was done.
    pub totals: InvalidationTotals,
}

/// What was done for a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InvalidationTotals {
    /// Cache keys that are gone, tombstoned, or of which the generation has grown.
    pub keys: usize,
    /// The same by rule: an index into [`Model::caches`], and how many keys.
    pub keys_by_rule: BTreeMap<usize, usize>,
    /// CloudFront paths invalidated, after coalescing.
    pub paths: usize,
    /// Commands sent to the cache.
    pub commands: u64,
    /// Requests sent to CloudFront.
    pub requests: u64,
    /// From the batch to its last cache key being gone, in milliseconds; absent where there was none.
    pub keys_gone_ms: Option<u64>,
}

/// Invalidates caches. Without a cache, or without a distribution, nothing is invalidated there.
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

    /// Makes what these changes have left stale go, by `deadline` at the latest.
    pub async fn invalidate(
        &self,
        changes: &[InvalidationChange<'_>],
        deadline: Timestamp,
    ) -> InvalidationOutcome {
        let begun = self.clock.now();
        let mut outcome = InvalidationOutcome::default();
        let mut stale = StaleCaches::default();
        for change in changes {
            if let Err(error) =
                stale.add(&self.model, change.identity, change.record, (change.old, change.new))
            {
                outcome.failures.insert(change.record, error);
            }
        }
        let events: BTreeMap<usize, &str> =
            changes.iter().map(|change| (change.record, change.event_id)).collect();
        let event_id = |record: usize| events.get(&record).copied().unwrap_or_default().to_owned();
        let (of_cache, of_distribution) =
            futures::join!(self.keys(&stale, begun, deadline), self.paths(&stale, &event_id, deadline));
        for failures in [of_cache.failures, of_distribution.failures] {
            for (record, error) in failures {
                outcome.failures.entry(record).or_insert(error);
            }
        }
        let (paths, requests) = (of_distribution.totals.paths, of_distribution.totals.requests);
        outcome.totals = InvalidationTotals { paths, requests, ..of_cache.totals };
        outcome
    }

    /// Sends the keys until all are gone, or there is no point or no time left.
    async fn keys(&self, stale: &StaleCaches, begun: Timestamp, deadline: Timestamp) -> InvalidationOutcome {
        let mut outcome = InvalidationOutcome::default();
        let Some(cache) = &self.cache else { return outcome };
        let until = deadline.min(begun.plus(CACHE_PATIENCE));
        let mut pending: Vec<StaleKey> = stale.keys().collect();
        let mut attempt = 0;
        while !pending.is_empty() {
            let now = self.clock.now();
            let invalidated = cache.invalidate(&pending, now, until.since(now)).await;
            outcome.totals.commands += invalidated.commands;
            attempt += 1;
            let pause = RetryPolicy::STANDARD.delay(attempt, &self.clock);
            let is_time = self.clock.now().plus(pause) < until;
            let mut again = Vec::new();
            for (key, result) in pending.into_iter().zip(invalidated.results) {
                match result {
                    Ok(()) => {
                        outcome.totals.keys += 1;
                        *outcome.totals.keys_by_rule.entry(key.rule).or_default() += 1;
                    }
                    Err(error) if error.is_retryable() && is_time => again.push(key),
                    Err(error) => fail(&mut outcome, key.records, &error),
                }
            }
            pending = again;
            if !pending.is_empty() {
                self.clock.sleep(pause).await;
            }
        }
        if outcome.totals.keys > 0 {
            let taken = self.clock.now().since(begun).as_millis();
            outcome.totals.keys_gone_ms = Some(u64::try_from(taken).unwrap_or(u64::MAX));
        }
        outcome
    }

    async fn paths(
        &self,
        stale: &StaleCaches,
        event_id: &impl Fn(usize) -> String,
        deadline: Timestamp,
    ) -> InvalidationOutcome {
        let mut outcome = InvalidationOutcome::default();
        let Some(distribution) = &self.distribution else { return outcome };
        let stale: Vec<StalePath> = stale.paths().collect();
        let mut waiting = requests(&stale, event_id);
        waiting.reverse();
        let patience = deadline.min(self.clock.now().plus(BUSY_PATIENCE));
        while let Some(request) = waiting.pop() {
            match self.request(distribution, &request, (patience, deadline), &mut outcome.totals).await {
                Ok(()) => outcome.totals.paths += request.paths.len(),
                Err(error) if error.kind() == ErrorKind::Rejected && request.paths.len() > 1 => {
                    waiting.extend(halves(&request, &stale, event_id));
                }
                Err(error) => fail(&mut outcome, request.records, &error),
            }
        }
        outcome
    }

    /// Sends one invalidation; while CloudFront is busy with earlier ones, waits for it.
    async fn request(
        &self,
        distribution: &D,
        request: &PathInvalidation,
        (patience, deadline): (Timestamp, Timestamp),
        totals: &mut InvalidationTotals,
    ) -> Result<(), Error> {
        loop {
            let limit = deadline.since(self.clock.now()).min(REQUEST_LIMIT);
            totals.requests += 1;
            match distribution.invalidate(&request.paths, &request.reference, limit).await {
                Ok(()) => return Ok(()),
                Err(DistributionError::Busy(_)) if self.clock.now().plus(BUSY_PAUSE) <= patience => {
                    self.clock.sleep(BUSY_PAUSE).await;
                }
                Err(DistributionError::Busy(error) | DistributionError::Failed(error)) => return Err(error),
            }
        }
    }
}

/// Fails these records; of several errors of one record, the first is told.
fn fail(outcome: &mut InvalidationOutcome, records: impl IntoIterator<Item = usize>, error: &Error) {
    for record in records {
        outcome.failures.entry(record).or_insert_with(|| error.restated());
    }
}
