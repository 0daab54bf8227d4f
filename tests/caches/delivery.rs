//! Delivers records to an invalidator, as the relay does.

use std::sync::Arc;
use std::time::Duration;

use afterwrite_model::clock::{Clock, SystemClock};
use afterwrite_model::entity::SourceKey;
use afterwrite_model::record::{Timestamp, decode};
use afterwrite_model::table::Model;
use afterwrite_relay::invalidate::{
    CacheInvalidator, InvalidationChange, InvalidationOutcome, InvalidationStage,
};
use afterwrite_services::cloudfront::CloudFront;
use afterwrite_services::redis::{CacheTopology, RedisCache};
use afterwrite_services::sqs::SqsQueue;
use afterwrite_services::{Cache, Distribution, PathQueue};
use afterwrite_tests::redis_server::RedisServer;
use serde_json::Value;

pub(crate) fn model() -> Arc<Model> {
    Arc::new(Model::load(Model::DEFAULT_NAME).expect("the default model"))
}

/// An invalidator for the cache at an address.
pub(crate) fn of_cache(
    url: &str,
    topology: CacheTopology,
) -> CacheInvalidator<RedisCache, CloudFront, SqsQueue, SystemClock> {
    let redis = RedisCache::new(url, topology, None).expect("an address");
    CacheInvalidator::new(Some(redis), None, SystemClock)
}

pub(crate) fn single(
    server: &RedisServer,
) -> CacheInvalidator<RedisCache, CloudFront, SqsQueue, SystemClock> {
    of_cache(&server.url(), CacheTopology::Single)
}

pub(crate) fn deadline(seconds: u64) -> Timestamp {
    SystemClock.now().plus(Duration::from_secs(seconds))
}

/// Delivers records in the form of a Lambda event.
pub(crate) async fn deliver<K: Cache, D: Distribution, Q: PathQueue, C: Clock>(
    invalidator: &CacheInvalidator<K, D, Q, C>,
    model: &Model,
    records: &[Value],
    deadline: Timestamp,
) -> InvalidationOutcome {
    let event = serde_json::json!({ "Records": records }).to_string();
    let batch = decode(event.as_bytes(), &model.attributes).expect("an event");
    let records_read: Vec<_> =
        batch.records.iter().map(|record| record.as_ref().expect("a record")).collect();
    let keys: Vec<_> = records_read
        .iter()
        .map(|record| SourceKey::of_keys(model, 0, &record.keys).expect("a key of the table"))
        .collect();
    let candidates: Vec<_> = keys.iter().map(|key| key.candidates(model)).collect();
    let changes: Vec<_> = candidates
        .iter()
        .enumerate()
        .map(|(index, candidates)| InvalidationChange {
            record: index,
            event_id: records[index]["eventID"].as_str().expect("an event id"),
            candidates,
            old: records_read[index].old.decode(&model.attributes).expect("an image"),
            new: records_read[index].new.as_ref(),
            stage: InvalidationStage::KeysStale,
        })
        .collect();
    invalidator.invalidate(&changes, deadline).await
}

/// The INSERT of a question.
pub(crate) fn question(project: &str, id: &str) -> Value {
    insert("ExamBuddyTable", &format!("PROJECT#{project}"), &format!("QUESTION#{id}"))
}

/// The INSERT of an item that has only a key.
pub(crate) fn insert(table: &str, partition_key: &str, sort_key: &str) -> Value {
    let keys = serde_json::json!({ "PK": { "S": partition_key }, "SK": { "S": sort_key } });
    let stream =
        format!("arn:aws:dynamodb:us-east-1:000000000000:table/{table}/stream/2026-02-06T10:00:00.000");
    serde_json::json!({
        "eventID": format!("event-{partition_key}-{sort_key}"), "eventName": "INSERT", "eventSourceARN": stream,
        "dynamodb": { "Keys": keys, "NewImage": keys, "SequenceNumber": "4421584500000000059450445319" }
    })
}
