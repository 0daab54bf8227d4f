//! A clock that a test sets.

use std::future::{Future, poll_fn};
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::Poll;
use std::time::Duration;

use afterwrite_model::clock::Clock;
use afterwrite_model::record::Timestamp;
use tokio::time::Instant;

/// A clock that only sleeps move forward. They return at once.
#[derive(Debug)]
pub struct StillClock(AtomicI64);

impl StillClock {
    /// A clock that starts at this time.
    #[must_use]
    pub fn at(now: Timestamp) -> Self {
        Self(AtomicI64::new(now.epoch_ms()))
    }
}

impl Clock for StillClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_epoch_ms(self.0.load(Ordering::Relaxed))
    }

    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send {
        self.0.fetch_add(i64::try_from(duration.as_millis()).unwrap_or(0), Ordering::Relaxed);
        std::future::ready(())
    }

    fn until(&self, time: Timestamp) -> impl Future<Output = ()> + Send {
        reached(self, time)
    }

    fn permille(&self) -> u32 {
        500
    }
}

/// A clock of Tokio's time. If the test has paused that, it goes on to the next event as soon as everything waits.
#[derive(Debug)]
pub struct TokioClock {
    begin: Timestamp,
    created: Instant,
    permille: u32,
}

impl TokioClock {
    /// A clock that starts at this time, and whose random numbers are all the same.
    #[must_use]
    pub fn at(begin: Timestamp, permille: u32) -> Self {
        Self { begin, created: Instant::now(), permille }
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        self.begin.plus(self.created.elapsed())
    }

    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send {
        tokio::time::sleep(duration)
    }

    fn until(&self, time: Timestamp) -> impl Future<Output = ()> + Send {
        tokio::time::sleep(time.since(self.now()))
    }

    fn permille(&self) -> u32 {
        self.permille
    }
}

/// Waits until a clock that its owner advances has reached this time. Nothing wakes the waiting task: it must be polled for another
/// reason, for example together with a request.
pub fn reached(clock: &impl Clock, time: Timestamp) -> impl Future<Output = ()> + Send {
    poll_fn(move |_| if clock.now() >= time { Poll::Ready(()) } else { Poll::Pending })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::yield_once;
    use afterwrite_model::clock::within;

    #[tokio::test]
    async fn a_deadline_that_is_waited_for_does_not_advance_the_clock() {
        let begin = Timestamp::from_epoch_seconds(1_770_000_000);
        let (clock, deadline) = (StillClock::at(begin), begin.plus(Duration::from_secs(3)));
        assert_eq!(within(&clock, deadline, yield_once()).await, Some(()));
        assert_eq!(clock.now(), begin);

        let slow = async {
            clock.sleep(Duration::from_secs(3)).await;
            yield_once().await;
        };
        assert_eq!(within(&clock, deadline, slow).await, None);
        let mut is_started = false;
        assert_eq!(within(&clock, deadline, async { is_started = true }).await, None);
        assert!(!is_started, "nothing is started after the deadline");
    }
}
