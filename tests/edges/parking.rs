//! Parking: a record that cannot be counted holds up no other, and its item is marked until it is healed.

use std::collections::BTreeMap;

use afterwrite_model::record::AttributeValue;
use serde_json::json;

use super::models::{ATTEMPTS, READINGS, misfit, reading};
use super::world::{EdgeWorld, STATE, TABLE, aged, key, reconcile};

#[tokio::test]
async fn a_record_that_cannot_be_counted_is_parked_and_the_next_change_heals_its_item() {
    let mut world = EdgeWorld::new(READINGS);
    world.put("SENSOR#s1", "READING#r1", misfit());
    world.put("SENSOR#s1", "READING#r2", reading(2));
    let delivery = world.deliver().await;
    assert_eq!(delivery.failures, BTreeMap::new(), "nothing waits for it");
    assert_eq!((delivery.parked.len(), delivery.totals.parked), (1, 1));
    let behind = world.entry("SENSOR#s1", "READING#r1", "behind").expect("a mark");
    assert!(behind.ends_with(" RecordError") && !behind.contains("secret"), "{behind}");
    assert_eq!(world.measure("TOTAL#s1", "ROLLUP", "total"), Some(2));

    world.put("SENSOR#s1", "READING#r1", reading(5));
    world.settle().await;
    assert_eq!(world.entry("SENSOR#s1", "READING#r1", "behind"), None);
    assert_eq!(world.measure("TOTAL#s1", "ROLLUP", "total"), Some(7));
}

#[tokio::test]
async fn a_parked_record_that_is_delivered_again_writes_nothing() {
    let mut world = EdgeWorld::new(READINGS);
    world.put("SENSOR#s1", "READING#r1", reading(1));
    world.put("SENSOR#s1", "READING#r1", misfit());
    assert_eq!(world.deliver().await.parked.len(), 1);
    let (records, before) = (world.records.clone(), world.tables.write_units());
    let delivery = world.deliver_these(&records).await;
    assert_eq!((delivery.failures.len(), delivery.parked.len(), delivery.totals.parked), (0, 1, 0));
    assert_eq!(world.tables.write_units(), before);
    assert_eq!(world.measure("TOTAL#s1", "ROLLUP", "total"), Some(1), "the last state that could be counted");
}

#[tokio::test]
async fn an_older_record_of_a_parked_item_is_still_counted() {
    let mut world = EdgeWorld::new(READINGS);
    world.put("SENSOR#s1", "READING#r1", reading(1));
    world.put("SENSOR#s1", "READING#r1", misfit());
    world.stream();
    let records = world.records.clone();
    assert_eq!(world.deliver_these(&records[1..]).await.parked.len(), 1);
    let delivery = world.deliver_these(&records[..1]).await;
    assert_eq!((delivery.failures.len(), delivery.parked.len()), (0, 0));
    assert_eq!(world.measure("TOTAL#s1", "ROLLUP", "total"), Some(1));
    assert!(world.entry("SENSOR#s1", "READING#r1", "behind").is_some(), "the newer record is still missing");
}

#[tokio::test]
async fn a_malformed_record_is_parked_and_its_redelivery_heals() {
    let mut world = EdgeWorld::new(READINGS);
    world.put("SENSOR#s1", "READING#r1", reading(3));
    world.stream();
    let whole = world.records[0].clone();
    let mut malformed = whole.clone();
    malformed["dynamodb"]["NewImage"]["value"] = json!({ "N": "three" });
    let delivery = world.deliver_these(&[malformed]).await;
    assert_eq!((delivery.failures.len(), delivery.parked.len()), (0, 1));
    assert_eq!(world.measure("TOTAL#s1", "ROLLUP", "total"), None);
    let delivery = world.deliver_these(&[whole]).await;
    assert_eq!((delivery.failures.len(), delivery.parked.len()), (0, 0));
    assert_eq!(world.measure("TOTAL#s1", "ROLLUP", "total"), Some(3));
    assert_eq!(world.entry("SENSOR#s1", "READING#r1", "behind"), None);
}

#[tokio::test]
async fn an_expiry_that_cannot_be_settled_is_parked_in_its_marker() {
    let mut world = EdgeWorld::new(READINGS);
    world.put("SENSOR#s1", "READING#r1", reading(3));
    world.settle().await;
    world.expire("SENSOR#s1", "READING#r1");
    world.stream();
    let whole = world.records[1].clone();
    let mut malformed = whole.clone();
    malformed["dynamodb"]["OldImage"]["value"] = json!({ "S": "three" });
    let delivery = world.deliver_these(&[malformed]).await;
    assert_eq!((delivery.failures.len(), delivery.parked.len(), delivery.totals.parked), (0, 1, 1));
    let marker = format!("READING#r1#EXPIRED#2026-02-06T10:00:00.000#{:040}", 2);
    assert!(world.entry("SENSOR#s1", &marker, "behind").is_some());
    assert_eq!(world.measure("TOTAL#s1", "ROLLUP", "total"), Some(3));
    // The key lives again before the expiry is redriven.
    world.put("SENSOR#s1", "READING#r1", reading(10));
    world.stream();
    let records = world.records.clone();
    world.deliver_these(&records[2..]).await;
    let delivery = world.deliver_these(&[whole]).await;
    assert_eq!((delivery.failures.len(), delivery.parked.len()), (0, 0));
    assert_eq!(world.entry("SENSOR#s1", &marker, "behind"), None);
    assert_eq!(world.measure("TOTAL#s1", "ROLLUP", "settled_total"), Some(3));
    assert_eq!(world.measure("TOTAL#s1", "ROLLUP", "total"), Some(13));
}

#[tokio::test]
async fn a_late_expiry_that_dynamodb_rejects_is_parked_in_its_marker() {
    let mut world = EdgeWorld::new(READINGS);
    world.put("SENSOR#s1", "READING#r1", reading(3));
    world.settle().await;
    world.expire("SENSOR#s1", "READING#r1");
    world.put("SENSOR#s1", "READING#r1", reading(10));
    world.stream();
    let records = world.records.clone();
    world.deliver_these(&records[2..]).await;
    world.put_rollup("TOTAL#s1", "total", AttributeValue::text("many"));
    let delivery = world.deliver_these(&records[1..2]).await;
    assert_eq!((delivery.failures, delivery.parked.len()), (BTreeMap::new(), 1));
    let marker = format!("READING#r1#EXPIRED#2026-02-06T10:00:00.000#{:040}", 2);
    let behind = world.entry("SENSOR#s1", &marker, "behind");
    assert!(behind.is_some_and(|behind| behind.ends_with(" RejectedError")));
    assert_eq!(world.entry("SENSOR#s1", "READING#r1", "behind"), None, "the item is counted as it is now");
}

#[tokio::test]
async fn items_that_dynamodb_rejects_are_found_and_parked_and_all_others_are_counted() {
    let mut world = EdgeWorld::new(READINGS);
    // Somebody wrote a text over a rollup's measure.
    world.put_rollup("TOTAL#bad", "total", AttributeValue::text("many"));
    for sensor in 0..40 {
        world.put(&format!("SENSOR#s{sensor}"), "READING#r", reading(sensor + 1));
    }
    world.put("SENSOR#bad", "READING#r1", reading(1));
    let delivery = world.deliver().await;
    assert_eq!(delivery.failures, BTreeMap::new());
    assert_eq!(delivery.parked.len(), 1);
    for sensor in 0..40 {
        let total = format!("TOTAL#s{sensor}");
        assert_eq!(world.measure(&total, "ROLLUP", "total"), Some(sensor + 1), "counted once");
    }
    let behind = world.entry("SENSOR#bad", "READING#r1", "behind");
    assert!(behind.is_some_and(|behind| behind.ends_with(" RejectedError")));
    // The operator mends the rollup; the next change heals the item.
    let mut rollup = world.tables.get(&key(STATE, "TOTAL#bad", "ROLLUP")).expect("a rollup");
    rollup.remove("total");
    world.tables.put(STATE, rollup).expect("a rollup");
    world.put("SENSOR#bad", "READING#r1", reading(4));
    world.settle().await;
    assert_eq!(world.measure("TOTAL#bad", "ROLLUP", "total"), Some(4));
}

#[tokio::test]
async fn a_misfit_that_is_older_than_tombstones_is_parked() {
    let mut world = EdgeWorld::new(READINGS);
    world.put("SENSOR#s1", "READING#r1", misfit());
    world.put("SENSOR#s1", "READING#r2", reading(2));
    world.stream();
    let records = [aged(&world.records[0], 36), world.records[1].clone()];
    for parked_now in [1, 0] {
        let delivery = world.deliver_these(&records).await;
        assert_eq!(delivery.failures, BTreeMap::new());
        assert_eq!((delivery.parked.len(), delivery.totals.parked), (1, parked_now));
        assert!(world.entry("SENSOR#s1", "READING#r1", "behind").is_some());
        assert_eq!(world.measure("TOTAL#s1", "ROLLUP", "total"), Some(2));
    }
    world.put("SENSOR#s1", "READING#r1", reading(5));
    world.stream();
    let newest = world.records[2..].to_vec();
    assert_eq!(world.deliver_these(&newest).await.parked.len(), 0);
    assert_eq!(world.entry("SENSOR#s1", "READING#r1", "behind"), None);
    assert_eq!(world.measure("TOTAL#s1", "ROLLUP", "total"), Some(7));
}

#[tokio::test]
async fn a_record_older_than_tombstones_is_not_applied_to_an_item_that_is_only_marked() {
    let mut world = EdgeWorld::new(READINGS);
    world.put("SENSOR#s1", "READING#r1", reading(1));
    world.put("SENSOR#s1", "READING#r1", misfit());
    world.stream();
    assert_eq!(world.deliver_these(&world.records[1..]).await.parked.len(), 1);
    // The record of the deletion is lost.
    world.tables.delete(&key(TABLE, "SENSOR#s1", "READING#r1")).expect("a key").expect("an item");
    let delivery = world.deliver_these(&[aged(&world.records[0], 36)]).await;
    assert_eq!((delivery.failures, delivery.parked), (BTreeMap::new(), BTreeMap::new()));
    assert_eq!(world.measure("TOTAL#s1", "ROLLUP", "total"), None);
}

#[tokio::test]
async fn an_older_record_that_must_wait_for_its_lookup_is_not_parked_with_a_newer_one() {
    let mut world = EdgeWorld::new(ATTEMPTS);
    for project in [json!({ "S": "unknown" }), json!({ "N": "1" })] {
        world.put("CANDIDATE#c1", "ATTEMPT#t1", json!({ "project_id": project }));
    }
    world.stream();
    assert_eq!(world.deliver_these(&world.records[1..]).await.parked.len(), 1);
    let delivery = world.deliver_these(&world.records[..1]).await;
    assert_eq!((delivery.failures.len(), delivery.parked.len()), (1, 0));
}

#[tokio::test]
async fn an_old_image_that_nothing_needs_is_not_read() {
    let mut world = EdgeWorld::new(READINGS);
    world.put("SENSOR#s1", "READING#r1", reading(1));
    world.put("SENSOR#s1", "READING#r1", reading(2));
    world.stream();
    let mut records = world.records.clone();
    records[1]["dynamodb"]["OldImage"]["value"] = json!({ "N": "one" });
    let delivery = world.deliver_these(&records).await;
    assert_eq!((delivery.failures, delivery.parked), (BTreeMap::new(), BTreeMap::new()));
    assert_eq!(world.measure("TOTAL#s1", "ROLLUP", "total"), Some(2));
}

#[tokio::test]
async fn a_record_of_an_earlier_stream_is_not_applied_to_a_reconciled_item() {
    let mut world = EdgeWorld::new(READINGS);
    world.put("SENSOR#s1", "READING#r1", reading(1));
    world.stream();
    // Reconciling an over-old record counts the item as its table has it.
    world.deliver_these(&[aged(&world.records[0], 36)]).await;
    let mut earlier = world.records[0].clone();
    let stream = format!("arn:aws:dynamodb:eu-west-1:1:table/{TABLE}/stream/2026-02-05T10:00:00.000");
    earlier["eventSourceARN"] = json!(stream);
    earlier["dynamodb"]["NewImage"]["value"] = json!({ "N": "5" });
    assert_eq!(world.deliver_these(&[earlier]).await.totals.duplicates, 1);
    assert_eq!(world.measure("TOTAL#s1", "ROLLUP", "total"), Some(1));
}

#[tokio::test]
async fn other_records_of_an_item_whose_oldest_cannot_be_reconciled_are_counted() {
    let mut world = EdgeWorld::new(READINGS);
    world.put("SENSOR#s1", "READING#r1", reading(1));
    world.put("SENSOR#s1", "READING#r1", reading(2));
    world.put("SENSOR#s1", "READING#r1", misfit());
    world.stream();
    let records = [aged(&world.records[0], 36), world.records[1].clone()];
    let delivery = world.deliver_these(&records).await;
    assert_eq!((delivery.failures.len(), delivery.parked.len()), (0, 0), "the newer record is counted");
    assert_eq!(world.measure("TOTAL#s1", "ROLLUP", "total"), Some(2));
    assert_eq!(world.entry("SENSOR#s1", "READING#r1", "behind"), None);
}

#[tokio::test]
async fn a_record_whose_item_dynamodb_rejects_is_parked_though_it_is_older_than_tombstones() {
    let mut world = EdgeWorld::new(READINGS);
    world.put_rollup("TOTAL#s1", "total", AttributeValue::text("many"));
    world.put("SENSOR#s1", "READING#r1", reading(1));
    world.stream();
    let delivery = world.deliver_these(&[aged(&world.records[0], 36)]).await;
    assert_eq!((delivery.failures.len(), delivery.parked.len()), (0, 1));
    let behind = world.entry("SENSOR#s1", "READING#r1", "behind").expect("a mark");
    assert!(behind.ends_with(" RejectedError"), "{behind}");
}

#[tokio::test]
async fn a_parked_record_stays_parked_if_its_reconciled_item_is_a_misfit_by_now() {
    let mut world = EdgeWorld::new(READINGS);
    world.put("SENSOR#s1", "READING#r1", reading(1));
    world.put("SENSOR#s1", "READING#r1", reading(2));
    world.stream();
    // Reconciling an over-old record counts the item as its table has it.
    world.deliver_these(&[aged(&world.records[0], 36)]).await;
    assert_eq!(world.measure("TOTAL#s1", "ROLLUP", "total"), Some(2));
    let mut malformed = world.records[1].clone();
    malformed["dynamodb"]["NewImage"]["value"] = json!({ "N": "three" });
    assert_eq!(world.deliver_these(&[malformed]).await.parked.len(), 1);
    world.put("SENSOR#s1", "READING#r1", misfit());
    let delivery = world.deliver_these(&[aged(&world.records[1], 36)]).await;
    assert_eq!((delivery.failures.len(), delivery.parked.len()), (0, 1));
    assert!(world.entry("SENSOR#s1", "READING#r1", "behind").is_some(), "the mark remains");
}

#[tokio::test]
async fn reconciling_an_item_that_cannot_be_counted_fails() {
    let mut world = EdgeWorld::new(READINGS);
    world.put("SENSOR#s1", "READING#r1", misfit());
    let outcome = reconcile(world.aggregator.ledger(), "SENSOR#s1", Some("READING#r1")).await;
    assert_eq!((outcome.failures.len(), outcome.parked.len()), (1, 0), "{outcome:?}");
    assert_eq!(world.entry("SENSOR#s1", "READING#r1", "behind"), None);
}

#[tokio::test]
async fn with_the_policy_fail_the_record_is_delivered_again() {
    let mut world = EdgeWorld::failing(READINGS);
    world.put("SENSOR#s1", "READING#r1", misfit());
    let delivery = world.deliver().await;
    assert_eq!((delivery.failures.len(), delivery.parked.len()), (1, 0));
    assert_eq!(world.entry("SENSOR#s1", "READING#r1", "behind"), None);
}
