//! The columns of a dataset's files, and how the files are written as Parquet.
//!
//! | column | type | meaning |
//! |---|---|---|
//! | the model's columns | as declared in the model | nullable |
//! | `_position` | string | position of the change among the changes of its item; compares as text |
//! | `_operation` | string | `INSERT`, `MODIFY`, `REMOVE`, `EXPIRE` or `SNAPSHOT` |
//! | `_changed_at` | timestamp | time of the change, or of the reading of a snapshot; null if unknown |
//! | `_rescued` | string | JSON: values that do not fit their columns, by column, in DynamoDB's JSON; null if all values fit |
//! | `_generation` | int64 | generation of the model that made the row: of two rows of one change, the row with the greater generation counts |

use std::sync::Arc;
use std::time::Duration;

use afterwrite_model::table::{Column, ColumnType, Dataset, Model, TimeReading};
use arrow_schema::{Field, Schema, SchemaRef};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::properties::{
    EnabledStatistics, WriterProperties, WriterPropertiesBuilder, WriterVersion,
};
use parquet::schema::types::ColumnPath;
use sha2::{Digest as _, Sha256};

use crate::column_type::arrow_type;
use afterwrite_model::hex;

pub(crate) const POSITION: &str = "_position";
pub(crate) const OPERATION: &str = "_operation";
pub(crate) const CHANGED_AT: &str = "_changed_at";
pub(crate) const RESCUED: &str = "_rescued";
pub(crate) const GENERATION: &str = "_generation";

/// The columns that follow the model's in every file: name, type, and whether it may be null.
pub(crate) const COMMON_COLUMNS: [(&str, ColumnType, bool); 5] = [
    (POSITION, ColumnType::String, false),
    (OPERATION, ColumnType::String, false),
    (CHANGED_AT, ColumnType::Timestamp, true),
    (RESCUED, ColumnType::String, true),
    (GENERATION, ColumnType::Int64, true),
];

/// How many minutes after a change a snapshot must have been read to be sure to include the change: a record's time is approximate.
pub(crate) const SNAPSHOT_LAG_MINUTES: i64 = 15;
/// The same as a duration: a snapshot wins over rows of the stream that are older than its reading by this much.
pub const SNAPSHOT_LAG: Duration = Duration::from_secs(SNAPSHOT_LAG_MINUTES.unsigned_abs() * 60);

/// The schema of a dataset's files: the model's columns in the model's order, then the columns that every row has.
#[must_use]
pub fn arrow_schema(dataset: &Dataset) -> SchemaRef {
    let columns =
        dataset.columns.iter().map(|column| Field::new(&*column.name, arrow_type(&column.column_type), true));
    let common = COMMON_COLUMNS.iter();
    let common =
        common.map(|(name, column_type, nullable)| Field::new(*name, arrow_type(column_type), *nullable));
    Arc::new(Schema::new(columns.chain(common).collect::<Vec<_>>()))
}

/// A hash of the model's generation, the dataset's columns and partition, and the conditions on its items. After any of them has changed,
/// everything can be exported again under other keys.
pub(crate) fn fingerprint(model: &Model, dataset: &Dataset) -> String {
    let mut hash = Sha256::new();
    hash.update(format!("{}\n", model.generation));
    for column in &dataset.columns {
        let Column { name, column_type, source, required, reading, .. } = column;
        hash.update(format!("{name} {column_type} {source} {required}\n"));
        hash_reading(&mut hash, *reading);
    }
    hash.update(&*dataset.partition_source);
    let entity = model.entities.get(dataset.of).map(|entity| entity.describe(model, dataset.of));
    let conditions = [dataset.describe(model).when, entity.and_then(|entity| entity.when)];
    for condition in conditions.into_iter().flatten() {
        hash.update(format!("\n{condition}"));
    }
    if let Some(format) = dataset.partition.1.time() {
        hash_reading(&mut hash, format.reading);
    }
    hex(&hash.finalize(), 4)
}

fn hash_reading(hash: &mut Sha256, reading: TimeReading) {
    if reading.is_declared() {
        hash.update(format!("read as {reading}\n"));
    }
}

/// A hash of the fingerprints of all datasets of a model.
#[must_use]
pub fn model_fingerprint(model: &Model) -> String {
    let mut hash = Sha256::new();
    for dataset in &model.datasets {
        hash.update(format!("{} {}\n", dataset.name, fingerprint(model, dataset)));
    }
    hex(&hash.finalize(), 4)
}

/// The maximum size of a column's dictionary, in bytes. With more distinct values, a dictionary saves less than its indexes cost.
const DICTIONARY_BYTES: usize = 16 * 1024;

/// How files are written: ZSTD, and statistics for each page, so that readers can skip pages. Positions are all different and mostly
/// begin like the one before: they have no dictionary, and are written as differences (`DELTA_BYTE_ARRAY`). Athena (Trino), Spark,
/// DuckDB and Arrow read that encoding.
pub(crate) fn writer_properties() -> WriterPropertiesBuilder {
    WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_1_0)
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_statistics_enabled(EnabledStatistics::Page)
        .set_dictionary_page_size_limit(DICTIONARY_BYTES)
        .set_column_dictionary_enabled(ColumnPath::from(POSITION), false)
        .set_column_encoding(ColumnPath::from(POSITION), Encoding::DELTA_BYTE_ARRAY)
        .set_max_row_group_row_count(Some(1_000_000))
}
