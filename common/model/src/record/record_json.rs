//! Decodes one record of an event, in the format of Lambda, into a [`ChangeRecord`].

use std::borrow::Cow;

use jiff::{SignedDuration, Unit};

use super::change::{SourceParser, StreamSource};
use super::image_json::{DecodeContext, KnownAttribute};
use super::json_reader::{InvalidJson, JsonReader, JsonResult};
use super::shape_cache::ShapeCache;
use super::{ChangeRecord, Image, OldImage, Operation, Position, PrimaryKey, StreamView, Timestamp};

/// Times from this number on are in milliseconds: in seconds it would be the year 5138.
const FIRST_IN_MILLISECONDS: i64 = 100_000_000_000;

/// Caches of earlier records, which most records resemble: the shape of the record, and its fields.
#[derive(Default)]
pub(super) struct RecordCaches<'a> {
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
    pub(super) fn record<'a>(
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
            StreamField::NewImage => parts.new = reader.nullable(|reader| self.image(reader, image))?,
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
