//! Tables with random faults, reproducible by a seed.
//!
//! ```text
//! call ──▶ yields once, or several times if slow
//!      ──▶ unavailable?                  ──yes──▶ Unavailable, without effect
//!      ──▶ conflict, throttle, rejected? ──yes──▶ refused, without effect
//!      ──▶ late?                         ──yes──▶ Unavailable or no answer; the effect comes with `FaultyTables::land`
//!      ──▶ the tables
//!      ──▶ response lost?                ──yes──▶ Unavailable, although it took effect
//!      ──▶ hangs?                        ──yes──▶ no answer, although it took effect
//!      ──▶ the tables' response
//! ```
//!
//! Each call yields *before* it takes effect: other tasks can run between any two calls of a consumer, and a consumer that is dropped
//! while it waits has crashed after its last effect and before its next one.

mod late;
mod rates;
#[cfg(test)]
mod tests;

use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use afterwrite_ledger::tables::{
    ConsumedUnits, IndexPage, IndexQuery, PartialRead, ReadSnapshot, Tables, TransactError, Unprocessed,
    WriteError,
};
use afterwrite_model::effect::{ItemKey, Write, WriteAction, WriteRefusal};
use afterwrite_model::record::{AttributeValue, Item};
use afterwrite_model::{Error, ErrorKind};

use self::late::{IndexVersions, LateRequest, LateRequests};
pub(crate) use self::rates::FaultDraws;
pub use self::rates::{FaultRates, InjectedFaults};

/// Tables with random faults; see the module.
pub struct FaultyTables<T> {
    tables: T,
    state: Mutex<FaultDraws>,
    late: Mutex<LateRequests>,
    versions: Mutex<IndexVersions>,
}

/// A fault of a write before it takes effect.
enum EarlyFault {
    Conflict,
    Throttle,
    Rejected,
    Unavailable,
}

impl<T: Tables> FaultyTables<T> {
    /// Wraps tables. The same seed and the same calls produce the same faults.
    pub fn new(tables: T, rates: FaultRates, seed: u64) -> Self {
        Self {
            tables,
            state: Mutex::new(FaultDraws::new(rates, seed)),
            late: Mutex::default(),
            versions: Mutex::default(),
        }
    }

    /// The wrapped tables.
    pub fn inner(&self) -> &T {
        &self.tables
    }

    /// Changes the rates from the next call on. A run ends with [`FaultRates::NONE`], so that it completes.
    pub fn set_rates(&self, rates: FaultRates) {
        self.lock().rates = rates;
    }

    /// The faults injected so far.
    pub fn injected(&self) -> InjectedFaults {
        self.lock().injected
    }

    /// Names the author of the requests that are sent from now on.
    pub fn set_author(&self, author: u64) {
        locked(&self.late).author = author;
    }

    /// Whether a request has not taken effect yet.
    pub fn has_late_requests(&self) -> bool {
        !locked(&self.late).waiting.is_empty()
    }

    /// Carries out the oldest request that has not taken effect yet, if its condition holds by now; returns its author.
    pub async fn land(&self) -> Option<u64> {
        let (author, request) = locked(&self.late).waiting.pop_front()?;
        // Nobody waits for the result.
        match request {
            LateRequest::Write(write) => drop(self.tables.write(&write).await),
            LateRequest::Transaction(writes) => drop(self.tables.transact(&writes).await),
        }
        Some(author)
    }

    /// Adds a version that an item had, for indexes that lag: `partition` is the item's partition key in the index.
    pub fn add_earlier_version(&self, partition: &str, item: Item) {
        locked(&self.versions).add(partition, item);
    }

    async fn yield_to_others(&self) {
        let extra = {
            let mut state = self.lock();
            let is_slow = state.occurs(|rates| rates.slow, |injected| &mut injected.slow);
            if is_slow { 1 + state.below(8) } else { 0 }
        };
        for _ in 0..=extra {
            yield_once().await;
        }
    }

    fn early_fault(&self, can_be_rejected: bool) -> Option<EarlyFault> {
        let mut state = self.lock();
        if state.occurs(|rates| rates.unavailable, |injected| &mut injected.unavailable) {
            Some(EarlyFault::Unavailable)
        } else if state.occurs(|rates| rates.conflict, |injected| &mut injected.conflicts) {
            Some(EarlyFault::Conflict)
        } else if state.occurs(|rates| rates.throttle, |injected| &mut injected.throttles) {
            Some(EarlyFault::Throttle)
        } else if can_be_rejected && state.occurs(|rates| rates.rejected, |injected| &mut injected.rejected) {
            Some(EarlyFault::Rejected)
        } else {
            None
        }
    }

    /// Keeps a request that takes effect later, if this fault is drawn: its author gets an error or no answer.
    async fn is_late(&self, request: impl FnOnce() -> LateRequest) -> bool {
        if !self.lock().occurs(|rates| rates.late, |injected| &mut injected.late) {
            return false;
        }
        locked(&self.late).push(request());
        let is_answered = self.lock().random.chance(700);
        if !is_answered {
            pending::<()>().await;
        }
        true
    }

    fn response_is_lost(&self) -> bool {
        self.lock().occurs(|rates| rates.lost_answer, |injected| &mut injected.lost_answers)
    }

    fn read_fails(&self) -> bool {
        self.lock().occurs(|rates| rates.unavailable, |injected| &mut injected.unavailable)
    }

    /// Never returns if this fault is drawn.
    async fn hang(&self) {
        if self.lock().occurs(|rates| rates.hang, |injected| &mut injected.hangs) {
            pending::<()>().await;
        }
    }

    /// The number of keys that are read first, if the rest is read later.
    fn torn_at(&self, keys: usize) -> Option<usize> {
        let mut state = self.lock();
        let is_torn = keys > 1 && state.occurs(|rates| rates.torn_read, |injected| &mut injected.torn_reads);
        is_torn.then(|| 1 + state.below(keys - 1))
    }

    /// Refuses some of a transaction's actions, at least one.
    fn some_refused(&self, count: usize, refusal: &WriteRefusal) -> TransactError {
        let mut state = self.lock();
        let mut reasons: Vec<Option<WriteRefusal>> =
            (0..count).map(|_| state.random.chance(300).then(|| refusal.clone())).collect();
        let chosen = state.below(count);
        if let Some(reason) = reasons.get_mut(chosen) {
            *reason = Some(refusal.clone());
        }
        TransactError::Cancelled(reasons)
    }

    /// Rejects one of a transaction's actions, or the whole request.
    fn one_rejected(&self, count: usize) -> TransactError {
        let mut state = self.lock();
        if state.random.chance(400) {
            return TransactError::Failed(Error::new(ErrorKind::Rejected, "injected: an invalid request"));
        }
        let chosen = state.below(count);
        TransactError::Cancelled((0..count).map(|index| (index == chosen).then(invalid)).collect())
    }

    /// Replaces or supplements the answer of an index by an earlier version of an item.
    fn with_earlier_version(&self, query: &IndexQuery, mut page: IndexPage) -> IndexPage {
        let versions = locked(&self.versions);
        let earlier = versions.matching(query);
        let mut state = self.lock();
        if earlier.is_empty() {
            return page;
        }
        let chosen = state.below(earlier.len());
        let chosen = earlier.get(chosen).copied().cloned();
        if state.occurs(|rates| rates.index_stale, |injected| &mut injected.index_stale) {
            page.items = chosen.into_iter().collect();
        } else if state.occurs(|rates| rates.index_double, |injected| &mut injected.index_doubles) {
            let at = state.below(page.items.len() + 1);
            page.items.splice(at..at, chosen);
        }
        page
    }

    fn lock(&self) -> MutexGuard<'_, FaultDraws> {
        locked(&self.state)
    }
}

fn locked<S>(state: &Mutex<S>) -> MutexGuard<'_, S> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn unavailable() -> Error {
    Error::new(ErrorKind::Unavailable, "injected: the service could not be reached")
}

fn lost() -> Error {
    Error::new(ErrorKind::Unavailable, "injected: the response was lost")
}

/// Whether the write puts a ledger entry: its records are delivered or reconciled again. A rejected mirror or remembered
/// lookup is sent again at the item's next change only.
fn is_ledger_entry(write: &Write) -> bool {
    let WriteAction::Put(item) = &write.action else { return false };
    item.get("EntityType").and_then(AttributeValue::as_text) == Some("LEDGER")
}

fn invalid() -> WriteRefusal {
    WriteRefusal::Invalid("injected: an invalid write".to_owned())
}

impl<T: Tables> Tables for FaultyTables<T> {
    async fn read(&self, keys: &[ItemKey]) -> Result<ReadSnapshot, Error> {
        let PartialRead { items, server_time } = self.read_some(keys).await?;
        Ok(ReadSnapshot { items: items.into_iter().collect::<Result<_, Unprocessed>>()?, server_time })
    }

    async fn read_some(&self, keys: &[ItemKey]) -> Result<PartialRead, Error> {
        self.yield_to_others().await;
        if self.read_fails() {
            return Err(unavailable());
        }
        self.hang().await;
        let Some(at) = self.torn_at(keys.len()) else { return self.tables.read_some(keys).await };
        let (first, rest) = keys.split_at(at);
        let mut read = self.tables.read_some(first).await?;
        let turns = 1 + self.lock().below(8);
        for _ in 0..turns {
            yield_once().await;
        }
        if self.lock().occurs(|rates| rates.partial_read, |injected| &mut injected.partial_reads) {
            let unprocessed = Unprocessed::from(unavailable());
            read.items.extend(rest.iter().map(|_| Err(unprocessed.clone())));
            return Ok(read);
        }
        let later = self.tables.read_some(rest).await?;
        read.items.extend(later.items);
        Ok(PartialRead { server_time: read.server_time.min(later.server_time), ..read })
    }

    async fn write(&self, write: &Write) -> Result<ConsumedUnits, WriteError> {
        self.yield_to_others().await;
        match self.early_fault(is_ledger_entry(write)) {
            Some(EarlyFault::Unavailable) => return Err(WriteError::Failed(unavailable())),
            Some(EarlyFault::Conflict) => return Err(WriteError::Refused(WriteRefusal::Conflict)),
            Some(EarlyFault::Throttle) => return Err(WriteError::Refused(WriteRefusal::Throttled)),
            Some(EarlyFault::Rejected) => return Err(WriteError::Refused(invalid())),
            None => {}
        }
        if self.is_late(|| LateRequest::Write(write.clone())).await {
            return Err(WriteError::Failed(lost()));
        }
        let result = self.tables.write(write).await;
        self.hang().await;
        if self.response_is_lost() { Err(WriteError::Failed(lost())) } else { result }
    }

    async fn transact(&self, writes: &[Write]) -> Result<ConsumedUnits, TransactError> {
        self.yield_to_others().await;
        match self.early_fault(true) {
            Some(EarlyFault::Unavailable) => return Err(TransactError::Failed(unavailable())),
            Some(EarlyFault::Conflict) => {
                return Err(self.some_refused(writes.len(), &WriteRefusal::Conflict));
            }
            Some(EarlyFault::Throttle) => {
                return Err(self.some_refused(writes.len(), &WriteRefusal::Throttled));
            }
            Some(EarlyFault::Rejected) => return Err(self.one_rejected(writes.len())),
            None => {}
        }
        if self.is_late(|| LateRequest::Transaction(writes.to_vec())).await {
            return Err(TransactError::Failed(lost()));
        }
        let result = self.tables.transact(writes).await;
        self.hang().await;
        if self.response_is_lost() { Err(TransactError::Failed(lost())) } else { result }
    }

    async fn query_index(&self, query: &IndexQuery) -> Result<IndexPage, Error> {
        self.yield_to_others().await;
        if self.read_fails() {
            return Err(unavailable());
        }
        self.hang().await;
        if self.lock().occurs(|rates| rates.index_throttle, |injected| &mut injected.index_throttles) {
            return Err(Error::new(ErrorKind::Unavailable, "injected: the index is throttled"));
        }
        if self.lock().occurs(|rates| rates.index_lag, |injected| &mut injected.index_lags) {
            return Ok(IndexPage::default());
        }
        let page = self.tables.query_index(query).await?;
        Ok(self.with_earlier_version(query, page))
    }
}

/// Lets other tasks run: pending once, and woken immediately.
pub fn yield_once() -> impl Future<Output = ()> + Send {
    YieldOnce { has_yielded: false }
}

struct YieldOnce {
    has_yielded: bool,
}

impl Future for YieldOnce {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.has_yielded {
            return Poll::Ready(());
        }
        self.has_yielded = true;
        context.waker().wake_by_ref();
        Poll::Pending
    }
}
