//! Compaction: the many small files of a partition become few large sorted files, while readers read.
//!
//! ```text
//! datasets/<name>/dt=<day>/<hash>-<fingerprint>.parquet      written by the exporter, each small
//!    │  list          without files that a manifest supersedes, and without large files              files
//!    │  fetch         to temporary files; a file whose columns have other types is left alone        inputs
//!    │  sort          runs within a memory budget, spilled if there are several, then merged         sort, merge
//!    │                  copies of a row are dropped; outdated rows too, if the model allows it       order
//!    │  write         temporary files again, of the target size                                      output
//!    ▼  upload        the run's mark, then its files                                                 run
//! datasets/<name>/dt=<day>/compacted-<run>-<number>.parquet
//!    │  commit        the manifest, unless one of these inputs exists; then the mark is removed      manifest
//!    ▼
//! compactions/<name>/dt=<day>/<id>.json = {inputs, outputs, fingerprint}
//!    ┊  a grace period later, for queries that have listed the inputs and not read them yet
//!    ▼  sweep         if all outputs exist: the inputs are removed, then the manifest                sweep
//! ```
//!
//! `partition` runs these steps for one partition. Imports go one way: this module → `partition` → the steps → `batches`,
//! `temporary`, `totals` and the crate's `paths`.
//!
//! # Proof that no row is lost, whichever step is the last
//!
//! Readers see every file, and identify a row by its key, `_position`, `_operation` and `_changed_at`: copies of a row in two
//! files are one row to them. So it is enough that *every row is in at least one file* (except outdated rows, see below).
//!
//! - **Before the manifest** files are only added, and their rows are in other files, too. The next compaction treats small ones
//!   like any other file. If the compactor died, the mark of its run is still there hours later, and the sweep removes its files.
//! - **The manifest** changes nothing for readers: it only states which files are not needed any more.
//! - **Removing files** requires a manifest whose outputs all exist. The outputs stay as long as the manifest does: a manifest
//!   whose inputs are outputs of another is swept after that one. If outputs are gone nevertheless (the manifest was written
//!   after they had been superseded and swept, or somebody removed them), the manifest proves nothing: it is removed, and its
//!   inputs are treated like any other file. Manifests never form a cycle, because an output is newer than its inputs, and
//!   because of the next point.
//! - **Two compactors** of the same inputs write the same manifest key, and one is second. Of compactors with overlapping inputs,
//!   one sees before its commit that the other has superseded or removed some of them. In both cases it does not commit, and its
//!   files are swept like those of a dead compactor. (If both look before either writes, both commit, and some rows are in two
//!   files.)
//! - **A file that is exported again** after the sweep is younger than every manifest that names it, and those manifests do not
//!   apply to it.
//! - **Outdated rows** are dropped only with [`RowHistory::Newest`](afterwrite::table::RowHistory), and only if a row that stays
//!   outdates them whatever else is in the partition (`order`). The newest row of a key is never dropped, even if it is a
//!   `REMOVE` or an `EXPIRE`: otherwise a late duplicate of an older row would bring the item back.
//!
//! # Columns
//!
//! Files of an older model are compacted, too: columns that they lack are null. Columns that the model no longer has are kept, after
//! the others: during a deployment the compactor may be the older one. A file that is not Parquet, that lacks a key column, or in
//! which a column has another type than in the model is left alone ([`CompactionTotals::files_left_alone`]).
//!
//! Of copies of a row, the one of the model's greatest generation stays, if the copies are neighbours: copies that are sorted by
//! different values both stay, and are one row to readers.

mod batches;
mod files;
pub mod function;
mod inputs;
mod manifest;
mod merge;
mod options;
mod order;
mod output;
mod partition;
mod run;
mod sort;
mod sweep;
mod temporary;
mod totals;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use afterwrite::clock::Clock;
use afterwrite::record::Timestamp;
use afterwrite::sink::{Bucket, ListedObject};
use afterwrite::table::{Dataset, Model, NO_DAY};
use afterwrite::{Error, ErrorKind, Result};

use self::files::is_worth_compacting;
pub use self::options::CompactionOptions;
use self::partition::PartitionCompactor;
pub use self::run::ABANDONED_AFTER;
pub use self::totals::CompactionTotals;
use crate::paths::{DatasetPartition, dataset_files, dataset_manifests, day_and_name, is_parquet_file};

/// Compacts the datasets of one model in one bucket.
#[derive(Debug)]
pub struct DatasetCompactor<B, C> {
    model: Arc<Model>,
    bucket: B,
    options: CompactionOptions,
    clock: C,
}

impl<B: Bucket, C: Clock> DatasetCompactor<B, C> {
    /// A compactor of this model's datasets.
    #[must_use]
    pub fn new(model: Arc<Model>, bucket: B, options: CompactionOptions, clock: C) -> Self {
        Self { model, bucket, options, clock }
    }

    /// Its table model.
    #[must_use]
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// Compacts one dataset or all, the partition of one day (`yyyy-mm-dd`) or all, and removes the files that were superseded a
    /// grace period ago. It may be stopped at any moment: only its work is lost.
    ///
    /// # Errors
    /// `Configuration` for a dataset that the model does not have or an invalid day; errors of the bucket. `State` for a file
    /// or manifest that cannot be read, and `Configuration` for temporary files that cannot be written: the other partitions
    /// are compacted nevertheless.
    pub async fn compact(&self, dataset: Option<&str>, day: Option<&str>) -> Result<CompactionTotals> {
        day.map_or(Ok(()), check_day)?;
        let mut totals = CompactionTotals::default();
        let mut first_error = None;
        for dataset in self.datasets(dataset)? {
            for day in self.days(dataset, day).await? {
                let partition = DatasetPartition { dataset, day };
                let Self { model, bucket, options, clock } = self;
                let compactor = PartitionCompactor { model, bucket, options, clock, partition };
                let Err(error) = Box::pin(compactor.compact(&mut totals)).await else { continue };
                if error.is_retryable() {
                    return Err(error);
                }
                // The cause may concern only this partition: a torn file, or one too large for the disk.
                let error = error.with("dataset", &*dataset.name).with("day", compactor.partition.day);
                tracing::warn!(%error, "a partition was not compacted");
                first_error.get_or_insert(error);
            }
        }
        first_error.map_or(Ok(totals), Err)
    }

    fn datasets(&self, name: Option<&str>) -> Result<Vec<&Dataset>> {
        let all = &self.model.datasets;
        let Some(name) = name else { return Ok(all.iter().collect()) };
        let chosen = all.iter().find(|dataset| *dataset.name == *name).ok_or_else(|| {
            let known: Vec<&str> = all.iter().map(|dataset| &*dataset.name).collect();
            Error::new(ErrorKind::Configuration, format!("the model has no dataset `{name}`"))
                .with("datasets of the model", known.join(", "))
        })?;
        Ok(vec![chosen])
    }

    /// The days of a dataset that have anything to compact or to remove; or the one requested.
    async fn days(&self, dataset: &Dataset, day: Option<&str>) -> Result<BTreeSet<String>> {
        if let Some(day) = day {
            return Ok(BTreeSet::from([day.to_owned()]));
        }
        let mut days = BTreeSet::new();
        let prefix = dataset_manifests(dataset);
        for ListedObject { key, .. } in self.bucket.list(&prefix).await? {
            days.extend(day_and_name(&key, &prefix).map(|(day, _)| day.to_owned()));
        }
        let prefix = dataset_files(dataset);
        let files = self.bucket.list(&prefix).await?;
        let small = files.iter().filter(|file| file.size < self.options.small_file_bytes);
        let mut small_files: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (day, name) in small.filter_map(|file| day_and_name(&file.key, &prefix)) {
            if is_parquet_file(name) {
                small_files.entry(day).or_default().push(name);
            }
        }
        small_files.retain(|_, names| is_worth_compacting(names.iter().copied()));
        days.extend(small_files.into_keys().map(str::to_owned));
        Ok(days)
    }
}

fn check_day(day: &str) -> Result<()> {
    if day.len() == NO_DAY.len() && Timestamp::parse(day).is_some() {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Configuration, format!("`{day}` is not a day")).hint("Write it as yyyy-mm-dd"))
}

#[cfg(test)]
mod tests;
