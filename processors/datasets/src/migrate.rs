//! Migration of the layout before Delta tables: `datasets/<name>/dt=<day>/….parquet` without a log of versions.
//!
//! Each old file becomes a file of the dataset's log, with the columns of today's model and with `_key_<variable>` for every variable of
//! the key: an old file has them only where no other column showed the variable. Old files stay where they are. A migration may be
//! stopped at any moment and started again: its files are derived from the old keys as the exporter's are from the archive's.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use afterwrite::clock::Clock;
use afterwrite::record::Timestamp;
use afterwrite::sink::Bucket;
use afterwrite::table::{Dataset, Model, NO_DAY};
use afterwrite::{Error, ErrorKind, Result};
use arrow_array::{ArrayRef, RecordBatch, new_null_array};
use arrow_schema::{DataType, Schema, SchemaRef};
use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde::{Deserialize, Serialize};

use crate::delta::{DeltaTable, FileStatistics};
use crate::export::commit::{LogAddition, add_to_log};
use crate::export::upload::FileUpload;
use crate::objects::read_object;
use crate::paths::{current_root, exported_prefix, is_current_path, log_root};
use crate::schema::{arrow_schema, fingerprint, writer_properties};

/// How many files one commit adds.
const FILES_PER_COMMIT: usize = 100;

/// How many files are rewritten at once: each is in memory, before and after.
const PARALLEL_FILES: usize = 4;

const COMMIT_TIME: Duration = Duration::from_secs(120);

/// The counts of a migration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MigrationTotals {
    /// Files that were rewritten and added to the logs.
    pub files: u64,
    /// Their rows.
    pub rows: u64,
    /// Files that the logs had from an earlier run.
    pub existing_files: u64,
    /// Files that a compaction of the old layout had superseded: their rows are in others.
    pub superseded_files: u64,
}

/// A manifest of a compaction of the old layout.
#[derive(Debug, Deserialize)]
struct OldManifest {
    inputs: Vec<String>,
    outputs: Vec<String>,
}

/// Adds the files of the old layout to the logs of the model's datasets.
///
/// # Errors
/// `State` for a file that is not Parquet, or that lacks a column of the item's key; `Configuration` for a column of another type than
/// the model's; the bucket's.
pub async fn migrate_datasets<B: Bucket>(
    bucket: B,
    model: &Model,
    clock: &impl Clock,
) -> Result<MigrationTotals> {
    let bucket = Arc::new(bucket);
    let mut totals = MigrationTotals::default();
    for dataset in &model.datasets {
        let log = DeltaTable::new(Arc::clone(&bucket), log_root(dataset));
        let migration = DatasetMigration { dataset, log, fingerprint: fingerprint(model, dataset), clock };
        Box::pin(migration.run(&mut totals)).await.map_err(|error| error.with("dataset", &*dataset.name))?;
    }
    Ok(totals)
}

struct DatasetMigration<'m, B, C> {
    dataset: &'m Dataset,
    log: DeltaTable<Arc<B>>,
    fingerprint: String,
    clock: &'m C,
}

impl<B: Bucket, C: Clock> DatasetMigration<'_, B, C> {
    async fn run(&self, totals: &mut MigrationTotals) -> Result<()> {
        let files = self.old_files(totals).await?;
        for files in files.chunks(FILES_PER_COMMIT) {
            let known = self.log.snapshot().await?;
            let is_known = |(key, day): &&(String, String)| {
                known.known_paths(&exported_prefix(day, key, &self.fingerprint)).next().is_some()
            };
            let missing: Vec<_> = files.iter().filter(|file| !is_known(file)).collect();
            totals.existing_files += u64::try_from(files.len() - missing.len()).unwrap_or(0);
            let rewritten = missing.into_iter().map(|(key, day)| self.rewrite(key, day));
            let added: Vec<LogAddition> =
                stream::iter(rewritten).buffer_unordered(PARALLEL_FILES).try_collect().await?;
            totals.files += u64::try_from(added.len()).unwrap_or(0);
            totals.rows += added.iter().map(|addition| addition.file.rows()).sum::<u64>();
            let deadline = self.clock.now().plus(COMMIT_TIME);
            Box::pin(add_to_log(self.dataset, &self.log, self.clock, deadline, &added)).await?;
        }
        Ok(())
    }

    /// The keys of the old files that are needed, with their days.
    async fn old_files(&self, totals: &mut MigrationTotals) -> Result<Vec<(String, String)>> {
        let root = current_root(self.dataset);
        let bucket = self.log.bucket();
        let listed = bucket.list(&format!("{root}dt=")).await?;
        let keys: BTreeSet<&str> = listed.iter().map(|object| &*object.key).collect();
        let mut superseded = BTreeSet::new();
        for object in bucket.list(&format!("compactions/{}/", self.dataset.name)).await? {
            if !object.key.ends_with(".json") {
                continue;
            }
            let Some(manifest) = read_object(bucket, &object.key).await? else { continue };
            let manifest: OldManifest = serde_json::from_slice(&manifest).map_err(|error| {
                Error::new(ErrorKind::State, "cannot read a manifest of the old layout")
                    .with("object", &*object.key)
                    .hint("Remove it: the files that it names are then migrated twice, which is harmless")
                    .caused_by(error)
            })?;
            if manifest.outputs.iter().all(|output| keys.contains(&**output)) {
                superseded.extend(manifest.inputs);
            }
        }
        let mut files = Vec::new();
        for key in keys {
            let Some(path) = key.strip_prefix(&root).filter(|path| !is_current_path(path)) else { continue };
            let Some((day, name)) = path.strip_prefix("dt=").and_then(|path| path.split_once('/')) else {
                continue;
            };
            if superseded.contains(key) {
                totals.superseded_files += 1;
            } else if name.ends_with(".parquet") {
                files.push((key.to_owned(), partition_day(day).to_owned()));
            }
        }
        Ok(files)
    }

    async fn rewrite(&self, key: &str, day: &str) -> Result<LogAddition> {
        let content = read_object(self.log.bucket(), key).await?;
        let content = content
            .ok_or_else(|| Error::new(ErrorKind::State, "an old file was removed during the migration"))?;
        let schema = arrow_schema(self.dataset);
        let (body, statistics) =
            rewritten(self.dataset, &schema, content).map_err(|error| error.with("object", key))?;
        let (fingerprint, day) = (&*self.fingerprint, day.to_owned());
        let upload = FileUpload { log: &self.log, clock: self.clock, source_key: key, fingerprint, day };
        let (file, _) = Box::pin(upload.upload(body, statistics, &schema)).await?;
        Ok(LogAddition { dataset: 0, prefix: upload.prefix(), file })
    }
}

/// The day of a folder's name. Other tools write folders without a day: their rows have no usable time.
fn partition_day(name: &str) -> &str {
    if name.len() == NO_DAY.len() && Timestamp::parse(name).is_some() { name } else { NO_DAY }
}

/// A file with the columns of this schema.
fn rewritten(dataset: &Dataset, schema: &SchemaRef, file: Bytes) -> Result<(Bytes, FileStatistics)> {
    let unreadable = |error: Box<dyn std::error::Error + Send + Sync>| {
        Error::new(ErrorKind::State, "cannot rewrite a file of the old layout").caused_by(error)
    };
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).map_err(|error| unreadable(error.into()))?;
    let sources = column_sources(dataset, schema, reader.schema())?;
    let mut writer = ArrowWriter::try_new(Vec::new(), Arc::clone(schema), Some(writer_properties().build()))
        .map_err(|error| unreadable(error.into()))?;
    for batch in reader.build().map_err(|error| unreadable(error.into()))? {
        let batch = batch.map_err(|error| unreadable(error.into()))?;
        let columns = sources.iter().zip(schema.fields()).map(|(source, field)| -> ArrayRef {
            let column = source.and_then(|at| batch.columns().get(at).cloned());
            column.unwrap_or_else(|| new_null_array(field.data_type(), batch.num_rows()))
        });
        let batch = RecordBatch::try_new(Arc::clone(schema), columns.collect());
        writer
            .write(&batch.map_err(|error| unreadable(error.into()))?)
            .map_err(|error| unreadable(error.into()))?;
    }
    let metadata = writer.finish().map_err(|error| unreadable(error.into()))?;
    let statistics = FileStatistics::of(&metadata, schema);
    Ok((std::mem::take(writer.inner_mut()).into(), statistics))
}

/// For each column of the schema, where the old file has it; `None` if the file lacks it.
fn column_sources(dataset: &Dataset, schema: &Schema, old: &Schema) -> Result<Vec<Option<usize>>> {
    let mut sources = Vec::with_capacity(schema.fields().len());
    for (at, field) in schema.fields().iter().enumerate() {
        let source = if dataset.key.contains(&at) {
            Some(key_source(dataset, at, old).ok_or_else(|| {
                Error::new(ErrorKind::State, "a file of the old layout lacks a variable of the item's key")
                    .with("column", field.name())
                    .hint("Remove the file, and export its part of the archive again")
            })?)
        } else {
            old.index_of(field.name()).ok()
        };
        let old_type = source.map(|source| old.field(source).data_type());
        if old_type.is_some_and(|old_type| old_type != field.data_type()) {
            return Err(Error::new(
                ErrorKind::Configuration,
                "a column has another type in an old file than in the model",
            )
            .with("column", field.name())
            .hint("Give the column a new name in the model"));
        }
        sources.push(source);
    }
    Ok(sources)
}

/// Where an old file has a variable of the key: in its own column, or in one that shows it.
fn key_source(dataset: &Dataset, key_column: usize, old: &Schema) -> Option<usize> {
    let key = dataset.columns.get(key_column)?;
    let shown = dataset.columns.iter().filter(|column| column.from == key.from);
    let names = std::iter::once(key).chain(shown).map(|column| &*column.name);
    let mut places = names.filter_map(|name| old.index_of(name).ok());
    places.find(|at| *old.field(*at).data_type() == DataType::Utf8)
}

#[cfg(test)]
mod tests;
