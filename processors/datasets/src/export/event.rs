//! The events that name new objects: an event of S3, or SQS messages that hold one each.

use afterwrite_model::{Error, ErrorKind, Result};
use percent_encoding::percent_decode_str;
use serde_json::Value;

/// An object that was created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreatedObject {
    /// Its bucket.
    pub bucket: String,
    /// Its key, decoded.
    pub key: String,
}

/// The event of an invocation.
#[derive(Debug)]
pub enum ExporterEvent {
    /// An event of S3: all objects succeed, or the invocation fails.
    Objects(Vec<CreatedObject>),
    /// SQS messages by their ids: each succeeds or fails by itself.
    Messages(Vec<(String, Result<Vec<CreatedObject>>)>),
}

impl ExporterEvent {
    /// Reads the event of an invocation. The event with which S3 tests a new notification (`s3:TestEvent`) names no object.
    ///
    /// # Errors
    /// [`ErrorKind::Event`] if the event is neither of S3 nor of SQS.
    pub fn read(json: &str) -> Result<Self> {
        let event: Value = serde_json::from_str(json).map_err(|_| not_an_event())?;
        // EventBridge Pipes sends the messages of a queue alone.
        let records = event.get("Records").unwrap_or(&event).as_array();
        match records {
            Some(records) if records.iter().any(|record| record.get("messageId").is_some()) => {
                Ok(Self::Messages(records.iter().map(read_message).collect()))
            }
            Some(_) | None => Ok(Self::Objects(created_objects(&event)?)),
        }
    }
}

/// The id of an SQS message, and the objects of the S3 event that it holds.
fn read_message(message: &Value) -> (String, Result<Vec<CreatedObject>>) {
    let text = |name: &str| message.get(name).and_then(Value::as_str);
    let body = text("body").and_then(|body| serde_json::from_str(body).ok());
    let created = body.as_ref().ok_or_else(not_an_event).and_then(created_objects);
    (text("messageId").unwrap_or_default().to_owned(), created)
}

/// The objects of an S3 event.
fn created_objects(event: &Value) -> Result<Vec<CreatedObject>> {
    let created = match (event.get("Records"), event.get("Event")) {
        (Some(records), _) => records.as_array().and_then(|all| all.iter().map(created_object).collect()),
        (None, Some(event)) => (event == "s3:TestEvent").then(Vec::new),
        (None, None) => None,
    };
    created.ok_or_else(not_an_event)
}

fn created_object(record: &Value) -> Option<CreatedObject> {
    let bucket = record.pointer("/s3/bucket/name")?.as_str()?.to_owned();
    // In events a space is a plus sign, and all characters that URLs reserve are percent-encoded.
    let key = record.pointer("/s3/object/key")?.as_str()?.replace('+', " ");
    let key = percent_decode_str(&key).decode_utf8().ok()?.into_owned();
    Some(CreatedObject { bucket, key })
}

fn not_an_event() -> Error {
    Error::new(ErrorKind::Event, "the payload is neither an S3 event nor SQS messages that hold S3 events").hint(
        "Let the bucket notify the function of the objects created under archive/, directly or through SQS",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(key: &str) -> String {
        format!(
            r#"{{"Records":[{{"eventSource":"aws:s3","s3":{{"bucket":{{"name":"lake"}},"object":{{"key":"{key}","size":5}}}}}}]}}"#
        )
    }

    fn keys(created: &[CreatedObject]) -> Vec<&str> {
        created.iter().map(|created| created.key.as_str()).collect()
    }

    #[test]
    fn keys_in_events_are_decoded() {
        let ExporterEvent::Objects(created) =
            ExporterEvent::read(&event("archive/dt%3D2026-02-06/hh=14/a+b%2Bc%C3%A9.gz")).unwrap()
        else {
            panic!("an event of S3")
        };
        assert_eq!(keys(&created), ["archive/dt=2026-02-06/hh=14/a b+cé.gz"]);
        assert_eq!(created[0].bucket, "lake");
    }

    #[test]
    fn a_test_event_names_no_object() {
        let test =
            r#"{"Service":"Amazon S3","Event":"s3:TestEvent","Time":"2026-02-06T10:00:00Z","Bucket":"lake"}"#;
        assert!(
            matches!(ExporterEvent::read(test), Ok(ExporterEvent::Objects(created)) if created.is_empty())
        );
        let queued = serde_json::json!({ "Records": [{ "messageId": "1", "body": test }] }).to_string();
        let Ok(ExporterEvent::Messages(messages)) = ExporterEvent::read(&queued) else {
            panic!("SQS messages")
        };
        assert!(matches!(&messages[..], [(id, Ok(created))] if id == "1" && created.is_empty()));
    }

    #[test]
    fn an_invalid_message_does_not_affect_the_others() {
        let records = serde_json::json!({ "Records": [
            { "messageId": "1", "body": event("archive/a.gz") },
            { "messageId": "2", "body": "hello" },
            { "messageId": "3" },
        ]});
        for event in [&records, &records["Records"]] {
            let Ok(ExporterEvent::Messages(messages)) = ExporterEvent::read(&event.to_string()) else {
                panic!("SQS messages")
            };
            let valid: Vec<_> = messages.iter().map(|(id, created)| (id.as_str(), created.is_ok())).collect();
            assert_eq!(valid, [("1", true), ("2", false), ("3", false)]);
        }
    }

    #[test]
    fn other_payloads_are_errors() {
        for json in ["", "[]", "{}", r#"{"Records":[{}]}"#, r#"{"Records":5}"#, r#"{"Event":"else"}"#] {
            assert_eq!(ExporterEvent::read(json).unwrap_err().kind(), ErrorKind::Event, "{json}");
        }
    }
}
