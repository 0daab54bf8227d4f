//! Uploading the files of an object: many at once, and only missing files.
//!
//! A file that exists from an earlier attempt is used as it is. Its size and its statistics are read from it, because its content may
//! differ from the one encoded now: a lookup may have been remembered in between. A file that is so old that a vacuum might remove it
//! before the commit is passed over, and the next number is tried.

use std::sync::Arc;
use std::time::Duration;

use afterwrite_model::clock::Clock;
use afterwrite_model::record::Timestamp;
use afterwrite_model::retry::RetryPolicy;
use afterwrite_model::table::Model;
use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_services::{Bucket, ObjectBody, PutOutcome};
use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use parquet::file::metadata::ParquetMetaDataReader;

use super::ExportTotals;
use super::commit::LogAddition;
use super::object::FinishedPartition;
use super::source::RowSource;
use crate::delta::{DataFile, DeltaTable, FileStatistics, ORPHAN_AGE, TableSnapshot};
use crate::objects::read_object;
use crate::paths::{exported_path, exported_prefix};
use crate::schema::{arrow_schema, fingerprint};

/// How many files are encoded and uploaded at once.
const PARALLEL_UPLOADS: usize = 32;

/// How long a file that another function is writing is waited for.
const CONFLICT_TIME: Duration = Duration::from_secs(10);

/// The age at which a file of an earlier attempt is passed over.
fn usable_age() -> Duration {
    ORPHAN_AGE / 2
}

/// The log of a dataset, as far as an upload needs it.
struct DatasetLog<'l, B> {
    log: &'l DeltaTable<B>,
    fingerprint: String,
    /// Its newest version, once it has been read.
    snapshot: Option<Arc<TableSnapshot>>,
}

impl<B: Bucket> DatasetLog<'_, B> {
    /// Whether the log has, or had, a file with the rows of a source and day.
    async fn knows(&mut self, source: &mut RowSource<'_>, day: &str) -> Result<bool> {
        let Self { log, fingerprint, snapshot } = self;
        let known = match snapshot {
            Some(known) => known,
            None => snapshot.insert(log.snapshot().await?),
        };
        if known.known_paths(&exported_prefix(day, &source.name, fingerprint)).next().is_some() {
            return Ok(true);
        }
        source.has_former_file(log, known, day, fingerprint).await
    }
}

/// Uploads the partitions of an object; returns the files that are not in the logs yet.
pub(super) async fn upload_files<B: Bucket>(
    model: &Model,
    logs: &[DeltaTable<B>],
    clock: &impl Clock,
    source: &mut RowSource<'_>,
    partitions: Vec<FinishedPartition>,
    totals: &mut ExportTotals,
) -> Result<Vec<LogAddition>> {
    let mut missing = Vec::new();
    let log_of =
        |(dataset, log)| DatasetLog { log, fingerprint: fingerprint(model, dataset), snapshot: None };
    let mut logs: Vec<_> = model.datasets.iter().zip(logs).map(log_of).collect();
    for partition in partitions {
        let Some(log) = logs.get_mut(partition.dataset) else { continue };
        if Box::pin(log.knows(source, &partition.day)).await? {
            totals.existing_files += 1;
        } else {
            missing.push(partition);
        }
    }
    let (logs, source_name) = (&logs, &*source.name);
    let uploads = missing.into_iter().filter_map(|partition| {
        let DatasetLog { log, fingerprint, .. } = logs.get(partition.dataset)?;
        let dataset = model.datasets.get(partition.dataset)?;
        let upload = FileUpload { log, clock, source_name, fingerprint, day: partition.day };
        Some(async move {
            let (file, statistics) = partition.writer.finish()?;
            let schema = arrow_schema(dataset);
            let uploaded = Box::pin(upload.upload(file.into(), statistics, &schema)).await?;
            Ok::<_, Error>((partition.dataset, upload.prefix(), uploaded))
        })
    });
    let uploaded: Vec<_> = stream::iter(uploads).buffer_unordered(PARALLEL_UPLOADS).try_collect().await?;
    let files = uploaded.into_iter().map(|(dataset, prefix, (file, outcome))| {
        match outcome {
            PutOutcome::Written => {
                totals.files += 1;
                totals.file_bytes += usize::try_from(file.size).unwrap_or(usize::MAX);
            }
            PutOutcome::AlreadyExists => totals.existing_files += 1,
        }
        LogAddition { dataset, prefix, file }
    });
    Ok(files.collect())
}

/// The upload of one file of a log.
struct FileUpload<'u, B, C> {
    log: &'u DeltaTable<B>,
    clock: &'u C,
    /// The name of the source of the rows.
    source_name: &'u str,
    fingerprint: &'u str,
    day: String,
}

impl<B: Bucket, C: Clock> FileUpload<'_, B, C> {
    /// The beginning of the paths of all files with the same rows.
    fn prefix(&self) -> String {
        exported_prefix(&self.day, self.source_name, self.fingerprint)
    }

    /// Writes the file, or finds the file of an earlier attempt.
    async fn upload(
        &self,
        body: Bytes,
        statistics: FileStatistics,
        schema: &arrow_schema::Schema,
    ) -> Result<(DataFile, PutOutcome)> {
        let mut attempt = 0;
        loop {
            let path = exported_path(&self.day, self.source_name, self.fingerprint, attempt);
            let key = format!("{}{path}", self.log.root());
            let now = self.clock.now();
            if self.write(&key, &body).await? == PutOutcome::Written {
                let size = u64::try_from(body.len()).unwrap_or(u64::MAX);
                let file = self.file(path, size, now, statistics);
                return Ok((file, PutOutcome::Written));
            }
            if let Some(file) = self.existing(path, &key, now, schema).await? {
                return Ok((file, PutOutcome::AlreadyExists));
            }
            attempt += 1;
        }
    }

    /// Writes an object; waits while the same object is being written, which happens if two functions export one archive object.
    async fn write(&self, key: &str, body: &Bytes) -> Result<PutOutcome> {
        let deadline = self.clock.now().plus(CONFLICT_TIME);
        let mut attempt = 0;
        loop {
            attempt += 1;
            match self.log.bucket().put_new(key, ObjectBody::Bytes(body.clone())).await {
                Err(error) if error.kind() == ErrorKind::Conflict => {
                    if !RetryPolicy::STANDARD.wait(attempt, deadline, self.clock).await {
                        return Err(error);
                    }
                }
                outcome => return outcome,
            }
        }
    }

    /// A file of an earlier attempt; `None` if it is too old to be used, or has gone.
    async fn existing(
        &self,
        path: String,
        key: &str,
        now: Timestamp,
        schema: &arrow_schema::Schema,
    ) -> Result<Option<DataFile>> {
        let listed = self.log.bucket().list(key).await?;
        let Some(object) = listed.into_iter().find(|object| object.key == key) else { return Ok(None) };
        if now.since(object.modified) >= usable_age() {
            return Ok(None);
        }
        let Some(content) = read_object(self.log.bucket(), key).await? else { return Ok(None) };
        let size = u64::try_from(content.len()).unwrap_or(u64::MAX);
        let metadata = ParquetMetaDataReader::new().parse_and_finish(&content).map_err(|error| {
            Error::new(ErrorKind::State, "a file of an earlier export cannot be read")
                .with("object", key)
                .hint("Remove it, and export the archive object again")
                .caused_by(error)
        })?;
        Ok(Some(self.file(path, size, object.modified, FileStatistics::of(&metadata, schema))))
    }

    fn file(&self, path: String, size: u64, modified: Timestamp, statistics: FileStatistics) -> DataFile {
        DataFile { path, day: self.day.clone(), size, modified, statistics: Some(statistics) }
    }
}
