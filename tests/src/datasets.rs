//! Datasets to test with: an archive as Firehose delivers it, exported into a bucket, and the rows of its files.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::sync::Arc;

use afterwrite_datasets::export::{ArchiveExporter, ExportTotals};
use afterwrite_ledger::RememberedLookups;
use afterwrite_memory::{MemoryObjects, MemoryTables, TableDefinition};
use afterwrite_model::record::{AttributeValue, Timestamp};
use afterwrite_model::table::Model;
use afterwrite_services::ObjectStore as _;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use tempfile::TempDir;

use crate::clock::StillClock;
use crate::recording::StreamRecording;
use crate::state_stream::table_names;

/// A row as text, by column, without nulls.
pub type TextRow = BTreeMap<String, String>;

/// The archive of a recording, with the duplicates that Firehose and retries may cause: objects of `lines` lines, each of which repeats
/// the last line of the object before it; every fifth object twice; and the first third of all lines again at the end.
#[must_use]
pub fn archive_objects(recording: &StreamRecording, lines: usize) -> BTreeMap<String, Vec<u8>> {
    let records: Vec<&str> = recording.records().map(|record| record.get()).collect();
    let mut objects = BTreeMap::new();
    let key =
        |number| format!("archive/dt=2026-02-{:02}/hh={:02}/{number:05}.gz", 1 + number % 28, number % 24);
    let mut add = |number: usize, lines: &[&str]| {
        objects.insert(key(number), gzip(&(lines.join("\n") + "\n")));
    };
    let chunks: Vec<&[&str]> = records.chunks(lines).collect();
    for (number, chunk) in chunks.iter().enumerate() {
        let overlap = chunks.get(number.wrapping_sub(1)).and_then(|before| before.last());
        let chunk: Vec<&str> = overlap.into_iter().chain(*chunk).copied().collect();
        add(number, &chunk);
        if number % 5 == 0 {
            add(number + 10_000, &chunk);
        }
    }
    // An old part of the archive, delivered again much later.
    for (number, chunk) in chunks.iter().take(chunks.len() / 3).enumerate() {
        add(number + 20_000, chunk);
    }
    objects
}

/// Text as an object of the archive.
///
/// # Panics
/// If it cannot be compressed.
#[must_use]
pub fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text.as_bytes()).expect("text is compressed");
    encoder.finish().expect("text is compressed")
}

/// Exports objects into a bucket, one after the other.
///
/// # Panics
/// If an object cannot be exported.
pub async fn export(
    model: &Arc<Model>,
    bucket: &Arc<MemoryObjects>,
    objects: &BTreeMap<String, Vec<u8>>,
) -> Vec<ExportTotals> {
    export_remembering(model, bucket, objects, None).await
}

/// Exports objects with remembered lookups: the owner of each of the recording's projects.
///
/// # Panics
/// If an object cannot be exported.
pub async fn export_knowing_owners(
    model: &Arc<Model>,
    bucket: &Arc<MemoryObjects>,
    objects: &BTreeMap<String, Vec<u8>>,
    recording: &StreamRecording,
) -> Vec<ExportTotals> {
    let state = MemoryTables::new();
    state.create_table(TableDefinition::new("state", "PK").sort("SK"));
    for image in recording.last_images() {
        let key = |name: &str| image[name]["S"].as_str().unwrap_or_default().to_owned();
        let (partition, sort) = (key("PK"), key("SK"));
        if let (Some(admin), Some(project)) =
            (partition.strip_prefix("ADMIN#"), sort.strip_prefix("PROJECT#"))
        {
            let gives = AttributeValue::M([("admin_id".into(), AttributeValue::text(admin))].into());
            let lookup = AttributeValue::text(format!("LOOKUP#project_owner#{project}"));
            let item = [("PK", lookup), ("SK", "-".into()), ("gives", gives)];
            state.put("state", item.map(|(name, value)| (name.into(), value)).into()).expect("an item");
        }
    }
    let remembered = RememberedLookups::new(Arc::clone(model), Arc::from("state"), state);
    export_remembering(model, bucket, objects, Some(remembered)).await
}

async fn export_remembering(
    model: &Arc<Model>,
    bucket: &Arc<MemoryObjects>,
    objects: &BTreeMap<String, Vec<u8>>,
    remembered: Option<RememberedLookups<MemoryTables>>,
) -> Vec<ExportTotals> {
    let tables = table_names(model, "state");
    let clock = StillClock::at(Timestamp::from_epoch_seconds(0));
    let deadline = Timestamp::from_epoch_seconds(60);
    let exporter = ArchiveExporter::new(Arc::clone(model), tables, Arc::clone(bucket), remembered, clock);
    let mut tallies = Vec::new();
    for (key, object) in objects {
        bucket.put(key, object.clone()).await.expect("a bucket in memory");
        let mut outcomes = exporter.export(std::slice::from_ref(key), deadline).await;
        tallies.push(outcomes.remove(0).expect("an object of the archive"));
    }
    tallies
}

/// The rows of a Parquet file.
///
/// # Panics
/// If the file cannot be read.
#[must_use]
pub fn rows_of(file: Vec<u8>) -> Vec<TextRow> {
    let reader = ParquetRecordBatchReaderBuilder::try_new(Bytes::from(file)).expect("a Parquet file");
    let options = FormatOptions::default();
    let mut rows = Vec::new();
    for batch in reader.build().expect("a reader") {
        let batch = batch.expect("rows");
        let schema = batch.schema();
        let columns = batch.columns().iter().zip(schema.fields());
        let columns: Vec<_> = columns
            .map(|(column, field)| {
                let formatter = ArrayFormatter::try_new(column, &options).expect("a type with a text format");
                (field.name(), column, formatter)
            })
            .collect();
        for row in 0..batch.num_rows() {
            let present = columns.iter().filter(|(_, column, _)| column.is_valid(row));
            rows.push(
                present
                    .map(|(name, _, formatter)| ((*name).clone(), formatter.value(row).to_string()))
                    .collect(),
            );
        }
    }
    rows
}

/// A folder with the datasets of a bucket, laid out like the bucket.
///
/// # Panics
/// If it cannot be written.
#[must_use]
pub fn bucket_folder(bucket: &MemoryObjects) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for (key, object) in bucket.objects().iter().filter(|(key, _)| key.starts_with("datasets/")) {
        let path = folder.path().join(key);
        fs::create_dir_all(path.parent().expect("a key has a folder")).expect("a folder");
        fs::write(path, object).expect("a file");
    }
    folder
}
