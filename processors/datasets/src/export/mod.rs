//! Exporting: one archive object → a Parquet file for each dataset and day that its lines change.
//!
//! ```text
//! archive/…gz ─▶ lines    decompressed as it arrives, cut into blocks of whole lines
//!             ─▶ object   each line decoded; its rows appended to the columns of their partitions
//!             ─▶ partition_writer, column      Arrow arrays ─▶ Parquet in memory
//!             ─▶ datasets/<name>/dt=<day>/<hash of the object's key>-<fingerprint of model and schema>.parquet
//! ```
//!
//! The file's key is derived from the object's, and the file is only written if it does not exist (`If-None-Match: *`): exporting
//! an object again changes nothing. Duplicates of a change within an object are exported once. A line that is not a change record
//! of the model's tables is written to `rejected/` with its number and the reason; the other lines are exported. An object that
//! cannot be read to its end, or that has only changes of unknown tables, fails as a whole, before anything is written.

mod column;
mod event;
pub mod function;
mod json;
mod lines;
mod object;
mod partition_writer;

use std::sync::Arc;

use afterwrite::commit::RememberedLookups;
use afterwrite::sink::Tables;
use afterwrite::sink::{Bucket, ObjectBody, PutOutcome};
use afterwrite::table::Model;
use afterwrite::{Error, ErrorKind, Result};
use futures::TryStreamExt as _;

pub use self::json::plain_json;
use self::lines::LineBlocks;
pub use self::object::ExportTotals;
use self::object::ObjectExport;
use crate::paths::{ARCHIVE, DatasetPartition, rejected_lines};
use crate::schema::fingerprint;

/// How many bytes of rows are staged before they are encoded, for all partitions of an object together. Encoding ends a row group
/// of every partition, so a smaller value takes less memory and makes smaller row groups. A column of an Arrow batch holds at
/// most 2 GiB.
const STAGED_BYTES: usize = 32 * 1024 * 1024;

/// Exports the archive of a bucket.
#[derive(Debug)]
pub struct ArchiveExporter<B, T> {
    model: Arc<Model>,
    /// The name of each of the model's tables in the account.
    tables: Vec<Arc<str>>,
    bucket: B,
    /// The remembered lookups, if the state table is configured.
    remembered: Option<RememberedLookups<T>>,
    staged_bytes: usize,
}

impl<B: Bucket, T: Tables> ArchiveExporter<B, T> {
    /// `tables` has the name of each of [`Model::tables`] in the account. Without `remembered`, columns of lookups are null.
    #[must_use]
    pub fn new(
        model: Arc<Model>,
        tables: Vec<Arc<str>>,
        bucket: B,
        remembered: Option<RememberedLookups<T>>,
    ) -> Self {
        Self { model, tables, bucket, remembered, staged_bytes: STAGED_BYTES }
    }

    /// The model.
    #[must_use]
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// Exports one object. An object outside `archive/` is ignored.
    ///
    /// # Errors
    /// [`ErrorKind::Rejected`] if it cannot be read to its end, or is not of this model's archive; then nothing of it was
    /// written. Otherwise as [`Bucket`] and [`Tables::read`]: some files may be written, and exporting the object again writes
    /// the others.
    pub async fn export(&self, key: &str) -> Result<ExportTotals> {
        if !key.starts_with(ARCHIVE) {
            return Ok(ExportTotals { foreign: 1, ..ExportTotals::default() });
        }
        let exported = match self.read(key).await {
            Ok(export) => self.write(key, export).await,
            Err(error) => Err(error),
        };
        exported.map_err(|error| error.with("object", key))
    }

    /// Reads an object to its end.
    async fn read(&self, key: &str) -> Result<ObjectExport<'_, T>> {
        let chunks = self.bucket.get(key).await?;
        let mut chunks = chunks.ok_or_else(|| {
            Error::new(ErrorKind::Rejected, "the archive object does not exist any more")
                .hint("If it was removed on purpose, ignore this; otherwise write it again")
        })?;
        let remembered = self.remembered.as_ref();
        let mut export = ObjectExport::new(&self.model, &self.tables, remembered, self.staged_bytes);
        let mut lines = LineBlocks::new();
        let mut is_last = false;
        while !is_last {
            let chunk = chunks.try_next().await?;
            is_last = chunk.is_none();
            lines.push(chunk);
            while let Some(block) = lines.next_block()? {
                export.add_block(block).await?;
            }
        }
        Ok(export)
    }

    /// Writes the rejected lines and the files of an object.
    async fn write(&self, archive_key: &str, export: ObjectExport<'_, T>) -> Result<ExportTotals> {
        let (partitions, rejected, mut totals) = export.finish()?;
        if !rejected.is_empty() {
            self.bucket.put(&rejected_lines(archive_key), rejected).await?;
        }
        for (dataset, day, writer) in partitions {
            let partition = DatasetPartition { dataset, day };
            let key = partition.exported_file(archive_key, &fingerprint(&self.model, dataset));
            let file = writer.finish()?;
            let bytes = file.len();
            match self.bucket.put_new(&key, ObjectBody::Bytes(file.into())).await? {
                PutOutcome::Written => {
                    totals.files += 1;
                    totals.file_bytes += bytes;
                }
                PutOutcome::AlreadyExists => totals.existing_files += 1,
            }
        }
        Ok(totals)
    }
}

#[cfg(test)]
mod tests;
