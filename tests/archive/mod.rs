//! The archive contains every record that was delivered, whatever fails on the way.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod cost;
mod embedded;
mod faults;
mod limits;
mod moto;
mod partial_responses;
mod retries;
mod round_trip;

use std::time::Duration;

use afterwrite_model::clock::{Clock as _, SystemClock};
use afterwrite_model::projection::archive_line;
use afterwrite_model::record::{AttributePath, Timestamp};
use afterwrite_tests::archive::event_id;
use afterwrite_tests::recording::StreamRecording;
use serde_json::value::RawValue;

const RECORDING: &str = "exam-42";

/// The time in this many seconds.
fn deadline(seconds: u64) -> Timestamp {
    SystemClock.now().plus(Duration::from_secs(seconds))
}

/// Paths to secrets, as `map.attribute`.
fn secrets(dotted: &[&str]) -> Vec<AttributePath> {
    dotted.iter().map(|path| path.parse().unwrap()).collect()
}

/// Every record of the recording as a line, by event id.
fn recorded_lines(secrets: &[AttributePath]) -> Vec<(String, String)> {
    let recording = StreamRecording::load(RECORDING);
    let line = |record: &RawValue| (event_id(record.get()), archive_line(record.get(), secrets).unwrap());
    recording.records().map(line).collect()
}
