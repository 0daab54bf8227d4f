//! Benchmarks of processor time: tables that cost nothing, and candidates that are measured in turns.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use afterwrite_functions::StreamAggregator;
use afterwrite_ledger::Ledger;
use afterwrite_ledger::tables::{
    ConsumedUnits, IndexPage, IndexQuery, ReadSnapshot, Tables, TransactError, WriteError,
};
use afterwrite_model::Error;
use afterwrite_model::effect::{ItemKey, Write};
use afterwrite_model::record::Timestamp;
use afterwrite_model::table::Model;

use crate::clock::StillClock;

/// Tables that accept every write and store nothing.
#[derive(Debug)]
pub struct DiscardingTables;

impl Tables for DiscardingTables {
    async fn read(&self, keys: &[ItemKey]) -> Result<ReadSnapshot, Error> {
        Ok(ReadSnapshot { items: vec![None; keys.len()], server_time: Timestamp::from_epoch_ms(0) })
    }

    async fn write(&self, write: &Write) -> Result<ConsumedUnits, WriteError> {
        black_box(write);
        Ok(ConsumedUnits::default())
    }

    async fn transact(&self, writes: &[Write]) -> Result<ConsumedUnits, TransactError> {
        black_box(writes);
        Ok(ConsumedUnits::default())
    }

    async fn query_index(&self, _: &IndexQuery) -> Result<IndexPage, Error> {
        Ok(IndexPage::default())
    }
}

/// The handler of a model over such tables, one minute after `end` (epoch seconds).
#[must_use]
pub fn handler(model: Model, end: i64) -> StreamAggregator<DiscardingTables, StillClock> {
    let names = model.tables.iter().map(|table| Arc::clone(&table.name)).collect();
    let clock = StillClock::at(Timestamp::from_epoch_seconds(end + 60));
    StreamAggregator::new(Ledger::new(Arc::new(model), names, Arc::from("state"), DiscardingTables, clock))
}

/// Reads an event, and returns whether it succeeded.
type EventReader<'c> = dyn Fn(&[u8]) -> bool + 'c;

/// A measured way to read events.
///
/// The cost of an event is its fastest round: one event is short enough to run undisturbed, all events together are not. Candidates
/// are measured in turns, so that other load on the machine affects all of them.
pub struct MeasuredCandidate<'c> {
    /// The name in the report.
    pub name: &'static str,
    events: &'c [String],
    read: Box<EventReader<'c>>,
    /// The fastest round of each event.
    fastest_rounds: Vec<Duration>,
}

impl<'c> MeasuredCandidate<'c> {
    /// A candidate that reads these events.
    pub fn new(name: &'static str, events: &'c [String], read: impl Fn(&[u8]) -> bool + 'c) -> Self {
        Self { name, events, read: Box::new(read), fastest_rounds: vec![Duration::MAX; events.len()] }
    }

    /// Measures one round of all events.
    ///
    /// # Panics
    /// If an event cannot be read.
    pub fn measure(&mut self) {
        for (event, fastest) in self.events.iter().zip(&mut self.fastest_rounds) {
            let start = Instant::now();
            let could_read = black_box((self.read)(black_box(event.as_bytes())));
            *fastest = start.elapsed().min(*fastest);
            assert!(could_read, "{} cannot read the recording", self.name);
        }
    }

    /// The cost of all events together.
    #[must_use]
    pub fn cost(&self) -> Duration {
        self.fastest_rounds.iter().sum()
    }
}
