//! What the benchmarks of the processor's time share: tables that cost nothing, and events read in turns.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use afterwrite::Error;
use afterwrite::commit::Ledger;
use afterwrite::effect::{ItemKey, Write};
use afterwrite::record::{Item, Timestamp};
use afterwrite::sink::{ConsumedUnits, IndexQuery, ReadSnapshot, Tables, TransactError, WriteError};
use afterwrite::table::Model;
use afterwrite_functions::Aggregator;

use crate::clock::StillClock;

/// Tables that take every write and hold nothing.
#[derive(Debug)]
pub struct Void;

impl Tables for Void {
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

    async fn query_index(&self, _: &IndexQuery) -> Result<Vec<Item>, Error> {
        Ok(Vec::new())
    }
}

/// The handler of a model over such tables, a minute after `end`, in epoch seconds.
#[must_use]
pub fn handler(model: Model, end: i64) -> Aggregator<Void, StillClock> {
    let names = model.tables.iter().map(|table| Arc::clone(&table.name)).collect();
    let clock = StillClock::at(Timestamp::from_epoch_seconds(end + 60));
    Aggregator::new(Ledger::new(Arc::new(model), names, Arc::from("state"), Void, clock))
}

/// Reads an event; whether it could.
type Read<'c> = dyn Fn(&[u8]) -> bool + 'c;

/// One way of reading events.
///
/// An event's cost is its fastest round: a round of one event is short enough to go by undisturbed, a round of all of them is
/// not. Candidates that are measured in turns share whatever else the machine does.
pub struct Candidate<'c> {
    /// What it is called.
    pub name: &'static str,
    events: &'c [String],
    read: Box<Read<'c>>,
    /// For each event.
    fastest_rounds: Vec<Duration>,
}

impl<'c> Candidate<'c> {
    /// A way of reading these events.
    pub fn new(name: &'static str, events: &'c [String], read: impl Fn(&[u8]) -> bool + 'c) -> Self {
        Self { name, events, read: Box::new(read), fastest_rounds: vec![Duration::MAX; events.len()] }
    }

    /// One round of all events.
    ///
    /// # Panics
    /// If one of them cannot be read.
    pub fn measure(&mut self) {
        for (event, fastest) in self.events.iter().zip(&mut self.fastest_rounds) {
            let start = Instant::now();
            let could_read = black_box((self.read)(black_box(event.as_bytes())));
            *fastest = start.elapsed().min(*fastest);
            assert!(could_read, "{} cannot read the recording", self.name);
        }
    }

    /// What all events cost.
    #[must_use]
    pub fn cost(&self) -> Duration {
        self.fastest_rounds.iter().sum()
    }
}
