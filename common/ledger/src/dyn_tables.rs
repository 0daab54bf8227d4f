//! The tables and the clock of a ledger as objects, which forward each call.

use std::time::Duration;

use afterwrite_model::Error;
use afterwrite_model::clock::Clock;
use afterwrite_model::effect::{ItemKey, Write};
use afterwrite_model::record::Timestamp;
use futures::future::BoxFuture;

use crate::tables::{ConsumedUnits, IndexPage, IndexQuery, PartialRead, Tables, TransactError, WriteError};

/// The operations of [`Tables`] that the ledger uses, as an object. Every implementation of that trait has them.
///
/// The ledger is compiled once, for this object. Generic code would be compiled again in every program for every implementation: the
/// command line alone has eleven. A request waits for the network; the call through a pointer and the allocation of its future do not
/// matter next to it.
pub(crate) trait DynTables: Send + Sync {
    /// See [`Tables::read_some`].
    fn read_some<'f>(&'f self, keys: &'f [ItemKey]) -> BoxFuture<'f, Result<PartialRead, Error>>;
    /// See [`Tables::read_looked_up`].
    fn read_looked_up<'f>(&'f self, keys: &'f [ItemKey]) -> BoxFuture<'f, Result<PartialRead, Error>>;
    /// See [`Tables::write`].
    fn write<'f>(&'f self, write: &'f Write) -> BoxFuture<'f, Result<ConsumedUnits, WriteError>>;
    /// See [`Tables::transact`].
    fn transact<'f>(&'f self, writes: &'f [Write]) -> BoxFuture<'f, Result<ConsumedUnits, TransactError>>;
    /// See [`Tables::query_index`].
    fn query_index<'f>(&'f self, query: &'f IndexQuery) -> BoxFuture<'f, Result<IndexPage, Error>>;
}

impl<T: Tables> DynTables for T {
    fn read_some<'f>(&'f self, keys: &'f [ItemKey]) -> BoxFuture<'f, Result<PartialRead, Error>> {
        Box::pin(Tables::read_some(self, keys))
    }

    fn read_looked_up<'f>(&'f self, keys: &'f [ItemKey]) -> BoxFuture<'f, Result<PartialRead, Error>> {
        Box::pin(Tables::read_looked_up(self, keys))
    }

    fn write<'f>(&'f self, write: &'f Write) -> BoxFuture<'f, Result<ConsumedUnits, WriteError>> {
        Box::pin(Tables::write(self, write))
    }

    fn transact<'f>(&'f self, writes: &'f [Write]) -> BoxFuture<'f, Result<ConsumedUnits, TransactError>> {
        Box::pin(Tables::transact(self, writes))
    }

    fn query_index<'f>(&'f self, query: &'f IndexQuery) -> BoxFuture<'f, Result<IndexPage, Error>> {
        Box::pin(Tables::query_index(self, query))
    }
}

/// A [`Clock`] as an object: see [`DynTables`].
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
