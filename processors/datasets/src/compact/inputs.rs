//! The inputs of a compaction: files fetched to temporary files, and the union of their columns.

use std::fs::File;
use std::io::Write as _;
use std::sync::Arc;

use afterwrite::sink::{Bucket, ListedObject};
use afterwrite::table::Dataset;
use afterwrite::{Error, ErrorKind, Result};
use arrow_array::{RecordBatch, RecordBatchOptions, new_null_array};
use arrow_schema::{ArrowError, Field, Schema, SchemaRef};
use futures::TryStreamExt as _;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use parquet::file::metadata::ParquetMetaData;

use super::batches::{BATCH_BYTES, rows_per_batch};
use super::temporary::{temporary_file, temporary_file_error};
use super::totals::count;
use crate::schema::{CHANGED_AT, OPERATION, POSITION, arrow_schema};

/// Files that can be compacted together.
pub(super) struct CompactionInputs {
    pub(super) files: Vec<InputFile>,
    /// The columns of the dataset, then the other columns of the files.
    pub(super) schema: SchemaRef,
    /// How many files were left alone because they do not fit.
    pub(super) left_alone: usize,
}

/// A fetched file.
pub(super) struct InputFile {
    pub(super) key: String,
    pub(super) bytes: u64,
    file: File,
    metadata: ArrowReaderMetadata,
}

impl CompactionInputs {
    /// Fetches files; `None` if one has gone since it was listed: it has been superseded and removed.
    pub(super) async fn fetch<B: Bucket>(
        bucket: &B,
        dataset: &Dataset,
        listed: &[ListedObject],
    ) -> Result<Option<Self>> {
        let mut columns = InputColumns::new(dataset);
        let (mut files, mut left_alone) = (Vec::with_capacity(listed.len()), 0);
        for ListedObject { key, .. } in listed {
            let Some((file, bytes)) = download(bucket, key).await? else { return Ok(None) };
            // The embedded Arrow schema has types that Parquet's own do not distinguish.
            let fits = ArrowReaderMetadata::load(&file, ArrowReaderOptions::new())
                .map_err(|_| "it is not Parquet")
                .and_then(|metadata| columns.add_file(metadata.schema()).map(|()| metadata));
            match fits {
                Ok(metadata) => files.push(InputFile { key: key.clone(), bytes, file, metadata }),
                Err(reason) => {
                    left_alone += 1;
                    tracing::warn!(object = key, reason, "a file was left alone");
                }
            }
        }
        Ok(Some(Self { files, schema: columns.into_schema(), left_alone }))
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(|input| &*input.key)
    }
}

/// Downloads an object to a temporary file. Returns the file and its size; `None` if there is no such object.
async fn download<B: Bucket>(bucket: &B, key: &str) -> Result<Option<(File, u64)>> {
    let Some(mut chunks) = bucket.get(key).await? else { return Ok(None) };
    let (mut file, mut bytes) = (temporary_file()?, 0);
    while let Some(chunk) = chunks.try_next().await? {
        file.write_all(&chunk).map_err(temporary_file_error)?;
        bytes += count(chunk.len());
    }
    Ok(Some((file, bytes)))
}

/// The union of the files' columns.
struct InputColumns {
    /// The columns of the dataset.
    known: SchemaRef,
    /// The names of those that a file must have.
    required: Vec<String>,
    /// Columns that the model does not have, or no longer has.
    others: Vec<Field>,
}

impl InputColumns {
    fn new(dataset: &Dataset) -> Self {
        let key = dataset.key.iter().filter_map(|at| dataset.columns.get(*at));
        let key = key.map(|column| column.name.to_string());
        let required = key.chain([POSITION, OPERATION, CHANGED_AT].map(str::to_owned)).collect();
        Self { known: arrow_schema(dataset), required, others: Vec::new() }
    }

    /// Adds the columns of a file, or returns why the file does not fit.
    fn add_file(&mut self, file: &Schema) -> Result<(), &'static str> {
        if self.required.iter().any(|name| file.index_of(name).is_err()) {
            return Err("it lacks a column that identifies its rows");
        }
        let mut new = Vec::new();
        for (at, field) in file.fields().iter().enumerate() {
            let known = self.known.field_with_name(field.name()).ok();
            let known = known.or_else(|| self.others.iter().find(|other| other.name() == field.name()));
            match known {
                Some(known) if known.data_type() != field.data_type() => {
                    return Err("a column has another type");
                }
                Some(known) if field.is_nullable() && !known.is_nullable() => {
                    return Err("a column is nullable that must not be");
                }
                Some(_) => {}
                None if file.index_of(field.name()).ok() != Some(at) => return Err("it has a column twice"),
                None => new.push(Field::new(field.name(), field.data_type().clone(), true)),
            }
        }
        self.others.append(&mut new);
        Ok(())
    }

    fn into_schema(mut self) -> SchemaRef {
        // The schema does not depend on the order of the files.
        self.others.sort_by(|one, other| one.name().cmp(other.name()));
        let known = self.known.fields().iter().cloned();
        Arc::new(Schema::new(known.chain(self.others.into_iter().map(Arc::new)).collect::<Vec<_>>()))
    }
}

impl InputFile {
    /// Reads its rows, with the columns of this schema.
    pub(super) fn batches(&self, schema: &SchemaRef) -> Result<InputBatches<'_>> {
        let file = self.file.try_clone().map_err(temporary_file_error)?;
        let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(file, self.metadata.clone())
            .with_batch_size(batch_rows(self.metadata.metadata()))
            .build()
            .map_err(|error| unreadable(&self.key, error))?;
        let places = schema.fields().iter().map(|field| self.metadata.schema().index_of(field.name()).ok());
        Ok(InputBatches { key: &self.key, reader, places: places.collect(), schema: Arc::clone(schema) })
    }
}

fn unreadable(key: &str, cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::new(ErrorKind::State, "cannot read a file of a dataset")
        .with("object", key)
        .hint("Remove it and export its part of the archive again")
        .caused_by(cause)
}

/// How many rows of a file are read at once: usually a few MiB of them, and never so many that the texts of a column could exceed the
/// maximum of one Arrow array (2 GiB): an item has up to 400 KB.
fn batch_rows(metadata: &ParquetMetaData) -> usize {
    let columns = metadata.row_groups().iter().flat_map(|group| group.columns());
    let bytes: i64 = columns
        // The uncompressed size of a dictionary column does not show how long the texts are that the dictionary stands for.
        .map(|column| column.uncompressed_size().max(column.unencoded_byte_array_data_bytes().unwrap_or(0)))
        .sum();
    let rows = u64::try_from(metadata.file_metadata().num_rows()).unwrap_or(0);
    rows_per_batch(BATCH_BYTES, u64::try_from(bytes).unwrap_or(0), rows)
}

/// The rows of a file, batch by batch.
pub(super) struct InputBatches<'i> {
    key: &'i str,
    reader: ParquetRecordBatchReader,
    /// For each column of the schema, its index in the file.
    places: Vec<Option<usize>>,
    schema: SchemaRef,
}

impl InputBatches<'_> {
    /// A batch with the columns of the schema; those that the file lacks are null.
    fn complete(&self, batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
        let columns = self.places.iter().zip(self.schema.fields()).map(|(place, field)| {
            let column = place.and_then(|place| batch.columns().get(place).cloned());
            column.unwrap_or_else(|| new_null_array(field.data_type(), batch.num_rows()))
        });
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns.collect(), &options)
    }
}

impl Iterator for InputBatches<'_> {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.reader.next()?.and_then(|batch| self.complete(&batch));
        Some(batch.map_err(|error| unreadable(self.key, error)))
    }
}
