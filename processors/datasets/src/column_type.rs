//! The types of columns in Arrow.
//!
//! They are types that Athena reads without surprises: timestamps are INT64 milliseconds in UTC, decimals declare their precision
//! and scale; there are no unsigned types, no INT96 and no nanoseconds.

use std::sync::Arc;

use afterwrite_model::table::ColumnType;
use arrow_schema::{DataType, Field, Fields, TimeUnit};

/// UTC as an offset: its name would require a database of time zones.
const UTC: &str = "+00:00";

/// The Arrow type of a column.
pub(crate) fn arrow_type(column_type: &ColumnType) -> DataType {
    match column_type {
        ColumnType::String | ColumnType::Json => DataType::Utf8,
        ColumnType::Int64 => DataType::Int64,
        ColumnType::Double => DataType::Float64,
        ColumnType::Decimal { precision, scale } => DataType::Decimal128(*precision, *scale),
        ColumnType::Boolean => DataType::Boolean,
        ColumnType::Timestamp => timestamp_type(),
        ColumnType::Date => DataType::Date32,
        ColumnType::Binary => DataType::Binary,
        ColumnType::List(element) => DataType::List(Arc::new(element_field(element))),
        ColumnType::Map(value) => DataType::Map(Arc::new(entries_field(entry_fields(value))), false),
        ColumnType::Struct(members) => DataType::Struct(member_fields(members)),
    }
}

/// The type of timestamps.
pub(crate) fn timestamp_type() -> DataType {
    DataType::Timestamp(TimeUnit::Millisecond, Some(Arc::from(UTC)))
}

/// The elements of a list, under the name that Parquet gives them.
pub(crate) fn element_field(element: &ColumnType) -> Field {
    element_field_of(arrow_type(element))
}

/// The elements of a list of values of this type.
pub(crate) fn element_field_of(element: DataType) -> Field {
    Field::new("element", element, true)
}

/// The key and the value of a map's entries.
pub(crate) fn entry_fields(value: &ColumnType) -> Fields {
    [Field::new("key", DataType::Utf8, false), Field::new("value", arrow_type(value), true)]
        .into_iter()
        .collect()
}

/// The entries of a map, under the name that Parquet gives them.
pub(crate) fn entries_field(entry: Fields) -> Field {
    Field::new("key_value", DataType::Struct(entry), false)
}

/// The members of a struct, in lower case: Athena's names have no case.
pub(crate) fn member_fields(members: &[(Arc<str>, ColumnType)]) -> Fields {
    members
        .iter()
        .map(|(name, member)| Field::new(name.to_ascii_lowercase(), arrow_type(member), true))
        .collect()
}
