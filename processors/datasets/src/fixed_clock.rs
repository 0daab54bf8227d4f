//! A clock for tests that stands still.

use std::time::Duration;

use afterwrite_model::clock::Clock;
use afterwrite_model::record::Timestamp;

/// A clock that always has this time; a wait lets other tasks run first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FixedClock(pub(crate) Timestamp);

impl Clock for FixedClock {
    fn now(&self) -> Timestamp {
        self.0
    }

    async fn sleep(&self, _: Duration) {
        tokio::task::yield_now().await;
    }

    async fn until(&self, _: Timestamp) {
        std::future::pending().await
    }

    fn permille(&self) -> u32 {
        500
    }
}
