//! The row that the exporter would write, column by column.

use afterwrite_model::projection::DatasetRow;
use afterwrite_model::table::{Column, Dataset};

use super::column::column_builder;
use super::row_builder::append_value;
use crate::row_values::value_text;

/// A column of a row, as the exporter fills it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreviewedColumn {
    /// Its name.
    pub name: String,
    /// Its value as text; `None` if it is null.
    pub value: Option<String>,
    /// In `_rescued`: the value that does not fit, in DynamoDB's JSON, or `null` if the column requires a value and there is none.
    pub rescued: Option<String>,
}

/// The columns of a row of this dataset.
#[must_use]
pub fn preview_row(dataset: &Dataset, row: &DatasetRow<'_, '_>) -> Vec<PreviewedColumn> {
    dataset.columns.iter().map(|column| preview(column, row)).collect()
}

fn preview(column: &Column, row: &DatasetRow<'_, '_>) -> PreviewedColumn {
    let mut builder = column_builder(&column.column_type, column.reading);
    let rescued = append_value(builder.as_mut(), column, row);
    PreviewedColumn {
        name: column.name.to_string(),
        value: value_text(&builder.finish(), 0),
        rescued: rescued.map(|value| value.get().to_owned()),
    }
}
