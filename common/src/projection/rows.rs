//! A change of an item → rows of datasets: what stood in the item after it, or, where it is gone, before it.
//!
//! ```text
//! INSERT, MODIFY     a row of the new image, in the partition of its day
//! REMOVE, EXPIRE     a row of the old image, in the partition of its day
//! a changed day      one row more: the old image as REMOVE, at the same position, in the partition that the item leaves
//! ```
//!
//! So all rows of one life of an item lie in one partition, and what is newest can be told there.

use std::borrow::Cow;

use super::scope::{ImageScope, attribute};
use crate::Result;
use crate::entity::ItemIdentity;
use crate::record::{AttributeValue, ChangeRecord, Image, Operation, Timestamp};
use crate::table::{Dataset, Model, NO_DAY, Operand, Term, ValueFormat};

/// What a row says was done to its item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RowOperation {
    /// It was not there before.
    Insert,
    /// It changed.
    Modify,
    /// It was deleted, or left the partition.
    Remove,
    /// Time to live deleted it.
    Expire,
    /// It was read from the table.
    Snapshot,
}

impl RowOperation {
    /// What `_operation` holds.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Insert => "INSERT",
            Self::Modify => "MODIFY",
            Self::Remove => "REMOVE",
            Self::Expire => "EXPIRE",
            Self::Snapshot => "SNAPSHOT",
        }
    }
}

/// A row of one dataset.
#[derive(Clone)]
pub struct DatasetRow<'s, 'a> {
    /// The day of its partition, `yyyy-mm-dd`.
    pub day: Cow<'s, str>,
    /// What was done.
    pub operation: RowOperation,
    /// What its columns are read from.
    pub scope: ImageScope<'s, 'a>,
}

impl<'s, 'a: 's> DatasetRow<'s, 'a> {
    /// The value that a column is made of; `None` where the item has none, and for `NULL`. A value of another type than the
    /// model declares is a value like any other: whether it fits is for the column to say.
    #[must_use]
    pub fn value(&self, from: &Term) -> Option<Operand<'s>> {
        value(&self.scope, from)
    }
}

fn value<'s, 'a: 's>(scope: &ImageScope<'s, 'a>, from: &Term) -> Option<Operand<'s>> {
    match from {
        Term::Attribute(path) => {
            attribute(scope.image, path).filter(|value| !value.is_null()).map(Operand::Value)
        }
        Term::Key(_) | Term::Derived(_) | Term::LookupOutput { .. } => {
            scope.read_unless_null(from).ok().flatten()
        }
    }
}

/// The images of a change, decoded with [`Model::row_attributes`].
#[derive(Clone, Copy, Debug)]
pub struct RecordImages<'s, 'a> {
    /// After it.
    pub new: Option<&'s Image<'a>>,
    /// Before it, where [`old_image`] gives one.
    pub old: Option<&'s Image<'a>>,
}

/// The image before a change, if a row is made of it: the item is gone, or leaves a partition. Else no more of it is decoded than was
/// glimpsed, which tells the day if the record was decoded with [`Model::row_attributes`].
///
/// # Errors
/// [`crate::ErrorKind::Record`] if what is decoded is malformed.
pub fn old_image<'a>(
    model: &Model,
    identity: &ItemIdentity<'_, '_>,
    record: &ChangeRecord<'a>,
) -> Result<Option<Image<'a>>> {
    let is_needed = match record.operation {
        Operation::Insert => false,
        Operation::Modify => leaves_a_day(model, identity, record),
        Operation::Remove => true,
    };
    if is_needed { record.old.decode(&model.row_attributes) } else { Ok(None) }
}

fn leaves_a_day(model: &Model, identity: &ItemIdentity<'_, '_>, record: &ChangeRecord<'_>) -> bool {
    // Where nothing was glimpsed it may have been in another, and is decoded to see.
    let Some(old) = record.old.eager_fields() else { return record.old.is_present() };
    let new = record.new.as_ref().unwrap_or(&NOTHING);
    let (before, after) = (ImageScope::of(model, identity, old), ImageScope::of(model, identity, new));
    let leaves = |dataset: &Dataset| {
        let from = &dataset.partition.0;
        value(&before, from) != value(&after, from) && day(&before, dataset) != day(&after, dataset)
    };
    model.datasets_of(identity.entity).any(|(_, dataset)| leaves(dataset))
}

/// Stands for an image that a stream of another view type does not carry.
static NOTHING: Image<'static> = Image::empty();

/// The rows of a change in one dataset of its entity, one or two.
pub fn rows<'s, 'a: 's>(
    model: &'s Model,
    dataset: &Dataset,
    identity: &'s ItemIdentity<'_, '_>,
    record: &ChangeRecord<'_>,
    images: RecordImages<'s, 'a>,
) -> impl Iterator<Item = DatasetRow<'s, 'a>> {
    let row = |image: &'s Image<'a>, operation| {
        let scope = ImageScope::of(model, identity, image);
        DatasetRow { day: day(&scope, dataset), operation, scope }
    };
    let gone = if record.expired { RowOperation::Expire } else { RowOperation::Remove };
    let (row, left) = match record.operation {
        Operation::Insert => (row(images.new.unwrap_or(&NOTHING), RowOperation::Insert), None),
        Operation::Modify => {
            let left = images.old.map(|old| row(old, RowOperation::Remove));
            (row(images.new.unwrap_or(&NOTHING), RowOperation::Modify), left)
        }
        Operation::Remove => (row(images.old.unwrap_or(&NOTHING), gone), None),
    };
    let left = left.filter(|left| left.day != row.day);
    std::iter::once(row).chain(left)
}

/// The partition of an image.
fn day<'s, 'a: 's>(scope: &ImageScope<'s, 'a>, dataset: &Dataset) -> Cow<'s, str> {
    let (from, format) = &dataset.partition;
    let day = value(scope, from).and_then(|value| match (format, value) {
        // A day that stands in the key is text, and may be none of the calendar.
        (ValueFormat::Plain, Operand::Text(day)) => Timestamp::parse(&day).is_some().then_some(day),
        (_, value) => {
            if let Operand::Value(AttributeValue::S(text)) = value
                && let Some(day) = Timestamp::day_of_utc(text)
            {
                return Some(Cow::Borrowed(day));
            }
            value.time()?.day().map(Cow::Owned)
        }
    });
    day.filter(|day| dataset.has_day(day)).unwrap_or(Cow::Borrowed(NO_DAY))
}

#[cfg(test)]
mod tests;
