//! Marks of parked records and markers of expiries in the state table: one for each, as long as an operator needs it.

use std::collections::BTreeMap;
use std::sync::Arc;

use afterwrite_model::effect::ItemKey;
use afterwrite_model::record::{AttributeValue, Item};
use futures::FutureExt as _;
use serde_json::{Value, json};

use super::models::{READINGS, SHOP, misfit, reading};
use super::observed::ObservedTables;
use super::world::{EdgeWorld, NOW, STATE, TABLE, deliver_to, key};

fn ledger_key(sort: &str) -> ItemKey {
    key(STATE, "LEDGER#app#SENSOR#s1", sort)
}

fn stored(world: &EdgeWorld, sort: &str) -> Option<Item> {
    world.tables.get(&ledger_key(sort))
}

/// The sort key of the marker of the record with this number.
fn marker(sort: &str, number: usize) -> String {
    format!("{sort}#EXPIRED#2026-02-06T10:00:00.000#{number:040}")
}

#[tokio::test]
async fn several_misfits_of_an_item_are_marked_by_one_write() {
    let mut world = EdgeWorld::new(READINGS);
    for value in ["seven", "eight"] {
        world.put("SENSOR#s1", "READING#r1", json!({ "value": { "S": value } }));
    }
    world.stream();
    let delivery = world.deliver_these(&world.records).await;
    assert_eq!((delivery.failures.len(), delivery.parked.len()), (0, 2));
    assert_eq!((delivery.totals.ledger_writes, delivery.totals.parked), (1, 1));
    let behind = world.entry("SENSOR#s1", "READING#r1", "behind").expect("a mark");
    assert!(behind.starts_with(&format!("2026-02-06T10:00:00.000#{:040} ", 2)), "{behind}");
}

#[tokio::test]
async fn a_misfit_that_a_newer_image_replaces_is_never_marked() {
    // A maximum sees every image.
    let mut world = EdgeWorld::new(SHOP);
    world.put("SHOP#s1", "BOOK#b1", json!({ "price": { "S": "five" } }));
    world.put("SHOP#s1", "BOOK#b1", json!({ "price": { "N": "5" } }));
    let delivery = world.deliver().await;
    assert_eq!((delivery.failures.len(), delivery.parked.len(), delivery.totals.parked), (0, 0, 0));
    assert_eq!(world.measure("SHOP#s1", "ROLLUP", "dearest"), Some(5));
}

#[tokio::test]
async fn a_marked_entry_is_kept_for_the_operator() {
    let mut world = EdgeWorld::new(READINGS);
    world.put("SENSOR#s1", "READING#r1", misfit());
    world.put("SENSOR#s1", "READING#r2", reading(1));
    world.settle().await;
    let entry = stored(&world, "READING#r1").expect("an entry");
    assert!(entry.contains_key("behind") && !entry.contains_key("expires_at"), "{entry:?}");

    world.tables.delete(&key(TABLE, "SENSOR#s1", "READING#r2")).expect("a key");
    world.settle().await;
    world.put("SENSOR#s1", "READING#r2", misfit());
    world.settle().await;
    let tombstone = stored(&world, "READING#r2").expect("a tombstone");
    let expires_at = tombstone["expires_at"].as_number().and_then(|number| number.to_i64());
    assert!(tombstone.contains_key("behind"), "{tombstone:?}");
    assert_eq!(expires_at, Some(NOW + 400 * 86_400));
}

#[tokio::test]
async fn a_mark_leaves_the_model_that_counted_the_entry() {
    let mut world = EdgeWorld::new(READINGS);
    world.put("SENSOR#s1", "READING#r1", reading(1));
    world.settle().await;
    world.put("SENSOR#s1", "READING#r1", misfit());
    world.stream();
    let newer = format!("generation = 2\n{READINGS}");
    let handled = deliver_to(&newer, Arc::clone(&world.tables), &world.records[1..]).await.expect("an event");
    assert_eq!(handled.parked.len(), 1);
    assert_eq!(world.measure("LEDGER#app#SENSOR#s1", "READING#r1", "generation"), Some(1));
}

#[tokio::test]
async fn the_record_that_an_unreadable_entry_has_counted_last_is_not_parked() {
    let mut world = EdgeWorld::new(READINGS);
    world.put("SENSOR#s1", "READING#r1", reading(1));
    world.settle().await;
    let mut entry = stored(&world, "READING#r1").expect("an entry");
    entry.insert("contributions".into(), AttributeValue::text("?"));
    world.tables.put(STATE, entry.clone()).expect("an entry");
    let delivery = world.deliver_these(&world.records).await;
    assert_eq!((delivery.failures.len(), delivery.parked.len()), (0, 0));
    assert_eq!(stored(&world, "READING#r1"), Some(entry));
}

#[tokio::test]
async fn an_expiry_of_an_entity_that_subtracts_has_no_marker() {
    let subtracted = READINGS.replace("attributes = {", "on_expiry = \"subtract\"\nattributes = {");
    let mut world = EdgeWorld::new(&subtracted);
    world.put("SENSOR#s1", "READING#r1", reading(3));
    world.settle().await;
    world.expire("SENSOR#s1", "READING#r1");
    world.settle().await;
    assert_eq!(world.measure("TOTAL#s1", "ROLLUP", "total"), Some(0));
    assert_eq!(stored(&world, &marker("READING#r1", 2)), None);
}

/// Readings that are settled when they expire, if they are live, and drafts of the same key that are subtracted.
fn with_drafts() -> String {
    let entities = r##"[entities.reading]
key = { PK = "SENSOR#{sensor_id}", SK = "READING#{reading_id}" }
when.state = ["LIVE"]
attributes = { value = "N", state = "S" }
on_expiry = "keep"
[entities.draft]
key = { PK = "SENSOR#{sensor_id}", SK = "READING#{reading_id}" }
when.state = ["DRAFT"]
attributes = { value = "N", state = "S" }
on_expiry = "subtract"
[[aggregates]]
name = "drafts"
of = "draft"
into = "sensor"
measures = { drafts = "count" }
[rollups.sensor]"##;
    let (head, rest) = READINGS.split_once("[entities.reading]").expect("an entity");
    let (_, rest) = rest.split_once("[rollups.sensor]").expect("a rollup");
    format!("{head}{entities}{rest}")
}

fn in_state(state: &str) -> Value {
    json!({ "value": { "N": "3" }, "state": { "S": state } })
}

#[tokio::test]
async fn an_expiry_is_settled_by_the_entity_that_the_item_was_of() {
    let mut world = EdgeWorld::new(&with_drafts());
    world.put("SENSOR#s1", "READING#r1", in_state("DRAFT"));
    world.put("SENSOR#s1", "READING#r2", in_state("LIVE"));
    world.settle().await;
    world.expire("SENSOR#s1", "READING#r1");
    world.expire("SENSOR#s1", "READING#r2");
    world.settle().await;
    let measure = |measure: &str| world.measure("TOTAL#s1", "ROLLUP", measure);
    assert_eq!(
        (measure("drafts"), measure("readings"), measure("settled_readings")),
        (Some(0), Some(1), Some(1))
    );
    let markers = [marker("READING#r1", 3), marker("READING#r2", 4)];
    assert_eq!(markers.map(|marker| stored(&world, &marker).is_some()), [false, true]);
}

#[tokio::test]
async fn an_expiry_without_an_image_is_parked_in_its_marker() {
    let mut world = EdgeWorld::new(&with_drafts());
    world.put("SENSOR#s1", "READING#r1", in_state("LIVE"));
    world.settle().await;
    world.expire("SENSOR#s1", "READING#r1");
    world.stream();
    let mut expiry = world.records[1].clone();
    let bare = expiry["dynamodb"].as_object_mut().expect("a change");
    bare.remove("OldImage");
    bare.remove("StreamViewType");
    assert_eq!(world.deliver_these(&[expiry]).await.parked.len(), 1);
    assert!(stored(&world, &marker("READING#r1", 2)).expect("a marker").contains_key("behind"));
    assert_eq!(world.entry("SENSOR#s1", "READING#r1", "behind"), None);
}

/// A world with an expiry that is parked, because its record is malformed; and the record as it should be.
async fn world_with_parked_expiry() -> (EdgeWorld, Value) {
    let mut world = EdgeWorld::new(READINGS);
    world.put("SENSOR#s1", "READING#r1", reading(3));
    world.settle().await;
    world.expire("SENSOR#s1", "READING#r1");
    world.stream();
    let expiry = world.records[1].clone();
    let mut malformed = expiry.clone();
    malformed["dynamodb"]["OldImage"]["value"] = json!({ "N": "three" });
    assert_eq!(world.deliver_these(&[malformed]).await.parked.len(), 1);
    (world, expiry)
}

#[tokio::test]
async fn a_parked_expiry_is_settled_by_one_transaction() {
    let (world, expiry) = world_with_parked_expiry().await;
    let delivery = world.deliver_these(&[expiry]).await;
    assert_eq!((delivery.failures, delivery.parked), (BTreeMap::new(), BTreeMap::new()));
    assert_eq!((delivery.totals.transactions, delivery.totals.conflicts), (1, 0));
    assert_eq!(world.measure("TOTAL#s1", "ROLLUP", "settled_total"), Some(3));
}

#[tokio::test]
async fn a_parked_expiry_that_another_function_settles_meanwhile_is_settled_once() {
    let (world, expiry) = world_with_parked_expiry().await;
    let (settled, other) = (Arc::clone(&world.tables), expiry.clone());
    let tables = ObservedTables::changing_before(&world.tables, ("transact", STATE), move |_| {
        let delivery = deliver_to(READINGS, Arc::clone(&settled), std::slice::from_ref(&other));
        let handled = delivery.now_or_never().expect("no wait").expect("an event");
        assert!(handled.failures.is_empty());
    });
    let handled = deliver_to(READINGS, tables, &[expiry]).await.expect("an event");
    assert!(handled.failures.is_empty() && handled.parked.is_empty(), "{handled:?}");
    assert_eq!(world.measure("TOTAL#s1", "ROLLUP", "settled_total"), Some(3));
}

#[tokio::test]
async fn a_marker_has_a_natural_key_up_to_the_length_that_dynamodb_allows() {
    for (length, is_natural) in [(1_024, true), (1_025, false)] {
        let sort = format!("READING#{}", "r".repeat(length - marker("READING#", 2).len()));
        let mut world = EdgeWorld::new(READINGS);
        world.put("SENSOR#s1", &sort, reading(3));
        world.settle().await;
        world.expire("SENSOR#s1", &sort);
        world.settle().await;
        assert_eq!(marker(&sort, 2).len(), length);
        assert_eq!(world.measure("TOTAL#s1", "ROLLUP", "settled_total"), Some(3));
        // DynamoDB takes no longer key, so that nothing can be stored there.
        let is_stored = is_natural && stored(&world, &marker(&sort, 2)).is_some();
        assert_eq!(is_stored, is_natural);
    }
}
