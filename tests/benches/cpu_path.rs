//! What a record costs the processor, beside what merely decoding it costs with the usual means:
//! `cargo bench -p afterwrite-tests --bench cpu_path`.
//!
//! The whole path is the handler that Lambda runs: decode, contributions, fold, pack, and every write made ready; the tables
//! take everything and hold nothing, so that what is measured is ours alone.
//!
//! All candidates read the same bytes (the recording `exam-42` in events of 100 records) in turns within one run, so that
//! whatever else the machine does, it does to all of them. An event's cost is its fastest round: a round of one event is
//! short enough to go by undisturbed, a round of the whole recording is not.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use afterwrite::Error;
use afterwrite::commit::Ledger;
use afterwrite::effect::{Key, Write};
use afterwrite::record::{Item, Timestamp, decode};
use afterwrite::sink::{Consumed, IndexQuery, Snapshot, Tables, TransactError, WriteError};
use afterwrite::table::Model;
use afterwrite_functions::Aggregator;
use afterwrite_tests::clock::StillClock;
use afterwrite_tests::recording::{Recording, event};
use aws_lambda_events::event::dynamodb::Event;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

const RECORDING: &str = "exam-42";
const RECORDS_PER_EVENT: usize = 100;
const ROUNDS: usize = 101;

/// Tables that take every write and hold nothing.
struct Void;

impl Tables for Void {
    async fn read(&self, keys: &[Key]) -> Result<Snapshot, Error> {
        Ok(Snapshot { items: vec![None; keys.len()], server_time: Timestamp::from_epoch_ms(0) })
    }

    async fn write(&self, write: &Write) -> Result<Consumed, WriteError> {
        black_box(write);
        Ok(Consumed::default())
    }

    async fn transact(&self, writes: &[Write]) -> Result<Consumed, TransactError> {
        black_box(writes);
        Ok(Consumed::default())
    }

    async fn query_index(&self, _: &IndexQuery) -> Result<Vec<Item>, Error> {
        Ok(Vec::new())
    }
}

/// The handler of the default model, over tables that cost nothing.
fn handler(end: i64) -> Aggregator<Void, StillClock> {
    let model = Arc::new(Model::load(Model::DEFAULT_NAME).expect("the default model"));
    let names = model.tables.iter().map(|table| Arc::clone(&table.name)).collect();
    let clock = StillClock::at(Timestamp::from_epoch_seconds(end + 60));
    Aggregator::new(Ledger::new(model, names, Arc::from("state"), Void, clock))
}

/// Reads an event; whether it could.
type Read<'c> = dyn Fn(&[u8]) -> bool + 'c;

/// One way of reading events.
struct Candidate<'c> {
    name: &'static str,
    read: Box<Read<'c>>,
    /// For each event.
    fastest_rounds: Vec<Duration>,
}

impl<'c> Candidate<'c> {
    fn new(name: &'static str, events: &[String], read: impl Fn(&[u8]) -> bool + 'c) -> Self {
        Self { name, read: Box::new(read), fastest_rounds: vec![Duration::MAX; events.len()] }
    }

    fn measure(&mut self, events: &[String]) {
        for (event, fastest) in events.iter().zip(&mut self.fastest_rounds) {
            let start = Instant::now();
            let could_read = black_box((self.read)(black_box(event.as_bytes())));
            *fastest = start.elapsed().min(*fastest);
            assert!(could_read, "{} cannot read the recording", self.name);
        }
    }

    fn cost(&self) -> Duration {
        self.fastest_rounds.iter().sum()
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let recording = Recording::load(RECORDING);
    let records: Vec<&RawValue> = recording.records().collect();
    let event = |records: &[&RawValue]| String::from_utf8(event(records.iter().copied()));
    let events: Vec<String> = records.chunks(RECORDS_PER_EVENT).map(event).collect::<Result<_, _>>()?;
    let bytes: usize = events.iter().map(String::len).sum();
    println!("{} records of {} bytes on average\n", records.len(), bytes / records.len());

    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let handler = handler(recording.end());
    let deadline = Timestamp::from_epoch_ms(i64::MAX);
    let handle = |event: &[u8]| runtime.block_on(handler.handle(event, deadline));
    let mut candidates = [
        Candidate::new("serde_json into aws_lambda_events", &events, |event| {
            serde_json::from_slice::<Event>(event).is_ok_and(|event| !black_box(event).records.is_empty())
        }),
        Candidate::new("serde_json skipping (IgnoredAny)", &events, |event| {
            serde_json::from_slice::<IgnoredAny>(event).is_ok()
        }),
        Candidate::new("afterwrite: decode", &events, |event| {
            decode(event, &handler.ledger().model().vocabulary)
                .is_ok_and(|batch| black_box(batch).records.iter().all(Result::is_ok))
        }),
        Candidate::new("afterwrite: the whole path", &events, |event| {
            handle(event).is_ok_and(|handled| black_box(handled).failures.is_empty())
        }),
    ];
    for _ in 0..ROUNDS {
        for candidate in &mut candidates {
            candidate.measure(&events);
        }
    }
    let count = f64::from(u32::try_from(records.len())?);
    let costs = candidates.each_ref().map(|candidate| candidate.cost().as_secs_f64() * 1e6 / count);
    let [full, skip, ..] = costs;
    println!("{:36} {:>9} {:>12} {:>9}", "", "µs/record", "× faster", "× skip");
    for (candidate, cost) in candidates.iter().zip(costs) {
        println!("{:36} {cost:>9.2} {:>12.2} {:>9.2}", candidate.name, full / cost, cost / skip);
    }
    Ok(())
}
