//! The saved query `question_edits`, which finds edits of questions that changed the rate of correct answers, on histories with
//! known results.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use afterwrite_cli::query::{Layout, Place, run_query};
use afterwrite_datasets::compact::{CompactionOptions, DatasetCompactor};
use afterwrite_datasets::export::ArchiveExporter;
use afterwrite_memory::MemoryTables;
use afterwrite_model::clock::{Clock as _, SystemClock};
use afterwrite_model::table::Model;
use afterwrite_services::ObjectStore as _;
use afterwrite_tests::datasets::gzip;
use afterwrite_tests::duckdb;
use afterwrite_tests::folder_bucket::FolderBucket;
use serde_json::{Value, json};
use tempfile::TempDir;

/// 2026-02-06T00:00:00Z
const MIDNIGHT: u32 = 1_770_336_000;

/// The changes of one project, as archive lines; minutes are of one day.
#[derive(Default)]
struct ProjectHistory {
    lines: String,
    changes: u32,
}

impl ProjectHistory {
    fn change(&mut self, minute: u32, [partition, sort]: [&str; 2], new: &Value, old: Option<&Value>) {
        self.changes += 1;
        let record = json!({
            "eventID": self.changes.to_string(),
            "eventName": if old.is_some() { "MODIFY" } else { "INSERT" },
            "eventSourceARN": "arn:aws:dynamodb:eu-west-1:1:table/ExamBuddyTable/stream/2026-01-01T00:00:00.000",
            "dynamodb": {
                "ApproximateCreationDateTime": MIDNIGHT + 60 * minute,
                "Keys": { "PK": { "S": partition }, "SK": { "S": sort } },
                "NewImage": new, "OldImage": old,
                "SequenceNumber": (1000 + self.changes).to_string(),
            },
        });
        self.lines += &format!("{record}\n");
    }

    /// A question: its text, correct answer and order at each minute.
    fn question(mut self, question: &str, versions: &[(u32, &str, &str, u32)]) -> Self {
        let image = |(_, text, correct, order): &(u32, &str, &str, u32)| {
            json!({
                "question_text": { "S": text }, "correct_answer": { "S": correct }, "order": { "N": order.to_string() },
                "created_at": { "S": "2026-02-06T00:00:00Z" },
            })
        };
        let key = format!("QUESTION#{question}");
        let mut old = None;
        for version in versions {
            let new = image(version);
            self.change(version.0, ["PROJECT#p", &key], &new, old.as_ref());
            old = Some(new);
        }
        self
    }

    /// Answers to a question at this minute: how many are correct and how many are wrong.
    fn answers(mut self, question: &str, minute: u32, correct: u32, wrong: u32) -> Self {
        for number in 0..correct + wrong {
            let key = format!("ANSWER#{question}-{minute}-{number}");
            let new = json!({
                "question_id": { "S": question }, "is_correct": { "BOOL": number < correct },
                "answered_at": { "S": format!("2026-02-06T{:02}:{:02}:00Z", minute / 60, minute % 60) },
            });
            self.change(minute, ["ATTEMPT#a", &key], &new, None);
        }
        self
    }

    /// A folder like the bucket, with the datasets of an archive that was delivered twice.
    async fn exported(&self) -> TempDir {
        let folder = tempfile::tempdir().unwrap();
        let bucket = FolderBucket(folder.path().to_owned());
        let model = Arc::new(Model::load("exambuddy").unwrap());
        let tables = model.tables.iter().map(|table| Arc::clone(&table.name)).collect();
        let exporter: ArchiveExporter<_, MemoryTables, _> =
            ArchiveExporter::new(Arc::clone(&model), tables, bucket.clone(), None, SystemClock);
        for key in ["archive/first.gz", "archive/again.gz"] {
            bucket.put(key, gzip(&self.lines)).await.unwrap();
            let deadline = SystemClock.now().plus(Duration::from_secs(60));
            exporter.export(&[key.to_owned()], deadline).await.remove(0).unwrap();
        }
        let compactor = DatasetCompactor::new(model, bucket, CompactionOptions::default(), SystemClock);
        compactor.compact(None, None).await.unwrap();
        folder
    }

    async fn question_edits(&self) -> Vec<Value> {
        question_edits(self.exported().await.path()).await
    }
}

/// The rows of the query.
async fn question_edits(folder: &Path) -> Vec<Value> {
    let model = Model::load("exambuddy").unwrap();
    let query = model.queries.iter().find(|query| &*query.name == "question_edits").unwrap();
    let place = Place::Folder(folder.to_owned());
    let json = Box::pin(run_query(&model, &place, &query.sql, Layout::Json)).await.unwrap();
    serde_json::from_str(&json).unwrap()
}

/// The question, the minute of the edit, what changed, and the numbers of answers and the rates before and after.
fn edit(row: &Value) -> (&str, &str, [bool; 2], [u64; 2], [f64; 2]) {
    let text = |name: &str| row[name].as_str().unwrap();
    let minute = text("edited_at").get(11..16).unwrap();
    (
        text("question_id"),
        minute,
        ["text_changed", "answer_changed"].map(|name| row[name].as_bool().unwrap()),
        ["answers_before", "answers_after"].map(|name| row[name].as_u64().unwrap()),
        ["correct_rate_before", "correct_rate_after"].map(|name| row[name].as_f64().unwrap()),
    )
}

/// A question that was edited twice, with answers before, between and after.
fn edited_twice() -> ProjectHistory {
    ProjectHistory::default()
        .question("q", &[(0, "Why?", "a", 1), (20, "Why not?", "a", 1), (40, "Why not?", "b", 1)])
        .answers("q", 10, 1, 1)
        .answers("q", 30, 3, 1)
        .answers("q", 50, 0, 5)
}

/// A question that was edited twice without an answer in between.
fn edited_twice_at_once() -> ProjectHistory {
    ProjectHistory::default()
        .question("q", &[(0, "Why?", "a", 1), (20, "Wy not?", "a", 1), (21, "Why not?", "b", 1)])
        .answers("q", 10, 1, 1)
        .answers("q", 30, 3, 1)
}

/// Questions whose edits changed no rate, and one whose edit did.
fn edited_without_effect() -> ProjectHistory {
    ProjectHistory::default()
        // The edit was undone before the next answer.
        .question("undone", &[(0, "Why?", "a", 1), (20, "How?", "a", 1), (21, "Why?", "a", 1)])
        .answers("undone", 10, 1, 1)
        .answers("undone", 30, 3, 1)
        // Neither the text nor the answer was edited.
        .question("moved", &[(0, "Why?", "a", 1), (20, "Why?", "a", 2)])
        .answers("moved", 10, 1, 1)
        .answers("moved", 30, 3, 1)
        // The rate stayed the same.
        .question("equal", &[(0, "Why?", "a", 1), (20, "How?", "a", 1)])
        .answers("equal", 10, 1, 1)
        .answers("equal", 30, 2, 2)
        // Without answers before, or after.
        .question("late", &[(0, "Why?", "a", 1), (20, "How?", "a", 1)])
        .answers("late", 30, 3, 1)
        .question("early", &[(0, "Why?", "a", 1), (20, "How?", "a", 1)])
        .answers("early", 10, 3, 1)
        // The edit changed the rate.
        .question("changed", &[(0, "Why?", "a", 1), (20, "How?", "a", 1)])
        .answers("changed", 10, 1, 1)
        .answers("changed", 30, 3, 1)
}

#[tokio::test]
async fn an_edit_has_the_rates_before_and_after_it() {
    assert_eq!(
        edited_twice().question_edits().await.iter().map(edit).collect::<Vec<_>>(),
        [
            ("q", "00:40", [false, true], [4, 5], [0.75, 0.0]),
            ("q", "00:20", [true, false], [2, 4], [0.5, 0.75])
        ],
        "the greatest change first"
    );
}

#[tokio::test]
async fn edits_without_answers_in_between_are_one() {
    assert_eq!(
        edited_twice_at_once().question_edits().await.iter().map(edit).collect::<Vec<_>>(),
        [("q", "00:21", [true, true], [2, 4], [0.5, 0.75])]
    );
}

#[tokio::test]
async fn edits_without_effect_are_left_out() {
    let edits = edited_without_effect().question_edits().await;
    assert_eq!(edits.iter().map(|row| edit(row).0).collect::<Vec<_>>(), ["changed"]);
}

#[tokio::test]
#[ignore = "needs duckdb: run tests/run"]
async fn duckdb_finds_the_same_edits() {
    for (history, edits) in [(edited_twice(), 2), (edited_twice_at_once(), 1), (edited_without_effect(), 1)] {
        let folder = history.exported().await;
        let theirs = duckdb::read_datasets(folder.path(), "exambuddy", &["--only", "question_edits"]);
        let ours = question_edits(folder.path()).await;
        assert_eq!(ours.len(), edits);
        assert_eq!(theirs.queries["question_edits"], ours);
    }
}
