//! Reading datasets: the rows of a day, as the table of current rows has them or as they follow from the log. Nothing is written.

use std::collections::BTreeSet;
use std::sync::Arc;

use afterwrite_model::record::Timestamp;
use afterwrite_model::table::{Dataset, Model};
use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_services::Bucket;
use arrow_array::{BooleanArray, RecordBatch};
use arrow_select::filter::filter_record_batch;

use super::batches::unsortable;
use super::filter::RowSelection;
use super::inputs::{InputFile, common_schema, fetch_inputs};
use super::options::CompactionOptions;
use super::order::{OrderPurpose, RowOrder};
use super::partition::{DatasetTables, files_of_day};
use super::sort::RowSorter;
use super::temporary::WorkFolder;
use crate::delta::{DeltaTable, TableSnapshot};
use crate::heartbeat::exported_heartbeat;
use crate::paths::{current_root, day_application, derived_application, log_root};
use crate::row_values::DatasetRows;

/// Reads the datasets of one model in one bucket.
#[derive(Debug)]
pub struct DatasetReader<B> {
    model: Arc<Model>,
    bucket: Arc<B>,
    tables: Vec<DatasetTables<B>>,
    options: CompactionOptions,
}

/// One version of the current rows of a dataset, and the same or a newer version of its log.
#[derive(Clone, Debug)]
pub struct DatasetVersions {
    current: Arc<TableSnapshot>,
    log: Arc<TableSnapshot>,
}

/// Where rows are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowOrigin {
    /// The table of current rows: the rows as they are, with lives that ended by expiry.
    Current,
    /// The log: the newest row of each item, even if the item is gone, and lives that ended by expiry.
    Log,
}

impl<B: Bucket> DatasetReader<B> {
    /// A reader of this model's datasets.
    #[must_use]
    pub fn new(model: Arc<Model>, bucket: B, options: CompactionOptions) -> Self {
        let bucket = Arc::new(bucket);
        let tables = model.datasets.iter().map(|dataset| DatasetTables {
            log: DeltaTable::new(Arc::clone(&bucket), log_root(dataset)),
            current: DeltaTable::new(Arc::clone(&bucket), current_root(dataset)),
        });
        Self { tables: tables.collect(), model, bucket, options }
    }

    /// When the newest heartbeat was written that has been exported; `None` if none was.
    ///
    /// # Errors
    /// As [`Bucket::get`].
    pub async fn exported_heartbeat(&self) -> Result<Option<Timestamp>> {
        exported_heartbeat(&*self.bucket).await
    }

    /// The newest versions of a dataset's tables.
    ///
    /// # Errors
    /// As [`DeltaTable::snapshot`].
    pub async fn versions(&self, dataset: usize) -> Result<DatasetVersions> {
        let (_, tables) = self.dataset(dataset)?;
        // The log last: it has every row that the current rows were derived from.
        let current = tables.current.snapshot().await?;
        Ok(DatasetVersions { current, log: tables.log.snapshot().await? })
    }

    fn dataset(&self, index: usize) -> Result<(&Dataset, &DatasetTables<B>)> {
        let found = self.model.datasets.get(index).zip(self.tables.get(index));
        found.ok_or_else(|| Error::new(ErrorKind::State, "the model has no such dataset"))
    }

    /// Reads the rows of a day, batch by batch; of rows of the log only those are considered that `is_wanted` selects.
    ///
    /// # Errors
    /// [`ErrorKind::State`] for a file that cannot be read; [`ErrorKind::Configuration`] for temporary files that cannot be written;
    /// those of the bucket, and of `visit`.
    pub async fn read(
        &self,
        dataset: usize,
        versions: &DatasetVersions,
        (day, origin): (&str, RowOrigin),
        is_wanted: impl Fn(&DatasetRows<'_>, usize) -> bool,
        mut visit: impl FnMut(&DatasetRows<'_>, usize) -> Result<()>,
    ) -> Result<()> {
        let (dataset, tables) = self.dataset(dataset)?;
        let (table, snapshot) = match origin {
            RowOrigin::Current => (&tables.current, &versions.current),
            RowOrigin::Log => (&tables.log, &versions.log),
        };
        let files: Vec<_> = files_of_day(snapshot, day).cloned().collect();
        let folder = WorkFolder::create()?;
        let mut visit_batch = |batch: &RecordBatch| {
            let rows = DatasetRows::new(dataset, batch)?;
            (0..rows.len()).filter(|row| is_wanted(&rows, *row)).try_for_each(|row| visit(&rows, row))
        };
        match origin {
            // One file after the other: the disk holds one.
            RowOrigin::Current => {
                for file in &files {
                    let inputs = Box::pin(fetch_inputs(table, std::slice::from_ref(file), &folder)).await?;
                    each_batch(dataset, &inputs, &mut visit_batch)?;
                }
                Ok(())
            }
            RowOrigin::Log => {
                let inputs = Box::pin(fetch_inputs(table, &files, &folder)).await?;
                self.derive(dataset, &inputs, &is_wanted, visit_batch)
            }
        }
    }

    /// Derives the newest rows of the wanted items.
    fn derive(
        &self,
        dataset: &Dataset,
        inputs: &[InputFile],
        is_wanted: &impl Fn(&DatasetRows<'_>, usize) -> bool,
        visit: impl FnMut(&RecordBatch) -> Result<()>,
    ) -> Result<()> {
        let schema = common_schema(dataset, inputs)?;
        let expired = dataset.expired_rows(&self.model);
        let order = RowOrder::new(dataset, &schema, OrderPurpose::Newest, expired).map_err(unsortable)?;
        let (memory, target) = (self.options.memory_bytes, self.options.target_file_bytes);
        let mut sorter = RowSorter::new(&order, RowSelection::Latest, memory, target);
        each_batch(dataset, inputs, |batch| {
            let rows = DatasetRows::new(dataset, batch)?;
            let wanted: BooleanArray = (0..rows.len()).map(|row| Some(is_wanted(&rows, row))).collect();
            sorter.push(filter_record_batch(batch, &wanted).map_err(unsortable)?)
        })?;
        sorter.finish(visit).map(drop)
    }
}

impl DatasetVersions {
    /// The days with rows, newest first.
    #[must_use]
    pub fn days(&self) -> Vec<String> {
        let files = self.current.files().chain(self.log.files());
        let days: BTreeSet<&str> = files.map(|file| &*file.day).collect();
        days.into_iter().rev().map(str::to_owned).collect()
    }

    /// Whether the log has changes of a day that its current rows were not derived from.
    #[must_use]
    pub fn is_pending(&self, day: &str) -> bool {
        let changed = self.log.transaction(&day_application(day));
        let derived = self.current.transaction(&derived_application(day));
        match (changed, derived) {
            (Some(changed), Some(derived)) => changed > derived,
            (_, None) => files_of_day(&self.log, day).next().is_some(),
            (None, Some(_)) => false,
        }
    }

    /// Where the rows of a day are up to date.
    #[must_use]
    pub fn newest_origin(&self, day: &str) -> RowOrigin {
        if self.is_pending(day) { RowOrigin::Log } else { RowOrigin::Current }
    }

    /// The number of rows of both tables, and their size in bytes.
    #[must_use]
    pub fn size(&self) -> (u64, u64) {
        let files = self.current.files().chain(self.log.files());
        files.fold((0, 0), |(rows, bytes), file| (rows + file.rows(), bytes + file.size))
    }
}

fn each_batch(
    dataset: &Dataset,
    inputs: &[InputFile],
    mut visit: impl FnMut(&RecordBatch) -> Result<()>,
) -> Result<()> {
    let schema = common_schema(dataset, inputs)?;
    for input in inputs {
        for batch in input.batches(&schema)? {
            visit(&batch?)?;
        }
    }
    Ok(())
}
