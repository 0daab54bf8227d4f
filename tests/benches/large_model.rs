//! A model of 50 entities and 200 aggregates, compared with the default model: the time to load it, and the processor time of a
//! record: `cargo bench -p afterwrite-tests --bench large_model`.
//!
//! Limits: 10 ms to load, and twice the processor time. The records are those of the recording `exam-42`, for the large model moved to
//! its ten platforms in turn. The whole path is measured, as in `cpu_path`.

use std::hint::black_box;
use std::time::{Duration, Instant};

use afterwrite_functions::StreamAggregator;
use afterwrite_model::record::Timestamp;
use afterwrite_model::table::Model;
use afterwrite_tests::clock::StillClock;
use afterwrite_tests::large_model::{self, PLATFORMS, of_platform};
use afterwrite_tests::measuring::{DiscardingTables, MeasuredCandidate, handler};
use afterwrite_tests::recording::{StreamRecording, event};
use serde_json::value::RawValue;
use tokio::runtime::Runtime;

const RECORDING: &str = "exam-42";
const RECORDS_PER_EVENT: usize = 100;
const ROUNDS: usize = 101;

/// Loads a model many times, and prints its size and the time that loading takes.
fn load(name: &str, source: &str) -> Result<Model, Box<dyn std::error::Error>> {
    let mut durations: Vec<Duration> = Vec::new();
    for _ in 0..ROUNDS {
        let start = Instant::now();
        black_box(Model::parse(black_box(source), "model.toml")?);
        durations.push(start.elapsed());
    }
    durations.sort_unstable();
    let ms = |duration: Option<&Duration>| duration.map_or(0.0, |duration| duration.as_secs_f64() * 1e3);
    let model = Model::parse(source, "model.toml")?;
    println!(
        "{name:12} {:>9} {:>11} {:>9} {:>14.3} {:>14.3}",
        model.entities.len(),
        model.aggregates.len(),
        source.lines().count(),
        ms(durations.first()),
        ms(durations.get(durations.len() / 2))
    );
    Ok(model)
}

/// Handles an event, and returns whether everything in it was counted.
fn handle(runtime: &Runtime, handler: &StreamAggregator<DiscardingTables, StillClock>, event: &[u8]) -> bool {
    let handled = runtime.block_on(handler.handle(event, Timestamp::from_epoch_ms(i64::MAX)));
    handled.is_ok_and(|handled| handled.failures.is_empty() && handled.unmatched == 0)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!(
        "{:12} {:>9} {:>11} {:>9} {:>14} {:>14}",
        "model", "entities", "aggregates", "lines", "fastest ms", "median ms"
    );
    let default = Model::built_in(Model::DEFAULT_NAME).ok_or("there is no default model")?;
    let (small, large) = (load(Model::DEFAULT_NAME, default)?, load("large", &large_model::model())?);

    let recording = StreamRecording::load(RECORDING);
    let records: Vec<&RawValue> = recording.records().collect();
    let event = |records: &[&RawValue]| String::from_utf8(event(records.iter().copied()));
    let events: Vec<String> = records.chunks(RECORDS_PER_EVENT).map(event).collect::<Result<_, _>>()?;
    let platforms = (0..PLATFORMS).cycle();
    let large_events: Vec<String> =
        events.iter().zip(platforms).map(|(event, platform)| of_platform(event, platform)).collect();

    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let (small, large) = (handler(small, recording.end()), handler(large, recording.end()));
    // A record's project may be in an event of another platform. Every platform therefore counts all events first.
    for event in &events {
        let all_counted =
            (0..PLATFORMS).all(|platform| handle(&runtime, &large, of_platform(event, platform).as_bytes()));
        assert!(all_counted, "the large model does not count the recording");
    }
    let mut candidates = [
        MeasuredCandidate::new("default", &events, |event| handle(&runtime, &small, event)),
        MeasuredCandidate::new("large", &large_events, |event| handle(&runtime, &large, event)),
    ];
    for _ in 0..ROUNDS {
        candidates.iter_mut().for_each(MeasuredCandidate::measure);
    }
    let count = f64::from(u32::try_from(records.len())?);
    let costs = candidates.each_ref().map(|candidate| candidate.cost().as_secs_f64() * 1e6 / count);
    let [default_cost, _] = costs;
    println!("\n{:12} {:>9} {:>12}", "", "µs/record", "× default");
    for (candidate, cost) in candidates.iter().zip(costs) {
        println!("{:12} {cost:>9.2} {:>12.2}", candidate.name, cost / default_cost);
    }
    Ok(())
}
