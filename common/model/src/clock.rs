//! Time and randomness, injected: every wait and every deadline goes by a [`Clock`] that the caller provides.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use futures::future::{Either, select};

use crate::record::Timestamp;

/// The source of time and randomness.
pub trait Clock: Send + Sync {
    /// The current time.
    fn now(&self) -> Timestamp;
    /// Waits.
    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send;
    /// Waits until this time. Unlike [`Clock::sleep`] on a simulated clock, it never advances the time: it may be dropped unused.
    fn until(&self, time: Timestamp) -> impl Future<Output = ()> + Send;
    /// A random number from 0 to 999, for jitter.
    fn permille(&self) -> u32;
}

impl<C: Clock + ?Sized> Clock for &C {
    fn now(&self) -> Timestamp {
        (**self).now()
    }

    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send {
        (**self).sleep(duration)
    }

    fn until(&self, time: Timestamp) -> impl Future<Output = ()> + Send {
        (**self).until(time)
    }

    fn permille(&self) -> u32 {
        (**self).permille()
    }
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

    fn until(&self, time: Timestamp) -> impl Future<Output = ()> + Send {
        tokio::time::sleep(time.since(self.now()))
    }

    fn permille(&self) -> u32 {
        use std::hash::{BuildHasher as _, RandomState};
        // The hasher's keys are random for each state: random enough for jitter.
        u32::try_from(RandomState::new().hash_one(0_u8) % 1000).unwrap_or(0)
    }
}

/// The output of `future`, or `None` if the deadline passes before it is ready.
///
/// After the deadline nothing is started. At the deadline the future is dropped: a request is cancelled, but it may have been sent,
/// so that a write may have taken effect.
///
/// ```
/// use std::future::{pending, ready};
/// use std::time::Duration;
///
/// use afterwrite_model::clock::{Clock, SystemClock, within};
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
/// # runtime.block_on(async {
/// let deadline = SystemClock.now().plus(Duration::from_millis(50));
/// assert_eq!(within(&SystemClock, deadline, ready("response")).await, Some("response"));
/// assert_eq!(within(&SystemClock, deadline, pending::<&str>()).await, None);
/// assert_eq!(within(&SystemClock, deadline, ready("too late")).await, None);
/// # });
/// ```
pub async fn within<F: Future>(
    clock: &(impl Clock + ?Sized),
    deadline: Timestamp,
    future: F,
) -> Option<F::Output> {
    if clock.now() >= deadline {
        return None;
    }
    // The output counts if both are ready.
    match select(pin!(future), pin!(clock.until(deadline))).await {
        Either::Left((output, _)) => Some(output),
        Either::Right(((), _)) => None,
    }
}
