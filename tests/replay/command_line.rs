//! The commands as an operator runs them: the release binary against the embedded DynamoDB, through the AWS SDK.

use std::path::{Path, PathBuf};
use std::process::Output;

use afterwrite_local::dynamodb::{EmbeddedDynamoDb, KeyDefinition, TableDefinition};
use afterwrite_model::clock::{Clock as _, SystemClock};
use afterwrite_tests::programs::embedded_afterwrite;
use afterwrite_tests::recording::StreamRecording;
use afterwrite_tests::sdk_items::{SdkItem, sdk_item_of_json};
use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::Value;

const SOURCE: &str = "ExamBuddyTable";

/// A server with the tables of a deployment, and a recording of the last days.
struct Deployment {
    server: EmbeddedDynamoDb,
    recording: StreamRecording,
    folder: tempfile::TempDir,
}

impl Deployment {
    async fn start() -> Self {
        let server = EmbeddedDynamoDb::start().await.unwrap();
        let index =
            |name: &str| (name.to_owned(), KeyDefinition::new(&format!("{name}PK"), &format!("{name}SK")));
        let source = TableDefinition {
            name: SOURCE.to_owned(),
            key: KeyDefinition::new("PK", "SK"),
            indexes: ["GSI1", "GSI2", "GSI3"].map(index).into(),
            stream: true,
            ttl_attribute: None,
        };
        server.create_table(&source).await.unwrap();
        for table in ["live", "fresh"] {
            server.create_table(&TableDefinition::state(table)).await.unwrap();
        }
        let recording = StreamRecording::load("exam-42");
        let folder = tempfile::tempdir().unwrap();
        let deployment = Self { server, recording, folder };
        deployment.put_items().await;
        deployment
    }

    /// Projects and questions, which lookups need.
    async fn put_items(&self) {
        let client = self.server.client();
        for item in self.recording.last_images().iter().chain(&self.recording.items) {
            let item = item.get("Item").unwrap_or(item);
            let kind = item["SK"]["S"].as_str().unwrap_or_default();
            if kind.starts_with("PROJECT#") || kind.starts_with("QUESTION#") {
                client
                    .put_item()
                    .table_name(SOURCE)
                    .set_item(Some(sdk_item_of_json(item)))
                    .send()
                    .await
                    .unwrap();
            }
        }
    }

    /// The recording as JSON lines, its last change a minute ago.
    fn lines(&self) -> PathBuf {
        let end = SystemClock.now().epoch_seconds() - 60;
        let records = self.recording.records_ending(end);
        let path = self.folder.path().join("records.jsonl");
        let lines: String = records.iter().map(|record| format!("{record}\n")).collect();
        std::fs::write(&path, lines).unwrap();
        path
    }

    fn run(&self, arguments: &[&str]) -> Output {
        embedded_afterwrite(&self.server.endpoint(), "live").args(arguments).output().unwrap()
    }

    /// The standard output of a command with this exit code.
    fn output(&self, code: i32, arguments: &[&str]) -> String {
        let output = tokio::task::block_in_place(|| self.run(arguments));
        let (text, errors) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(code), "{arguments:?}\n{text}\n{errors}");
        text.into_owned()
    }

    async fn attempts(&self, table: &str) -> u64 {
        let scan = self.server.client().scan().table_name(table).into_paginator().items().send();
        let items: Vec<SdkItem> = scan.try_collect().await.unwrap();
        let totals = items.iter().filter(|item| text(item, "SK") == "ROLLUP#TOTAL");
        totals.filter_map(|item| item.get("attempts")?.as_n().ok()?.parse::<u64>().ok()).sum()
    }
}

fn text<'i>(item: &'i SdkItem, name: &str) -> &'i str {
    item.get(name).and_then(|value| value.as_s().ok()).map_or("", String::as_str)
}

fn named(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn a_table_is_replayed_rebuilt_compared_and_promoted() {
    let deployment = Deployment::start().await;
    let path = deployment.lines();
    let lines = named(&path);
    let attempts: i64 = {
        let totals = deployment.recording.rollups.iter().filter(|((_, sort), _)| sort == "ROLLUP#TOTAL");
        totals.filter_map(|(_, measures)| measures.get("attempts")).sum()
    };

    // Without a terminal the plan is printed, and nothing is started.
    let plan = deployment.output(2, &["replay", lines]);
    assert!(plan.contains("write units"), "{plan}");
    let dry = deployment.output(0, &["replay", lines, "--dry-run"]);
    assert!(dry.contains("items would change") && dry.contains("records: 3070"), "{dry}");
    assert_eq!(deployment.attempts("live").await, 0);

    let report = deployment.output(0, &["replay", lines, "--yes", "--without-recovery", "--json"]);
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!((&report["status"], &report["totals"]["records"]), (&"done".into(), &3070.into()));
    assert_eq!(i64::try_from(deployment.attempts("live").await).unwrap(), attempts);
    let again = deployment.output(0, &["replay", lines, "--dry-run"]);
    assert!(again.contains("Nothing would change"), "{again}");
    assert!(deployment.output(0, &["jobs", "list"]).contains("replay-"));

    let differing = deployment.output(1, &["state", "diff", "live", "fresh"]);
    assert!(differing.contains("only in the first table"));
    deployment.output(0, &["replay", lines, "--into", "fresh", "--yes"]);
    assert_eq!(deployment.output(0, &["state", "diff", "live", "fresh", "--json"]).lines().count(), 1);
    let promoted = deployment.output(0, &["state", "promote", "fresh"]);
    assert!(promoted.contains("AFTERWRITE_STATE_TABLE=fresh"), "{promoted}");
    // The table is not fresh any more.
    deployment.output(2, &["replay", lines, "--into", "fresh", "--yes"]);
    let redriven = deployment.output(0, &["redrive", "--yes", "--without-recovery", "--json"]);
    assert!(redriven.contains("\"done\""), "{redriven}");
    deployment.server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn a_heartbeat_is_written_to_the_source_table_and_followed() {
    let deployment = Deployment::start().await;
    let written = deployment.output(0, &["heartbeat", "--json"]);
    assert!(written.contains(SOURCE), "{written}");
    let found = deployment.server.client().get_item().table_name(SOURCE);
    let key = || AttributeValue::S("AFTERWRITE#HEARTBEAT".to_owned());
    let found = found.key("PK", key()).key("SK", key()).send().await.unwrap();
    assert!(found.item.unwrap().contains_key("heartbeat_at"));
    let followed = deployment.output(0, &["tail", "--from-start", "--limit", "3", "--json"]);
    assert_eq!(followed.lines().count(), 3);
    deployment.server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn an_event_of_stdin_is_invoked_and_fixtures_are_tested_without_any_service() {
    let deployment = Deployment::start().await;
    let path = deployment.lines();
    let invoked = deployment.output(0, &["record", named(&path), "--limit", "40"]);
    let event = format!("{{\"Records\":[{}]}}", invoked.lines().collect::<Vec<_>>().join(","));
    let file = deployment.folder.path().join("event.json");
    std::fs::write(&file, event).unwrap();
    let report = deployment.output(0, &["invoke", "--event", named(&file), "--json"]);
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["records"].as_array().unwrap().len(), 40);
    assert!(!report["items"].as_array().unwrap().is_empty());
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/fixtures/shop");
    let tested = deployment.output(0, &["model", "test", named(&fixtures), "--model", "shop"]);
    assert!(tested.contains("1 passed, 0 failed"), "{tested}");
    deployment.server.stop().await.unwrap();
}
