//! The processor time of a record, compared with decoding alone by common libraries:
//! `cargo bench -p afterwrite-tests --bench cpu_path`.
//!
//! The whole path is the handler that Lambda runs: decode, contributions, fold, pack, and every prepared write. The tables accept
//! every write and store nothing, so that only the product's own code is measured.
//!
//! All candidates read the same bytes (the recording `exam-42` in events of 100 records) in turns within one run, so that other load
//! on the machine affects all of them.

use std::hint::black_box;

use afterwrite_model::record::{Timestamp, decode};
use afterwrite_model::table::Model;
use afterwrite_tests::measuring::{MeasuredCandidate, handler};
use afterwrite_tests::recording::{StreamRecording, event};
use aws_lambda_events::event::dynamodb::Event;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

const RECORDING: &str = "exam-42";
const RECORDS_PER_EVENT: usize = 100;
const ROUNDS: usize = 101;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let recording = StreamRecording::load(RECORDING);
    let records: Vec<&RawValue> = recording.records().collect();
    let event = |records: &[&RawValue]| String::from_utf8(event(records.iter().copied()));
    let events: Vec<String> = records.chunks(RECORDS_PER_EVENT).map(event).collect::<Result<_, _>>()?;
    let bytes: usize = events.iter().map(String::len).sum();
    println!("{} records of {} bytes on average\n", records.len(), bytes / records.len());

    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let handler = handler(Model::load(Model::DEFAULT_NAME)?, recording.end());
    let deadline = Timestamp::from_epoch_ms(i64::MAX);
    let handle = |event: &[u8]| runtime.block_on(handler.handle(event, deadline));
    let mut candidates = [
        MeasuredCandidate::new("serde_json into aws_lambda_events", &events, |event| {
            serde_json::from_slice::<Event>(event).is_ok_and(|event| !black_box(event).records.is_empty())
        }),
        MeasuredCandidate::new("serde_json skipping (IgnoredAny)", &events, |event| {
            serde_json::from_slice::<IgnoredAny>(event).is_ok()
        }),
        MeasuredCandidate::new("afterwrite: decode", &events, |event| {
            decode(event, &handler.ledger().model().attributes)
                .is_ok_and(|batch| black_box(batch).records.iter().all(Result::is_ok))
        }),
        MeasuredCandidate::new("afterwrite: the whole path", &events, |event| {
            handle(event).is_ok_and(|handled| black_box(handled).failures.is_empty())
        }),
    ];
    for _ in 0..ROUNDS {
        for candidate in &mut candidates {
            candidate.measure();
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
