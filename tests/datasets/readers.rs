//! Independent readers: DuckDB and the embedded engine read the same files with the same SQL, and agree with each other and with the
//! rollups counted from the stream.

use std::collections::BTreeMap;
use std::sync::Arc;

use afterwrite_datasets::catalogue::statements;
use afterwrite_datasets::compact::{CompactionOptions, DatasetCompactor};
use afterwrite_memory::MemoryObjects;
use afterwrite_model::record::Timestamp;
use afterwrite_model::table::Model;
use afterwrite_tests::clock::StillClock;
use afterwrite_tests::datasets::{archive_objects, bucket_folder, export, export_knowing_owners, gzip};
use afterwrite_tests::duckdb;
use afterwrite_tests::recording::StreamRecording;
use serde_json::Value;

/// The expiries on days that are not compacted. They are exported before the owners of the projects are known: other rows of the
/// same changes have more values.
fn late_expiries(recording: &StreamRecording) -> String {
    let is_late = |record: &&str| {
        let record: Value = serde_json::from_str(record).unwrap();
        record["userIdentity"]["principalId"] == "dynamodb.amazonaws.com"
            && record["dynamodb"]["OldImage"]["started_at"]["S"].as_str() > Some("2026-02-15")
    };
    let late: Vec<&str> = recording.records().map(|record| record.get()).filter(is_late).collect();
    assert!(!late.is_empty());
    late.iter().map(|record| format!("{record}\n")).collect()
}

/// A folder like the bucket: the datasets of the recorded archive, half of the days compacted twice.
async fn recorded_folder(recording: &StreamRecording) -> tempfile::TempDir {
    let model = Arc::new(Model::load("exambuddy").unwrap());
    let bucket = Arc::new(MemoryObjects::default());
    let early = BTreeMap::from([(
        "archive/dt=2026-02-28/hh=00/expiries.gz".to_owned(),
        gzip(&late_expiries(recording)),
    )]);
    export(&model, &bucket, &early).await;
    export_knowing_owners(&model, &bucket, &archive_objects(recording, 150), recording).await;
    let clock = StillClock::at(Timestamp::from_epoch_seconds(1_772_000_000));
    let options = CompactionOptions::default();
    let compactor = DatasetCompactor::new(Arc::clone(&model), Arc::clone(&bucket), options, clock);
    for day in 1..=14 {
        compactor.compact(None, Some(&format!("2026-02-{day:02}"))).await.unwrap();
    }
    compactor.compact(None, None).await.unwrap();
    bucket_folder(&bucket)
}

/// Compacts everything; creates tables that do not exist.
async fn compact(model: &Arc<Model>, bucket: &Arc<MemoryObjects>) {
    let clock = StillClock::at(Timestamp::from_epoch_seconds(1_772_000_000));
    let options = CompactionOptions::default();
    let compactor = DatasetCompactor::new(Arc::clone(model), Arc::clone(bucket), options, clock);
    compactor.compact(None, None).await.unwrap();
}

/// The measures of rollups that a query counted, without zeros.
fn rollups<'r>(
    rows: impl IntoIterator<Item = &'r Value>,
) -> BTreeMap<(String, String), BTreeMap<String, i64>> {
    let mut rollups: BTreeMap<_, BTreeMap<_, _>> = BTreeMap::new();
    for row in rows {
        let text = |name: &str| row[name].as_str().unwrap().to_owned();
        let measures = row.as_object().unwrap().iter();
        let measures = measures.filter_map(|(name, value)| Some((name.clone(), value.as_i64()?)));
        let rollup = rollups.entry((text("pk"), text("sk"))).or_default();
        rollup.extend(measures.filter(|(_, number)| *number != 0));
    }
    rollups
}

#[tokio::test]
#[ignore = "needs duckdb: run tests/run"]
async fn sql_counts_the_same_rollups() {
    let recording = StreamRecording::load("exam-42");
    let folder = recorded_folder(&recording).await;
    let queries = duckdb::read_datasets(folder.path(), "exambuddy", &[]).queries;
    let counted = [&queries["rollups"], &queries["rollups_of_questions"]];
    let expected = &recording.rollups;
    for kind in ["#DAY#", "TOTAL", "ROLLUP#QUESTION#"] {
        let of_this_kind = expected.keys().filter(|(_, sort)| sort.contains(kind)).count();
        assert!(of_this_kind > 5, "{of_this_kind} of {kind}");
    }
    assert_eq!(&rollups(counted.into_iter().flatten()), expected);
}

#[cfg(feature = "sql")]
#[tokio::test]
#[ignore = "needs duckdb: run tests/run"]
async fn the_embedded_engine_and_duckdb_agree_on_every_saved_query() {
    use afterwrite_cli::query::{Layout, Place, run_query};
    let recording = StreamRecording::load("exam-42");
    let folder = recorded_folder(&recording).await;
    let theirs = duckdb::read_datasets(folder.path(), "exambuddy", &[]).queries;
    let model = Model::load("exambuddy").unwrap();
    assert!(model.queries.len() >= 9);
    let place = Place::Folder(folder.path().to_owned());
    let mut with_rows = 0;
    for query in &model.queries {
        let ours = Box::pin(run_query(&model, &place, &query.sql, Layout::Json)).await.unwrap();
        let ours: Vec<Value> = serde_json::from_str(&ours).unwrap();
        with_rows += usize::from(!ours.is_empty());
        assert_eq!(ours, theirs[&*query.name], "{}", query.name);
    }
    assert!(with_rows >= 9, "only {with_rows} queries have rows");
}

#[cfg(feature = "sql")]
#[tokio::test]
async fn the_attempts_of_a_month_read_the_files_of_its_days_alone() {
    use afterwrite_cli::query::{Layout, Place, run_query};
    let recording = StreamRecording::load("exam-42");
    let folder = recorded_folder(&recording).await;
    let model = Model::load("exambuddy").unwrap();
    let query = model.queries.iter().find(|query| &*query.name == "attempts_in_month").unwrap();
    let month = "substr(CAST(current_date AS varchar), 1, 7)";
    let sql = query.sql.replace(&format!("{month} || '-01'"), "'2026-02-01'");
    let sql = sql.replace(&format!("{month} || '-31'"), "'2026-02-14'");
    assert!(!sql.contains(month), "{sql}");
    let place = Place::Folder(folder.path().to_owned());
    let all = Box::pin(run_query(&model, &place, &sql, Layout::Json)).await.unwrap();
    let rows: Vec<Value> = serde_json::from_str(&all).unwrap();
    assert!(rows.len() > 10 && rows.iter().all(|row| row["started_at"].as_str() < Some("2026-02-15")));

    let mut removed = 0;
    for entry in std::fs::read_dir(folder.path().join("datasets/attempts")).unwrap() {
        let entry = entry.unwrap();
        if entry.file_name().to_str().unwrap() > "dt=2026-02-14" {
            std::fs::remove_dir_all(entry.path()).unwrap();
            removed += 1;
        }
    }
    assert!(removed > 5, "{removed} days");
    let without_other_days = Box::pin(run_query(&model, &place, &sql, Layout::Json)).await.unwrap();
    assert_eq!(without_other_days, all);
    let everything = run_query(&model, &place, "SELECT * FROM attempts", Layout::Json);
    assert!(Box::pin(everything).await.is_err(), "the files of other days are missing");
}

/// One skill for each of these numbers of years.
#[cfg(feature = "sql")]
fn skills(years: &[&str]) -> String {
    years.iter().enumerate().map(|(number, years)| skill(number, years)).collect()
}

#[cfg(feature = "sql")]
fn skill(number: usize, years: &str) -> String {
    let skill = format!("skill {number}");
    let record = serde_json::json!({
        "eventID": number.to_string(),
        "eventName": "INSERT",
        "eventSourceARN": "arn:aws:dynamodb:eu-west-1:1:table/glad-entities/stream/2026-01-01T00:00:00.000",
        "dynamodb": {
            "ApproximateCreationDateTime": 1_770_336_000,
            "Keys": { "PK": { "S": "USER#ann" }, "SK": { "S": format!("SKILL#{skill}") } },
            "NewImage": {
                "Username": { "S": "ann" }, "SkillName": { "S": skill }, "YearsOfExperience": { "N": years },
                "LastUsedDate": { "S": "2026-01-31" }, "CreatedAt": { "S": "2026-02-06T00:00:00Z" },
            },
            "SequenceNumber": (1000 + number).to_string(),
        },
    });
    format!("{record}\n")
}

#[cfg(feature = "sql")]
#[tokio::test]
#[ignore = "needs duckdb: run tests/run"]
async fn the_embedded_engine_and_duckdb_agree_on_decimals_and_days() {
    use afterwrite_cli::query::{Layout, Place, run_query};
    let model = Arc::new(Model::load("glad").unwrap());
    let bucket = Arc::new(MemoryObjects::default());
    let archive =
        BTreeMap::from([("archive/skills.gz".to_owned(), gzip(&skills(&["4", "0.5", "2.25", "0"])))]);
    export(&model, &bucket, &archive).await;
    compact(&model, &bucket).await;
    let folder = bucket_folder(&bucket);
    let place = Place::Folder(folder.path().to_owned());
    let ours = Box::pin(run_query(&model, &place, "SELECT * FROM skills", Layout::Json)).await.unwrap();
    assert!(ours.contains(r#""years_of_experience":4.00,"#), "{ours}");
    let in_order = |mut rows: Vec<Value>| {
        rows.sort_by_key(ToString::to_string);
        rows
    };
    let ours: Vec<Value> = serde_json::from_str(&ours).unwrap();
    let theirs = duckdb::read_datasets(folder.path(), "glad", &["--views"]).views.remove("skills").unwrap();
    assert_eq!(ours.len(), 4);
    assert_eq!(in_order(ours), in_order(theirs));
}

#[tokio::test]
#[ignore = "needs duckdb: run tests/run"]
async fn duckdb_accepts_every_checked_in_statement() {
    let mut models = Vec::new();
    for name in Model::built_in_names() {
        let model = Arc::new(Model::load(name).unwrap());
        let bucket = Arc::new(MemoryObjects::default());
        compact(&model, &bucket).await;
        let nothing = bucket_folder(&bucket);
        let mut expected: Vec<String> =
            statements(&model).into_iter().map(|statement| statement.path).collect();
        let mut results = duckdb::read_datasets(nothing.path(), name, &["--views"]);
        expected.sort();
        results.statements.sort();
        assert_eq!(results.statements, expected, "{name}");
        assert_eq!(results.views.len(), 2 * model.datasets.len(), "{name}");
        assert_eq!(results.queries.len(), model.queries.len(), "{name}");
        models.push((name, model.datasets.len()));
    }
    models.sort_unstable();
    assert_eq!(
        models,
        [
            ("algoitny", 2),
            ("ecommerce", 2),
            ("exambuddy", 5),
            ("github", 3),
            ("glad", 1),
            ("leaderboard", 1),
            ("marketplace", 1),
            ("metering", 1),
            ("quiz", 3),
            ("shop", 3),
            ("social", 3)
        ]
    );
}
