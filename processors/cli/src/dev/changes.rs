//! The changes that `aggregator` has counted, a line each, as `afterwrite tail` prints them.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use afterwrite_lambda::BatchResponse;
use afterwrite_ledger::RememberedLookups;
use afterwrite_model::Result;
use afterwrite_preview::trace::{RecordTrace, RecordTracer, TraceLookups};
use afterwrite_services::config::FunctionConfig;
use afterwrite_services::dynamodb::DynamoDb;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::servers::{DevServers, STATE_TABLE};
use crate::print::{json_line, print};

/// The printed records that are remembered: a redelivered record is not printed again.
const MAX_REMEMBERED: usize = 10_000;

/// Prints changes.
pub(super) struct ChangeLines {
    tracer: RecordTracer<DynamoDb>,
    as_json: bool,
    /// The sequence numbers of printed records. All have the same length, so their order as texts is their order in the stream.
    printed: Mutex<BTreeSet<String>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct StreamEvent<'e> {
    #[serde(borrow)]
    records: Vec<&'e RawValue>,
}

#[derive(Deserialize)]
struct SequencedRecord {
    dynamodb: SequencedChange,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct SequencedChange {
    sequence_number: String,
}

impl ChangeLines {
    pub(super) fn new(servers: &DevServers, config: &FunctionConfig, as_json: bool) -> Self {
        let tables = DynamoDb::retrying(servers.dynamodb.client());
        let remembered = RememberedLookups::new(Arc::clone(&config.model), Arc::from(STATE_TABLE), tables);
        let lookups = TraceLookups::new(&config.model, Some(remembered)).after_counting();
        let tracer = RecordTracer::new(Arc::clone(&config.model), config.table_names.clone(), lookups);
        Self { tracer, as_json, printed: Mutex::default() }
    }

    /// Prints the records of an event up to the first that has failed. Another event is ignored.
    ///
    /// # Errors
    /// As [`RecordTracer::trace`]; standard output cannot be written.
    pub(super) async fn print(&self, event: &[u8], response: &[u8]) -> Result<()> {
        let Ok(StreamEvent { records }) = serde_json::from_slice::<StreamEvent<'_>>(event) else {
            return Ok(());
        };
        let response = BatchResponse::read(response);
        let failed = response.batch_item_failures.into_iter().map(|failed| failed.item_identifier).min();
        for record in records {
            let Ok(SequencedRecord { dynamodb }) = serde_json::from_str(record.get()) else { continue };
            if failed.as_ref().is_some_and(|failed| dynamodb.sequence_number >= *failed) {
                break;
            }
            if self.is_new(dynamodb.sequence_number) {
                let trace = self.tracer.trace(record.get()).await?;
                print(&self.line(&trace)?)?;
            }
        }
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
