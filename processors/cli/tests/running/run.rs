//! `afterwrite run` against a stream over HTTP.

use std::collections::HashMap;

use afterwrite_local::dynamodb::{EmbeddedDynamoDb, KeyDefinition, TableDefinition};
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::Value;

use crate::background::{BackgroundCommand, eventually};

const SOURCE: &str = "ExamBuddyTable";
const STATE: &str = "State";

/// A table, its state table, and consumers of its stream.
struct Deployment {
    server: EmbeddedDynamoDb,
    client: Client,
}

impl Deployment {
    async fn start() -> Self {
        let server = EmbeddedDynamoDb::start().await.unwrap();
        let client = server.client();
        server.create_table(&TableDefinition::state(STATE)).await.unwrap();
        server.create_table(&source()).await.unwrap();
        Self { server, client }
    }

    fn consumer(&self, arguments: &[&str]) -> BackgroundCommand {
        let endpoint = self.server.endpoint();
        let variables = [
            ("AFTERWRITE_MODEL", "exambuddy"),
            ("AFTERWRITE_STATE_TABLE", STATE),
            ("AWS_ENDPOINT_URL", endpoint.as_str()),
            ("AWS_REGION", "us-east-1"),
            ("AWS_ACCESS_KEY_ID", "test"),
            ("AWS_SECRET_ACCESS_KEY", "test"),
            ("AWS_EC2_METADATA_DISABLED", "true"),
        ];
        BackgroundCommand::start(&[&["run", "--name", "blue", "--json"], arguments].concat(), &variables)
    }

    async fn put_project(&self) {
        let put = self.client.put_item().table_name(SOURCE);
        let put = put.item("PK", text("ADMIN#a1")).item("SK", text("PROJECT#p1"));
        let put = put.item("GSI1PK", text("PROJECT#p1")).item("GSI1SK", text("PROJECT#p1"));
        put.item("title", text("Exams")).send().await.unwrap();
    }

    async fn put_attempt(&self, attempt: &str) {
        let put = self.client.put_item().table_name(SOURCE);
        let put = put.item("PK", text("CANDIDATE#c1")).item("SK", text(&format!("ATTEMPT#{attempt}")));
        let put = put.item("project_id", text("p1")).item("started_at", text("2026-02-06T14:30:00Z"));
        put.item("status", text("STARTED")).send().await.unwrap();
    }

    async fn counted(&self, attempts: &str) {
        let is_counted = || async {
            let get = self.client.get_item().table_name(STATE).consistent_read(true);
            let got = get.key("PK", text("ADMIN#a1")).key("SK", text("ROLLUP#TOTAL")).send().await.unwrap();
            got.item?.get("attempts")?.as_n().ok().filter(|counted| *counted == attempts).cloned()
        };
        eventually(&format!("{attempts} attempts were not counted"), is_counted).await;
    }

    /// The items under the consumer's name.
    async fn checkpoints(&self) -> HashMap<String, HashMap<String, AttributeValue>> {
        let query = self.client.query().table_name(STATE).key_condition_expression("PK = :name");
        let items =
            query.expression_attribute_values(":name", text("AFTERWRITE#CHECKPOINT#blue#ExamBuddyTable"));
        let items = items.send().await.unwrap().items.unwrap_or_default();
        items.into_iter().map(|item| (item["SK"].as_s().unwrap().clone(), item)).collect()
    }
}

fn source() -> TableDefinition {
    TableDefinition {
        name: SOURCE.to_owned(),
        key: KeyDefinition::new("PK", "SK"),
        indexes: vec![("GSI1".to_owned(), KeyDefinition::new("GSI1PK", "GSI1SK"))],
        stream: true,
        ttl_attribute: Some("ttl".to_owned()),
    }
}

fn text(value: &str) -> AttributeValue {
    AttributeValue::S(value.to_owned())
}

/// Stops a consumer; returns how many records it read.
fn stopped(mut consumer: BackgroundCommand) -> u64 {
    consumer.signal("TERM");
    let (code, output, errors) = consumer.ended();
    assert_eq!(code, Some(0), "{errors}");
    // Metrics precede the totals.
    let totals = &output[output.rfind("[\n").unwrap_or_else(|| panic!("{output}"))..];
    let totals: Value = serde_json::from_str(totals).unwrap();
    assert_eq!(totals[0]["table"], SOURCE);
    totals[0]["read"].as_u64().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_consumer_goes_on_after_its_checkpoint() {
    let deployment = Deployment::start().await;
    deployment.put_project().await;
    deployment.put_attempt("1").await;
    let first = deployment.consumer(&[]);
    deployment.counted("1").await;
    assert!(stopped(first) >= 2);
    let checkpoints = deployment.checkpoints().await;
    assert_eq!(checkpoints.len(), 2, "the lease and one shard");
    assert_eq!(checkpoints["-"]["lease_until"], AttributeValue::N("0".to_owned()), "released");
    let shard = checkpoints.values().find(|item| item.contains_key("position")).unwrap();
    assert_eq!((&shard["EntityType"], &shard["position"]), (&text("CHECKPOINT"), &text("AFTER")));

    deployment.put_attempt("2").await;
    let second = deployment.consumer(&[]);
    deployment.counted("2").await;
    // The aggregator may have refreshed the project's mirror meanwhile.
    let read = stopped(second);
    assert!((1..=2).contains(&read), "{read} records: only what is new");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_process_waits_for_the_lease_of_the_first() {
    let deployment = Deployment::start().await;
    deployment.put_project().await;
    deployment.put_attempt("1").await;
    let first = deployment.consumer(&[]);
    deployment.counted("1").await;
    let second = deployment.consumer(&[]);
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    assert!(stopped(first) >= 2);
    deployment.put_attempt("2").await;
    deployment.counted("2").await;
    let read = stopped(second);
    assert!((1..=2).contains(&read), "{read} records: it goes on where the first one ended");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_was_created_again_stops_the_consumer_or_is_backfilled() {
    let deployment = Deployment::start().await;
    deployment.put_project().await;
    deployment.put_attempt("1").await;
    let first = deployment.consumer(&[]);
    deployment.counted("1").await;
    stopped(first);
    deployment.client.delete_table().table_name(SOURCE).send().await.unwrap();
    deployment.server.create_table(&source()).await.unwrap();
    deployment.put_project().await;
    deployment.put_attempt("2").await;
    let mut stopping = deployment.consumer(&["--on-expired", "stop"]);
    let (code, _, errors) = stopping.ended();
    assert_eq!(code, Some(3), "{errors}");
    assert!(
        errors.contains("changes are missing from the stream: the checkpoints belong to the stream"),
        "{errors}"
    );
    assert!(errors.contains("ExamBuddyTable") && errors.contains("--reset"), "{errors}");

    let with_backfill = ["--on-expired", "backfill", "--without-recovery"];
    let mut unprotected = deployment.consumer(&with_backfill[..2]);
    let (code, _, errors) = unprotected.ended();
    assert_eq!(code, Some(2), "{errors}");
    assert!(errors.contains("recovery"), "{errors}");
    let recovered = deployment.consumer(&with_backfill);
    deployment.counted("2").await;
    deployment.put_attempt("3").await;
    deployment.counted("3").await;
    assert!(stopped(recovered) >= 3, "it goes on with the oldest record");

    let reset = deployment.consumer(&["--reset"]);
    deployment.put_attempt("4").await;
    deployment.counted("4").await;
    assert!(stopped(reset) >= 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn latest_reads_only_what_is_written_later() {
    let deployment = Deployment::start().await;
    deployment.put_project().await;
    deployment.put_attempt("1").await;
    let consumer = deployment.consumer(&["--start", "latest"]);
    eventually("the consumer did not start", || async {
        let checkpoints = deployment.checkpoints().await;
        checkpoints.values().any(|item| item.get("position") == Some(&text("LATEST"))).then_some(())
    })
    .await;
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    deployment.put_attempt("2").await;
    deployment.counted("1").await;
    assert_eq!(stopped(consumer), 1);
}

#[test]
fn wrong_usage_names_the_next_step() {
    for (arguments, message) in [
        (&["run", "--name", "b", "--on-expired", "replay-archive"][..], "run `afterwrite replay`"),
        (&["run", "--name", "b", "--table", "ExamBudyTable"], "Did you mean ExamBuddyTable?"),
        (&["run", "--name", "b"], "AFTERWRITE_STATE_TABLE is not set"),
    ] {
        let mut refused = BackgroundCommand::start(arguments, &[("AFTERWRITE_STATE_TABLE", "")]);
        let (code, _, errors) = refused.ended();
        assert_eq!(code, Some(2), "{errors}");
        assert!(errors.contains(message), "{errors}");
    }
}
