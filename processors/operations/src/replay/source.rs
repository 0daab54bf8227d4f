//! The records of a replay: objects, a range of time, and changes that are left out.

use afterwrite_input::{InputObject, TimeRange, UndoneChanges};
use afterwrite_services::Bucket;

/// The files and objects of a replay, in order.
#[derive(Debug)]
pub struct InputSource<B> {
    /// The objects.
    pub objects: Vec<InputObject<B>>,
    /// The range of records.
    pub range: TimeRange,
    /// Changes that are left out.
    pub undone: Vec<UndoneChanges>,
}

impl<B> InputSource<B> {
    /// All records of these objects.
    #[must_use]
    pub fn of(objects: Vec<InputObject<B>>) -> Self {
        Self::in_range(objects, TimeRange::default())
    }

    /// The records of these objects in a range of time.
    #[must_use]
    pub fn in_range(objects: Vec<InputObject<B>>, range: TimeRange) -> Self {
        Self { objects, range, undone: Vec::new() }
    }

    /// Whether a restore has undone the change of a record.
    pub(super) fn has_undone(&self, json: &str) -> bool {
        self.undone.iter().any(|undone| undone.has_record(json))
    }
}

impl<B: Bucket> InputSource<B> {
    /// The size of all objects, as far as it is known.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.objects.iter().map(InputObject::bytes).sum()
    }
}
