//! Expiries that arrive late or first of all, and keys that look like a marker's.

use std::collections::BTreeMap;

use afterwrite_model::record::Timestamp;
use afterwrite_tests::deployment::event;
use serde_json::json;

use super::models::{READINGS, misfit, reading};
use super::world::{EdgeWorld, NOW, STATE, aged, key};

/// Readings whose sort key is an identifier alone.
fn readings() -> String {
    READINGS.replace("READING#{reading_id}", "{reading_id}")
}

fn with_extremes() -> String {
    readings()
        .replace("total = { sum = \"value\" }", "total = { sum = \"value\" }, highest = { max = \"value\" }")
}

#[tokio::test]
async fn a_very_late_expiry_of_a_counted_item_is_settled() {
    let mut world = EdgeWorld::new(&readings());
    world.put("SENSOR#s1", "r1", reading(7));
    world.settle().await;
    world.expire("SENSOR#s1", "r1");
    world.stream();
    let expiry = aged(world.records.last().expect("an expiry"), 60);
    let delivery = world.deliver_these(std::slice::from_ref(&expiry)).await;
    assert_eq!(delivery.failures, BTreeMap::new());
    assert_eq!(world.measure("TOTAL#s1", "ROLLUP", "total"), Some(7), "kept, not subtracted");
    assert_eq!(world.measure("TOTAL#s1", "ROLLUP", "settled_total"), Some(7));
    world.deliver_these(&[expiry]).await;
    assert_eq!(world.measure("TOTAL#s1", "ROLLUP", "total"), Some(7), "once");
}

#[tokio::test]
async fn an_expiry_whose_marker_is_gone_is_reported_and_not_settled_again() {
    let mut world = EdgeWorld::new(&readings());
    world.put("SENSOR#s1", "r1", reading(7));
    world.settle().await;
    world.expire("SENSOR#s1", "r1");
    world.put("SENSOR#s1", "r1", reading(1));
    world.settle().await;
    // TTL deletes the marker after 35 days; the entry of the key's next life remains.
    let marker = format!("r1#EXPIRED#2026-02-06T10:00:00.000#{:040}", 2);
    let deleted = world.tables.delete(&key(STATE, "LEDGER#app#SENSOR#s1", &marker)).expect("a key");
    assert!(deleted.expect("a marker").contains_key("expires_at"));
    let delivery = world.deliver_these(&[aged(&world.records[1], 60)]).await;
    assert_eq!(delivery.failures, BTreeMap::new());
    assert_eq!(delivery.totals.expiries_too_old, 1);
    assert_eq!(world.measure("TOTAL#s1", "ROLLUP", "total"), Some(8));
    assert_eq!(world.measure("TOTAL#s1", "ROLLUP", "settled_total"), Some(7));
}

#[tokio::test]
async fn an_expiry_that_is_too_old_is_not_parked_although_its_item_cannot_be_counted_now() {
    let mut world = EdgeWorld::new(&readings());
    world.put("SENSOR#s1", "r1", reading(7));
    world.expire("SENSOR#s1", "r1");
    world.put("SENSOR#s1", "r1", misfit());
    world.stream();
    let delivery = world.deliver_these(&[aged(&world.records[1], 60)]).await;
    assert_eq!((delivery.failures.len(), delivery.parked.len()), (0, 0));
    assert_eq!(delivery.totals.expiries_too_old, 1);
    assert_eq!(world.measure("TOTAL#s1", "ROLLUP", "settled_total"), None);
}

#[tokio::test]
async fn the_expiry_of_an_item_that_was_never_counted_settles_its_extremes_too() {
    let mut world = EdgeWorld::new(&with_extremes());
    world.put("SENSOR#s1", "r1", reading(7));
    world.expire("SENSOR#s1", "r1");
    world.stream();
    let expiry = world.records.last().expect("an expiry").clone();
    let delivery = world.deliver_these(&[expiry]).await;
    assert_eq!(delivery.failures, BTreeMap::new());
    assert_eq!(world.measure("TOTAL#s1", "ROLLUP", "readings"), Some(1));
    assert_eq!(world.measure("TOTAL#s1", "ROLLUP", "highest"), Some(7));
}

#[tokio::test]
async fn a_settled_expiry_that_cannot_be_read_any_more_is_not_parked() {
    let mut world = EdgeWorld::new(&readings());
    world.put("SENSOR#s1", "r1", reading(7));
    world.settle().await;
    world.expire("SENSOR#s1", "r1");
    world.settle().await;
    for image in ["OldImage", "NewImage"] {
        let mut malformed = world.records[1].clone();
        malformed["dynamodb"][image]["value"] = json!({ "N": "seven" });
        let (event, deadline) = (event(&[malformed]), Timestamp::from_epoch_seconds(NOW + 3));
        let handled = world.aggregator.handle(event.as_bytes(), deadline).await.expect("an event");
        assert_eq!((handled.failures.len(), handled.parked.len()), (0, 0), "{image}");
        assert_eq!(world.measure("TOTAL#s1", "ROLLUP", "settled_total"), Some(7));
    }
}

#[tokio::test]
async fn the_entry_of_an_item_of_which_only_an_expiry_is_known_expires_after_its_mark() {
    let mut world = EdgeWorld::new(&readings());
    world.put("SENSOR#s1", "r1", reading(7));
    world.expire("SENSOR#s1", "r1");
    world.stream();
    let mut malformed = world.records[1].clone();
    malformed["dynamodb"]["OldImage"]["value"] = json!({ "N": "seven" });
    assert_eq!(world.deliver_these(&[malformed]).await.parked.len(), 1);
    let entry = world.tables.get(&key(STATE, "LEDGER#app#SENSOR#s1", "r1")).expect("an entry");
    assert!(entry.contains_key("expires_at"), "{entry:?}");
}

#[tokio::test]
async fn a_newer_state_is_counted_although_an_expiry_before_it_cannot_be_read() {
    let mut world = EdgeWorld::new(&with_extremes());
    world.put("SENSOR#s1", "r1", reading(7));
    world.settle().await;
    world.expire("SENSOR#s1", "r1");
    world.put("SENSOR#s1", "r1", reading(9));
    world.stream();
    let mut records = world.records[1..].to_vec();
    records[0]["dynamodb"]["OldImage"]["value"] = json!({ "N": "seven" });
    let delivery = world.deliver_these(&records).await;
    assert_eq!((delivery.failures, delivery.parked.len()), (BTreeMap::new(), 1));
    assert_eq!(world.measure("TOTAL#s1", "ROLLUP", "total"), Some(9));
    assert_eq!(world.measure("TOTAL#s1", "ROLLUP", "highest"), Some(9));
}

#[tokio::test]
async fn a_source_key_that_looks_like_a_marker_has_an_entry_of_its_own() {
    let mut world = EdgeWorld::new(&readings());
    world.put("SENSOR#s1", "r1", reading(1));
    world.settle().await;
    world.expire("SENSOR#s1", "r1");
    world.settle().await;
    // The marker of that expiry has a sort key made of the item's and the record's position.
    let number = world.records.len();
    let like_a_marker = format!("r1#EXPIRED#2026-02-06T10:00:00.000#{number:040}");
    world.put("SENSOR#s1", &like_a_marker, reading(10));
    let delivery = world.deliver().await;
    assert_eq!(delivery.failures, BTreeMap::new());
    assert_eq!(world.measure("TOTAL#s1", "ROLLUP", "total"), Some(11));
}

#[tokio::test]
async fn a_record_without_image_and_view_type_fails_alone() {
    let mut world = EdgeWorld::new(&readings());
    world.put("SENSOR#s1", "r1", reading(1));
    world.put("SENSOR#s1", "r2", reading(2));
    world.stream();
    let mut records = world.records.clone();
    let bare = records[0]["dynamodb"].as_object_mut().expect("a change");
    bare.remove("NewImage");
    bare.remove("StreamViewType");
    let delivery = world.deliver_these(&records).await;
    assert_eq!((delivery.failures.len(), delivery.parked.len()), (0, 1), "{:?}", delivery.failures);
    assert_eq!(world.measure("TOTAL#s1", "ROLLUP", "total"), Some(2));
}
