//! The rows of one partition → one Parquet file, in memory.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use afterwrite::projection::DatasetRow;
use afterwrite::record::{AttributeValue, ChangeRecord};
use afterwrite::table::{Dataset, Model, Operand};
use afterwrite::{Error, ErrorKind, Result};
use arrow_array::builder::{StringBuilder, TimestampMillisecondBuilder};
use arrow_array::{Int64Array, RecordBatch};
use arrow_schema::SchemaRef;
use parquet::arrow::ArrowWriter;
use parquet::errors::ParquetError;
use serde_json::value::RawValue;

use super::column::{ColumnBuilder, text_bytes};
use super::json::dynamodb_json;
use crate::schema::{self, writer_properties};

/// Bytes of a column's different values up to which they are written as a dictionary: fewer than in compacted files, because row groups
/// may be small, and each has one of its own.
const DICTIONARY: usize = 4 * 1024;

/// A partition's file in the making.
pub(super) struct Partition {
    schema: SchemaRef,
    /// The dataset's columns, then our own.
    columns: Vec<ColumnBuilder>,
    own: OwnColumns,
    generation: i64,
    rows: usize,
    writer: ArrowWriter<Vec<u8>>,
}

/// What every row carries beside its dataset's columns.
struct OwnColumns {
    position: StringBuilder,
    operation: StringBuilder,
    changed_at: TimestampMillisecondBuilder,
    rescued: StringBuilder,
}

impl OwnColumns {
    fn new() -> Self {
        // Of no capacity: there may be very many days of few rows.
        let texts = || StringBuilder::with_capacity(0, 0);
        let changed_at = TimestampMillisecondBuilder::with_capacity(0);
        Self {
            position: texts(),
            operation: texts(),
            changed_at: changed_at
                .with_data_type(schema::data_type(&afterwrite::table::ColumnType::Timestamp)),
            rescued: texts(),
        }
    }
}

impl Partition {
    /// An empty one.
    ///
    /// # Errors
    /// [`ErrorKind::Rejected`] if Parquet has no such column.
    pub(super) fn new(model: &Model, dataset: &Dataset, schema: &SchemaRef) -> Result<Self> {
        let properties = writer_properties().set_dictionary_page_size_limit(DICTIONARY).build();
        let writer = ArrowWriter::try_new(Vec::new(), schema.clone(), Some(properties));
        Ok(Self {
            schema: schema.clone(),
            columns: dataset.columns.iter().map(|column| ColumnBuilder::new(&column.column_type)).collect(),
            own: OwnColumns::new(),
            generation: i64::try_from(model.generation).unwrap_or(i64::MAX),
            rows: 0,
            writer: writer.map_err(unwritten)?,
        })
    }

    /// Appends a row. `true` if some of its values fit no column: they are in `_rescued`.
    pub(super) fn append(
        &mut self,
        dataset: &Dataset,
        row: &DatasetRow<'_, '_>,
        record: &ChangeRecord<'_>,
    ) -> bool {
        let mut rescued: BTreeMap<&str, Box<RawValue>> = BTreeMap::new();
        for (column, builder) in dataset.columns.iter().zip(&mut self.columns) {
            let value = row.value(&column.from);
            let is_whole = builder.append(value.as_ref()) && (value.is_some() || !column.required);
            if !is_whole {
                rescued.insert(&column.name, raw(value.as_ref()));
            }
        }
        // Writing to a builder cannot fail; what is written begins the value that is appended.
        let _ = write!(self.own.position, "{}", record.position);
        self.own.position.append_value("");
        self.own.operation.append_value(row.operation.name());
        self.own.changed_at.append_option(record.created_at.map(|time| time.epoch_ms()));
        let is_whole = rescued.is_empty();
        // Names and JSON that was made as JSON: there is nothing to go wrong.
        self.own
            .rescued
            .append_option((!is_whole).then(|| serde_json::to_string(&rescued).unwrap_or_default()));
        self.rows += 1;
        !is_whole
    }

    /// About how many bytes the rows take that are not encoded yet.
    pub(super) fn staged_bytes(&self) -> usize {
        let columns: usize = self.columns.iter().map(ColumnBuilder::bytes).sum();
        let OwnColumns { position, operation, changed_at, rescued } = &self.own;
        let texts: usize = [position, operation, rescued].map(text_bytes).into_iter().sum();
        columns + texts + size_of_val(changed_at.values_slice())
    }

    /// Encodes what is staged, as a row group.
    pub(super) fn encode(&mut self) -> Result<()> {
        let rows = std::mem::take(&mut self.rows);
        if rows == 0 {
            return Ok(());
        }
        let mut arrays: Vec<_> = self.columns.iter_mut().map(ColumnBuilder::finish).collect();
        arrays.push(std::sync::Arc::new(self.own.position.finish()));
        arrays.push(std::sync::Arc::new(self.own.operation.finish()));
        arrays.push(std::sync::Arc::new(self.own.changed_at.finish()));
        arrays.push(std::sync::Arc::new(self.own.rescued.finish()));
        arrays.push(std::sync::Arc::new(Int64Array::from_value(self.generation, rows)));
        let batch = RecordBatch::try_new(self.schema.clone(), arrays)
            .map_err(|error| unwritten(ParquetError::from(error)))?;
        self.writer.write(&batch).map_err(unwritten)?;
        self.writer.flush().map_err(unwritten)
    }

    /// The file.
    pub(super) fn finish(mut self) -> Result<Vec<u8>> {
        self.encode()?;
        self.writer.into_inner().map_err(unwritten)
    }
}

/// A value as DynamoDB writes it.
fn raw(value: Option<&Operand<'_>>) -> Box<RawValue> {
    let json = match value {
        Some(Operand::Value(value)) => dynamodb_json(value),
        Some(Operand::Text(text)) => dynamodb_json(&AttributeValue::from(&**text)),
        Some(Operand::Ratio { .. }) | None => "null".to_owned(),
    };
    RawValue::from_string(json).unwrap_or_default()
}

fn unwritten(error: ParquetError) -> Error {
    Error::new(ErrorKind::Rejected, "rows cannot be written as Parquet").caused_by(error)
}
