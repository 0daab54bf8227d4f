//! What tells the exporter of new objects: an event of S3, or messages of SQS that hold one each.

use std::borrow::Cow;

use afterwrite::{Error, ErrorKind, Result};
use percent_encoding::percent_decode_str;
use serde::Deserialize;

/// An object that an event speaks of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Created {
    /// Its bucket.
    pub bucket: String,
    /// Its key, decoded.
    pub key: String,
}

/// What an invocation is about.
#[derive(Debug)]
pub enum Notice {
    /// An event of S3: all of its objects succeed, or the invocation fails.
    Direct(Vec<Created>),
    /// Messages of SQS by their ids, each of which succeeds or fails alone.
    Queued(Vec<(String, Result<Vec<Created>>)>),
}

#[derive(Deserialize)]
struct Event<'e> {
    #[serde(borrow, rename = "Records", default)]
    records: Option<Vec<Record<'e>>>,
    #[serde(borrow, rename = "Event", default)]
    event: Option<Cow<'e, str>>,
}

#[derive(Deserialize)]
struct Record<'e> {
    #[serde(borrow, default)]
    s3: Option<Entity<'e>>,
    #[serde(borrow, rename = "messageId", default)]
    message_id: Option<Cow<'e, str>>,
    #[serde(borrow, default)]
    body: Option<Cow<'e, str>>,
}

#[derive(Deserialize)]
struct Entity<'e> {
    #[serde(borrow)]
    bucket: Bucket<'e>,
    #[serde(borrow)]
    object: Object<'e>,
}

#[derive(Deserialize)]
struct Bucket<'e> {
    #[serde(borrow)]
    name: Cow<'e, str>,
}

#[derive(Deserialize)]
struct Object<'e> {
    #[serde(borrow)]
    key: Cow<'e, str>,
}

impl Notice {
    /// Reads the event of an invocation. What S3 sends to test a new notification (`s3:TestEvent`) speaks of no object.
    ///
    /// # Errors
    /// [`ErrorKind::Event`] if it is neither S3's nor SQS's.
    pub fn read(json: &str) -> Result<Self> {
        let event: Event<'_> = serde_json::from_str(json).map_err(|_| not_an_event())?;
        let Some(records) = event.records else { return Ok(Self::Direct(created(json)?)) };
        if records.iter().all(|record| record.message_id.is_none()) {
            return Ok(Self::Direct(objects(records)?));
        }
        let messages = records.into_iter().map(|record| {
            let body = record.body.as_deref().ok_or_else(not_an_event).and_then(created);
            (record.message_id.unwrap_or_default().into_owned(), body)
        });
        Ok(Self::Queued(messages.collect()))
    }
}

/// The objects of an event of S3.
fn created(json: &str) -> Result<Vec<Created>> {
    let event: Event<'_> = serde_json::from_str(json).map_err(|_| not_an_event())?;
    match event.records {
        Some(records) => objects(records),
        None if event.event.as_deref() == Some("s3:TestEvent") => Ok(Vec::new()),
        None => Err(not_an_event()),
    }
}

fn objects(records: Vec<Record<'_>>) -> Result<Vec<Created>> {
    let created = records.into_iter().map(|record| {
        let Entity { bucket, object } = record.s3.ok_or_else(not_an_event)?;
        // In events a space is a plus sign, and all that URLs reserve is percent-encoded.
        let key = object.key.replace('+', " ");
        let key = percent_decode_str(&key).decode_utf8().map_err(|_| not_an_event())?.into_owned();
        Ok(Created { bucket: bucket.name.into_owned(), key })
    });
    created.collect()
}

fn not_an_event() -> Error {
    Error::new(ErrorKind::Event, "this is neither an event of S3 nor messages of SQS that hold one").hint(
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

    fn keys(created: &[Created]) -> Vec<&str> {
        created.iter().map(|created| created.key.as_str()).collect()
    }

    #[test]
    fn keys_arrive_encoded() {
        let Notice::Direct(created) =
            Notice::read(&event("archive/dt%3D2026-02-06/hh=14/a+b%2Bc%C3%A9.gz")).unwrap()
        else {
            panic!("it is S3's own")
        };
        assert_eq!(keys(&created), ["archive/dt=2026-02-06/hh=14/a b+cé.gz"]);
        assert_eq!(created[0].bucket, "lake");
    }

    #[test]
    fn a_test_event_speaks_of_nothing() {
        let test =
            r#"{"Service":"Amazon S3","Event":"s3:TestEvent","Time":"2026-02-06T10:00:00Z","Bucket":"lake"}"#;
        assert!(matches!(Notice::read(test), Ok(Notice::Direct(created)) if created.is_empty()));
        let queued = serde_json::json!({ "Records": [{ "messageId": "1", "body": test }] }).to_string();
        let Ok(Notice::Queued(messages)) = Notice::read(&queued) else { panic!("it is queued") };
        assert!(matches!(&messages[..], [(id, Ok(created))] if id == "1" && created.is_empty()));
    }

    #[test]
    fn a_bad_message_spoils_no_other() {
        let records = serde_json::json!({ "Records": [
            { "messageId": "1", "body": event("archive/a.gz") },
            { "messageId": "2", "body": "hello" },
            { "messageId": "3" },
        ]});
        let Ok(Notice::Queued(messages)) = Notice::read(&records.to_string()) else { panic!("it is queued") };
        let told: Vec<_> = messages.iter().map(|(id, created)| (id.as_str(), created.is_ok())).collect();
        assert_eq!(told, [("1", true), ("2", false), ("3", false)]);
    }

    #[test]
    fn what_is_no_event_is_told() {
        for json in ["", "[]", "{}", r#"{"Records":[{}]}"#, r#"{"Records":5}"#, r#"{"Event":"else"}"#] {
            assert_eq!(Notice::read(json).unwrap_err().kind(), ErrorKind::Event, "{json}");
        }
    }
}
