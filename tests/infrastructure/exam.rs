//! The exam platform in front of a deployment: it writes the recorded items, and knows what must follow from them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use afterwrite_datasets::delta::DeltaTable;
use afterwrite_services::s3::S3Bucket;
use afterwrite_tests::datasets::rows_of;
use afterwrite_tests::recorded_items::{key, measures};
use afterwrite_tests::recording::StreamRecording;
use afterwrite_tests::sdk_items::sdk_item_of_json;
use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::Value;

use super::applied::text;
use super::cloud::LocalCloud;

const RECORDING: &str = "exam-42";
const TTL: &str = "expires_at";

/// Each dataset, the type of its items, and the columns that are attributes of the items.
const DATASETS: [(&str, &str, &[&str]); 5] = [
    (
        "attempts",
        "ATTEMPT",
        &[
            "attempt_id",
            "candidate_id",
            "project_id",
            "status",
            "score",
            "total_questions",
            "time_taken_seconds",
        ],
    ),
    ("answers", "ANSWER", &["answer_id", "attempt_id", "question_id", "selected_answer", "is_correct"]),
    (
        "questions",
        "QUESTION",
        &[
            "question_id",
            "project_id",
            "question_text",
            "question_type",
            "correct_answer",
            "explanation",
            "order",
        ],
    ),
    ("projects", "PROJECT", &["project_id", "admin_id", "title", "description", "archived"]),
    ("users", "USER", &["user_id", "email", "name", "role"]),
];

/// The platform with a recorded history.
pub(crate) struct ExamPlatform {
    pub(crate) recording: StreamRecording,
    records: Vec<Value>,
}

impl ExamPlatform {
    pub(crate) fn recorded() -> Self {
        let recording = StreamRecording::load(RECORDING);
        let records = recording.records().map(|record| serde_json::from_str(record.get()).expect("a record"));
        Self { records: records.collect(), recording }
    }

    /// The change records of the recording.
    pub(crate) fn records(&self) -> &[Value] {
        &self.records
    }

    /// Writes, deletes and expires the items as they were.
    pub(crate) async fn play(&self, cloud: &LocalCloud, table: &str) {
        let client = cloud.dynamodb.client();
        for record in &self.records {
            let change = &record["dynamodb"];
            let delete_key = || sdk_item_of_json(&change["Keys"]);
            if let Some(image) = change.get("NewImage") {
                let mut item = sdk_item_of_json(image);
                item.remove(TTL);
                client.put_item().table_name(table).set_item(Some(item)).send().await.expect("a write");
            } else if record.get("userIdentity").is_some() {
                let update = client.update_item().table_name(table).set_key(Some(delete_key()));
                let expired = AttributeValue::N((jiff::Timestamp::now().as_second() - 60).to_string());
                let update = update
                    .update_expression("SET expires_at = :at")
                    .expression_attribute_values(":at", expired);
                update.send().await.expect("a time to live");
                assert_eq!(cloud.dynamodb.sweep_expired().await.expect("expiries"), 1);
            } else {
                let delete = client.delete_item().table_name(table).set_key(Some(delete_key()));
                delete.send().await.expect("a deletion");
            }
        }
    }

    /// Every rollup and every mirrored count is as expected.
    pub(crate) async fn assert_counted(&self, cloud: &LocalCloud, table: &str, state_table: &str) {
        let mut rollups = BTreeMap::new();
        for item in scan(cloud, state_table).await {
            if item.get("EntityType").and_then(|kind| kind.as_s().ok()).is_some_and(|kind| kind == "ROLLUP") {
                rollups.insert(key(&item), measures(&item));
            }
        }
        rollups.retain(|_, measures| !measures.is_empty());
        let differing = |(key, expected): &(&_, &_)| rollups.get(*key) != Some(*expected);
        let differing: Vec<_> = self.recording.rollups.iter().filter(differing).take(3).collect();
        assert!(differing.is_empty(), "expected {differing:?}");
        assert_eq!(rollups.len(), self.recording.rollups.len(), "rollups that nothing counts into");
        let items: BTreeMap<_, _> =
            scan(cloud, table).await.into_iter().map(|item| (key(&item), item)).collect();
        let mut shown = 0;
        for (key, expected) in &self.recording.mirrored {
            // A project that was deleted shows nothing.
            let Some(item) = items.get(key) else { continue };
            for (attribute, value) in expected {
                let count = item.get(attribute).and_then(|count| count.as_n().ok());
                assert_eq!(count, Some(&value.to_string()), "{attribute} of {key:?}");
            }
            shown += 1;
        }
        let projects = self.recording.items.iter().filter(|item| text(&item["EntityType"]["S"]) == "PROJECT");
        assert_eq!(shown, projects.count(), "projects that show their count");
    }

    /// The current rows of every dataset are the items that exist.
    pub(crate) async fn assert_datasets(&self, cloud: &LocalCloud) {
        for (dataset, kind, columns) in DATASETS {
            let expected: BTreeSet<Vec<String>> =
                self.recording.items.iter().filter_map(|item| row_of(item, kind, columns)).collect();
            assert!(expected.len() > 5, "{} rows of {dataset}", expected.len());
            let rows = current_rows(cloud, dataset, columns).await;
            assert_eq!(rows.len(), expected.len(), "the rows of {dataset}");
            let missing: Vec<_> = expected.iter().filter(|row| !rows.contains(row)).take(3).collect();
            assert!(missing.is_empty(), "{dataset} lacks {missing:?}");
        }
    }

    /// The paths that the changes of projects and questions make stale.
    pub(crate) fn stale_paths(&self) -> BTreeSet<String> {
        let images = self
            .records
            .iter()
            .flat_map(|record| [&record["dynamodb"]["OldImage"], &record["dynamodb"]["NewImage"]]);
        let ids = images.filter_map(|image| {
            let is_listed = matches!(text(&image["EntityType"]["S"]), "PROJECT" | "QUESTION");
            is_listed.then(|| text(&image["project_id"]["S"]))
        });
        ids.flat_map(|id| [format!("/api/projects/{id}"), format!("/api/projects/{id}/*")]).collect()
    }
}

/// All items of a table.
pub(crate) async fn scan(
    cloud: &LocalCloud,
    table: &str,
) -> Vec<std::collections::HashMap<String, AttributeValue>> {
    let client = cloud.dynamodb.client();
    let pages = client.scan().table_name(table).consistent_read(true).into_paginator().items().send();
    pages.collect::<Result<Vec<_>, _>>().await.expect("items")
}

/// The columns of an item of this type, as texts; a column that the item lacks is empty.
fn row_of(item: &Value, kind: &str, columns: &[&str]) -> Option<Vec<String>> {
    let value = |column: &&str| {
        let value = item[*column].as_object().and_then(|value| value.values().next());
        value
            .map_or_else(String::new, |value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
    };
    (text(&item["EntityType"]["S"]) == kind).then(|| columns.iter().map(value).collect())
}

/// The rows of a table of current rows, without those of expired items.
async fn current_rows(cloud: &LocalCloud, dataset: &str, columns: &[&str]) -> Vec<Vec<String>> {
    let bucket = Arc::new(S3Bucket::retrying(cloud.s3.client(), Arc::from(cloud.bucket.as_str())));
    let snapshot = DeltaTable::new(bucket, format!("datasets/{dataset}/")).snapshot().await.expect("a table");
    let mut rows = Vec::new();
    for file in snapshot.files() {
        let content = cloud.object(&format!("datasets/{dataset}/{}", file.path)).await;
        let live = rows_of(content).into_iter().filter(|row| row["_operation"] != "EXPIRE");
        rows.extend(live.map(|row| {
            let value = |column: &&str| row.get(*column).cloned().unwrap_or_default();
            columns.iter().map(value).collect()
        }));
    }
    rows
}
