//! A limit on the items a second.

use afterwrite_model::record::Timestamp;
use std::time::Duration;

/// Spaces out work: after a step that spends `n`, the next one begins `n / rate` seconds later. Nothing is saved up for a burst.
///
/// The number of items of a step is known at the end of the step. So at its beginning, a step is charged the number of the step that ended
/// last, and at its end the difference. The first step runs alone.
#[derive(Clone, Debug)]
pub struct RateLimiter {
    rate: Option<u64>,
    free_at: Timestamp,
    /// The number of items of the step that ended last.
    usual: Option<u64>,
}

impl RateLimiter {
    /// A limiter of so many a second; `None` for no limit.
    #[must_use]
    pub fn new(rate: Option<u64>, now: Timestamp) -> Self {
        Self { rate, free_at: now, usual: None }
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

    /// Whether a step may begin beside others.
    #[must_use]
    pub fn allows(&self, running: usize, now: Timestamp) -> bool {
        self.free_at <= now && (running == 0 || self.rate.is_none() || self.usual.is_some())
    }

    /// Charges a step that begins; returns how much.
    pub fn begin(&mut self, now: Timestamp) -> u64 {
        let charged = self.usual.unwrap_or(0);
        self.free_at = self.free_at.max(now).plus(self.time_of(charged));
        charged
    }

    /// Charges a step that ends for the difference between `spent`, its items, and `charged`, the result of [`RateLimiter::begin`].
    pub fn end(&mut self, spent: u64, charged: u64, now: Timestamp) {
        self.usual = Some(spent);
        let (due, paid) = (self.time_of(spent), self.time_of(charged));
        self.free_at = if due > paid {
            self.free_at.max(now).plus(due.saturating_sub(paid))
        } else {
            self.free_at.minus(paid.saturating_sub(due))
        };
    }

    /// The time in which the rate allows so much.
    fn time_of(&self, spent: u64) -> Duration {
        let Some(rate) = self.rate else { return Duration::ZERO };
        // A rate of zero holds the job until it is changed.
        Duration::from_millis(spent.saturating_mul(1000).checked_div(rate).unwrap_or(60_000))
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
        limiter.end(100, 0, second(0));
        limiter.end(50, 0, second(0));
        assert_eq!(limiter.free_at(), second(3));
        limiter.end(50, 0, second(10));
        assert_eq!(limiter.free_at(), second(11), "time that was not used is not saved up");
    }

    #[test]
    fn steps_beside_each_other_spend_no_more_than_one_after_the_other() {
        let mut limiter = RateLimiter::new(Some(50), second(0));
        assert!(limiter.allows(0, second(0)));
        assert_eq!(limiter.begin(second(0)), 0);
        assert!(!limiter.allows(1, second(0)), "what a step spends is not known");
        limiter.end(100, 0, second(0));
        assert!(!limiter.allows(0, second(1)) && limiter.allows(0, second(2)));
        assert_eq!(limiter.begin(second(2)), 100);
        assert!(!limiter.allows(1, second(3)) && limiter.allows(1, second(4)));
        assert_eq!(limiter.begin(second(4)), 100);
        assert_eq!(limiter.free_at(), second(6));
        limiter.end(150, 100, second(5));
        assert_eq!(limiter.free_at(), second(7));
        limiter.end(50, 100, second(5));
        assert_eq!(limiter.free_at(), second(6));
    }

    #[test]
    fn a_rate_of_zero_holds_every_step() {
        let mut limiter = RateLimiter::new(Some(10), second(0));
        limiter.end(100, 0, second(0));
        limiter.set_rate(Some(0), second(5));
        let charged = limiter.begin(second(10));
        limiter.end(50, charged, second(11));
        assert_eq!(limiter.free_at(), second(70));
    }

    #[test]
    fn without_a_rate_every_step_may_begin() {
        let mut limiter = RateLimiter::new(None, second(0));
        for running in 0..8 {
            assert!(limiter.allows(running, second(0)));
            limiter.begin(second(0));
        }
        limiter.end(1_000, 0, second(0));
        limiter.set_rate(Some(1_000), second(1));
        assert!(limiter.allows(7, second(1)));
        assert_eq!((limiter.begin(second(1)), limiter.free_at()), (1_000, second(2)));
    }

    #[test]
    fn a_new_rate_applies_within_a_second() {
        let mut limiter = RateLimiter::new(Some(1), second(0));
        limiter.end(1_000, 0, second(0));
        limiter.set_rate(Some(100), second(5));
        assert_eq!(limiter.free_at(), second(6));
        limiter.set_rate(None, second(5));
        limiter.end(1_000_000, 0, second(7));
        assert!(limiter.allows(7, second(7)), "without a rate nothing waits");
    }
}
