//! Drains the queue of stale paths: the messages of a batching window become few invalidations.
//!
//! ```text
//! messages of all shards ─▶ each path once ─▶ paths::invalidations ─▶ CloudFront   waits while it is busy
//!                                                                        │
//!            the messages that need a path that was not invalidated ◀────┘   stay in the queue and reappear
//! ```
//!
//! The relay sends a message only after the cache keys of its records are gone, so CloudFront refills from a fresh cache.
//!
//! The caller reference follows from the paths and the ids of their messages. If the response is lost and the same messages are delivered
//! again, CloudFront recognises the invalidation and starts nothing. A redelivered record is a new message with a new id: its paths are
//! invalidated again.

use std::collections::BTreeMap;
use std::time::Duration;

use afterwrite_model::Error;
use afterwrite_model::clock::Clock;
use afterwrite_model::projection::RecordsByPath;
use afterwrite_model::record::Timestamp;
use afterwrite_services::Distribution;

use super::distribute::{DistributionLimits, invalidate_paths};
use super::invalidation_outcome::RefusedPath;
use super::paths::EventIds;

/// The time that is left for the last request when a busy distribution is given up.
const LAST_REQUEST: Duration = Duration::from_secs(5);
/// The pause before a request to a busy distribution is repeated: an invalidation takes seconds to minutes.
const BUSY_PAUSE: Duration = Duration::from_secs(2);

/// A message of the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuedPaths<'m> {
    /// The id that the queue gave it, the same in every delivery.
    pub message_id: &'m str,
    /// Its paths.
    pub paths: Vec<String>,
}

/// The outcome of a batch of messages.
#[derive(Debug, Default)]
pub struct DrainOutcome {
    /// The messages that must be delivered again, by index, and why.
    pub failures: BTreeMap<usize, Error>,
    /// Paths that CloudFront refuses. Their messages are not delivered again: the paths would be refused again.
    pub refused: Vec<RefusedPath>,
    /// Paths in all messages.
    pub received_paths: usize,
    /// Paths that were invalidated: each once, and coalesced.
    pub paths: usize,
    /// Requests sent to CloudFront.
    pub requests: u64,
}

/// Invalidates the paths of messages. It keeps no state. Only one may run at a time for a distribution: a second one would find the distribution busy.
#[derive(Debug)]
pub struct PathInvalidator<D, C> {
    distribution: D,
    clock: C,
}

impl<D: Distribution, C: Clock> PathInvalidator<D, C> {
    /// An invalidator for a distribution.
    pub fn new(distribution: D, clock: C) -> Self {
        Self { distribution, clock }
    }

    /// Invalidates the paths of these messages, by `deadline` at the latest.
    pub async fn invalidate(&self, messages: &[QueuedPaths<'_>], deadline: Timestamp) -> DrainOutcome {
        let mut stale = RecordsByPath::new();
        for (index, message) in messages.iter().enumerate() {
            for path in &message.paths {
                stale.entry(path.clone()).or_default().insert(index);
            }
        }
        let message_ids: EventIds<'_> =
            messages.iter().map(|message| message.message_id).enumerate().collect();
        let busy = deadline.minus(LAST_REQUEST);
        let limits = DistributionLimits { busy, pause: BUSY_PAUSE, end: deadline };
        let outcome = invalidate_paths(&self.distribution, &self.clock, &stale, &message_ids, limits).await;
        DrainOutcome {
            failures: outcome.failures,
            refused: outcome.refused,
            received_paths: messages.iter().map(|message| message.paths.len()).sum(),
            paths: outcome.paths,
            requests: outcome.requests,
        }
    }
}
