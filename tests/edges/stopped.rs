//! Authors that stop, or do not see the response, after they have counted and before they have refreshed the mirrors. The next
//! writer that finds the item counted refreshes them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use afterwrite_ledger::tables::Tables;
use afterwrite_ledger::{CommitOutcome, Ledger};
use afterwrite_memory::MemoryTables;
use afterwrite_model::ErrorKind;
use afterwrite_tests::clock::StillClock;
use futures::FutureExt as _;
use serde_json::{Value, json};

use super::models::SHOP;
use super::observed::{ObservedTables, WriteFate};
use super::world::{EdgeWorld, STATE, TABLE, aged, aggregator_over, deliver_to, key, reconcile};

/// A world in which a shop shows that it has no books, and the record of its first book is not delivered.
async fn world() -> EdgeWorld {
    let mut world = EdgeWorld::new(SHOP);
    world.put("SHOP#s1", "SHOP", json!({}));
    world.settle().await;
    assert_eq!(shown(&world), Some(0));
    world.put("SHOP#s1", "BOOK#b1", json!({ "price": { "N": "5" } }));
    world.stream();
    world
}

fn shown(world: &EdgeWorld) -> Option<i64> {
    world.shown("SHOP#s1", "SHOP", "stats.books")
}

/// Tables in which the first transaction has no response: another author counted the same just before, and stopped.
fn without_response(
    tables: &Arc<MemoryTables>,
    count: impl Fn(&Arc<MemoryTables>) + Send + Sync + 'static,
) -> Arc<ObservedTables> {
    let (counted, is_counted) = (Arc::clone(tables), AtomicBool::new(false));
    ObservedTables::with_fate(tables, move |kind, _| {
        if kind != "transact" || is_counted.swap(true, Ordering::Relaxed) {
            return WriteFate::CarriedOut;
        }
        count(&counted);
        WriteFate::Failed(ErrorKind::Unavailable)
    })
}

/// Reconciles the first book of the shop.
async fn reconcile_book<T: Tables>(ledger: &Ledger<T, StillClock>) -> CommitOutcome {
    let outcome = reconcile(ledger, "SHOP#s1", Some("BOOK#b1")).await;
    assert!(outcome.failures.is_empty() && outcome.parked.is_empty(), "{outcome:?}");
    outcome
}

fn stop_reconciling(tables: &Arc<MemoryTables>) {
    let aggregator = aggregator_over(SHOP, ObservedTables::without_mirrors(tables));
    assert!(
        reconcile_book(aggregator.ledger()).now_or_never().is_none(),
        "it was to stop in the write of a mirror"
    );
}

fn stop_delivering(tables: &Arc<MemoryTables>, records: &[Value]) {
    let delivery = deliver_to(SHOP, ObservedTables::without_mirrors(tables), records);
    assert!(delivery.now_or_never().is_none(), "it was to stop in the write of a mirror");
}

async fn deliver(tables: Arc<ObservedTables>, records: &[Value]) {
    let handled = deliver_to(SHOP, tables, records).await.expect("an event");
    assert!(handled.failures.is_empty() && handled.parked.is_empty(), "{handled:?}");
}

#[tokio::test]
async fn a_reconciliation_that_stopped_is_completed_by_the_next() {
    let world = world().await;
    stop_reconciling(&world.tables);
    assert_eq!((world.measure("SHOP#s1", "ROLLUP", "books"), shown(&world)), (Some(1), Some(0)));
    reconcile_book(aggregator_over(SHOP, Arc::clone(&world.tables)).ledger()).await;
    assert_eq!((world.measure("SHOP#s1", "ROLLUP", "books"), shown(&world)), (Some(1), Some(1)));
}

#[tokio::test]
async fn a_reconciliation_that_stopped_is_completed_by_the_record_that_it_counted() {
    let world = world().await;
    stop_reconciling(&world.tables);
    deliver(ObservedTables::new(&world.tables), world.newest(1)).await;
    assert_eq!((world.measure("SHOP#s1", "ROLLUP", "books"), shown(&world)), (Some(1), Some(1)));
}

#[tokio::test]
async fn a_reconciliation_without_a_response_is_completed() {
    let world = world().await;
    let tables = without_response(&world.tables, stop_reconciling);
    reconcile_book(aggregator_over(SHOP, tables).ledger()).await;
    assert_eq!((world.measure("SHOP#s1", "ROLLUP", "books"), shown(&world)), (Some(1), Some(1)));
}

#[tokio::test]
async fn a_delivery_without_a_response_is_completed() {
    let world = world().await;
    let records = world.newest(1).to_vec();
    let counted = records.clone();
    let tables = without_response(&world.tables, move |tables| stop_delivering(tables, &counted));
    deliver(tables, &records).await;
    assert_eq!((world.measure("SHOP#s1", "ROLLUP", "books"), shown(&world)), (Some(1), Some(1)));
}

#[tokio::test]
async fn an_item_that_is_counted_after_many_waits_has_its_mirror_set() {
    let world = world().await;
    let transactions = AtomicUsize::new(0);
    // The mirrors of the items that are finished are refreshed after four waits.
    let tables = ObservedTables::with_fate(&world.tables, move |kind, write| {
        let is_entry = write.key.partition.value.as_text().is_some_and(|key| key.starts_with("LEDGER#"));
        let is_first = kind == "transact" && is_entry && transactions.fetch_add(1, Ordering::Relaxed) < 6;
        if is_first { WriteFate::Failed(ErrorKind::Unavailable) } else { WriteFate::CarriedOut }
    });
    deliver(tables, world.newest(1)).await;
    assert_eq!((world.measure("SHOP#s1", "ROLLUP", "books"), shown(&world)), (Some(1), Some(1)));
}

#[tokio::test]
async fn a_deletion_whose_tombstone_is_gone_when_it_is_delivered_again_is_shown() {
    let mut world = world().await;
    world.settle().await;
    assert_eq!(shown(&world), Some(1));
    world.tables.delete(&key(TABLE, "SHOP#s1", "BOOK#b1")).expect("a key");
    world.stream();
    let deletion = world.newest(1).to_vec();
    stop_delivering(&world.tables, &deletion);
    assert_eq!((world.measure("SHOP#s1", "ROLLUP", "books"), shown(&world)), (Some(0), Some(1)));
    // TTL deletes the tombstone after 35 days: only the record's old image names the rollup.
    world.tables.delete(&key(STATE, "LEDGER#app#SHOP#s1", "BOOK#b1")).expect("a key").expect("a tombstone");
    deliver(ObservedTables::new(&world.tables), &[aged(&deletion[0], 36)]).await;
    assert_eq!((world.measure("SHOP#s1", "ROLLUP", "books"), shown(&world)), (Some(0), Some(0)));
}
