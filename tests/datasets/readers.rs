//! Independent readers: DuckDB and the embedded engine, each given the same files and the same SQL, must agree with each other, and with the
//! rollups that were counted from the stream.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use afterwrite::sink::s3::MemoryObjects;
use afterwrite::table::Model;
use afterwrite_datasets::compact::{Compactor, Options};
use afterwrite_tests::datasets::{archive_objects, export, export_knowing_owners, gzip};
use afterwrite_tests::recording::Recording;
use serde_json::Value;

/// The expiries of days that are not compacted: exported before anybody knew whose the projects are, they are rows that say less than
/// others of the same changes.
fn late_expiries(recording: &Recording) -> String {
    let is_late = |record: &&str| {
        let record: Value = serde_json::from_str(record).unwrap();
        record["userIdentity"]["principalId"] == "dynamodb.amazonaws.com"
            && record["dynamodb"]["OldImage"]["started_at"]["S"].as_str() > Some("2026-02-15")
    };
    let late: Vec<&str> = recording.records().map(|record| record.get()).filter(is_late).collect();
    assert!(!late.is_empty());
    late.iter().map(|record| format!("{record}\n")).collect()
}

/// A folder that is like the bucket: the datasets of the recorded archive, half of the days compacted, and not swept.
async fn bucket_folder(recording: &Recording) -> tempfile::TempDir {
    let model = Arc::new(Model::load("exambuddy").unwrap());
    let bucket = Arc::new(MemoryObjects::default());
    let early = BTreeMap::from([(
        "archive/dt=2026-02-28/hh=00/expiries.gz".to_owned(),
        gzip(&late_expiries(recording)),
    )]);
    export(&model, &bucket, &early).await;
    export_knowing_owners(&model, &bucket, &archive_objects(recording, 150), recording).await;
    let compactor = Compactor::new(Arc::clone(&model), Arc::clone(&bucket), Options::default());
    let now = afterwrite::record::Timestamp::from_epoch_seconds(1_772_000_000);
    for day in 1..=14 {
        compactor.compact(None, Some(&format!("2026-02-{day:02}")), now).await.unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    for (key, object) in bucket.objects().iter().filter(|(key, _)| key.starts_with("datasets/")) {
        let path = folder.path().join(key);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, object).unwrap();
    }
    folder
}

/// What DuckDB answers to every saved query.
fn duckdb(folder: &Path) -> BTreeMap<String, Vec<Value>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let interpreter =
        std::env::var_os("AFTERWRITE_TEST_PYTHON").expect("AFTERWRITE_TEST_PYTHON is set: run tests/run");
    let ran = Command::new(interpreter)
        .arg(root.join("datasets/independent_reader.py"))
        .arg(folder)
        .arg(root.join("../infra/athena/exambuddy"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let answer: Value = serde_json::from_slice(&ran.stdout).unwrap();
    serde_json::from_value(answer["queries"].clone()).unwrap()
}

/// The measures of rollups as a query counts them anew, noughts left out.
fn rollups(rows: &[Value]) -> BTreeMap<(String, String), BTreeMap<String, i64>> {
    let rollup = |row: &Value| {
        let text = |name: &str| row[name].as_str().unwrap().to_owned();
        let measures = row.as_object().unwrap().iter();
        let measures = measures.filter_map(|(name, value)| Some((name.clone(), value.as_i64()?)));
        ((text("pk"), text("sk")), measures.filter(|(_, number)| *number != 0).collect())
    };
    rows.iter().map(rollup).collect()
}

#[tokio::test]
#[ignore = "needs duckdb: run tests/run"]
async fn sql_counts_the_rollups_anew_and_finds_the_same() {
    let recording = Recording::load("exam-42");
    let folder = bucket_folder(&recording).await;
    let answers = duckdb(folder.path());
    let attempt_measures = |rollup: &BTreeMap<String, i64>| -> BTreeMap<String, i64> {
        let others = ["questions", "projects_active", "projects_archived", "answers", "correct"];
        rollup
            .iter()
            .filter(|(name, _)| !others.contains(&&***name))
            .map(|(name, n)| (name.clone(), *n))
            .collect()
    };
    let is_of_attempts = |sort: &str| sort.contains("#DAY#") || sort.ends_with("TOTAL");
    let expected: BTreeMap<_, _> = recording
        .rollups
        .iter()
        .filter(|((partition, sort), _)| partition.starts_with("ADMIN#") && is_of_attempts(sort))
        .map(|(key, measures)| (key.clone(), attempt_measures(measures)))
        .filter(|(_, measures)| !measures.is_empty())
        .collect();
    let of_days = expected.keys().filter(|(_, sort)| sort.contains("#DAY#")).count();
    assert!(of_days > 5 && expected.len() - of_days > 5, "{of_days} of {}", expected.len());
    assert_eq!(rollups(&answers["rollups"]), expected);
}

#[cfg(feature = "sql")]
#[tokio::test]
#[ignore = "needs duckdb: run tests/run"]
async fn the_embedded_engine_answers_every_saved_query_as_duckdb_does() {
    use afterwrite_cli::query::{Layout, Place, answer};
    let recording = Recording::load("exam-42");
    let folder = bucket_folder(&recording).await;
    let theirs = duckdb(folder.path());
    let model = Model::load("exambuddy").unwrap();
    assert!(model.queries.len() >= 9);
    let place = Place::Folder(folder.path().to_owned());
    let mut answered = 0;
    for query in &model.queries {
        let ours = Box::pin(answer(&model, &place, &query.sql, Layout::Json)).await.unwrap();
        let ours: Vec<Value> = serde_json::from_str(&ours).unwrap();
        answered += usize::from(!ours.is_empty());
        assert_eq!(ours, theirs[&*query.name], "{}", query.name);
    }
    assert!(answered >= 9, "only {answered} queries have anything to answer");
}
