//! A change of an item → rows of datasets.
//!
//! ```text
//! INSERT, MODIFY     a row of the new image, in the partition of its day
//! REMOVE, EXPIRE     a row of the old image, in the partition of its day
//!
//! leaves a day       one more row: REMOVE of the old image, at the same position, in the partition of the old day
//! leaves the dataset a REMOVE row of the old image instead: the item no longer meets the dataset's condition
//! is outside         no row, as long as the item does not meet the condition
//! changes its entity a REMOVE row of the old image in each dataset that the item leaves, a row of the new image in each that it enters
//! ```
//!
//! So all rows from an item's insertion to its removal are in one partition, and the newest row can be determined there.

use std::borrow::Cow;

use super::scope::{ImageScope, attribute};
use crate::Result;
use crate::entity::ItemCandidates;
use crate::record::{AttributeValue, ChangeRecord, Image, Operation, Timestamp};
use crate::table::{Dataset, NO_DAY, Operand, Term, ValueFormat};

/// The change of the item, as a row states it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RowOperation {
    /// It was created.
    Insert,
    /// It was modified.
    Modify,
    /// It was deleted, or left the partition.
    Remove,
    /// Time to live (TTL) deleted it.
    Expire,
    /// It was read from the table.
    Snapshot,
}

impl RowOperation {
    /// The value of `_operation`.
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
    /// The change.
    pub operation: RowOperation,
    /// The scope in which its columns are read.
    pub scope: ImageScope<'s, 'a>,
}

impl<'s, 'a: 's> DatasetRow<'s, 'a> {
    /// The value of a column's source; `None` if it is absent or `NULL`. A value of another type than the
    /// model declares is returned, too: the column decides whether it fits.
    #[must_use]
    pub fn value(&self, from: &Term) -> Option<Operand<'s>> {
        value_of(&self.scope, from)
    }

    /// The text that should be a number (`derive.… = { number = … }`) and is not one. It has no [`Self::value`], and fits no column.
    #[must_use]
    pub fn unreadable_number(&self, from: &Term) -> Option<Operand<'s>> {
        let derivation = self.scope.entity.derivations.get(from.derivation()?)?;
        let read = derivation.kind.number_of()?;
        self.scope.read(from).is_err().then(|| value_of(&self.scope, read)).flatten()
    }
}

pub(super) fn value_of<'s, 'a: 's>(scope: &ImageScope<'s, 'a>, from: &Term) -> Option<Operand<'s>> {
    match from {
        Term::Attribute(path) => {
            attribute(scope.image, path).filter(|value| !value.is_null()).map(Operand::Value)
        }
        Term::Key(_) | Term::Derived(_) | Term::LookupOutput { .. } | Term::Element(_) => {
            scope.read_unless_null(from).ok().flatten()
        }
    }
}

/// The images of a change record, decoded with [`crate::table::Model::row_attributes`].
#[derive(Clone, Copy, Debug)]
pub struct RecordImages<'s, 'a> {
    /// The image after the change.
    pub new: Option<&'s Image<'a>>,
    /// The image before the change, if [`decode_old_image`] returns it.
    pub old: Option<&'s Image<'a>>,
}

/// Decodes the image before a change if a row is made of it: the item is deleted, or leaves a partition or a dataset. Otherwise only the
/// attributes that the decoder has read eagerly are used. They determine that if the record was decoded with
/// [`crate::table::Model::row_attributes`].
///
/// # Errors
/// [`crate::ErrorKind::Record`] if a decoded attribute is malformed.
pub fn decode_old_image<'a>(
    candidates: &ItemCandidates<'_, '_>,
    record: &ChangeRecord<'a>,
) -> Result<Option<Image<'a>>> {
    let is_needed = match record.operation {
        Operation::Insert => false,
        Operation::Modify => leaves_partition(candidates, record),
        Operation::Remove => true,
    };
    if is_needed { record.old.decode(&candidates.model().row_attributes) } else { Ok(None) }
}

/// Whether a change takes the item out of a dataset, or out of its partition there.
fn leaves_partition(candidates: &ItemCandidates<'_, '_>, record: &ChangeRecord<'_>) -> bool {
    // Without eagerly read attributes nothing is known: decode the image to compare.
    let Some(old) = record.old.eager_fields() else { return record.old.is_present() };
    let new = record.new.as_ref().unwrap_or(&EMPTY);
    datasets_of(candidates).any(|(_, dataset)| {
        let Some(before) = scope_in(dataset, candidates, old) else { return false };
        let Some(after) = scope_in(dataset, candidates, new) else { return true };
        let mut sources = dataset.partition_terms();
        sources.any(|from| value_of(&before, from) != value_of(&after, from))
            && day_of(&before, dataset) != day_of(&after, dataset)
    })
}

/// The datasets of the entities that an item can be of, each with its index in [`crate::table::Model::datasets`].
pub fn datasets_of<'c>(candidates: &'c ItemCandidates<'_, '_>) -> impl Iterator<Item = (usize, &'c Dataset)> {
    candidates.iter().flat_map(|identity| candidates.model().datasets_of(identity.entity))
}

/// The scope of an image, if the item belongs to the dataset in this state: it is of its entity and meets its condition.
fn scope_in<'s, 'a: 's>(
    dataset: &Dataset,
    candidates: &'s ItemCandidates<'_, '_>,
    image: &'s Image<'a>,
) -> Option<ImageScope<'s, 'a>> {
    let identity = candidates.in_state(image)?;
    let scope = ImageScope::of(candidates.model(), identity, image);
    let belongs = dataset.is_of(identity.entity, candidates.model())
        && dataset.when.as_ref().is_none_or(|when| scope.satisfies(when));
    belongs.then_some(scope)
}

/// An image that the stream's view type does not include.
static EMPTY: Image<'static> = Image::empty();

/// The rows of a change in one dataset, at most two.
pub fn rows<'s, 'a: 's>(
    dataset: &Dataset,
    candidates: &'s ItemCandidates<'_, '_>,
    record: &ChangeRecord<'_>,
    images: RecordImages<'s, 'a>,
) -> impl Iterator<Item = DatasetRow<'s, 'a>> {
    let row = |image: &'s Image<'a>, operation| {
        let scope = scope_in(dataset, candidates, image)?;
        Some(DatasetRow { day: day_of(&scope, dataset), operation, scope })
    };
    let deletion = if candidates.is_expiry(record) { RowOperation::Expire } else { RowOperation::Remove };
    let (row, left) = match record.operation {
        Operation::Insert => (row(images.new.unwrap_or(&EMPTY), RowOperation::Insert), None),
        Operation::Modify => {
            let left = images.old.and_then(|old| row(old, RowOperation::Remove));
            (row(images.new.unwrap_or(&EMPTY), RowOperation::Modify), left)
        }
        Operation::Remove => (row(images.old.unwrap_or(&EMPTY), deletion), None),
    };
    let left = left.filter(|left| row.as_ref().is_none_or(|row| left.day != row.day));
    row.into_iter().chain(left)
}

/// The row of an item that was read from its table; `None` if the item does not belong to the dataset.
#[must_use]
pub fn snapshot_row<'s, 'a: 's>(
    dataset: &Dataset,
    candidates: &'s ItemCandidates<'_, '_>,
    image: &'s Image<'a>,
) -> Option<DatasetRow<'s, 'a>> {
    let scope = scope_in(dataset, candidates, image)?;
    Some(DatasetRow { day: day_of(&scope, dataset), operation: RowOperation::Snapshot, scope })
}

/// The day of an image's partition.
fn day_of<'s, 'a: 's>(scope: &ImageScope<'s, 'a>, dataset: &Dataset) -> Cow<'s, str> {
    let (from, format) = &dataset.partition;
    let day = value_of(scope, from).and_then(|value| match (format, value) {
        // A day in the key is a text, and may not be a day of the calendar.
        (ValueFormat::Plain, Operand::Text(day)) => Timestamp::parse(&day).is_some().then_some(day),
        (ValueFormat::Plain, Operand::Value(_) | Operand::Number(_) | Operand::Ratio { .. }) => None,
        (ValueFormat::Time(format), value) => {
            if let Operand::Value(AttributeValue::S(text)) = value
                && let Some(day) = format.prefix(text)
            {
                return Some(Cow::Borrowed(day));
            }
            let (time, zone) = (value.time(format.reading)?, scope.zone_of(format).ok()?);
            let mut day = String::new();
            format.bucket.write(time, zone, &mut day).map(|()| Cow::Owned(day))
        }
    });
    day.filter(|day| is_partition_day(day)).unwrap_or(Cow::Borrowed(NO_DAY))
}

/// Whether a day that is a time has a partition of its own: it is written as `yyyy-mm-dd`, so that days compare as text.
fn is_partition_day(day: &str) -> bool {
    day.len() == NO_DAY.len() && [4, 7].map(|at| day.as_bytes().get(at)) == [Some(&b'-'); 2]
}

#[cfg(test)]
mod tests;
