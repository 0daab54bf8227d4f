//! What decoding costs, beside what it would cost with the usual means: `cargo bench -p afterwrite --bench decode`.
//!
//! All candidates read the same bytes (the recording `exam-42` in events of 100 records) in turns within one run, so that
//! whatever else the machine does, it does to all of them. An event's cost is its fastest round: a round of one event is
//! short enough to go by undisturbed, a round of the whole recording is not.

use std::fs::File;
use std::hint::black_box;
use std::io::{BufRead as _, BufReader};
use std::time::{Duration, Instant};

use afterwrite::record::{Vocabulary, decode};
use aws_lambda_events::event::dynamodb::Event;
use flate2::read::GzDecoder;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

const RECORDING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures/exam-42/records.jsonl.gz");
const RECORDS_PER_EVENT: usize = 100;
const ROUNDS: usize = 101;
/// The attributes that the recording's table model uses.
const ATTRIBUTES: [&str; 12] = [
    "project_id",
    "started_at",
    "status",
    "score",
    "total_questions",
    "time_taken_seconds",
    "archived",
    "question_count",
    "question_count_rev",
    "question_id",
    "is_correct",
    "admin_id",
];

/// A line of the recording.
#[derive(Deserialize)]
struct Line {
    record: Box<RawValue>,
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
    let lines = BufReader::new(GzDecoder::new(File::open(RECORDING)?)).lines();
    let mut records = Vec::new();
    for line in lines {
        records.push(serde_json::from_str::<Line>(&line?)?.record);
    }
    let events: Vec<String> = records.chunks(RECORDS_PER_EVENT).map(event).collect();
    let bytes: usize = events.iter().map(String::len).sum();
    println!("{} records of {} bytes on average\n", records.len(), bytes / records.len());

    let vocabulary = Vocabulary::new(ATTRIBUTES);
    let mut candidates = [
        Candidate::new("serde_json into aws_lambda_events", &events, |event| {
            serde_json::from_slice::<Event>(event).is_ok_and(|event| !black_box(event).records.is_empty())
        }),
        Candidate::new("serde_json skipping (IgnoredAny)", &events, |event| {
            serde_json::from_slice::<IgnoredAny>(event).is_ok()
        }),
        Candidate::new("afterwrite: decode", &events, |event| {
            decode(event, &vocabulary).is_ok_and(|batch| black_box(batch).records.iter().all(Result::is_ok))
        }),
    ];
    for _ in 0..ROUNDS {
        for candidate in &mut candidates {
            candidate.measure(&events);
        }
    }
    let count = f64::from(u32::try_from(records.len())?);
    let costs = candidates.each_ref().map(|candidate| candidate.cost().as_secs_f64() * 1e6 / count);
    let [full, skip, _] = costs;
    println!("{:36} {:>9} {:>12} {:>9}", "", "µs/record", "× faster", "× skip");
    for (candidate, cost) in candidates.iter().zip(costs) {
        println!("{:36} {cost:>9.2} {:>12.2} {:>9.2}", candidate.name, full / cost, cost / skip);
    }
    Ok(())
}

/// An event as Lambda delivers it.
fn event(records: &[Box<RawValue>]) -> String {
    let records: Vec<&str> = records.iter().map(|record| record.get()).collect();
    format!(r#"{{"Records":[{}]}}"#, records.join(","))
}
