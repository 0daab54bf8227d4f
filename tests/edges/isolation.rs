//! Isolation: an item that DynamoDB rejects costs the other items of its batch few transactions and no time.

use std::sync::Arc;

use afterwrite_functions::{AggregatedBatch, FailedRecord, StreamAggregator};
use afterwrite_model::ErrorKind;
use afterwrite_model::effect::Write;
use afterwrite_model::record::{AttributeValue, Decimal, Timestamp};
use afterwrite_tests::clock::StillClock;
use afterwrite_tests::deployment::event;
use serde_json::{Value, json};

use super::models::{READINGS, misfit, reading};
use super::observed::{NotedRequest, ObservedTables, WriteFate};
use super::world::{EdgeWorld, NOW, aggregator_over};

type ObservedAggregator = StreamAggregator<Arc<ObservedTables>, StillClock>;

/// An aggregator of a world, and its tables. Transactions with an entry of the sort key `poison` are rejected as a whole.
fn observed(world: &EdgeWorld, poison: Option<&'static str>) -> (Arc<ObservedTables>, ObservedAggregator) {
    let fate = move |kind: &'static str, write: &Write| {
        let sort = write.key.sort.as_ref().and_then(|sort| sort.value.as_text());
        let is_rejected = kind == "transact" && poison.is_some() && sort == poison;
        if is_rejected { WriteFate::Failed(ErrorKind::Rejected) } else { WriteFate::CarriedOut }
    };
    let tables = ObservedTables::with_fate(&world.tables, fate);
    (Arc::clone(&tables), aggregator_over(READINGS, tables))
}

/// The sent and the cancelled transactions since the last call, and the most writes of a cancelled one.
fn take_transactions(tables: &ObservedTables) -> (usize, usize, usize) {
    let mut sent = tables.take();
    sent.retain(|request| request.kind == "transact");
    let cancelled: Vec<&NotedRequest> = sent.iter().filter(|request| request.is_cancelled).collect();
    let largest = cancelled.iter().map(|request| request.writes).max().unwrap_or(0);
    (sent.len(), cancelled.len(), largest)
}

async fn deliver(aggregator: &ObservedAggregator, records: &[Value]) -> AggregatedBatch {
    let deadline = Timestamp::from_epoch_ms(i64::MAX);
    let handled = aggregator.handle(event(records).as_bytes(), deadline).await.expect("an event");
    assert!(handled.failures.is_empty(), "{:?}", handled.failures);
    handled
}

/// A world in which one sensor has readings with these values.
fn world(values: impl IntoIterator<Item = &'static str>) -> EdgeWorld {
    let mut world = EdgeWorld::new(READINGS);
    for (reading, value) in values.into_iter().enumerate() {
        let attributes = if value.is_empty() { json!({}) } else { json!({ "value": { "N": value } }) };
        world.put("SENSOR#s1", &format!("READING#r{reading}"), attributes);
    }
    world.stream();
    world
}

fn readings(world: &EdgeWorld) -> Option<i64> {
    world.measure("TOTAL#s1", "ROLLUP", "readings")
}

#[tokio::test]
async fn a_rollup_that_cannot_be_written_is_judged_once_for_all_items_that_need_it() {
    let world = world(["1", "2", ""].into_iter().cycle().take(300));
    world.put_rollup("TOTAL#s1", "total", AttributeValue::text("many"));
    let (tables, aggregator) = observed(&world, None);
    let handled = deliver(&aggregator, &world.records).await;
    assert_eq!((handled.parked.len(), handled.totals.parked), (200, 200));
    assert_eq!(readings(&world), Some(100), "items that do not add to the damaged measure");
    let (sent, cancelled, _) = take_transactions(&tables);
    assert!(sent <= 4 && cancelled <= 2, "{sent} transactions, {cancelled} cancelled");

    let handled = deliver(&aggregator, &world.records).await;
    assert_eq!((handled.parked.len(), handled.totals.parked), (200, 0));
    let (sent, cancelled, _) = take_transactions(&tables);
    assert_eq!((sent, cancelled), (1, 1), "one trial of all parked items");

    // The operator repairs the rollup, and redrives the records.
    world.put_rollup("TOTAL#s1", "readings", Decimal::from(100).into());
    let handled = deliver(&aggregator, &world.records).await;
    assert_eq!(handled.parked.len(), 0);
    assert_eq!(readings(&world), Some(300));
    assert_eq!(world.measure("TOTAL#s1", "ROLLUP", "total"), Some(300));
}

#[tokio::test]
async fn an_amount_that_does_not_fit_rejects_no_other_item() {
    let world = world((0..200).map(|reading| if reading == 100 { "1E+37" } else { "1" }));
    world.put_rollup("TOTAL#s1", "total", AttributeValue::N("0.1".parse().expect("a number")));
    let (tables, aggregator) = observed(&world, None);
    let handled = deliver(&aggregator, &world.records).await;
    assert_eq!(handled.parked.len(), 1);
    assert_eq!(readings(&world), Some(199));
    assert_eq!(handled.totals.retries, 0, "isolation does not wait as after a throttle");
    let (sent, cancelled, _) = take_transactions(&tables);
    assert!(sent <= 5 && cancelled <= 1, "{sent} transactions, {cancelled} cancelled");
}

#[tokio::test]
async fn a_rollup_that_is_too_large_for_its_additions_parks_the_items_that_need_it() {
    let mut world = world(std::iter::repeat_n("1", 5));
    world.put("SENSOR#s2", "READING#r1", reading(3));
    world.stream();
    // An item has at most 400 KB. The measures themselves would be writable.
    world.put_rollup("TOTAL#s1", "note", AttributeValue::text("x".repeat(409_550)));
    let (tables, aggregator) = observed(&world, None);
    let handled = deliver(&aggregator, &world.records).await;
    assert_eq!(handled.parked.len(), 5);
    assert_eq!((readings(&world), world.measure("TOTAL#s2", "ROLLUP", "total")), (None, Some(3)));
    let (sent, _, _) = take_transactions(&tables);
    assert!(sent <= 16, "{sent} transactions");
}

#[tokio::test]
async fn a_rejection_without_a_reason_is_isolated_without_waiting() {
    let world = world(std::iter::repeat_n("1", 60));
    let (_, aggregator) = observed(&world, Some("READING#r30"));
    let handled = deliver(&aggregator, &world.records).await;
    assert_eq!((handled.parked.len(), readings(&world)), (1, Some(59)));
    assert_eq!(handled.totals.retries, 0);
}

#[tokio::test]
async fn a_parked_record_that_is_delivered_again_shares_no_transaction_with_others() {
    let mut world = world(std::iter::repeat_n("1", 5));
    let (tables, aggregator) = observed(&world, Some("READING#r3"));
    assert_eq!(deliver(&aggregator, &world.records).await.parked.len(), 1);
    take_transactions(&tables);
    for number in 10..60 {
        world.put("SENSOR#s1", &format!("READING#r{number}"), reading(1));
    }
    world.stream();
    let handled = deliver(&aggregator, &world.records).await;
    assert_eq!((handled.parked.len(), readings(&world)), (1, Some(54)));
    assert_eq!(
        take_transactions(&tables),
        (2, 1, 2),
        "the cancelled transaction has the entry and the rollup of one item"
    );
}

/// The numbers of records in the stream.
fn numbers(records: &[FailedRecord]) -> Vec<u32> {
    let number = |record: &FailedRecord| record.sequence_number.as_deref()?.parse().ok();
    records.iter().map(|record| number(record).expect("a number")).collect()
}

#[tokio::test]
async fn parked_records_that_are_rejected_together_again_stay_parked_if_the_deadline_comes() {
    let mut world = world(std::iter::repeat_n("1", 4));
    let reject = |kind: &'static str, _: &Write| match kind {
        "transact" => WriteFate::Failed(ErrorKind::Rejected),
        _ => WriteFate::CarriedOut,
    };
    let aggregator = aggregator_over(READINGS, ObservedTables::with_fate(&world.tables, reject));
    assert_eq!(numbers(&deliver(&aggregator, &world.records).await.parked), [1, 2, 3, 4]);

    // One of them has a new record now, and for the last one there is no answer before the deadline.
    world.put("SENSOR#s1", "READING#r1", reading(2));
    world.stream();
    let fate = |kind: &'static str, write: &Write| {
        let sort = write.key.sort.as_ref().and_then(|sort| sort.value.as_text());
        match (kind, sort) {
            ("transact", Some("READING#r0")) => WriteFate::Failed(ErrorKind::Rejected),
            ("transact", Some("READING#r3")) => WriteFate::Failed(ErrorKind::Unavailable),
            _ => WriteFate::CarriedOut,
        }
    };
    let aggregator = aggregator_over(READINGS, ObservedTables::with_fate(&world.tables, fate));
    let deadline = Timestamp::from_epoch_ms(NOW * 1_000 + 1);
    let handled = aggregator.handle(event(&world.records).as_bytes(), deadline).await.expect("an event");
    assert_eq!(numbers(&handled.parked), [1]);
    assert_eq!(numbers(&handled.failures), [2, 3, 4]);
}

#[tokio::test]
async fn a_record_fails_if_dynamodb_rejects_the_mark_that_parks_it() {
    let mut world = EdgeWorld::new(READINGS);
    world.put("SENSOR#s1", "READING#r1", misfit());
    world.stream();
    let fate = |kind: &'static str, _: &Write| match kind {
        "write" => WriteFate::Failed(ErrorKind::Rejected),
        _ => WriteFate::CarriedOut,
    };
    let aggregator = aggregator_over(READINGS, ObservedTables::with_fate(&world.tables, fate));
    let deadline = Timestamp::from_epoch_seconds(NOW + 3);
    let handled = aggregator.handle(event(&world.records).as_bytes(), deadline).await.expect("an event");
    assert_eq!((numbers(&handled.failures).first(), handled.parked.len()), (Some(&1), 0));
}

#[tokio::test]
async fn amounts_without_a_common_sum_are_packed_by_their_magnitude() {
    let world = world(["1E+37", "0.1"].into_iter().cycle().take(1_000));
    let (tables, aggregator) = observed(&world, None);
    let handled = deliver(&aggregator, &world.records).await;
    assert_eq!((handled.parked.len(), readings(&world)), (500, Some(500)));
    let (sent, _, _) = take_transactions(&tables);
    assert!(sent <= 20, "{sent} transactions for 1,000 items");
}
