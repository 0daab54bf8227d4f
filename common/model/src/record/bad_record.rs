//! Reads the parts of a malformed record that can be read, and the author of a change (`userIdentity`), which most records do not name.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::change::StreamSource;
use super::image_json::DecodeContext;
use super::json_reader::{JsonReader, JsonResult};
use super::{AttributeInterner, BadRecord, JsonMembers, Operation, Position};
use crate::Error;

/// Reads each field of a malformed record on its own.
pub(super) fn read_bad_record(json: &str, error: Error) -> BadRecord<'_> {
    let record = RawFields::parse(json);
    let stream = record.json("dynamodb").map(RawFields::parse).unwrap_or_default();
    let source = record.text("eventSourceARN").and_then(StreamSource::from_arn);
    let sequence_number = stream.text("SequenceNumber");
    let (origin, label) = source.map(|source| ((source.region, source.table), source.label)).unzip();
    let (region, table) = origin.unzip();
    let position =
        label.zip(sequence_number.clone()).and_then(|(label, number)| Position::new(label, number).ok());
    let no_attributes = AttributeInterner::default();
    let context = DecodeContext::new(&no_attributes);
    let keys =
        stream.json("Keys").and_then(|json| JsonReader::read_all(json, |reader| context.keys(reader)).ok());
    let identity =
        record.json("userIdentity").and_then(|json| JsonReader::read_all(json, UserIdentity::read).ok());
    // A record whose `eventName` is malformed may be a removal, and so an expiry.
    let operation = record.text("eventName").and_then(|name| Operation::from_event_name(&name));
    let may_be_removal = !matches!(operation, Some(Operation::Insert | Operation::Modify));
    let expired = may_be_removal && identity.is_some_and(|identity| identity.is_time_to_live);
    let error = match &sequence_number {
        Some(number) => error.with("sequence number", number.as_ref()),
        None => error,
    };
    let event_id = record.text("eventID").unwrap_or_default();
    BadRecord { event_id, sequence_number, region, table, position, keys, expired, error }
}

/// The fields of a JSON object as raw JSON; empty if the JSON is not an object.
#[derive(Default)]
struct RawFields<'a>(Vec<(String, &'a RawValue)>);

impl<'a> RawFields<'a> {
    fn parse(json: &'a str) -> Self {
        serde_json::from_str(json).map(|JsonMembers(fields)| Self(fields)).unwrap_or_default()
    }

    fn json(&self, name: &str) -> Option<&'a str> {
        self.0.iter().rfind(|(known, _)| known == name).map(|(_, json)| json.get())
    }

    fn text(&self, name: &str) -> Option<Cow<'a, str>> {
        JsonReader::read_all(self.json(name)?, JsonReader::text).ok()
    }
}

/// The author of a change, if the record names one.
pub(super) struct UserIdentity {
    pub(super) is_time_to_live: bool,
}

impl UserIdentity {
    /// Lambda writes the names in lower case, DynamoDB's API in upper case.
    pub(super) fn read(reader: &mut JsonReader<'_>) -> JsonResult<Self> {
        let (mut is_service, mut is_dynamodb) = (false, false);
        reader.object(|reader, name| {
            match &*name {
                "type" | "Type" => {
                    let kind = reader.nullable(JsonReader::text)?;
                    is_service = kind.is_some_and(|kind| kind == "Service");
                }
                "principalId" | "PrincipalId" => {
                    let principal = reader.nullable(JsonReader::text)?;
                    is_dynamodb = principal.is_some_and(|principal| principal == "dynamodb.amazonaws.com");
                }
                _ => {
                    reader.skip()?;
                }
            }
            Ok(())
        })?;
        Ok(Self { is_time_to_live: is_service && is_dynamodb })
    }
}
