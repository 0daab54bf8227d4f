//! Back-off: how long to wait before a request is sent again.

use std::time::Duration;

use crate::clock::Clock;
use crate::record::Timestamp;

/// The time that a last retry has before the deadline: longer than most requests take.
pub const LAST_RETRY: Duration = Duration::from_millis(100);

/// Exponential back-off with full jitter: the delay before a retry is random, and its upper limit doubles with each retry.
///
/// ```
/// use std::time::Duration;
///
/// use afterwrite_model::retry::RetryPolicy;
///
/// let ceilings: Vec<_> = (1..=4).map(|retry| RetryPolicy::STANDARD.ceiling(retry)).collect();
/// assert_eq!(ceilings, [25, 50, 100, 200].map(Duration::from_millis));
/// assert_eq!(RetryPolicy::STANDARD.ceiling(100), Duration::from_secs(2));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// The longest delay before the first retry.
    pub first: Duration,
    /// The longest delay before any retry.
    pub longest: Duration,
}

impl RetryPolicy {
    /// For requests to services: 25 ms before the first retry, at most 2 s.
    pub const STANDARD: Self = Self { first: Duration::from_millis(25), longest: Duration::from_secs(2) };

    /// The longest delay before retry number `retry`; the first retry is 1.
    #[must_use]
    pub fn ceiling(&self, retry: u32) -> Duration {
        self.first.saturating_mul(1 << retry.saturating_sub(1).min(10)).min(self.longest)
    }

    /// The delay before retry number `retry`, with full jitter.
    #[must_use]
    pub fn delay(&self, retry: u32, clock: &(impl Clock + ?Sized)) -> Duration {
        self.ceiling(retry) * (1 + clock.permille()) / 1000
    }

    /// Waits before retry number `retry`. The last retry begins [`LAST_RETRY`] before `deadline`; later than that, returns `false` at
    /// once.
    pub async fn wait(&self, retry: u32, deadline: Timestamp, clock: &(impl Clock + ?Sized)) -> bool {
        let (now, latest) = (clock.now(), deadline.minus(LAST_RETRY));
        let is_time = now < latest;
        if is_time {
            clock.sleep(self.delay(retry, clock).min(latest.since(now))).await;
        }
        is_time
    }
}
