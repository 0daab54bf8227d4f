//! Tables that fail now and then, as real ones do, by a seed.
//!
//! ```text
//! call ──▶ yields once, or a few times more if slow
//!      ──▶ unavailable?        ──yes──▶ Unavailable, no effect
//!      ──▶ conflict, throttle? ──yes──▶ refused, no effect
//!      ──▶ the tables
//!      ──▶ answer lost?        ──yes──▶ Unavailable, though it took effect
//!      ──▶ their answer
//! ```
//!
//! Each call yields *before* it takes effect: between any two calls of a consumer everyone else can be scheduled, and a
//! consumer dropped while it waits has crashed after its last effect and before its next.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use afterwrite::effect::{ItemKey, Write, WriteRefusal};
use afterwrite::record::Item;
use afterwrite::sink::{ConsumedUnits, IndexQuery, ReadSnapshot, Tables, TransactError, WriteError};
use afterwrite::{Error, ErrorKind};

use crate::random::SeededRandom;

/// How often a call suffers what, in a thousand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    /// A write refused because of another request, or a transaction cancelled with some actions so refused.
    pub conflict: u64,
    /// The same for throttling.
    pub throttle: u64,
    /// A call that failed before it took effect.
    pub unavailable: u64,
    /// A write that took effect (or was refused) although its caller is told that the service could not be reached.
    pub lost_answer: u64,
    /// A call that others overtake.
    pub slow: u64,
    /// An index that does not know yet what was written.
    pub index_lag: u64,
    /// An index that is throttled while its table is not.
    pub index_throttle: u64,
}

impl Rates {
    /// Nothing ever fails.
    pub const NONE: Self = Self {
        conflict: 0,
        throttle: 0,
        unavailable: 0,
        lost_answer: 0,
        slow: 0,
        index_lag: 0,
        index_throttle: 0,
    };

    /// Every fault, each once in some twenty calls.
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

/// How many faults of each kind were injected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Injected {
    /// Writes and transactions refused for a conflict.
    pub conflicts: u64,
    /// Writes and transactions throttled.
    pub throttles: u64,
    /// Calls that failed without effect.
    pub unavailable: u64,
    /// Writes whose answer was lost.
    pub lost_answers: u64,
    /// Calls that were overtaken.
    pub slow: u64,
    /// Index queries that found nothing for being early.
    pub index_lags: u64,
    /// Index queries that were throttled.
    pub index_throttles: u64,
}

/// Tables behind which others work by chance; see the module.
pub struct Faulty<T> {
    tables: T,
    state: Mutex<Draws>,
}

/// Whether the next fault occurs, drawn at given rates and counted.
pub(crate) struct Draws {
    pub(crate) random: SeededRandom,
    pub(crate) rates: Rates,
    pub(crate) injected: Injected,
}

/// The fault that a write is to suffer before it takes effect.
enum Early {
    Conflict,
    Throttle,
    Unavailable,
}

impl<T: Tables> Faulty<T> {
    /// Wraps tables; equal seeds and equal calls give equal faults.
    pub fn new(tables: T, rates: Rates, seed: u64) -> Self {
        Self { tables, state: Mutex::new(Draws::new(rates, seed)) }
    }

    /// The tables themselves.
    pub fn inner(&self) -> &T {
        &self.tables
    }

    /// Changes the rates from the next call on: a run ends with [`Rates::NONE`], so that it can end.
    pub fn set_rates(&self, rates: Rates) {
        self.lock().rates = rates;
    }

    /// What was injected so far.
    pub fn injected(&self) -> Injected {
        self.lock().injected
    }

    async fn yields(&self) {
        let extra = {
            let mut state = self.lock();
            let is_slow = state.occurs(|rates| rates.slow, |injected| &mut injected.slow);
            if is_slow { 1 + state.random.below(8) } else { 0 }
        };
        for _ in 0..=extra {
            yield_once().await;
        }
    }

    fn early_fault(&self) -> Option<Early> {
        let mut state = self.lock();
        if state.occurs(|rates| rates.unavailable, |injected| &mut injected.unavailable) {
            Some(Early::Unavailable)
        } else if state.occurs(|rates| rates.conflict, |injected| &mut injected.conflicts) {
            Some(Early::Conflict)
        } else if state.occurs(|rates| rates.throttle, |injected| &mut injected.throttles) {
            Some(Early::Throttle)
        } else {
            None
        }
    }

    fn answer_is_lost(&self) -> bool {
        self.lock().occurs(|rates| rates.lost_answer, |injected| &mut injected.lost_answers)
    }

    fn read_fails(&self) -> bool {
        self.lock().occurs(|rates| rates.unavailable, |injected| &mut injected.unavailable)
    }

    /// The refusal for some of a transaction's actions, at least one.
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

    fn lock(&self) -> MutexGuard<'_, Draws> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Draws {
    pub(crate) fn new(rates: Rates, seed: u64) -> Self {
        Self { random: SeededRandom::new(seed), rates, injected: Injected::default() }
    }

    /// Draws at one of the rates, and counts it if it occurs.
    pub(crate) fn occurs(
        &mut self,
        rate: impl Fn(&Rates) -> u64,
        count: impl Fn(&mut Injected) -> &mut u64,
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
    Error::new(ErrorKind::Unavailable, "injected: the answer was lost")
}

impl<T: Tables> Tables for Faulty<T> {
    async fn read(&self, keys: &[ItemKey]) -> Result<ReadSnapshot, Error> {
        self.yields().await;
        if self.read_fails() {
            return Err(unavailable());
        }
        self.tables.read(keys).await
    }

    async fn write(&self, write: &Write) -> Result<ConsumedUnits, WriteError> {
        self.yields().await;
        match self.early_fault() {
            Some(Early::Unavailable) => return Err(WriteError::Failed(unavailable())),
            Some(Early::Conflict) => return Err(WriteError::Refused(WriteRefusal::Conflict)),
            Some(Early::Throttle) => return Err(WriteError::Refused(WriteRefusal::Throttled)),
            None => {}
        }
        let answer = self.tables.write(write).await;
        if self.answer_is_lost() { Err(WriteError::Failed(lost())) } else { answer }
    }

    async fn transact(&self, writes: &[Write]) -> Result<ConsumedUnits, TransactError> {
        self.yields().await;
        match self.early_fault() {
            Some(Early::Unavailable) => return Err(TransactError::Failed(unavailable())),
            Some(Early::Conflict) => return Err(self.some_refused(writes.len(), &WriteRefusal::Conflict)),
            Some(Early::Throttle) => return Err(self.some_refused(writes.len(), &WriteRefusal::Throttled)),
            None => {}
        }
        let answer = self.tables.transact(writes).await;
        if self.answer_is_lost() { Err(TransactError::Failed(lost())) } else { answer }
    }

    async fn query_index(&self, query: &IndexQuery) -> Result<Vec<Item>, Error> {
        self.yields().await;
        if self.read_fails() {
            return Err(unavailable());
        }
        if self.lock().occurs(|rates| rates.index_throttle, |injected| &mut injected.index_throttles) {
            return Err(Error::new(ErrorKind::Unavailable, "injected: the index is throttled"));
        }
        if self.lock().occurs(|rates| rates.index_lag, |injected| &mut injected.index_lags) {
            return Ok(Vec::new());
        }
        self.tables.query_index(query).await
    }
}

/// Lets everyone else have a turn: pending once, and awake at once.
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
    use afterwrite_memory::{MemoryTables, TableDefinition};
    use std::pin::pin;
    use std::task::Waker;

    fn tables(rates: Rates, seed: u64) -> Faulty<MemoryTables> {
        let memory = MemoryTables::new();
        memory.create_table(TableDefinition::new("t", "PK"));
        Faulty::new(memory, rates, seed)
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

    /// Runs a future to its end; gives how often it was pending.
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
        let tables = tables(Rates::NONE, 1);
        let write = increment("a");
        assert_eq!(run(tables.write(&write)).1, 1);
        assert_eq!(run(tables.transact(std::slice::from_ref(&write))).1, 1);
        assert_eq!(run(tables.read(std::slice::from_ref(&write.key))).1, 1);
        assert_eq!(tables.injected(), Injected::default());
    }

    #[test]
    fn a_write_dropped_while_pending_has_no_effect() {
        let tables = tables(Rates::NONE, 1);
        let write = increment("a");
        let mut future = Box::pin(tables.write(&write));
        assert!(future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        drop(future);
        assert!(tables.inner().scan("t").is_empty());
    }

    #[test]
    fn a_lost_answer_took_effect_and_an_unavailable_service_did_not() {
        let write = increment("a");
        for (rates, items) in
            [(Rates { lost_answer: 1000, ..Rates::NONE }, 1), (Rates { unavailable: 1000, ..Rates::NONE }, 0)]
        {
            let tables = tables(rates, 1);
            let (answer, _) = run(tables.write(&write));
            assert!(matches!(answer, Err(WriteError::Failed(error)) if error.is_retryable()));
            assert_eq!(tables.inner().scan("t").len(), items);
        }
    }

    #[test]
    fn a_conflict_has_no_effect_and_names_at_least_one_action() {
        for seed in 0..50 {
            let tables = tables(Rates { conflict: 1000, ..Rates::NONE }, seed);
            let (answer, _) = run(tables.transact(&[increment("a"), increment("b")]));
            let Err(TransactError::Cancelled(reasons)) = answer else { panic!("not cancelled") };
            assert_eq!(reasons.len(), 2);
            assert!(reasons.contains(&Some(WriteRefusal::Conflict)));
            assert!(tables.inner().scan("t").is_empty());
        }
    }

    #[test]
    fn a_seed_repeats_itself() {
        let trace = |seed| {
            let tables = tables(Rates::SOME, seed);
            let write = increment("a");
            let answers: Vec<String> = (0..200).map(|_| format!("{:?}", run(tables.write(&write)))).collect();
            (answers, tables.injected(), tables.inner().scan("t"))
        };
        assert_eq!(trace(5), trace(5));
        assert_ne!(trace(5).0, trace(6).0);
        let (_, injected, _) = trace(5);
        assert!(injected.conflicts > 0 && injected.throttles > 0 && injected.unavailable > 0);
        assert!(injected.lost_answers > 0 && injected.slow > 0);
    }
}
