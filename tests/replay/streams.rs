//! `afterwrite tail` and `record --stream`: a table's stream is followed through the AWS SDK, against the embedded DynamoDB over HTTP.

use std::sync::Arc;
use std::time::{Duration, Instant};

use afterwrite_local::dynamodb::{EmbeddedDynamoDb, KeyDefinition, TableDefinition};
use afterwrite_local::stream_api::StreamServer;
use afterwrite_mapping::aws::DeployedStream;
use afterwrite_mapping::tail::{StreamStart, TableStream};
use afterwrite_mapping::{ShardPosition, StreamSource as _};
use afterwrite_memory::MemoryTables;
use afterwrite_model::Result;
use afterwrite_model::clock::{Clock as _, SystemClock};
use afterwrite_model::table::Model;
use afterwrite_preview::recording::RecordCutter;
use afterwrite_preview::trace::{RecordTracer, TraceLookups};
use afterwrite_services::http_client;
use aws_sdk_dynamodb::types::{AttributeValue, StreamSpecification};
use aws_sdk_dynamodbstreams::config::{BehaviorVersion, Credentials, Region};

const TABLE: &str = "glad-entities";
const LIMIT: Duration = Duration::from_secs(20);

async fn server() -> EmbeddedDynamoDb {
    let server = EmbeddedDynamoDb::start().await.unwrap();
    let table = TableDefinition {
        name: TABLE.to_owned(),
        key: KeyDefinition::new("PK", "SK"),
        stream: true,
        ttl_attribute: Some("expires_at".to_owned()),
        ..TableDefinition::default()
    };
    server.create_table(&table).await.unwrap();
    server
}

fn streams(endpoint: String) -> aws_sdk_dynamodbstreams::Client {
    let credentials = Credentials::new("embedded", "embedded", None, None, "embedded");
    let config = aws_sdk_dynamodbstreams::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::from_static("us-east-1"))
        .endpoint_url(endpoint)
        .credentials_provider(credentials)
        .http_client(http_client())
        .build();
    aws_sdk_dynamodbstreams::Client::from_conf(config)
}

async fn open(server: &EmbeddedDynamoDb, table: &str, start: StreamStart) -> Result<TableStream> {
    let stream = DeployedStream::of_table(&server.client(), streams(server.endpoint()), table).await?;
    Ok(TableStream::new(stream, start))
}

async fn put(server: &EmbeddedDynamoDb, user: &str) {
    let text = |value: &str| AttributeValue::S(value.to_owned());
    let put = server.client().put_item().table_name(TABLE).item("PK", text(&format!("USER#{user}")));
    let put = put.item("SK", text("PROFILE")).item("PasswordHash", text("a secret"));
    put.send().await.unwrap();
}

/// The next records, at least `count`.
async fn records(stream: &mut TableStream, count: usize) -> Vec<String> {
    let (started, mut records) = (Instant::now(), Vec::new());
    while records.len() < count {
        assert!(started.elapsed() < LIMIT, "{} of {count} records", records.len());
        records.extend(stream.next_records().await.unwrap());
    }
    records
}

#[tokio::test]
async fn a_stream_is_followed_from_its_oldest_record_or_from_now_on() {
    let server = server().await;
    put(&server, "ann").await;
    let mut all = open(&server, TABLE, StreamStart::Oldest).await.unwrap();
    let mut new = open(&server, TABLE, StreamStart::Latest).await.unwrap();
    assert_eq!(new.next_records().await.unwrap(), [""; 0]);
    put(&server, "bob").await;
    let (all, new) = (records(&mut all, 2).await, records(&mut new, 1).await);
    assert!(all[0].contains("USER#ann") && all[1].contains("USER#bob"));
    assert_eq!(new.len(), 1);
    assert!(new[0].contains("USER#bob"));
    server.stop().await.unwrap();
}

/// Writes of different seconds: records state their time to the second.
#[tokio::test]
async fn a_stream_is_followed_from_a_time_on_also_after_it_has_ended() {
    let server = server().await;
    put(&server, "ann").await;
    tokio::time::sleep(Duration::from_millis(2100)).await;
    let time = SystemClock.now();
    put(&server, "bob").await;
    let front = StreamServer::start(&server, 0).await.unwrap();
    let followed = async |time| {
        let tables = front.client();
        let stream = DeployedStream::of_table(&tables, streams(front.endpoint()), TABLE).await.unwrap();
        TableStream::new(stream, StreamStart::At(time))
    };
    let mut from_time = followed(time).await;
    let found = records(&mut from_time, 1).await;
    assert!(found.len() == 1 && found[0].contains("USER#bob"), "{found:?}");
    put(&server, "cid").await;
    assert!(records(&mut from_time, 1).await[0].contains("USER#cid"));
    let both = records(&mut followed(time.minus(Duration::from_secs(60))).await, 3).await;
    assert!(both[0].contains("USER#ann"));
    let future = followed(time.plus(Duration::from_secs(60))).await.next_records().await;
    assert!(future.unwrap_err().to_string().contains("GetShardIterator"));
    // The only shard of a stream that has ended before the time has no record.
    let mut ended = followed(time).await;
    let mut later = followed(SystemClock.now().plus(Duration::from_secs(1))).await;
    let disabled = StreamSpecification::builder().stream_enabled(false).build().unwrap();
    let update = front.client().update_table().table_name(TABLE).stream_specification(disabled);
    update.send().await.unwrap();
    assert_eq!(records(&mut ended, 2).await.len(), 2);
    tokio::time::sleep(Duration::from_millis(2100)).await;
    for _ in 0..3 {
        assert_eq!(later.next_records().await.unwrap(), [""; 0]);
    }
    server.stop().await.unwrap();
}

#[tokio::test]
async fn a_followed_record_is_traced_and_recorded_without_secrets() {
    let server = server().await;
    put(&server, "ann").await;
    let mut stream = open(&server, TABLE, StreamStart::Oldest).await.unwrap();
    let record = records(&mut stream, 1).await.remove(0);
    let model = Arc::new(Model::load("glad").unwrap());
    let names = vec![Arc::from(TABLE)];
    let line = RecordCutter::new(Arc::clone(&model), names.clone()).line(&record).unwrap();
    assert!(record.contains("a secret") && !line.contains("a secret"), "{line}");
    let lookups = TraceLookups::<MemoryTables>::new(&model, None);
    let trace = RecordTracer::new(model, names, lookups).trace(&record).await.unwrap();
    assert_eq!(trace.entity.as_deref(), Some("user"));
    assert_eq!(trace.keys, ["user:ann", "users"]);
    let shown = trace.to_string();
    assert!(shown.contains("INSERT glad-entities USER#ann PROFILE → user → rollups: USERS"), "{shown}");
    assert!(!shown.contains("a secret"), "{shown}");
    server.stop().await.unwrap();
}

#[tokio::test]
async fn a_table_without_a_stream_is_refused() {
    let server = EmbeddedDynamoDb::start().await.unwrap();
    server.create_table(&TableDefinition::state("state")).await.unwrap();
    let error = open(&server, "state", StreamStart::Latest).await.unwrap_err();
    assert!(error.to_string().contains("the table has no stream"), "{error}");
    let missing = open(&server, "other", StreamStart::Latest).await;
    assert!(missing.unwrap_err().to_string().contains("cannot be described"));
    server.stop().await.unwrap();
}

#[tokio::test]
async fn an_expiry_read_over_http_is_the_one_that_functions_get() {
    let server = server().await;
    let front = StreamServer::start(&server, 0).await.unwrap();
    let expired =
        server.client().put_item().table_name(TABLE).item("PK", AttributeValue::S("USER#ann".to_owned()));
    let expired = expired.item("SK", AttributeValue::S("PROFILE".to_owned()));
    expired.item("expires_at", AttributeValue::N("1000000000".to_owned())).send().await.unwrap();
    assert_eq!(server.sweep_expired().await.unwrap(), 1);
    let embedded = server.stream(TABLE).await.unwrap();
    let stream = DeployedStream::of_table(&front.client(), streams(front.endpoint()), TABLE).await.unwrap();
    assert_eq!(stream.arn(), embedded.arn());
    let followed = records(&mut TableStream::new(stream, StreamStart::Oldest), 2).await;
    let shard = embedded.describe(None).await.unwrap().shards.remove(0).id;
    let iterator = embedded.iterator(&shard, &ShardPosition::TrimHorizon).await.unwrap();
    let delivered = embedded.read(&iterator).await.unwrap().records;
    let delivered: Vec<serde_json::Value> =
        delivered.iter().map(|record| serde_json::from_str(&record.json).unwrap()).collect();
    let followed: Vec<serde_json::Value> =
        followed.iter().map(|record| serde_json::from_str(record).unwrap()).collect();
    assert_eq!(followed, delivered);
    assert_eq!(followed[1]["userIdentity"]["principalId"], "dynamodb.amazonaws.com");
    server.stop().await.unwrap();
}
