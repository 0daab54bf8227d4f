//! The counters of a poller, readable while it works.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Skipped records that are kept by name; more are only counted.
const MAX_NAMED: usize = 100;

/// The counters of a running poller.
#[derive(Debug, Default)]
pub struct PollerProgress(Mutex<ProgressState>);

#[derive(Debug, Default)]
struct ProgressState {
    counts: PollerCounts,
    named: Vec<SkippedRecord>,
}

/// The counters at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct PollerCounts {
    /// Records read from the stream.
    pub read: u64,
    /// Records that the handler accepted, each counted once.
    pub accepted: u64,
    /// Invocations of the handler.
    pub batches: u64,
    /// Invocations that repeated one that had failed, as a whole or in part.
    pub retries: u64,
    /// Records that were redelivered although they had been accepted.
    pub redelivered: u64,
    /// Records that were skipped after too many failed deliveries.
    pub skipped: u64,
}

/// A record that was skipped after too many failed deliveries.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct SkippedRecord {
    /// Its shard.
    pub shard: String,
    /// Its sequence number.
    pub sequence_number: String,
    /// Why its last delivery failed.
    pub reason: String,
}

impl PollerProgress {
    /// The counters now.
    #[must_use]
    pub fn counts(&self) -> PollerCounts {
        self.lock().counts
    }

    /// The first hundred skipped records.
    #[must_use]
    pub fn skipped(&self) -> Vec<SkippedRecord> {
        self.lock().named.clone()
    }

    /// Changes the counters.
    pub(super) fn count(&self, change: impl FnOnce(&mut PollerCounts)) {
        change(&mut self.lock().counts);
    }

    pub(super) fn add_skipped(&self, skipped: SkippedRecord) {
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
pub(super) fn length<T>(records: &[T]) -> u64 {
    u64::try_from(records.len()).unwrap_or(u64::MAX)
}
