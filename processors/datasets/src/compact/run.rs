//! Runs: what tells the files of a compaction that died from those that supersede others.
//!
//! A run writes its mark before its first file. It removes it once a manifest says what becomes of its files: that they supersede
//! others, or are superseded by another compactor's. Files that never came to a manifest would look like any other, and the large ones, which are
//! not compacted again, would be read by every query for ever. Their mark outlives the run, and whoever sweeps removes them.

use std::time::Duration;

use afterwrite::Result;
use afterwrite::record::Timestamp;
use afterwrite::sink::s3::{Body, Bucket, Listed};
use bytes::Bytes;
use uuid::Uuid;

use super::manifest::Committed;
use super::partition::Partition;
use super::{Compacted, Compactor};

/// A run that began so long ago has died. A live one takes minutes: it compacts a gigabyte.
pub(super) const ABANDONED_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

const MARK: &str = ".begun";

/// One compaction of some of a partition's files.
pub(super) struct Run<'p> {
    partition: &'p Partition<'p>,
    /// Unlike any other's.
    id: String,
}

impl<'p> Run<'p> {
    /// The run of this mark; `None` for what is no mark.
    fn of_mark(partition: &'p Partition<'p>, key: &str) -> Option<Self> {
        let id = key.strip_prefix(&partition.manifests())?.strip_suffix(MARK)?;
        Some(Self { partition, id: id.to_owned() })
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

    /// Whether a manifest says that its files supersede others.
    fn has_committed(&self, committed: &[Committed]) -> bool {
        let files = self.files();
        committed.iter().flat_map(|one| &one.manifest.outputs).any(|output| output.starts_with(&files))
    }
}

impl<B: Bucket> Compactor<B> {
    pub(super) async fn begin<'p>(&self, partition: &'p Partition<'p>) -> Result<Run<'p>> {
        let run = Run { partition, id: Uuid::new_v4().to_string() };
        self.bucket.put_new(&run.mark(), Body::Bytes(Bytes::new())).await?;
        Ok(run)
    }

    /// To be called once a manifest says what becomes of the run's files.
    pub(super) async fn end(&self, run: &Run<'_>) -> Result<()> {
        self.bucket.delete(&[run.mark()]).await
    }

    /// Ends the runs that have committed and not lived to say so, and removes the files of those that died before.
    ///
    /// The manifests must have been read before: as nobody sweeps a manifest whose run has a mark, a run that has a mark now and had
    /// no manifest then never had one.
    pub(super) async fn sweep_runs(
        &self,
        partition: &Partition<'_>,
        committed: &[Committed],
        now: Timestamp,
    ) -> Result<Compacted> {
        let mut done = Compacted::default();
        for Listed { key, modified, .. } in self.bucket.list(&partition.manifests()).await? {
            let Some(run) = Run::of_mark(partition, &key) else { continue };
            if run.has_committed(committed) {
                self.end(&run).await?;
            } else if modified <= now && now.since(modified) >= ABANDONED_AFTER {
                let files = self.bucket.list(&run.files()).await?;
                let files: Vec<String> = files.into_iter().map(|file| file.key).collect();
                self.bucket.delete(&files).await?;
                self.end(&run).await?;
                done.files_removed += super::partition::count(files.len());
            }
        }
        Ok(done)
    }
}
