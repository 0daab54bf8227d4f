//! The changes that `aggregator` has counted: a line each, as `afterwrite tail` prints them, and on the console's board.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use afterwrite_console::board::{DevBoard, FailedItem, StreamMeter};
use afterwrite_lambda::BatchResponse;
use afterwrite_ledger::RememberedLookups;
use afterwrite_model::Result;
use afterwrite_model::clock::{Clock as _, SystemClock};
use afterwrite_model::record::Timestamp;
use afterwrite_preview::trace::{RecordTrace, RecordTracer, TraceLookups};
use afterwrite_services::config::FunctionConfig;
use afterwrite_services::dynamodb::DynamoDb;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::DevArguments;
use super::servers::{DevServers, STATE_TABLE};
use crate::print::{json_line, print};

/// The printed records that are remembered: a redelivered record is not printed again.
const MAX_REMEMBERED: usize = 10_000;

/// Prints changes.
pub(super) struct ChangeLines<'d> {
    tracer: RecordTracer<DynamoDb>,
    as_json: bool,
    board: &'d DevBoard,
    /// The sequence numbers of printed records. All have the same length, so their order as texts is their order in the stream.
    printed: Mutex<BTreeSet<String>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct StreamEvent<'e> {
    #[serde(borrow)]
    records: Vec<&'e RawValue>,
}

/// The sequence number from which a function wants its batch again.
fn lowest_failed(response: &[u8]) -> Option<String> {
    let failures = BatchResponse::read(response).batch_item_failures;
    failures.into_iter().map(|failed| failed.item_identifier).min()
}

/// The record that a function did not take, with its sequence number: the record that its response names, or the first record if the invocation failed.
pub(super) fn first_failed<'e>(event: &'e [u8], response: Option<&[u8]>) -> Option<(String, &'e str)> {
    let failed = match response {
        Some(response) => Some(lowest_failed(response)?),
        None => None,
    };
    let StreamEvent { records } = serde_json::from_slice(event).ok()?;
    let mut numbered = records.into_iter().filter_map(|record| {
        let SequencedRecord { dynamodb } = serde_json::from_str(record.get()).ok()?;
        Some((dynamodb.sequence_number, record.get()))
    });
    numbered.find(|(number, _)| failed.as_ref().is_none_or(|failed| number == failed))
}

/// Adds an event that a function has answered to the meter of its stream.
pub(super) fn measure_delivery(meter: &StreamMeter, event: &[u8], now: Timestamp) {
    // Only records of streams are counted.
    let Ok(StreamEvent { records }) = serde_json::from_slice::<StreamEvent<'_>>(event) else { return };
    let newest = records.last().and_then(|record| serde_json::from_str::<SequencedRecord>(record.get()).ok());
    let created = newest.and_then(|newest| newest.dynamodb.approximate_creation_date_time);
    meter.add_delivered(records.len(), created.map(|seconds| Timestamp::from_epoch_ms(seconds * 1000)), now);
}

#[derive(Deserialize)]
struct SequencedRecord {
    dynamodb: SequencedChange,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct SequencedChange {
    sequence_number: String,
    /// In seconds since the epoch.
    approximate_creation_date_time: Option<i64>,
}

impl<'d> ChangeLines<'d> {
    pub(super) fn new(
        servers: &DevServers,
        config: &FunctionConfig,
        arguments: &DevArguments,
        board: &'d DevBoard,
    ) -> Self {
        let tables = DynamoDb::retrying(servers.dynamodb.client());
        let remembered = RememberedLookups::new(Arc::clone(&config.model), Arc::from(STATE_TABLE), tables);
        let lookups = TraceLookups::new(&config.model, Some(remembered)).after_counting();
        let tracer = RecordTracer::new(Arc::clone(&config.model), config.table_names.clone(), lookups);
        let tracer = tracer.showing_items(arguments.show_items);
        Self { tracer, as_json: arguments.json, board, printed: Mutex::default() }
    }

    /// Prints the records of an event up to the first that has failed. Another event is ignored.
    ///
    /// # Errors
    /// As [`RecordTracer::trace`]; standard output cannot be written.
    pub(super) async fn print(&self, event: &[u8], response: &[u8]) -> Result<()> {
        let Ok(StreamEvent { records }) = serde_json::from_slice::<StreamEvent<'_>>(event) else {
            return Ok(());
        };
        let failed = lowest_failed(response);
        for record in records {
            let Ok(SequencedRecord { dynamodb }) = serde_json::from_str(record.get()) else { continue };
            if failed.as_ref().is_some_and(|failed| dynamodb.sequence_number >= *failed) {
                break;
            }
            if self.is_new(dynamodb.sequence_number) {
                let mut trace = self.tracer.trace(record.get()).await?;
                // Only the console shows contents of items.
                let change = trace.change.take();
                print(&self.line(&trace)?)?;
                self.board.changes.add(record.get(), RecordTrace { change, ..trace }, SystemClock.now());
            }
        }
        Ok(())
    }

    /// Notes the item of a record that a function did not take.
    ///
    /// # Errors
    /// As [`RecordTracer::trace`].
    pub(super) async fn note_failed(
        &self,
        meter: &StreamMeter,
        (number, record): (String, &str),
    ) -> Result<()> {
        let RecordTrace { table, key, .. } = self.tracer.trace(record).await?;
        meter.note_failed(&number, FailedItem { table, key });
        Ok(())
    }

    fn line(&self, trace: &RecordTrace) -> Result<String> {
        if self.as_json { json_line(trace) } else { Ok(format!("{trace}\n")) }
    }

    fn is_new(&self, sequence_number: String) -> bool {
        let mut printed = self.printed.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = printed.insert(sequence_number);
        if printed.len() > MAX_REMEMBERED {
            printed.pop_first();
        }
        is_new
    }
}
