//! [`Tables`] as an object.
//!
//! The ledger is compiled once, for this object. Generic code would be compiled again in every program for every implementation: the
//! command line alone has eleven. A request waits for the network; the call through a pointer and the allocation of its future do not
//! matter next to it.

use afterwrite_model::Result;
use afterwrite_model::effect::{ItemKey, Write};
use futures::future::BoxFuture;

use super::{ConsumedUnits, IndexPage, IndexQuery, PartialRead, Tables, TransactError, WriteError};

/// The operations of [`Tables`] that the ledger uses. Every implementation of that trait has them.
pub(crate) trait DynTables: Send + Sync {
    /// See [`Tables::read_some`].
    fn read_some<'f>(&'f self, keys: &'f [ItemKey]) -> BoxFuture<'f, Result<PartialRead>>;
    /// See [`Tables::read_looked_up`].
    fn read_looked_up<'f>(&'f self, keys: &'f [ItemKey]) -> BoxFuture<'f, Result<PartialRead>>;
    /// See [`Tables::write`].
    fn write<'f>(&'f self, write: &'f Write) -> BoxFuture<'f, Result<ConsumedUnits, WriteError>>;
    /// See [`Tables::transact`].
    fn transact<'f>(&'f self, writes: &'f [Write]) -> BoxFuture<'f, Result<ConsumedUnits, TransactError>>;
    /// See [`Tables::query_index`].
    fn query_index<'f>(&'f self, query: &'f IndexQuery) -> BoxFuture<'f, Result<IndexPage>>;
}

impl<T: Tables> DynTables for T {
    fn read_some<'f>(&'f self, keys: &'f [ItemKey]) -> BoxFuture<'f, Result<PartialRead>> {
        Box::pin(Tables::read_some(self, keys))
    }

    fn read_looked_up<'f>(&'f self, keys: &'f [ItemKey]) -> BoxFuture<'f, Result<PartialRead>> {
        Box::pin(Tables::read_looked_up(self, keys))
    }

    fn write<'f>(&'f self, write: &'f Write) -> BoxFuture<'f, Result<ConsumedUnits, WriteError>> {
        Box::pin(Tables::write(self, write))
    }

    fn transact<'f>(&'f self, writes: &'f [Write]) -> BoxFuture<'f, Result<ConsumedUnits, TransactError>> {
        Box::pin(Tables::transact(self, writes))
    }

    fn query_index<'f>(&'f self, query: &'f IndexQuery) -> BoxFuture<'f, Result<IndexPage>> {
        Box::pin(Tables::query_index(self, query))
    }
}
