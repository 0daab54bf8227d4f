//! Entries and markers that something else has changed, so that they cannot be read: their records are parked, and
//! nothing is replaced.

use std::collections::BTreeMap;
use std::sync::Arc;

use afterwrite_model::effect::ItemKey;
use afterwrite_model::record::{AttributeValue, Item};

use super::models::{ATTEMPTS, READINGS, put_project, reading};
use super::world::{EdgeWorld, STATE, TABLE, deliver_to, key};

fn entry_key(sort: &str) -> ItemKey {
    key(STATE, &format!("LEDGER#{TABLE}#SENSOR#s1"), sort)
}

fn stored(world: &EdgeWorld, sort: &str) -> Item {
    world.tables.get(&entry_key(sort)).expect("an entry or marker")
}

/// Overwrites an attribute of the entry or marker.
fn manipulate(world: &EdgeWorld, sort: &str, name: &'static str, value: AttributeValue<'static>) {
    world.overwrite(&entry_key(sort), name, value);
}

fn total(world: &EdgeWorld, measure: &str) -> Option<i64> {
    world.measure("TOTAL#s1", "ROLLUP", measure)
}

fn manipulations() -> Vec<(&'static str, AttributeValue<'static>)> {
    vec![
        ("contributions", AttributeValue::text("[[secret")),
        ("contributions", AttributeValue::Bool(true)),
        ("contributions", AttributeValue::Null),
        ("position", AttributeValue::text("secret")),
        ("position", AttributeValue::L(Vec::new())),
        ("rev", AttributeValue::text("secret")),
        ("generation", AttributeValue::M(BTreeMap::new())),
        ("behind", AttributeValue::Bool(false)),
        ("behind", AttributeValue::text("secret")),
    ]
}

#[tokio::test]
async fn a_record_whose_entry_cannot_be_read_is_parked_and_its_batch_is_counted() {
    for (name, value) in manipulations() {
        let mut world = EdgeWorld::new(READINGS);
        world.put("SENSOR#s1", "READING#r1", reading(1));
        world.settle().await;
        manipulate(&world, "READING#r1", name, value.clone());
        let before = stored(&world, "READING#r1");
        world.put("SENSOR#s1", "READING#r1", reading(5));
        world.put("SENSOR#s1", "READING#r2", reading(2));
        let delivery = world.deliver().await;
        assert_eq!(delivery.failures, BTreeMap::new(), "{name}: nothing waits for it");
        assert_eq!((delivery.parked.len(), delivery.totals.parked), (1, 1), "{name}");
        assert!(delivery.parked.values().all(|error| !error.contains("secret")), "{:?}", delivery.parked);
        assert_eq!(total(&world, "total"), Some(3), "{name}: the other item is counted");

        let mut marked = stored(&world, "READING#r1");
        let behind = marked.remove("behind").and_then(|behind| behind.as_text().map(str::to_owned));
        let expected = format!("2026-02-06T10:00:00.000#{:040} UnreadableError", 2);
        assert_eq!(behind, Some(expected), "{name}: the index of parked items lists it");
        let unmarked: Item = before.into_iter().filter(|(name, _)| name != "behind").collect();
        assert_eq!(marked, unmarked, "{name}: nothing else of the entry is changed");

        let (records, units) = (world.records.clone(), world.tables.write_units());
        let delivery = world.deliver_these(&records[1..]).await;
        assert_eq!((delivery.failures.len(), delivery.totals.parked), (0, 0), "{name}");
        if name == "behind" {
            // The mark has replaced the only attribute that could not be read.
            assert_eq!((total(&world, "total"), total(&world, "readings")), (Some(7), Some(2)), "{name}");
            continue;
        }
        assert_eq!(world.tables.write_units(), units, "{name}: a second delivery writes nothing");
    }
}

#[tokio::test]
async fn the_item_is_counted_exactly_once_its_entry_is_restored() {
    let mut world = EdgeWorld::new(READINGS);
    world.put("SENSOR#s1", "READING#r1", reading(1));
    world.settle().await;
    let whole = stored(&world, "READING#r1");
    manipulate(&world, "READING#r1", "contributions", AttributeValue::text("?"));
    world.put("SENSOR#s1", "READING#r1", reading(5));
    assert_eq!(world.deliver().await.parked.len(), 1);
    let contributions = whole.get("contributions").cloned().expect("contributions");
    manipulate(&world, "READING#r1", "contributions", contributions);
    world.put("SENSOR#s1", "READING#r1", reading(7));
    world.settle().await;
    assert_eq!((total(&world, "total"), total(&world, "readings")), (Some(7), Some(1)));
    assert_eq!(world.entry("SENSOR#s1", "READING#r1", "behind"), None);
}

#[tokio::test]
async fn an_unreadable_tombstone_is_kept_until_it_is_restored() {
    let mut world = EdgeWorld::new(READINGS);
    world.put("SENSOR#s1", "READING#r1", reading(1));
    world.tables.delete(&key(TABLE, "SENSOR#s1", "READING#r1")).expect("a key");
    world.settle().await;
    assert!(stored(&world, "READING#r1").contains_key("expires_at"));
    manipulate(&world, "READING#r1", "rev", AttributeValue::text("?"));
    world.put("SENSOR#s1", "READING#r1", reading(5));
    assert_eq!(world.deliver().await.parked.len(), 1);
    assert!(!stored(&world, "READING#r1").contains_key("expires_at"));
    assert_eq!(total(&world, "total"), None);
}

#[tokio::test]
async fn an_expiry_of_an_item_whose_entry_cannot_be_read_is_settled_after_the_entry_is_restored() {
    let mut world = EdgeWorld::new(READINGS);
    world.put("SENSOR#s1", "READING#r1", reading(3));
    world.settle().await;
    let whole = stored(&world, "READING#r1");
    manipulate(&world, "READING#r1", "contributions", AttributeValue::text("?"));
    world.expire("SENSOR#s1", "READING#r1");
    let delivery = world.deliver().await;
    assert_eq!((delivery.failures.len(), delivery.parked.len()), (0, 1));
    assert_eq!((total(&world, "total"), total(&world, "settled_total")), (Some(3), None));
    let contributions = whole.get("contributions").cloned().expect("contributions");
    manipulate(&world, "READING#r1", "contributions", contributions);
    let records = world.records.clone();
    for _ in 0..2 {
        let delivery = world.deliver_these(&records[1..]).await;
        assert_eq!((delivery.failures.len(), delivery.parked.len()), (0, 0));
        assert_eq!((total(&world, "total"), total(&world, "settled_total")), (Some(3), Some(3)));
    }
    assert_eq!(world.entry("SENSOR#s1", "READING#r1", "behind"), None);
}

#[tokio::test]
async fn an_expiry_whose_marker_cannot_be_read_is_parked_and_never_settled_a_second_time() {
    let marker = format!("READING#r1#EXPIRED#2026-02-06T10:00:00.000#{:040}", 2);
    for mark in [AttributeValue::Bool(true), AttributeValue::text("secret")] {
        let mut world = EdgeWorld::new(READINGS);
        world.put("SENSOR#s1", "READING#r1", reading(3));
        world.settle().await;
        world.expire("SENSOR#s1", "READING#r1");
        world.settle().await;
        assert_eq!(total(&world, "settled_total"), Some(3));
        manipulate(&world, &marker, "behind", mark);
        let records = world.records.clone();
        for parked_now in [1, 0] {
            let delivery = world.deliver_these(&records[1..]).await;
            assert_eq!((delivery.failures.len(), delivery.parked.len()), (0, 1));
            assert_eq!(delivery.totals.parked, parked_now);
            assert!(delivery.parked.values().all(|error| !error.contains("secret")), "{:?}", delivery.parked);
            let behind = world.entry("SENSOR#s1", &marker, "behind").expect("a mark");
            assert!(behind.ends_with(" UnreadableError"), "{behind}");
            assert_eq!((total(&world, "total"), total(&world, "settled_total")), (Some(3), Some(3)));
        }
        // The operator knows that it is settled.
        let mut settled = stored(&world, &marker);
        settled.remove("behind");
        world.tables.put(STATE, settled).expect("a marker");
        assert_eq!(world.deliver_these(&records[1..]).await.parked.len(), 0);
        assert_eq!((total(&world, "total"), total(&world, "settled_total")), (Some(3), Some(3)));
    }
}

#[tokio::test]
async fn with_the_policy_fail_the_record_is_delivered_again() {
    let mut world = EdgeWorld::failing(READINGS);
    world.put("SENSOR#s1", "READING#r1", reading(1));
    world.settle().await;
    manipulate(&world, "READING#r1", "contributions", AttributeValue::text("?"));
    world.put("SENSOR#s1", "READING#r1", reading(2));
    let delivery = world.deliver().await;
    assert_eq!((delivery.failures.len(), delivery.parked.len()), (1, 0));
    assert!(!stored(&world, "READING#r1").contains_key("behind"));
}

#[tokio::test]
async fn a_deleted_item_whose_entry_cannot_be_read_still_offers_its_outputs() {
    let projects = r##"
[rollups.projects]
key = { PK = "PROJECTS#{admin_id}", SK = "ROLLUP" }
[[aggregates]]
name = "projects"
of = "project"
into = "projects"
measures = { projects = "count" }
"##;
    let model = format!("{ATTEMPTS}{projects}");
    let mut world = EdgeWorld::new(&model);
    put_project(&mut world, "p1");
    world.settle().await;
    let remembered = world.remembered().remove(0);
    let lookup = [&remembered["PK"], &remembered["SK"]].map(|key| key.as_text().expect("a text"));
    world.tables.delete(&key(STATE, lookup[0], lookup[1])).expect("a key");
    let entry = key(STATE, "LEDGER#app#ADMIN#a1", "PROJECT#p1");
    world.overwrite(&entry, "contributions", AttributeValue::text("?"));
    world.tables.delete(&key(TABLE, "ADMIN#a1", "PROJECT#p1")).expect("a key");
    world.stream();
    // A function that has nothing of the lookup in memory.
    let handled = deliver_to(&model, Arc::clone(&world.tables), world.newest(1)).await.expect("an event");
    assert_eq!((handled.failures.len(), handled.parked.len()), (0, 1));
    assert_eq!(world.remembered().len(), 1);
}
