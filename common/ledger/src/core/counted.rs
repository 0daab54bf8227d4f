//! The changes of an item that a batch has counted, and the records that it could not count.

use afterwrite_model::projection::TargetId;
use afterwrite_model::record::RecordFailure;

/// The counted changes of an item, and the rollups whose mirrors they may have made stale.
#[derive(Debug, Default)]
pub(crate) struct CountedChanges {
    /// The rollups whose mirrors must be refreshed because of what was committed.
    pub(crate) changed_targets: Vec<TargetId>,
    /// The rollups that the item had left before. Their mirrors are stale only if the author crashed and its records were discarded.
    pub(crate) departed_targets: Vec<TargetId>,
    pub(super) authors: ChangeAuthors,
    /// The number of records that this batch counted or settled.
    pub(super) records: usize,
    /// The number of expiries that are too old to be settled.
    pub(super) old_expiries: usize,
}

impl CountedChanges {
    /// Whether mirrors may show an older value.
    pub(super) fn concerns_mirrors(&self) -> bool {
        !self.changed_targets.is_empty() || !self.departed_targets.is_empty()
    }
}

/// Who has counted the changes of an item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ChangeAuthors {
    /// This batch, by writes whose responses it has seen.
    #[default]
    Batch,
    /// Also a write whose response this batch has not seen: a write of an earlier delivery, of another consumer, or of this batch with a
    /// lost response. Its author may not have refreshed any mirror.
    Others,
}

impl ChangeAuthors {
    /// Notes that others may have counted something.
    pub(super) fn note_others(&mut self, are_others: bool) {
        if are_others {
            *self = Self::Others;
        }
    }

    pub(super) fn are_others(self) -> bool {
        match self {
            Self::Batch => false,
            Self::Others => true,
        }
    }
}

/// The records of an item that were not counted.
#[derive(Debug, Default)]
pub(crate) struct UncountedRecords {
    /// The records to deliver again.
    pub(crate) failures: Vec<RecordFailure>,
    /// The records whose item is marked as parked because of them.
    pub(crate) parked: Vec<RecordFailure>,
}
