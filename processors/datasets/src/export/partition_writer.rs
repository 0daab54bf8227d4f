//! The rows of one partition → one Parquet file, in memory.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use afterwrite::projection::DatasetRow;
use afterwrite::record::{AttributeValue, Position, Timestamp};
use afterwrite::table::{Dataset, Model, Operand};
use afterwrite::{Error, ErrorKind, Result};
use arrow_array::builder::{StringBuilder, TimestampMillisecondBuilder};
use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use arrow_schema::SchemaRef;
use parquet::arrow::ArrowWriter;
use parquet::errors::ParquetError;
use serde_json::value::RawValue;

use super::column::{ColumnBuilder, ScalarBuilder as _, column_builder, timestamp_builder};
use super::json::dynamodb_json;
use crate::delta::FileStatistics;
use crate::schema::writer_properties;

/// The maximum size of a column's dictionary, in bytes: less than in compacted files, because row groups may be small, and each
/// has its own dictionaries.
const DICTIONARY_BYTES: usize = 4 * 1024;

/// Writes the file of a partition.
pub(super) struct PartitionWriter {
    schema: SchemaRef,
    /// The dataset's columns.
    columns: Vec<Box<dyn ColumnBuilder>>,
    position: StringBuilder,
    operation: StringBuilder,
    changed_at: TimestampMillisecondBuilder,
    rescued: StringBuilder,
    generation: i64,
    rows: usize,
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
        // Without capacity: there may be very many days with few rows.
        let texts = || StringBuilder::with_capacity(0, 0);
        Ok(Self {
            schema: schema.clone(),
            columns: dataset.columns.iter().map(|column| column_builder(&column.column_type)).collect(),
            position: texts(),
            operation: texts(),
            changed_at: timestamp_builder(),
            rescued: texts(),
            generation: i64::try_from(model.generation).unwrap_or(i64::MAX),
            rows: 0,
            writer: writer.map_err(unwritten)?,
        })
    }

    /// Appends a row. Returns `true` if some of its values do not fit their columns: they are in `_rescued`.
    pub(super) fn append(
        &mut self,
        dataset: &Dataset,
        row: &DatasetRow<'_, '_>,
        position: &Position<'_>,
        changed_at: Option<Timestamp>,
    ) -> bool {
        let mut rescued: BTreeMap<&str, Box<RawValue>> = BTreeMap::new();
        for (column, builder) in dataset.columns.iter().zip(&mut self.columns) {
            let value = row.value(&column.from);
            if !builder.append(value.as_ref()) || (value.is_none() && column.required) {
                rescued.insert(&column.name, rescued_value(value.as_ref()));
            }
        }
        // Writing to a builder cannot fail. The text written becomes part of the value that is appended next.
        let _ = write!(self.position, "{position}");
        self.position.append_value("");
        self.operation.append_value(row.operation.name());
        self.changed_at.append_option(changed_at.map(Timestamp::epoch_ms));
        let has_rescued = !rescued.is_empty();
        // Cannot fail: names, and JSON.
        let json = has_rescued.then(|| serde_json::to_string(&rescued).unwrap_or_default());
        self.rescued.append_option(json);
        self.rows += 1;
        has_rescued
    }

    /// The approximate size of the rows that are not encoded yet, in bytes.
    pub(super) fn staged_bytes(&self) -> usize {
        let columns: usize = self.columns.iter().map(|column| column.bytes()).sum();
        let texts = self.position.value_bytes() + self.operation.value_bytes() + self.rescued.value_bytes();
        columns + texts + self.changed_at.value_bytes()
    }

    /// Encodes the staged rows as a row group.
    pub(super) fn encode(&mut self) -> Result<()> {
        let rows = std::mem::take(&mut self.rows);
        if rows == 0 {
            return Ok(());
        }
        let common: [ArrayRef; 5] = [
            Arc::new(self.position.finish()),
            Arc::new(self.operation.finish()),
            Arc::new(self.changed_at.finish()),
            Arc::new(self.rescued.finish()),
            Arc::new(Int64Array::from_value(self.generation, rows)),
        ];
        let arrays = self.columns.iter_mut().map(|column| column.finish()).chain(common).collect();
        let batch = RecordBatch::try_new(self.schema.clone(), arrays)
            .map_err(|error| unwritten(ParquetError::from(error)))?;
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

/// A value in DynamoDB's JSON.
fn rescued_value(value: Option<&Operand<'_>>) -> Box<RawValue> {
    let json = match value {
        Some(Operand::Value(value)) => dynamodb_json(value),
        Some(Operand::Text(text)) => dynamodb_json(&AttributeValue::from(&**text)),
        Some(Operand::Ratio { .. }) | None => "null".to_owned(),
    };
    RawValue::from_string(json).unwrap_or_default()
}

fn unwritten(error: ParquetError) -> Error {
    Error::new(ErrorKind::Rejected, "cannot write rows as Parquet").caused_by(error)
}
