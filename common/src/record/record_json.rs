//! One record of an event, as Lambda writes it → [`ChangeRecord`], or what can be read of a malformed one.

use std::borrow::Cow;
use std::fmt;

use jiff::{SignedDuration, Unit};
use serde::Deserialize;
use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::json::{Context, ImageSeed, KeysSeed, Maybe, Text, read};
use super::{
    BadRecord, ChangeRecord, Image, Keys, OldImage, Operation, Position, StreamView, Timestamp, Vocabulary,
};
use crate::{Error, Result};

/// A time from here on is in milliseconds: in seconds it would be the year 5138.
const FIRST_IN_MILLISECONDS: i64 = 100_000_000_000;

/// One record, strictly.
pub(super) struct RecordSeed<'c, 'v>(pub(super) &'c Context<'v>);

#[derive(Deserialize)]
#[serde(field_identifier)]
enum RecordField {
    #[serde(rename = "eventID")]
    EventId,
    #[serde(rename = "eventName")]
    EventName,
    #[serde(rename = "eventSourceARN")]
    EventSourceArn,
    #[serde(rename = "userIdentity")]
    UserIdentity,
    #[serde(rename = "dynamodb")]
    Dynamodb,
    #[serde(other)]
    Other,
}

/// What a record says outside its `dynamodb`, and that.
#[derive(Default)]
struct Parts<'a> {
    event_id: Cow<'a, str>,
    operation: Option<Operation>,
    source: Option<Source<'a>>,
    is_by_service: bool,
    stream: StreamPart<'a>,
}

impl<'de> DeserializeSeed<'de> for RecordSeed<'_, '_> {
    type Value = ChangeRecord<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for RecordSeed<'_, '_> {
    type Value = ChangeRecord<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a change record")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let context = self.0;
        let mut parts = Parts::default();
        while let Some(field) = map.next_key()? {
            match field {
                RecordField::EventId => {
                    // One that is no text spoils no record: nothing is counted by it.
                    parts.event_id = text(map.next_value::<&'de RawValue>()?.get()).unwrap_or_default();
                }
                RecordField::EventName => {
                    let name = context.within("eventName", map.next_value::<Text<'de>>())?;
                    parts.operation = Operation::from_event_name(&name.0);
                }
                RecordField::EventSourceArn => {
                    let arn = context.within("eventSourceARN", map.next_value::<Text<'de>>())?;
                    parts.source = Source::from_arn(arn.0);
                }
                RecordField::UserIdentity => {
                    let identity =
                        context.within("userIdentity", map.next_value::<Option<UserIdentity>>())?;
                    parts.is_by_service = identity.is_some_and(|identity| identity.is_time_to_live);
                }
                RecordField::Dynamodb => {
                    parts.stream = StreamPart::default();
                    let seed = StreamSeed { context, part: &mut parts.stream };
                    context.within("dynamodb", map.next_value_seed(seed))?;
                }
                RecordField::Other => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        self.record(parts)
    }
}

impl RecordSeed<'_, '_> {
    fn record<'de, E: de::Error>(self, parts: Parts<'de>) -> Result<ChangeRecord<'de>, E> {
        let missing = |what| self.0.wrong(what);
        let operation =
            parts.operation.ok_or_else(|| missing("eventName must be INSERT, MODIFY or REMOVE"))?;
        let Source { table, label } =
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
}

/// Which stream of which table a record comes from.
struct Source<'a> {
    table: Cow<'a, str>,
    label: Cow<'a, str>,
}

impl<'a> Source<'a> {
    /// From `arn:aws:dynamodb:<region>:<account>:table/<table>/stream/<label>`.
    fn from_arn(arn: Cow<'a, str>) -> Option<Self> {
        fn split(arn: &str) -> Option<(&str, &str)> {
            let (rest, label) = arn.rsplit_once('/')?;
            let (resource, table) = rest.strip_suffix("/stream")?.rsplit_once('/')?;
            let is_stream = resource.ends_with(":table") && !table.is_empty() && !label.is_empty();
            is_stream.then_some((table, label))
        }
        match arn {
            Cow::Borrowed(arn) => {
                split(arn).map(|(table, label)| Self { table: table.into(), label: label.into() })
            }
            Cow::Owned(arn) => split(&arn).map(|(table, label)| Self {
                table: table.to_owned().into(),
                label: label.to_owned().into(),
            }),
        }
    }
}

/// Who made a change, if it was not an application.
struct UserIdentity {
    is_time_to_live: bool,
}

/// Lambda writes these in lower case, DynamoDB's own API does not.
#[derive(Deserialize)]
#[serde(field_identifier)]
enum IdentityField {
    #[serde(rename = "type", alias = "Type")]
    Type,
    #[serde(rename = "principalId", alias = "PrincipalId")]
    PrincipalId,
    #[serde(other)]
    Other,
}

impl<'de> Deserialize<'de> for UserIdentity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(UserIdentityVisitor)
    }
}

struct UserIdentityVisitor;

impl<'de> Visitor<'de> for UserIdentityVisitor {
    type Value = UserIdentity;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a user identity")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut is_service, mut is_dynamodb) = (false, false);
        while let Some(field) = map.next_key()? {
            match field {
                IdentityField::Type => {
                    is_service =
                        map.next_value::<Option<Text<'de>>>()?.is_some_and(|kind| kind.0 == "Service");
                }
                IdentityField::PrincipalId => {
                    let principal = map.next_value::<Option<Text<'de>>>()?;
                    is_dynamodb = principal.is_some_and(|principal| principal.0 == "dynamodb.amazonaws.com");
                }
                IdentityField::Other => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(UserIdentity { is_time_to_live: is_service && is_dynamodb })
    }
}

/// What a record says in `dynamodb`.
#[derive(Default)]
struct StreamPart<'a> {
    keys: Option<Keys<'a>>,
    new: Option<Image<'a>>,
    old: OldImage<'a>,
    sequence_number: Option<Cow<'a, str>>,
    created_at: Option<Timestamp>,
    view: Option<StreamView>,
}

#[derive(Deserialize)]
#[serde(field_identifier)]
enum StreamField {
    ApproximateCreationDateTime,
    Keys,
    NewImage,
    OldImage,
    SequenceNumber,
    StreamViewType,
    #[serde(other)]
    Other,
}

/// Fills a part in place, which saves moving it.
struct StreamSeed<'p, 'c, 'v, 'de> {
    context: &'c Context<'v>,
    part: &'p mut StreamPart<'de>,
}

impl<'de> DeserializeSeed<'de> for StreamSeed<'_, '_, '_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for StreamSeed<'_, '_, '_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a stream record")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let Self { context, part } = self;
        while let Some(field) = map.next_key()? {
            match field {
                StreamField::ApproximateCreationDateTime => {
                    let created_at =
                        context.within("ApproximateCreationDateTime", map.next_value::<CreatedAt>());
                    part.created_at = created_at?.0;
                }
                StreamField::Keys => {
                    part.keys = Some(context.within("Keys", map.next_value_seed(KeysSeed(context)))?);
                }
                StreamField::NewImage => {
                    part.new = context.within("NewImage", map.next_value_seed(Maybe(ImageSeed(context))))?;
                }
                StreamField::OldImage => {
                    let old = OldImage::from_json(map.next_value::<&'de RawValue>()?.get());
                    part.old = old.ok_or_else(|| context.wrong("OldImage must be a map"))?;
                }
                StreamField::SequenceNumber => {
                    let number = context.within("SequenceNumber", map.next_value::<Text<'de>>())?;
                    part.sequence_number = Some(number.0);
                }
                StreamField::StreamViewType => {
                    let view = context.within("StreamViewType", map.next_value::<Option<Text<'de>>>())?;
                    part.view = view.and_then(|view| StreamView::from_name(&view.0));
                }
                StreamField::Other => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

/// A time in seconds, whole or not, or in milliseconds; or null.
struct CreatedAt(Option<Timestamp>);

impl<'de> Deserialize<'de> for CreatedAt {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(CreatedAtVisitor)
    }
}

struct CreatedAtVisitor;

impl Visitor<'_> for CreatedAtVisitor {
    type Value = CreatedAt;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a time as a number")
    }

    fn visit_unit<E: de::Error>(self) -> Result<CreatedAt, E> {
        Ok(CreatedAt(None))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<CreatedAt, E> {
        Ok(CreatedAt(Some(if number < FIRST_IN_MILLISECONDS {
            Timestamp::from_epoch_seconds(number)
        } else {
            Timestamp::from_epoch_ms(number)
        })))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<CreatedAt, E> {
        self.visit_i64(i64::try_from(number).map_err(E::custom)?)
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<CreatedAt, E> {
        // A float holds today's time to a fraction of a microsecond, so rounding finds the millisecond that was meant.
        let duration = SignedDuration::try_from_secs_f64(number).map_err(E::custom)?;
        if duration.as_secs() >= FIRST_IN_MILLISECONDS {
            return self.visit_i64(duration.as_secs());
        }
        let duration = duration.round(Unit::Millisecond).map_err(E::custom)?;
        let epoch_ms = i64::try_from(duration.as_millis()).map_err(E::custom)?;
        Ok(CreatedAt(Some(Timestamp::from_epoch_ms(epoch_ms))))
    }
}

/// What can be read of a malformed record, each field on its own.
pub(super) fn identify(json: &str, error: Error) -> BadRecord<'_> {
    let record = Fields::of(json);
    let stream = record.json("dynamodb").map(Fields::of).unwrap_or_default();
    let source = record.text("eventSourceARN").and_then(Source::from_arn);
    let sequence_number = stream.text("SequenceNumber");
    let (table, label) = source.map(|source| (source.table, source.label)).unzip();
    let position =
        label.zip(sequence_number.clone()).and_then(|(label, number)| Position::new(label, number).ok());
    let nothing = Vocabulary::default();
    let keys = stream.json("Keys").and_then(|json| read(json, KeysSeed(&Context::new(&nothing))).ok());
    let identity =
        record.json("userIdentity").and_then(|json| serde_json::from_str::<UserIdentity>(json).ok());
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

/// The text that a JSON value is, if it is one.
fn text(json: &str) -> Option<Cow<'_, str>> {
    serde_json::from_str::<Text<'_>>(json).ok().map(|text| text.0)
}

/// The fields of a JSON object, unread; none, if the JSON is something else.
#[derive(Default)]
struct Fields<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Fields<'a> {
    fn of(json: &'a str) -> Self {
        serde_json::from_str(json).unwrap_or_default()
    }

    fn json(&self, name: &str) -> Option<&'a str> {
        self.0.iter().rfind(|(held, _)| held == name).map(|(_, json)| json.get())
    }

    fn text(&self, name: &str) -> Option<Cow<'a, str>> {
        text(self.json(name)?)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FieldsVisitor)
    }
}

struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = Fields<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Fields::default();
        while let Some((Text(name), json)) = map.next_entry::<Text<'de>, &'de RawValue>()? {
            fields.0.push((name, json));
        }
        Ok(fields)
    }
}
