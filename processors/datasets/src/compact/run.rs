//! Runs: what tells the files of a compaction that died from those that supersede others.
//!
//! A run writes its mark before its first file, and removes it once a manifest says that its files supersede others. The files of
//! one that died before, or that was overtaken by another compactor, would look like any other; and the large ones, which are not
//! compacted again, would be read by every query for ever. But its mark is still there, and after [`ABANDONED_AFTER`] whoever sweeps
//! removes them.
//!
//! No row goes with them: as no manifest names them as outputs, nothing was removed because of them. A run must not commit
//! while its files are being removed, so it does not when it has taken half that time.

use std::time::Duration;

use afterwrite::Result;
use afterwrite::commit::{Clock as _, SystemClock};
use afterwrite::record::Timestamp;
use afterwrite::sink::{Bucket, ListedObject, ObjectBody};
use bytes::Bytes;
use uuid::Uuid;

use super::manifest::Committed;
use super::partition::{Partition, count};
use super::{Compacted, Compactor};

/// A run that began so long ago and has not committed never will. One that does takes minutes: it compacts a gigabyte.
pub const ABANDONED_AFTER: Duration = Duration::from_secs(4 * 60 * 60);

const MARK: &str = ".begun";

/// One compaction of some of a partition's files.
pub(super) struct Run<'p> {
    partition: &'p Partition<'p>,
    /// Unlike any other's.
    id: String,
    begun: Timestamp,
}

impl<'p> Run<'p> {
    /// The run of this mark; `None` for what is no mark.
    pub(super) fn of_mark(
        partition: &'p Partition<'p>,
        ListedObject { key, modified, .. }: &ListedObject,
    ) -> Option<Self> {
        let id = key.strip_prefix(&partition.manifests())?.strip_suffix(MARK)?.to_owned();
        Some(Self { partition, id, begun: *modified })
    }

    fn mark(&self) -> String {
        format!("{}{}{MARK}", self.partition.manifests(), self.id)
    }

    /// How the keys of its files begin.
    fn files(&self) -> String {
        self.partition.compacted(&format!("{}-", self.id))
    }

    /// The key of one of its files. None is used twice.
    pub(super) fn file(&self, number: usize) -> String {
        self.partition.compacted(&format!("{}-{number}.parquet", self.id))
    }

    /// Whether it has taken so long that it must not commit any more.
    pub(super) fn is_late(&self) -> bool {
        SystemClock.now().since(self.begun) >= ABANDONED_AFTER / 2
    }

    /// Whether a manifest says that its files supersede others.
    fn has_committed(&self, committed: &[Committed]) -> bool {
        let files = self.files();
        committed.iter().flat_map(|one| &one.manifest.outputs).any(|output| output.starts_with(&files))
    }
}

impl<B: Bucket> Compactor<B> {
    /// Begins to write the files of a run. `begun` is when it began to fetch its inputs.
    pub(super) async fn begin<'p>(&self, partition: &'p Partition<'p>, begun: Timestamp) -> Result<Run<'p>> {
        let run = Run { partition, id: Uuid::new_v4().to_string(), begun };
        self.bucket.put_new(&run.mark(), ObjectBody::Bytes(Bytes::new())).await?;
        Ok(run)
    }

    /// To be called once a manifest says that the run's files supersede others.
    pub(super) async fn end(&self, run: &Run<'_>) -> Result<()> {
        self.bucket.delete(&[run.mark()]).await
    }

    /// Ends the runs that have committed and not lived to say so, and removes the files of those that never will.
    ///
    /// The manifests must have been read before: as nobody sweeps a manifest whose run has a mark, a run that has a mark now and had
    /// no manifest then has not committed; and it is far too late to.
    pub(super) async fn sweep_runs(
        &self,
        partition: &Partition<'_>,
        committed: &[Committed],
        now: Timestamp,
    ) -> Result<Compacted> {
        let mut done = Compacted::default();
        let listed = self.bucket.list(&partition.manifests()).await?;
        for run in listed.iter().filter_map(|object| Run::of_mark(partition, object)) {
            if run.has_committed(committed) {
                self.end(&run).await?;
            } else if run.begun <= now && now.since(run.begun) >= ABANDONED_AFTER {
                let files = self.bucket.list(&run.files()).await?;
                let files: Vec<String> = files.into_iter().map(|file| file.key).collect();
                self.bucket.delete(&files).await?;
                self.end(&run).await?;
                done.files_removed += count(files.len());
            }
        }
        Ok(done)
    }
}
