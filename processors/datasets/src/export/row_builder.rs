//! Rows → columns of Arrow arrays: the same for files and for comparisons.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use afterwrite_model::projection::DatasetRow;
use afterwrite_model::record::{AttributeValue, Position, Timestamp, dynamodb_json};
use afterwrite_model::table::{Column, Dataset, Model, Operand};
use arrow_array::builder::{StringBuilder, TimestampMillisecondBuilder};
use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use arrow_schema::{ArrowError, SchemaRef};
use serde_json::value::RawValue;

use super::column::{ColumnBuilder, ScalarBuilder as _, column_builder, timestamp_builder};

/// Collects rows of one dataset.
pub(super) struct RowBuilder {
    schema: SchemaRef,
    /// The dataset's columns.
    columns: Vec<Box<dyn ColumnBuilder>>,
    position: StringBuilder,
    operation: StringBuilder,
    changed_at: TimestampMillisecondBuilder,
    rescued: StringBuilder,
    generation: i64,
    rows: usize,
}

impl RowBuilder {
    /// No rows, of a dataset whose files have this schema.
    pub(super) fn new(model: &Model, dataset: &Dataset, schema: &SchemaRef) -> Self {
        // Without capacity: there may be very many days with few rows.
        let texts = || StringBuilder::with_capacity(0, 0);
        Self {
            schema: schema.clone(),
            columns: dataset
                .columns
                .iter()
                .map(|column| column_builder(&column.column_type, column.reading))
                .collect(),
            position: texts(),
            operation: texts(),
            changed_at: timestamp_builder(),
            rescued: texts(),
            generation: i64::try_from(model.generation).unwrap_or(i64::MAX),
            rows: 0,
        }
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
            rescued.extend(append_value(builder.as_mut(), column, row).map(|value| (&*column.name, value)));
        }
        let has_rescued = !rescued.is_empty();
        // Cannot fail: names, and JSON.
        let json = has_rescued.then(|| serde_json::to_string(&rescued).unwrap_or_default());
        self.append_change(row.operation.name(), position, changed_at, json);
        has_rescued
    }

    /// Appends the columns that every row has.
    fn append_change(
        &mut self,
        operation: &str,
        position: &Position<'_>,
        changed_at: Option<Timestamp>,
        rescued: Option<String>,
    ) {
        // Writing to a builder cannot fail. The text written becomes part of the value that is appended next.
        let _ = write!(self.position, "{position}");
        self.position.append_value("");
        self.operation.append_value(operation);
        self.changed_at.append_option(changed_at.map(Timestamp::epoch_ms));
        self.rescued.append_option(rescued);
        self.rows += 1;
    }

    /// The approximate size of the rows, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let columns: usize = self.columns.iter().map(|column| column.bytes()).sum();
        let texts = self.position.value_bytes() + self.operation.value_bytes() + self.rescued.value_bytes();
        columns + texts + self.changed_at.value_bytes()
    }

    /// The rows; `None` without any. The builder is empty afterwards.
    pub(super) fn finish(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        let rows = std::mem::take(&mut self.rows);
        if rows == 0 {
            return Ok(None);
        }
        let common: [ArrayRef; 5] = [
            Arc::new(self.position.finish()),
            Arc::new(self.operation.finish()),
            Arc::new(self.changed_at.finish()),
            Arc::new(self.rescued.finish()),
            Arc::new(Int64Array::from_value(self.generation, rows)),
        ];
        let arrays = self.columns.iter_mut().map(|column| column.finish()).chain(common).collect();
        RecordBatch::try_new(self.schema.clone(), arrays).map(Some)
    }
}

/// Appends a row's value to its column. Returns the value for `_rescued` if it does not fit, in DynamoDB's JSON; `null` if the column requires
/// a value and there is none.
pub(super) fn append_value(
    builder: &mut dyn ColumnBuilder,
    column: &Column,
    row: &DatasetRow<'_, '_>,
) -> Option<Box<RawValue>> {
    let value = row.value(&column.from);
    let fits = builder.append(value.as_ref());
    let unreadable = if value.is_none() { row.unreadable_number(&column.from) } else { None };
    let is_rescued = !fits || unreadable.is_some() || (value.is_none() && column.required);
    is_rescued.then(|| rescued_value(value.or(unreadable).as_ref()))
}

/// A value in DynamoDB's JSON.
fn rescued_value(value: Option<&Operand<'_>>) -> Box<RawValue> {
    let json = match value {
        Some(Operand::Value(value)) => dynamodb_json(value),
        Some(Operand::Text(text)) => dynamodb_json(&AttributeValue::from(&**text)),
        Some(Operand::Number(number)) => dynamodb_json(&AttributeValue::N(number.clone())),
        Some(Operand::Ratio { .. }) | None => "null".to_owned(),
    };
    RawValue::from_string(json).unwrap_or_default()
}
