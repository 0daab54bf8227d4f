//! Tables with random faults, reproducible by a seed.
//!
//! ```text
//! call ──▶ yields once, or several times if slow
//!      ──▶ unavailable?        ──yes──▶ Unavailable, without effect
//!      ──▶ conflict, throttle? ──yes──▶ refused, without effect
//!      ──▶ the tables
//!      ──▶ response lost?      ──yes──▶ Unavailable, although it took effect
//!      ──▶ the tables' response
//! ```
//!
//! Each call yields *before* it takes effect: other tasks can run between any two calls of a consumer, and a consumer that is dropped
//! while it waits has crashed after its last effect and before its next one.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use afterwrite::effect::{ItemKey, Write, WriteRefusal};
use afterwrite::sink::{
    ConsumedUnits, IndexPage, IndexQuery, ReadSnapshot, Tables, TransactError, WriteError,
};
use afterwrite::{Error, ErrorKind};

use crate::random::SeededRandom;

/// The probability of each fault per call, in thousandths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultRates {
    /// A write is refused because of another request, or a transaction is cancelled with some actions refused for that reason.
    pub conflict: u64,
    /// The same for throttling.
    pub throttle: u64,
    /// A call fails before it takes effect.
    pub unavailable: u64,
    /// A write takes effect (or is refused), but its caller gets an error that the service could not be reached.
    pub lost_answer: u64,
    /// Other calls overtake a call.
    pub slow: u64,
    /// An index query finds nothing, because the index lags behind the table.
    pub index_lag: u64,
    /// An index is throttled while its table is not.
    pub index_throttle: u64,
}

impl FaultRates {
    /// No faults.
    pub const NONE: Self = Self {
        conflict: 0,
        throttle: 0,
        unavailable: 0,
        lost_answer: 0,
        slow: 0,
        index_lag: 0,
        index_throttle: 0,
    };

    /// Every fault, each in about one of twenty calls.
    pub const SOME: Self = Self {
        conflict: 50,
        throttle: 50,
        unavailable: 50,
        lost_answer: 50,
        slow: 50,
        index_lag: 50,
        index_throttle: 50,
    };
}

/// The number of injected faults by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InjectedFaults {
    /// Writes and transactions refused because of a conflict.
    pub conflicts: u64,
    /// Throttled writes and transactions.
    pub throttles: u64,
    /// Calls that failed without effect.
    pub unavailable: u64,
    /// Writes whose response was lost.
    pub lost_answers: u64,
    /// Overtaken calls.
    pub slow: u64,
    /// Index queries that found nothing because of the lag.
    pub index_lags: u64,
    /// Throttled index queries.
    pub index_throttles: u64,
}

/// Tables with random faults; see the module.
pub struct FaultyTables<T> {
    tables: T,
    state: Mutex<FaultDraws>,
}

/// Draws faults at these rates, and counts them.
pub(crate) struct FaultDraws {
    pub(crate) random: SeededRandom,
    pub(crate) rates: FaultRates,
    pub(crate) injected: InjectedFaults,
}

/// A fault of a write before it takes effect.
enum EarlyFault {
    Conflict,
    Throttle,
    Unavailable,
}

impl<T: Tables> FaultyTables<T> {
    /// Wraps tables. The same seed and the same calls produce the same faults.
    pub fn new(tables: T, rates: FaultRates, seed: u64) -> Self {
        Self { tables, state: Mutex::new(FaultDraws::new(rates, seed)) }
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

    async fn yield_to_others(&self) {
        let extra = {
            let mut state = self.lock();
            let is_slow = state.occurs(|rates| rates.slow, |injected| &mut injected.slow);
            if is_slow { 1 + state.random.below(8) } else { 0 }
        };
        for _ in 0..=extra {
            yield_once().await;
        }
    }

    fn early_fault(&self) -> Option<EarlyFault> {
        let mut state = self.lock();
        if state.occurs(|rates| rates.unavailable, |injected| &mut injected.unavailable) {
            Some(EarlyFault::Unavailable)
        } else if state.occurs(|rates| rates.conflict, |injected| &mut injected.conflicts) {
            Some(EarlyFault::Conflict)
        } else if state.occurs(|rates| rates.throttle, |injected| &mut injected.throttles) {
            Some(EarlyFault::Throttle)
        } else {
            None
        }
    }

    fn response_is_lost(&self) -> bool {
        self.lock().occurs(|rates| rates.lost_answer, |injected| &mut injected.lost_answers)
    }

    fn read_fails(&self) -> bool {
        self.lock().occurs(|rates| rates.unavailable, |injected| &mut injected.unavailable)
    }

    /// Refuses some of a transaction's actions, at least one.
    fn some_refused(&self, count: usize, refusal: &WriteRefusal) -> TransactError {
        let mut state = self.lock();
        let mut reasons: Vec<Option<WriteRefusal>> =
            (0..count).map(|_| state.random.chance(300).then(|| refusal.clone())).collect();
        let chosen = state.random.below(u64::try_from(count).unwrap_or(1));
        if let Some(reason) = usize::try_from(chosen).ok().and_then(|chosen| reasons.get_mut(chosen)) {
            *reason = Some(refusal.clone());
        }
        TransactError::Cancelled(reasons)
    }

    fn lock(&self) -> MutexGuard<'_, FaultDraws> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FaultDraws {
    pub(crate) fn new(rates: FaultRates, seed: u64) -> Self {
        Self { random: SeededRandom::new(seed), rates, injected: InjectedFaults::default() }
    }

    /// Draws a fault at one of the rates, and counts it if it occurs.
    pub(crate) fn occurs(
        &mut self,
        rate: impl Fn(&FaultRates) -> u64,
        count: impl Fn(&mut InjectedFaults) -> &mut u64,
    ) -> bool {
        let occurs = self.random.chance(rate(&self.rates));
        if occurs {
            *count(&mut self.injected) += 1;
        }
        occurs
    }
}

fn unavailable() -> Error {
    Error::new(ErrorKind::Unavailable, "injected: the service could not be reached")
}

fn lost() -> Error {
    Error::new(ErrorKind::Unavailable, "injected: the response was lost")
}

impl<T: Tables> Tables for FaultyTables<T> {
    async fn read(&self, keys: &[ItemKey]) -> Result<ReadSnapshot, Error> {
        self.yield_to_others().await;
        if self.read_fails() {
            return Err(unavailable());
        }
        self.tables.read(keys).await
    }

    async fn write(&self, write: &Write) -> Result<ConsumedUnits, WriteError> {
        self.yield_to_others().await;
        match self.early_fault() {
            Some(EarlyFault::Unavailable) => return Err(WriteError::Failed(unavailable())),
            Some(EarlyFault::Conflict) => return Err(WriteError::Refused(WriteRefusal::Conflict)),
            Some(EarlyFault::Throttle) => return Err(WriteError::Refused(WriteRefusal::Throttled)),
            None => {}
        }
        let result = self.tables.write(write).await;
        if self.response_is_lost() { Err(WriteError::Failed(lost())) } else { result }
    }

    async fn transact(&self, writes: &[Write]) -> Result<ConsumedUnits, TransactError> {
        self.yield_to_others().await;
        match self.early_fault() {
            Some(EarlyFault::Unavailable) => return Err(TransactError::Failed(unavailable())),
            Some(EarlyFault::Conflict) => {
                return Err(self.some_refused(writes.len(), &WriteRefusal::Conflict));
            }
            Some(EarlyFault::Throttle) => {
                return Err(self.some_refused(writes.len(), &WriteRefusal::Throttled));
            }
            None => {}
        }
        let result = self.tables.transact(writes).await;
        if self.response_is_lost() { Err(TransactError::Failed(lost())) } else { result }
    }

    async fn query_index(&self, query: &IndexQuery) -> Result<IndexPage, Error> {
        self.yield_to_others().await;
        if self.read_fails() {
            return Err(unavailable());
        }
        if self.lock().occurs(|rates| rates.index_throttle, |injected| &mut injected.index_throttles) {
            return Err(Error::new(ErrorKind::Unavailable, "injected: the index is throttled"));
        }
        if self.lock().occurs(|rates| rates.index_lag, |injected| &mut injected.index_lags) {
            return Ok(IndexPage::default());
        }
        self.tables.query_index(query).await
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

#[cfg(test)]
mod tests {
    use super::*;
    use afterwrite::effect::{AttributeChange, KeyAttribute, WriteAction, WriteCondition};
    use afterwrite::record::Item;
    use afterwrite_memory::{MemoryTables, TableDefinition};
    use std::pin::pin;
    use std::task::Waker;

    fn tables(rates: FaultRates, seed: u64) -> FaultyTables<MemoryTables> {
        let memory = MemoryTables::new();
        memory.create_table(TableDefinition::new("t", "PK"));
        FaultyTables::new(memory, rates, seed)
    }

    fn increment(key: &str) -> Write {
        let partition = KeyAttribute { name: "PK".into(), value: key.to_owned().into() };
        let key = ItemKey { table: "t".into(), partition, sort: None };
        Write {
            key,
            condition: WriteCondition::Always,
            action: WriteAction::Update(vec![AttributeChange::Add("n".into(), 1.into())]),
        }
    }

    /// Runs a future to completion; returns its output and how often it was pending.
    fn run<F: Future>(future: F) -> (F::Output, usize) {
        let mut future = pin!(future);
        let mut context = Context::from_waker(Waker::noop());
        let mut pending = 0;
        loop {
            match future.as_mut().poll(&mut context) {
                Poll::Ready(output) => return (output, pending),
                Poll::Pending => pending += 1,
            }
        }
    }

    #[test]
    fn every_call_is_pending_exactly_once() {
        let tables = tables(FaultRates::NONE, 1);
        let write = increment("a");
        assert_eq!(run(tables.write(&write)).1, 1);
        assert_eq!(run(tables.transact(std::slice::from_ref(&write))).1, 1);
        assert_eq!(run(tables.read(std::slice::from_ref(&write.key))).1, 1);
        assert_eq!(tables.injected(), InjectedFaults::default());
    }

    #[test]
    fn a_write_dropped_while_pending_has_no_effect() {
        let tables = tables(FaultRates::NONE, 1);
        let write = increment("a");
        let mut future = Box::pin(tables.write(&write));
        assert!(future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        drop(future);
        assert!(tables.inner().scan("t").is_empty());
    }

    #[test]
    fn a_call_with_a_lost_response_took_effect_and_an_unavailable_one_did_not() {
        let write = increment("a");
        for (rates, items) in [
            (FaultRates { lost_answer: 1000, ..FaultRates::NONE }, 1),
            (FaultRates { unavailable: 1000, ..FaultRates::NONE }, 0),
        ] {
            let tables = tables(rates, 1);
            let (result, _) = run(tables.write(&write));
            assert!(matches!(result, Err(WriteError::Failed(error)) if error.is_retryable()));
            assert_eq!(tables.inner().scan("t").len(), items);
        }
    }

    #[test]
    fn a_conflict_has_no_effect_and_refuses_at_least_one_action() {
        for seed in 0..50 {
            let tables = tables(FaultRates { conflict: 1000, ..FaultRates::NONE }, seed);
            let (result, _) = run(tables.transact(&[increment("a"), increment("b")]));
            let Err(TransactError::Cancelled(reasons)) = result else { panic!("not cancelled") };
            assert_eq!(reasons.len(), 2);
            assert!(reasons.contains(&Some(WriteRefusal::Conflict)));
            assert!(tables.inner().scan("t").is_empty());
        }
    }

    /// The results of 200 writes with this seed, the injected faults and the items.
    fn trace(seed: u64) -> (Vec<String>, InjectedFaults, Vec<Item>) {
        let tables = tables(FaultRates::SOME, seed);
        let write = increment("a");
        let results = (0..200).map(|_| format!("{:?}", run(tables.write(&write)))).collect();
        (results, tables.injected(), tables.inner().scan("t"))
    }

    #[test]
    fn a_seed_reproduces_its_faults() {
        assert_eq!(trace(5), trace(5));
        assert_ne!(trace(5).0, trace(6).0);
        let (_, injected, _) = trace(5);
        assert!(injected.conflicts > 0 && injected.throttles > 0 && injected.unavailable > 0);
        assert!(injected.lost_answers > 0 && injected.slow > 0);
    }
}
