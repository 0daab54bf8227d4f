//! The settings of a compaction.

use std::time::Duration;

use crate::delta::RETENTION;

const MIB: u64 = 1024 * 1024;

/// Sizes and times of a compaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompactionOptions {
    /// A file ends soon after it has reached this size.
    pub target_file_bytes: u64,
    /// The maximum size of rows and sort keys in memory. Writing takes up to one row group (64 MiB) in addition.
    pub memory_bytes: u64,
    /// How many partitions are worked on at once. Each takes disk for the log's files of its partition and for the files that it
    /// writes, and, if the uncompressed rows exceed [`CompactionOptions::memory_bytes`], for these rows.
    pub parallel_partitions: usize,
    /// How long a superseded file stays: longer than any query runs that listed it before it was superseded.
    pub retention: Duration,
}

impl Default for CompactionOptions {
    fn default() -> Self {
        Self {
            target_file_bytes: 256 * MIB,
            memory_bytes: 256 * MIB,
            parallel_partitions: 4,
            retention: RETENTION,
        }
    }
}
