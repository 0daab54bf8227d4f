//! A dataset as Arrow and Parquet know it: its columns, what every row carries beside them, and how files are written.
//!
//! | column | type | what it is |
//! |---|---|---|
//! | the model's | the model's | nullable, each |
//! | `_position` | string | where the change stands among its item's changes; compares as text |
//! | `_operation` | string | `INSERT`, `MODIFY`, `REMOVE`, `EXPIRE` or `SNAPSHOT` |
//! | `_changed_at` | timestamp | when the change was made, or the item read; null if nobody said |
//! | `_rescued` | string | JSON: the values that fit no column, by column, as DynamoDB writes them; null if all fit |
//! | `_generation` | int64 | the generation of the model by which the row was made |
//!
//! Types are those that Athena reads without surprises: times are INT64 milliseconds in UTC, decimals are declared, nothing is
//! unsigned, and there is neither INT96 nor a nanosecond.

use std::sync::Arc;

use afterwrite::table::{Column, ColumnType, Dataset, Model};
use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::properties::{
    EnabledStatistics, WriterProperties, WriterPropertiesBuilder, WriterVersion,
};
use parquet::schema::types::ColumnPath;
use sha2::{Digest as _, Sha256};

/// Where the change stands among its item's changes.
pub const POSITION: &str = "_position";
/// What was done.
pub const OPERATION: &str = "_operation";
/// When it was done.
pub const CHANGED_AT: &str = "_changed_at";
/// What fits no column.
pub const RESCUED: &str = "_rescued";
/// By which generation of the model the row was made: of two rows of the same change, that of the later one counts.
pub const GENERATION: &str = "_generation";

/// UTC, as an offset: its name would need a list of all time zones to be read.
const UTC: &str = "+00:00";

/// The schema of a dataset's files: the model's columns in the model's order, then our own.
#[must_use]
pub fn schema(dataset: &Dataset) -> SchemaRef {
    let columns =
        dataset.columns.iter().map(|column| Field::new(&*column.name, data_type(&column.column_type), true));
    let own = [
        Field::new(POSITION, DataType::Utf8, false),
        Field::new(OPERATION, DataType::Utf8, false),
        Field::new(CHANGED_AT, data_type(&ColumnType::Timestamp), true),
        Field::new(RESCUED, DataType::Utf8, true),
        Field::new(GENERATION, DataType::Int64, true),
    ];
    Arc::new(Schema::new(columns.chain(own).collect::<Vec<_>>()))
}

/// The Arrow type of a column.
#[must_use]
pub fn data_type(column_type: &ColumnType) -> DataType {
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
        ColumnType::Map(value) => {
            let entries = Fields::from(vec![
                Field::new("key", DataType::Utf8, false),
                Field::new("value", data_type(value), true),
            ]);
            let entries = Field::new("key_value", DataType::Struct(entries), false);
            DataType::Map(Arc::new(entries), false)
        }
        ColumnType::Struct(members) => DataType::Struct(member_fields(members)),
    }
}

/// The elements of a list, under the name that Parquet gives them.
pub(crate) fn element_field(element: &ColumnType) -> Field {
    Field::new("element", data_type(element), true)
}

pub(crate) fn member_fields(members: &[(Arc<str>, ColumnType)]) -> Fields {
    members.iter().map(|(name, member)| Field::new(&**name, data_type(member), true)).collect()
}

/// Changes whenever the model's generation or the columns of a dataset do: after a corrected model everything can be exported
/// again, under other keys.
#[must_use]
pub fn fingerprint(model: &Model, dataset: &Dataset) -> String {
    let mut hash = Sha256::new();
    hash.update(format!("{}\n", model.generation));
    for column in &dataset.columns {
        let Column { name, column_type, source, required, .. } = column;
        hash.update(format!("{name} {column_type} {source} {required}\n"));
    }
    hash.update(format!("{} {:?}", dataset.partition_source, dataset.days));
    hex(&hash.finalize(), 4)
}

/// The first bytes of a hash, as text.
pub(crate) fn hex(hash: &[u8], bytes: usize) -> String {
    hash.iter().take(bytes).map(|byte| format!("{byte:02x}")).collect()
}

/// Bytes of a column's different values up to which they are written as a dictionary. With more of them, what the dictionary saves
/// is spent on naming its entries.
const DICTIONARY: usize = 16 * 1024;

/// How files are written: ZSTD, statistics for each page, so that readers can skip. Positions are all different, so they make no
/// dictionary; but each begins like the one before, and is written as what differs. Athena (Trino), Spark, DuckDB and Arrow read that.
#[must_use]
pub fn writer_properties() -> WriterPropertiesBuilder {
    WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_1_0)
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_statistics_enabled(EnabledStatistics::Page)
        .set_dictionary_page_size_limit(DICTIONARY)
        .set_column_dictionary_enabled(ColumnPath::from(POSITION), false)
        .set_column_encoding(ColumnPath::from(POSITION), Encoding::DELTA_BYTE_ARRAY)
        .set_max_row_group_row_count(Some(1_000_000))
}
