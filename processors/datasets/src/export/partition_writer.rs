//! The rows of one partition → one Parquet file, in memory.

use afterwrite_model::table::{Dataset, Model};
use afterwrite_model::{Error, ErrorKind, Result};
use arrow_schema::SchemaRef;
use parquet::arrow::ArrowWriter;
use parquet::errors::ParquetError;

use super::row_builder::RowBuilder;
use crate::delta::FileStatistics;
use crate::schema::writer_properties;

/// The maximum size of a column's dictionary, in bytes: less than in compacted files, because row groups may be small, and each
/// has its own dictionaries.
const DICTIONARY_BYTES: usize = 4 * 1024;

/// Writes the file of a partition.
pub(super) struct PartitionWriter {
    schema: SchemaRef,
    /// The rows that are not encoded yet.
    pub(super) rows: RowBuilder,
    writer: ArrowWriter<Vec<u8>>,
}

impl PartitionWriter {
    /// An empty file.
    ///
    /// # Errors
    /// [`ErrorKind::Rejected`] if Parquet does not support a column.
    pub(super) fn new(model: &Model, dataset: &Dataset, schema: &SchemaRef) -> Result<Self> {
        let properties = writer_properties().set_dictionary_page_size_limit(DICTIONARY_BYTES).build();
        let writer = ArrowWriter::try_new(Vec::new(), schema.clone(), Some(properties));
        Ok(Self {
            schema: schema.clone(),
            rows: RowBuilder::new(model, dataset, schema),
            writer: writer.map_err(unwritten)?,
        })
    }

    /// Encodes the staged rows as a row group.
    pub(super) fn encode(&mut self) -> Result<()> {
        let batch = self.rows.finish().map_err(|error| unwritten(ParquetError::from(error)))?;
        let Some(batch) = batch else { return Ok(()) };
        self.writer.write(&batch).map_err(unwritten)?;
        self.writer.flush().map_err(unwritten)
    }

    /// The file and its statistics.
    pub(super) fn finish(mut self) -> Result<(Vec<u8>, FileStatistics)> {
        self.encode()?;
        let metadata = self.writer.finish().map_err(unwritten)?;
        let statistics = FileStatistics::of(&metadata, &self.schema);
        Ok((std::mem::take(self.writer.inner_mut()), statistics))
    }
}

fn unwritten(error: ParquetError) -> Error {
    Error::new(ErrorKind::Rejected, "cannot write rows as Parquet").caused_by(error)
}
