//! The totals of a batch: what becomes metrics.

use std::sync::Arc;

use afterwrite_model::record::AttributeValue;
use serde_json::json;

use super::models::{READINGS, SHOP, misfit, reading};
use super::observed::{ObservedTables, WriteFate};
use super::world::{EdgeWorld, STATE, TABLE, aged, deliver_to, key};

#[tokio::test]
async fn the_totals_of_a_batch_tell_duplicates_from_counted_and_failed_records() {
    let mut world = EdgeWorld::new(READINGS);
    world.put("SENSOR#s1", "READING#r1", reading(1));
    world.stream();
    let twice = [world.records[0].clone(), world.records[0].clone()];
    for (records, duplicates) in [(&world.records[..], 0), (&world.records[..], 1), (&twice[..], 2)] {
        let totals = world.deliver_these(records).await.totals;
        assert_eq!((totals.duplicates, totals.reconciled), (duplicates, 0));
    }
    world.put("SENSOR#s2", "READING#r2", reading(1));
    world.stream();
    let twice = [world.records[1].clone(), world.records[1].clone()];
    assert_eq!(world.deliver_these(&twice).await.totals.duplicates, 1);

    let newer = format!("generation = 2\n{READINGS}");
    world.put("SENSOR#s1", "READING#r1", reading(2));
    world.put("SENSOR#s1", "READING#r1", reading(3));
    world.stream();
    deliver_to(&newer, Arc::clone(&world.tables), &world.records[2..3]).await.expect("an event");
    let handled =
        deliver_to(READINGS, Arc::clone(&world.tables), &world.records[3..]).await.expect("an event");
    assert_eq!((handled.failures.len(), handled.totals.duplicates), (1, 0));
}

#[tokio::test]
async fn the_totals_of_a_batch_count_a_parked_record_neither_as_folded_nor_as_a_duplicate() {
    let mut world = EdgeWorld::new(READINGS);
    for value in 0..3 {
        world.put("SENSOR#s1", "READING#r1", reading(value));
    }
    world.put("SENSOR#s1", "READING#r1", misfit());
    let totals = world.deliver().await.totals;
    assert_eq!((totals.folded, totals.ledger_writes, totals.parked), (2, 1, 1));
    assert_eq!((totals.duplicates, totals.skipped), (0, 0));
}

#[tokio::test]
async fn the_totals_of_a_batch_count_skipped_misfits_and_reconciled_items() {
    let skipping = READINGS.replace("into = \"sensor\"", "into = \"sensor\"\non_misfit = \"skip\"");
    let mut world = EdgeWorld::new(&skipping);
    world.put("SENSOR#s1", "READING#r1", misfit());
    let totals = world.deliver().await.totals;
    assert_eq!((totals.skipped, totals.parked, totals.reconciled), (1, 0, 0));
    world.put("SENSOR#s1", "READING#r2", reading(1));
    world.stream();
    let totals = world.deliver_these(&[aged(&world.newest(1)[0], 400)]).await.totals;
    assert_eq!((totals.skipped, totals.reconciled, totals.ledger_writes), (0, 1, 1));
}

/// Tables in which the first request of a kind with a write to such a table and partition conflicts.
fn conflicting_once(
    world: &EdgeWorld,
    kind: &'static str,
    table: &'static str,
    beginning: &'static str,
) -> Arc<ObservedTables> {
    ObservedTables::with_fate_once(&world.tables, (kind, WriteFate::Conflicting), move |key| {
        let partition = key.partition.value.as_text().unwrap_or_default();
        *key.table == *table && partition.starts_with(beginning)
    })
}

#[tokio::test]
async fn the_totals_of_a_batch_count_each_conflict_once() {
    let mut world = EdgeWorld::new(SHOP);
    world.put("SHOP#s1", "SHOP", json!({ "stats": { "M": {} } }));
    world.settle().await;
    world.put("SHOP#s1", "BOOK#b1", json!({ "price": { "N": "5" } }));
    world.stream();
    let book = world.newest(1).to_vec();
    for (kind, table, beginning) in
        [("transact", STATE, "LEDGER#"), ("transact", STATE, "SHOP#"), ("write", TABLE, "SHOP#")]
    {
        let mut world = EdgeWorld::new(SHOP);
        world.put("SHOP#s1", "SHOP", json!({ "stats": { "M": {} } }));
        let tables = conflicting_once(&world, kind, table, beginning);
        let handled = deliver_to(SHOP, tables, &book).await.expect("an event");
        assert_eq!((handled.failures.len(), handled.totals.conflicts), (0, 1), "{kind} {table} {beginning}");
    }

    // A change that moves no rollup writes the entry alone.
    world.deliver_these(&book).await;
    world.put("SHOP#s1", "BOOK#b1", json!({ "price": { "N": "4" } }));
    world.stream();
    let tables = conflicting_once(&world, "write", STATE, "LEDGER#");
    let handled = deliver_to(SHOP, tables, world.newest(1)).await.expect("an event");
    assert_eq!((handled.failures.len(), handled.totals.conflicts), (0, 1));

    // Another function writes the entry between this function's read and its write.
    world.put("SHOP#s1", "BOOK#b1", json!({ "price": { "N": "3" } }));
    world.stream();
    let entry = key(STATE, "LEDGER#app#SHOP#s1", "BOOK#b1");
    let changed = ObservedTables::changing_before(&world.tables, ("write", STATE), move |tables| {
        let mut stored = tables.get(&entry).expect("an entry");
        let rev = stored["rev"].as_number().and_then(|rev| rev.to_i64()).expect("a number");
        stored.insert("rev".into(), AttributeValue::N((rev + 1).into()));
        tables.put(STATE, stored).expect("an entry");
    });
    let handled = deliver_to(SHOP, changed, world.newest(1)).await.expect("an event");
    assert_eq!((handled.failures.len(), handled.totals.conflicts), (0, 1));
}
