//! The response of a function that reads from an event source mapping.

use serde::{Deserialize, Serialize};

/// Lambda's partial batch response, for event source mappings with `ReportBatchItemFailures`.
///
/// Without failures the batch succeeded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BatchResponse {
    /// The records that Lambda redelivers. Of a stream: everything from the lowest sequence number on, so one entry is enough; an empty
    /// identifier redelivers the whole batch. Of a queue: each message that failed.
    pub batch_item_failures: Vec<BatchItemFailure>,
}

/// A failed stream record or queue message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BatchItemFailure {
    /// The record's sequence number, or the message's id.
    pub item_identifier: String,
}

impl BatchResponse {
    /// Reads a response; a text of another form has no failures.
    #[must_use]
    pub fn read(response: &[u8]) -> Self {
        serde_json::from_slice(response).unwrap_or_default()
    }

    /// Whether the record or message with this identifier failed.
    #[must_use]
    pub fn has_failed(&self, identifier: &str) -> bool {
        self.batch_item_failures.iter().any(|failure| failure.item_identifier == identifier)
    }

    /// The response for a stream's batch: the lowest of these sequence numbers.
    #[must_use]
    pub fn lowest(sequence_numbers: impl IntoIterator<Item = String>) -> Self {
        let lowest = sequence_numbers.into_iter().min_by_key(|number| numeric_order(number));
        let failures = lowest.map(|item_identifier| BatchItemFailure { item_identifier });
        Self { batch_item_failures: failures.into_iter().collect() }
    }

    /// The response for a stream's batch that several handlers processed: the lowest failure of any.
    #[must_use]
    pub fn merged(responses: impl IntoIterator<Item = Self>) -> Self {
        let failures = responses.into_iter().flat_map(|response| response.batch_item_failures);
        Self::lowest(failures.map(|failure| failure.item_identifier))
    }
}

/// Digits of any length compare as numbers once leading zeros are removed; an empty identifier (the whole batch) is the lowest.
fn numeric_order(sequence_number: &str) -> (usize, String) {
    let digits = sequence_number.trim_start_matches('0').to_owned();
    (digits.len(), digits)
}
