//! The counters of a mapping, readable while it works.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use afterwrite_model::record::Timestamp;

/// Skipped records that are kept by name; more are only counted.
const MAX_NAMED: usize = 100;

/// The counters of a running mapping.
#[derive(Debug, Default)]
pub struct MappingProgress(Mutex<ProgressState>);

#[derive(Debug, Default)]
struct ProgressState {
    counts: MappingCounts,
    named: Vec<SkippedRecord>,
    /// The batches that are retried, by lane.
    retried: BTreeMap<String, RetriedBatch>,
    /// The shards that are read. See [`MappingProgress::reached`].
    reached: BTreeMap<String, Option<Timestamp>>,
}

/// The counters at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct MappingCounts {
    /// Records read from the stream.
    pub read: u64,
    /// Records that no filter accepts.
    pub filtered: u64,
    /// Records that the handler accepted, each counted once.
    pub accepted: u64,
    /// Invocations of the handler.
    pub batches: u64,
    /// Invocations that repeated one that had failed, as a whole or in part.
    pub retries: u64,
    /// Invocations that did not accept their whole batch: they failed as a whole or in part, their function was killed, or their response was
    /// lost.
    pub failed: u64,
    /// Records that were redelivered although they had been accepted.
    pub redelivered: u64,
    /// Records that were discarded: after too many retries, or because they were too old.
    pub skipped: u64,
    /// Objects written to the on-failure destination.
    pub on_failure_objects: u64,
    /// Discarded batches that the on-failure destination did not take. Their records are lost, as on AWS.
    pub lost_batches: u64,
    /// How often records were trimmed before they were read.
    pub gaps: u64,
}

/// A batch, or the part of it that is left, which an invocation has not accepted, and which is delivered again. The later records of its items'
/// lane wait for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetriedBatch {
    /// The sequence number of its first record: the record that the function named as failed, unless the invocation failed as a whole.
    pub first: String,
    /// Its records.
    pub records: u64,
    /// Invocations so far with any of its records.
    pub invocations: u32,
    /// Why the newest of them failed, as far as the mapping knows.
    pub reason: String,
    /// When the first of these invocations failed.
    pub since: Timestamp,
}

/// A record that was discarded.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct SkippedRecord {
    /// Its shard.
    pub shard: String,
    /// Its sequence number.
    pub sequence_number: String,
    /// Why its last delivery failed, or that it was too old.
    pub reason: String,
}

impl MappingProgress {
    /// The counters now.
    #[must_use]
    pub fn counts(&self) -> MappingCounts {
        self.lock().counts
    }

    /// The first hundred skipped records.
    #[must_use]
    pub fn skipped(&self) -> Vec<SkippedRecord> {
        self.lock().named.clone()
    }

    /// The batches that are delivered again now.
    #[must_use]
    pub fn retried(&self) -> Vec<RetriedBatch> {
        self.lock().retried.values().cloned().collect()
    }

    /// The time before which every change is done, accepted or discarded, as far as the stream showed it. Of the shards that are read, the one
    /// that is furthest behind decides. `None` until each of them was read to its end once.
    #[must_use]
    pub fn reached(&self) -> Option<Timestamp> {
        self.lock().reached.values().min().copied().flatten()
    }

    /// A shard is read from now on.
    pub(crate) fn enter(&self, shard: &str) {
        self.lock().reached.insert(shard.to_owned(), None);
    }

    /// Every change of a shard that was made before this time is done.
    pub(crate) fn reach(&self, shard: &str, time: Timestamp) {
        self.lock().reached.insert(shard.to_owned(), Some(time));
    }

    /// Every change of a closed shard is done.
    pub(crate) fn leave(&self, shard: &str) {
        self.lock().reached.remove(shard);
    }

    /// Changes the counters.
    pub(crate) fn count(&self, change: impl FnOnce(&mut MappingCounts)) {
        change(&mut self.lock().counts);
    }

    /// A lane delivers this batch again. The time of its first failure stays as long as its first record is the same.
    pub(crate) fn retry(&self, lane: &str, batch: RetriedBatch) {
        let mut state = self.lock();
        let known = state.retried.get(lane).filter(|known| known.first == batch.first);
        let since = known.map_or(batch.since, |known| known.since);
        state.retried.insert(lane.to_owned(), RetriedBatch { since, ..batch });
    }

    /// A lane delivers nothing again.
    pub(crate) fn settle(&self, lane: &str) {
        self.lock().retried.remove(lane);
    }

    pub(crate) fn add_skipped(&self, skipped: SkippedRecord) {
        let mut state = self.lock();
        state.counts.skipped += 1;
        if state.named.len() < MAX_NAMED {
            state.named.push(skipped);
        }
    }

    fn lock(&self) -> MutexGuard<'_, ProgressState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A number of records as a count.
pub(crate) fn length<T>(records: &[T]) -> u64 {
    u64::try_from(records.len()).unwrap_or(u64::MAX)
}
