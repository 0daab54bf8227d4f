//! Time and randomness, injected so that every decision of the ledger is reproducible.

use std::future::Future;
use std::time::Duration;

use crate::record::Timestamp;

/// A source of time and randomness.
pub trait Clock: Send + Sync {
    /// The current time.
    fn now(&self) -> Timestamp;
    /// Waits.
    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send;
    /// A random number from 0 to 999, for jitter.
    fn permille(&self) -> u32;
}

/// The pause before attempt number `attempt` (the first retry is 1): exponential from 25 ms up to 2 s, with full jitter.
#[must_use]
pub fn backoff(clock: &impl Clock, attempt: u32) -> Duration {
    const FIRST: Duration = Duration::from_millis(25);
    const LONGEST: Duration = Duration::from_secs(2);
    let ceiling = FIRST.saturating_mul(1 << attempt.saturating_sub(1).min(10)).min(LONGEST);
    ceiling * (1 + clock.permille()) / 1000
}

/// Waits for [`backoff`]; returns `false` immediately if the attempt could not start before `deadline`.
pub async fn wait_to_retry(clock: &impl Clock, attempt: u32, deadline: Timestamp) -> bool {
    let pause = backoff(clock, attempt);
    let is_time = clock.now().plus(pause) < deadline;
    if is_time {
        clock.sleep(pause).await;
    }
    is_time
}

/// The system clock and Tokio's timer.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_epoch_ms(jiff::Timestamp::now().as_millisecond())
    }

    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send {
        tokio::time::sleep(duration)
    }

    fn permille(&self) -> u32 {
        use std::hash::{BuildHasher as _, RandomState};
        // Each `RandomState` has random keys, which is random enough for jitter.
        u32::try_from(RandomState::new().hash_one(0_u8) % 1000).unwrap_or(0)
    }
}
