//! The tables show every item once, in its newest state, field by field, although the archive has duplicates.

use std::collections::BTreeMap;
use std::sync::Arc;

use afterwrite_datasets::compact::{CompactionOptions, DatasetCompactor};
use afterwrite_datasets::delta::DeltaTable;
use afterwrite_datasets::export::missing::{ArchiveRange, archive_objects as objects_to_export};
use afterwrite_memory::MemoryObjects;
use afterwrite_model::record::Timestamp;
use afterwrite_model::table::Model;
use afterwrite_services::ObjectStore as _;
use afterwrite_tests::clock::StillClock;
use afterwrite_tests::datasets::{
    TextRow, archive_objects, bucket_folder, export, export_knowing_owners, gzip, rows_of,
};
use afterwrite_tests::duckdb;
use afterwrite_tests::recording::StreamRecording;
use serde_json::Value;

/// A dataset: its name, the prefixes of its items' keys, and the attributes that are its columns.
type DatasetShape = (&'static str, &'static str, &'static str, &'static [&'static str]);

const DATASETS: [DatasetShape; 5] = [
    (
        "attempts",
        "CANDIDATE#",
        "ATTEMPT#",
        &[
            "attempt_id",
            "candidate_id",
            "project_id",
            "status",
            "started_at",
            "completed_at",
            "score",
            "total_questions",
            "time_taken_seconds",
        ],
    ),
    (
        "answers",
        "ATTEMPT#",
        "ANSWER#",
        &["answer_id", "attempt_id", "question_id", "selected_answer", "is_correct", "answered_at"],
    ),
    (
        "questions",
        "PROJECT#",
        "QUESTION#",
        &[
            "question_id",
            "project_id",
            "question_text",
            "question_type",
            "options",
            "correct_answer",
            "explanation",
            "order",
            "created_at",
        ],
    ),
    (
        "projects",
        "ADMIN#",
        "PROJECT#",
        &[
            "project_id",
            "admin_id",
            "title",
            "description",
            "archived",
            "question_count",
            "created_at",
            "updated_at",
        ],
    ),
    ("users", "USER#", "USER#", &["user_id", "email", "name", "role", "created_at", "updated_at"]),
];

/// The text of an attribute value.
fn attribute_text(value: &Value) -> String {
    let (kind, value) = value.as_object().unwrap().iter().next().unwrap();
    match (kind.as_str(), value) {
        ("L", Value::Array(elements)) => list(elements.iter().map(attribute_text)),
        (_, Value::String(text)) => text.clone(),
        (_, other) => other.to_string(),
    }
}

fn list(elements: impl Iterator<Item = String>) -> String {
    format!("[{}]", elements.collect::<Vec<_>>().join(", "))
}

/// The row of an item; `None` if it is of another dataset.
fn as_row(item: &Value, (_, partition, sort, columns): &DatasetShape) -> Option<TextRow> {
    let key = |name: &str| item[name]["S"].as_str().unwrap_or_default();
    let is_its = key("PK").starts_with(partition) && key("SK").starts_with(sort);
    let values =
        columns.iter().filter_map(|name| Some(((*name).to_owned(), attribute_text(item.get(*name)?))));
    is_its.then(|| values.collect())
}

/// The items that the tables show: those in the application's table, and the last state of every life that time to live ended.
fn expected_items(recording: &StreamRecording) -> Vec<Value> {
    let mut items: BTreeMap<String, Value> = BTreeMap::new();
    let mut expired = Vec::new();
    for record in recording.records() {
        let mut record: Value = serde_json::from_str(record.get()).unwrap();
        let has_expired = record["userIdentity"]["principalId"] == "dynamodb.amazonaws.com";
        let change = &mut record["dynamodb"];
        let key = change["Keys"].to_string();
        match change.get_mut("NewImage") {
            Some(image) => _ = items.insert(key, image.take()),
            None => _ = items.remove(&key),
        }
        if has_expired {
            expired.push(change["OldImage"].take());
        }
    }
    items.into_values().chain(expired).collect()
}

/// The rows of a dataset's items.
fn expected_rows(items: &[Value], dataset: &DatasetShape) -> Vec<TextRow> {
    items.iter().filter_map(|item| as_row(item, dataset)).collect()
}

/// Asserts that exactly these rows were found, in any order.
fn assert_shows(name: &str, mut found: Vec<TextRow>, mut expected: Vec<TextRow>) {
    for row in &mut found {
        // These columns are not the item's.
        row.retain(|name, _| name != "dt" && !name.starts_with('_'));
    }
    expected.sort();
    found.sort();
    assert!(!expected.is_empty());
    assert_eq!(found.len(), expected.len(), "{name}");
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(found, expected, "{name}");
    }
}

/// The newest row of every key within its partition, without deleted items, and every row of an expiry.
fn view(bucket: &MemoryObjects, dataset: &str) -> Vec<TextRow> {
    let mut newest: BTreeMap<(String, Vec<String>), TextRow> = BTreeMap::new();
    let mut expired: BTreeMap<(Vec<String>, String), TextRow> = BTreeMap::new();
    for (name, file) in bucket.objects() {
        let Some(rest) = name.strip_prefix(&format!("datasets/{dataset}_log/dt=")) else { continue };
        let day = rest.split('/').next().unwrap().to_owned();
        for row in rows_of(file) {
            let key = row.iter().filter(|(name, _)| name.starts_with("_key_"));
            let key: Vec<String> = key.map(|(_, value)| value.clone()).collect();
            assert!(!key.is_empty());
            if row["_operation"] == "EXPIRE" {
                expired.insert((key.clone(), row["_position"].clone()), row.clone());
            }
            let latest = newest.entry((day.clone(), key)).or_insert_with(|| row.clone());
            if row["_position"] > latest["_position"] {
                *latest = row;
            }
        }
    }
    let living = newest.into_values().filter(|row| !["REMOVE", "EXPIRE"].contains(&&*row["_operation"]));
    living.chain(expired.into_values()).collect()
}

/// The rows of a table, by its log.
async fn rows_of_table(bucket: &Arc<MemoryObjects>, root: &str) -> Vec<TextRow> {
    let snapshot = DeltaTable::new(Arc::clone(bucket), root).snapshot().await.unwrap();
    let objects = bucket.objects();
    snapshot.files().flat_map(|file| rows_of(objects[&format!("{root}{}", file.path)].clone())).collect()
}

/// Compacts everything.
async fn compact(model: &Arc<Model>, bucket: &Arc<MemoryObjects>) {
    let clock = StillClock::at(Timestamp::from_epoch_seconds(1_772_000_000));
    let options = CompactionOptions::default();
    let compactor = DatasetCompactor::new(Arc::clone(model), Arc::clone(bucket), options, clock);
    compactor.compact(None, None).await.unwrap();
}

#[tokio::test]
async fn the_newest_rows_are_the_items_field_by_field() {
    let recording = StreamRecording::load("exam-42");
    let model = Arc::new(Model::load("exambuddy").unwrap());
    let items = expected_items(&recording);
    for lines in [7, 200, 100_000] {
        let bucket = Arc::new(MemoryObjects::default());
        let objects = archive_objects(&recording, lines);
        let totals = export(&model, &bucket, &objects).await;
        assert!(totals.iter().all(|one| (one.rejected, one.rescued, one.unmatched) == (0, 0, 0)));
        for dataset in &DATASETS {
            assert_shows(dataset.0, view(&bucket, dataset.0), expected_rows(&items, dataset));
        }
        compact(&model, &bucket).await;
        for dataset in &DATASETS {
            let current = rows_of_table(&bucket, &format!("datasets/{}/", dataset.0)).await;
            assert_shows(dataset.0, current, expected_rows(&items, dataset));
        }
    }
}

/// The text of a value in DuckDB's JSON.
fn json_value_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(elements) => list(elements.iter().map(json_value_text)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => value.to_string(),
    }
}

/// A row in DuckDB's JSON as texts.
fn duckdb_row(row: &Value) -> TextRow {
    let present = row.as_object().unwrap().iter().filter(|(_, value)| !value.is_null());
    present.map(|(name, value)| (name.clone(), json_value_text(value))).collect()
}

/// The owner of each project, also of deleted ones.
fn owners(recording: &StreamRecording) -> BTreeMap<String, String> {
    let dataset = DATASETS.iter().find(|dataset| dataset.0 == "projects").unwrap();
    let projects = expected_rows(&recording.last_images(), dataset);
    projects.iter().map(|project| (project["project_id"].clone(), project["admin_id"].clone())).collect()
}

#[tokio::test]
#[ignore = "needs duckdb: run tests/run"]
async fn duckdb_shows_the_items_field_by_field_in_the_checked_in_tables_and_views() {
    let recording = StreamRecording::load("exam-42");
    let model = Arc::new(Model::load("exambuddy").unwrap());
    let items = expected_items(&recording);
    let owners = owners(&recording);
    let bucket = Arc::new(MemoryObjects::default());
    export_knowing_owners(&model, &bucket, &archive_objects(&recording, 200), &recording).await;
    compact(&model, &bucket).await;
    let folder = bucket_folder(&bucket);
    let views = duckdb::read_datasets(folder.path(), "exambuddy", &["--views", "--only"]).views;
    assert_eq!(views.len(), 2 * DATASETS.len());
    for dataset in &DATASETS {
        let mut expected = expected_rows(&items, dataset);
        if dataset.0 == "attempts" {
            // The only column that is not in the item: it is the output of a lookup.
            for attempt in &mut expected {
                let owner = owners[&attempt["project_id"]].clone();
                attempt.insert("admin_id".to_owned(), owner);
            }
        }
        for name in [dataset.0.to_owned(), format!("{}_now", dataset.0)] {
            let found = views[&name].iter().map(duckdb_row).collect();
            assert_shows(&name, found, expected.clone());
        }
    }
}

/// A bucket with one archive object that was exported with 40 lines, and was then rewritten with all lines of a recording and exported
/// again: as a missing object, or in a range of days.
async fn exported_and_rewritten(
    model: &Arc<Model>,
    recording: &StreamRecording,
    range: &ArchiveRange,
    only_missing: bool,
) -> Arc<MemoryObjects> {
    let key = "archive/dt=2026-02-06/hh=14/a.gz";
    let lines: Vec<&str> = recording.records().map(|record| record.get()).collect();
    let bucket = Arc::new(MemoryObjects::default());
    for (hour, lines) in [(1, &lines[..40]), (2, &lines[..])] {
        bucket.set_clock(Timestamp::from_epoch_seconds(hour * 3600));
        let object = gzip(&(lines.join("\n") + "\n"));
        bucket.put(key, object.clone()).await.unwrap();
        let keys = objects_to_export(&bucket, model, range, only_missing).await.unwrap();
        assert_eq!(keys, [key]);
        export(model, &bucket, &BTreeMap::from([(key.to_owned(), object)])).await;
    }
    bucket
}

#[tokio::test]
#[ignore = "needs duckdb: run tests/run"]
async fn the_tables_and_views_have_every_row_of_a_rewritten_object_once() {
    let recording = StreamRecording::load("exam-42");
    let model = Arc::new(Model::load("exambuddy").unwrap());
    let items = expected_items(&recording);
    let days = ArchiveRange { from: Some("2026-02-06".to_owned()), to: None };
    for (range, only_missing) in [(ArchiveRange::default(), true), (days, false)] {
        let bucket = exported_and_rewritten(&model, &recording, &range, only_missing).await;
        for dataset in &DATASETS {
            assert_shows(dataset.0, view(&bucket, dataset.0), expected_rows(&items, dataset));
        }
        compact(&model, &bucket).await;
        let folder = bucket_folder(&bucket);
        let views = duckdb::read_datasets(folder.path(), "exambuddy", &["--views", "--only"]).views;
        for dataset in &DATASETS {
            for name in [dataset.0.to_owned(), format!("{}_now", dataset.0)] {
                let found = views[&name].iter().map(duckdb_row).collect();
                assert_shows(&name, found, expected_rows(&items, dataset));
            }
        }
    }
}
