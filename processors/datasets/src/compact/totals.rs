//! The counts of a compaction.

use std::ops::AddAssign;

use serde::Serialize;

/// The files and rows that a compaction read, wrote and removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CompactionTotals {
    /// Partitions that had anything to pack or to derive.
    pub partitions: u64,
    /// Files of the log that were packed.
    pub files_in: u64,
    /// Files of the log that were written.
    pub files_out: u64,
    /// Rows that were read to pack them.
    pub rows_in: u64,
    /// Rows that were packed.
    pub rows_out: u64,
    /// Duplicate rows that were dropped from the log.
    pub duplicates: u64,
    /// Rows that were dropped from the log because a newer row of their item stays, if the model allows it.
    pub outdated: u64,
    /// Bytes of the files that were packed.
    pub bytes_in: u64,
    /// Bytes of the files of the log that were written.
    pub bytes_out: u64,
    /// Partitions of the current table that were derived.
    pub derived: u64,
    /// Files of the current table that were written.
    pub current_files: u64,
    /// Rows of the current table that were written.
    pub current_rows: u64,
    /// Bytes of the files of the current table that were written.
    pub current_bytes: u64,
    /// Files that were removed: superseded before the retention, or left by a process that died.
    pub files_removed: u64,
    /// Commits that another compactor made unnecessary: its files are as good.
    pub overtaken: u64,
}

impl AddAssign for CompactionTotals {
    fn add_assign(&mut self, other: Self) {
        self.partitions += other.partitions;
        self.files_in += other.files_in;
        self.files_out += other.files_out;
        self.rows_in += other.rows_in;
        self.rows_out += other.rows_out;
        self.duplicates += other.duplicates;
        self.outdated += other.outdated;
        self.bytes_in += other.bytes_in;
        self.bytes_out += other.bytes_out;
        self.derived += other.derived;
        self.current_files += other.current_files;
        self.current_rows += other.current_rows;
        self.current_bytes += other.current_bytes;
        self.files_removed += other.files_removed;
        self.overtaken += other.overtaken;
    }
}

/// A length as a count.
pub(super) fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}
