//! `afterwrite run` against a stream over HTTP.

use std::collections::HashMap;
use std::time::Duration;

use afterwrite_local::dynamodb::{EmbeddedDynamoDb, KeyDefinition, TableDefinition};
use afterwrite_local::s3::EmbeddedS3;
use afterwrite_local::sdk::CREDENTIAL;
use afterwrite_local::stream_api::StreamServer;
use afterwrite_model::clock::{Clock as _, SystemClock};
use afterwrite_services::ObjectStore as _;
use afterwrite_services::s3::S3Bucket;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::{Value, json};

use crate::background::{BackgroundCommand, eventually};

const SOURCE: &str = "ExamBuddyTable";
const STATE: &str = "State";
const BUCKET: &str = "archive-of-exams";

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
        self.consumer_with(arguments, &[])
    }

    /// A consumer with further variables.
    fn consumer_with(&self, arguments: &[&str], more: &[(&'static str, String)]) -> BackgroundCommand {
        let endpoint = self.server.endpoint();
        let mut variables = vec![
            ("AFTERWRITE_MODEL", "exambuddy"),
            ("AFTERWRITE_STATE_TABLE", STATE),
            ("AWS_ENDPOINT_URL", endpoint.as_str()),
            ("AWS_REGION", "us-east-1"),
            ("AWS_ACCESS_KEY_ID", CREDENTIAL),
            ("AWS_SECRET_ACCESS_KEY", CREDENTIAL),
            ("AWS_EC2_METADATA_DISABLED", "true"),
        ];
        variables.extend(more.iter().map(|(name, value)| (*name, value.as_str())));
        BackgroundCommand::start(&[&["run", "--name", "blue", "--json"], arguments].concat(), &variables)
    }

    /// The shard of an old checkpoint is not in the stream any more.
    async fn lose_shard(&self) {
        for (shard, mut item) in self.checkpoints().await {
            if shard == "-" {
                continue;
            }
            let delete = self.client.delete_item().table_name(STATE);
            let key = (item["PK"].clone(), text(&shard));
            delete.key("PK", key.0).key("SK", key.1).send().await.unwrap();
            item.insert("SK".to_owned(), text("shardId-lost"));
            let updated_at = SystemClock.now().minus(Duration::from_secs(2 * 3600));
            item.insert("updated_at".to_owned(), text(&updated_at.to_string()));
            self.client.put_item().table_name(STATE).set_item(Some(item)).send().await.unwrap();
        }
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
    // Logs and metrics are on standard error. The reports of recoveries precede the totals.
    let values = serde_json::Deserializer::from_str(&output).into_iter::<Value>();
    let values: Vec<Value> = values.collect::<Result<_, _>>().unwrap_or_else(|_| panic!("{output}"));
    let totals = values.last().unwrap_or_else(|| panic!("{errors}"));
    assert_eq!(totals["tables"][0]["table"], SOURCE);
    totals["tables"][0]["read"].as_u64().unwrap()
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

    // An emulated table needs no `--without-recovery`.
    let recovered = deployment.consumer(&["--on-expired", "backfill"]);
    deployment.counted("2").await;
    deployment.put_attempt("3").await;
    deployment.counted("3").await;
    assert!(stopped(recovered) >= 3, "it goes on with the oldest record");

    let reset = deployment.consumer(&["--reset"]);
    deployment.put_attempt("4").await;
    deployment.counted("4").await;
    assert!(stopped(reset) >= 2);
}

/// A bucket with an archive.
struct Archive {
    server: EmbeddedS3,
}

impl Archive {
    async fn start() -> Self {
        let server = EmbeddedS3::start().await.unwrap();
        server.create_bucket(BUCKET).await.unwrap();
        Self { server }
    }

    /// Adds an object that arrives now.
    async fn add(&self, records: &[Value]) {
        let now = SystemClock.now();
        let day = now.day().unwrap();
        let hour = now.epoch_seconds() / 3600 % 24;
        let lines: String = records.iter().map(|record| format!("{record}\n")).collect();
        let bucket = S3Bucket::new(&self.server.client(), BUCKET.into());
        let key = format!("archive/dt={day}/hh={hour:02}/{}.jsonl", records.len());
        bucket.put(&key, lines.into_bytes()).await.unwrap();
    }

    fn variables(&self) -> Vec<(&'static str, String)> {
        vec![("AFTERWRITE_BUCKET", BUCKET.to_owned()), ("AWS_ENDPOINT_URL_S3", self.server.endpoint())]
    }
}

/// The archived record of a new attempt, so long ago.
fn archived_attempt(attempt: &str, age: Duration) -> Value {
    let created = SystemClock.now().minus(age).epoch_seconds();
    let keys = json!({ "PK": { "S": "CANDIDATE#c1" }, "SK": { "S": format!("ATTEMPT#{attempt}") } });
    let mut image = keys.clone();
    for (name, value) in [("project_id", "p1"), ("started_at", "2026-02-06T14:30:00Z"), ("status", "STARTED")]
    {
        image[name] = json!({ "S": value });
    }
    json!({
        "eventID": format!("archived-{attempt}"),
        "eventName": "INSERT",
        "eventSourceARN":
            format!("arn:aws:dynamodb:us-east-1:000000000000:table/{SOURCE}/stream/2026-01-01T00:00:00.000"),
        "dynamodb": {
            "ApproximateCreationDateTime": created,
            "Keys": keys,
            "NewImage": image,
            "SequenceNumber": "100000000000000000001",
            "StreamViewType": "NEW_AND_OLD_IMAGES",
        },
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_that_were_trimmed_are_replayed_from_the_archive() {
    const HOUR: Duration = Duration::from_secs(3600);
    let deployment = Deployment::start().await;
    let archive = Archive::start().await;
    deployment.put_project().await;
    deployment.put_attempt("1").await;
    let first = deployment.consumer(&[]);
    deployment.counted("1").await;
    stopped(first);
    deployment.lose_shard().await;
    let policy = ["--on-expired", "replay-archive", "--without-recovery"];
    let variables = archive.variables();
    let start = |arguments: &[&str]| deployment.consumer_with(arguments, &variables);

    // The writer of another table's changes says nothing about the writer of this table's changes.
    let mut other = archived_attempt("9", HOUR);
    other["eventSourceARN"] =
        json!("arn:aws:dynamodb:us-east-1:000000000000:table/Other/stream/2026-01-01T00:00:00.000");
    let others = Archive::start().await;
    others.add(&[other]).await;
    for archive in [&archive, &others] {
        let (code, _, errors) = deployment.consumer_with(&policy, &archive.variables()).ended();
        assert_eq!(code, Some(3), "{errors}");
        assert!(errors.contains("the archive has no change of the table of that time"), "{errors}");
        assert!(errors.contains("--on-expired backfill"), "{errors}");
    }

    // The second record may have been in the stream when the last checkpoint was written.
    archive.add(&[archived_attempt("2", HOUR), archived_attempt("3", 26 * HOUR)]).await;
    let mut recovered = start(&policy[..2]);
    deployment.counted("3").await;
    deployment.put_attempt("4").await;
    deployment.counted("4").await;
    recovered.signal("TERM");
    let (code, output, errors) = recovered.ended();
    assert_eq!(code, Some(0), "{errors}");
    assert!(errors.contains("the archive is replayed from"), "{errors}");
    assert!(output.contains("\"records\": 2"), "both records were read: {output}");
    assert!(deployment.checkpoints().await.keys().all(|shard| !shard.contains("lost")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_archive_cannot_close_the_gap_of_a_stream_that_was_created_again() {
    let deployment = Deployment::start().await;
    let archive = Archive::start().await;
    deployment.put_project().await;
    deployment.put_attempt("1").await;
    let first = deployment.consumer(&[]);
    deployment.counted("1").await;
    stopped(first);
    deployment.client.delete_table().table_name(SOURCE).send().await.unwrap();
    deployment.server.create_table(&source()).await.unwrap();
    let policy = ["--on-expired", "replay-archive", "--without-recovery"];
    let (code, _, errors) = deployment.consumer_with(&policy, &archive.variables()).ended();
    assert_eq!(code, Some(3), "{errors}");
    assert!(errors.contains("the stream was created again"), "{errors}");
    assert!(errors.contains("--on-expired backfill"), "{errors}");
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_consumer_begins_at_a_time_and_refuses_checkpoints_before_it() {
    let deployment = Deployment::start().await;
    // The database itself cannot begin a stream at a time.
    let front = StreamServer::start(&deployment.server, 0).await.unwrap();
    let endpoint = [("AWS_ENDPOINT_URL", front.endpoint())];
    deployment.put_project().await;
    deployment.put_attempt("1").await;
    tokio::time::sleep(Duration::from_millis(2100)).await;
    let time = SystemClock.now().to_string();
    deployment.put_attempt("2").await;
    let first = deployment.consumer_with(&["--from", &time], &endpoint);
    deployment.counted("1").await;
    assert_eq!(stopped(first), 1, "the changes before the time are left out");
    // The same command continues at its checkpoints.
    deployment.put_attempt("3").await;
    let second = deployment.consumer_with(&["--from", &time], &endpoint);
    deployment.counted("2").await;
    assert_eq!(stopped(second), 1);
    tokio::time::sleep(Duration::from_millis(2100)).await;
    let later = SystemClock.now().to_string();
    let (code, _, errors) = deployment.consumer_with(&["--from", &later], &endpoint).ended();
    assert_eq!(code, Some(2), "{errors}");
    assert!(errors.contains("lie before --from") && errors.contains("--reset"), "{errors}");
    let reset = deployment.consumer_with(&["--from", &later, "--reset"], &endpoint);
    deployment.put_attempt("4").await;
    deployment.counted("3").await;
    assert_eq!(stopped(reset), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_time_that_a_stream_cannot_begin_at_is_refused() {
    let deployment = Deployment::start().await;
    let day = Duration::from_secs(24 * 3600);
    for (time, message) in [
        (SystemClock.now().minus(day + Duration::from_secs(60)), "keeps its records for 24 hours"),
        (SystemClock.now().plus(day), "in the future"),
    ] {
        let (code, _, errors) = deployment.consumer(&["--from", &time.to_string()]).ended();
        assert_eq!(code, Some(2), "{errors}");
        assert!(errors.contains(message), "{errors}");
    }
    assert!(deployment.checkpoints().await.keys().all(|shard| shard == "-"));
}

#[test]
fn wrong_usage_names_the_next_step() {
    for (arguments, message) in [
        (&["run", "--name", "b", "--table", "ExamBudyTable"][..], "Did you mean ExamBuddyTable?"),
        (&["run", "--name", "b"], "AFTERWRITE_STATE_TABLE is not set"),
    ] {
        let mut refused = BackgroundCommand::start(arguments, &[("AFTERWRITE_STATE_TABLE", "")]);
        let (code, _, errors) = refused.ended();
        assert_eq!(code, Some(2), "{errors}");
        assert!(errors.contains(message), "{errors}");
    }
}
