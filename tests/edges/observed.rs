//! The tables of a world as a function reaches them: its requests are noted, and some writes are not carried out.

use std::mem;
use std::sync::{Arc, Mutex};

use afterwrite::effect::{ItemKey, Write, WriteRefusal};
use afterwrite::sink::{
    ConsumedUnits, IndexPage, IndexQuery, PartialRead, ReadSnapshot, Tables, TransactError, Unprocessed,
    WriteError,
};
use afterwrite::{Error, ErrorKind};
use afterwrite_memory::MemoryTables;

/// The result of a request that has this write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteFate {
    CarriedOut,
    /// The whole request fails with an error of this kind, without the write that is the cause.
    Failed(ErrorKind),
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

    /// The error of a request with these writes, if it is not carried out.
    async fn failure(&self, kind: &'static str, writes: &[Write]) -> Option<Error> {
        let fates: Vec<WriteFate> = writes.iter().map(|write| (self.fate)(kind, write)).collect();
        if fates.contains(&WriteFate::Pending) {
            return std::future::pending().await;
        }
        fates.into_iter().find_map(|fate| match fate {
            WriteFate::Failed(kind) => Some(Error::new(kind, "the request was not carried out")),
            WriteFate::CarriedOut | WriteFate::Pending => None,
        })
    }
}

impl Tables for ObservedTables {
    async fn read(&self, keys: &[ItemKey]) -> Result<ReadSnapshot, Error> {
        let PartialRead { items, server_time } = self.read_some(keys).await?;
        Ok(ReadSnapshot { items: items.into_iter().collect::<Result<_, Unprocessed>>()?, server_time })
    }

    async fn read_some(&self, keys: &[ItemKey]) -> Result<PartialRead, Error> {
        self.note("read", 0, false);
        let mut read = self.tables.read_some(keys).await?;
        for (key, item) in keys.iter().zip(&mut read.items) {
            if (self.is_throttled)(key) {
                *item = Err(Unprocessed);
            }
        }
        Ok(read)
    }

    async fn write(&self, write: &Write) -> Result<ConsumedUnits, WriteError> {
        let result = match self.failure("write", std::slice::from_ref(write)).await {
            Some(error) => Err(WriteError::Failed(error)),
            None if (self.is_throttled)(&write.key) => Err(WriteError::Refused(WriteRefusal::Throttled)),
            None => self.tables.write(write).await,
        };
        self.note("write", 1, result.is_err());
        result
    }

    async fn transact(&self, writes: &[Write]) -> Result<ConsumedUnits, TransactError> {
        let result = match self.failure("transact", writes).await {
            Some(error) => Err(TransactError::Failed(error)),
            None if writes.iter().any(|write| (self.is_throttled)(&write.key)) => {
                let reason =
                    |write: &Write| (self.is_throttled)(&write.key).then_some(WriteRefusal::Throttled);
                Err(TransactError::Cancelled(writes.iter().map(reason).collect()))
            }
            None => self.tables.transact(writes).await,
        };
        self.note("transact", writes.len(), result.is_err());
        result
    }

    async fn query_index(&self, query: &IndexQuery) -> Result<IndexPage, Error> {
        self.note("query", 0, false);
        self.tables.query_index(query).await
    }
}
