//! Failures of the relay are independent: caches do not affect the archive, the archive does not affect caches, and a record does not
//! affect its neighbours.

use std::collections::BTreeSet;
use std::sync::Arc;

use afterwrite_functions::{RelayedBatch, SourceTables, StreamRelay};
use afterwrite_memory::{MemoryCache, MemoryObjects, MemoryStream};
use afterwrite_model::clock::SystemClock;
use afterwrite_model::table::Model;
use afterwrite_model::{Error, ErrorKind};
use afterwrite_relay::archive::ChangeArchiver;
use afterwrite_relay::invalidate::CacheInvalidator;
use afterwrite_services::PathTarget;
use afterwrite_services::cloudfront::CloudFront;
use afterwrite_services::firehose::Firehose;
use afterwrite_services::redis::{CacheTopology, RedisCache};
use afterwrite_services::s3::S3Bucket;
use afterwrite_services::sqs::SqsQueue;
use afterwrite_tests::archive::{BUCKET, EmbeddedArchive, STREAM};
use afterwrite_tests::cloudfront::{distribution, start_cloudfront};
use afterwrite_tests::redis_server::free_port;
use serde_json::{Value, json};

use super::delivery::{deadline, model, question};

/// A relay whose cache and archive are in memory.
pub(crate) type MemoryRelay =
    StreamRelay<MemoryCache, CloudFront, SqsQueue, Arc<MemoryStream>, MemoryObjects, SystemClock>;

/// The keys that were invalidated in the cache.
fn invalidated(cache: &MemoryCache) -> BTreeSet<String> {
    cache.published().into_iter().collect()
}

pub(crate) fn tables(model: &Arc<Model>) -> SourceTables {
    SourceTables::new(Arc::clone(model), model.tables.iter().map(|table| Arc::clone(&table.name)).collect())
}

pub(crate) fn event(records: &[Value]) -> String {
    json!({ "Records": records }).to_string()
}

/// The sequence numbers of the records that failed, each once, and why.
pub(crate) fn failed(relayed: &RelayedBatch) -> Vec<(&str, &Error)> {
    let mut failed: Vec<(&str, &Error)> = relayed
        .failures
        .iter()
        .map(|failed| (failed.sequence_number.as_deref().unwrap_or_default(), &failed.error))
        .collect();
    failed.sort_by_key(|(number, _)| *number);
    failed
}

/// The record with another sequence number.
pub(crate) fn at(mut record: Value, sequence_number: &str) -> Value {
    record["dynamodb"]["SequenceNumber"] = json!(sequence_number);
    record
}

/// The record with an item so large that its line becomes an object of its own.
fn large(mut record: Value) -> Value {
    record["dynamodb"]["NewImage"]["explanation"] = json!({ "S": "x".repeat(1_024_000) });
    record
}

/// Without an archive, the keys and paths of three questions are invalidated, and every record is reported as failed.
async fn assert_invalidated_without(
    archive: ChangeArchiver<Firehose, S3Bucket, SystemClock>,
    kind: ErrorKind,
) {
    let (cache, cloudfront, model) = (MemoryCache::default(), start_cloudfront().await, model());
    let invalidator: CacheInvalidator<_, _, SqsQueue, _> = CacheInvalidator::new(
        Some(cache.clone()),
        Some(PathTarget::Distribution(distribution(&cloudfront))),
        SystemClock,
    );
    let relay = StreamRelay::new(tables(&model), Some(invalidator), Some(archive), SystemClock);
    let records =
        [at(large(question("p", "1")), "101"), at(question("p", "2"), "102"), at(question("p", "3"), "103")];
    let relayed = relay.handle(event(&records).as_bytes(), deadline(2)).await.unwrap();
    let keys = ["project:p:questions", "question:1", "question:2", "question:3"];
    assert_eq!(invalidated(&cache), keys.map(str::to_owned).into());
    let [request] = cloudfront.requests().try_into().unwrap();
    assert_eq!(request.paths, ["/api/projects/p", "/api/projects/p/*"]);
    let failed = failed(&relayed);
    assert_eq!(failed.iter().map(|(number, _)| *number).collect::<Vec<_>>(), ["101", "102", "103"]);
    assert!(failed.iter().all(|(_, error)| error.kind() == kind), "{failed:?}");
    let [lowest] = relayed.response.batch_item_failures.try_into().unwrap();
    assert_eq!(lowest.item_identifier, "101");
    assert_eq!(relayed.archived.unwrap().lines, 0);
    assert_eq!(relayed.invalidated.unwrap().keys, keys.len());
}

#[tokio::test]
async fn an_unreachable_archive_does_not_affect_invalidation() {
    let servers = EmbeddedArchive::start().await;
    let nowhere = format!("http://127.0.0.1:{}", free_port());
    let firehose = servers.firehose.sdk_config().into_builder().endpoint_url(&nowhere).build();
    let s3 = aws_sdk_s3::config::Builder::from(&servers.s3.sdk_config())
        .endpoint_url(&nowhere)
        .force_path_style(true)
        .build();
    let archive = ChangeArchiver::new(
        Firehose::new(&aws_sdk_firehose::Client::new(&firehose), Arc::from(STREAM)),
        S3Bucket::new(&aws_sdk_s3::Client::from_conf(s3), Arc::from(BUCKET)),
        SystemClock,
    );
    assert_invalidated_without(archive, ErrorKind::Unavailable).await;
}

#[tokio::test]
async fn an_archive_that_refuses_every_record_does_not_affect_invalidation() {
    let servers = EmbeddedArchive::start().await;
    let archive = ChangeArchiver::new(
        Firehose::new(&servers.firehose.client(), Arc::from("elsewhere")),
        S3Bucket::new(&servers.s3.client(), Arc::from("elsewhere")),
        SystemClock,
    );
    assert_invalidated_without(archive, ErrorKind::Configuration).await;
}

/// A model that caches only the price of an article; the notes of a visit are secret.
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
secret = ["notes"]

[[caches]]
of = "article"
keys = ["article:{article_id}"]
depends_on = ["price"]
"#;

pub(crate) fn shop(model: &str) -> Arc<Model> {
    Arc::new(Model::parse(model, "shop").unwrap_or_else(|errors| panic!("{errors}")))
}

/// The MODIFY of an item of the shop.
pub(crate) fn change(sequence_number: &str, article: u8, sort: &str, old: Value, new: Value) -> Value {
    let keys = json!({ "PK": { "S": format!("ARTICLE#{article}") }, "SK": { "S": sort } });
    let image = |mut attributes: Value| {
        attributes.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
        attributes
    };
    json!({
        "eventID": format!("event-{sequence_number}"), "eventName": "MODIFY",
        "eventSourceARN": "arn:aws:dynamodb:us-east-1:000000000000:table/Shop/stream/2026-02-06T10:00:00.000",
        "dynamodb": {
            "Keys": keys, "OldImage": image(old), "NewImage": image(new), "SequenceNumber": sequence_number
        }
    })
}

/// An article's price changes.
pub(crate) fn price(sequence_number: &str, article: u8) -> Value {
    let price = |price: &str| json!({ "price": { "N": price } });
    change(sequence_number, article, "ARTICLE", price("5"), price("6"))
}

/// The record with another value at a JSON pointer.
fn with(mut record: Value, pointer: &str, value: Value) -> Value {
    *record.pointer_mut(pointer).unwrap() = value;
    record
}

/// A relay with an archive in memory, and its delivery stream; without a cache, it invalidates nothing.
pub(crate) fn in_memory(model: &Arc<Model>, cache: Option<&MemoryCache>) -> (MemoryRelay, Arc<MemoryStream>) {
    let invalidator = cache.map(|cache| CacheInvalidator::new(Some(cache.clone()), None, SystemClock));
    let stream = Arc::new(MemoryStream::default());
    let archiver = ChangeArchiver::new(Arc::clone(&stream), MemoryObjects::default(), SystemClock);
    (StreamRelay::new(tables(model), invalidator, Some(archiver), SystemClock), stream)
}

/// The records in the stream, in order.
pub(crate) fn archived(stream: &MemoryStream) -> Vec<Value> {
    let contents = String::from_utf8(stream.contents()).unwrap();
    contents.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test]
async fn a_dead_cache_fails_only_the_records_with_stale_keys() {
    let model = shop(SHOP);
    let nowhere = format!("redis://127.0.0.1:{}", free_port());
    let cache = RedisCache::new(&nowhere, CacheTopology::Single, None).unwrap();
    let invalidator = CacheInvalidator::<_, CloudFront, SqsQueue, _>::new(Some(cache), None, SystemClock);
    let stream = Arc::new(MemoryStream::default());
    let archiver = ChangeArchiver::new(Arc::clone(&stream), MemoryObjects::default(), SystemClock);
    let relay = StreamRelay::new(tables(&model), Some(invalidator), Some(archiver), SystemClock);
    let number = |price: u8, stock: u8| json!({ "price": { "N": price.to_string() }, "stock": { "N": stock.to_string() } });
    let records = [
        change("201", 1, "VISIT#1", json!({}), json!({ "seen": { "BOOL": true } })),
        change("202", 1, "ARTICLE", number(5, 9), number(5, 8)),
        change("203", 1, "ARTICLE", number(5, 8), number(6, 8)),
        change("204", 1, "STRANGER", json!({}), json!({})),
        change("205", 1, "ARTICLE", number(6, 8), number(7, 8)),
    ];
    let relayed = relay.handle(event(&records).as_bytes(), deadline(1)).await.unwrap();
    let failed = failed(&relayed);
    assert_eq!(failed.iter().map(|(number, _)| *number).collect::<Vec<_>>(), ["203", "205"]);
    assert!(failed.iter().all(|(_, error)| error.kind() == ErrorKind::Unavailable), "{failed:?}");
    let [lowest] = relayed.response.batch_item_failures.try_into().unwrap();
    assert_eq!(lowest.item_identifier, "203");
    assert_eq!(relayed.archived.unwrap().lines, 5);
    assert_eq!(stream.contents().iter().filter(|byte| **byte == b'\n').count(), 5);
    // Without those records, the same dead cache fails nothing.
    let others = [&records[..2], &records[3..4]].concat();
    let relayed = relay.handle(event(&others).as_bytes(), deadline(1)).await.unwrap();
    assert_eq!(relayed.response.batch_item_failures, []);
}

/// A record of this view type with the keys and images that it contains.
fn record_with_view(view: &str, operation: &str, sort: &str) -> Value {
    let keys = json!({ "PK": { "S": "CANDIDATE#1" }, "SK": { "S": sort } });
    let mut record = at(question("p", "1"), "301");
    record["eventID"] = json!(format!("event-{view}-{operation}-{sort}"));
    record["eventName"] = json!(operation);
    record["dynamodb"]["StreamViewType"] = json!(view);
    record["dynamodb"]["Keys"] = keys.clone();
    match (view, operation) {
        ("NEW_IMAGE", "INSERT" | "MODIFY") => record["dynamodb"]["NewImage"] = keys,
        _ => {
            record["dynamodb"].as_object_mut().unwrap().remove("NewImage");
        }
    }
    record
}

/// An archive cannot be completed later, so a stream without the images that datasets need must be reported.
#[tokio::test]
async fn a_stream_without_the_images_of_rows_is_not_archived() {
    let model = model();
    let (relay, stream) = in_memory(&model, None);
    let attempt = "ATTEMPT#1";
    for (view, operation, sort) in [
        ("KEYS_ONLY", "INSERT", attempt),
        ("KEYS_ONLY", "INSERT", "STRANGER"),
        ("NEW_IMAGE", "MODIFY", attempt),
        ("NEW_IMAGE", "REMOVE", attempt),
        ("OLD_IMAGE", "INSERT", attempt),
    ] {
        let event = event(&[record_with_view(view, operation, sort)]);
        let error = relay.handle(event.as_bytes(), deadline(2)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Stream, "{view} {operation}");
        assert!(
            error.to_string().contains(view) && error.to_string().contains("NEW_AND_OLD_IMAGES"),
            "{error}"
        );
    }
    assert!(stream.contents().is_empty());
    for (operation, sort) in [("INSERT", attempt), ("REMOVE", "STRANGER")] {
        let event = event(&[record_with_view("NEW_IMAGE", operation, sort)]);
        assert_eq!(relay.handle(event.as_bytes(), deadline(2)).await.unwrap().archived.unwrap().lines, 1);
    }
}

/// The records, except those at the positions `left_out`, without their notes.
fn without_notes(records: &[Value], left_out: &[usize]) -> Vec<Value> {
    let mut kept = Vec::new();
    for (_, record) in records.iter().enumerate().filter(|(position, _)| !left_out.contains(position)) {
        let mut record = record.clone();
        let images = record["dynamodb"].as_object_mut().unwrap().values_mut();
        images.filter_map(Value::as_object_mut).for_each(|image| drop(image.remove("notes")));
        kept.push(record);
    }
    kept
}

/// With `archive = "matched"`, items of no entity are not archived. Records that cannot be identified are kept, and no line contains a secret.
#[tokio::test]
async fn with_archive_matched_items_of_no_entity_are_not_archived() {
    let notes = json!({ "notes": { "S": "LEAK" }, "seen": { "BOOL": true } });
    let stranger = |number: &str| change(number, 1, "STRANGER", json!({}), notes.clone());
    let foreign = with(stranger("305"), "/dynamodb/Keys", json!({ "id": { "S": "1" } }));
    let records = [
        price("301", 1),
        stranger("302"),
        change("303", 1, "VISIT#1", json!({}), notes.clone()),
        with(stranger("304"), "/eventName", json!("UPSERT")),
        foreign,
        with(price("306", 1), "/dynamodb/NewImage", json!("LEAK")),
        price("307", 1),
    ];
    let matched = SHOP.replace("generation = 1", "generation = 1\narchive = \"matched\"");
    let all_but = |left_out: &[usize]| without_notes(&records, left_out);
    // An image that cannot be searched for secrets is never archived; its record is reported.
    for (model, expected) in [(SHOP, all_but(&[5])), (&matched, all_but(&[1, 5]))] {
        let model = shop(model);
        let (relay, stream) = in_memory(&model, None);
        let relayed = relay.handle(event(&records).as_bytes(), deadline(2)).await.unwrap();
        assert_eq!(archived(&stream), expected, "{:?}", model.archive);
        assert_eq!(relayed.archived.unwrap().lines, expected.len() as u64);
        let [("306", error)] = failed(&relayed)[..] else { panic!("{:?}", relayed.failures) };
        assert_eq!(error.kind(), ErrorKind::Record, "{error}");
        assert!(!error.to_string().contains("LEAK"), "{error}");
    }
}

/// For each kind of malformed record: the neighbours' keys are invalidated, their lines archived, and only the malformed record is
/// reported. Its own line is archived if it can be searched for secrets.
#[tokio::test]
async fn a_malformed_record_does_not_affect_its_neighbours() {
    let model = shop(SHOP);
    let bad = |pointer: &str, value: Value| with(price("402", 2), pointer, value);
    let foreign = json!({ "id": { "S": "LEAK" } });
    let own = ["402", "402"];
    // Without a sequence number, the checkpoint is the record before it.
    let unnamed = ["", "401"];
    for (malformed, is_kept, [reported, checkpoint]) in [
        (bad("/eventName", json!("UPSERT")), true, own),
        (bad("/eventSourceARN", json!("LEAK")), true, ["402", "401"]),
        (bad("/dynamodb/NewImage/price/N", json!("LEAK")), true, own),
        (bad("/dynamodb/OldImage/price/N", json!("LEAK")), true, own),
        (bad("/dynamodb/Keys", Value::Null), true, own),
        (bad("/dynamodb/Keys", foreign), true, own),
        (bad("/dynamodb/SequenceNumber", json!(402)), true, unnamed),
        (bad("/dynamodb/NewImage", json!("LEAK")), false, own),
        (bad("/dynamodb", json!("LEAK")), false, unnamed),
        (json!("LEAK"), false, unnamed),
    ] {
        let cache = MemoryCache::default();
        let (relay, stream) = in_memory(&model, Some(&cache));
        let records = [price("401", 1), malformed.clone(), price("403", 3)];
        let relayed = relay.handle(event(&records).as_bytes(), deadline(2)).await.unwrap();
        assert_eq!(invalidated(&cache), ["article:1", "article:3"].map(str::to_owned).into(), "{malformed}");
        let kept = records.into_iter().filter(|record| is_kept || *record != malformed);
        assert_eq!(archived(&stream), kept.collect::<Vec<_>>(), "{malformed}");
        let failed = failed(&relayed);
        assert!(!failed.is_empty(), "{malformed}");
        for (number, error) in failed {
            assert_eq!((number, error.kind()), (reported, ErrorKind::Record), "{malformed}: {error}");
            assert!(!error.to_string().contains("LEAK"), "{malformed}: {error}");
        }
        let [lowest] = relayed.response.batch_item_failures.try_into().unwrap();
        assert_eq!(lowest.item_identifier, checkpoint, "{malformed}");
    }
}
