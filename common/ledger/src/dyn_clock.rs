//! [`Clock`] as an object.

use std::future::Future;
use std::time::Duration;

use afterwrite_model::clock::Clock;
use afterwrite_model::record::Timestamp;
use futures::future::BoxFuture;

/// A [`Clock`] as an object: see [`DynTables`](crate::tables::DynTables).
pub(crate) trait DynClock: Send + Sync {
    /// See [`Clock::now`].
    fn dyn_now(&self) -> Timestamp;
    /// See [`Clock::sleep`].
    fn dyn_sleep(&self, duration: Duration) -> BoxFuture<'_, ()>;
    /// See [`Clock::until`].
    fn dyn_until(&self, time: Timestamp) -> BoxFuture<'_, ()>;
    /// See [`Clock::permille`].
    fn dyn_permille(&self) -> u32;
}

impl<C: Clock> DynClock for C {
    fn dyn_now(&self) -> Timestamp {
        self.now()
    }

    fn dyn_sleep(&self, duration: Duration) -> BoxFuture<'_, ()> {
        Box::pin(self.sleep(duration))
    }

    fn dyn_until(&self, time: Timestamp) -> BoxFuture<'_, ()> {
        Box::pin(self.until(time))
    }

    fn dyn_permille(&self) -> u32 {
        self.permille()
    }
}

impl Clock for dyn DynClock + '_ {
    fn now(&self) -> Timestamp {
        self.dyn_now()
    }

    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send {
        self.dyn_sleep(duration)
    }

    fn until(&self, time: Timestamp) -> impl Future<Output = ()> + Send {
        self.dyn_until(time)
    }

    fn permille(&self) -> u32 {
        self.dyn_permille()
    }
}
