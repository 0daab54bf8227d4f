//! The outputs of a compaction: sorted rows as Parquet files of the target size, each a temporary file.

use std::fs::File;

use afterwrite_model::{Error, ErrorKind, Result};
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use parquet::arrow::{ArrowSchemaConverter, ArrowWriter};
use parquet::basic::{Encoding, Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::SortingColumn;
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder};
use parquet::schema::types::SchemaDescriptor;

use super::order::RowOrder;
use super::temporary::{WorkFile, WorkFolder, temporary_file_error};
use super::totals::count;
use crate::delta::FileStatistics;
use crate::schema::{POSITION, writer_properties};

/// The size at which a row group ends: until then it is in memory.
const ROW_GROUP_BYTES: usize = 64 * 1024 * 1024;

/// The maximum size of a text column's dictionary.
const TEXT_DICTIONARY_BYTES: usize = 128 * 1024;

/// Writes files one after the other.
pub(super) struct OutputWriter<'f> {
    folder: &'f WorkFolder,
    schema: SchemaRef,
    properties: WriterProperties,
    target_file_bytes: u64,
    open: Option<(ArrowWriter<File>, WorkFile)>,
    complete: Vec<OutputFile>,
}

/// A complete file.
pub(super) struct OutputFile {
    pub(super) file: WorkFile,
    pub(super) rows: u64,
    pub(super) bytes: u64,
    pub(super) statistics: FileStatistics,
}

impl<'f> OutputWriter<'f> {
    /// Rows come in this order; each file ends soon after it has reached the target size.
    pub(super) fn new(
        folder: &'f WorkFolder,
        schema: SchemaRef,
        order: &RowOrder,
        target_file_bytes: u64,
    ) -> Result<Self> {
        let parquet = ArrowSchemaConverter::new().convert(&schema).map_err(unwritten)?;
        let properties = use_difference_encodings(writer_properties(), &parquet)
            .set_sorting_columns(Some(sorting_columns(&schema, &parquet, order)))
            .build();
        Ok(Self { folder, schema, properties, target_file_bytes, open: None, complete: Vec::new() })
    }

    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let (mut writer, file) = match self.open.take() {
            Some(open) => open,
            None => self.open()?,
        };
        writer.write(batch).map_err(unwritten)?;
        let bytes = writer.bytes_written() + writer.in_progress_size();
        if count(bytes) >= self.target_file_bytes {
            self.complete.push(close(writer, file, &self.schema)?);
            return Ok(());
        }
        if writer.in_progress_size() >= ROW_GROUP_BYTES {
            writer.flush().map_err(unwritten)?;
        }
        self.open = Some((writer, file));
        Ok(())
    }

    /// The files.
    pub(super) fn finish(mut self) -> Result<Vec<OutputFile>> {
        if let Some((writer, file)) = self.open {
            self.complete.push(close(writer, file, &self.schema)?);
        }
        Ok(self.complete)
    }

    fn open(&self) -> Result<(ArrowWriter<File>, WorkFile)> {
        let file = self.folder.new_file();
        let handle = file.create()?;
        let writer = ArrowWriter::try_new(handle, self.schema.clone(), Some(self.properties.clone()));
        Ok((writer.map_err(unwritten)?, file))
    }
}

fn close(writer: ArrowWriter<File>, file: WorkFile, schema: &SchemaRef) -> Result<OutputFile> {
    let metadata = writer.close().map_err(unwritten)?;
    let rows = u64::try_from(metadata.file_metadata().num_rows()).unwrap_or(0);
    let bytes = file.open()?.metadata().map_err(temporary_file_error)?.len();
    let statistics = FileStatistics::of(&metadata, schema);
    Ok(OutputFile { file, rows, bytes, statistics })
}

fn unwritten(error: ParquetError) -> Error {
    if let ParquetError::External(cause) = error {
        return temporary_file_error(cause);
    }
    Error::new(ErrorKind::State, "cannot write rows as Parquet").caused_by(error)
}

/// Uses encodings that ZSTD compresses better, for values without a dictionary: differences for integers and times, lengths
/// before texts. Athena (Trino), Spark, DuckDB and Arrow read both. The exporter does not use them: its files are soon compacted.
fn use_difference_encodings(
    mut properties: WriterPropertiesBuilder,
    schema: &SchemaDescriptor,
) -> WriterPropertiesBuilder {
    for column in schema.columns() {
        let path = || column.path().clone();
        properties = match column.physical_type() {
            Type::INT32 | Type::INT64 => {
                properties.set_column_encoding(path(), Encoding::DELTA_BINARY_PACKED)
            }
            Type::BYTE_ARRAY if column.name() != POSITION => properties
                .set_column_encoding(path(), Encoding::DELTA_LENGTH_BYTE_ARRAY)
                .set_column_dictionary_page_size_limit(path(), TEXT_DICTIONARY_BYTES),
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

/// The order for the footer, up to the first column that Parquet may compare otherwise than this crate: floats have no agreed order.
fn sorting_columns(schema: &SchemaRef, parquet: &SchemaDescriptor, order: &RowOrder) -> Vec<SortingColumn> {
    let leaf = |column: &usize| {
        let leaf = (0..parquet.num_columns()).find(|leaf| parquet.get_column_root_idx(*leaf) == *column);
        let is_ordered = !schema.field(*column).data_type().is_floating();
        leaf.filter(|_| is_ordered).and_then(|leaf| i32::try_from(leaf).ok())
    };
    let column = |column_idx| SortingColumn { column_idx, descending: false, nulls_first: true };
    order.columns().iter().map_while(leaf).map(column).collect()
}
