//! Compacting one partition: packing files of the log, and deriving the current rows.

use std::sync::Arc;
use std::time::Duration;

use afterwrite_model::clock::Clock;
use afterwrite_model::record::Timestamp;
use afterwrite_model::table::{Dataset, Model, RowHistory};
use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_services::{Bucket, ObjectBody, PutOutcome};
use arrow_schema::SchemaRef;
use uuid::Uuid;

use super::batches::unsortable;
use super::filter::{DroppedRows, RowSelection};
use super::inputs::{InputFile, common_schema, fetch_inputs};
use super::options::CompactionOptions;
use super::order::{OrderPurpose, RowOrder};
use super::output::{OutputFile, OutputWriter};
use super::plan::files_to_pack;
use super::sort::RowSorter;
use super::temporary::WorkFolder;
use super::totals::{CompactionTotals, count};
use crate::delta::{DataFile, DeltaTable, ORPHAN_AGE, TableChange, TableSnapshot};
use crate::paths::{current_path, day_application, derived_application, packed_path};

/// How long a commit that loses races is tried.
pub(super) const COMMIT_TIME: Duration = Duration::from_secs(120);

/// The tables of a dataset.
#[derive(Debug)]
pub(super) struct DatasetTables<B> {
    pub(super) log: DeltaTable<Arc<B>>,
    pub(super) current: DeltaTable<Arc<B>>,
}

/// Compacts one partition.
pub(super) struct PartitionCompactor<'c, B, C> {
    pub(super) model: &'c Model,
    pub(super) dataset: &'c Dataset,
    pub(super) tables: &'c DatasetTables<B>,
    pub(super) options: &'c CompactionOptions,
    pub(super) clock: &'c C,
    pub(super) day: String,
}

/// The work that a partition needs.
#[derive(Debug, Default)]
pub(super) struct PartitionWork {
    /// The files that the partition has in the log.
    files: Vec<Arc<DataFile>>,
    /// Those of them that are packed.
    pack: Vec<Arc<DataFile>>,
    /// The version of the log from which the current rows are derived, if they are outdated.
    derive: Option<i64>,
}

impl PartitionWork {
    /// Of a day: its files in the log, and whether its current rows are outdated.
    pub(super) fn of(
        day: &str,
        files: Vec<Arc<DataFile>>,
        log: &TableSnapshot,
        current: &TableSnapshot,
    ) -> Self {
        let changed = log.transaction(&day_application(day));
        let derived = current.transaction(&derived_application(day));
        // Without a version of its own, the day has files of another writer: they are derived once.
        let is_outdated = match (changed, derived) {
            (Some(changed), Some(derived)) => changed > derived,
            (_, None) => !files.is_empty(),
            (None, Some(_)) => false,
        };
        let seen = log.version().and_then(|version| i64::try_from(version).ok());
        Self { pack: files_to_pack(&files), derive: seen.filter(|_| is_outdated), files }
    }

    pub(super) fn is_needed(&self) -> bool {
        !self.pack.is_empty() || self.derive.is_some()
    }
}

/// Files that were written for one table.
struct WrittenFiles {
    files: Vec<OutputFile>,
    schema: SchemaRef,
}

impl<B: Bucket, C: Clock> PartitionCompactor<'_, B, C> {
    /// Packs files of the log, then derives the current rows.
    pub(super) async fn compact(&self, work: PartitionWork) -> Result<CompactionTotals> {
        let mut totals = CompactionTotals { partitions: 1, ..CompactionTotals::default() };
        let folder = WorkFolder::create()?;
        let wanted = if work.derive.is_some() { &work.files } else { &work.pack };
        let mut inputs = Box::pin(fetch_inputs(&self.tables.log, wanted, &folder)).await?;
        let is_packed = |input: &InputFile| work.pack.iter().any(|file| file.path == input.path);
        let (packed, mut others): (Vec<_>, Vec<_>) = inputs.drain(..).partition(is_packed);
        if !packed.is_empty() {
            let written = self.pack(packed, &folder, &mut totals)?;
            Box::pin(self.commit_packed(&work.pack, &written, &mut totals)).await?;
            for OutputFile { file, .. } in written.files {
                others.push(InputFile::open("a packed file".to_owned(), file)?);
            }
        }
        if let Some(version) = work.derive {
            let written = self.derive(others, &folder, &mut totals)?;
            Box::pin(self.commit_derived(version, written, &mut totals)).await?;
        }
        Ok(totals)
    }

    fn order(&self, schema: &SchemaRef, purpose: OrderPurpose) -> Result<RowOrder> {
        RowOrder::new(self.dataset, schema, purpose, self.dataset.expired_rows(self.model))
            .map_err(unsortable)
    }

    /// Sorts files of the log into few.
    fn pack(
        &self,
        inputs: Vec<InputFile>,
        folder: &WorkFolder,
        totals: &mut CompactionTotals,
    ) -> Result<WrittenFiles> {
        let schema = common_schema(self.dataset, &inputs)?;
        let purpose = match self.dataset.history {
            RowHistory::All => OrderPurpose::History,
            RowHistory::Newest => OrderPurpose::Newest,
        };
        let order = self.order(&schema, purpose)?;
        let mut output = OutputWriter::new(folder, schema.clone(), &order, self.options.target_file_bytes)?;
        totals.files_in += count(inputs.len());
        totals.bytes_in += inputs.iter().map(|input| input.bytes).sum::<u64>();
        let sorter = self.sorter(&order, RowSelection::Log, self.options.memory_bytes);
        let (rows_in, dropped) = sort_files(sorter, inputs, &schema, |batch| output.write(batch))?;
        let files = output.finish()?;
        let rows_out = files.iter().map(|file| file.rows).sum::<u64>();
        check_rows(rows_in, rows_out, dropped)?;
        totals.rows_in += rows_in;
        totals.rows_out += rows_out;
        totals.duplicates += dropped.duplicates;
        totals.outdated += dropped.outdated;
        Ok(WrittenFiles { files, schema })
    }

    /// Chooses the current rows, and sorts them for readers.
    fn derive(
        &self,
        inputs: Vec<InputFile>,
        folder: &WorkFolder,
        totals: &mut CompactionTotals,
    ) -> Result<WrittenFiles> {
        let schema = common_schema(self.dataset, &inputs)?;
        let target = self.options.target_file_bytes;
        let by_item = self.order(&schema, OrderPurpose::Newest)?;
        let for_readers = self.order(&schema, OrderPurpose::Readers)?;
        let mut output = OutputWriter::new(folder, schema.clone(), &for_readers, target)?;
        if self.dataset.sort.is_empty() {
            let sorter = self.sorter(&by_item, RowSelection::Current, self.options.memory_bytes);
            sort_files(sorter, inputs, &schema, |batch| output.write(batch))?;
        } else {
            let half = self.options.memory_bytes / 2;
            let mut readers = self.sorter(&for_readers, RowSelection::Log, half);
            let sorter = self.sorter(&by_item, RowSelection::Current, half);
            sort_files(sorter, inputs, &schema, |batch| readers.push(batch.clone()))?;
            readers.finish(|batch| output.write(batch))?;
        }
        let files = output.finish()?;
        totals.derived += 1;
        totals.current_files += count(files.len());
        totals.current_rows += files.iter().map(|file| file.rows).sum::<u64>();
        totals.current_bytes += files.iter().map(|file| file.bytes).sum::<u64>();
        Ok(WrittenFiles { files, schema })
    }

    fn sorter<'o>(&self, order: &'o RowOrder, selection: RowSelection, memory_bytes: u64) -> RowSorter<'o> {
        RowSorter::new(order, selection, memory_bytes, self.options.target_file_bytes)
    }

    /// Replaces files of the log by packed files, unless another compactor has replaced one of them.
    async fn commit_packed(
        &self,
        packed: &[Arc<DataFile>],
        written: &WrittenFiles,
        totals: &mut CompactionTotals,
    ) -> Result<()> {
        let run = Uuid::new_v4().to_string();
        let begun = self.clock.now();
        let path = |number| packed_path(&self.day, &run, number);
        let add = self.upload(&self.tables.log, &written.files, path).await?;
        totals.files_out += count(add.len());
        totals.bytes_out += add.iter().map(|file| file.size).sum::<u64>();
        let decide = |log: &TableSnapshot| {
            let is_current = packed.iter().all(|file| log.file(&file.path).is_some());
            Ok((is_current && self.is_in_time(begun)).then(|| TableChange {
                add: add.clone(),
                remove: packed.iter().map(|file| file.path.clone()).collect(),
                data_change: false,
                retention: Some(self.options.retention),
                ..TableChange::new("PACK", Arc::clone(&written.schema))
            }))
        };
        let committed = self.tables.log.update(self.clock, begun.plus(COMMIT_TIME), decide).await?;
        totals.overtaken += u64::from(committed.is_none());
        self.report("files of a partition were packed", packed.len(), add.len());
        Ok(())
    }

    /// Replaces the current rows, unless another compactor has derived them from the same version of the log or a later one.
    async fn commit_derived(
        &self,
        version: i64,
        written: WrittenFiles,
        totals: &mut CompactionTotals,
    ) -> Result<()> {
        let run = Uuid::new_v4().to_string();
        let begun = self.clock.now();
        let path = |number| current_path(&self.day, &run, number);
        let add = self.upload(&self.tables.current, &written.files, path).await?;
        let application = derived_application(&self.day);
        let decide = |current: &TableSnapshot| {
            let is_newer = current.transaction(&application).is_none_or(|derived| derived < version);
            Ok((is_newer && self.is_in_time(begun)).then(|| TableChange {
                add: add.clone(),
                remove: files_of_day(current, &self.day).map(|file| file.path.clone()).collect(),
                transactions: [(application.clone(), version)].into(),
                retention: Some(self.options.retention),
                ..TableChange::new("DERIVE", Arc::clone(&written.schema))
            }))
        };
        let committed = self.tables.current.update(self.clock, begun.plus(COMMIT_TIME), decide).await?;
        totals.overtaken += u64::from(committed.is_none());
        self.report("the current rows of a partition were derived", 0, add.len());
        Ok(())
    }

    /// Whether files that were uploaded from this time on may be committed: no vacuum takes them for orphans yet.
    fn is_in_time(&self, begun: Timestamp) -> bool {
        self.clock.now().since(begun) < ORPHAN_AGE / 2
    }

    async fn upload(
        &self,
        table: &DeltaTable<Arc<B>>,
        files: &[OutputFile],
        path: impl Fn(usize) -> String,
    ) -> Result<Vec<DataFile>> {
        let mut uploaded = Vec::with_capacity(files.len());
        for OutputFile { file, bytes, statistics, .. } in files {
            let path = path(uploaded.len());
            let key = format!("{}{path}", table.root());
            let modified = self.clock.now();
            // No other run uses this key: an object that exists already is this file, and only the response was lost.
            let (PutOutcome::Written | PutOutcome::AlreadyExists) =
                table.bucket().put_new(&key, ObjectBody::File(file.path().to_owned())).await?;
            uploaded.push(DataFile {
                path,
                day: self.day.clone(),
                size: *bytes,
                modified,
                statistics: Some(statistics.clone()),
            });
        }
        Ok(uploaded)
    }

    fn report(&self, message: &str, files_in: usize, files_out: usize) {
        tracing::info!(dataset = &*self.dataset.name, day = self.day, files_in, files_out, "{message}");
    }
}

/// The files of a day.
pub(super) fn files_of_day<'s>(
    snapshot: &'s TableSnapshot,
    day: &str,
) -> impl Iterator<Item = &'s Arc<DataFile>> {
    snapshot.files().filter(move |file| file.day == day)
}

/// Sorts the rows of files; the disk of each is free as soon as it is read. Returns how many rows were read and dropped.
fn sort_files(
    mut sorter: RowSorter<'_>,
    inputs: Vec<InputFile>,
    schema: &SchemaRef,
    write: impl FnMut(&arrow_array::RecordBatch) -> Result<()>,
) -> Result<(u64, DroppedRows)> {
    let mut rows = 0;
    for input in inputs {
        for batch in input.batches(schema)? {
            let batch = batch?;
            rows += count(batch.num_rows());
            sorter.push(batch)?;
        }
    }
    Ok((rows, sorter.finish(write)?))
}

fn check_rows(rows_in: u64, rows_out: u64, dropped: DroppedRows) -> Result<()> {
    if rows_out + dropped.duplicates + dropped.outdated == rows_in {
        return Ok(());
    }
    Err(Error::new(ErrorKind::State, "rows went missing during sorting; nothing is superseded"))
}
