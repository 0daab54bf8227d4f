//! Runs: the marks that distinguish the files of a compaction that died from files that supersede others.
//!
//! A run writes its mark before its first file, and removes the mark once its manifest is written. The files of a run that died
//! before that, or that was overtaken by another compactor, look like any other file; large ones are not compacted again, and
//! every query would read them. Their mark is still there: after [`ABANDONED_AFTER`] the sweep removes them.
//!
//! No row is lost with them: no manifest names them as outputs, so nothing was removed because of them. A run must not commit
//! while its files are being removed, so it does not commit after half that time.

use std::time::Duration;

use afterwrite::Result;
use afterwrite::record::Timestamp;
use afterwrite::sink::{Bucket, ListedObject, ObjectBody};
use bytes::Bytes;
use uuid::Uuid;

use crate::paths::DatasetPartition;

/// A run that began this long ago and has not committed never will. A run that commits takes minutes: it compacts a gigabyte.
pub const ABANDONED_AFTER: Duration = Duration::from_secs(4 * 60 * 60);

/// One compaction of some of a partition's files.
pub(super) struct CompactionRun<'p> {
    partition: &'p DatasetPartition<'p>,
    /// A UUID: no key of its files is ever used again.
    id: String,
    begun: Timestamp,
}

impl<'p> CompactionRun<'p> {
    /// Writes the mark of a new run. `begun` is when it began to fetch its inputs.
    pub(super) async fn begin<B: Bucket>(
        bucket: &B,
        partition: &'p DatasetPartition<'p>,
        begun: Timestamp,
    ) -> Result<Self> {
        let run = Self { partition, id: Uuid::new_v4().to_string(), begun };
        bucket.put_new(&partition.run_mark(&run.id), ObjectBody::Bytes(Bytes::new())).await?;
        Ok(run)
    }

    /// The run of a mark; `None` if the object is not a mark.
    pub(super) fn from_mark(partition: &'p DatasetPartition<'p>, object: &ListedObject) -> Option<Self> {
        let id = partition.run_of_mark(&object.key)?.to_owned();
        Some(Self { partition, id, begun: object.modified })
    }

    /// Removes the mark: the run has committed, or its files are removed.
    pub(super) async fn end<B: Bucket>(&self, bucket: &B) -> Result<()> {
        bucket.delete(&[self.partition.run_mark(&self.id)]).await
    }

    /// The prefix of its files.
    pub(super) fn files(&self) -> String {
        self.partition.compacted_files(&self.id)
    }

    /// The key of one of its files.
    pub(super) fn file(&self, number: usize) -> String {
        self.partition.compacted_file(&self.id, number)
    }

    /// Whether it has taken so long that it must not commit.
    pub(super) fn is_late(&self, now: Timestamp) -> bool {
        now.since(self.begun) >= ABANDONED_AFTER / 2
    }

    /// Whether it began so long ago that it can no longer commit.
    pub(super) fn is_abandoned(&self, now: Timestamp) -> bool {
        is_older(self.begun, ABANDONED_AFTER, now)
    }
}

/// Whether `time` is at least `age` ago. A time after `now`, by a clock that is ahead of ours, is not old.
pub(super) fn is_older(time: Timestamp, age: Duration, now: Timestamp) -> bool {
    time <= now && now.since(time) >= age
}
