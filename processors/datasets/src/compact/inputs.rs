//! The inputs of a compaction: files fetched to the work folder, and the union of their columns. A file may be of any writer of Delta
//! tables: [`super::columns`] has the types that others write.

use std::io::Write as _;
use std::sync::Arc;

use afterwrite_model::table::Dataset;
use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_services::Bucket;
use arrow_array::{RecordBatch, RecordBatchOptions, new_null_array};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ParquetRecordBatchReaderBuilder};
use parquet::file::metadata::ParquetMetaData;

use super::batches::{BATCH_BYTES, rows_per_batch};
use super::columns::{is_readable_as, read_as, reader_metadata, table_type};
use super::temporary::{WorkFile, WorkFolder, temporary_file_error};
use crate::delta::{DataFile, DeltaTable, PARTITION};
use crate::schema::{CHANGED_AT, OPERATION, POSITION, arrow_schema};

/// How many files are fetched at once.
const PARALLEL_DOWNLOADS: usize = 8;

/// The hint about a file that is missing or damaged. The archive lacks rows of backfills: no hint may cost the table.
const RESTORE: &str = "Restore the object from a version of the bucket or from a backup. Keep the table: the archive does not have the rows \
                       that a backfill wrote (SNAPSHOT)";

/// A file of the log, fetched.
pub(super) struct InputFile {
    /// Its path in the log, or its name in the work folder.
    pub(super) path: String,
    pub(super) bytes: u64,
    file: WorkFile,
    metadata: ArrowReaderMetadata,
}

/// Fetches files of the log.
pub(super) async fn fetch_inputs<B: Bucket>(
    log: &DeltaTable<B>,
    files: &[Arc<DataFile>],
    folder: &WorkFolder,
) -> Result<Vec<InputFile>> {
    let downloads = files.iter().map(|file| download(log, file, folder));
    stream::iter(downloads).buffered(PARALLEL_DOWNLOADS).try_collect().await
}

async fn download<B: Bucket>(log: &DeltaTable<B>, file: &DataFile, folder: &WorkFolder) -> Result<InputFile> {
    let key = file.object_key(log.root());
    let chunks = log.bucket().get(&key).await?;
    let mut chunks = chunks.ok_or_else(|| {
        Error::new(ErrorKind::State, "a file of a table does not exist").with("object", &*key).hint(RESTORE)
    })?;
    let fetched = folder.new_file();
    let mut content = fetched.create()?;
    while let Some(chunk) = chunks.try_next().await? {
        content.write_all(&chunk).map_err(temporary_file_error)?;
    }
    drop(content);
    InputFile::open(file.path.clone(), fetched)
}

/// The columns of the dataset, then the other columns of the files. They do not depend on the order of the files.
pub(super) fn common_schema(dataset: &Dataset, files: &[InputFile]) -> Result<SchemaRef> {
    let (known, mut others) = (arrow_schema(dataset), Vec::new());
    for file in files {
        add_columns(dataset, &known, &mut others, file.metadata.schema())
            .map_err(|reason| unreadable(&file.path, reason))?;
    }
    others.sort_by(|one, other| one.name().cmp(other.name()));
    let fields: Fields = known.fields().iter().cloned().chain(others).collect();
    Ok(Arc::new(Schema::new(fields)))
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
            Some(expected) if !is_readable_as(field.data_type(), expected.data_type()) => {
                return Err("a column has another type");
            }
            Some(_) => {}
            None if file.index_of(field.name()).ok() != Some(at) => return Err("it has a column twice"),
            // The path has the partition: other writers may repeat it in the file. A column without a type has no value.
            None if field.name() == PARTITION || *field.data_type() == DataType::Null => {}
            None => new.push(Arc::new(Field::new(field.name(), table_type(field.data_type()), true))),
        }
    }
    others.append(&mut new);
    Ok(())
}

impl InputFile {
    /// A file of the work folder.
    pub(super) fn open(path: String, file: WorkFile) -> Result<Self> {
        let opened = file.open()?;
        let bytes = opened.metadata().map_err(temporary_file_error)?.len();
        let metadata = reader_metadata(&opened).map_err(|error| unreadable(&path, error))?;
        Ok(Self { path, bytes, file, metadata })
    }

    /// Reads its rows, with the columns of this schema. Columns that the file lacks are null.
    pub(super) fn batches(&self, schema: &SchemaRef) -> Result<impl Iterator<Item = Result<RecordBatch>>> {
        let file = self.file.open()?;
        let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(file, self.metadata.clone())
            .with_batch_size(batch_rows(self.metadata.metadata()))
            .build()
            .map_err(|error| unreadable(&self.path, error))?;
        let places = schema.fields().iter().map(|field| self.metadata.schema().index_of(field.name()).ok());
        let places: Vec<Option<usize>> = places.collect();
        Ok(reader.map(move |batch| {
            let batch = batch.and_then(|batch| complete_batch(&batch, schema, &places));
            batch.map_err(|error| unreadable(&self.path, error))
        }))
    }
}

/// A batch with the columns of the schema, each from its place in `batch`, or null. A null where the schema has none is an error.
fn complete_batch(
    batch: &RecordBatch,
    schema: &SchemaRef,
    places: &[Option<usize>],
) -> Result<RecordBatch, ArrowError> {
    let columns = places.iter().zip(schema.fields()).map(|(place, field)| {
        let column = place.and_then(|place| batch.columns().get(place));
        column.map_or_else(
            || Ok(new_null_array(field.data_type(), batch.num_rows())),
            |column| read_as(column, field.data_type()),
        )
    });
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
}

fn unreadable(path: &str, cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::new(ErrorKind::State, "cannot read a file of a dataset")
        .with("file", path)
        .hint(RESTORE)
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
