//! Datasets to test with: an archive as Firehose would have left it, exported into a bucket, and reading files back.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use afterwrite::commit::RememberedLookups;
use afterwrite::record::AttributeValue;
use afterwrite::sink::ObjectStore as _;
use afterwrite::table::Model;
use afterwrite_datasets::export::{Exporter, Tally};
use afterwrite_memory::MemoryObjects;
use afterwrite_memory::{MemoryTables, TableDefinition};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde::Deserialize;
use serde_json::Value;
use tempfile::TempDir;

use crate::recording::Recording;

/// A row as text, by column; nulls are left out.
pub type Row = BTreeMap<String, String>;

/// The archive of a recording as it may well lie in the bucket: objects of so many lines, every fifth of them delivered twice, lines
/// in common with the object before, and the last of them once more at the end.
#[must_use]
pub fn archive_objects(recording: &Recording, lines: usize) -> BTreeMap<String, Vec<u8>> {
    let records: Vec<&str> = recording.records().map(|record| record.get()).collect();
    let mut objects = BTreeMap::new();
    let mut add = |number: usize, lines: &[&str]| {
        let key = format!("archive/dt=2026-02-{:02}/hh={:02}/{number:05}.gz", 1 + number % 28, number % 24);
        objects.insert(key, gzip(&(lines.join("\n") + "\n")));
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
    // A day that was delivered again, long afterwards.
    for (number, chunk) in chunks.iter().take(chunks.len() / 3).enumerate() {
        add(number + 20_000, chunk);
    }
    objects
}

/// Text as an object of the archive.
///
/// # Panics
/// If it cannot be packed.
#[must_use]
pub fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text.as_bytes()).expect("text is packed");
    encoder.finish().expect("text is packed")
}

/// Exports objects into a bucket, one after the other.
///
/// # Panics
/// If one cannot be exported.
pub async fn export(
    model: &Arc<Model>,
    bucket: &Arc<MemoryObjects>,
    objects: &BTreeMap<String, Vec<u8>>,
) -> Vec<Tally> {
    export_remembering(model, bucket, objects, None).await
}

/// The same, by an exporter that finds remembered whose each of the recording's projects is.
///
/// # Panics
/// If one cannot be exported.
pub async fn export_knowing_owners(
    model: &Arc<Model>,
    bucket: &Arc<MemoryObjects>,
    objects: &BTreeMap<String, Vec<u8>>,
    recording: &Recording,
) -> Vec<Tally> {
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
) -> Vec<Tally> {
    let tables = model.tables.iter().map(|table| Arc::clone(&table.name)).collect();
    let exporter = Exporter::new(Arc::clone(model), tables, Arc::clone(bucket), remembered);
    let mut tallies = Vec::new();
    for (key, object) in objects {
        bucket.put(key, object.clone()).await.expect("a bucket in memory");
        tallies.push(exporter.export(key).await.expect("an object of the archive"));
    }
    tallies
}

/// The rows of a Parquet file.
///
/// # Panics
/// If it is none.
#[must_use]
pub fn rows_of(file: Vec<u8>) -> Vec<Row> {
    let reader = ParquetRecordBatchReaderBuilder::try_new(Bytes::from(file)).expect("a Parquet file");
    let options = FormatOptions::default();
    let mut rows = Vec::new();
    for batch in reader.build().expect("a reader") {
        let batch = batch.expect("rows");
        let schema = batch.schema();
        let columns = batch.columns().iter().zip(schema.fields());
        let columns: Vec<_> = columns
            .map(|(column, field)| {
                let shown = ArrayFormatter::try_new(column, &options).expect("a value has a text");
                (field.name(), column, shown)
            })
            .collect();
        for row in 0..batch.num_rows() {
            let present = columns.iter().filter(|(_, column, _)| column.is_valid(row));
            rows.push(
                present.map(|(name, _, shown)| ((*name).clone(), shown.value(row).to_string())).collect(),
            );
        }
    }
    rows
}

/// A folder that is like the bucket: the datasets lie in it as they do there.
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

/// What DuckDB answers, asked through the SQL that is checked in for Athena.
#[derive(Debug, Deserialize)]
pub struct Answers {
    /// The files of SQL that were parsed, by their paths in the model's folder.
    pub statements: Vec<String>,
    /// The rows of each saved query.
    pub queries: BTreeMap<String, Vec<Value>>,
    /// The rows of each view, if they were asked for.
    #[serde(default)]
    pub views: BTreeMap<String, Vec<Value>>,
}

/// Has DuckDB read a built-in model's datasets in a folder that is like the bucket. The options are those of
/// `independent_reader.py`.
///
/// # Panics
/// If Python, DuckDB or sqlglot is not there (run `tests/run`), or it cannot read them.
#[must_use]
pub fn duckdb(folder: &Path, model: &str, options: &[&str]) -> Answers {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let interpreter =
        std::env::var_os("AFTERWRITE_TEST_PYTHON").expect("AFTERWRITE_TEST_PYTHON is set: run tests/run");
    let ran = Command::new(interpreter)
        .arg(root.join("datasets/independent_reader.py"))
        .arg(folder)
        .arg(root.join("../infra/athena").join(model))
        .args(options)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .expect("Python starts");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    serde_json::from_slice(&ran.stdout).expect("its answers")
}
