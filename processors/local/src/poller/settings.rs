//! The settings of a poller: the function, and the settings of its event source mapping.

use std::future::Future;
use std::time::Duration;

use afterwrite::Result;

/// The pause before the second delivery; it doubles with each, up to [`MappingSettings::max_backoff`].
const FIRST_BACKOFF: Duration = Duration::from_millis(50);

/// A Lambda function: an event's bytes and the remaining time, to the response's JSON.
pub trait EventHandler {
    /// Handles one event.
    ///
    /// # Errors
    /// The invocation failed as a whole.
    fn handle(&self, event: Vec<u8>, remaining: Duration) -> impl Future<Output = Result<Vec<u8>>>;
}

impl<F, Handling> EventHandler for F
where
    F: Fn(Vec<u8>, Duration) -> Handling,
    Handling: Future<Output = Result<Vec<u8>>>,
{
    fn handle(&self, event: Vec<u8>, remaining: Duration) -> impl Future<Output = Result<Vec<u8>>> {
        self(event, remaining)
    }
}

/// How a stream is polled and its records are delivered.
#[derive(Clone, Debug)]
pub struct MappingSettings {
    /// The maximum number of records in a batch.
    pub batch_size: usize,
    /// How long a batch that is not full waits for more records.
    pub batch_window: Duration,
    /// Deliveries of a batch without progress before the failing record is skipped.
    pub max_attempts: u32,
    /// The longest pause between two deliveries.
    pub max_backoff: Duration,
    /// Deliberate redelivery.
    pub faults: RedeliveryFaults,
}

impl Default for MappingSettings {
    /// As a new event source mapping has them, but with bounded attempts and faster polling.
    fn default() -> Self {
        Self {
            batch_size: 100,
            batch_window: Duration::ZERO,
            max_attempts: 8,
            max_backoff: Duration::from_secs(5),
            faults: RedeliveryFaults::default(),
        }
    }
}

impl MappingSettings {
    /// The pause after this number of failed attempts.
    pub(super) fn pause_after(&self, attempts: u32) -> Duration {
        let factor = 2_u32.saturating_pow(attempts.saturating_sub(1));
        FIRST_BACKOFF.saturating_mul(factor).min(self.max_backoff)
    }
}

/// Redelivery on purpose, for the demo and for tests: Lambda may do the same at any time.
#[derive(Clone, Copy, Debug, Default)]
pub struct RedeliveryFaults {
    /// Of a thousand accepted batches, how many are delivered once more, as a whole or in part.
    pub redeliver_per_mille: u32,
    /// The random seed of that choice.
    pub seed: u64,
}
