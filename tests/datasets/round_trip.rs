//! Every item once, in its newest state, field by field, whatever the archive holds twice.

use std::collections::BTreeMap;
use std::sync::Arc;

use afterwrite::sink::s3::MemoryObjects;
use afterwrite::table::Model;
use afterwrite_tests::datasets::{Row, archive_objects, export, rows_of};
use afterwrite_tests::recording::Recording;
use serde_json::Value;

/// A dataset by its name, the beginnings of its items' keys, and the attributes that are its columns.
const DATASETS: [(&str, &str, &str, &[&str]); 5] = [
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
        ("L", Value::Array(elements)) => {
            format!("[{}]", elements.iter().map(shown).collect::<Vec<_>>().join(", "))
        }
        (_, Value::String(text)) => text.clone(),
        (_, other) => other.to_string(),
    }
}

/// What an item looks like as a row, or `None` if it is of another dataset.
fn as_row(item: &Value, (_, partition, sort, columns): &(&str, &str, &str, &[&str])) -> Option<Row> {
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
            let mut wanted: Vec<Row> = items.iter().filter_map(|item| as_row(item, dataset)).collect();
            let mut found = view(&bucket, dataset.0);
            for row in &mut found {
                row.retain(|name, _| !name.starts_with('_'));
            }
            wanted.sort();
            found.sort();
            assert!(!wanted.is_empty());
            assert_eq!(found.len(), wanted.len(), "{}", dataset.0);
            for (found, wanted) in found.iter().zip(&wanted) {
                assert_eq!(found, wanted, "{}", dataset.0);
            }
        }
    }
}
