//! What a handler's response says of a batch, by Lambda's rules for partial batch responses.

use serde::Deserialize;
use serde_json::Value;

/// What becomes of a batch.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// All of it is accepted.
    Accepted,
    /// Accepted up to this index; from there on everything is delivered again.
    FailedFrom(usize),
    /// All of it is delivered again.
    Failed,
}

/// Reads a response to a batch whose records have these sequence numbers, in order.
///
/// The lowest number that is named is the checkpoint. An empty list or none at all is success; an empty or null
/// identifier, one that is no text, or one that is not of the batch fails the whole batch. The text is the reason.
pub(super) fn verdict(response: &[u8], sequence_numbers: &[&str]) -> (Verdict, &'static str) {
    let failures = match serde_json::from_slice::<Option<Response>>(response) {
        Err(_) => return (Verdict::Failed, "the response is not a batch response"),
        Ok(None) => return (Verdict::Accepted, ""),
        Ok(Some(response)) => response.batch_item_failures.unwrap_or_default(),
    };
    let mut lowest = None::<usize>;
    for failure in failures {
        let Some(Value::String(identifier)) = failure.item_identifier else {
            return (Verdict::Failed, "the response names a failed record by something other than text");
        };
        let Some(index) = sequence_numbers.iter().position(|number| *number == identifier) else {
            return (Verdict::Failed, "the response names a failed record that is not in the batch");
        };
        lowest = Some(lowest.map_or(index, |lowest| lowest.min(index)));
    }
    match lowest {
        None => (Verdict::Accepted, ""),
        Some(index) => (Verdict::FailedFrom(index), "the response names the record as failed"),
    }
}

#[derive(Deserialize)]
struct Response {
    #[serde(rename = "batchItemFailures")]
    batch_item_failures: Option<Vec<Failure>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Failure {
    #[serde(rename = "itemIdentifier")]
    item_identifier: Option<Value>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const BATCH: [&str; 3] = ["100", "101", "102"];

    #[test]
    fn nothing_named_is_success() {
        for response in ["{\"batchItemFailures\":[]}", "{\"batchItemFailures\":null}", "{}", "null"] {
            assert_eq!(verdict(response.as_bytes(), &BATCH).0, Verdict::Accepted, "{response}");
        }
    }

    #[test]
    fn the_lowest_number_is_the_checkpoint() {
        let response = r#"{"batchItemFailures":[{"itemIdentifier":"102"},{"itemIdentifier":"101"}]}"#;
        assert_eq!(verdict(response.as_bytes(), &BATCH).0, Verdict::FailedFrom(1));
    }

    #[test]
    fn anything_else_fails_the_whole_batch() {
        for response in [
            "",
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
            assert_eq!(verdict(response.as_bytes(), &BATCH).0, Verdict::Failed, "{response}");
        }
    }
}
