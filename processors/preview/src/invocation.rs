//! Passes one Lambda event through the stream functions, and shows its effects.

use std::sync::Arc;
use std::time::Duration;

use afterwrite_functions::{AggregatedBatch, FailedRecord, StreamAggregator};
use afterwrite_lambda::BatchResponse;
use afterwrite_ledger::tables::Tables;
use afterwrite_ledger::{Ledger, RememberedLookups};
use afterwrite_model::Result;
use afterwrite_model::clock::{Clock as _, SystemClock};
use afterwrite_model::projection::Event;
use afterwrite_model::record::decode;
use afterwrite_model::table::Model;
use serde::Serialize;

use crate::recording::RecordCutter;
use crate::tables::{ItemDifference, WatchedTables};
use crate::trace::{RecordTrace, RecordTracer, TraceLookups};

/// The time that an invocation may take: the timeout of the deployed function.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// The functions that read a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamFunctions {
    /// `aggregator` and `relay`.
    Both,
    /// `aggregator` alone.
    Aggregator,
    /// `relay` alone.
    Relay,
}

/// The changes of one event.
#[derive(Debug, Default, Serialize)]
pub struct InvocationReport {
    /// The response of `aggregator`.
    pub response: Option<BatchResponse>,
    /// The items that differ after the event, without secrets.
    pub items: Vec<ItemDifference>,
    /// Each record with its entity, rollups, cache keys, paths, events and rows.
    pub records: Vec<RecordTrace>,
    /// The lines for the archive, without secrets. They are not sent.
    pub lines: Vec<String>,
    /// The messages of events. They are not sent.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<String>,
    /// The records that were not counted, and are delivered again: the sequence number, and why.
    pub failed: Vec<FailureReport>,
    /// The records that can never be counted as they are.
    pub parked: Vec<FailureReport>,
}

/// A record that was not counted.
#[derive(Debug, Serialize)]
pub struct FailureReport {
    /// Its sequence number, if it has one.
    pub sequence_number: Option<String>,
    /// Why it was not counted.
    pub error: String,
}

/// Passes a DynamoDB stream event through the functions. `aggregator` reads and writes `tables`. Cache keys, paths, lines, events and
/// rows are computed and not sent. `names` has the deployed name of each of [`Model::tables`].
///
/// # Errors
/// As [`StreamAggregator::handle`].
pub async fn invoke_stream_functions<T: Tables>(
    model: &Arc<Model>,
    names: &[Arc<str>],
    state_table: Arc<str>,
    tables: T,
    functions: StreamFunctions,
    event: &[u8],
) -> Result<InvocationReport> {
    let mut report = InvocationReport::default();
    let mut lookups = TraceLookups::new(model, None);
    let cutter = RecordCutter::new(Arc::clone(model), names.to_vec());
    if functions != StreamFunctions::Relay {
        let tables = Arc::new(WatchedTables::new(tables));
        let remembered =
            RememberedLookups::new(Arc::clone(model), Arc::clone(&state_table), Arc::clone(&tables));
        lookups = TraceLookups::new(model, Some(remembered)).after_counting();
        let ledger =
            Ledger::new(Arc::clone(model), names.to_vec(), state_table, Arc::clone(&tables), SystemClock);
        let deadline = SystemClock.now().plus(TIME_LIMIT);
        let handled = Box::pin(StreamAggregator::new(ledger).handle(event, deadline)).await?;
        report.items = cutter.without_secrets(tables.differences().await?);
        report.add_batch(handled);
    }
    let batch = decode(event, &model.attributes)?;
    let tracer = RecordTracer::new(Arc::clone(model), names.to_vec(), lookups);
    for json in &batch.json {
        report.records.push(tracer.trace(json).await?);
        if functions != StreamFunctions::Aggregator {
            report.lines.push(cutter.line(json)?.trim_end().to_owned());
            report.events.extend(tracer.events(json)?.iter().map(Event::body));
        }
    }
    Ok(report)
}

impl InvocationReport {
    /// Whether every record was counted.
    #[must_use]
    pub fn is_counted(&self) -> bool {
        self.failed.is_empty() && self.parked.is_empty()
    }

    fn add_batch(&mut self, batch: AggregatedBatch) {
        self.response = Some(batch.response);
        self.failed = batch.failures.into_iter().map(FailureReport::from).collect();
        self.parked = batch.parked.into_iter().map(FailureReport::from).collect();
    }
}

impl From<FailedRecord> for FailureReport {
    fn from(failed: FailedRecord) -> Self {
        Self { sequence_number: failed.sequence_number, error: failed.error.to_string() }
    }
}
