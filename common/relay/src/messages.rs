//! The messages that carry stale paths from the relay to the invalidator.
//!
//! ```json
//! {"version":1,"paths":["/api/projects/p1","/api/projects/p1/*"]}
//! ```
//!
//! | field | contents |
//! |---|---|
//! | `version` | 1. A message of another version stays in the queue: the invalidator is older than the relay |
//! | `paths` | paths in the form of CloudFront: percent-encoded, at most 4,000 characters, a `*` at the end is a wildcard |
//!
//! A message names no event: the id that the queue gives it identifies the delivery. A redelivered record sends a new message with a new
//! id, so its paths are invalidated again.

use std::collections::BTreeSet;

use afterwrite_model::projection::RecordsByPath;
use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_services::sqs::{BILLED_BYTES, MAX_BATCH_BYTES, MAX_BATCH_MESSAGES};
use serde::{Deserialize, Serialize};

use super::paths::shortened;
use super::requests::split_into_requests;

/// The version of these messages.
pub(super) const VERSION: u32 = 1;
/// The length of a message's text without its paths.
const ENVELOPE_BYTES: usize = r#"{"version":1,"paths":[]}"#.len();

/// The JSON of a message.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PathMessageText<'m> {
    version: u32,
    #[serde(borrow)]
    paths: Vec<std::borrow::Cow<'m, str>>,
}

impl PathMessageText<'_> {
    /// The paths.
    pub(super) fn into_paths(self) -> Vec<String> {
        self.paths.into_iter().map(std::borrow::Cow::into_owned).collect()
    }
}

/// A message to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct QueueMessage<C> {
    /// Its text.
    pub(super) text: String,
    /// Its contents, as far as the sender reports them.
    pub(super) contents: C,
}

/// The contents of a message of stale paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MessagePaths {
    /// How many paths it has.
    pub(super) paths: usize,
    /// The records that need these paths invalidated: their indexes in the batch.
    pub(super) records: BTreeSet<usize>,
}

/// The messages for these paths, each path once. A message is as large as the queue bills as one unit.
///
/// # Errors
/// [`ErrorKind::Rejected`] if a message cannot be written as JSON; no text can cause this.
pub(super) fn pack_messages(stale: &RecordsByPath) -> Result<Vec<QueueMessage<MessagePaths>>> {
    let mut groups: Vec<(Vec<String>, BTreeSet<usize>)> = Vec::new();
    let mut bytes = 0;
    for (path, records) in stale {
        let path = shortened(path);
        // Two quotes and a comma. Every path is ASCII, and the model allows no character that JSON escapes.
        let size = path.len() + 3;
        match groups.last_mut().filter(|_| bytes + size <= BILLED_BYTES) {
            Some((paths, of)) => {
                bytes += size;
                paths.push(path);
                of.extend(records);
            }
            None => {
                bytes = ENVELOPE_BYTES + size;
                groups.push((vec![path], records.clone()));
            }
        }
    }
    groups.into_iter().map(|(paths, records)| path_message(&paths, records)).collect()
}

fn path_message(paths: &[String], records: BTreeSet<usize>) -> Result<QueueMessage<MessagePaths>> {
    let borrowed = paths.iter().map(|path| path.as_str().into()).collect();
    let text = message_text(&PathMessageText { version: VERSION, paths: borrowed })?;
    Ok(QueueMessage { text, contents: MessagePaths { paths: paths.len(), records } })
}

/// The text of a message.
pub(super) fn message_text(message: &impl Serialize) -> Result<String> {
    serde_json::to_string(message).map_err(|error| {
        Error::new(ErrorKind::Rejected, "a message of the queue could not be written").caused_by(error)
    })
}

/// Splits messages into requests within the queue's limits.
pub(super) fn split_requests<C>(messages: Vec<QueueMessage<C>>) -> Vec<Vec<QueueMessage<C>>> {
    split_into_requests(messages, (MAX_BATCH_MESSAGES, MAX_BATCH_BYTES), |message| message.text.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parsed_paths(text: &str) -> Vec<String> {
        serde_json::from_str::<PathMessageText<'_>>(text).unwrap().into_paths()
    }

    fn stale(paths: impl IntoIterator<Item = String>) -> RecordsByPath {
        paths.into_iter().enumerate().map(|(record, path)| (path, BTreeSet::from([record]))).collect()
    }

    #[test]
    fn a_message_is_small_json_with_its_version() {
        let paths = stale(["/api/projects/p1", "/api/projects/p1/*"].map(str::to_owned));
        let [message] = pack_messages(&paths).unwrap().try_into().unwrap();
        assert_eq!(message.text, r#"{"version":1,"paths":["/api/projects/p1","/api/projects/p1/*"]}"#);
        assert_eq!(message.contents, MessagePaths { paths: 2, records: BTreeSet::from([0, 1]) });
        assert_eq!(parsed_paths(&message.text), ["/api/projects/p1", "/api/projects/p1/*"]);
        assert_eq!(pack_messages(&RecordsByPath::new()).unwrap(), []);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn every_path_is_sent_once_and_no_limit_is_exceeded(
            lengths in proptest::collection::vec(prop_oneof![8 => 1_usize..60, 1 => 3_000_usize..6_000], 0..3_000),
        ) {
            let paths = stale(lengths.iter().enumerate().map(|(id, length)| format!("/{id}/{}", "x".repeat(*length))));
            let messages = pack_messages(&paths).unwrap();
            let records: Vec<usize> = messages.iter().flat_map(|message| message.contents.records.clone()).collect();
            prop_assert_eq!(records.len(), paths.len());
            prop_assert_eq!(records.into_iter().collect::<BTreeSet<_>>().len(), paths.len());
            let sent: BTreeSet<String> =
                messages.iter().flat_map(|message| parsed_paths(&message.text)).collect();
            prop_assert_eq!(sent, paths.keys().map(|path| shortened(path)).collect::<BTreeSet<_>>());
            prop_assert_eq!(messages.iter().map(|message| message.contents.paths).sum::<usize>(), paths.len());
            prop_assert!(messages.iter().all(|message| message.text.len() <= BILLED_BYTES));
            let requests = split_requests(messages.clone());
            for request in &requests {
                prop_assert!(!request.is_empty() && request.len() <= MAX_BATCH_MESSAGES);
                prop_assert!(request.iter().map(|message| message.text.len()).sum::<usize>() <= MAX_BATCH_BYTES);
            }
            prop_assert_eq!(requests.concat(), messages);
        }
    }
}
