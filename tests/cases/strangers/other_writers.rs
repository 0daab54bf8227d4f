//! F1. Files and commits of other writers of Delta tables.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use afterwrite_datasets::compact::{CompactionOptions, DatasetCompactor};
use afterwrite_memory::MemoryObjects;
use afterwrite_model::record::Timestamp;
use afterwrite_model::table::Model;
use afterwrite_services::ObjectStore as _;
use afterwrite_tests::change_record::stream_record;
use afterwrite_tests::clock::StillClock;
use afterwrite_tests::datasets::{TextRow, bucket_folder, export, gzip, rows_of};
use afterwrite_tests::python;
use arrow_array::{ArrayRef, RecordBatch};
use arrow_cast::cast;
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{BrotliLevel, Compression, GzipLevel, ZstdLevel};
use parquet::file::properties::WriterProperties;
use serde_json::{Value, json};

const MODEL: &str = r#"
name = "shop"
generation = 1
[tables.orders]
key = ["PK"]
[entities.order]
key = { PK = "ORDER#{id}" }
attributes = { at = "S", paid_at = "S", price = "N", tags = "L", sizes = "M", address = "M", gift = "BOOL" }
[datasets.orders]
of = "order"
partition = "at:day"
sort = ["price"]
[datasets.orders.columns]
at = "timestamp"
paid_at = "timestamp"
price = "decimal(10,2)"
tags = "list<string>"
sizes = "map<int64>"
address = "struct<city: string, seen: timestamp>"
gift = "boolean"
"#;

fn model() -> Arc<Model> {
    Arc::new(Model::parse(MODEL, "shop.toml").unwrap())
}

/// An archive object with the changes of these orders; `round` is the part of the position that grows.
fn object(orders: std::ops::Range<u64>, round: u64) -> Vec<u8> {
    let mut text = String::new();
    for order in orders {
        let is_removed = order % 7 == 0 && round > 1;
        let at = format!("2026-02-{:02}T0{}:00:00.123Z", 1 + order % 3, order % 10);
        let image = json!({
            "PK": { "S": format!("ORDER#{order}") }, "at": { "S": at }, "price": { "N": format!("{order}.{round}") },
            // Times that INT96 as nanoseconds cannot have.
            "paid_at": if order % 2 == 0 { json!({ "S": "0001-01-02T00:00:00.500Z" }) } else { json!({ "NULL": true }) },
            "tags": { "L": [{ "S": "a" }, { "NULL": true }, { "S": format!("r{round}") }] },
            "sizes": { "M": { "s": { "N": "1" }, "l": { "N": format!("{round}") } } },
            "address": { "M": { "city": { "S": "Ulm" }, "seen": { "S": "9998-12-31T23:59:59.999Z" } } },
            "gift": { "BOOL": order % 2 == 0 },
        });
        let number = format!("{:021}", 100 + round);
        let stream = "arn:aws:dynamodb:eu-central-1:1:table/orders/stream/2026-01-01T00:00:00.000";
        let new = (!is_removed).then_some(&image);
        let change = (number.as_str(), 1_770_000_000 + i64::try_from(round).unwrap());
        let record = stream_record(stream, &["PK"], change, (Some(&image), new));
        text.push_str(&record.to_string());
        text.push('\n');
    }
    gzip(&text)
}

async fn export_round(model: &Arc<Model>, bucket: &Arc<MemoryObjects>, round: u64) {
    let objects = [(0..20, "a"), (20..40, "b"), (10..30, "c")].map(|(orders, part)| {
        (format!("archive/dt=2026-02-01/hh=00/{round}{part}.gz"), object(orders, round))
    });
    export(model, bucket, &BTreeMap::from(objects)).await;
}

async fn compact(model: &Arc<Model>, bucket: &Arc<MemoryObjects>) {
    let clock = StillClock::at(Timestamp::from_epoch_seconds(10));
    let compactor =
        DatasetCompactor::new(Arc::clone(model), Arc::clone(bucket), CompactionOptions::default(), clock);
    compactor.compact(None, None).await.unwrap();
}

/// The rows of the files that a table's log has, by its commits.
fn rows(bucket: &MemoryObjects, table: &str) -> Vec<TextRow> {
    let objects = bucket.objects();
    let mut files = BTreeMap::new();
    for (_, commit) in objects.iter().filter(|(key, _)| is_commit(key, table)) {
        for line in String::from_utf8(commit.clone()).unwrap().lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            if let Some(path) = line["remove"]["path"].as_str() {
                files.remove(path);
            }
            if let Some(path) = line["add"]["path"].as_str() {
                let key = format!("datasets/{table}/{}", path.replace("%20", " "));
                files.insert(path.to_owned(), objects[&key].clone());
            }
        }
    }
    let mut rows: Vec<TextRow> = files.into_values().flat_map(rows_of).collect();
    rows.sort();
    if table.ends_with("_log") {
        // Copies of a row stay until they are packed together.
        rows.dedup();
    }
    rows
}

fn is_commit(key: &str, table: &str) -> bool {
    key.starts_with(&format!("datasets/{table}/_delta_log/")) && key.ends_with(".json")
}

/// Replaces the datasets of a bucket by the files of a folder.
async fn replace_datasets(folder: &Path) -> Arc<MemoryObjects> {
    let bucket = Arc::new(MemoryObjects::default());
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let key = path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
            bucket.put(&key, fs::read(&path).unwrap()).await.unwrap();
        }
    }
    bucket
}

/// Another program rewrites both tables between two exports: the rows are those of a table that nobody has rewritten.
async fn tables_survive(how: &str, also_current: bool) {
    let (model, plain, mut touched) = (model(), Arc::default(), Arc::default());
    for bucket in [&plain, &touched] {
        export_round(&model, bucket, 1).await;
        if also_current {
            compact(&model, bucket).await;
        }
        export_round(&model, bucket, 2).await;
    }
    let folder = bucket_folder(&touched);
    let mut script = python::script("cases/strangers/optimize.py");
    script.args([how]).arg(folder.path().join("datasets/orders_log"));
    if also_current {
        script.arg(folder.path().join("datasets/orders"));
    }
    assert!(script.status().unwrap().success(), "the tables are rewritten");
    touched = replace_datasets(folder.path()).await;
    for bucket in [&plain, &touched] {
        compact(&model, bucket).await;
        export_round(&model, bucket, 3).await;
        compact(&model, bucket).await;
    }
    if how == "checkpoint" {
        // The commits before the checkpoint are gone: deltalake reads both tables.
        let folder = bucket_folder(&touched);
        let mut script = python::script("cases/strangers/optimize.py");
        script.args(["compact"]).arg(folder.path().join("datasets/orders"));
        assert!(script.status().unwrap().success(), "deltalake reads the table");
    } else {
        assert_eq!(rows(&touched, "orders_log"), rows(&plain, "orders_log"));
        assert!(!rows(&plain, "orders").is_empty());
        assert_eq!(rows(&touched, "orders"), rows(&plain, "orders"));
    }
}

#[tokio::test]
#[ignore = "needs deltalake: run tests/run"]
async fn f1_tables_that_deltalake_has_compacted_are_compacted() {
    tables_survive("compact", false).await;
    tables_survive("compact", true).await;
}

#[tokio::test]
#[ignore = "needs deltalake: run tests/run"]
async fn f1_tables_in_another_order_of_rows_are_compacted() {
    tables_survive("z_order", true).await;
}

#[tokio::test]
#[ignore = "needs deltalake: run tests/run"]
async fn f1_tables_with_the_checkpoints_of_another_writer_are_compacted() {
    tables_survive("checkpoint", true).await;
}

/// A type in the form in which other writers have it.
#[expect(clippy::wildcard_enum_match_arm, reason = "the other types have one form")]
fn other_form(data_type: &DataType) -> DataType {
    let nullable = |field: &Field, name: &str| Field::new(name, other_form(field.data_type()), true);
    match data_type {
        DataType::Timestamp(..) => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        DataType::Utf8 => DataType::LargeUtf8,
        DataType::List(element) => DataType::List(Arc::new(nullable(element, "item"))),
        DataType::Struct(members) => {
            DataType::Struct(members.iter().map(|member| nullable(member, member.name())).collect())
        }
        other => other.clone(),
    }
}

/// The rows of a file, the last row first, as another writer has them.
fn rewritten(file: Vec<u8>, compression: Compression) -> Vec<u8> {
    let reader = ParquetRecordBatchReaderBuilder::try_new(bytes::Bytes::from(file)).unwrap();
    let schema = Arc::clone(reader.schema());
    let fields = schema.fields().iter().rev();
    let fields = fields.map(|field| Field::new(field.name(), other_form(field.data_type()), true));
    let other = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let mut written = Vec::new();
    let properties = WriterProperties::builder().set_compression(compression).build();
    let mut writer = ArrowWriter::try_new(&mut written, Arc::clone(&other), Some(properties)).unwrap();
    let batches: Vec<RecordBatch> = reader.build().unwrap().map(Result::unwrap).collect();
    for batch in batches.iter().rev() {
        for row in (0..batch.num_rows()).rev() {
            let row = batch.slice(row, 1);
            let column = |field: &Field| -> ArrayRef {
                cast(row.column_by_name(field.name()).unwrap(), field.data_type()).unwrap()
            };
            let columns = other.fields().iter().map(|field| column(field));
            writer.write(&RecordBatch::try_new(Arc::clone(&other), columns.collect()).unwrap()).unwrap();
        }
        // A row group of its own.
        writer.flush().unwrap();
    }
    writer.close().unwrap();
    written
}

#[tokio::test]
async fn f1_files_with_nullable_columns_and_microseconds_are_compacted() {
    rewritten_files_survive(Compression::UNCOMPRESSED).await;
}

#[tokio::test]
async fn f1_files_of_every_compression_are_compacted() {
    let levels = [Compression::GZIP(GzipLevel::default()), Compression::BROTLI(BrotliLevel::default())];
    let plain = [Compression::SNAPPY, Compression::LZ4, Compression::LZ4_RAW];
    for compression in levels.into_iter().chain(plain).chain([Compression::ZSTD(ZstdLevel::default())]) {
        rewritten_files_survive(compression).await;
    }
}

/// The programs of this test run have the compressions that the tests need. The deployed functions have those that the workspace names.
#[test]
fn f1_the_functions_are_built_with_every_compression() {
    let workspace = concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml");
    let workspace = fs::read_to_string(workspace).unwrap();
    let parquet = workspace.lines().find(|line| line.starts_with("parquet = ")).unwrap();
    for feature in ["brotli", "flate2-zlib-rs", "lz4", "snap", "zstd"] {
        assert!(parquet.contains(&format!("\"{feature}\"")), "{feature}: {parquet}");
    }
}

/// Another program rewrites the files of the log: the rows are those of a table that nobody has rewritten.
async fn rewritten_files_survive(compression: Compression) {
    let (model, plain, touched) = (model(), Arc::default(), Arc::default());
    for bucket in [&plain, &touched] {
        export_round(&model, bucket, 1).await;
    }
    let log = "datasets/orders_log/";
    let objects = touched.objects();
    let commits = objects.keys().filter(|key| is_commit(key, "orders_log")).count();
    let mut lines = vec![json!({ "commitInfo": { "timestamp": "now", "operation": null, "engineInfo": 7 } })];
    for (key, file) in objects.iter().filter(|(key, _)| key.starts_with(log) && key.ends_with(".parquet")) {
        let (day, _) = key.strip_prefix(log).unwrap().split_once('/').unwrap();
        // Percent-encoded, as the protocol has it.
        let path = format!("{day}/part a-{}", lines.len());
        let (file, encoded) = (rewritten(file.clone(), compression), path.replace(' ', "%20"));
        let values = json!({ "dt": day.strip_prefix("dt=").unwrap() });
        lines.push(json!({ "remove": { "path": key.strip_prefix(log).unwrap(), "dataChange": false, "tags": null } }));
        lines.push(json!({ "add": {
            "path": encoded, "partitionValues": values, "size": file.len(), "modificationTime": 0, "dataChange": false,
            "stats": null, "tags": null, "clusteringProvider": null,
        } }));
        touched.put(&format!("{log}{path}"), file).await.unwrap();
    }
    let commit = lines.iter().map(|line| format!("{line}\n")).collect::<String>();
    touched.put(&format!("{log}_delta_log/{commits:020}.json"), commit.into_bytes()).await.unwrap();
    for bucket in [&plain, &touched] {
        export_round(&model, bucket, 2).await;
        compact(&model, bucket).await;
    }
    assert!(!rows(&plain, "orders").is_empty());
    assert_eq!(rows(&touched, "orders"), rows(&plain, "orders"));
    assert_eq!(rows(&touched, "orders_log"), rows(&plain, "orders_log"));
}

#[tokio::test]
async fn f1_a_damaged_file_is_no_reason_to_remove_the_table() {
    let (model, bucket) = (model(), Arc::default());
    export_round(&model, &bucket, 1).await;
    let file = bucket.objects().into_keys().find(|key| key.ends_with(".parquet")).unwrap();
    bucket.put(&file, b"PAR1".to_vec()).await.unwrap();
    let clock = StillClock::at(Timestamp::from_epoch_seconds(10));
    let compactor =
        DatasetCompactor::new(Arc::clone(&model), Arc::clone(&bucket), CompactionOptions::default(), clock);
    let error = compactor.compact(None, None).await.unwrap_err().to_string();
    assert!(error.contains("Restore the object") && error.contains("Keep the table"), "{error}");
}

#[tokio::test]
async fn f1_a_log_without_a_beginning_is_not_taken_for_a_new_table() {
    let (model, bucket) = (model(), Arc::default());
    for round in 1..4 {
        export_round(&model, &bucket, round).await;
    }
    let other = Arc::new(MemoryObjects::default());
    let first = format!("datasets/orders_log/_delta_log/{:020}.json", 0);
    for (key, body) in bucket.objects().into_iter().filter(|(key, _)| *key != first) {
        other.put(&key, body).await.unwrap();
    }
    let clock = StillClock::at(Timestamp::from_epoch_seconds(10));
    let compactor =
        DatasetCompactor::new(Arc::clone(&model), Arc::clone(&other), CompactionOptions::default(), clock);
    let error = compactor.compact(None, None).await.unwrap_err().to_string();
    assert!(error.contains("has no beginning"), "{error}");
    assert!(!other.objects().contains_key(&first));
}

#[test]
fn f2_the_pages_say_which_engines_were_tried_and_which_cannot() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/DATASETS.md");
    let page = fs::read_to_string(page).unwrap();
    let section = page.split_once("## Query engines").unwrap().1;
    let section = section.split_once("\n## ").unwrap().0;
    let state = |engine: &str| {
        let row = section.lines().find(|line| line.starts_with("| ") && line.contains(engine));
        row.and_then(|row| row.split('|').nth(3)).unwrap_or_else(|| panic!("{engine} has no row")).to_owned()
    };
    for tried in ["DuckDB", "deltalake", "DataFusion"] {
        assert!(state(tried).contains("every test run"), "{tried}");
    }
    for untried in ["Spark", "Athena", "Trino"] {
        assert!(state(untried).contains("not"), "{untried}");
    }
    for unable in ["Redshift Spectrum", "lists Parquet files"] {
        assert!(state(unable).contains("**cannot**"), "{unable}");
    }
    assert!(state("Redshift Spectrum").contains("_symlink_format_manifest"));
    // No other page promises every engine.
    for other in [
        "README.md",
        "infra/README.md",
        "docs/EVALUATE.md",
        "docs/ARCHITECTURE.md",
        "docs/MODEL.md",
        "docs/COOKBOOK.md",
    ] {
        let text = fs::read_to_string(format!("{}/../{other}", env!("CARGO_MANIFEST_DIR"))).unwrap();
        assert!(!text.to_lowercase().contains("any engine"), "{other}");
    }
}
