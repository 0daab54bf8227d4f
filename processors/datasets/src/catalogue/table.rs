//! The table of a dataset's rows, as Athena's data definition language has it: Hive's.

use afterwrite::table::{ColumnType, Dataset, NO_DAY};

use super::{BUCKET, PARTITION, log_name};
use crate::schema::{CHANGED_AT, GENERATION, OPERATION, POSITION, RESCUED};

const SERDE: &str = "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe";
const INPUT_FORMAT: &str = "org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat";
const OUTPUT_FORMAT: &str = "org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat";

/// The `CREATE EXTERNAL TABLE` of a dataset's rows.
///
/// Its partitions are projected: Athena works out from the days that are asked for which folders to look into, and nobody has to
/// tell it of new ones. The range begins with [`NO_DAY`], the partition of rows without a day, and ends with the dataset's last
/// day.
#[must_use]
pub fn table(dataset: &Dataset) -> String {
    let own = [POSITION, OPERATION, CHANGED_AT, RESCUED, GENERATION].map(|name| match name {
        CHANGED_AT => (name, ColumnType::Timestamp),
        GENERATION => (name, ColumnType::Int64),
        _ => (name, ColumnType::String),
    });
    let columns = dataset.columns.iter().map(|column| (&*column.name, &column.column_type));
    let columns = columns.chain(own.iter().map(|(name, column_type)| (*name, column_type)));
    let columns: Vec<String> =
        columns.map(|(name, column_type)| format!("  `{name}` {}", hive_type(column_type))).collect();
    let (name, last) = (&dataset.name, &dataset.days.1);
    format!(
        "CREATE EXTERNAL TABLE IF NOT EXISTS `{log}` (\n{columns}\n)\n\
         PARTITIONED BY (`{PARTITION}` string)\n\
         ROW FORMAT SERDE '{SERDE}'\n\
         STORED AS INPUTFORMAT '{INPUT_FORMAT}'\n\
         OUTPUTFORMAT '{OUTPUT_FORMAT}'\n\
         LOCATION 's3://{BUCKET}/datasets/{name}/'\n\
         TBLPROPERTIES (\n  \
           'projection.enabled' = 'true',\n  \
           'projection.{PARTITION}.type' = 'date',\n  \
           'projection.{PARTITION}.format' = 'yyyy-MM-dd',\n  \
           'projection.{PARTITION}.range' = '{NO_DAY},{last}',\n  \
           'projection.{PARTITION}.interval' = '1',\n  \
           'projection.{PARTITION}.interval.unit' = 'DAYS',\n  \
           'storage.location.template' = 's3://{BUCKET}/datasets/{name}/{PARTITION}=${{{PARTITION}}}/'\n)",
        log = log_name(dataset),
        columns = columns.join(",\n"),
    )
}

/// Hive's name of a column's type.
fn hive_type(column_type: &ColumnType) -> String {
    let plain = match column_type {
        ColumnType::String | ColumnType::Json => "string",
        ColumnType::Int64 => "bigint",
        ColumnType::Double => "double",
        ColumnType::Boolean => "boolean",
        ColumnType::Timestamp => "timestamp",
        ColumnType::Date => "date",
        ColumnType::Binary => "binary",
        ColumnType::Decimal { precision, scale } => return format!("decimal({precision},{scale})"),
        ColumnType::List(element) => return format!("array<{}>", hive_type(element)),
        ColumnType::Map(value) => return format!("map<string,{}>", hive_type(value)),
        ColumnType::Struct(members) => {
            let members = members.iter();
            let members =
                members.map(|(name, member)| format!("{}:{}", member_name(name), hive_type(member)));
            return format!("struct<{}>", members.collect::<Vec<_>>().join(","));
        }
    };
    plain.to_owned()
}

/// A member's name stands bare, unless it would be read as a word of the language: Glue keeps the text of a nested type, and not
/// every reader of it knows quotes.
fn member_name(name: &str) -> String {
    if RESERVED.contains(&name) { format!("`{name}`") } else { name.to_owned() }
}

/// Words that Athena's data definition language reserves, as its user guide lists them.
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
