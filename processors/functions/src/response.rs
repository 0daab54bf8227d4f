//! The records of a batch that failed, and from which one on Lambda redelivers it.

use afterwrite::Error;
use afterwrite::commit::RecordFailure;
use afterwrite::record::{Position, RecordBatch};
use afterwrite_lambda::BatchResponse;

/// A record of which something failed.
#[derive(Debug)]
pub struct FailedRecord {
    /// Its sequence number, if it has one.
    pub sequence_number: Option<String>,
    /// Why.
    pub error: Error,
}

/// The response for a batch of which these records failed.
pub(crate) fn batch_response(batch: &RecordBatch<'_>, failures: &[RecordFailure]) -> BatchResponse {
    BatchResponse::lowest(failures.iter().map(|failure| checkpoint(batch, failure.index)))
}

/// The failures of a batch, with sequence numbers in place of indexes.
pub(crate) fn failed_records(batch: &RecordBatch<'_>, failures: Vec<RecordFailure>) -> Vec<FailedRecord> {
    let sequence_number = |index: usize| match batch.records.get(index)? {
        Ok(record) => Some(record.position.sequence_number().to_owned()),
        Err(bad) => bad.sequence_number.as_deref().map(str::to_owned),
    };
    let failures = failures.into_iter();
    failures
        .map(|RecordFailure { index, error }| FailedRecord { sequence_number: sequence_number(index), error })
        .collect()
}

/// The sequence number from which Lambda redelivers the record at `index`: its own, or, if it has none, that of the record before
/// it, or else an empty text, for the whole batch.
fn checkpoint(batch: &RecordBatch<'_>, index: usize) -> String {
    let sequence_number = |index: usize| match batch.records.get(index)? {
        Ok(record) => Some(record.position.sequence_number().to_owned()),
        Err(bad) => bad.position.as_ref().map(Position::sequence_number).map(str::to_owned),
    };
    (0..=index).rev().find_map(sequence_number).unwrap_or_default()
}
