//! Writing sorted rows as Parquet files of the target size, each a temporary file until it is whole.

use std::fs::File;

use afterwrite::{Error, ErrorKind, Result};
use arrow_array::RecordBatch;
use arrow_schema::{DataType, SchemaRef};
use parquet::arrow::{ArrowSchemaConverter, ArrowWriter};
use parquet::basic::{Encoding, Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::SortingColumn;
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder};
use parquet::schema::types::SchemaDescriptor;
use tempfile::NamedTempFile;

use super::inputs::temporary;
use super::order::Order;
use super::partition::count;
use crate::schema::{self, POSITION};

/// A row group is closed when it has reached this size, in bytes: until then it is held in memory.
const ROW_GROUP: usize = 64 * 1024 * 1024;

/// Bytes of a text column's different values up to which they are written as a dictionary.
const TEXT_DICTIONARY: usize = 128 * 1024;

/// Files as they are written, one after the other.
pub(super) struct Output {
    schema: SchemaRef,
    properties: WriterProperties,
    target: u64,
    open: Option<(ArrowWriter<File>, NamedTempFile)>,
}

/// A whole file.
pub(super) struct Written {
    pub(super) file: NamedTempFile,
    pub(super) rows: u64,
    pub(super) bytes: u64,
}

impl Output {
    /// Files of rows in this order, each ending soon after it has reached the target size.
    pub(super) fn new(schema: SchemaRef, order: &Order, target: u64) -> Result<Self> {
        let parquet = ArrowSchemaConverter::new().convert(&schema).map_err(unwritten)?;
        let sorting = Some(sorting_columns(&schema, &parquet, order));
        let properties = compact(schema::writer_properties(), &parquet).set_sorting_columns(sorting).build();
        Ok(Self { schema, properties, target, open: None })
    }

    /// Writes rows; gives the file if that has filled it.
    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<Option<Written>> {
        let (mut writer, file) = match self.open.take() {
            Some(open) => open,
            None => self.open()?,
        };
        writer.write(batch).map_err(unwritten)?;
        let size = writer.bytes_written() + writer.in_progress_size();
        if count(size) >= self.target {
            return close(writer, file).map(Some);
        }
        if writer.in_progress_size() >= ROW_GROUP {
            writer.flush().map_err(unwritten)?;
        }
        self.open = Some((writer, file));
        Ok(None)
    }

    /// The last file, if there is one.
    pub(super) fn finish(&mut self) -> Result<Option<Written>> {
        self.open.take().map(|(writer, file)| close(writer, file)).transpose()
    }

    fn open(&self) -> Result<(ArrowWriter<File>, NamedTempFile)> {
        let file = NamedTempFile::new().map_err(|error| temporary(error.into()))?;
        let handle = file.reopen().map_err(|error| temporary(error.into()))?;
        let writer = ArrowWriter::try_new(handle, self.schema.clone(), Some(self.properties.clone()));
        Ok((writer.map_err(unwritten)?, file))
    }
}

fn close(writer: ArrowWriter<File>, file: NamedTempFile) -> Result<Written> {
    let metadata = writer.close().map_err(unwritten)?;
    let rows = u64::try_from(metadata.file_metadata().num_rows()).unwrap_or(0);
    let bytes = file.as_file().metadata().map_err(|error| temporary(error.into()))?.len();
    Ok(Written { file, rows, bytes })
}

fn unwritten(error: ParquetError) -> Error {
    if let ParquetError::External(cause) = error {
        return temporary(cause);
    }
    Error::new(ErrorKind::State, "rows cannot be written as Parquet").caused_by(error)
}

/// Writes values that make no dictionary so that ZSTD finds in them what is alike: whole numbers and times as differences, text
/// after its lengths. Athena (Trino), Spark, DuckDB and Arrow read both. Only here: what the exporter writes
/// is soon compacted.
fn compact(mut properties: WriterPropertiesBuilder, schema: &SchemaDescriptor) -> WriterPropertiesBuilder {
    for column in schema.columns() {
        let path = || column.path().clone();
        properties = match column.physical_type() {
            Type::INT32 | Type::INT64 => {
                properties.set_column_encoding(path(), Encoding::DELTA_BINARY_PACKED)
            }
            Type::BYTE_ARRAY if column.name() != POSITION => properties
                .set_column_encoding(path(), Encoding::DELTA_LENGTH_BYTE_ARRAY)
                .set_column_dictionary_page_size_limit(path(), TEXT_DICTIONARY),
            Type::BYTE_ARRAY
            | Type::BOOLEAN
            | Type::INT96
            | Type::FLOAT
            | Type::DOUBLE
            | Type::FIXED_LEN_BYTE_ARRAY => properties,
        };
    }
    properties
}

/// The order as Parquet's footer tells it, as far as Parquet and we compare alike: floats have no agreed order.
fn sorting_columns(schema: &SchemaRef, parquet: &SchemaDescriptor, order: &Order) -> Vec<SortingColumn> {
    let leaf = |column: &usize| {
        let is_ordered = !matches!(schema.field(*column).data_type(), DataType::Float64);
        let leaf = (0..parquet.num_columns()).find(|leaf| parquet.get_column_root_idx(*leaf) == *column);
        leaf.filter(|_| is_ordered).and_then(|leaf| i32::try_from(leaf).ok())
    };
    let column = |column_idx| SortingColumn { column_idx, descending: false, nulls_first: true };
    order.columns().iter().map_while(leaf).map(column).collect()
}
