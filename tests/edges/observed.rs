//! The tables of a world as a function reaches them: its requests are noted, and some writes are not carried out.

use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use afterwrite_ledger::tables::{
    ConsumedUnits, IndexPage, IndexQuery, PartialRead, ReadSnapshot, Tables, TransactError, Unprocessed,
    WriteError,
};
use afterwrite_memory::MemoryTables;
use afterwrite_model::effect::{ItemKey, Write, WriteRefusal};
use afterwrite_model::{Error, ErrorKind};

use super::world::TABLE;

/// The result of a request that has this write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteFate {
    CarriedOut,
    /// The whole request fails with an error of this kind, without the write that is the cause.
    Failed(ErrorKind),
    /// Another writer is writing the item.
    Conflicting,
    /// The call never returns: its author crashes.
    Pending,
}

/// A request that was sent.
#[derive(Clone, Debug)]
pub(crate) struct NotedRequest {
    /// `read`, `write`, `transact` or `query`.
    pub(crate) kind: &'static str,
    /// The number of its writes.
    pub(crate) writes: usize,
    pub(crate) is_cancelled: bool,
}

/// The fate of a write in a request of a kind.
type FateOf = dyn Fn(&'static str, &Write) -> WriteFate + Send + Sync;

/// Tables that note each request in order.
pub(crate) struct ObservedTables {
    tables: Arc<MemoryTables>,
    fate: Box<FateOf>,
    is_throttled: Box<dyn Fn(&ItemKey) -> bool + Send + Sync>,
    noted: Mutex<Vec<NotedRequest>>,
}

impl ObservedTables {
    /// Tables that carry out every write.
    pub(crate) fn new(tables: &Arc<MemoryTables>) -> Arc<Self> {
        Self::with_fate(tables, |_, _| WriteFate::CarriedOut)
    }

    /// Tables in which the writes of requests of a kind have this fate.
    pub(crate) fn with_fate(
        tables: &Arc<MemoryTables>,
        fate: impl Fn(&'static str, &Write) -> WriteFate + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self::of(tables, fate, |_| false))
    }

    /// Tables that throttle these keys: requests leave them unread and unwritten.
    pub(crate) fn throttling(
        tables: &Arc<MemoryTables>,
        is_throttled: impl Fn(&ItemKey) -> bool + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self::of(tables, |_, _| WriteFate::CarriedOut, is_throttled))
    }

    /// Tables that something else changes once, just before the first request of a kind with a write to `table`.
    pub(crate) fn changing_before(
        tables: &Arc<MemoryTables>,
        (kind, table): (&'static str, &'static str),
        change: impl Fn(&MemoryTables) + Send + Sync + 'static,
    ) -> Arc<Self> {
        let (changed, is_changed) = (Arc::clone(tables), AtomicBool::new(false));
        Self::with_fate(tables, move |sent, write| {
            if sent == kind && *write.key.table == *table && !is_changed.swap(true, Ordering::Relaxed) {
                change(&changed);
            }
            WriteFate::CarriedOut
        })
    }

    /// Tables whose author crashes when it writes a mirror.
    pub(crate) fn without_mirrors(tables: &Arc<MemoryTables>) -> Arc<Self> {
        Self::with_fate(tables, |_, write| match &*write.key.table {
            TABLE => WriteFate::Pending,
            _ => WriteFate::CarriedOut,
        })
    }

    /// Tables whose first request of a kind with a write to such a key has this fate.
    pub(crate) fn with_fate_once(
        tables: &Arc<MemoryTables>,
        (kind, fate): (&'static str, WriteFate),
        is_such: impl Fn(&ItemKey) -> bool + Send + Sync + 'static,
    ) -> Arc<Self> {
        let has_been_sent = AtomicBool::new(false);
        Self::with_fate(tables, move |sent, write| {
            let is_first =
                sent == kind && is_such(&write.key) && !has_been_sent.swap(true, Ordering::Relaxed);
            if is_first { fate } else { WriteFate::CarriedOut }
        })
    }

    fn of(
        tables: &Arc<MemoryTables>,
        fate: impl Fn(&'static str, &Write) -> WriteFate + Send + Sync + 'static,
        is_throttled: impl Fn(&ItemKey) -> bool + Send + Sync + 'static,
    ) -> Self {
        let (fate, is_throttled) = (Box::new(fate), Box::new(is_throttled));
        Self { tables: Arc::clone(tables), fate, is_throttled, noted: Mutex::default() }
    }

    /// The requests since the last call.
    pub(crate) fn take(&self) -> Vec<NotedRequest> {
        mem::take(&mut self.noted.lock().expect("no test panicked while it held the lock"))
    }

    fn note(&self, kind: &'static str, writes: usize, is_cancelled: bool) {
        let mut noted = self.noted.lock().expect("no test panicked while it held the lock");
        noted.push(NotedRequest { kind, writes, is_cancelled });
    }

    /// Why a request with these writes is not carried out, if it is not: each write's refusal, or the error of the whole.
    async fn refusals(
        &self,
        kind: &'static str,
        writes: &[Write],
    ) -> Result<Vec<Option<WriteRefusal>>, Error> {
        let fates: Vec<WriteFate> = writes.iter().map(|write| (self.fate)(kind, write)).collect();
        if fates.contains(&WriteFate::Pending) {
            return std::future::pending().await;
        }
        let refusal = |(write, fate): (&Write, WriteFate)| match fate {
            WriteFate::Failed(kind) => Err(Error::new(kind, "the request was not carried out")),
            WriteFate::Conflicting => Ok(Some(WriteRefusal::Conflict)),
            WriteFate::CarriedOut | WriteFate::Pending => {
                Ok((self.is_throttled)(&write.key).then_some(WriteRefusal::Throttled))
            }
        };
        writes.iter().zip(fates).map(refusal).collect()
    }
}

impl Tables for ObservedTables {
    async fn read(&self, keys: &[ItemKey]) -> Result<ReadSnapshot, Error> {
        let PartialRead { items, server_time } = self.read_some(keys).await?;
        Ok(ReadSnapshot { items: items.into_iter().collect::<Result<_, Unprocessed>>()?, server_time })
    }

    async fn read_some(&self, keys: &[ItemKey]) -> Result<PartialRead, Error> {
        self.note("read", 0, false);
        let throttled = || Error::new(ErrorKind::Unavailable, "the key is throttled");
        let are_throttled: Vec<bool> = keys.iter().map(&self.is_throttled).collect();
        if are_throttled.iter().all(|is_throttled| *is_throttled) {
            return Err(throttled());
        }
        let mut read = self.tables.read_some(keys).await?;
        for (is_throttled, item) in are_throttled.into_iter().zip(&mut read.items) {
            if is_throttled {
                *item = Err(throttled().into());
            }
        }
        Ok(read)
    }

    async fn write(&self, write: &Write) -> Result<ConsumedUnits, WriteError> {
        let result = match self.refusals("write", std::slice::from_ref(write)).await {
            Err(error) => Err(WriteError::Failed(error)),
            Ok(refusals) => match refusals.into_iter().flatten().next() {
                Some(refusal) => Err(WriteError::Refused(refusal)),
                None => self.tables.write(write).await,
            },
        };
        self.note("write", 1, result.is_err());
        result
    }

    async fn transact(&self, writes: &[Write]) -> Result<ConsumedUnits, TransactError> {
        let result = match self.refusals("transact", writes).await {
            Err(error) => Err(TransactError::Failed(error)),
            Ok(refusals) if refusals.iter().any(Option::is_some) => Err(TransactError::Cancelled(refusals)),
            Ok(_) => self.tables.transact(writes).await,
        };
        self.note("transact", writes.len(), result.is_err());
        result
    }

    async fn query_index(&self, query: &IndexQuery) -> Result<IndexPage, Error> {
        self.note("query", 0, false);
        self.tables.query_index(query).await
    }
}
