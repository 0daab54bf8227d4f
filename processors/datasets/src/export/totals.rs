//! The counts of an export.

/// What was exported of one object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExportTotals {
    /// Objects outside the archive, which were ignored: 0 or 1.
    pub foreign: usize,
    /// Lines that were read.
    pub lines: usize,
    /// Rows that were made of them.
    pub rows: usize,
    /// Duplicates of changes earlier in the object.
    pub duplicates: usize,
    /// Changes of items that match no entity.
    pub unmatched: usize,
    /// Lines that are not change records; they are in `rejected/`.
    pub rejected: usize,
    /// Rows with values that do not fit their columns; they are in `_rescued`.
    pub rescued: usize,
    /// Files that were written.
    pub files: usize,
    /// Files that existed from an earlier export.
    pub existing_files: usize,
    /// Bytes of the files that were written.
    pub file_bytes: usize,
}
