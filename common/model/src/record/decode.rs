//! Decodes the bytes of a Lambda DynamoDB event into change records: the list of records, then the fields of each record.
//!
//! ```text
//! bytes ─▶ all records in one strict pass ───────────────────────▶ batch
//!                    │ a record is malformed                         ▲
//!                    └▶ split into records ─▶ each on its own ───────┤
//!                                              │ malformed           │
//!                                              └▶ bad_record ────────┘
//! ```
//!
//! Malformed records are rare. The first pass stops at the first fault; only then is the event read again, record by
//! record, and the malformed records are reported. Attributes that the model does not name are skipped. The old image
//! is kept as JSON until it is needed, except for its eager fields ([`super::OldImage::eager_fields`]). Records of one
//! table have similar shapes, and an old image resembles the new one: an expected name or an unchanged value is
//! recognised by one comparison ([`super::shape_cache`]).
//!
//! If a JSON object has a duplicate name, the last one counts. Unknown fields are ignored, whatever their values are.

use std::borrow::Cow;

use jiff::{SignedDuration, Unit};
use serde::de::IgnoredAny;

use super::bad_record::{UserIdentity, read_bad_record};
use super::change::{SourceParser, StreamSource};
use super::image_json::{DecodeContext, KnownAttribute};
use super::json_reader::{InvalidJson, JsonReader, JsonResult};
use super::shape_cache::ShapeCache;
use super::{
    AttributeInterner, BadRecord, ChangeRecord, Image, OldImage, Operation, Position, PrimaryKey,
    RecordBatch, StreamView, Timestamp,
};
use crate::{Error, ErrorKind, Result};

/// The typical size of a record: an estimate for the capacity of the list.
const TYPICAL_BYTES: usize = 1024;
/// Times from this number on are in milliseconds: in seconds it would be the year 5138.
const FIRST_IN_MILLISECONDS: i64 = 100_000_000_000;

type DecodedRecord<'a> = Result<ChangeRecord<'a>, Box<BadRecord<'a>>>;

/// Decodes an event. Only the attributes in `attributes` are decoded.
///
/// # Errors
/// [`ErrorKind::Event`] if the bytes are not JSON, or neither have a list `Records` nor are a list of records. A malformed record is not an error of the
/// event but a [`BadRecord`] in its place.
pub fn decode<'a>(event: &'a [u8], attributes: &AttributeInterner) -> Result<RecordBatch<'a>> {
    let event = std::str::from_utf8(event).map_err(|error| {
        not_an_event("the event is not JSON: it is not UTF-8").with("byte", error.valid_up_to().to_string())
    })?;
    let (context, mut caches) = (DecodeContext::new(attributes), RecordCaches::default());
    if let Ok(batch) = read_event(event, |reader| Ok(Ok(context.record(reader, &mut caches)?))) {
        return Ok(batch);
    }
    let mut decoder = RecordDecoder::new(attributes);
    read_event(event, |reader| Ok(decoder.decode_json(reader.skip()?))).map_err(|_| event_error(event))
}

/// Reads an event; `record` reads each of its records. Lambda's event source mapping sends an object with the list `Records`, EventBridge
/// Pipes the list alone.
fn read_event<'a>(
    event: &'a str,
    mut record: impl FnMut(&mut JsonReader<'a>) -> JsonResult<DecodedRecord<'a>>,
) -> JsonResult<RecordBatch<'a>> {
    JsonReader::read_all(event, |reader| {
        if !reader.is_object() {
            let batch = read_records(event, reader, |reader| {
                if reader.is_object() { record(reader) } else { Err(InvalidJson) }
            })?;
            // A list without records is not an event of Pipes, which has no reason to send it.
            return if batch.records.is_empty() { Err(InvalidJson) } else { Ok(batch) };
        }
        let mut batch = None;
        reader.object(|reader, name| {
            if name != "Records" {
                return reader.skip().map(drop);
            }
            batch = Some(read_records(event, reader, &mut record)?);
            Ok(())
        })?;
        batch.ok_or(InvalidJson)
    })
}

/// Reads the list of an event's records.
fn read_records<'a>(
    event: &'a str,
    reader: &mut JsonReader<'a>,
    mut record: impl FnMut(&mut JsonReader<'a>) -> JsonResult<DecodedRecord<'a>>,
) -> JsonResult<RecordBatch<'a>> {
    let capacity = event.len() / TYPICAL_BYTES;
    let (mut records, mut json) = (Vec::with_capacity(capacity), Vec::with_capacity(capacity));
    reader.list(|reader| {
        let start = reader.start();
        records.push(record(reader)?);
        json.push(reader.text_since(start)?);
        Ok(())
    })?;
    Ok(RecordBatch { records, json })
}

/// The error of an event that [`read_event`] cannot read; only serde_json reports where text is not JSON.
fn event_error(event: &str) -> Error {
    match serde_json::from_str::<IgnoredAny>(event) {
        Ok(_) => not_an_event("the event has no list `Records`"),
        Err(error) => not_an_event("the event is not JSON")
            .with("line", error.line().to_string())
            .with("column", error.column().to_string()),
    }
}

fn not_an_event(message: &str) -> Error {
    Error::new(ErrorKind::Event, message).hint(
        "Connect the function to a DynamoDB stream by an event source mapping, or by EventBridge Pipes without an input transformer",
    )
}

/// Decodes records one by one, for example the lines of the archive. It caches the shape of earlier records for speed;
/// the result for a record depends on that record alone.
pub struct RecordDecoder<'v, 'a> {
    attributes: &'v AttributeInterner,
    caches: RecordCaches<'a>,
}

impl<'v, 'a> RecordDecoder<'v, 'a> {
    /// A decoder for the attributes in `attributes`.
    #[must_use]
    pub fn new(attributes: &'v AttributeInterner) -> Self {
        Self { attributes, caches: RecordCaches::default() }
    }

    /// Decodes one record.
    ///
    /// # Errors
    /// A malformed record: the error, and what could be read of the record.
    pub fn record(&mut self, line: &'a [u8]) -> Result<ChangeRecord<'a>, Box<BadRecord<'a>>> {
        match std::str::from_utf8(line) {
            Ok(line) => self.decode_json(line),
            Err(_) => {
                let error = Error::new(ErrorKind::Record, "the line is not UTF-8");
                Err(Box::new(read_bad_record("", error)))
            }
        }
    }

    fn decode_json(&mut self, json: &'a str) -> Result<ChangeRecord<'a>, Box<BadRecord<'a>>> {
        let context = DecodeContext::new(self.attributes);
        let record = JsonReader::read_all(json, |reader| context.record(reader, &mut self.caches));
        record.map_err(|_| Box::new(read_bad_record(json, context.into_error())))
    }
}

/// Caches of earlier records, which most records resemble: the shape of the record, and its fields.
#[derive(Default)]
struct RecordCaches<'a> {
    record: ShapeCache<'a, Option<RecordField>>,
    fields: FieldCaches<'a>,
}

/// The streams of earlier records, and the shapes of their `dynamodb` objects and their images.
#[derive(Default)]
struct FieldCaches<'a> {
    sources: SourceParser<'a>,
    stream: ShapeCache<'a, Option<StreamField>>,
    image: ShapeCache<'a, KnownAttribute>,
}

/// Declares the fields of a JSON object that are read, each with its name.
macro_rules! json_fields {
    ($(#[$doc:meta])* $fields:ident { $($field:ident = $name:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy)]
        enum $fields { $($field,)* }

        impl $fields {
            fn name(self) -> &'static str {
                match self { $(Self::$field => $name,)* }
            }

            fn parse(name: &str) -> Option<Self> {
                match name { $($name => Some(Self::$field),)* _ => None }
            }
        }
    };
}

json_fields! {
    /// The fields of a record.
    RecordField {
        EventId = "eventID",
        EventName = "eventName",
        EventSourceArn = "eventSourceARN",
        UserIdentity = "userIdentity",
        Dynamodb = "dynamodb",
    }
}

json_fields! {
    /// The fields of a record's `dynamodb` object.
    StreamField {
        ApproximateCreationDateTime = "ApproximateCreationDateTime",
        Keys = "Keys",
        NewImage = "NewImage",
        OldImage = "OldImage",
        SequenceNumber = "SequenceNumber",
        StreamViewType = "StreamViewType",
    }
}

/// The values of a record's fields.
#[derive(Default)]
struct RecordParts<'a> {
    event_id: Cow<'a, str>,
    operation: Option<Operation>,
    source: Option<StreamSource<'a>>,
    is_time_to_live: bool,
    stream: StreamParts<'a>,
}

/// The values of the fields of a record's `dynamodb` object.
#[derive(Default)]
struct StreamParts<'a> {
    keys: Option<PrimaryKey<'a>>,
    new: Option<Image<'a>>,
    old: OldImage<'a>,
    sequence_number: Option<Cow<'a, str>>,
    created_at: Option<Timestamp>,
    view: Option<StreamView>,
}

impl DecodeContext<'_> {
    /// Decodes one record.
    fn record<'a>(
        &self,
        reader: &mut JsonReader<'a>,
        caches: &mut RecordCaches<'a>,
    ) -> JsonResult<ChangeRecord<'a>> {
        let mut parts = RecordParts::default();
        let RecordCaches { record, fields } = caches;
        reader.object_with_shape(record, RecordField::parse, |reader, field, last| {
            let Some(field) = field else { return reader.skip_expecting(last) };
            self.within(field.name(), self.record_field(field, reader, fields, &mut parts))
        })?;
        self.complete(parts)
    }

    #[inline]
    fn record_field<'a>(
        &self,
        field: RecordField,
        reader: &mut JsonReader<'a>,
        caches: &mut FieldCaches<'a>,
        parts: &mut RecordParts<'a>,
    ) -> JsonResult<()> {
        match field {
            // Counting does not use the event's id, so an id that is not text is ignored.
            RecordField::EventId => parts.event_id = reader.text_if_any()?.unwrap_or_default(),
            RecordField::EventName => parts.operation = Operation::from_event_name(&reader.text()?),
            RecordField::EventSourceArn => parts.source = caches.sources.parse(reader.text()?),
            RecordField::UserIdentity => {
                let identity = reader.nullable(UserIdentity::read)?;
                parts.is_time_to_live = identity.is_some_and(|identity| identity.is_time_to_live);
            }
            RecordField::Dynamodb => {
                parts.stream = StreamParts::default();
                self.stream(reader, &mut caches.stream, &mut caches.image, &mut parts.stream)?;
            }
        }
        Ok(())
    }

    fn complete<'a>(&self, parts: RecordParts<'a>) -> JsonResult<ChangeRecord<'a>> {
        let operation =
            parts.operation.ok_or_else(|| self.fault("eventName must be INSERT, MODIFY or REMOVE"))?;
        let StreamSource { region, table, label } =
            parts.source.ok_or_else(|| self.fault("eventSourceARN must be the ARN of a table's stream"))?;
        let stream = parts.stream;
        let position = stream
            .sequence_number
            // Zero is the place before the first record: a change there could never be newer than it.
            .filter(|number| number.bytes().any(|digit| digit != b'0'))
            .and_then(|number| Position::new(label, number).ok())
            .ok_or_else(|| self.fault("SequenceNumber must be a number of 1 to 40 digits, and not 0"))?;
        // Some emulators send an empty image where DynamoDB sends none: `eventName` decides which images the record has.
        let (new, old, has_stray_image) = match operation {
            Operation::Insert => (stream.new, OldImage::default(), stream.old.is_present()),
            Operation::Modify => (stream.new, stream.old, false),
            Operation::Remove => (None, stream.old, stream.new.is_some()),
        };
        Ok(ChangeRecord {
            event_id: parts.event_id,
            region,
            table,
            position,
            operation,
            expired: parts.is_time_to_live && operation == Operation::Remove,
            keys: stream.keys.ok_or_else(|| self.fault("Keys is missing"))?,
            created_at: stream.created_at,
            new,
            old,
            has_stray_image,
            view: stream.view,
        })
    }

    /// Decodes the `dynamodb` object into `parts`; returning it by value would copy it.
    fn stream<'a>(
        &self,
        reader: &mut JsonReader<'a>,
        shape: &mut ShapeCache<'a, Option<StreamField>>,
        image: &mut ShapeCache<'a, KnownAttribute>,
        parts: &mut StreamParts<'a>,
    ) -> JsonResult<()> {
        reader.object_with_shape(shape, StreamField::parse, |reader, field, last| {
            let Some(field) = field else { return reader.skip_expecting(last) };
            self.within(field.name(), self.stream_field(field, reader, image, parts))
        })
    }

    #[inline]
    fn stream_field<'a>(
        &self,
        field: StreamField,
        reader: &mut JsonReader<'a>,
        image: &mut ShapeCache<'a, KnownAttribute>,
        parts: &mut StreamParts<'a>,
    ) -> JsonResult<()> {
        match field {
            StreamField::ApproximateCreationDateTime => parts.created_at = created_at(reader.skip()?)?,
            StreamField::Keys => parts.keys = Some(self.keys(reader)?),
            StreamField::NewImage => {
                parts.new = reader.nullable(|reader| self.image(reader, image))?.flatten()
            }
            StreamField::OldImage => {
                let old = reader.nullable(|reader| self.skip_image(reader, image))?;
                parts.old = old.map(|(json, eager)| OldImage::new(json, eager)).unwrap_or_default();
            }
            StreamField::SequenceNumber => parts.sequence_number = Some(reader.text()?),
            StreamField::StreamViewType => {
                let view = reader.nullable(JsonReader::text)?;
                parts.view = view.and_then(|view| StreamView::from_name(&view));
            }
        }
        Ok(())
    }
}

/// Parses a time in seconds (integer or fraction) or in milliseconds, or null.
fn created_at(json: &str) -> JsonResult<Option<Timestamp>> {
    if json == "null" {
        return Ok(None);
    }
    if let Ok(number) = json.parse() {
        return Ok(Some(seconds_or_ms(number)));
    }
    // A float represents current times to a fraction of a microsecond, so rounding to milliseconds is exact.
    let seconds: f64 = json.parse().map_err(|_| InvalidJson)?;
    let duration = SignedDuration::try_from_secs_f64(seconds).map_err(|_| InvalidJson)?;
    if duration.as_secs() >= FIRST_IN_MILLISECONDS {
        return Ok(Some(seconds_or_ms(duration.as_secs())));
    }
    let duration = duration.round(Unit::Millisecond).map_err(|_| InvalidJson)?;
    let epoch_ms = i64::try_from(duration.as_millis()).map_err(|_| InvalidJson)?;
    Ok(Some(Timestamp::from_epoch_ms(epoch_ms)))
}

fn seconds_or_ms(number: i64) -> Timestamp {
    if number < FIRST_IN_MILLISECONDS {
        Timestamp::from_epoch_seconds(number)
    } else {
        Timestamp::from_epoch_ms(number)
    }
}

#[cfg(test)]
mod tests;
