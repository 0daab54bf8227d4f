//! One record of an event, as Lambda writes it → [`ChangeRecord`].

use std::borrow::Cow;

use jiff::{SignedDuration, Unit};

use super::json::{DecodeContext, KnownAttribute};
use super::layout::ShapeCache;
use super::reader::{InvalidJson, JsonReader};
use super::source::StreamSource;
use super::{ChangeRecord, Image, OldImage, Operation, Position, PrimaryKey, StreamView, Timestamp};

/// A time from here on is in milliseconds: in seconds it would be the year 5138.
const FIRST_IN_MILLISECONDS: i64 = 100_000_000_000;

/// What a record says outside its `dynamodb`, and that.
#[derive(Default)]
struct RecordParts<'a> {
    event_id: Cow<'a, str>,
    operation: Option<Operation>,
    source: Option<StreamSource<'a>>,
    is_by_service: bool,
    stream: StreamPart<'a>,
}

/// How records, and images, have looked so far.
#[derive(Default)]
pub(super) struct ShapeCaches<'a> {
    record: ShapeCache<'a, Option<RecordField>>,
    stream: ShapeCache<'a, Option<StreamField>>,
    image: ShapeCache<'a, KnownAttribute>,
}

/// What of a record is read.
#[derive(Clone, Copy)]
enum RecordField {
    EventId,
    EventName,
    EventSourceArn,
    UserIdentity,
    Dynamodb,
}

impl RecordField {
    const ALL: [Self; 5] =
        [Self::EventId, Self::EventName, Self::EventSourceArn, Self::UserIdentity, Self::Dynamodb];

    fn name(self) -> &'static str {
        match self {
            Self::EventId => "eventID",
            Self::EventName => "eventName",
            Self::EventSourceArn => "eventSourceARN",
            Self::UserIdentity => "userIdentity",
            Self::Dynamodb => "dynamodb",
        }
    }

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|field| field.name() == name)
    }
}

/// What of its `dynamodb` is read.
#[derive(Clone, Copy)]
enum StreamField {
    ApproximateCreationDateTime,
    Keys,
    NewImage,
    OldImage,
    SequenceNumber,
    StreamViewType,
}

impl StreamField {
    const ALL: [Self; 6] = [
        Self::ApproximateCreationDateTime,
        Self::Keys,
        Self::NewImage,
        Self::OldImage,
        Self::SequenceNumber,
        Self::StreamViewType,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::ApproximateCreationDateTime => "ApproximateCreationDateTime",
            Self::Keys => "Keys",
            Self::NewImage => "NewImage",
            Self::OldImage => "OldImage",
            Self::SequenceNumber => "SequenceNumber",
            Self::StreamViewType => "StreamViewType",
        }
    }

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|field| field.name() == name)
    }
}

impl DecodeContext<'_> {
    /// One record, strictly.
    pub(super) fn record<'a>(
        &self,
        reader: &mut JsonReader<'a>,
        layouts: &mut ShapeCaches<'a>,
    ) -> Result<ChangeRecord<'a>, InvalidJson> {
        let mut parts = RecordParts::default();
        let ShapeCaches { record, stream, image } = layouts;
        reader.object_like(record, RecordField::named, |reader, field, last| {
            let Some(field) = field else { return reader.skip_like(last) };
            let read = match field {
                RecordField::EventId => parts.read_event_id(reader),
                RecordField::EventName => parts.read_event_name(reader),
                RecordField::EventSourceArn => parts.read_source(reader),
                RecordField::UserIdentity => parts.read_identity(reader),
                RecordField::Dynamodb => {
                    parts.stream = StreamPart::default();
                    self.stream(reader, stream, image, &mut parts.stream)
                }
            };
            self.within(field.name(), read)
        })?;
        self.complete(parts)
    }

    fn complete<'a>(&self, parts: RecordParts<'a>) -> Result<ChangeRecord<'a>, InvalidJson> {
        let missing = |what| self.wrong(what);
        let operation =
            parts.operation.ok_or_else(|| missing("eventName must be INSERT, MODIFY or REMOVE"))?;
        let StreamSource { table, label } =
            parts.source.ok_or_else(|| missing("eventSourceARN must be the ARN of a table's stream"))?;
        let stream = parts.stream;
        let position = stream
            .sequence_number
            .and_then(|number| Position::new(label, number).ok())
            .ok_or_else(|| missing("SequenceNumber must be 1 to 40 digits"))?;
        Ok(ChangeRecord {
            event_id: parts.event_id,
            table,
            position,
            operation,
            expired: parts.is_by_service && operation == Operation::Remove,
            keys: stream.keys.ok_or_else(|| missing("it has no Keys"))?,
            created_at: stream.created_at,
            new: stream.new,
            old: stream.old,
            view: stream.view,
        })
    }

    /// What a record says in `dynamodb`: fills a part in place, which saves moving it.
    fn stream<'a>(
        &self,
        reader: &mut JsonReader<'a>,
        layout: &mut ShapeCache<'a, Option<StreamField>>,
        image: &mut ShapeCache<'a, KnownAttribute>,
        part: &mut StreamPart<'a>,
    ) -> Result<(), InvalidJson> {
        reader.object_like(layout, StreamField::named, |reader, field, last| {
            let Some(field) = field else { return reader.skip_like(last) };
            let read = match field {
                StreamField::ApproximateCreationDateTime => part.read_created_at(reader),
                StreamField::Keys => self.keys(reader).map(|keys| part.keys = Some(keys)),
                StreamField::NewImage => {
                    let new = reader.unless_null(|reader| self.image(reader, image));
                    new.map(|new| part.new = new)
                }
                StreamField::OldImage => self.old_image(reader, image).map(|old| part.old = old),
                StreamField::SequenceNumber => part.read_sequence_number(reader),
                StreamField::StreamViewType => part.read_view(reader),
            };
            self.within(field.name(), read)
        })
    }
}

impl<'a> RecordParts<'a> {
    /// One that is no text spoils no record: nothing is counted by it.
    fn read_event_id(&mut self, reader: &mut JsonReader<'a>) -> Result<(), InvalidJson> {
        self.event_id = reader.text_if_any()?.unwrap_or_default();
        Ok(())
    }

    fn read_event_name(&mut self, reader: &mut JsonReader<'a>) -> Result<(), InvalidJson> {
        self.operation = Operation::from_event_name(&reader.text()?);
        Ok(())
    }

    fn read_source(&mut self, reader: &mut JsonReader<'a>) -> Result<(), InvalidJson> {
        self.source = StreamSource::from_arn(reader.text()?);
        Ok(())
    }

    fn read_identity(&mut self, reader: &mut JsonReader<'a>) -> Result<(), InvalidJson> {
        let identity = reader.unless_null(UserIdentity::read)?;
        self.is_by_service = identity.is_some_and(|identity| identity.is_time_to_live);
        Ok(())
    }
}

impl<'a> StreamPart<'a> {
    fn read_created_at(&mut self, reader: &mut JsonReader<'a>) -> Result<(), InvalidJson> {
        self.created_at = created_at(reader.skip()?)?;
        Ok(())
    }

    fn read_sequence_number(&mut self, reader: &mut JsonReader<'a>) -> Result<(), InvalidJson> {
        self.sequence_number = Some(reader.text()?);
        Ok(())
    }

    fn read_view(&mut self, reader: &mut JsonReader<'a>) -> Result<(), InvalidJson> {
        let view = reader.unless_null(JsonReader::text)?;
        self.view = view.and_then(|view| StreamView::from_name(&view));
        Ok(())
    }
}

/// Who made a change, if it was not an application.
pub(super) struct UserIdentity {
    pub(super) is_time_to_live: bool,
}

impl UserIdentity {
    /// Lambda writes its names in lower case, DynamoDB's own API does not.
    pub(super) fn read(reader: &mut JsonReader<'_>) -> Result<Self, InvalidJson> {
        let (mut is_service, mut is_dynamodb) = (false, false);
        reader.object(|reader, name| {
            match &*name {
                "type" | "Type" => {
                    let kind = reader.unless_null(JsonReader::text)?;
                    is_service = kind.is_some_and(|kind| kind == "Service");
                }
                "principalId" | "PrincipalId" => {
                    let principal = reader.unless_null(JsonReader::text)?;
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

/// What a record says in `dynamodb`.
#[derive(Default)]
struct StreamPart<'a> {
    keys: Option<PrimaryKey<'a>>,
    new: Option<Image<'a>>,
    old: OldImage<'a>,
    sequence_number: Option<Cow<'a, str>>,
    created_at: Option<Timestamp>,
    view: Option<StreamView>,
}

/// A time in seconds, whole or not, or in milliseconds; or null.
fn created_at(json: &str) -> Result<Option<Timestamp>, InvalidJson> {
    if json == "null" {
        return Ok(None);
    }
    if let Ok(number) = json.parse() {
        return Ok(Some(seconds_or_ms(number)));
    }
    // A float holds today's time to a fraction of a microsecond, so rounding finds the millisecond that was meant.
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
