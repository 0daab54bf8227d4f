//! Caches and the archive fail apart, and each record on its own account.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use afterwrite::commit::SystemClock;
use afterwrite::projection::StaleKey;
use afterwrite::record::Timestamp;
use afterwrite::relay::archive::Archiver;
use afterwrite::relay::invalidate::Invalidator;
use afterwrite::sink::cloudfront::CloudFront;
use afterwrite::sink::firehose::{Firehose, MemoryStream};
use afterwrite::sink::redis::{Redis, Topology};
use afterwrite::sink::s3::{MemoryObjects, S3};
use afterwrite::sink::{Cache, Invalidated};
use afterwrite::table::Model;
use afterwrite::{Error, ErrorKind};
use afterwrite_functions::{Relay, Relayed, SourceTables};
use afterwrite_tests::archive::{Archive, BUCKET, STREAM};
use afterwrite_tests::cloudfront::FakeCloudFront;
use afterwrite_tests::redis_server::free_port;
use serde_json::{Value, json};

use super::delivery::{deadline, model, question};

/// A cache that remembers what went.
#[derive(Clone, Default)]
struct Gone(Arc<Mutex<BTreeSet<String>>>);

impl Cache for Gone {
    async fn invalidate(&self, keys: &[StaleKey], _now: Timestamp, _limit: Duration) -> Invalidated {
        self.0.lock().unwrap().extend(keys.iter().map(|stale| stale.key.clone()));
        Invalidated { answers: keys.iter().map(|_| Ok(())).collect(), commands: 1 }
    }
}

fn tables(model: &Arc<Model>) -> SourceTables {
    SourceTables::new(Arc::clone(model), model.tables.iter().map(|table| Arc::clone(&table.name)).collect())
}

fn event(records: &[Value]) -> String {
    json!({ "Records": records }).to_string()
}

/// The sequence numbers of the records that failed, each once, and why.
fn failed(relayed: &Relayed) -> Vec<(&str, &Error)> {
    let mut failed: Vec<(&str, &Error)> = relayed
        .failures
        .iter()
        .map(|failed| (failed.sequence_number.as_deref().unwrap_or_default(), &failed.error))
        .collect();
    failed.sort_by_key(|(number, _)| *number);
    failed
}

/// The record, at another place of its shard.
fn at(mut record: Value, sequence_number: &str) -> Value {
    record["dynamodb"]["SequenceNumber"] = json!(sequence_number);
    record
}

/// The record, with so much in its item that its line goes to the bucket directly.
fn large(mut record: Value) -> Value {
    record["dynamodb"]["NewImage"]["explanation"] = json!({ "S": "x".repeat(1_024_000) });
    record
}

/// Whatever becomes of the archive, keys and paths of three questions go; every record is reported as not archived.
async fn invalidated_without(archive: Archiver<Firehose, S3, SystemClock>, kind: ErrorKind) {
    let (cache, cloudfront, model) = (Gone::default(), FakeCloudFront::start().await, model());
    let invalidator = Invalidator::new(
        Arc::clone(&model),
        Some(cache.clone()),
        Some(cloudfront.distribution()),
        SystemClock,
    );
    let relay = Relay::new(tables(&model), Some(invalidator), Some(archive), SystemClock);
    let records =
        [at(large(question("p", "1")), "101"), at(question("p", "2"), "102"), at(question("p", "3"), "103")];
    let relayed = relay.handle(event(&records).as_bytes(), deadline(2)).await.unwrap();
    let keys = ["project:p:questions", "question:1", "question:2", "question:3"];
    assert_eq!(*cache.0.lock().unwrap(), keys.map(str::to_owned).into());
    let [asked] = cloudfront.asked().try_into().unwrap();
    assert_eq!(asked.paths, ["/api/projects/p", "/api/projects/p/*"]);
    let failed = failed(&relayed);
    assert_eq!(failed.iter().map(|(number, _)| *number).collect::<Vec<_>>(), ["101", "102", "103"]);
    assert!(failed.iter().all(|(_, error)| error.kind() == kind), "{failed:?}");
    let [lowest] = relayed.response.batch_item_failures.try_into().unwrap();
    assert_eq!(lowest.item_identifier, "101");
    assert_eq!(relayed.archived.unwrap().lines, 0);
    assert_eq!(relayed.invalidated.unwrap().keys, keys.len());
}

#[tokio::test]
async fn an_archive_out_of_reach_keeps_nothing_from_being_invalidated() {
    let servers = Archive::start().await;
    let nowhere = format!("http://127.0.0.1:{}", free_port());
    let firehose = servers.firehose.sdk_config().into_builder().endpoint_url(&nowhere).build();
    let s3 = aws_sdk_s3::config::Builder::from(&servers.s3.sdk_config())
        .endpoint_url(&nowhere)
        .force_path_style(true)
        .build();
    let archive = Archiver::new(
        Firehose::new(&aws_sdk_firehose::Client::new(&firehose), Arc::from(STREAM)),
        S3::new(&aws_sdk_s3::Client::from_conf(s3), Arc::from(BUCKET)),
        SystemClock,
    );
    invalidated_without(archive, ErrorKind::Unavailable).await;
}

#[tokio::test]
async fn an_archive_that_refuses_everything_keeps_nothing_from_being_invalidated() {
    let servers = Archive::start().await;
    let archive = Archiver::new(
        Firehose::new(&servers.firehose.client(), Arc::from("elsewhere")),
        S3::new(&servers.s3.client(), Arc::from("elsewhere")),
        SystemClock,
    );
    invalidated_without(archive, ErrorKind::Configuration).await;
}

/// A model in which only the price of an article is cached, and nothing of a visit.
const SHOP: &str = r#"
name = "shop"
generation = 1

[tables.Shop]
key = ["PK", "SK"]

[entities.article]
key = { PK = "ARTICLE#{article_id}", SK = "ARTICLE" }
attributes = { price = "N" }

[entities.visit]
key = { PK = "ARTICLE#{article_id}", SK = "VISIT#{visit_id}" }

[[caches]]
of = "article"
keys = ["article:{article_id}"]
depends_on = ["price"]
"#;

#[tokio::test]
async fn a_dead_cache_fails_only_the_records_that_need_it() {
    let model = Arc::new(Model::parse(SHOP, "shop").unwrap_or_else(|errors| panic!("{errors}")));
    let nowhere = format!("redis://127.0.0.1:{}", free_port());
    let cache = Redis::new(&nowhere, Topology::Single, None).unwrap();
    let invalidator =
        Invalidator::<_, CloudFront, _>::new(Arc::clone(&model), Some(cache), None, SystemClock);
    let stream = Arc::new(MemoryStream::default());
    let archiver = Archiver::new(Arc::clone(&stream), MemoryObjects::default(), SystemClock);
    let relay = Relay::new(tables(&model), Some(invalidator), Some(archiver), SystemClock);
    let record = |sequence_number: &str, sort: &str, old: Value, new: Value| {
        let keys = json!({ "PK": { "S": "ARTICLE#1" }, "SK": { "S": sort } });
        let image = |mut attributes: Value| {
            attributes.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
            attributes
        };
        json!({
            "eventID": sequence_number, "eventName": "MODIFY",
            "eventSourceARN": "arn:aws:dynamodb:us-east-1:000000000000:table/Shop/stream/2026-02-06T10:00:00.000",
            "dynamodb": {
                "Keys": keys, "OldImage": image(old), "NewImage": image(new), "SequenceNumber": sequence_number
            }
        })
    };
    let number = |price: u8, stock: u8| json!({ "price": { "N": price.to_string() }, "stock": { "N": stock.to_string() } });
    let records = [
        record("201", "VISIT#1", json!({}), json!({ "seen": { "BOOL": true } })),
        record("202", "ARTICLE", number(5, 9), number(5, 8)),
        record("203", "ARTICLE", number(5, 8), number(6, 8)),
        record("204", "STRANGER", json!({}), json!({})),
        record("205", "ARTICLE", number(6, 8), number(7, 8)),
    ];
    let relayed = relay.handle(event(&records).as_bytes(), deadline(1)).await.unwrap();
    let failed = failed(&relayed);
    assert_eq!(failed.iter().map(|(number, _)| *number).collect::<Vec<_>>(), ["203", "205"]);
    assert!(failed.iter().all(|(_, error)| error.kind() == ErrorKind::Unavailable), "{failed:?}");
    let [lowest] = relayed.response.batch_item_failures.try_into().unwrap();
    assert_eq!(lowest.item_identifier, "203");
    assert_eq!(relayed.archived.unwrap().lines, 5);
    assert_eq!(stream.contents().iter().filter(|byte| **byte == b'\n').count(), 5);
    // Without them, the same dead cache fails nothing.
    let others = [&records[..2], &records[3..4]].concat();
    let relayed = relay.handle(event(&others).as_bytes(), deadline(1)).await.unwrap();
    assert_eq!(relayed.response.batch_item_failures, []);
}

/// What is archived cannot be completed later, so a stream that lacks what the datasets are made of must be noticed.
#[tokio::test]
async fn a_stream_without_the_images_of_rows_is_not_archived() {
    let model = model();
    let stream = Arc::new(MemoryStream::default());
    let archiver = Archiver::new(Arc::clone(&stream), MemoryObjects::default(), SystemClock);
    let invalidator: Option<Invalidator<Gone, CloudFront, SystemClock>> = None;
    let relay = Relay::new(tables(&model), invalidator, Some(archiver), SystemClock);
    let record = |view: &str, operation: &str, sort: &str| {
        let keys = json!({ "PK": { "S": "CANDIDATE#1" }, "SK": { "S": sort } });
        let mut record = at(question("p", "1"), "301");
        record["eventName"] = json!(operation);
        record["dynamodb"]["StreamViewType"] = json!(view);
        record["dynamodb"]["Keys"] = keys.clone();
        match (view, operation) {
            ("NEW_IMAGE", "INSERT" | "MODIFY") => record["dynamodb"]["NewImage"] = keys,
            _ => {
                record["dynamodb"].as_object_mut().unwrap().remove("NewImage");
            }
        }
        event(&[record])
    };
    let attempt = "ATTEMPT#1";
    for (view, operation, sort) in [
        ("KEYS_ONLY", "INSERT", attempt),
        ("KEYS_ONLY", "INSERT", "STRANGER"),
        ("NEW_IMAGE", "MODIFY", attempt),
        ("NEW_IMAGE", "REMOVE", attempt),
        ("OLD_IMAGE", "INSERT", attempt),
    ] {
        let event = record(view, operation, sort);
        let error = relay.handle(event.as_bytes(), deadline(2)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Stream, "{view} {operation}");
        assert!(
            error.to_string().contains(view) && error.to_string().contains("NEW_AND_OLD_IMAGES"),
            "{error}"
        );
    }
    assert!(stream.contents().is_empty());
    for (operation, sort) in [("INSERT", attempt), ("REMOVE", "STRANGER")] {
        let event = record("NEW_IMAGE", operation, sort);
        assert_eq!(relay.handle(event.as_bytes(), deadline(2)).await.unwrap().archived.unwrap().lines, 1);
    }
}
