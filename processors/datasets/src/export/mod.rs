//! One archive object → a Parquet file for each dataset and day that its lines change.
//!
//! ```text
//! archive/…gz ─▶ lines    unpacked as it arrives, cut into blocks of whole lines
//!             ─▶ object   each line decoded; its rows appended to the columns of their partitions
//!             ─▶ partition, column     Arrow arrays ─▶ Parquet in memory
//!             ─▶ datasets/<name>/dt=<day>/<hash of the object's key>-<fingerprint of model and schema>.parquet
//! ```
//!
//! The file's key follows from the object's, and it is written only if there is none (`If-None-Match: *`): to export an object again
//! changes nothing. A change that is there twice is exported once. A line that is no change of the model's tables is put under
//! `rejected/` with its number and the reason, and keeps no other from being exported. An object that cannot be read to its end, or
//! that holds changes of unknown tables alone, fails as a whole, before anything is written.

mod column;
pub mod event;
pub mod function;
mod json;
mod lines;
mod object;
mod partition;

pub use json::plain_json;

use std::sync::Arc;

use afterwrite::commit::RememberedLookups;
use afterwrite::sink::Bucket;
use afterwrite::sink::Tables;
use afterwrite::table::Model;
use afterwrite::{Error, ErrorKind, Result};
use arrow_schema::SchemaRef;
use futures::TryStreamExt as _;
use sha2::{Digest as _, Sha256};

use self::lines::Lines;
use self::object::ObjectExport;
use crate::schema::{fingerprint, hex, schema};

/// Where the archive's objects begin.
const ARCHIVE: &str = "archive/";

const STAGED_BYTES: usize = 32 * 1024 * 1024;

/// Exports the archive of a bucket.
#[derive(Debug)]
pub struct Exporter<B, T> {
    model: Arc<Model>,
    /// Where each of the model's tables lives.
    tables: Vec<Arc<str>>,
    bucket: B,
    /// What lookups have given, if the state table is known.
    remembered: Option<RememberedLookups<T>>,
    /// For each dataset, its schema and the fingerprint.
    shapes: Vec<(SchemaRef, String)>,
    staged_bytes: usize,
}

/// What became of one object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Objects that are none of the archive's, and were left alone: 0 or 1.
    pub foreign: usize,
    /// Lines that were read.
    pub lines: usize,
    /// Rows that were made of them.
    pub rows: usize,
    /// Changes that were there before in the same object.
    pub duplicates: usize,
    /// Changes of items that match no entity.
    pub unmatched: usize,
    /// Lines that are no changes; they are under `rejected/`.
    pub rejected: usize,
    /// Rows with values that fit no column; they are in `_rescued`.
    pub rescued: usize,
    /// Files that were written.
    pub files: usize,
    /// Files that were there from an earlier export.
    pub files_there: usize,
    /// Bytes of the files that were written.
    pub file_bytes: usize,
}

impl<B: Bucket, T: Tables> Exporter<B, T> {
    /// `tables` says where each of [`Model::tables`] lives. Without `remembered`, columns of what lookups give are null.
    #[must_use]
    pub fn new(
        model: Arc<Model>,
        tables: Vec<Arc<str>>,
        bucket: B,
        remembered: Option<RememberedLookups<T>>,
    ) -> Self {
        let shape = |dataset| (schema(dataset), fingerprint(&model, dataset));
        let shapes = model.datasets.iter().map(shape).collect();
        Self { model, tables, bucket, remembered, shapes, staged_bytes: STAGED_BYTES }
    }

    /// With about so many bytes of rows staged before they are encoded, for all partitions of an object together; 32 MiB, if nothing is
    /// said, and at most 1 GiB, because a column of an Arrow batch holds no more than 2. Each time ends a row group of every partition:
    /// less takes less memory, and makes smaller row groups.
    #[must_use]
    pub fn staging(self, bytes: usize) -> Self {
        Self { staged_bytes: bytes.min(1 << 30), ..self }
    }

    /// The model.
    #[must_use]
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// Exports one object. An object outside `archive/` is left alone.
    ///
    /// # Errors
    /// [`ErrorKind::Rejected`] if it cannot be read to its end, or is none of this model's archive; then nothing of it was written. Else as
    /// [`Bucket`] and [`Tables::read`]: some files may be written, and exporting it again writes the rest.
    pub async fn export(&self, key: &str) -> Result<Tally> {
        if !key.starts_with(ARCHIVE) {
            return Ok(Tally { foreign: 1, ..Tally::default() });
        }
        let exported = self.export_archived(key).await;
        exported.map_err(|error| error.with("object", key))
    }

    async fn export_archived(&self, key: &str) -> Result<Tally> {
        let chunks = self.bucket.get(key).await?;
        let mut chunks = chunks.ok_or_else(|| {
            Error::new(ErrorKind::Rejected, "the archive object is not there any more")
                .hint("If it was removed on purpose, nothing is to be done; else write it again")
        })?;
        let mut lines = Lines::new();
        let mut export = ObjectExport::new(self);
        let mut is_last = false;
        while !is_last {
            let chunk = chunks.try_next().await?;
            is_last = chunk.is_none();
            lines.push(chunk);
            while let Some(block) = lines.next_block()? {
                export.block(block).await?;
            }
        }
        export.finish(key).await
    }

    #[expect(clippy::indexing_slicing, reason = "there is a shape for each of the model's datasets")]
    fn schema(&self, dataset: usize) -> &SchemaRef {
        &self.shapes[dataset].0
    }

    fn file_key(&self, dataset: usize, day: &str, object: &str) -> String {
        let name = self.model.datasets.get(dataset).map_or("?", |dataset| &*dataset.name);
        let fingerprint = self.shapes.get(dataset).map_or("", |(_, fingerprint)| fingerprint);
        let hash = hex(&Sha256::digest(object), 16);
        format!("datasets/{name}/dt={day}/{hash}-{fingerprint}.parquet")
    }
}

/// Where the bad lines of an archive object go.
fn rejected_key(object: &str) -> String {
    format!("rejected/{}.jsonl", object.strip_prefix(ARCHIVE).unwrap_or(object))
}

#[cfg(test)]
mod tests;
