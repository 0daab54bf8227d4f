//! What the function answers: which records are to come again.

use afterwrite::Error;
use afterwrite::commit::RecordFailure;
use afterwrite::record::{Position, RecordBatch};
use serde::Serialize;

/// The answer of an event source mapping's target with `ReportBatchItemFailures`.
///
/// Lambda takes the **lowest** sequence number as its checkpoint and delivers everything from it on again, so one is enough. An
/// empty list is success. An empty identifier has the whole batch delivered again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Response {
    /// Of a stream's records at most one; of a queue's messages each that failed.
    pub batch_item_failures: Vec<BatchItemFailure>,
}

/// A record from which on the batch is to come again, or a message that is to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BatchItemFailure {
    /// Its sequence number, or the message's id.
    pub item_identifier: String,
}

impl Response {
    /// The answer for a batch of which the records at `failed` were not counted.
    #[must_use]
    pub fn new(batch: &RecordBatch<'_>, failed: impl Iterator<Item = usize>) -> Self {
        Self::lowest(failed.map(|index| checkpoint(batch, index)))
    }

    /// The answer for a batch of which several have each answered for their part.
    #[must_use]
    pub fn of_all(answers: impl IntoIterator<Item = Self>) -> Self {
        let failures = answers.into_iter().flat_map(|answer| answer.batch_item_failures);
        Self::lowest(failures.map(|failure| failure.item_identifier))
    }

    fn lowest(identifiers: impl Iterator<Item = String>) -> Self {
        // Text of any length compares as a number once its noughts are gone; an empty one, the whole batch, is the lowest.
        let order = |identifier: &String| {
            let digits = identifier.trim_start_matches('0').to_owned();
            (digits.len(), digits)
        };
        let lowest = identifiers.min_by_key(order);
        let failures = lowest.map(|item_identifier| BatchItemFailure { item_identifier });
        Self { batch_item_failures: failures.into_iter().collect() }
    }
}

/// A record of which something failed.
#[derive(Debug)]
pub struct FailedRecord {
    /// Its sequence number, if it has one.
    pub sequence_number: Option<String>,
    /// Why.
    pub error: Error,
}

/// The failures of a batch, told by sequence number.
pub(crate) fn failed_records(batch: &RecordBatch<'_>, failures: Vec<RecordFailure>) -> Vec<FailedRecord> {
    let sequence_number = |index: usize| match batch.records.get(index)? {
        Ok(record) => Some(record.position.sequence_number().to_owned()),
        Err(bad) => bad.sequence_number.as_deref().map(str::to_owned),
    };
    let told = |failure: RecordFailure| FailedRecord {
        sequence_number: sequence_number(failure.index),
        error: failure.error,
    };
    failures.into_iter().map(told).collect()
}

/// The sequence number that has the record at `index` delivered again: its own, or, if it has none, that of the record before
/// it, or else nothing, for the whole batch.
fn checkpoint(batch: &RecordBatch<'_>, index: usize) -> String {
    let sequence_number = |index: usize| match batch.records.get(index)? {
        Ok(record) => Some(record.position.sequence_number().to_owned()),
        Err(bad) => bad.position.as_ref().map(Position::sequence_number).map(str::to_owned),
    };
    (0..=index).rev().find_map(sequence_number).unwrap_or_default()
}
