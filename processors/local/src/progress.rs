//! What a poller has done so far, to be read while it works.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// How many skipped records are named; more are only counted.
const NAMED: usize = 100;

/// Counters of a poller at work.
#[derive(Debug, Default)]
pub struct Progress {
    read: AtomicU64,
    accepted: AtomicU64,
    batches: AtomicU64,
    retries: AtomicU64,
    redelivered: AtomicU64,
    skipped: AtomicU64,
    named: Mutex<Vec<Skipped>>,
}

/// The counters at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counts {
    /// Records read from the stream.
    pub read: u64,
    /// Records that the handler accepted, each counted once.
    pub accepted: u64,
    /// Invocations of the handler.
    pub batches: u64,
    /// Invocations that repeated one that had failed, wholly or in part.
    pub retries: u64,
    /// Records that were delivered again although they had been accepted.
    pub redelivered: u64,
    /// Records given up.
    pub skipped: u64,
}

/// A record that was given up.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Skipped {
    /// Its shard.
    pub shard: String,
    /// Its sequence number.
    pub sequence_number: String,
    /// Why, as the last delivery said.
    pub reason: String,
}

impl Progress {
    /// The counters now.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            read: of(&self.read),
            accepted: of(&self.accepted),
            batches: of(&self.batches),
            retries: of(&self.retries),
            redelivered: of(&self.redelivered),
            skipped: of(&self.skipped),
        }
    }

    /// The first hundred records that were given up.
    #[must_use]
    pub fn skipped(&self) -> Vec<Skipped> {
        self.named.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn read(&self, records: usize) {
        add(&self.read, records);
    }

    pub(super) fn accepted(&self, records: usize) {
        add(&self.accepted, records);
    }

    pub(super) fn invoked(&self, is_retry: bool) {
        add(&self.batches, 1);
        add(&self.retries, usize::from(is_retry));
    }

    pub(super) fn redelivered(&self, records: usize) {
        add(&self.redelivered, records);
    }

    pub(super) fn skip(&self, skipped: Skipped) {
        add(&self.skipped, 1);
        let mut named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        if named.len() < NAMED {
            named.push(skipped);
        }
    }
}

fn add(counter: &AtomicU64, more: usize) {
    counter.fetch_add(u64::try_from(more).unwrap_or(u64::MAX), Ordering::Relaxed);
}
