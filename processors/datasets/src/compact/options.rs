//! The settings of a compaction.

use std::time::Duration;

const MIB: u64 = 1024 * 1024;

/// Sizes and times of a compaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompactionOptions {
    /// Files smaller than this are compacted.
    pub small_file_bytes: u64,
    /// A compacted file ends soon after it has reached this size. At least twice [`CompactionOptions::small_file_bytes`], or
    /// compacted files would be compacted again and again.
    pub target_file_bytes: u64,
    /// The maximum size of rows and sort keys in memory. Writing takes up to one row group (64 MiB) in addition.
    pub memory_bytes: u64,
    /// The maximum size of files that are compacted together (and at most 500 files); the rest of a partition follows in further
    /// compactions. Temporary files take this much disk, first for the inputs, then for the outputs; and as much as the rows
    /// take uncompressed if that is more than [`CompactionOptions::memory_bytes`].
    pub group_bytes: u64,
    /// How long a superseded file is kept: longer than any query runs that listed it before it was superseded. A query that lists
    /// it later may fail to open it.
    pub grace_period: Duration,
}

impl Default for CompactionOptions {
    fn default() -> Self {
        Self {
            small_file_bytes: 128 * MIB,
            target_file_bytes: 256 * MIB,
            memory_bytes: 256 * MIB,
            group_bytes: 1024 * MIB,
            grace_period: Duration::from_secs(60 * 60),
        }
    }
}
