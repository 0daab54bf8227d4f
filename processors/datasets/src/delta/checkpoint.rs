//! Checkpoints: the state of a table as one Parquet file, so that a reader need not read every commit.

use std::sync::{Arc, LazyLock};

use afterwrite_model::record::Timestamp;
use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_services::{Bucket, ObjectBody};
use arrow_array::{Array as _, RecordBatch, StructArray};
use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef};
use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::action::ActionLine;
use super::json_arrow::{array_of, value_at};
use super::log_files::{
    LogFile, checkpoint_key, checkpoint_part_key, commit_key, last_checkpoint_key, log_prefix, unreadable,
};
use super::snapshot::TableSnapshot;
use crate::objects::read_object;

/// How many actions are converted at once.
const BATCH_ROWS: usize = 8 * 1024;

/// The content of `_last_checkpoint`.
#[derive(Debug, Serialize, Deserialize)]
struct LastCheckpoint {
    version: u64,
    /// The number of rows.
    #[serde(default)]
    size: u64,
    /// The number of objects, if another writer has divided the checkpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parts: Option<u64>,
}

/// The columns of a checkpoint.
static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
    let text = |name| Field::new(name, DataType::Utf8, true);
    let long = |name| Field::new(name, DataType::Int64, true);
    let flag = |name| Field::new(name, DataType::Boolean, true);
    let version = |name| Field::new(name, DataType::Int32, true);
    let group = |name, fields: Vec<Field>| Field::new(name, DataType::Struct(Fields::from(fields)), true);
    let columns = vec![
        group("txn", vec![text("appId"), long("version"), long("lastUpdated")]),
        group(
            "add",
            vec![
                text("path"),
                text_map("partitionValues"),
                long("size"),
                long("modificationTime"),
                flag("dataChange"),
                text("stats"),
            ],
        ),
        group(
            "remove",
            vec![
                text("path"),
                long("deletionTimestamp"),
                flag("dataChange"),
                flag("extendedFileMetadata"),
                text_map("partitionValues"),
                long("size"),
            ],
        ),
        group(
            "metaData",
            vec![
                text("id"),
                text("name"),
                group("format", vec![text("provider"), text_map("options")]),
                text("schemaString"),
                Field::new("partitionColumns", DataType::List(Arc::new(text("element"))), true),
                text_map("configuration"),
                long("createdTime"),
            ],
        ),
        group("protocol", vec![version("minReaderVersion"), version("minWriterVersion")]),
    ];
    Arc::new(Schema::new(columns))
});

/// A map from texts to texts.
fn text_map(name: &str) -> Field {
    let entry = vec![Field::new("key", DataType::Utf8, false), Field::new("value", DataType::Utf8, true)];
    let entries = Field::new("key_value", DataType::Struct(Fields::from(entry)), false);
    Field::new(name, DataType::Map(Arc::new(entries), false), true)
}

/// Writes the checkpoint of a snapshot, and names it in `_last_checkpoint`. Writing it twice changes nothing.
pub(super) async fn write_checkpoint<B: Bucket>(
    bucket: &B,
    root: &str,
    snapshot: &TableSnapshot,
    now: Timestamp,
) -> Result<()> {
    let Some(version) = snapshot.version() else { return Ok(()) };
    let key = checkpoint_key(root, version);
    let lines = snapshot.checkpoint_lines(now);
    let file = encode(&lines).map_err(|error| unreadable(&key, error))?;
    bucket.put_new(&key, ObjectBody::Bytes(Bytes::from(file))).await?;
    let size = u64::try_from(lines.len()).unwrap_or(u64::MAX);
    let named = serde_json::to_vec(&LastCheckpoint { version, size, parts: None });
    bucket.put(&last_checkpoint_key(root), named.map_err(|error| unreadable(&key, error))?).await
}

type EncodingError = Box<dyn std::error::Error + Send + Sync>;

fn encode(lines: &[ActionLine]) -> Result<Vec<u8>, EncodingError> {
    let properties = WriterProperties::builder().set_compression(Compression::ZSTD(ZstdLevel::default()));
    let mut writer = ArrowWriter::try_new(Vec::new(), Arc::clone(&SCHEMA), Some(properties.build()))?;
    for chunk in lines.chunks(BATCH_ROWS) {
        let values = chunk.iter().map(serde_json::to_value).collect::<Result<Vec<Value>, _>>()?;
        let values: Vec<&Value> = values.iter().collect();
        let actions = array_of(&DataType::Struct(SCHEMA.fields().clone()), &values)?;
        writer.write(&RecordBatch::from(arrow_array::cast::as_struct_array(&actions)))?;
    }
    Ok(writer.into_inner()?)
}

fn decode(file: Bytes) -> Result<Vec<ActionLine>, EncodingError> {
    // The Arrow schema that other writers embed has other forms of the same types.
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let reader = ParquetRecordBatchReaderBuilder::try_new_with_options(file, options)?;
    let reader = reader.with_batch_size(BATCH_ROWS).build()?;
    let mut lines = Vec::new();
    for batch in reader {
        let batch = StructArray::from(batch?);
        for row in 0..batch.len() {
            lines.push(serde_json::from_value(value_at(&batch, row))?);
        }
    }
    Ok(lines)
}

/// The snapshot of the newest checkpoint that can be found; `None` without a checkpoint.
///
/// `_last_checkpoint` names one. If it does not exist, cannot be read, or names one that was removed, the list of the log has the newest: so a table
/// is never taken for a new one because a pointer is missing. The list also decides if no commit follows the named checkpoint. Then a writer may
/// have written a later checkpoint and stopped before it named that checkpoint, and another writer may have removed the commits between both.
/// The version after the old checkpoint would be free, and a commit with this version would be lost.
///
/// # Errors
/// `State` if commits are missing and no readable checkpoint contains them.
pub(super) async fn newest_checkpoint<B: Bucket>(bucket: &B, root: &str) -> Result<Option<TableSnapshot>> {
    let key = last_checkpoint_key(root);
    let named = read_object(bucket, &key).await?;
    if let Some(named) = named.and_then(|named| serde_json::from_slice::<LastCheckpoint>(&named).ok()) {
        let next = commit_key(root, named.version.saturating_add(1));
        if read_object(bucket, &next).await?.is_some() {
            let snapshot = read_checkpoint(bucket, root, named.version, named.parts).await?;
            if snapshot.is_some() {
                return Ok(snapshot);
            }
        }
    }
    let listed = bucket.list(&log_prefix(root)).await?;
    let files: Vec<LogFile> = listed.iter().filter_map(|object| LogFile::of(root, &object.key)).collect();
    let mut checkpoints: Vec<(u64, Option<u64>)> = files.iter().filter_map(checkpoint_of).collect();
    checkpoints.sort_unstable();
    checkpoints.dedup();
    for (version, parts) in checkpoints.into_iter().rev() {
        let snapshot = read_checkpoint(bucket, root, version, parts).await?;
        if snapshot.is_some() {
            refuse_missing_commits(bucket, root, &files, version.saturating_add(1)).await?;
            return Ok(snapshot);
        }
    }
    refuse_missing_commits(bucket, root, &files, 0).await?;
    Ok(None)
}

/// The version and the parts of a checkpoint.
fn checkpoint_of(file: &LogFile) -> Option<(u64, Option<u64>)> {
    match *file {
        LogFile::Checkpoint(version) => Some((version, None)),
        LogFile::CheckpointPart(version, parts) => Some((version, Some(parts))),
        LogFile::Commit(_) | LogFile::LaterCheckpoint(_) => None,
    }
}

/// A log goes on with the version after its checkpoint, and begins at version 0 without one. A table of which commits were removed must neither be
/// taken for a new one nor for that of its checkpoint.
async fn refuse_missing_commits<B: Bucket>(
    bucket: &B,
    root: &str,
    files: &[LogFile],
    next: u64,
) -> Result<()> {
    let commits = files.iter().filter_map(|file| match *file {
        LogFile::Commit(version) => Some(version),
        LogFile::Checkpoint(_) | LogFile::CheckpointPart(..) | LogFile::LaterCheckpoint(_) => None,
    });
    let later = files.iter().filter_map(|file| match *file {
        LogFile::LaterCheckpoint(version) => Some(version),
        LogFile::Checkpoint(_) | LogFile::CheckpointPart(..) | LogFile::Commit(_) => None,
    });
    let first = commits.chain(later).filter(|version| *version >= next).min();
    let Some(first) = first.filter(|first| *first > next) else { return Ok(()) };
    // A list of many pages may lack a commit that was written meanwhile.
    if read_object(bucket, &commit_key(root, next)).await?.is_some() {
        return Ok(());
    }
    if files.iter().any(|file| matches!(file, LogFile::LaterCheckpoint(version) if *version >= next)) {
        return Err(Error::new(ErrorKind::State, "the log of a table needs a checkpoint of a later form (v2)")
            .with("table", root)
            .with("first version", first.to_string())
            .hint("Another program has raised the table's protocol. Afterwrite supports reader version 1 and writer version 2: enable no table features on its tables, and restore the log from versions of the bucket"));
    }
    let message =
        if next == 0 { "the log of a table has no beginning" } else { "the log of a table has a gap" };
    Err(Error::new(ErrorKind::State, message)
        .with("table", root)
        .with("first version", first.to_string())
        .hint("Commits were removed, and no readable checkpoint contains them. Restore the checkpoint from a version of the bucket or from a backup"))
}

/// The snapshot of a checkpoint, which is one object or has this number of parts; `None` if an object of it does not exist.
async fn read_checkpoint<B: Bucket>(
    bucket: &B,
    root: &str,
    version: u64,
    parts: Option<u64>,
) -> Result<Option<TableSnapshot>> {
    let keys = match parts {
        None => vec![checkpoint_key(root, version)],
        Some(parts) => (1..=parts).map(|part| checkpoint_part_key(root, version, (part, parts))).collect(),
    };
    let mut snapshot = TableSnapshot::default();
    for key in keys {
        let Some(file) = read_object(bucket, &key).await? else { return Ok(None) };
        let lines = decode(file).map_err(|error| unreadable(&key, error))?;
        snapshot.apply(version, lines).map_err(|error| error.with("object", key))?;
    }
    Ok(Some(snapshot))
}
