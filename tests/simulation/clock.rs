//! Simulated time: the scheduler advances it, and so does every sleep.

use std::future::{Future, poll_fn};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use afterwrite_model::clock::Clock;
use afterwrite_model::record::Timestamp;
use afterwrite_tests::clock::reached;
use afterwrite_tests::random::SeededRandom;

/// The time of a run.
#[derive(Debug)]
pub(crate) struct SimulatedTime {
    now_ms: AtomicI64,
    jitter: Mutex<SeededRandom>,
}

impl SimulatedTime {
    pub(crate) fn new(start: Timestamp, jitter: SeededRandom) -> Arc<Self> {
        Arc::new(Self { now_ms: AtomicI64::new(start.epoch_ms()), jitter: Mutex::new(jitter) })
    }

    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::from_epoch_ms(self.now_ms.load(Ordering::Relaxed))
    }

    pub(crate) fn advance(&self, by: Duration) {
        self.reach(self.now().plus(by));
    }

    fn reach(&self, time: Timestamp) {
        self.now_ms.fetch_max(time.epoch_ms(), Ordering::Relaxed);
    }
}

/// The clock of one process: the time of the run plus a constant skew.
#[derive(Clone, Debug)]
pub(crate) struct SkewedClock {
    pub(crate) time: Arc<SimulatedTime>,
    pub(crate) skew_ms: i64,
}

impl Clock for SkewedClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_epoch_ms(self.time.now().epoch_ms() + self.skew_ms)
    }

    /// Yields once; the next poll advances the time to the end of the sleep.
    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send {
        let (time, until) = (Arc::clone(&self.time), self.time.now().plus(duration));
        let mut has_yielded = false;
        poll_fn(move |context| {
            if has_yielded {
                time.reach(until);
                return Poll::Ready(());
            }
            has_yielded = true;
            context.waker().wake_by_ref();
            Poll::Pending
        })
    }

    /// Wakes itself at each poll: a future among others that run concurrently is only polled if it was woken.
    fn until(&self, time: Timestamp) -> impl Future<Output = ()> + Send {
        poll_fn(move |context| {
            if self.now() >= time {
                return Poll::Ready(());
            }
            context.waker().wake_by_ref();
            Poll::Pending
        })
    }

    fn permille(&self) -> u32 {
        let mut jitter = self.time.jitter.lock().unwrap_or_else(PoisonError::into_inner);
        u32::try_from(jitter.below(1000)).unwrap_or(0)
    }
}

/// A clock without skew whose sleeps wait until the time has passed.
#[derive(Clone, Debug)]
pub(crate) struct PatientClock(pub(crate) Arc<SimulatedTime>);

impl Clock for PatientClock {
    fn now(&self) -> Timestamp {
        self.0.now()
    }

    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send {
        reached(self, self.now().plus(duration))
    }

    fn until(&self, time: Timestamp) -> impl Future<Output = ()> + Send {
        reached(self, time)
    }

    fn permille(&self) -> u32 {
        500
    }
}
