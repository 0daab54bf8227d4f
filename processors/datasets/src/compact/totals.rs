//! The counts of a compaction.

use serde::Serialize;

/// The files and rows that a compaction read, wrote and removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CompactionTotals {
    /// Partitions: those requested, or those that had anything to compact or to remove.
    pub partitions: u64,
    /// Files that were compacted.
    pub files_in: u64,
    /// Files that were written.
    pub files_out: u64,
    /// Rows that were read.
    pub rows_in: u64,
    /// Rows that were written.
    pub rows_out: u64,
    /// Duplicate rows that were dropped.
    pub duplicates: u64,
    /// Rows that were dropped because a newer row of their item stays, if the model allows it.
    pub outdated: u64,
    /// Bytes of the files that were compacted.
    pub bytes_in: u64,
    /// Bytes of the files that were written.
    pub bytes_out: u64,
    /// Files that were removed: superseded for the grace period, or left by a compactor that died.
    pub files_removed: u64,
    /// Files that were not compacted: not Parquet, without a key column, or with a column of another type than the model's.
    pub files_left_alone: u64,
    /// Compactions that another compactor overtook: its files are as good.
    pub overtaken: u64,
}

/// A length as a count.
pub(super) fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}
