//! Compaction: the log of a dataset is packed, and the table of current rows is derived from it, while readers read.
//!
//! ```text
//! datasets/<name>_log/dt=<day>/…       every change                                 datasets/<name>/dt=<day>/…     one row an item
//!    │  snapshot      days that changed since they were derived; newest first            ▲
//!    │  plan          which files are packed, by their sizes                             │
//!    │  fetch         to temporary files                            inputs, temporary    │
//!    │  sort          runs within a memory budget, merged           sort, merge, order   │
//!    │                  copies of a row are dropped; outdated rows too, if the model allows it       filter
//!    ├─▶ PACK         upload, then a commit of the log: the packed files leave, the new ones join    │
//!    └─▶ sort, choose the current rows, sort for readers ─▶ DERIVE: upload, then a commit ───────────┘
//! once a day: the vacuum of both tables
//! ```
//!
//! `partition` runs these steps for one partition. Imports go one way: this module → `partition` → the steps → `batches`,
//! `temporary`, `totals` and the crate's `delta` and `paths`.
//!
//! # Proof that the tables are right after any step and with any other writers
//!
//! Readers see the files of one version of a table, and no file is removed that a version within the retention has (see
//! [`crate::delta`]). So it is enough that every version is right.
//!
//! - **The log** is right if it has a row of every exported change at least once (except outdated rows, see below). An export adds files.
//!   A packing removes files only together with the addition of files with the same rows, in one commit, and only if the version
//!   before it still has all of them: of two packings with a common file, one commits.
//! - **Outdated rows** are dropped only with [`RowHistory::Newest`](afterwrite_model::table::RowHistory), and only if a row that stays
//!   outdates them whatever else is in the partition (`order`). The newest row of a key is never dropped, even if it is a
//!   `REMOVE` or an `EXPIRE`: otherwise a late duplicate of an older row would bring the item back.
//! - **The current rows of a day** are a function of the rows that the log has of it: all rows of an item are in one partition. Duplicates
//!   do not change them (a row is identified by key and position), nor do packings. The commit records the version of the log
//!   from which they were derived (`log/dt=<day>`), and the log records the last version that changed rows of the day (`dt=<day>`).
//!   So at every version of the current table, each day is exactly right for the version of the log that it names, and it is known
//!   whether the log has changed since.
//! - **Two compactors** of one day derive from versions a ≤ b. The commit replaces whatever files the day has, on condition that the
//!   recorded version is smaller than its own: b may follow a, and a never follows b.
//! - **A compactor that dies** before a commit leaves files that are in no version: the vacuum removes them. Between the two commits the
//!   log is packed and the day is not derived; the next compaction derives it. A commit whose response is lost is recognised by its id.
//! - **A late duplicate** of a packed file is dropped by the exporter while the log remembers the packing. Later it adds copies of rows
//!   to the log; the day is derived again, and nothing changes.
//! - **Files that waited too long** are not committed: a vacuum might have removed them ([`crate::delta::ORPHAN_AGE`]).
//!
//! # Columns
//!
//! Files of an older model are compacted, too: columns that they lack are null. Columns that the model no longer has are kept, after
//! the others: during a deployment the compactor may be the older one. Files of other writers of Delta tables are read by the protocol
//! (`columns`).
//!
//! Of several copies of a row, the copy of the greatest generation stays.

mod batches;
mod columns;
mod filter;
pub mod function;
mod inputs;
mod merge;
mod options;
mod order;
mod output;
mod partition;
mod plan;
pub mod reading;
mod sort;
mod temporary;
mod totals;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use afterwrite_model::clock::Clock;
use afterwrite_model::record::Timestamp;
use afterwrite_model::table::{Dataset, Model, NO_DAY};
use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_services::Bucket;
use futures::{StreamExt as _, stream};

pub use self::options::CompactionOptions;
use self::partition::{COMMIT_TIME, DatasetTables, PartitionCompactor, PartitionWork};
pub use self::totals::CompactionTotals;
use self::totals::count;
use crate::delta::{DataFile, DeltaTable, TableChange, TableSnapshot};
use crate::paths::{current_root, day_of_application, is_current_path, is_log_path, log_root};
use crate::schema::arrow_schema;

/// The application that records the day of the last vacuum, in days since 1970.
const VACUUM: &str = "vacuum";
const DAY_SECONDS: i64 = 24 * 60 * 60;

/// Compacts the datasets of one model in one bucket.
#[derive(Debug)]
pub struct DatasetCompactor<B, C> {
    model: Arc<Model>,
    /// Of each dataset.
    tables: Vec<DatasetTables<B>>,
    options: CompactionOptions,
    clock: C,
}

impl<B: Bucket, C: Clock> DatasetCompactor<B, C> {
    /// A compactor of this model's datasets.
    #[must_use]
    pub fn new(model: Arc<Model>, bucket: B, options: CompactionOptions, clock: C) -> Self {
        let bucket = Arc::new(bucket);
        let tables = model.datasets.iter().map(|dataset| DatasetTables {
            log: DeltaTable::new(Arc::clone(&bucket), log_root(dataset)),
            current: DeltaTable::new(Arc::clone(&bucket), current_root(dataset)),
        });
        Self { tables: tables.collect(), model, options, clock }
    }

    /// Its table model.
    #[must_use]
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// Compacts one dataset or all, the partition of one day (`yyyy-mm-dd`) or all, newest first. If all days are compacted, the first
    /// run of a day also removes what was superseded before the retention. It may be stopped at any moment: only its work is lost.
    ///
    /// # Errors
    /// `Configuration` for a dataset that the model does not have or an invalid day; errors of the bucket. `State` for a file that
    /// cannot be read, and `Configuration` for temporary files that cannot be written: the other partitions are compacted nevertheless.
    pub async fn compact(&self, dataset: Option<&str>, day: Option<&str>) -> Result<CompactionTotals> {
        day.map_or(Ok(()), check_day)?;
        let mut totals = CompactionTotals::default();
        let mut first_error = None;
        for (dataset, tables) in self.datasets(dataset)? {
            self.create(dataset, tables).await?;
            let (log, current) = (tables.log.snapshot().await?, tables.current.snapshot().await?);
            let work = planned_work(&log, &current, day);
            let partitions = work.into_iter().map(|(Reverse(day), work)| async move {
                let Self { model, options, clock, .. } = self;
                let compactor =
                    PartitionCompactor { model, dataset, tables, options, clock, day: day.to_owned() };
                let compacted = Box::pin(compactor.compact(work)).await;
                compacted.map_err(|error| error.with("dataset", &*dataset.name).with("day", day))
            });
            let mut partitions =
                stream::iter(partitions).buffer_unordered(self.options.parallel_partitions.max(1));
            while let Some(compacted) = partitions.next().await {
                match compacted {
                    Ok(compacted) => totals += compacted,
                    Err(error) if error.is_retryable() => return Err(error),
                    Err(error) => {
                        // The cause may concern only this partition: a torn file, or one too large for the disk.
                        tracing::warn!(%error, "a partition was not compacted");
                        first_error.get_or_insert(error);
                    }
                }
            }
            if day.is_none() {
                totals.files_removed += Box::pin(self.vacuum(dataset, tables)).await?;
            }
        }
        first_error.map_or(Ok(totals), Err)
    }

    fn datasets(&self, name: Option<&str>) -> Result<Vec<(&Dataset, &DatasetTables<B>)>> {
        let all = self.model.datasets.iter().zip(&self.tables);
        let Some(name) = name else { return Ok(all.collect()) };
        let chosen: Vec<_> = all.filter(|(dataset, _)| *dataset.name == *name).collect();
        if chosen.is_empty() {
            let known: Vec<&str> = self.model.datasets.iter().map(|dataset| &*dataset.name).collect();
            return Err(Error::new(ErrorKind::Configuration, format!("the model has no dataset `{name}`"))
                .with("datasets of the model", known.join(", ")));
        }
        Ok(chosen)
    }

    /// Creates the tables that do not exist: engines can read them before the first row.
    async fn create(&self, dataset: &Dataset, tables: &DatasetTables<B>) -> Result<()> {
        for table in [&tables.log, &tables.current] {
            let decide = |snapshot: &TableSnapshot| {
                let create = || TableChange {
                    retention: Some(self.options.retention),
                    ..TableChange::new("CREATE", arrow_schema(dataset))
                };
                Ok(snapshot.version().is_none().then(create))
            };
            table.update(&self.clock, self.clock.now().plus(COMMIT_TIME), decide).await?;
        }
        Ok(())
    }

    /// Removes what no version within the retention has, once a day; returns the number of files.
    async fn vacuum(&self, dataset: &Dataset, tables: &DatasetTables<B>) -> Result<u64> {
        let mut removed = 0;
        removed += Box::pin(self.vacuum_table(dataset, &tables.log, is_log_path)).await?;
        removed += Box::pin(self.vacuum_table(dataset, &tables.current, is_current_path)).await?;
        Ok(removed)
    }

    async fn vacuum_table(
        &self,
        dataset: &Dataset,
        table: &DeltaTable<Arc<B>>,
        is_ours: fn(&str) -> bool,
    ) -> Result<u64> {
        let now = self.clock.now();
        let today = now.epoch_seconds().div_euclid(DAY_SECONDS);
        let decide = |snapshot: &TableSnapshot| {
            let is_due =
                snapshot.version().is_some() && snapshot.transaction(VACUUM).is_none_or(|last| last < today);
            Ok(is_due.then(|| TableChange {
                transactions: [(VACUUM.to_owned(), today)].into(),
                data_change: false,
                retention: Some(self.options.retention),
                ..TableChange::new("VACUUM", arrow_schema(dataset))
            }))
        };
        // The commit is first: it sets the retention. A vacuum that dies after it is made up for on the next day.
        let deadline = now.plus(COMMIT_TIME);
        if table.update(&self.clock, deadline, decide).await?.is_none() {
            return Ok(0);
        }
        Ok(count(Box::pin(table.vacuum(now, is_ours)).await?.files))
    }
}

/// The work that each day needs, newest first. Only the logs of the tables are read for it.
fn planned_work<'s>(
    log: &'s TableSnapshot,
    current: &TableSnapshot,
    day: Option<&str>,
) -> BTreeMap<Reverse<&'s str>, PartitionWork> {
    let mut files: BTreeMap<&str, Vec<Arc<DataFile>>> = BTreeMap::new();
    for file in log.files() {
        files.entry(&file.day).or_default().push(Arc::clone(file));
    }
    let changed = log.transactions().filter_map(|(app_id, _)| day_of_application(app_id));
    let days: BTreeSet<&str> = files.keys().copied().chain(changed).collect();
    let days = days.into_iter().filter(|known| day.is_none_or(|day| day == *known));
    let work = days.map(|day| {
        let files = files.remove(day).unwrap_or_default();
        (Reverse(day), PartitionWork::of(day, files, log, current))
    });
    work.filter(|(_, work)| work.is_needed()).collect()
}

fn check_day(day: &str) -> Result<()> {
    if day.len() == NO_DAY.len() && Timestamp::parse(day).is_some() {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Configuration, format!("`{day}` is not a day")).hint("Write it as yyyy-mm-dd"))
}

#[cfg(test)]
mod tests;
