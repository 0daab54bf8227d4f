//! Which AWS service sent a payload, so that a wrongly connected function can name it.

use std::borrow::Cow;

use afterwrite_model::{Error, ErrorKind};
use serde::Deserialize;

/// An AWS service whose payloads are recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventSource {
    /// A table's stream, through an event source mapping.
    DynamoDb,
    /// A queue.
    Sqs,
    /// A Kinesis data stream.
    Kinesis,
    /// A topic.
    Sns,
    /// A bucket's notification.
    S3,
    /// A rule or a schedule.
    EventBridge,
}

#[derive(Deserialize)]
struct PayloadEnvelope<'p> {
    #[serde(borrow, rename = "Records", default)]
    records: Vec<RecordEnvelope<'p>>,
    /// Of an EventBridge event.
    #[serde(borrow, rename = "detail-type", default)]
    detail_type: Option<Cow<'p, str>>,
    /// Of the event that S3 sends to test a notification.
    #[serde(borrow, rename = "Event", default)]
    event: Option<Cow<'p, str>>,
}

#[derive(Deserialize)]
struct RecordEnvelope<'p> {
    /// SNS spells it in upper case.
    #[serde(borrow, rename = "eventSource", alias = "EventSource", default)]
    source: Option<Cow<'p, str>>,
}

impl EventSource {
    /// The service that sent a payload; `None` if it is not recognised.
    #[must_use]
    pub fn detect(payload: &[u8]) -> Option<Self> {
        let envelope: PayloadEnvelope<'_> = match serde_json::from_slice(payload) {
            // EventBridge Pipes sends the records alone.
            Ok(records) => PayloadEnvelope { records, detail_type: None, event: None },
            Err(_) => serde_json::from_slice(payload).ok()?,
        };
        if envelope.detail_type.is_some() {
            return Some(Self::EventBridge);
        }
        let source = envelope.records.first().and_then(|record| record.source.as_deref());
        match source.or(envelope.event.as_deref())? {
            "aws:dynamodb" => Some(Self::DynamoDb),
            "aws:sqs" => Some(Self::Sqs),
            "aws:kinesis" => Some(Self::Kinesis),
            "aws:sns" => Some(Self::Sns),
            "aws:s3" | "s3:TestEvent" => Some(Self::S3),
            _ => None,
        }
    }

    /// The error of a function that reads something else: `reads` is, for example, "DynamoDB stream events", and `hint` explains how to
    /// connect it.
    #[must_use]
    pub fn unexpected(self, function: &str, reads: &str, hint: &str) -> Error {
        let message = format!("this is {}; {function} reads {reads}", self.event());
        Error::new(ErrorKind::Event, message).hint(hint)
    }

    fn event(self) -> &'static str {
        match self {
            Self::DynamoDb => "a DynamoDB stream event",
            Self::Sqs => "an SQS event",
            Self::Kinesis => "a Kinesis event",
            Self::Sns => "an SNS event",
            Self::S3 => "an S3 event",
            Self::EventBridge => "an EventBridge event",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_are_recognised() {
        for (payload, source) in [
            (
                r#"{"Records":[{"eventID":"1","eventSource":"aws:dynamodb","dynamodb":{}}]}"#,
                EventSource::DynamoDb,
            ),
            (r#"{"Records":[{"messageId":"1","body":"{}","eventSource":"aws:sqs"}]}"#, EventSource::Sqs),
            (r#"{"Records":[{"kinesis":{"data":""},"eventSource":"aws:kinesis"}]}"#, EventSource::Kinesis),
            (r#"{"Records":[{"EventSource":"aws:sns","Sns":{"Message":"x"}}]}"#, EventSource::Sns),
            (r#"{"Records":[{"eventSource":"aws:s3","s3":{}}]}"#, EventSource::S3),
            (r#"[{"messageId":"1","body":"{}","eventSource":"aws:sqs"}]"#, EventSource::Sqs),
            (r#"{"Service":"Amazon S3","Event":"s3:TestEvent","Bucket":"b"}"#, EventSource::S3),
            (
                r#"{"version":"0","detail-type":"Scheduled Event","source":"aws.events"}"#,
                EventSource::EventBridge,
            ),
        ] {
            assert_eq!(EventSource::detect(payload.as_bytes()), Some(source), "{payload}");
        }
        for payload in
            ["", "{}", "5", r#"{"Records":[]}"#, r#"{"Records":5}"#, r#"{"Records":[{}]}"#, "[]", "[5]"]
        {
            assert_eq!(EventSource::detect(payload.as_bytes()), None, "{payload}");
        }
    }
}
