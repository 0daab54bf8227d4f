//! Invalidates the cache keys and then the CloudFront paths that a batch of changes has made stale.
//!
//! ```text
//! changes ─▶ projection::StaleCaches ─▶ keys ──▶ Cache                retried until gone, or until the deadline
//!            each key and path once              │
//!                                                ▼ the paths of the records whose keys are gone
//!                                       paths ─┬─▶ PathQueue           the invalidator drains it
//!                                              └─▶ Distribution        without a queue: waits at most 1.5 s while it is busy
//! ```
//!
//! **Order.** CloudFront refills from the application, and the application reads the cache. A path that were invalidated before the key
//! would be filled with the old value again, and its repetition would have the same caller reference and start nothing. So a path is sent only
//! after the keys of the same record are gone. If they cannot be removed, the record fails and its paths are sent after its redelivery.
//!
//! **Delay.** Nothing is sent to CloudFront before the keys of the whole batch were sent to the cache. Without a queue a busy CloudFront
//! fails the records, which are redelivered: the caller marks those whose keys are gone ([`InvalidationStage`]), and only their paths are
//! sent again. Every request here is idempotent.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use afterwrite_model::Error;
use afterwrite_model::clock::Clock;
use afterwrite_model::entity::ItemCandidates;
use afterwrite_model::projection::{RecordsByPath, StaleCaches, StaleKey};
use afterwrite_model::record::{Image, Timestamp};
use afterwrite_model::retry::RetryPolicy;
use afterwrite_services::{Cache, Distribution, PathQueue, PathTarget};

use super::distribute::{DistributionLimits, invalidate_paths};
use super::enqueue::enqueue_paths;
use super::invalidation_outcome::{PathOutcome, RefusedPath};
use super::paths::EventIds;

/// How long an unreachable cache is retried. Longer would only delay the shard, and the records are redelivered anyway.
const CACHE_LIMIT: Duration = Duration::from_secs(5);
/// How long a batch waits for CloudFront to finish earlier invalidations, and the pause between two attempts. The cache keys of the next
/// batch wait as long.
const BUSY_LIMIT: Duration = Duration::from_millis(1_500);
const BUSY_PAUSE: Duration = Duration::from_millis(500);
/// How long all requests of a batch to CloudFront may take.
const DISTRIBUTION_LIMIT: Duration = Duration::from_secs(5);

/// The progress of a change in earlier deliveries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InvalidationStage {
    /// Nothing, as far as this process knows.
    #[default]
    KeysStale,
    /// Its cache keys are gone. Its paths were not sent.
    KeysGone,
}

/// A change of one item, decoded.
pub struct InvalidationChange<'c> {
    /// The record's index in the batch.
    pub record: usize,
    /// The record's event id, which stays the same when it is redelivered.
    pub event_id: &'c str,
    /// The entities that the item's key allows.
    pub candidates: &'c ItemCandidates<'c, 'c>,
    /// The item before the change; `None` for an INSERT.
    pub old: Option<Image<'c>>,
    /// The item after the change; `None` for a REMOVE.
    pub new: Option<&'c Image<'c>>,
    /// The progress in earlier deliveries.
    pub stage: InvalidationStage,
}

/// The outcome of a batch.
#[derive(Debug, Default)]
pub struct InvalidationOutcome {
    /// The first error of each record that failed, by the record's index.
    pub failures: BTreeMap<usize, Error>,
    /// The records whose cache keys are gone, by index: all records without a failed key. Their paths may have failed.
    pub keys_gone: BTreeSet<usize>,
    /// Paths that CloudFront refuses and would refuse again. They fail no record: they stay stale.
    pub refused: Vec<RefusedPath>,
    /// The totals of the batch.
    pub totals: InvalidationTotals,
}

/// The totals of a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InvalidationTotals {
    /// Cache keys that were removed, replaced by a tombstone, or given the next generation.
    pub keys: usize,
    /// The same by rule: an index into [`afterwrite_model::table::Model::caches`], and how many keys.
    pub keys_by_rule: BTreeMap<usize, usize>,
    /// CloudFront paths invalidated, after coalescing.
    pub paths: usize,
    /// Paths sent to the queue.
    pub queued_paths: usize,
    /// Commands sent to the cache.
    pub commands: u64,
    /// Requests sent to CloudFront.
    pub requests: u64,
    /// Requests sent to the queue.
    pub queue_requests: u64,
    /// Time from the start of the batch until its last cache key was gone, in milliseconds; `None` without keys.
    pub keys_gone_ms: Option<u64>,
}

/// Invalidates caches. Without a cache or a target of paths, that part is skipped.
#[derive(Debug)]
pub struct CacheInvalidator<K, D, Q, C> {
    cache: Option<K>,
    paths: Option<PathTarget<D, Q>>,
    clock: C,
}

impl<K: Cache, D: Distribution, Q: PathQueue, C: Clock> CacheInvalidator<K, D, Q, C> {
    /// An invalidator.
    pub fn new(cache: Option<K>, paths: Option<PathTarget<D, Q>>, clock: C) -> Self {
        Self { cache, paths, clock }
    }

    /// Invalidates what these changes have made stale, by `deadline` at the latest.
    pub async fn invalidate(
        &self,
        changes: &[InvalidationChange<'_>],
        deadline: Timestamp,
    ) -> InvalidationOutcome {
        let started = self.clock.now();
        let mut stale = StaleCaches::default();
        for change in changes {
            stale.add(change.candidates, change.record, (change.old.as_ref(), change.new));
        }
        let keys = stale_keys(&stale, changes);
        let mut outcome = self.invalidate_keys(keys, started, deadline).await;
        let records = changes.iter().map(|change| change.record);
        outcome.keys_gone = records.filter(|record| !outcome.failures.contains_key(record)).collect();
        let paths = paths_of(&stale, &outcome.keys_gone);
        if !paths.is_empty() {
            self.send_paths(&paths, changes, deadline, &mut outcome).await;
        }
        outcome
    }

    /// Sends the paths of records whose keys are gone.
    async fn send_paths(
        &self,
        paths: &RecordsByPath,
        changes: &[InvalidationChange<'_>],
        deadline: Timestamp,
        outcome: &mut InvalidationOutcome,
    ) {
        let sent = match &self.paths {
            None => return,
            Some(PathTarget::Queue(queue)) => {
                let sent = Box::pin(enqueue_paths(queue, &self.clock, paths, deadline)).await;
                outcome.totals.queued_paths = sent.paths;
                outcome.totals.queue_requests = sent.requests;
                sent
            }
            Some(PathTarget::Distribution(distribution)) => {
                let event_ids = changes.iter().map(|change| (change.record, change.event_id)).collect();
                let sent = self.send_to(distribution, paths, &event_ids, deadline).await;
                outcome.totals.paths = sent.paths;
                outcome.totals.requests = sent.requests;
                sent
            }
        };
        outcome.refused = sent.refused;
        for (record, error) in sent.failures {
            outcome.failures.entry(record).or_insert(error);
        }
    }

    async fn send_to(
        &self,
        distribution: &D,
        paths: &RecordsByPath,
        event_ids: &EventIds<'_>,
        deadline: Timestamp,
    ) -> PathOutcome {
        let now = self.clock.now();
        let end = deadline.min(now.plus(DISTRIBUTION_LIMIT));
        let limits = DistributionLimits { busy: deadline.min(now.plus(BUSY_LIMIT)), pause: BUSY_PAUSE, end };
        Box::pin(invalidate_paths(distribution, &self.clock, paths, event_ids, limits)).await
    }

    /// Sends the keys until all are gone, or retrying is pointless or too late.
    async fn invalidate_keys(
        &self,
        keys: Vec<StaleKey>,
        started: Timestamp,
        deadline: Timestamp,
    ) -> InvalidationOutcome {
        let mut outcome = InvalidationOutcome::default();
        let Some(cache) = &self.cache else { return outcome };
        let deadline = deadline.min(started.plus(CACHE_LIMIT));
        let mut pending = keys;
        let mut attempt = 0;
        while !pending.is_empty() {
            let invalidated = cache.invalidate(&pending, deadline.since(self.clock.now())).await;
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
}

/// The keys that are not gone yet, each with the records that need it.
fn stale_keys(stale: &StaleCaches, changes: &[InvalidationChange<'_>]) -> Vec<StaleKey> {
    let is_stale = |change: &&InvalidationChange<'_>| change.stage == InvalidationStage::KeysStale;
    let records: BTreeSet<usize> = changes.iter().filter(is_stale).map(|change| change.record).collect();
    let mut keys: Vec<StaleKey> = stale.keys().collect();
    keys.iter_mut().for_each(|key| key.records.retain(|record| records.contains(record)));
    keys.retain(|key| !key.records.is_empty());
    keys
}

/// The paths that any of these records needs, each with those records.
fn paths_of(stale: &StaleCaches, records: &BTreeSet<usize>) -> RecordsByPath {
    let of_path = |(path, needed_by): (&String, &BTreeSet<usize>)| {
        let needed_by: BTreeSet<usize> = needed_by.intersection(records).copied().collect();
        (!needed_by.is_empty()).then(|| (path.clone(), needed_by))
    };
    stale.paths().iter().filter_map(of_path).collect()
}

impl InvalidationOutcome {
    /// Fails these records; a record keeps its first error.
    fn fail(&mut self, records: impl IntoIterator<Item = usize>, error: &Error) {
        for record in records {
            self.failures.entry(record).or_insert_with(|| error.restated());
        }
    }
}
