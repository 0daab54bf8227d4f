//! The steps that both handlers share for a batch: decode it, find the item of each record, and report the records that failed.

use std::result::Result as StdResult;
use std::sync::OnceLock;

use afterwrite_lambda::{BatchResponse, EventSource};
use afterwrite_model::entity::{ItemCandidates, SourceKey};
use afterwrite_model::heartbeat::heartbeat_time;
use afterwrite_model::record::{BadRecord, ChangeRecord, RecordBatch, RecordFailure, Timestamp, decode};
use afterwrite_model::table::Model;
use afterwrite_model::{Error, ErrorKind, Result};

/// A record of a batch, and the item that it changes.
pub(crate) struct IdentifiedRecord<'b> {
    /// Its index in the batch.
    pub(crate) index: usize,
    /// The record, decoded or malformed.
    pub(crate) record: StdResult<&'b ChangeRecord<'b>, &'b BadRecord<'b>>,
    /// The item, or why nothing can be derived from the record.
    pub(crate) source: StdResult<&'b SourceKey<'b>, &'b Error>,
    /// The entities that the item's key allows; `None` if no entity has such a key.
    pub(crate) candidates: Option<ItemCandidates<'b, 'b>>,
}

impl IdentifiedRecord<'_> {
    /// Whether the item is of an entity before or after the change. A malformed record does not show it: then its key decides.
    pub(crate) fn is_matched(&self) -> bool {
        self.candidates.as_ref().is_some_and(|candidates| match self.record {
            Ok(record) => candidates.match_change(record),
            Err(_) => true,
        })
    }

    /// Whether it is a change of a table's heartbeat.
    pub(crate) fn is_heartbeat(&self) -> bool {
        self.source.is_ok_and(SourceKey::is_heartbeat)
    }
}

/// A record that failed.
#[derive(Debug)]
pub struct FailedRecord {
    /// Its sequence number, if it has one.
    pub sequence_number: Option<String>,
    /// Why it failed.
    pub error: Error,
}

/// An observer of records that a function did not take: the function's name and the records.
type FailureObserver = Box<dyn Fn(&'static str, &[FailedRecord]) + Send + Sync>;

static OBSERVER: OnceLock<FailureObserver> = OnceLock::new();

/// Passes the records that the functions of this process did not take to an observer. A process has one observer: the first.
pub fn observe_failures(observer: impl Fn(&'static str, &[FailedRecord]) + Send + Sync + 'static) {
    // A later observer is ignored.
    let _ = OBSERVER.set(Box::new(observer));
}

/// Passes records to the observer, if there is one.
pub(crate) fn report_failures(function: &'static str, failures: &[FailedRecord]) {
    if let Some(observer) = OBSERVER.get().filter(|_| !failures.is_empty()) {
        observer(function, failures);
    }
}

/// Decodes the event of `function`. The payload of another service fails as a whole: its records would all be malformed, and no error
/// would name the wrong connection.
pub(crate) fn decode_event<'e>(event: &'e [u8], model: &Model, function: &str) -> Result<RecordBatch<'e>> {
    let decoded = decode(event, &model.attributes);
    let is_readable = decoded
        .as_ref()
        .is_ok_and(|batch| batch.records.is_empty() || batch.records.iter().any(StdResult::is_ok));
    if is_readable {
        return decoded;
    }
    match EventSource::detect(event) {
        None | Some(EventSource::DynamoDb) => decoded,
        Some(source) => Err(source.unexpected(
            function,
            "DynamoDB stream events",
            "Connect it to the table's stream by an event source mapping",
        )),
    }
}

/// Pairs each record with its item; `sources` aligns with the batch.
pub(crate) fn identify_records<'b>(
    model: &'b Model,
    batch: &'b RecordBatch<'b>,
    sources: &'b [Result<SourceKey<'b>>],
) -> Vec<IdentifiedRecord<'b>> {
    let records = batch.records.iter().zip(sources).enumerate();
    records
        .map(|(index, (record, source))| IdentifiedRecord {
            index,
            record: record.as_ref().map_err(AsRef::as_ref),
            source: source.as_ref(),
            candidates: source
                .as_ref()
                .ok()
                .map(|source| source.candidates(model))
                .filter(|candidates| !candidates.is_empty()),
        })
        .collect()
}

/// The error of a record. A stream error fails the whole batch instead: a wrong setting must not consume a stream unnoticed.
pub(crate) fn record_error(error: Error) -> Result<Error> {
    if error.kind() == ErrorKind::Stream { Err(error) } else { Ok(error) }
}

/// The response for a batch in which these records failed.
pub(crate) fn batch_response(batch: &RecordBatch<'_>, failures: &[RecordFailure]) -> BatchResponse {
    BatchResponse::lowest(failures.iter().map(|failure| checkpoint(batch, failure.index)))
}

/// The sequence number from which Lambda redelivers the record at `index`: its own, or, if it has none, that of the closest record before
/// it that has one, or else an empty text, for the whole batch.
fn checkpoint(batch: &RecordBatch<'_>, index: usize) -> String {
    let sequence_number = |index: usize| match batch.records.get(index)? {
        Ok(record) => Some(record.position.sequence_number().to_owned()),
        Err(bad) => bad.position.as_ref().map(|position| position.sequence_number().to_owned()),
    };
    (0..=index).rev().find_map(sequence_number).unwrap_or_default()
}

/// The failures of a batch, with sequence numbers in place of indexes.
pub(crate) fn failed_records(batch: &RecordBatch<'_>, failures: Vec<RecordFailure>) -> Vec<FailedRecord> {
    let sequence_number = |index: usize| match batch.records.get(index)? {
        Ok(record) => Some(record.position.sequence_number().to_owned()),
        Err(bad) => bad.sequence_number.as_deref().map(str::to_owned),
    };
    failures
        .into_iter()
        .map(|RecordFailure { index, error }| FailedRecord { sequence_number: sequence_number(index), error })
        .collect()
}

/// The age of the newest change of a batch, in milliseconds.
pub(crate) fn age_ms(batch: &RecordBatch<'_>, now: Timestamp) -> Option<u64> {
    let newest = batch.records.iter().filter_map(|record| record.as_ref().ok()?.created_at).max()?;
    Some(u64::try_from(now.since(newest).as_millis()).unwrap_or(u64::MAX))
}

/// When the newest heartbeat of a batch was written; `None` if it has none.
pub(crate) fn newest_heartbeat(
    batch: &RecordBatch<'_>,
    records: &[IdentifiedRecord<'_>],
) -> Option<Timestamp> {
    let heartbeats = records.iter().filter(|record| record.is_heartbeat());
    heartbeats.filter_map(|record| heartbeat_time(batch.json.get(record.index)?)).max()
}
