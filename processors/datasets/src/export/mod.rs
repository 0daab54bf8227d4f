//! Exporting: archive objects → a Parquet file for each dataset and day that their lines change, and one commit for each dataset.
//!
//! ```text
//! archive/…gz ─▶ lines    decompressed as it arrives, cut into blocks of whole lines
//!             ─▶ object   each line decoded; its rows appended to the columns of their partitions
//!             ─▶ row_builder, column   the rows of a partition as Arrow arrays, one for each column
//!             ─▶ partition_writer      Arrow arrays ─▶ Parquet in memory
//!             ─▶ upload   datasets/<name>_log/dt=<day>/<hash of the object's key and content>-<fingerprint of model and schema>.parquet
//! items read  ─▶ snapshot  rows of a backfill, through the same writers and uploads
//! all objects ─▶ commit   one version of each dataset's log adds the files of all objects; then a mark for each object
//! ```
//!
//! # Why exporting an object again changes nothing
//!
//! The file's path is derived from the object's key, its content and the schema, and the file is only written if it does not exist
//! (`If-None-Match: *`). The commit adds a path only if the version before it neither has it nor remembers its removal: the log
//! remembers a file that the compactor has packed for the retention. After that, a duplicate adds copies of rows to the log, which
//! readers and the compactor drop, because a row is identified by its item's key and its position.
//!
//! An exporter may stop after any request. Before the commit its files are in no version of a table: the next attempt uses them, or a
//! vacuum removes them. After the commit only the marks are missing: they save `afterwrite export --missing` work, nothing else.
//!
//! Duplicates of a change within an object are exported once. A line that is not a change record of the model's tables is written to
//! `rejected/` with its number and the reason; the other lines are exported. An object that cannot be read to its end, or that has only
//! changes of unknown tables, fails as a whole, before anything is written.

mod column;
pub(crate) mod commit;
pub mod event;
pub mod expected;
pub mod function;
mod lines;
pub mod missing;
mod object;
mod partition_writer;
pub mod preview;
mod rejected_line;
pub mod removal;
mod row_builder;
pub mod snapshot;
mod source;
mod upload;

use std::sync::Arc;

use afterwrite_ledger::RememberedLookups;
use afterwrite_ledger::tables::Tables;
use afterwrite_model::clock::{Clock, within};
use afterwrite_model::record::Timestamp;
use afterwrite_model::table::Model;
use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_services::Bucket;
use futures::TryStreamExt as _;
use sha2::{Digest as _, Sha256};

use self::commit::{LogAddition, commit_objects};
use self::lines::LineBlocks;
pub use self::object::ExportTotals;
use self::object::ObjectExport;
use self::source::RowSource;
use self::upload::upload_files;
use crate::delta::DeltaTable;
use crate::heartbeat::store_exported;
use crate::paths::{ARCHIVE, export_mark, log_root, rejected_lines};
use crate::schema::model_fingerprint;
use afterwrite_model::hex;

/// How many bytes of rows are staged before they are encoded, for all partitions of an object together. Encoding ends a row group
/// of every partition, so a smaller value takes less memory and makes smaller row groups. A column of an Arrow batch holds at
/// most 2 GiB.
const STAGED_BYTES: usize = 32 * 1024 * 1024;

/// Exports the archive of a bucket.
#[derive(Debug)]
pub struct ArchiveExporter<B, T, C> {
    model: Arc<Model>,
    /// The name of each of the model's tables in the account.
    tables: Vec<Arc<str>>,
    bucket: Arc<B>,
    /// The table of each dataset's changes.
    logs: Vec<DeltaTable<Arc<B>>>,
    /// The remembered lookups, if the state table is configured.
    remembered: Option<RememberedLookups<T>>,
    clock: C,
    fingerprint: String,
    staged_bytes: usize,
}

/// An object whose files are uploaded and not committed.
#[derive(Debug)]
struct UploadedObject {
    totals: ExportTotals,
    files: Vec<LogAddition>,
}

impl<B: Bucket, T: Tables, C: Clock> ArchiveExporter<B, T, C> {
    /// `tables` has the name of each of [`Model::tables`] in the account. Without `remembered`, columns of lookups are null.
    #[must_use]
    pub fn new(
        model: Arc<Model>,
        tables: Vec<Arc<str>>,
        bucket: B,
        remembered: Option<RememberedLookups<T>>,
        clock: C,
    ) -> Self {
        let bucket = Arc::new(bucket);
        let table = |dataset| DeltaTable::new(Arc::clone(&bucket), log_root(dataset));
        Self {
            logs: model.datasets.iter().map(table).collect(),
            fingerprint: model_fingerprint(&model),
            model,
            tables,
            bucket,
            remembered,
            clock,
            staged_bytes: STAGED_BYTES,
        }
    }

    /// The model.
    #[must_use]
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// The name of each of the model's tables in the account.
    #[must_use]
    pub fn tables(&self) -> &[Arc<str>] {
        &self.tables
    }

    /// The remembered lookups, if the state table is configured.
    #[must_use]
    pub fn remembered(&self) -> Option<&RememberedLookups<T>> {
        self.remembered.as_ref()
    }

    /// The bucket.
    #[must_use]
    pub fn bucket(&self) -> &Arc<B> {
        &self.bucket
    }

    /// The clock.
    #[must_use]
    pub fn clock(&self) -> &C {
        &self.clock
    }

    /// Exports objects, with one commit for each dataset that they change; one outcome for each key. Objects outside `archive/` are
    /// ignored. Commits that lose a race are tried again until the deadline. The last quarter of the time is left for them: an object that is
    /// not uploaded before it fails, and all other objects are committed.
    ///
    /// # Errors
    /// Of an object: [`ErrorKind::Rejected`] if it cannot be read to its end, or is not of this model's archive; then nothing of it was
    /// written. Otherwise as [`Bucket`], [`Tables::read`] and [`DeltaTable::update`]: exporting the object again completes it.
    pub async fn export(&self, keys: &[String], deadline: Timestamp) -> Vec<Result<ExportTotals>> {
        let mut uploaded = Vec::with_capacity(keys.len());
        let last_upload = last_upload(self.clock.now(), deadline);
        for key in keys {
            let object = within(&self.clock, last_upload, Box::pin(self.upload(key))).await;
            let object = object.unwrap_or_else(|| Err(too_late()));
            uploaded.push(object.map_err(|error| error.with("object", key)));
        }
        Box::pin(commit_objects(&self.model, &self.logs, &self.clock, deadline, &mut uploaded)).await;
        let mut outcomes = Vec::with_capacity(keys.len());
        for (key, object) in keys.iter().zip(uploaded) {
            outcomes.push(match object {
                Ok(object) => self.finish(key, object.totals).await.map(|()| object.totals),
                Err(error) => Err(error),
            });
        }
        outcomes
    }

    /// Marks an object as exported, once its files are committed.
    async fn finish(&self, key: &str, totals: ExportTotals) -> Result<()> {
        self.mark(key).await?;
        match totals.heartbeat_ms.map(Timestamp::from_epoch_ms) {
            Some(written) => store_exported(&*self.bucket, written).await,
            None => Ok(()),
        }
    }

    /// Uploads the files of an object.
    async fn upload(&self, key: &str) -> Result<UploadedObject> {
        if !key.starts_with(ARCHIVE) {
            let totals = ExportTotals { foreign: 1, ..ExportTotals::default() };
            return Ok(UploadedObject { totals, files: Vec::new() });
        }
        let (export, content_hash) = self.read(key).await?;
        let (partitions, rejected, mut totals) = export.finish()?;
        let mut source = RowSource::of_object(key, &content_hash, &rejected);
        if !rejected.is_empty() {
            self.bucket.put(&rejected_lines(key), rejected).await?;
        }
        let upload = upload_files(&self.model, &self.logs, &self.clock, &mut source, partitions, &mut totals);
        let files = Box::pin(upload).await?;
        Ok(UploadedObject { totals, files })
    }

    /// Reads an object to its end; returns a hash of its content, too.
    async fn read(&self, key: &str) -> Result<(ObjectExport<'_, T>, String)> {
        let chunks = self.bucket.get(key).await?;
        let mut chunks = chunks.ok_or_else(|| {
            Error::new(ErrorKind::Rejected, "the archive object does not exist any more")
                .hint("If it was removed on purpose, ignore this; otherwise write it again")
        })?;
        let remembered = self.remembered.as_ref();
        let mut export = ObjectExport::new(&self.model, &self.tables, remembered, self.staged_bytes);
        let mut lines = LineBlocks::new();
        let mut content = Sha256::new();
        let mut is_last = false;
        while !is_last {
            let chunk = chunks.try_next().await?;
            is_last = chunk.is_none();
            content.update(chunk.as_deref().unwrap_or_default());
            lines.push(chunk);
            while let Some(block) = lines.next_block()? {
                export.add_block(block).await?;
            }
        }
        Ok((export, hex(&content.finalize(), 16)))
    }

    /// Marks an object as exported.
    async fn mark(&self, key: &str) -> Result<()> {
        if !key.starts_with(ARCHIVE) {
            return Ok(());
        }
        let marked = self.bucket.put(&export_mark(&self.fingerprint, key), Vec::new()).await;
        marked.map_err(|error| error.with("object", key))
    }
}

/// The end of the time for uploads. The objects that were uploaded before it have time to be committed.
fn last_upload(now: Timestamp, deadline: Timestamp) -> Timestamp {
    now.plus(deadline.since(now) * 3 / 4)
}

fn too_late() -> Error {
    Error::new(ErrorKind::Unavailable, "the object was not exported in the time that was left")
        .hint("It is exported when it is delivered again. If this repeats, raise the function's timeout, or lower the batch size of its queue")
}

#[cfg(test)]
mod tests;
