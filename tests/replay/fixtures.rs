//! `afterwrite model test`: the fixtures in `docs/fixtures` pass, and a wrong expectation is named.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use afterwrite_model::ErrorKind;
use afterwrite_model::table::Model;
use afterwrite_preview::fixture::{
    FixtureDifference, FixtureFile, FixtureReport, find_fixtures, run_fixture,
};
use afterwrite_tests::recording::fixtures;

fn documented() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/fixtures")
}

async fn run(model: &str, path: &Path) -> FixtureReport {
    let model = Arc::new(Model::load(model).expect("a model"));
    let names: Vec<Arc<str>> = model.tables.iter().map(|table| Arc::clone(&table.name)).collect();
    let fixture = FixtureFile::read(path, path).await.unwrap_or_else(|error| panic!("{}", error.report()));
    run_fixture(&model, &names, &fixture).await.unwrap_or_else(|error| panic!("{}", error.report()))
}

#[tokio::test]
async fn the_documented_fixtures_of_every_built_in_model_pass() {
    for model in Model::built_in_names() {
        let paths =
            find_fixtures(&documented().join(model)).unwrap_or_else(|error| panic!("{model}: {error}"));
        for path in paths {
            let report = run(model, &path).await;
            assert_eq!(report.differences, [], "{}", path.display());
            assert!(report.records > 0);
        }
    }
}

#[tokio::test]
async fn a_fixture_runs_within_milliseconds() {
    let report = run("exambuddy", &documented().join("exambuddy/attempts.json")).await;
    println!("{} records in {} µs", report.records, report.micros);
    assert!(report.micros < 100_000, "{} µs", report.micros);
}

#[tokio::test]
async fn an_item_or_a_record_of_no_table_of_the_model_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("foreign.json");
    let record = r#"{"eventID":"1","eventName":"REMOVE","eventSourceARN":"arn:aws:dynamodb:us-east-1:1:table/Others/stream/1","dynamodb":{"Keys":{"PK":{"S":"A"},"SK":{"S":"B"}},"SequenceNumber":"1","StreamViewType":"NEW_AND_OLD_IMAGES"}}"#;
    // The items of the state table have `PK` and `SK`, and they are not given.
    let item = r#"{"PK":"SHOP#s","SK":"DAY#2026-02-06"}"#;
    let text = include_str!("../../infra/tests/levels.toml")
        .replace(r#"["PK", "SK"]"#, r#"["pk", "sk"]"#)
        .replace(r#"PK = "CUSTOMER#{customer}", SK ="#, r#"pk = "CUSTOMER#{customer}", sk ="#);
    let model = Arc::new(Model::parse(&text, "levels.toml").unwrap_or_else(|errors| panic!("{errors}")));
    for (part, named) in [
        (format!(r#""items":[{item}]"#), "item of the fixture: 1"),
        (format!(r#""events":[{record}]"#), "record of the fixture: 1"),
    ] {
        std::fs::write(&path, format!(r#"{{{part},"expect":{{}}}}"#)).unwrap();
        let names: Vec<Arc<str>> = model.tables.iter().map(|table| Arc::clone(&table.name)).collect();
        let fixture = FixtureFile::read(&path, &path).await.unwrap();
        let error = run_fixture(&model, &names, &fixture).await.expect_err("a foreign table");
        assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
        assert!(error.to_string().contains(named), "{error}");
    }
}

#[tokio::test]
async fn wrong_expectations_are_named_with_both_values() {
    let text = std::fs::read_to_string(documented().join("exambuddy/question-deleted.json")).unwrap();
    let wrong = text
        .replace(r#""projects_archived": 1, "questions": 1"#, r#""projects_archived": 1, "questions": 2"#)
        .replace(r#""SK": "ROLLUP#PROJECT#p-1#TOTAL", "questions": 1"#, r#""SK": "ROLLUP#OTHER", "x": 1"#)
        .replace(r#""question_count": 1"#, r#""question_count": 3"#)
        .replace(r#""question:q-2""#, r#""question:q-3""#);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("wrong.json");
    std::fs::write(&path, wrong).unwrap();
    let difference = |place: &str, expected: Option<&str>, found: Option<&str>| FixtureDifference {
        place: place.to_owned(),
        expected: expected.map(str::to_owned),
        found: found.map(str::to_owned),
    };
    let expected = [
        difference("ADMIN#a-1 ROLLUP#TOTAL questions", Some("2"), Some("1")),
        difference("ADMIN#a-1 ROLLUP#OTHER x", Some("1"), None),
        difference("ADMIN#a-1 ROLLUP#PROJECT#p-1#TOTAL questions", None, Some("1")),
        difference("ADMIN#a-1 PROJECT#p-1 question_count", Some("3"), Some("1")),
        difference("stale key", Some("question:q-3"), None),
        difference("stale key", None, Some("question:q-2")),
    ];
    assert_eq!(run("exambuddy", &path).await.differences, expected);
}

#[tokio::test]
async fn a_folder_may_hold_a_recording_with_its_expectations() {
    let folder = tempfile::tempdir().unwrap();
    let recording = fixtures().join("exam-42");
    std::fs::copy(recording.join("records.jsonl.gz"), folder.path().join("records.jsonl.gz")).unwrap();
    let recorded = std::fs::read_to_string(recording.join("expected.json")).unwrap();
    let mut recorded: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&recorded).unwrap();
    let expected = serde_json::json!({ "rollups": recorded.remove("rollups").unwrap() });
    std::fs::write(folder.path().join("expected.json"), expected.to_string()).unwrap();
    let report = run("exambuddy", folder.path()).await;
    println!("{} records in {} ms", report.records, report.micros / 1000);
    assert!(report.records > 1000);
    assert_eq!(report.differences, []);
}

#[tokio::test]
async fn files_of_another_form_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    assert!(find_fixtures(folder.path()).unwrap_err().to_string().contains("no fixtures"));
    for text in ["{}", r#"{"expect":{},"item":[]}"#, r#"{"expect":{"rollup":[]}}"#] {
        let path = folder.path().join("one.json");
        std::fs::write(&path, text).unwrap();
        let error = FixtureFile::read(&path, folder.path()).await.unwrap_err();
        assert!(error.to_string().contains("not a fixture"), "{error}");
    }
}

/// The model of the recipes for events, and a fixture of a customer's order and a tenant's files with these events.
fn recipe(folder: &Path, events: &str) -> [PathBuf; 2] {
    let page = include_str!("../../docs/COOKBOOK.md");
    let paths = ["model.toml", "fixture.json"].map(|name| folder.join(name));
    let fixture = format!(
        r#"{{"now":"2026-02-06T12:00:00Z","items":[
            {{"PK":"CUSTOMER#c1","SK":"ORDER#o1","status":"PAID","total":19.90}},
            {{"PK":"TENANT#t1","SK":"FILE#a","bytes":700}},{{"PK":"TENANT#t1","SK":"FILE#b","bytes":400}}
        ],"expect":{{"events":[{events}]}}}}"#
    );
    for (path, text) in paths.iter().zip([afterwrite_tests::page::model(page), fixture]) {
        std::fs::write(path, text).unwrap();
    }
    paths
}

#[tokio::test]
async fn all_events_of_a_fixture_are_compared_in_any_order() {
    let folder = tempfile::tempdir().unwrap();
    let paid = r#"{"name":"order_paid","to":"billing","key":{"PK":"CUSTOMER#c1","SK":"ORDER#o1"},"operation":"INSERT","detail":{"customer":"c1","order":"o1","total":19.9}}"#;
    let exceeded = r#"{"name":"quota_exceeded","entity":"usage","table":"@state","detail":{"tenant":"t1","bytes":1100,"files":2}}"#;
    let forwarded = r#"{"name":"changes","eventName":"INSERT"}"#;
    let all = [exceeded, forwarded, paid, forwarded, forwarded].join(",");
    let [model, fixture] = recipe(folder.path(), &all);
    let model = model.display().to_string();
    assert_eq!(run(&model, &fixture).await.differences, []);
    recipe(folder.path(), &[forwarded, &paid.replace("19.9", "19.91"), forwarded, forwarded].join(","));
    let found = run(&model, &fixture).await.differences;
    let missing: Vec<&FixtureDifference> =
        found.iter().filter(|difference| difference.expected.is_some()).collect();
    assert!(missing.len() == 1 && missing[0].expected.as_ref().unwrap().contains("19.91"), "{found:?}");
    let unexpected = found.iter().filter_map(|difference| difference.found.as_deref());
    let unexpected: Vec<&str> = unexpected.collect();
    assert!(
        unexpected.len() == 2 && unexpected[0].contains("19.9") && unexpected[1].contains("1100"),
        "{found:?}"
    );
}
