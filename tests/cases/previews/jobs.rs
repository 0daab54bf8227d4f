//! G6 and G7: dry runs and jobs, against the embedded DynamoDB.

use afterwrite_local::dynamodb::{EmbeddedDynamoDb, KeyDefinition, TableDefinition};
use afterwrite_model::clock::{Clock as _, SystemClock};
use afterwrite_model::record::Timestamp;
use afterwrite_operations::jobs::{
    JobBasis, JobKind, JobPlan, JobReport, JobState, JobStatus, JobTotals, WorkSummary,
};
use afterwrite_tests::change_record::stream_record;
use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{checked, folder, run};

/// A deployment of the model with these orders.
struct Deployment {
    server: EmbeddedDynamoDb,
    folder: TempDir,
}

impl Deployment {
    async fn with_orders(orders: u32) -> Self {
        let server = EmbeddedDynamoDb::start().await.unwrap();
        let source = TableDefinition {
            name: "Tab".to_owned(),
            key: KeyDefinition { partition: "PK".to_owned(), ..KeyDefinition::default() },
            indexes: Vec::new(),
            stream: true,
            ttl_attribute: None,
        };
        server.create_table(&source).await.unwrap();
        server.create_table(&TableDefinition::state("state")).await.unwrap();
        for order in 0..orders {
            let key = AttributeValue::S(format!("ORDER#{order}"));
            server.client().put_item().table_name("Tab").item("PK", key).send().await.unwrap();
        }
        Self { server, folder: folder() }
    }

    fn text(&self, code: i32, arguments: &[&str]) -> String {
        let endpoint = self.server.endpoint();
        let settings = [
            ("AWS_ENDPOINT_URL", endpoint.as_str()),
            ("AWS_REGION", "us-east-1"),
            ("AWS_ACCESS_KEY_ID", "embedded"),
            ("AWS_SECRET_ACCESS_KEY", "embedded"),
            ("AFTERWRITE_STATE_TABLE", "state"),
            ("AFTERWRITE_MODEL", "shop.toml"),
        ];
        let output = tokio::task::block_in_place(|| run(self.folder.path(), arguments, &settings));
        checked(output, code, arguments)
    }

    fn json(&self, code: i32, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.text(code, arguments)).unwrap()
    }

    async fn set_measure(&self, number: &str) {
        let key = |text: &str| AttributeValue::S(text.to_owned());
        let update = self.server.client().update_item().table_name("state");
        let update =
            update.key("PK", key("ALL")).key("SK", key("ROLLUP")).update_expression("SET orders = :n");
        update.expression_attribute_values(":n", AttributeValue::N(number.to_owned())).send().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn g6_a_preview_of_a_replay_that_worked_ends_with_0() {
    let deployment = Deployment::with_orders(1).await;
    let key = json!({ "PK": { "S": "ORDER#9" } });
    let stream = "arn:aws:dynamodb:us-east-1:1:table/Tab/stream/2026-01-01T00:00:00.000";
    let change = ("100000000000000000001", SystemClock.now().epoch_seconds() - 60);
    let record = stream_record(stream, &["PK"], change, (None, Some(&key)));
    let write = |name: &str, text: String| std::fs::write(deployment.folder.path().join(name), text).unwrap();
    write("good.jsonl", format!("{record}\n"));
    write("garbage.jsonl", "this is not a record\n".to_owned());
    write("mixed.jsonl", format!("{record}\ngarbage\n"));
    let preview = deployment.text(0, &["replay", "good.jsonl", "--dry-run"]);
    assert!(preview.contains("items would change"), "{preview}");
    for file in ["garbage.jsonl", "mixed.jsonl"] {
        let preview = deployment.text(1, &["replay", file, "--dry-run"]);
        assert!(preview.contains("rejected"), "{preview}");
    }
}

#[test]
fn g7_a_paused_job_of_any_kind_is_resumed() {
    for kind in [JobKind::Verify, JobKind::Repair, JobKind::Backfill, JobKind::Replay] {
        for status in [JobStatus::Paused, JobStatus::Failed, JobStatus::Planned] {
            let now = Timestamp::from_epoch_seconds(1_770_000_000);
            let job = JobState {
                id: "job-1".to_owned(),
                kind,
                arguments: Value::Null,
                status,
                basis: Some(JobBasis::default()),
                work: WorkSummary::default(),
                waiting: None,
                rate: None,
                totals: JobTotals::new(),
                plan: JobPlan::default(),
                lease: None,
                created_at: now,
                started_at: None,
                updated_at: now,
                failure: None,
            };
            assert_eq!(
                JobReport::of(&job).next_steps[0],
                "afterwrite jobs resume job-1",
                "{kind:?} {status:?}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn g7_a_backfill_counts_each_item_once_and_a_preview_of_a_repair_repairs_nothing() {
    let deployment = Deployment::with_orders(4).await;
    let backfill = ["backfill", "--yes", "--without-recovery", "--without-datasets"];
    let report = deployment.json(0, &[&backfill[..], &["--json"]].concat());
    assert_eq!((&report["plan"]["items"], &report["progress"]["items"]), (&json!(4), &json!(4)));
    let again = deployment.text(0, &[&backfill[..], &["--all"]].concat());
    assert!(again.contains(" 4 items"), "{again}");

    deployment.set_measure("400").await;
    let verify = ["verify", "--without-datasets", "--tolerance", "0"];
    let found = deployment.text(1, &[&verify[..], &["--report", "drift.jsonl"]].concat());
    let next = "afterwrite repair drift.jsonl --tolerance 0 --dry-run";
    assert!(found.contains("Next:") && found.contains(next), "{found}");
    let unsaved = deployment.text(1, &verify);
    assert!(unsaved.contains("afterwrite verify --report drift.jsonl --tolerance 0"), "{unsaved}");

    let repair = ["repair", "drift.jsonl", "--without-recovery", "--tolerance", "0"];
    let preview = deployment.text(0, &[&repair[..], &["--dry-run"]].concat());
    assert!(preview.contains("1 would be repaired") && preview.contains("would be set"), "{preview}");
    assert!(!preview.contains(" 1 repaired") && preview.contains("--yes"), "{preview}");
    let log = deployment.json(0, &[&repair[..], &["--dry-run", "--json"]].concat());
    assert_eq!(log[0]["outcome"], "would_be_repaired");
    let repaired = deployment.text(0, &[&repair[..], &["--yes"]].concat());
    assert!(repaired.contains("1 repaired"), "{repaired}");
    deployment.text(0, &verify);
}
