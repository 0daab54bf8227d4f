//! The values of rows as text, and digests of them, with which a dataset is compared with its items.
//!
//! Two rows with the same text in a column have the same value there, and the reverse. Null has no text. A digest is of one process: it
//! is not stored.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use afterwrite_model::projection::RowOperation;
use afterwrite_model::table::{Column, Dataset};
use afterwrite_model::{Error, ErrorKind, Result};
use arrow_array::cast::AsArray as _;
use arrow_array::types::{Date32Type, Decimal128Type, Float64Type, Int64Type, TimestampMillisecondType};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::DataType;

use crate::schema::{CHANGED_AT, OPERATION, RESCUED};

/// The digest of a row's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowDigest {
    /// Of every column.
    pub all: u64,
    /// Of the columns that are not outputs of lookups.
    pub own: u64,
    /// Whether an output of a lookup is null: it was not remembered when the row was made, and stays null.
    pub lacks_output: bool,
}

impl RowDigest {
    /// Whether a stored row has the values that this row should have. An output that the stored row lacks is accepted.
    #[must_use]
    pub fn accepts(&self, stored: &Self) -> bool {
        self.all == stored.all || (stored.lacks_output && self.own == stored.own)
    }
}

/// Rows of one dataset in memory.
#[derive(Clone, Debug)]
pub struct DatasetRows<'r> {
    dataset: &'r Dataset,
    batch: &'r RecordBatch,
    /// The dataset's columns; `None` for one that the rows do not have.
    columns: Vec<Option<&'r ArrayRef>>,
    operation: &'r ArrayRef,
    changed_at: &'r ArrayRef,
    rescued: Option<&'r ArrayRef>,
}

impl<'r> DatasetRows<'r> {
    /// The rows of a batch.
    ///
    /// # Errors
    /// [`ErrorKind::State`] if a column is missing that every row has.
    pub(crate) fn new(dataset: &'r Dataset, batch: &'r RecordBatch) -> Result<Self> {
        let required = |name: &'static str| {
            batch.column_by_name(name).ok_or_else(|| {
                Error::new(ErrorKind::State, "rows of a dataset lack a column that every row has")
                    .with("dataset", &*dataset.name)
                    .with("column", name)
            })
        };
        // A required lookup that is not remembered is recorded in `_rescued`, and may be remembered later.
        let has_required_output = dataset.columns.iter().any(is_required_output);
        Ok(Self {
            dataset,
            batch,
            columns: dataset.columns.iter().map(|column| batch.column_by_name(&column.name)).collect(),
            operation: required(OPERATION)?,
            changed_at: required(CHANGED_AT)?,
            rescued: batch.column_by_name(RESCUED).filter(|_| !has_required_output),
        })
    }

    /// How many rows there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.batch.num_rows()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The variables of the item's key, in the order of the entity's; `None` if one is null.
    #[must_use]
    pub fn key(&self, row: usize) -> Option<Vec<String>> {
        let key = self.dataset.key.iter().map(|index| value_text((*self.columns.get(*index)?)?, row));
        key.collect()
    }

    /// Whether the row is of a life of the item that ended by expiry.
    #[must_use]
    pub fn is_expiry(&self, row: usize) -> bool {
        self.operation(row) == RowOperation::Expire.name()
    }

    /// Whether the row states that the item exists.
    #[must_use]
    pub fn is_live(&self, row: usize) -> bool {
        !self.is_expiry(row) && self.operation(row) != RowOperation::Remove.name()
    }

    fn operation(&self, row: usize) -> String {
        value_text(self.operation, row).unwrap_or_default()
    }

    /// The time of the change or of the reading, in milliseconds since 1970.
    #[must_use]
    pub fn changed_at(&self, row: usize) -> Option<i64> {
        let times = self.changed_at.as_primitive_opt::<TimestampMillisecondType>()?;
        times.is_valid(row).then(|| times.value(row))
    }

    /// The digest of the row's values.
    #[must_use]
    pub fn digest(&self, row: usize) -> RowDigest {
        let (mut all, mut own) = (DefaultHasher::new(), DefaultHasher::new());
        let mut lacks_output = false;
        for (column, values) in self.dataset.columns.iter().zip(&self.columns) {
            let text = values.and_then(|values| value_text(values, row));
            if is_output(column) {
                lacks_output |= text.is_none();
            } else {
                text.hash(&mut own);
            }
            text.hash(&mut all);
        }
        let rescued = self.rescued.and_then(|values| value_text(values, row));
        rescued.hash(&mut all);
        rescued.hash(&mut own);
        RowDigest { all: all.finish(), own: own.finish(), lacks_output }
    }

    /// The values of the row by column, without nulls.
    #[must_use]
    pub fn values(&self, row: usize) -> Vec<(String, String)> {
        let own = self.dataset.columns.iter().zip(&self.columns);
        let own =
            own.filter_map(|(column, values)| Some((column.name.to_string(), value_text((*values)?, row)?)));
        let rescued = self.rescued.and_then(|values| value_text(values, row));
        own.chain(rescued.map(|text| (RESCUED.to_owned(), text))).collect()
    }

    /// The value of the first column that comes from the item's value with this name.
    #[must_use]
    pub fn value_of(&self, source: &str, row: usize) -> Option<String> {
        let index = self.dataset.columns.iter().position(|column| *column.source == *source)?;
        value_text((*self.columns.get(index)?)?, row)
    }
}

/// Whether a column is an output of a lookup.
fn is_output(column: &Column) -> bool {
    column.from.output_lookup().is_some()
}

fn is_required_output(column: &Column) -> bool {
    column.required && is_output(column)
}

/// A value as text; `None` for null.
#[expect(clippy::wildcard_enum_match_arm, reason = "columns of datasets have no other types")]
pub(crate) fn value_text(values: &ArrayRef, row: usize) -> Option<String> {
    if values.is_null(row) {
        return None;
    }
    Some(match values.data_type() {
        DataType::Utf8 => values.as_string::<i32>().value(row).to_owned(),
        DataType::Int64 => values.as_primitive::<Int64Type>().value(row).to_string(),
        DataType::Float64 => values.as_primitive::<Float64Type>().value(row).to_string(),
        DataType::Decimal128(..) => values.as_primitive::<Decimal128Type>().value_as_string(row),
        DataType::Boolean => values.as_boolean().value(row).to_string(),
        DataType::Timestamp(..) => {
            let ms = values.as_primitive::<TimestampMillisecondType>().value(row);
            jiff::Timestamp::from_millisecond(ms).map_or_else(|_| ms.to_string(), |time| time.to_string())
        }
        DataType::Date32 => day_text(values.as_primitive::<Date32Type>().value(row)),
        DataType::Binary => hex_text(values.as_binary::<i32>().value(row)),
        DataType::List(_) => list_text(&values.as_list::<i32>().value(row)),
        DataType::Map(..) => map_text(values, row),
        DataType::Struct(_) => {
            let members = values.as_struct();
            let texts = members.columns().iter().map(|member| quoted(value_text(member, row)));
            format!("{{{}}}", texts.collect::<Vec<_>>().join(","))
        }
        other => format!("a value of type {other}"),
    })
}

/// A day as `yyyy-mm-dd`; the days since 1970 if it is of no year that can be written.
fn day_text(days: i32) -> String {
    let since = jiff::Span::new().try_days(days).ok();
    let day = since.and_then(|since| jiff::civil::date(1970, 1, 1).checked_add(since).ok());
    day.map_or_else(|| days.to_string(), |day| day.to_string())
}

fn list_text(elements: &ArrayRef) -> String {
    let texts = (0..elements.len()).map(|element| quoted(value_text(elements, element)));
    format!("[{}]", texts.collect::<Vec<_>>().join(","))
}

/// The entries of a map, in the order of their keys.
fn map_text(values: &ArrayRef, row: usize) -> String {
    let entries: ArrayRef = std::sync::Arc::new(values.as_map().value(row));
    let [keys, members] = entries.as_struct().columns() else { return String::new() };
    let mut texts: Vec<String> = (0..entries.len())
        .map(|entry| format!("{}:{}", quoted(value_text(keys, entry)), quoted(value_text(members, entry))))
        .collect();
    texts.sort();
    format!("{{{}}}", texts.join(","))
}

/// Quotes a text within another text, so that no two lists of values look alike.
fn quoted(text: Option<String>) -> String {
    text.map_or_else(|| "null".to_owned(), |text| format!("{text:?}"))
}

fn hex_text(bytes: &[u8]) -> String {
    afterwrite_model::hex(bytes, bytes.len())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use afterwrite_model::table::Model;
    use arrow_array::{Int64Array, StringArray, TimestampMillisecondArray};

    use super::*;

    const MODEL: &str = r##"
name = "tenants"
generation = 1
[tables.t]
key = ["pk"]
[entities.order]
key = { pk = "ORDER#{order}" }
attributes = { at = "S" }
[datasets.orders]
of = "order"
partition = "at:day"
[datasets.orders.columns]
amount = { type = "int64", from = "'am.ount'" }
tenant = { type = "string", from = "details.tenant" }
owner = "string"
"##;

    #[test]
    fn a_value_is_found_by_the_name_that_the_model_writes() {
        let model = Model::parse(MODEL, "tenants.toml").unwrap();
        let text = |text: &str| -> ArrayRef { Arc::new(StringArray::from(vec![text])) };
        let batch = RecordBatch::try_from_iter([
            ("amount", Arc::new(Int64Array::from(vec![1])) as ArrayRef),
            ("tenant", text("a")),
            ("owner", text("b")),
            (OPERATION, text("INSERT")),
            (CHANGED_AT, Arc::new(TimestampMillisecondArray::from(vec![0]))),
        ])
        .unwrap();
        let rows = DatasetRows::new(&model.datasets[0], &batch).unwrap();
        for (source, value) in [
            ("'am.ount'", Some("1")),
            ("details.tenant", Some("a")),
            ("owner", Some("b")),
            // Names of columns that the item does not have.
            ("amount", None),
            ("tenant", None),
        ] {
            assert_eq!(rows.value_of(source, 0).as_deref(), value, "{source}");
        }
    }
}
