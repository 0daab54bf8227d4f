//! One change to one item, as the stream reported it.

use std::borrow::Cow;

use super::{AttributeValue, Image, OldImage, Position, Timestamp};
use crate::Error;

/// The records of one event, in the event's order; each either decoded or malformed on its own account.
#[derive(Debug)]
pub struct RecordBatch<'a> {
    /// The records.
    pub records: Vec<Result<ChangeRecord<'a>, Box<BadRecord<'a>>>>,
    /// The JSON of each, as it came: what the archive keeps.
    pub json: Vec<&'a str>,
}

/// A change to one item.
///
/// That the images which a model needs are there is not promised: it depends on the stream's view type, and
/// whoever misses one names [`ChangeRecord::view`].
#[derive(Clone, Debug)]
pub struct ChangeRecord<'a> {
    /// Its `eventID`, which is the same whenever it is delivered; empty if it has none.
    pub event_id: Cow<'a, str>,
    /// The source table's name, from `eventSourceARN`.
    pub table: Cow<'a, str>,
    /// Where the change stands among its item's changes; holds the sequence number as it was delivered.
    pub position: Position<'a>,
    /// What was done.
    pub operation: Operation,
    /// Whether it was DynamoDB itself that removed the item, because its time to live was over. In a global table's other
    /// regions such a removal is not marked and looks like any other.
    pub expired: bool,
    /// The item's primary key.
    pub keys: PrimaryKey<'a>,
    /// When it was done, to the second or better; some emulators and archived records do not say.
    pub created_at: Option<Timestamp>,
    /// The item after the change. Absent, which is not the same as empty, where there is none.
    pub new: Option<Image<'a>>,
    /// The item before the change.
    pub old: OldImage<'a>,
    /// What the stream carries, if the record says so.
    pub view: Option<StreamView>,
}

/// A record that cannot be decoded, and what of its identity could be read all the same.
#[derive(Debug)]
pub struct BadRecord<'a> {
    /// Its `eventID`, as far as it is one.
    pub event_id: Cow<'a, str>,
    /// Its sequence number, as delivered, even if it is not a number.
    pub sequence_number: Option<Cow<'a, str>>,
    /// The source table's name.
    pub table: Option<Cow<'a, str>>,
    /// Its position.
    pub position: Option<Position<'a>>,
    /// The item's primary key.
    pub keys: Option<PrimaryKey<'a>>,
    /// Whether it is, or may be, a removal by time to live.
    pub expired: bool,
    /// What is wrong with it.
    pub error: Error,
}

/// What was done to an item (`eventName`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// `INSERT`: it was not there before.
    Insert,
    /// `MODIFY`: it was there before and still is.
    Modify,
    /// `REMOVE`: it is gone.
    Remove,
}

impl RecordBatch<'_> {
    /// The `eventID` of a record, by its place; empty if it has none.
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

/// What a stream carries besides keys (`StreamViewType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StreamView {
    /// Both images: what Afterwrite asks for.
    NewAndOldImages,
    /// The new image only.
    NewImage,
    /// The old image only.
    OldImage,
    /// Neither.
    KeysOnly,
}

impl StreamView {
    /// `None` for a view type that DynamoDB did not have when this was written: it spoils no record.
    pub(super) fn from_name(name: &str) -> Option<Self> {
        [Self::NewAndOldImages, Self::NewImage, Self::OldImage, Self::KeysOnly]
            .into_iter()
            .find(|view| view.name() == name)
    }

    /// DynamoDB's name of it.
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

/// A key attribute's name and value.
pub(super) type NamedValue<'a> = (Cow<'a, str>, AttributeValue<'a>);

/// An item's primary key: one or two attributes of type `S`, `N` or `B`. Which of them is the partition key, the record
/// does not say; the model does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrimaryKey<'a> {
    first: NamedValue<'a>,
    second: Option<NamedValue<'a>>,
}

impl<'a> PrimaryKey<'a> {
    pub(super) fn new(first: NamedValue<'a>, second: Option<NamedValue<'a>>) -> Self {
        Self { first, second }
    }

    /// The value of a key attribute.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&AttributeValue<'a>> {
        self.iter().find(|(held, _)| *held == name).map(|(_, value)| value)
    }

    /// Its attributes, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &AttributeValue<'a>)> {
        std::iter::once(&self.first).chain(&self.second).map(|(name, value)| (&**name, value))
    }

    /// How many attributes it has: 1 or 2.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a key has at least one attribute")]
    pub fn len(&self) -> usize {
        1 + usize::from(self.second.is_some())
    }
}
