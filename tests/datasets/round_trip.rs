//! Every item once, in its newest state, field by field, whatever the archive holds twice.

use std::collections::BTreeMap;
use std::sync::Arc;

use afterwrite::table::Model;
use afterwrite_memory::MemoryObjects;
use afterwrite_tests::datasets::{
    Row, archive_objects, bucket_folder, duckdb, export, export_knowing_owners, rows_of,
};
use afterwrite_tests::recording::Recording;
use serde_json::Value;

/// A dataset by its name, the beginnings of its items' keys, and the attributes that are its columns.
type Dataset = (&'static str, &'static str, &'static str, &'static [&'static str]);

const DATASETS: [Dataset; 5] = [
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

/// An attribute value as rows show it.
fn shown(value: &Value) -> String {
    let (kind, value) = value.as_object().unwrap().iter().next().unwrap();
    match (kind.as_str(), value) {
        ("L", Value::Array(elements)) => list(elements.iter().map(shown)),
        (_, Value::String(text)) => text.clone(),
        (_, other) => other.to_string(),
    }
}

fn list(elements: impl Iterator<Item = String>) -> String {
    format!("[{}]", elements.collect::<Vec<_>>().join(", "))
}

/// What an item looks like as a row, or `None` if it is of another dataset.
fn as_row(item: &Value, (_, partition, sort, columns): &Dataset) -> Option<Row> {
    let key = |name: &str| item[name]["S"].as_str().unwrap_or_default();
    let is_its = key("PK").starts_with(partition) && key("SK").starts_with(sort);
    let held = columns.iter().filter_map(|name| Some(((*name).to_owned(), shown(item.get(*name)?))));
    is_its.then(|| held.collect())
}

/// The items that are to be seen: the table's, and those that time to live took, as they last were.
fn expected(recording: &Recording) -> Vec<Value> {
    let mut items: BTreeMap<String, Value> = BTreeMap::new();
    for record in recording.records() {
        let mut record: Value = serde_json::from_str(record.get()).unwrap();
        let has_expired = record["userIdentity"]["principalId"] == "dynamodb.amazonaws.com";
        let change = &mut record["dynamodb"];
        let key = change["Keys"].to_string();
        match change.get_mut("NewImage") {
            Some(image) => _ = items.insert(key, image.take()),
            None if has_expired => _ = items.insert(key, change["OldImage"].take()),
            None => _ = items.remove(&key),
        }
    }
    items.into_values().collect()
}

/// The items of a dataset, as rows.
fn wanted(items: &[Value], dataset: &Dataset) -> Vec<Row> {
    items.iter().filter_map(|item| as_row(item, dataset)).collect()
}

/// Each wanted row once, in whatever order, and none beside them.
fn assert_shows(name: &str, mut found: Vec<Row>, mut wanted: Vec<Row>) {
    for row in &mut found {
        // What a row says of itself is none of the item's.
        row.retain(|name, _| name != "dt" && !name.starts_with('_'));
    }
    wanted.sort();
    found.sort();
    assert!(!wanted.is_empty());
    assert_eq!(found.len(), wanted.len(), "{name}");
    for (found, wanted) in found.iter().zip(&wanted) {
        assert_eq!(found, wanted, "{name}");
    }
}

/// The newest row of every key within its partition, those of deleted items left out.
fn view(bucket: &MemoryObjects, dataset: &str) -> Vec<Row> {
    let mut newest: BTreeMap<(String, Vec<String>), Row> = BTreeMap::new();
    let key: &[&str] = match dataset {
        "attempts" => &["candidate_id", "attempt_id"],
        "answers" => &["attempt_id", "_key_answer_key"],
        "questions" => &["project_id", "question_id"],
        "projects" => &["admin_id", "project_id"],
        _ => &["email"],
    };
    for (name, file) in bucket.objects() {
        let Some(rest) = name.strip_prefix(&format!("datasets/{dataset}/dt=")) else { continue };
        let day = rest.split('/').next().unwrap().to_owned();
        for row in rows_of(file) {
            let key = key.iter().map(|name| row[*name].clone()).collect();
            let held = newest.entry((day.clone(), key)).or_insert_with(|| row.clone());
            if row["_position"] > held["_position"] {
                *held = row;
            }
        }
    }
    newest.into_values().filter(|row| row["_operation"] != "REMOVE").collect()
}

#[tokio::test]
async fn the_newest_rows_are_the_items_field_by_field() {
    let recording = Recording::load("exam-42");
    let model = Arc::new(Model::load("exambuddy").unwrap());
    let items = expected(&recording);
    for lines in [7, 200, 100_000] {
        let bucket = Arc::new(MemoryObjects::default());
        let objects = archive_objects(&recording, lines);
        let tallies = export(&model, &bucket, &objects).await;
        assert!(tallies.iter().all(|tally| (tally.rejected, tally.rescued, tally.unmatched) == (0, 0, 0)));
        for dataset in &DATASETS {
            assert_shows(dataset.0, view(&bucket, dataset.0), wanted(&items, dataset));
        }
    }
}

/// A value of a row of DuckDB's as rows show it.
fn as_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(elements) => list(elements.iter().map(as_text)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => value.to_string(),
    }
}

/// A row of DuckDB's as text.
fn duckdb_row(row: &Value) -> Row {
    let present = row.as_object().unwrap().iter().filter(|(_, value)| !value.is_null());
    present.map(|(name, value)| (name.clone(), as_text(value))).collect()
}

/// Whose each project is, those that were deleted too.
fn owners(recording: &Recording) -> BTreeMap<String, String> {
    let dataset = DATASETS.iter().find(|dataset| dataset.0 == "projects").unwrap();
    let projects = wanted(&recording.last_images(), dataset);
    projects.iter().map(|project| (project["project_id"].clone(), project["admin_id"].clone())).collect()
}

#[tokio::test]
#[ignore = "needs duckdb: run tests/run"]
async fn duckdb_shows_the_items_field_by_field_in_the_checked_in_views() {
    let recording = Recording::load("exam-42");
    let model = Arc::new(Model::load("exambuddy").unwrap());
    let items = expected(&recording);
    let owners = owners(&recording);
    let bucket = Arc::new(MemoryObjects::default());
    export_knowing_owners(&model, &bucket, &archive_objects(&recording, 200), &recording).await;
    let folder = bucket_folder(&bucket);
    let views = duckdb(folder.path(), "exambuddy", &["--views", "--only"]).views;
    assert_eq!(views.len(), DATASETS.len());
    for dataset in &DATASETS {
        let found = views[dataset.0].iter().map(duckdb_row).collect();
        let mut wanted = wanted(&items, dataset);
        if dataset.0 == "attempts" {
            // Of all columns the one that the item does not hold: it is looked up.
            for attempt in &mut wanted {
                let owner = owners[&attempt["project_id"]].clone();
                attempt.insert("admin_id".to_owned(), owner);
            }
        }
        assert_shows(dataset.0, found, wanted);
    }
}
