//! What is compacted: files fetched to temporary ones, and the columns that they hold together.

use std::fs::File;
use std::io::Write as _;
use std::sync::Arc;

use afterwrite::sink::{Bucket, ListedObject};
use afterwrite::table::Dataset;
use afterwrite::{Error, ErrorKind, Result};
use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow_schema::{Field, Schema, SchemaRef};
use futures::TryStreamExt as _;
use lambda_runtime::tracing;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use parquet::file::metadata::ParquetMetaData;

use crate::schema::{self, CHANGED_AT, OPERATION, POSITION};

/// What came of fetching files.
pub(super) enum Fetched {
    All(Inputs),
    /// One has gone since it was listed: it has been superseded and removed.
    Overtaken,
}

/// Files that can be compacted together.
pub(super) struct Inputs {
    pub(super) files: Vec<Input>,
    /// The model's columns, what every row carries, and what else the files hold.
    pub(super) schema: SchemaRef,
    /// How many files do not fit.
    pub(super) left_alone: usize,
}

/// A fetched file.
pub(super) struct Input {
    pub(super) key: String,
    pub(super) bytes: u64,
    file: File,
    metadata: ArrowReaderMetadata,
}

impl Inputs {
    pub(super) async fn fetch<B: Bucket>(
        bucket: &B,
        dataset: &Dataset,
        listed: &[ListedObject],
    ) -> Result<Fetched> {
        let mut columns = Columns::of(dataset);
        let (mut files, mut left_alone) = (Vec::with_capacity(listed.len()), 0);
        for ListedObject { key, .. } in listed {
            let Some((file, bytes)) = download(bucket, key).await? else { return Ok(Fetched::Overtaken) };
            // The embedded Arrow schema tells what Parquet's own types do not.
            let fits = ArrowReaderMetadata::load(&file, ArrowReaderOptions::new())
                .map_err(|_| "it is no Parquet")
                .and_then(|metadata| columns.admit(metadata.schema()).map(|()| metadata));
            match fits {
                Ok(metadata) => files.push(Input { key: key.clone(), bytes, file, metadata }),
                Err(reason) => {
                    left_alone += 1;
                    tracing::warn!(object = key, reason, "a file was left as it is");
                }
            }
        }
        Ok(Fetched::All(Self { files, schema: columns.schema(), left_alone }))
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(|input| &*input.key)
    }
}

/// An object as a temporary file, and its size; `None` if there is none.
async fn download<B: Bucket>(bucket: &B, key: &str) -> Result<Option<(File, u64)>> {
    let Some(mut chunks) = bucket.get(key).await? else { return Ok(None) };
    let mut file = tempfile::tempfile().map_err(|error| temporary(error.into()))?;
    let mut bytes = 0;
    while let Some(chunk) = chunks.try_next().await? {
        file.write_all(&chunk).map_err(|error| temporary(error.into()))?;
        bytes += super::partition::count(chunk.len());
    }
    Ok(Some((file, bytes)))
}

/// An error of a temporary file.
pub(super) fn temporary(error: Box<dyn std::error::Error + Send + Sync>) -> Error {
    Error::new(ErrorKind::Configuration, "a temporary file could not be written or read")
        .hint("Give the compactor more ephemeral storage, or have it compact less at once")
        .caused_by(error)
}

/// The columns of the files together.
struct Columns {
    /// The model's, and what every row carries.
    own: SchemaRef,
    /// Which of them a file must have.
    needed: Vec<String>,
    /// What the model does not have, or no longer.
    others: Vec<Field>,
}

impl Columns {
    fn of(dataset: &Dataset) -> Self {
        let key = dataset.key.iter().filter_map(|at| dataset.columns.get(*at));
        let needed = key.map(|column| column.name.to_string());
        let needed = needed.chain([POSITION, OPERATION, CHANGED_AT].map(str::to_owned)).collect();
        Self { own: schema::schema(dataset), needed, others: Vec::new() }
    }

    /// Takes in the columns of a file, or says why it does not fit.
    fn admit(&mut self, file: &Schema) -> Result<(), &'static str> {
        if self.needed.iter().any(|name| file.index_of(name).is_err()) {
            return Err("it lacks a column that tells its rows apart");
        }
        let mut new = Vec::new();
        for (at, field) in file.fields().iter().enumerate() {
            let known = self.own.field_with_name(field.name()).ok();
            let known = known.or_else(|| self.others.iter().find(|other| other.name() == field.name()));
            match known {
                Some(known) if known.data_type() != field.data_type() => {
                    return Err("a column has another type");
                }
                Some(known) if field.is_nullable() && !known.is_nullable() => {
                    return Err("a column may be null that never is");
                }
                Some(_) => {}
                None if file.index_of(field.name()).ok() != Some(at) => return Err("it has a column twice"),
                None => new.push(Field::new(field.name(), field.data_type().clone(), true)),
            }
        }
        self.others.append(&mut new);
        Ok(())
    }

    fn schema(mut self) -> SchemaRef {
        // Whichever file came first, the schema is the same.
        self.others.sort_by(|one, other| one.name().cmp(other.name()));
        let own = self.own.fields().iter().cloned();
        Arc::new(Schema::new(own.chain(self.others.into_iter().map(Arc::new)).collect::<Vec<_>>()))
    }
}

impl Input {
    /// Its rows, with the columns of this schema.
    pub(super) fn read(&self, schema: &SchemaRef) -> Result<Batches<'_>> {
        let file = self.file.try_clone().map_err(|error| temporary(error.into()))?;
        let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(file, self.metadata.clone())
            .with_batch_size(batch_rows(self.metadata.metadata()))
            .build()
            .map_err(|error| unreadable(&self.key, error.into()))?;
        let places = schema.fields().iter().map(|field| self.metadata.schema().index_of(field.name()).ok());
        Ok(Batches { key: &self.key, reader, places: places.collect(), schema: Arc::clone(schema) })
    }
}

fn unreadable(key: &str, error: Box<dyn std::error::Error + Send + Sync>) -> Error {
    Error::new(ErrorKind::State, "a file of a dataset cannot be read")
        .with("object", key)
        .hint("Remove it and export its part of the archive again")
        .caused_by(error)
}

/// How many rows of a file are read at once: a few MiB of them as a rule, and never so many that a column's texts could pass
/// what one array holds (2 GiB), an item having up to 400 KB.
fn batch_rows(metadata: &ParquetMetaData) -> usize {
    const BYTES: u64 = 4 * 1024 * 1024;
    let columns = metadata.row_groups().iter().flat_map(|group| group.columns());
    let bytes: i64 = columns
        // A dictionary hides how long the texts are that it stands for.
        .map(|column| column.uncompressed_size().max(column.unencoded_byte_array_data_bytes().unwrap_or(0)))
        .sum();
    let rows = u64::try_from(metadata.file_metadata().num_rows()).unwrap_or(0);
    rows_of(BYTES, u64::try_from(bytes).unwrap_or(0), rows)
}

/// How many rows make a batch of so many bytes, if these rows take these bytes together.
pub(super) fn rows_of(batch_bytes: u64, bytes: u64, rows: u64) -> usize {
    const RANGE: (u64, u64) = (16, 4096);
    let row = (bytes / rows.max(1)).max(1);
    usize::try_from((batch_bytes / row).clamp(RANGE.0, RANGE.1)).unwrap_or(16)
}

/// A file's rows, batch by batch.
pub(super) struct Batches<'i> {
    key: &'i str,
    reader: ParquetRecordBatchReader,
    /// Where each column of the schema lies in the file.
    places: Vec<Option<usize>>,
    schema: SchemaRef,
}

impl Iterator for Batches<'_> {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.reader.next()?.and_then(|batch| {
            let column = |(place, field): (&Option<usize>, &Arc<Field>)| -> ArrayRef {
                let held = place.and_then(|place| batch.columns().get(place).cloned());
                held.unwrap_or_else(|| new_null_array(field.data_type(), batch.num_rows()))
            };
            let columns = self.places.iter().zip(self.schema.fields()).map(column).collect();
            let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
            RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
        });
        Some(batch.map_err(|error| unreadable(self.key, error.into())))
    }
}
