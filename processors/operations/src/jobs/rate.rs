//! A limit on the items a second.

use afterwrite_model::record::Timestamp;
use std::time::Duration;

/// Spaces out work: after a step that spent `n`, the next one begins `n / rate` seconds later. Nothing is saved up for a burst.
#[derive(Clone, Debug)]
pub struct RateLimiter {
    rate: Option<u64>,
    free_at: Timestamp,
}

impl RateLimiter {
    /// A limiter of so many a second; `None` for no limit.
    #[must_use]
    pub fn new(rate: Option<u64>, now: Timestamp) -> Self {
        Self { rate, free_at: now }
    }

    /// Sets the rate from now on.
    pub fn set_rate(&mut self, rate: Option<u64>, now: Timestamp) {
        if self.rate != rate {
            self.rate = rate;
            // The delay of the previous rate must not hold up a faster one.
            self.free_at = self.free_at.min(now.plus(Duration::from_secs(1)));
        }
    }

    /// When the next step may begin.
    #[must_use]
    pub fn free_at(&self) -> Timestamp {
        self.free_at
    }

    /// Notes what a step spent.
    pub fn spend(&mut self, spent: u64, now: Timestamp) {
        if let Some(rate) = self.rate {
            // A rate of zero holds the job until it is changed.
            let delay_ms = spent.saturating_mul(1000).checked_div(rate).unwrap_or(60_000);
            self.free_at = self.free_at.max(now).plus(Duration::from_millis(delay_ms));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(number: i64) -> Timestamp {
        Timestamp::from_epoch_seconds(number)
    }

    #[test]
    fn steps_are_spaced_by_what_they_spent() {
        let mut limiter = RateLimiter::new(Some(50), second(0));
        limiter.spend(100, second(0));
        limiter.spend(50, second(0));
        assert_eq!(limiter.free_at(), second(3));
        limiter.spend(50, second(10));
        assert_eq!(limiter.free_at(), second(11), "time that was not used is not saved up");
    }

    #[test]
    fn a_new_rate_applies_within_a_second() {
        let mut limiter = RateLimiter::new(Some(1), second(0));
        limiter.spend(1_000, second(0));
        limiter.set_rate(Some(100), second(5));
        assert_eq!(limiter.free_at(), second(6));
        limiter.set_rate(None, second(5));
        limiter.spend(1_000_000, second(7));
        assert_eq!(limiter.free_at(), second(6), "without a rate nothing waits");
    }
}
