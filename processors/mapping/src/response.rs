//! Reads a function's response by Lambda's rules for partial batch responses.

use serde::Deserialize;
use serde_json::Value;

/// Which part of a batch is delivered again.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum BatchVerdict {
    /// All of it is accepted.
    Accepted,
    /// Accepted up to this index; everything from it on is delivered again.
    FailedFrom(usize),
    /// All of it is delivered again.
    Failed,
}

/// Reads a response to a batch whose records have these sequence numbers, in order.
///
/// The lowest listed number is the checkpoint. An empty or missing list is success, and so is an empty response; an identifier that is
/// empty, null, not a text or not in the batch fails the whole batch. The text is the reason.
pub(crate) fn judge_response(response: &[u8], sequence_numbers: &[&str]) -> (BatchVerdict, &'static str) {
    if response.iter().all(u8::is_ascii_whitespace) {
        return (BatchVerdict::Accepted, "");
    }
    let failures = match serde_json::from_slice::<Option<BatchResponse>>(response) {
        Err(_) => return (BatchVerdict::Failed, "the response is not a batch response"),
        Ok(None) => return (BatchVerdict::Accepted, ""),
        Ok(Some(response)) => response.batch_item_failures.unwrap_or_default(),
    };
    let mut lowest = None::<usize>;
    for failure in failures {
        let Some(Value::String(identifier)) = failure.item_identifier else {
            return (BatchVerdict::Failed, "the response names a failed record by something other than text");
        };
        let Some(index) = sequence_numbers.iter().position(|number| *number == identifier) else {
            return (BatchVerdict::Failed, "the response names a failed record that is not in the batch");
        };
        lowest = Some(lowest.map_or(index, |lowest| lowest.min(index)));
    }
    match lowest {
        None => (BatchVerdict::Accepted, ""),
        Some(index) => (BatchVerdict::FailedFrom(index), "the response names the record as failed"),
    }
}

#[derive(Deserialize)]
struct BatchResponse {
    #[serde(rename = "batchItemFailures")]
    batch_item_failures: Option<Vec<ItemFailure>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ItemFailure {
    #[serde(rename = "itemIdentifier")]
    item_identifier: Option<Value>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const BATCH: [&str; 3] = ["100", "101", "102"];

    #[test]
    fn an_empty_or_missing_list_is_success() {
        for response in ["{\"batchItemFailures\":[]}", "{\"batchItemFailures\":null}", "{}", "null", ""] {
            assert_eq!(judge_response(response.as_bytes(), &BATCH).0, BatchVerdict::Accepted, "{response}");
        }
    }

    #[test]
    fn the_lowest_listed_number_is_the_checkpoint() {
        let response = r#"{"batchItemFailures":[{"itemIdentifier":"102"},{"itemIdentifier":"101"}]}"#;
        assert_eq!(judge_response(response.as_bytes(), &BATCH).0, BatchVerdict::FailedFrom(1));
    }

    #[test]
    fn an_invalid_response_fails_the_whole_batch() {
        for response in [
            "[]",
            "not json",
            r#"{"batchItemFailures":"102"}"#,
            r#"{"batchItemFailures":[{"itemIdentifier":""}]}"#,
            r#"{"batchItemFailures":[{"itemIdentifier":null}]}"#,
            r#"{"batchItemFailures":[{"itemIdentifier":102}]}"#,
            r#"{"batchItemFailures":[{"itemIdentifier":"999"}]}"#,
            r#"{"batchItemFailures":[{"wrong":"102"}]}"#,
            r#"{"batchItemFailures":[{"itemIdentifier":"102"},{}]}"#,
        ] {
            assert_eq!(judge_response(response.as_bytes(), &BATCH).0, BatchVerdict::Failed, "{response}");
        }
    }
}
