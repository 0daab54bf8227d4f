//! Back-off: how long to wait before a request is sent again.

use std::time::Duration;

use crate::clock::Clock;
use crate::record::Timestamp;

/// Exponential back-off with full jitter: the delay before a retry is random, and its upper limit doubles with each retry.
///
/// ```
/// use std::time::Duration;
///
/// use afterwrite::retry::RetryPolicy;
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
    pub fn delay(&self, retry: u32, clock: &impl Clock) -> Duration {
        self.ceiling(retry) * (1 + clock.permille()) / 1000
    }

    /// Waits before retry number `retry`. Returns `false` at once if the retry could not begin before `deadline`.
    pub async fn wait(&self, retry: u32, deadline: Timestamp, clock: &impl Clock) -> bool {
        let delay = self.delay(retry, clock);
        let is_time = clock.now().plus(delay) < deadline;
        if is_time {
            clock.sleep(delay).await;
        }
        is_time
    }
}
