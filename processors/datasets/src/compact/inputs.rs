//! The inputs of a compaction: files fetched to temporary files, and the union of their columns.

use std::fs::File;
use std::io::Write as _;
use std::sync::Arc;

use afterwrite::sink::{Bucket, ListedObject};
use afterwrite::table::Dataset;
use afterwrite::{Error, ErrorKind, Result};
use arrow_array::{RecordBatch, RecordBatchOptions, new_null_array};
use arrow_schema::{ArrowError, Field, FieldRef, Fields, Schema, SchemaRef};
use futures::TryStreamExt as _;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder,
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
        let (known, mut others) = (arrow_schema(dataset), Vec::new());
        let (mut files, mut left_alone) = (Vec::with_capacity(listed.len()), 0);
        for ListedObject { key, .. } in listed {
            let Some((file, bytes)) = download(bucket, key).await? else { return Ok(None) };
            // The embedded Arrow schema has types that Parquet's own do not distinguish.
            let fits = ArrowReaderMetadata::load(&file, ArrowReaderOptions::new())
                .map_err(|_| "it is not Parquet")
                .and_then(|metadata| {
                    add_columns(dataset, &known, &mut others, metadata.schema()).map(|()| metadata)
                });
            match fits {
                Ok(metadata) => files.push(InputFile { key: key.clone(), bytes, file, metadata }),
                Err(reason) => {
                    left_alone += 1;
                    tracing::warn!(object = key, reason, "a file was left alone");
                }
            }
        }
        // The schema does not depend on the order of the files.
        others.sort_by(|one, other| one.name().cmp(other.name()));
        let fields: Fields = known.fields().iter().cloned().chain(others).collect();
        Ok(Some(Self { files, schema: Arc::new(Schema::new(fields)), left_alone }))
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

/// Adds the new columns of a file to `others`, or returns why the file does not fit.
fn add_columns(
    dataset: &Dataset,
    known: &Schema,
    others: &mut Vec<FieldRef>,
    file: &Schema,
) -> Result<(), &'static str> {
    let key = dataset.key.iter().filter_map(|at| dataset.columns.get(*at)).map(|column| &*column.name);
    if key.chain([POSITION, OPERATION, CHANGED_AT]).any(|name| file.index_of(name).is_err()) {
        return Err("it lacks a column that identifies its rows");
    }
    let mut new = Vec::new();
    for (at, field) in file.fields().iter().enumerate() {
        let mut expected = known.fields().iter().chain(&*others);
        match expected.find(|expected| expected.name() == field.name()) {
            Some(expected) if expected.data_type() != field.data_type() => {
                return Err("a column has another type");
            }
            Some(expected) if field.is_nullable() && !expected.is_nullable() => {
                return Err("a column is nullable that must not be");
            }
            Some(_) => {}
            None if file.index_of(field.name()).ok() != Some(at) => return Err("it has a column twice"),
            None => new.push(Arc::new(Field::new(field.name(), field.data_type().clone(), true))),
        }
    }
    others.append(&mut new);
    Ok(())
}

impl InputFile {
    /// Reads its rows, with the columns of this schema: those that the file lacks are null.
    pub(super) fn batches(&self, schema: &SchemaRef) -> Result<impl Iterator<Item = Result<RecordBatch>>> {
        let file = self.file.try_clone().map_err(temporary_file_error)?;
        let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(file, self.metadata.clone())
            .with_batch_size(batch_rows(self.metadata.metadata()))
            .build()
            .map_err(|error| unreadable(&self.key, error))?;
        let places = schema.fields().iter().map(|field| self.metadata.schema().index_of(field.name()).ok());
        let places: Vec<Option<usize>> = places.collect();
        Ok(reader.map(move |batch| {
            let batch = batch.and_then(|batch| complete_batch(&batch, schema, &places));
            batch.map_err(|error| unreadable(&self.key, error))
        }))
    }
}

/// A batch with the columns of the schema, each from its place in `batch`, or null.
fn complete_batch(
    batch: &RecordBatch,
    schema: &SchemaRef,
    places: &[Option<usize>],
) -> Result<RecordBatch, ArrowError> {
    let columns = places.iter().zip(schema.fields()).map(|(place, field)| {
        let column = place.and_then(|place| batch.columns().get(place).cloned());
        column.unwrap_or_else(|| new_null_array(field.data_type(), batch.num_rows()))
    });
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns.collect(), &options)
}

fn unreadable(key: &str, cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::new(ErrorKind::State, "cannot read a file of a dataset")
        .with("object", key)
        .hint("Remove it and export its part of the archive again")
        .caused_by(cause)
}

/// How many rows of a file are read at once: usually a few MiB of them, and never so many that the texts of a column could exceed
/// the maximum of one Arrow array (2 GiB): an item has up to 400 KB.
fn batch_rows(metadata: &ParquetMetaData) -> usize {
    let columns = metadata.row_groups().iter().flat_map(|group| group.columns());
    let bytes: i64 = columns
        // The uncompressed size of a column with a dictionary counts each distinct text once.
        .map(|column| column.uncompressed_size().max(column.unencoded_byte_array_data_bytes().unwrap_or(0)))
        .sum();
    let rows = u64::try_from(metadata.file_metadata().num_rows()).unwrap_or(0);
    rows_per_batch(BATCH_BYTES, u64::try_from(bytes).unwrap_or(0), rows)
}
