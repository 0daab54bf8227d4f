//! Transactions that one item delays: the first time, they are sent again as they were; after that, no other item waits for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use afterwrite_model::ErrorKind;
use afterwrite_model::clock::Clock as _;
use afterwrite_model::effect::Write;
use afterwrite_model::record::Timestamp;
use afterwrite_model::retry::{LAST_RETRY, RetryPolicy};
use afterwrite_tests::clock::StillClock;
use afterwrite_tests::deployment::event;

use super::models::{READINGS, reading};
use super::observed::{ObservedTables, WriteFate};
use super::world::{EdgeWorld, NOW, aggregator_over};

/// As many readings as one transaction has room for, each of another sensor.
const READINGS_AT_ONCE: usize = 50;

fn world() -> EdgeWorld {
    let mut world = EdgeWorld::new(READINGS);
    for number in 0..READINGS_AT_ONCE {
        world.put(&format!("SENSOR#s{number:02}"), &format!("READING#r{number:02}"), reading(1));
    }
    world.stream();
    world
}

/// Delivers all records. Returns how many failed, and how many writes each transaction had.
async fn deliver(world: &EdgeWorld, tables: &Arc<ObservedTables>) -> (usize, Vec<usize>) {
    let deadline = Timestamp::from_epoch_seconds(NOW + 10);
    let aggregator = aggregator_over(READINGS, Arc::clone(tables));
    let handled = aggregator.handle(event(&world.records).as_bytes(), deadline).await.expect("an event");
    assert!(handled.parked.is_empty(), "{handled:?}");
    let mut requests = tables.take();
    requests.retain(|request| request.kind == "transact");
    (handled.failures.len(), requests.into_iter().map(|request| request.writes).collect())
}

fn counted(world: &EdgeWorld) -> usize {
    let total = |number| world.measure(&format!("TOTAL#s{number:02}"), "ROLLUP", "readings");
    (0..READINGS_AT_ONCE).filter_map(total).count()
}

/// Tables in which the writes of one sensor's rollup have this fate.
fn delaying(world: &EdgeWorld, fate: WriteFate) -> Arc<ObservedTables> {
    let is_delayed = |write: &Write| write.key.partition.value.as_text() == Some("TOTAL#s07");
    ObservedTables::with_fate(&world.tables, move |kind, write| {
        if kind == "transact" && is_delayed(write) { fate } else { WriteFate::CarriedOut }
    })
}

#[tokio::test]
async fn no_others_wait_for_an_item_whose_transaction_fails_as_a_whole() {
    let world = world();
    let (failed, sizes) = deliver(&world, &delaying(&world, WriteFate::Failed(ErrorKind::Unavailable))).await;
    assert_eq!((failed, counted(&world)), (1, READINGS_AT_ONCE - 1));
    // Each eighth that contains the item is divided again: the others need no transactions of their own.
    let committed = sizes.iter().filter(|size| **size > 2).count();
    assert_eq!(sizes[..2], [100, 100]);
    assert!(committed <= 14, "{sizes:?}");
    world.deliver_these(&world.records).await;
    assert_eq!(counted(&world), READINGS_AT_ONCE);
}

#[tokio::test]
async fn no_others_wait_for_an_item_whose_rollup_others_keep_writing() {
    let world = world();
    let (failed, sizes) = deliver(&world, &delaying(&world, WriteFate::Conflicting)).await;
    assert_eq!((failed, counted(&world)), (1, READINGS_AT_ONCE - 1));
    // Alone from the third transaction on.
    assert_eq!(sizes[..4], [100, 100, 98, 2]);
}

#[tokio::test]
async fn a_transaction_that_fails_once_is_sent_again_as_it_was() {
    for fate in [WriteFate::Failed(ErrorKind::Unavailable), WriteFate::Conflicting] {
        let (world, is_first) = (world(), AtomicBool::new(true));
        let tables = ObservedTables::with_fate(&world.tables, move |kind, _| {
            if kind == "transact" && is_first.swap(false, Ordering::Relaxed) {
                fate
            } else {
                WriteFate::CarriedOut
            }
        });
        let (failed, sizes) = deliver(&world, &tables).await;
        assert_eq!((failed, counted(&world), sizes), (0, READINGS_AT_ONCE, vec![100, 100]));
    }
}

#[tokio::test]
async fn the_last_attempt_is_made_shortly_before_the_deadline() {
    let begin = Timestamp::from_epoch_seconds(NOW);
    let (clock, deadline) = (StillClock::at(begin), begin.plus(Duration::from_secs(3)));
    let mut retry = 1;
    while RetryPolicy::STANDARD.wait(retry, deadline, &clock).await {
        retry += 1;
    }
    assert_eq!(deadline.since(clock.now()), LAST_RETRY);
}
