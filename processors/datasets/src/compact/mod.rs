//! Compaction: the many small files of a dataset's partition become few large sorted ones, while readers read.
//!
//! ```text
//! datasets/<name>/dt=<day>/<hash>-<fingerprint>.parquet      what the exporter wrote, each small
//!    │  list          leave out what a manifest says is superseded, and what is large already      partition
//!    │  fetch         to temporary files; one whose columns have other types now stays as it is    inputs
//!    │  sort          in runs of a memory budget, spilled if there are several, then merged        sort, merge
//!    │                  identical rows go but for one; outdated ones too, if the model says so     order
//!    │  write         to temporary files again, split at the target size                           output
//!    ▼  upload        the run's mark, then its files                                               run
//! datasets/<name>/dt=<day>/compacted-<run>-<number>.parquet
//!    │  commit        the manifest is written, if there is none of these inputs; the mark goes     manifest
//!    ▼
//! compactions/<name>/dt=<day>/<id>.json = {inputs, outputs, fingerprint}
//!    ┊  a grace period later, for queries that have listed the inputs and not read them yet
//!    ▼  sweep         if all outputs are there: the inputs are removed, then the manifest          sweep
//! ```
//!
//! # Why nothing is lost, whoever dies when
//!
//! Readers see every file there is, and know a row by its key, `_position`, `_operation` and `_changed_at`: a row that lies in two
//! files is one row to them. So what must hold is only that *every row lies in at least one file* (but for outdated rows, below).
//!
//! - **Before the manifest** only files were added, whose rows lie in others too. Whoever compacts next takes the small ones for
//!   files like any other. If the compactor died, its run's mark is still there hours later, and the sweep removes what it left.
//! - **With the manifest** nothing changes for readers: it only says which files nobody needs any more.
//! - **Removing** needs a manifest whose outputs are all there. They stay as long as the manifest does: what supersedes
//!   an output is swept only when no manifest names it as an output any more. If outputs are gone all the same (the
//!   manifest was written after they had been superseded and swept, or somebody removed them), the manifest proves
//!   nothing: it is dropped, and its inputs are files like any other. No chain of manifests leads back to where it
//!   began, because an output is newer than what it was made of, and because of the next point.
//! - **Two compactors** of the same inputs write the same manifest's key, and one is second. Of overlapping inputs, one finds before
//!   its manifest that another has superseded some, or removed them. Either does not commit, and its files go as if it had died. (If
//!   both look before either writes, both commit, and some rows lie in two files.)
//! - **A file that comes back**: an exporter that runs again after the sweep writes its file anew. It is younger than any
//!   manifest that names it, and such manifests do not concern it.
//! - **Outdated rows** go only with [`History::Newest`](afterwrite::table::History), and only where a row that stays outdates them whatever else is in the partition
//!   (`order`). The newest row of a key never goes, be it `REMOVE` or `EXPIRE`: a late duplicate of an older row would bring
//!   the item back to life.
//!
//! # Columns
//!
//! Files of an older model are read all the same: columns they lack are null. Columns that the model no longer has are kept, behind
//! the others: during a deployment it may be the compactor that is old. A file in which a column has another type than in the
//! model, or that lacks a column of the key, is left as it is ([`Compacted::files_left_alone`]); so is what is no Parquet.
//!
//! Of identical rows the one stays that the model's latest generation made, if it lies next to the others: sorted by other
//! values, both stay, and are one row to readers all the same.

pub mod function;
mod inputs;
mod manifest;
mod merge;
mod order;
mod output;
mod partition;
mod run;
mod sort;
mod sweep;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::AddAssign;
use std::sync::Arc;
use std::time::Duration;

use afterwrite::record::Timestamp;
use afterwrite::sink::{Bucket, ListedObject};
use afterwrite::table::{Dataset, Model};
use afterwrite::{Error, ErrorKind, Result};
use lambda_runtime::tracing;
use serde::Serialize;

use self::partition::Partition;
pub use self::run::ABANDONED_AFTER;

const MIB: u64 = 1024 * 1024;

/// How much is compacted, into what, with how much memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Files smaller than this are compacted, in bytes.
    pub small: u64,
    /// A compacted file ends soon after it has reached this size, in bytes. At least twice [`Options::small`], lest compacted files
    /// be compacted for ever.
    pub target: u64,
    /// How many bytes of rows and sort keys are held at once. What is written takes up to a row group (64 MiB) beside it.
    pub memory: u64,
    /// How many bytes of files are compacted together (and no more than 500 files); the rest of a partition follows in further
    /// compactions. Temporary files need this, first for what is compacted, then for what it becomes; and as much as the rows take
    /// uncompressed if that is more than [`Options::memory`].
    pub at_once: u64,
    /// How long a superseded file stays: longer than any query takes that listed it before. One that lists it later may miss it.
    pub grace: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            small: 128 * MIB,
            target: 256 * MIB,
            memory: 256 * MIB,
            at_once: 1024 * MIB,
            grace: Duration::from_secs(60 * 60),
        }
    }
}

/// What a compaction came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Compacted {
    /// Partitions that were looked at: those named, or those that had anything to compact or to remove.
    pub partitions: u64,
    /// Files that were compacted.
    pub files_in: u64,
    /// Files that they became.
    pub files_out: u64,
    /// Rows that were read.
    pub rows_in: u64,
    /// Rows that were written.
    pub rows_out: u64,
    /// Rows left out because they lay there twice.
    pub duplicates: u64,
    /// Rows left out because a newer one of their item stays, if the model says so.
    pub outdated: u64,
    /// Size of the files that were compacted.
    pub bytes_in: u64,
    /// Size of the files that they became.
    pub bytes_out: u64,
    /// Files that were removed: those superseded for the grace period, and what compactors that died have left.
    pub files_removed: u64,
    /// Files that are no Parquet, lack a column of the key, or hold a column of another type than the model's.
    pub files_left_alone: u64,
    /// Compactions in which another compactor was faster: what it left is as good.
    pub overtaken: u64,
}

impl AddAssign for Compacted {
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
        self.files_removed += other.files_removed;
        self.files_left_alone += other.files_left_alone;
        self.overtaken += other.overtaken;
    }
}

/// Compacts the datasets of one model in one bucket.
#[derive(Debug)]
pub struct Compactor<B> {
    model: Arc<Model>,
    bucket: B,
    options: Options,
}

impl<B: Bucket> Compactor<B> {
    /// A compactor of this model's datasets.
    #[must_use]
    pub fn new(model: Arc<Model>, bucket: B, options: Options) -> Self {
        Self { model, bucket, options }
    }

    /// Its table model.
    #[must_use]
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// Compacts a dataset or all, one day's partition (`yyyy-mm-dd`) or all, and removes what was superseded a grace period before
    /// `now`. Whoever stops it at any moment loses nothing but its work.
    ///
    /// # Errors
    /// `Configuration` for a dataset that the model does not have or a day that is none; errors of the bucket. `State` for a file
    /// or manifest that cannot be read, and `Configuration` for temporary files that cannot be written: the other partitions
    /// are compacted all the same.
    pub async fn compact(
        &self,
        dataset: Option<&str>,
        day: Option<&str>,
        now: Timestamp,
    ) -> Result<Compacted> {
        if let Some(day) = day
            && (day.len() != afterwrite::table::NO_DAY.len() || Timestamp::parse(day).is_none())
        {
            return Err(Error::new(ErrorKind::Configuration, format!("`{day}` is no day"))
                .hint("Write it as yyyy-mm-dd"));
        }
        let mut done = Compacted::default();
        let mut failed = None;
        for dataset in self.datasets(dataset)? {
            for day in self.days(dataset, day).await? {
                let partition = Partition { dataset, day };
                match Box::pin(self.compact_partition(&partition, now)).await {
                    Ok(compacted) => done += compacted,
                    // What is wrong with one partition need not be with another: a torn file, or one too large for the disk.
                    Err(error) if !error.is_retryable() => {
                        tracing::warn!(dataset = &*dataset.name, day = partition.day, %error, "a partition was not compacted");
                        failed.get_or_insert(error);
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        failed.map_or(Ok(done), Err)
    }

    fn datasets(&self, name: Option<&str>) -> Result<Vec<&Dataset>> {
        let all = self.model.datasets.iter();
        let chosen: Vec<&Dataset> =
            all.filter(|dataset| name.is_none_or(|name| *dataset.name == *name)).collect();
        match name {
            Some(name) if chosen.is_empty() => {
                let known: Vec<&str> = self.model.datasets.iter().map(|dataset| &*dataset.name).collect();
                Err(Error::new(ErrorKind::Configuration, format!("the model has no dataset `{name}`"))
                    .with("datasets of the model", known.join(", ")))
            }
            Some(_) | None => Ok(chosen),
        }
    }

    /// The days of which a dataset has something to compact or to remove.
    async fn days(&self, dataset: &Dataset, day: Option<&str>) -> Result<BTreeSet<String>> {
        if let Some(day) = day {
            return Ok(BTreeSet::from([day.to_owned()]));
        }
        let mut days = BTreeSet::new();
        let prefix = partition::manifests_of(dataset);
        for ListedObject { key, .. } in self.bucket.list(&prefix).await? {
            days.extend(place(&key, &prefix).map(|(day, _)| day.to_owned()));
        }
        let prefix = partition::files_of(dataset);
        let files = self.bucket.list(&prefix).await?;
        let small = files.iter().filter(|file| file.size < self.options.small);
        let mut files: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (day, name) in small.filter_map(|file| place(&file.key, &prefix)) {
            if partition::is_file(name) {
                files.entry(day).or_default().push(name);
            }
        }
        let worth = files.into_iter().filter(|(_, names)| partition::is_worth(names.iter().copied()));
        days.extend(worth.map(|(day, _)| day.to_owned()));
        Ok(days)
    }
}

/// The day and the name of what lies under `<prefix>dt=<day>/<name>`.
fn place<'k>(key: &'k str, prefix: &str) -> Option<(&'k str, &'k str)> {
    key.strip_prefix(prefix)?.strip_prefix("dt=")?.split_once('/')
}

#[cfg(test)]
mod tests;
