//! One record of an event, as Lambda writes it → [`ChangeRecord`], or what can be read of a malformed one.

use std::borrow::Cow;

use jiff::{SignedDuration, Unit};

use super::json::Context;
use super::reader::{Reader, Unreadable};
use super::{
    BadRecord, ChangeRecord, Image, Keys, OldImage, Operation, Position, StreamView, Timestamp, Vocabulary,
};
use crate::{Error, Result};

/// A time from here on is in milliseconds: in seconds it would be the year 5138.
const FIRST_IN_MILLISECONDS: i64 = 100_000_000_000;

/// What a record says outside its `dynamodb`, and that.
#[derive(Default)]
struct Parts<'a> {
    event_id: Cow<'a, str>,
    operation: Option<Operation>,
    source: Option<Source<'a>>,
    is_by_service: bool,
    stream: StreamPart<'a>,
}

impl Context<'_> {
    /// One record, strictly.
    pub(super) fn record<'a>(&self, reader: &mut Reader<'a>) -> Result<ChangeRecord<'a>, Unreadable> {
        let mut parts = Parts::default();
        reader.object(|reader, name| {
            match &*name {
                // One that is no text spoils no record: nothing is counted by it.
                "eventID" => parts.event_id = reader.text_if_any()?.unwrap_or_default(),
                "eventName" => {
                    let name = self.within("eventName", reader.text())?;
                    parts.operation = Operation::from_event_name(&name);
                }
                "eventSourceARN" => {
                    parts.source = Source::from_arn(self.within("eventSourceARN", reader.text())?);
                }
                "userIdentity" => {
                    let identity = self.within("userIdentity", reader.unless_null(UserIdentity::read))?;
                    parts.is_by_service = identity.is_some_and(|identity| identity.is_time_to_live);
                }
                "dynamodb" => {
                    parts.stream = StreamPart::default();
                    self.within("dynamodb", self.stream(reader, &mut parts.stream))?;
                }
                _ => {
                    reader.skip()?;
                }
            }
            Ok(())
        })?;
        self.complete(parts)
    }

    fn complete<'a>(&self, parts: Parts<'a>) -> Result<ChangeRecord<'a>, Unreadable> {
        let missing = |what| self.wrong(what);
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

    /// What a record says in `dynamodb`: fills a part in place, which saves moving it.
    fn stream<'a>(&self, reader: &mut Reader<'a>, part: &mut StreamPart<'a>) -> Result<(), Unreadable> {
        reader.object(|reader, name| {
            match &*name {
                name @ "ApproximateCreationDateTime" => {
                    part.created_at = self.within(name, created_at(reader.skip()?))?;
                }
                name @ "Keys" => part.keys = Some(self.within(name, self.keys(reader))?),
                name @ "NewImage" => {
                    part.new =
                        self.within(name, reader.unless_null(|reader| self.image(reader, self.vocabulary)))?;
                }
                name @ "OldImage" => part.old = self.within(name, self.old_image(reader))?,
                name @ "SequenceNumber" => part.sequence_number = Some(self.within(name, reader.text())?),
                name @ "StreamViewType" => {
                    let view = self.within(name, reader.unless_null(Reader::text))?;
                    part.view = view.and_then(|view| StreamView::from_name(&view));
                }
                _ => {
                    reader.skip()?;
                }
            }
            Ok(())
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

impl UserIdentity {
    /// Lambda writes its names in lower case, DynamoDB's own API does not.
    fn read(reader: &mut Reader<'_>) -> Result<Self, Unreadable> {
        let (mut is_service, mut is_dynamodb) = (false, false);
        reader.object(|reader, name| {
            match &*name {
                "type" | "Type" => {
                    let kind = reader.unless_null(Reader::text)?;
                    is_service = kind.is_some_and(|kind| kind == "Service");
                }
                "principalId" | "PrincipalId" => {
                    let principal = reader.unless_null(Reader::text)?;
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
    keys: Option<Keys<'a>>,
    new: Option<Image<'a>>,
    old: OldImage<'a>,
    sequence_number: Option<Cow<'a, str>>,
    created_at: Option<Timestamp>,
    view: Option<StreamView>,
}

/// A time in seconds, whole or not, or in milliseconds; or null.
fn created_at(json: &str) -> Result<Option<Timestamp>, Unreadable> {
    if json == "null" {
        return Ok(None);
    }
    if let Ok(number) = json.parse() {
        return Ok(Some(seconds_or_ms(number)));
    }
    // A float holds today's time to a fraction of a microsecond, so rounding finds the millisecond that was meant.
    let seconds: f64 = json.parse().map_err(|_| Unreadable)?;
    let duration = SignedDuration::try_from_secs_f64(seconds).map_err(|_| Unreadable)?;
    if duration.as_secs() >= FIRST_IN_MILLISECONDS {
        return Ok(Some(seconds_or_ms(duration.as_secs())));
    }
    let duration = duration.round(Unit::Millisecond).map_err(|_| Unreadable)?;
    let epoch_ms = i64::try_from(duration.as_millis()).map_err(|_| Unreadable)?;
    Ok(Some(Timestamp::from_epoch_ms(epoch_ms)))
}

fn seconds_or_ms(number: i64) -> Timestamp {
    if number < FIRST_IN_MILLISECONDS {
        Timestamp::from_epoch_seconds(number)
    } else {
        Timestamp::from_epoch_ms(number)
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
    let keys = stream
        .json("Keys")
        .and_then(|json| Reader::whole(json, |reader| Context::new(&nothing).keys(reader)).ok());
    let identity = record.json("userIdentity").and_then(|json| Reader::whole(json, UserIdentity::read).ok());
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
struct Fields<'a>(Vec<(Cow<'a, str>, &'a str)>);

impl<'a> Fields<'a> {
    fn of(json: &'a str) -> Self {
        let mut fields = Vec::new();
        let read = Reader::whole(json, |reader| {
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
        Reader::whole(self.json(name)?, Reader::text).ok()
    }
}
