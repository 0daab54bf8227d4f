//! Races: something else changes an item after it was read, before the write that depends on it. The same batch finds out.

use std::sync::Arc;

use afterwrite_memory::MemoryTables;
use afterwrite_model::record::{AttributeValue, Decimal};
use serde_json::{Value, json};

use super::models::{READINGS, SHOP, reading};
use super::observed::ObservedTables;
use super::world::{EdgeWorld, STATE, TABLE, deliver_to, key};

/// Delivers records to these tables. None fails, and none is parked.
async fn deliver(model: &str, tables: Arc<ObservedTables>, records: &[Value]) {
    let handled = deliver_to(model, tables, records).await.expect("an event");
    assert!(handled.failures.is_empty() && handled.parked.is_empty(), "{handled:?}");
}

/// Writes an item of the state table as another writer does: only its revision shows that.
fn write_again(tables: &MemoryTables, partition: &str, sort: &str) {
    let mut item = tables.get(&key(STATE, partition, sort)).expect("an item");
    item.insert("rev".into(), Decimal::from(7).into());
    tables.put(STATE, item).expect("an item");
}

#[tokio::test]
async fn an_entry_that_another_writer_has_written_is_planned_again() {
    // The second value changes no rollup, so that the entry is written without a transaction.
    for (kind, value) in [("transact", 2), ("write", 1)] {
        let mut world = EdgeWorld::new(READINGS);
        world.put("SENSOR#s1", "READING#r1", reading(1));
        world.settle().await;
        let changed = json!({ "value": { "N": value.to_string() }, "note": { "S": "new" } });
        world.put("SENSOR#s1", "READING#r1", changed);
        world.stream();
        let tables = ObservedTables::changing_before(&world.tables, (kind, STATE), |tables| {
            write_again(tables, "LEDGER#app#SENSOR#s1", "READING#r1");
        });
        deliver(READINGS, tables, &world.records[1..]).await;
        assert_eq!(world.measure("TOTAL#s1", "ROLLUP", "total"), Some(value));
        assert_eq!(world.measure("LEDGER#app#SENSOR#s1", "READING#r1", "rev"), Some(8));
    }
}

#[tokio::test]
async fn a_rollup_with_a_maximum_that_another_writer_has_written_is_read_again() {
    let mut world = EdgeWorld::new(SHOP);
    world.put("SHOP#s1", "BOOK#b1", json!({ "price": { "N": "5" } }));
    world.settle().await;
    world.put("SHOP#s1", "BOOK#b2", json!({ "price": { "N": "9" } }));
    world.stream();
    let tables = ObservedTables::changing_before(&world.tables, ("transact", STATE), |tables| {
        write_again(tables, "SHOP#s1", "ROLLUP");
    });
    deliver(SHOP, tables, &world.records[1..]).await;
    assert_eq!(world.measure("SHOP#s1", "ROLLUP", "books"), Some(2));
    assert_eq!(world.measure("SHOP#s1", "ROLLUP", "dearest"), Some(9));
}

#[tokio::test]
async fn an_unreadable_marker_that_the_operator_deletes_meanwhile_is_written_again() {
    let marker = format!("READING#r1#EXPIRED#2026-02-06T10:00:00.000#{:040}", 2);
    let mut world = EdgeWorld::new(READINGS);
    world.put("SENSOR#s1", "READING#r1", reading(3));
    world.settle().await;
    world.expire("SENSOR#s1", "READING#r1");
    world.settle().await;
    let marker = key(STATE, "LEDGER#app#SENSOR#s1", &marker);
    let mut unreadable = world.tables.get(&marker).expect("a marker");
    unreadable.insert("behind".into(), AttributeValue::Bool(true));
    world.tables.put(STATE, unreadable).expect("a marker");
    let deleted = marker.clone();
    let tables = ObservedTables::changing_before(&world.tables, ("transact", STATE), move |tables| {
        tables.delete(&deleted).expect("a key");
    });
    deliver(READINGS, tables, &world.records[1..]).await;
    // By deleting the marker, the operator states that the expiry is not settled.
    assert_eq!(world.measure("TOTAL#s1", "ROLLUP", "settled_total"), Some(6));
    assert!(!world.tables.get(&marker).expect("a marker").contains_key("behind"));
}

#[tokio::test]
async fn an_item_that_stops_being_of_the_mirroring_entity_keeps_its_copy() {
    let open_shops = SHOP
        .replace(
            "SK = \"SHOP\" }",
            "SK = \"SHOP\" }\nwhen.state = [\"OPEN\"]\nattributes = { state = \"S\" }",
        )
        .replace("stats.books", "shown");
    let mut world = EdgeWorld::new(&open_shops);
    world.put("SHOP#s1", "SHOP", json!({ "state": { "S": "OPEN" } }));
    world.settle().await;
    world.put("SHOP#s1", "BOOK#b1", json!({ "price": { "N": "5" } }));
    world.stream();
    let tables = ObservedTables::changing_before(&world.tables, ("write", TABLE), |tables| {
        let mut shop = tables.get(&key(TABLE, "SHOP#s1", "SHOP")).expect("a shop");
        shop.insert("state".into(), "CLOSED".into());
        tables.put(TABLE, shop).expect("a shop");
    });
    deliver(&open_shops, tables, &world.records[1..]).await;
    assert_eq!(world.shown("SHOP#s1", "SHOP", "shown"), Some(0));

    world.put("SHOP#s1", "SHOP", json!({ "state": { "S": "OPEN" } }));
    world.settle().await;
    assert_eq!(world.shown("SHOP#s1", "SHOP", "shown"), Some(1));
}
