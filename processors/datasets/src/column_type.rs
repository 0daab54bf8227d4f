//! The types of columns in Arrow and in Athena's data definition language (Hive's).
//!
//! They are types that Athena reads without surprises: timestamps are INT64 milliseconds in UTC, decimals declare their precision
//! and scale; there are no unsigned types, no INT96 and no nanoseconds.

use std::sync::Arc;

use afterwrite::table::ColumnType;
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
        ColumnType::Timestamp => DataType::Timestamp(TimeUnit::Millisecond, Some(Arc::from(UTC))),
        ColumnType::Date => DataType::Date32,
        ColumnType::Binary => DataType::Binary,
        ColumnType::List(element) => DataType::List(Arc::new(element_field(element))),
        ColumnType::Map(value) => DataType::Map(Arc::new(entries_field(entry_fields(value))), false),
        ColumnType::Struct(members) => DataType::Struct(member_fields(members)),
    }
}

/// The elements of a list, under the name that Parquet gives them.
pub(crate) fn element_field(element: &ColumnType) -> Field {
    Field::new("element", arrow_type(element), true)
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

/// The Hive type of a column.
pub(crate) fn hive_type(column_type: &ColumnType) -> String {
    match column_type {
        ColumnType::String | ColumnType::Json => "string".to_owned(),
        ColumnType::Int64 => "bigint".to_owned(),
        ColumnType::Double => "double".to_owned(),
        ColumnType::Boolean => "boolean".to_owned(),
        ColumnType::Timestamp => "timestamp".to_owned(),
        ColumnType::Date => "date".to_owned(),
        ColumnType::Binary => "binary".to_owned(),
        ColumnType::Decimal { precision, scale } => format!("decimal({precision},{scale})"),
        ColumnType::List(element) => format!("array<{}>", hive_type(element)),
        ColumnType::Map(value) => format!("map<string,{}>", hive_type(value)),
        ColumnType::Struct(members) => {
            let members =
                members.iter().map(|(name, member)| format!("{}:{}", member_name(name), hive_type(member)));
            format!("struct<{}>", members.collect::<Vec<_>>().join(","))
        }
    }
}

/// The name of a struct's member, quoted only if it is reserved: Glue stores the text of a nested type, and not every reader of
/// that text understands quotes.
fn member_name(name: &str) -> String {
    let name = name.to_ascii_lowercase();
    if RESERVED.contains(&name.as_str()) { format!("`{name}`") } else { name }
}

/// The reserved words of Athena's data definition language, as its user guide lists them.
#[rustfmt::skip]
const RESERVED: [&str; 138] = [
    "all", "alter", "and", "array", "as", "authorization", "between", "bigint", "binary", "boolean", "both",
    "by", "case", "cashe", "cast", "char", "column", "conf", "constraint", "commit", "create", "cross", "cube",
    "current", "current_date", "current_timestamp", "cursor", "database", "date", "dayofweek", "decimal",
    "delete", "describe", "distinct", "div", "double", "drop", "else", "end", "exchange", "exists", "extended",
    "external", "extract", "false", "fetch", "float", "floor", "following", "for", "foreign", "from", "full",
    "function", "grant", "group", "grouping", "having", "if", "import", "in", "inner", "insert", "int",
    "integer", "intersect", "interval", "into", "is", "join", "lateral", "left", "less", "like", "local",
    "macro", "map", "more", "none", "not", "null", "numeric", "of", "on", "only", "or", "order", "out", "outer",
    "over", "partialscan", "partition", "percent", "preceding", "precision", "preserve", "primary", "procedure",
    "range", "reads", "reduce", "regexp", "references", "revoke", "right", "rlike", "rollback", "rollup", "row",
    "rows", "select", "set", "smallint", "start", "table", "tablesample", "then", "time", "timestamp", "to",
    "transform", "trigger", "true", "truncate", "unbounded", "union", "uniquejoin", "update", "user", "using",
    "utc_timestamp", "values", "varchar", "views", "when", "where", "window", "with",
];
