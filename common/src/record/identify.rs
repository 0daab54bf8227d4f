//! A malformed record → what can be read of it.

use std::borrow::Cow;

use super::json::DecodeContext;
use super::reader::JsonReader;
use super::record_json::UserIdentity;
use super::source::StreamSource;
use super::{AttributeInterner, BadRecord, Operation, Position};
use crate::Error;

/// What can be read of a malformed record, each field on its own.
pub(super) fn identify(json: &str, error: Error) -> BadRecord<'_> {
    let record = UnreadFields::of(json);
    let stream = record.json("dynamodb").map(UnreadFields::of).unwrap_or_default();
    let source = record.text("eventSourceARN").and_then(StreamSource::from_arn);
    let sequence_number = stream.text("SequenceNumber");
    let (table, label) = source.map(|source| (source.table, source.label)).unzip();
    let position =
        label.zip(sequence_number.clone()).and_then(|(label, number)| Position::new(label, number).ok());
    let nothing = AttributeInterner::default();
    let keys = stream
        .json("Keys")
        .and_then(|json| JsonReader::whole(json, |reader| DecodeContext::new(&nothing).keys(reader)).ok());
    let identity =
        record.json("userIdentity").and_then(|json| JsonReader::whole(json, UserIdentity::read).ok());
    // Where the event's name is what is wrong, it may have been a removal: only what is surely none passes for none.
    let operation = record.text("eventName").and_then(|name| Operation::from_event_name(&name));
    let may_be_removal = !matches!(operation, Some(Operation::Insert | Operation::Modify));
    let expired = may_be_removal && identity.is_some_and(|identity| identity.is_time_to_live);
    let error = match &sequence_number {
        Some(number) => error.with("sequence number", number.as_ref()),
        None => error,
    };
    let event_id = record.text("eventID").unwrap_or_default();
    BadRecord { event_id, sequence_number, table, position, keys, expired, error }
}

/// The fields of a JSON object, unread; none, if the JSON is something else.
#[derive(Default)]
struct UnreadFields<'a>(Vec<(Cow<'a, str>, &'a str)>);

impl<'a> UnreadFields<'a> {
    fn of(json: &'a str) -> Self {
        let mut fields = Vec::new();
        let read = JsonReader::whole(json, |reader| {
            reader.object(|reader, name| {
                fields.push((name, reader.skip()?));
                Ok(())
            })
        });
        read.map(|()| Self(fields)).unwrap_or_default()
    }

    fn json(&self, name: &str) -> Option<&'a str> {
        self.0.iter().rfind(|(held, _)| held == name).map(|(_, json)| *json)
    }

    fn text(&self, name: &str) -> Option<Cow<'a, str>> {
        JsonReader::whole(self.json(name)?, JsonReader::text).ok()
    }
}
