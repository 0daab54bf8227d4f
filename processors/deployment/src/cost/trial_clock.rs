//! The clock of a trial.

use std::future::Future;
use std::time::Duration;

use afterwrite_model::clock::Clock;
use afterwrite_model::record::Timestamp;

/// A clock that stands still: at the time of the newest record.
#[derive(Clone, Copy, Debug)]
pub(super) struct TrialClock(pub(super) Timestamp);

impl TrialClock {
    /// The end of an invocation.
    pub(super) fn deadline(self) -> Timestamp {
        self.0.plus(Duration::from_secs(60))
    }
}

impl Clock for TrialClock {
    fn now(&self) -> Timestamp {
        self.0
    }

    fn sleep(&self, _duration: Duration) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }

    /// A deadline is never reached.
    fn until(&self, _time: Timestamp) -> impl Future<Output = ()> + Send {
        std::future::pending()
    }

    fn permille(&self) -> u32 {
        500
    }
}
