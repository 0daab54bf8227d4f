//! Query results as text: a table for people, CSV, or JSON.
//!
//! Times are RFC 3339 in UTC, days `yyyy-mm-dd`, bytes hexadecimal. In JSON, numbers keep all their digits; `NaN` and
//! infinities are null.

use afterwrite_model::{Error, ErrorKind, Result};
use datafusion::arrow::array::{Array, RecordBatch};
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::json::WriterBuilder;
use datafusion::arrow::json::writer::LineDelimited;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};

use super::Layout;
use super::engine::QueryResult;
use crate::print::new_table;

/// A result in its printed form.
pub(super) fn text(result: &QueryResult, layout: Layout) -> Result<String> {
    let made = match layout {
        Layout::Table => table(result),
        Layout::Csv => csv(result),
        Layout::Json => json(result),
    };
    made.map_err(|error| Error::new(ErrorKind::State, "the result cannot be printed").caused_by(error))
}

/// The texts of a batch, column by column; `None` is null.
fn texts(batch: &RecordBatch) -> Result<Vec<Vec<Option<String>>>, ArrowError> {
    batch.columns().iter().map(|column| column_texts(column)).collect()
}

fn column_texts(column: &dyn Array) -> Result<Vec<Option<String>>, ArrowError> {
    let options = FormatOptions::default();
    let formatter = ArrayFormatter::try_new(column, &options)?;
    let text =
        |row| if column.is_null(row) { Ok(None) } else { formatter.value(row).try_to_string().map(Some) };
    (0..column.len()).map(text).collect()
}

/// Calls `row` with the fields of each row.
fn each_row(
    result: &QueryResult,
    mut row: impl FnMut(&mut dyn Iterator<Item = Option<&str>>),
) -> Result<(), ArrowError> {
    for batch in &result.batches {
        let columns = texts(batch)?;
        for index in 0..batch.num_rows() {
            row(&mut columns.iter().map(|column| column.get(index).and_then(Option::as_deref)));
        }
    }
    Ok(())
}

fn table(result: &QueryResult) -> Result<String, ArrowError> {
    let names: Vec<&str> = result.schema.fields().iter().map(|field| field.name().as_str()).collect();
    let mut table = new_table(&names);
    let mut rows: usize = 0;
    each_row(result, |fields| {
        table.add_row(fields.map(Option::unwrap_or_default));
        rows += 1;
    })?;
    for (column, field) in result.schema.fields().iter().enumerate() {
        if field.data_type().is_numeric() {
            table.align_right(column..column + 1);
        }
    }
    Ok(format!("{table}\n\n{rows} {}\n", if rows == 1 { "row" } else { "rows" }))
}

fn csv(result: &QueryResult) -> Result<String, ArrowError> {
    let mut lines = String::new();
    let names = result.schema.fields().iter().map(|field| csv_field(Some(field.name())));
    lines.push_str(&names.collect::<Vec<_>>().join(","));
    lines.push('\n');
    each_row(result, |fields| {
        lines.push_str(&fields.map(csv_field).collect::<Vec<_>>().join(","));
        lines.push('\n');
    })?;
    Ok(lines)
}

fn csv_field(text: Option<&str>) -> String {
    match text {
        None => String::new(),
        Some(text) if text.is_empty() || text.contains([',', '"', '\n', '\r']) => {
            format!("\"{}\"", text.replace('"', "\"\""))
        }
        Some(text) => text.to_owned(),
    }
}

fn json(result: &QueryResult) -> Result<String, ArrowError> {
    let mut writer = WriterBuilder::new().with_explicit_nulls(true).build::<_, LineDelimited>(Vec::new());
    result.batches.iter().try_for_each(|batch| writer.write(batch))?;
    writer.finish()?;
    let lines = String::from_utf8(writer.into_inner()).unwrap_or_default();
    let rows = lines.trim_end().replace('\n', ",\n");
    Ok(if rows.is_empty() { "[]\n".to_owned() } else { format!("[\n{rows}\n]\n") })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{Decimal128Array, Float64Array, Int64Array, ListArray, StringArray};
    use datafusion::arrow::datatypes::Int64Type;

    use super::*;

    fn result() -> QueryResult {
        let decimals = Decimal128Array::from(vec![Some(1250), None]).with_precision_and_scale(10, 2).unwrap();
        let lists = ListArray::from_iter_primitive::<Int64Type, _, _>([Some(vec![Some(1), None]), None]);
        let batch = RecordBatch::try_from_iter([
            ("name", Arc::new(StringArray::from(vec![Some("a, \"b\"\n"), Some("")])) as _),
            ("count", Arc::new(Int64Array::from(vec![Some(i64::MAX), None])) as _),
            ("price", Arc::new(decimals) as _),
            ("ratio", Arc::new(Float64Array::from(vec![0.1, f64::NAN])) as _),
            ("list", Arc::new(lists) as _),
        ]);
        let batch = batch.unwrap();
        QueryResult { schema: batch.schema(), batches: vec![batch] }
    }

    #[test]
    fn json_keeps_every_digit_and_the_order_of_columns() {
        let expected = concat!(
            "[\n",
            r#"{"name":"a, \"b\"\n","count":9223372036854775807,"price":12.50,"ratio":0.1,"list":[1,null]},"#,
            "\n",
            r#"{"name":"","count":null,"price":null,"ratio":null,"list":null}"#,
            "\n]\n"
        );
        assert_eq!(text(&result(), Layout::Json).unwrap(), expected);
        let nothing = QueryResult { batches: Vec::new(), ..result() };
        assert_eq!(text(&nothing, Layout::Json).unwrap(), "[]\n");
    }

    #[test]
    fn csv_distinguishes_an_empty_text_from_a_null() {
        let expected = "name,count,price,ratio,list\n\"a, \"\"b\"\"\n\",9223372036854775807,12.50,0.1,\"[1, ]\"\n\"\",,,NaN,\n";
        assert_eq!(text(&result(), Layout::Csv).unwrap(), expected);
    }

    #[test]
    fn a_table_ends_with_the_number_of_its_rows() {
        let table = text(&result(), Layout::Table).unwrap();
        assert!(table.starts_with(" name") && table.ends_with("\n\n2 rows\n"), "{table}");
    }
}
