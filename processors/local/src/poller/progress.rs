//! The counters of a poller, readable while it works.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Skipped records that are kept by name; more are only counted.
const MAX_NAMED: usize = 100;

/// The counters of a running poller.
#[derive(Debug, Default)]
pub struct PollerProgress {
    read: AtomicU64,
    accepted: AtomicU64,
    batches: AtomicU64,
    retries: AtomicU64,
    redelivered: AtomicU64,
    skipped: AtomicU64,
    named: Mutex<Vec<SkippedRecord>>,
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
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        PollerCounts {
            read: of(&self.read),
            accepted: of(&self.accepted),
            batches: of(&self.batches),
            retries: of(&self.retries),
            redelivered: of(&self.redelivered),
            skipped: of(&self.skipped),
        }
    }

    /// The first hundred skipped records.
    #[must_use]
    pub fn skipped(&self) -> Vec<SkippedRecord> {
        self.named.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn add_read(&self, records: usize) {
        add(&self.read, records);
    }

    pub(super) fn add_accepted(&self, records: usize) {
        add(&self.accepted, records);
    }

    pub(super) fn add_invocation(&self, is_retry: bool) {
        add(&self.batches, 1);
        add(&self.retries, usize::from(is_retry));
    }

    pub(super) fn add_redelivered(&self, records: usize) {
        add(&self.redelivered, records);
    }

    pub(super) fn add_skipped(&self, skipped: SkippedRecord) {
        add(&self.skipped, 1);
        let mut named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        if named.len() < MAX_NAMED {
            named.push(skipped);
        }
    }
}

fn add(counter: &AtomicU64, more: usize) {
    counter.fetch_add(u64::try_from(more).unwrap_or(u64::MAX), Ordering::Relaxed);
}
