//! One change to one item, as the stream reported it, and its stream: the region, the table and the stream label, from the stream's ARN.

use std::borrow::Cow;

use super::{Image, OldImage, Position, PrimaryKey, Timestamp};
use crate::Error;

/// The records of one event, in the event's order; each is decoded or malformed.
#[derive(Debug)]
pub struct RecordBatch<'a> {
    /// The records.
    pub records: Vec<Result<ChangeRecord<'a>, Box<BadRecord<'a>>>>,
    /// The JSON of each record as delivered, for the archive.
    pub json: Vec<&'a str>,
}

/// A change to one item.
///
/// The images depend on the stream's view type and may be absent. An error about an absent image names
/// [`ChangeRecord::view`].
#[derive(Clone, Debug)]
pub struct ChangeRecord<'a> {
    /// The `eventID`, which is the same in every delivery; empty if absent.
    pub event_id: Cow<'a, str>,
    /// The region of the source table, from `eventSourceARN`; empty if the ARN has none.
    pub region: Cow<'a, str>,
    /// The source table's name, from `eventSourceARN`.
    pub table: Cow<'a, str>,
    /// The position of the change among the changes of its item.
    pub position: Position<'a>,
    /// The kind of change.
    pub operation: Operation,
    /// Whether DynamoDB removed the item because its time to live (TTL) expired. In a global table, replica regions do
    /// not mark such a removal.
    pub expired: bool,
    /// The item's primary key.
    pub keys: PrimaryKey<'a>,
    /// When the change was made, with a precision of at least a second. Some emulators and archived records omit it.
    pub created_at: Option<Timestamp>,
    /// The item after the change. A `NewImage` whose JSON has no attribute at all is absent, because an item has a key. A `REMOVE` has no new
    /// image, even if its JSON has one.
    pub new: Option<Image<'a>>,
    /// The item before the change. An `INSERT` has no old image, even if its JSON has one.
    pub old: OldImage<'a>,
    /// Whether its JSON has an image that such a change does not have: a `NewImage` of a `REMOVE`, or an `OldImage` of an `INSERT`. The image
    /// is ignored, but the JSON may contain secrets.
    pub has_stray_image: bool,
    /// The stream's view type, if the record states it.
    pub view: Option<StreamView>,
}

impl ChangeRecord<'_> {
    /// Whether it lacks an image that its operation implies.
    #[must_use]
    pub fn lacks_image(&self) -> bool {
        let lacks_new = self.operation != Operation::Remove && self.new.is_none();
        let lacks_old = self.operation != Operation::Insert && !self.old.has_attributes();
        lacks_new || lacks_old
    }
}

/// A malformed record, and the parts of it that could be read.
#[derive(Debug)]
pub struct BadRecord<'a> {
    /// The `eventID`; empty if absent or malformed.
    pub event_id: Cow<'a, str>,
    /// The sequence number as delivered, even if it is not a number.
    pub sequence_number: Option<Cow<'a, str>>,
    /// The region of the source table.
    pub region: Option<Cow<'a, str>>,
    /// The source table's name.
    pub table: Option<Cow<'a, str>>,
    /// The position.
    pub position: Option<Position<'a>>,
    /// The item's primary key.
    pub keys: Option<PrimaryKey<'a>>,
    /// Whether the record is, or may be, a removal by TTL.
    pub expired: bool,
    /// Why the record is malformed.
    pub error: Error,
}

/// The kind of change (`eventName`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// `INSERT`: the item was created.
    Insert,
    /// `MODIFY`: the item was changed.
    Modify,
    /// `REMOVE`: the item was deleted.
    Remove,
}

impl RecordBatch<'_> {
    /// The `eventID` of the record with this index; empty if absent.
    #[must_use]
    pub fn event_id(&self, index: usize) -> &str {
        match self.records.get(index) {
            Some(Ok(record)) => &record.event_id,
            Some(Err(bad)) => &bad.event_id,
            None => "",
        }
    }
}

impl Operation {
    pub(super) fn from_event_name(name: &str) -> Option<Self> {
        match name {
            "INSERT" => Some(Self::Insert),
            "MODIFY" => Some(Self::Modify),
            "REMOVE" => Some(Self::Remove),
            _ => None,
        }
    }
}

/// The images in a stream's records (`StreamViewType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StreamView {
    /// Both images, which Afterwrite requires.
    NewAndOldImages,
    /// Only the new image.
    NewImage,
    /// Only the old image.
    OldImage,
    /// No image.
    KeysOnly,
}

impl StreamView {
    /// `None` for an unknown view type, which does not make the record malformed.
    pub(super) fn from_name(name: &str) -> Option<Self> {
        [Self::NewAndOldImages, Self::NewImage, Self::OldImage, Self::KeysOnly]
            .into_iter()
            .find(|view| view.name() == name)
    }

    /// DynamoDB's name of the view type.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::NewAndOldImages => "NEW_AND_OLD_IMAGES",
            Self::NewImage => "NEW_IMAGE",
            Self::OldImage => "OLD_IMAGE",
            Self::KeysOnly => "KEYS_ONLY",
        }
    }
}

/// The region, the table and the stream label of a record.
pub(super) struct StreamSource<'a> {
    pub(super) region: Cow<'a, str>,
    pub(super) table: Cow<'a, str>,
    pub(super) label: Cow<'a, str>,
}

impl<'a> StreamSource<'a> {
    /// Parses `arn:aws:dynamodb:<region>:<account>:table/<table>/stream/<label>`.
    pub(super) fn from_arn(arn: Cow<'a, str>) -> Option<Self> {
        match arn {
            Cow::Borrowed(arn) => Some(Self::borrowed(split(arn)?)),
            Cow::Owned(arn) => {
                let [region, table, label] = split(&arn)?.map(|part| Cow::Owned(part.to_owned()));
                Some(Self { region, table, label })
            }
        }
    }

    fn borrowed(parts: [&'a str; 3]) -> Self {
        let [region, table, label] = parts.map(Cow::Borrowed);
        Self { region, table, label }
    }
}

/// Parses the ARNs of a batch. The records of a batch nearly always have one stream, so an ARN is parsed only if it differs from the
/// previous one.
#[derive(Default)]
pub(super) struct SourceParser<'a> {
    previous: Option<(&'a str, [&'a str; 3])>,
}

impl<'a> SourceParser<'a> {
    /// As [`StreamSource::from_arn`].
    pub(super) fn parse(&mut self, arn: Cow<'a, str>) -> Option<StreamSource<'a>> {
        let Cow::Borrowed(arn) = arn else { return StreamSource::from_arn(arn) };
        let parts = match self.previous {
            Some((previous, parts)) if previous == arn => parts,
            Some(_) | None => {
                let parts = split(arn)?;
                self.previous = Some((arn, parts));
                parts
            }
        };
        Some(StreamSource::borrowed(parts))
    }
}

/// The region, the table and the stream label.
fn split(arn: &str) -> Option<[&str; 3]> {
    let (rest, label) = arn.rsplit_once('/')?;
    let (resource, table) = rest.strip_suffix("/stream")?.rsplit_once('/')?;
    let region = resource.split(':').nth(3).unwrap_or_default();
    let is_stream = resource.ends_with(":table") && !table.is_empty() && !label.is_empty();
    is_stream.then_some([region, table, label])
}
