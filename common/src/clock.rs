//! Time and randomness, injected: every wait and every deadline goes by a [`Clock`] that the caller provides.

use std::future::Future;
use std::time::Duration;

use crate::record::Timestamp;

/// The source of time and randomness.
pub trait Clock: Send + Sync {
    /// The current time.
    fn now(&self) -> Timestamp;
    /// Waits.
    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send;
    /// A random number from 0 to 999, for jitter.
    fn permille(&self) -> u32;
}

/// The machine's clock, with Tokio's timer.
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
        // The hasher's keys are random for each state: random enough for jitter.
        u32::try_from(RandomState::new().hash_one(0_u8) % 1000).unwrap_or(0)
    }
}
