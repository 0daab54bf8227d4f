//! Requests that fail in a way of their own: what is sent again, after how many waits, and what fails or is parked at once.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use afterwrite_functions::StreamAggregator;
use afterwrite_ledger::PoisonPolicy;
use afterwrite_ledger::tables::{
    ConsumedUnits, IndexPage, IndexQuery, PartialRead, ReadSnapshot, Tables, TransactError, WriteError,
};
use afterwrite_memory::MemoryTables;
use afterwrite_model::effect::{ItemKey, Write};
use afterwrite_model::{Error, ErrorKind};
use afterwrite_tests::deployment::event;
use serde_json::json;

use super::models::{READINGS, SHOP, reading};
use super::observed::{ObservedTables, WriteFate};
use super::world::{DEADLINE, EdgeWorld, STATE, deliver_to, ledger, parsed};

/// Tables whose reads fail one after the other with these errors, until none is left.
struct FailingReads {
    tables: Arc<MemoryTables>,
    errors: Mutex<VecDeque<Option<ErrorKind>>>,
}

impl FailingReads {
    fn new(world: &EdgeWorld, errors: impl IntoIterator<Item = Option<ErrorKind>>) -> Arc<Self> {
        let errors = Mutex::new(errors.into_iter().collect());
        Arc::new(Self { tables: Arc::clone(&world.tables), errors })
    }
}

impl Tables for FailingReads {
    async fn read(&self, keys: &[ItemKey]) -> Result<ReadSnapshot, Error> {
        self.tables.read(keys).await
    }

    async fn read_some(&self, keys: &[ItemKey]) -> Result<PartialRead, Error> {
        let error = self.errors.lock().expect("no test panicked while it held the lock").pop_front();
        match error.flatten() {
            Some(kind) => Err(Error::new(kind, "the read failed")),
            None => self.tables.read_some(keys).await,
        }
    }

    async fn write(&self, write: &Write) -> Result<ConsumedUnits, WriteError> {
        self.tables.write(write).await
    }

    async fn transact(&self, writes: &[Write]) -> Result<ConsumedUnits, TransactError> {
        self.tables.transact(writes).await
    }

    async fn query_index(&self, query: &IndexQuery) -> Result<IndexPage, Error> {
        self.tables.query_index(query).await
    }
}

#[tokio::test]
async fn a_read_that_fails_once_is_sent_again() {
    let mut world = EdgeWorld::new(READINGS);
    world.put("SENSOR#s1", "READING#r1", reading(1));
    world.stream();
    let tables = FailingReads::new(&world, [Some(ErrorKind::Unavailable)]);
    let handled = deliver_to(READINGS, tables, &world.records).await.expect("an event");
    assert_eq!((handled.failures.len(), handled.totals.retries), (0, 1));
    assert_eq!(world.measure("TOTAL#s1", "ROLLUP", "total"), Some(1));
}

#[tokio::test]
async fn a_read_that_always_fails_fails_its_records_at_once() {
    let mut world = EdgeWorld::new(READINGS);
    world.put("SENSOR#s1", "READING#r1", reading(1));
    world.stream();
    let tables = FailingReads::new(&world, [Some(ErrorKind::State); 3]);
    let handled = deliver_to(READINGS, tables, &world.records).await.expect("the set-up is right");
    assert_eq!((handled.failures.len(), handled.parked.len(), handled.totals.retries), (1, 0, 0));
}

#[tokio::test]
async fn a_read_for_mirrors_that_always_fails_fails_its_records_at_once() {
    let counts = SHOP.replace(", dearest = { max = \"price\" }", "");
    let mut world = EdgeWorld::new(&counts);
    world.put("SHOP#s1", "SHOP", json!({}));
    world.settle().await;
    world.put("SHOP#s1", "BOOK#b1", json!({}));
    world.stream();
    // The first read is that of the entry.
    let tables = FailingReads::new(&world, [None, Some(ErrorKind::State)]);
    let handled = deliver_to(&counts, tables, world.newest(1)).await;
    let handled = handled.expect("the set-up is right");
    assert_eq!((handled.failures.len(), handled.totals.retries), (1, 0));
    assert_eq!(world.measure("SHOP#s1", "ROLLUP", "books"), Some(1));
}

#[tokio::test]
async fn a_record_that_cannot_be_counted_fails_once_although_its_item_is_given_up_too() {
    let mut world = EdgeWorld::new(READINGS);
    world.put("SENSOR#s1", "READING#r1", reading(2));
    world.put("SENSOR#s1", "READING#r1", reading(1));
    world.stream();
    world.records[0]["dynamodb"]["NewImage"]["value"] = json!({ "N": "much" });
    let tables =
        ObservedTables::throttling(&world.tables, |key| key.partition.value.as_text() == Some("TOTAL#s1"));
    let ledger = ledger(parsed(READINGS), tables).on_poison(PoisonPolicy::Fail);
    let handled = StreamAggregator::new(ledger).handle(event(&world.records).as_bytes(), DEADLINE).await;
    let failures = handled.expect("an event").failures;
    assert_eq!(failures.len(), 1, "{failures:?}");
}

#[tokio::test]
async fn a_rejected_entry_that_changes_no_rollup_is_parked() {
    let mut world = EdgeWorld::new(READINGS);
    world.put("SENSOR#s1", "READING#r1", reading(1));
    world.settle().await;
    world.put("SENSOR#s1", "READING#r1", json!({ "value": { "N": "1" }, "note": { "S": "new" } }));
    world.stream();
    let tables = ObservedTables::with_fate_once(
        &world.tables,
        ("write", WriteFate::Failed(ErrorKind::Rejected)),
        |_| true,
    );
    let handled = deliver_to(READINGS, tables, &world.records[1..]).await.expect("the set-up is right");
    assert_eq!((handled.failures.len(), handled.parked.len()), (0, 1));
}

#[tokio::test]
async fn a_throttled_rollup_holds_up_no_other_item_of_its_transaction() {
    let mut world = EdgeWorld::new(READINGS);
    world.put("SENSOR#s1", "READING#r1", reading(1));
    world.put("SENSOR#s2", "READING#r2", reading(2));
    world.stream();
    let is_throttled = |key: &ItemKey| key.partition.value.as_text() == Some("TOTAL#s1");
    let tables = ObservedTables::throttling(&world.tables, is_throttled);
    let handled = deliver_to(READINGS, tables, &world.records).await.expect("an event");
    assert_eq!((handled.failures.len(), world.measure("TOTAL#s2", "ROLLUP", "total")), (1, Some(2)));
}

#[tokio::test]
async fn single_writes_that_are_throttled_are_sent_again_after_one_wait() {
    let mut world = EdgeWorld::new(READINGS);
    let put = |world: &mut EdgeWorld, note: &str| {
        for sort in ["READING#r1", "READING#r2"] {
            world.put("SENSOR#s1", sort, json!({ "value": { "N": "1" }, "note": { "S": note } }));
        }
    };
    put(&mut world, "old");
    world.settle().await;
    put(&mut world, "new");
    world.stream();
    // Each entry is read, and throttled when it is written first.
    let requests = Mutex::new(BTreeMap::<String, usize>::new());
    let tables = ObservedTables::throttling(&world.tables, move |key| {
        let mut requests = requests.lock().expect("no test panicked while it held the lock");
        let number = requests.entry(format!("{key:?}")).or_default();
        *number += 1;
        *number == 2
    });
    let handled = deliver_to(READINGS, tables, &world.records[2..]).await.expect("an event");
    assert_eq!((handled.failures.len(), handled.totals.retries), (0, 1));
}

/// Tables in which the first requests with these writes fail without a response.
fn failing_first(world: &EdgeWorld, writes: Vec<(&'static str, &'static str)>) -> Arc<ObservedTables> {
    let left = Mutex::new(writes);
    ObservedTables::with_fate(&world.tables, move |kind, write| {
        let mut left = left.lock().expect("no test panicked while it held the lock");
        let texts = [Some(&write.key.partition), write.key.sort.as_ref()];
        let is_of = |text: &str| texts.into_iter().flatten().any(|part| part.value.as_text() == Some(text));
        match left.iter().position(|(failing, text)| *failing == kind && is_of(text)) {
            None => WriteFate::CarriedOut,
            Some(place) => {
                left.remove(place);
                WriteFate::Failed(ErrorKind::Unavailable)
            }
        }
    })
}

#[tokio::test]
async fn a_round_in_which_two_requests_fail_is_followed_by_one_wait() {
    // Two transactions of one wave.
    let mut world = EdgeWorld::new(READINGS);
    for number in 0..60 {
        world.put(&format!("SENSOR#s{number:02}"), "READING#r1", reading(1));
    }
    world.stream();
    let tables = failing_first(&world, vec![("transact", "TOTAL#s00"), ("transact", "TOTAL#s59")]);
    let handled = deliver_to(READINGS, tables, &world.records).await.expect("an event");
    assert_eq!((handled.failures.len(), handled.totals.retries), (0, 1));

    // Two waves: the transactions share a rollup.
    let mut world = EdgeWorld::new(READINGS);
    for number in 0..120 {
        world.put("SENSOR#s1", &format!("READING#r{number:03}"), reading(1));
    }
    world.stream();
    let tables = failing_first(&world, vec![("transact", "TOTAL#s1"), ("transact", "TOTAL#s1")]);
    let handled = deliver_to(READINGS, tables, &world.records).await.expect("an event");
    assert_eq!((handled.failures.len(), handled.totals.retries), (0, 1));

    // A transaction and a single write.
    let mut world = EdgeWorld::new(READINGS);
    for sort in ["READING#r1", "READING#r2"] {
        world.put("SENSOR#s1", sort, reading(1));
    }
    world.settle().await;
    world.put("SENSOR#s1", "READING#r1", json!({ "value": { "N": "1" }, "note": { "S": "new" } }));
    world.put("SENSOR#s1", "READING#r2", reading(2));
    world.stream();
    let tables = failing_first(&world, vec![("write", "READING#r1"), ("transact", "READING#r2")]);
    let handled = deliver_to(READINGS, tables, &world.records[2..]).await.expect("an event");
    assert_eq!((handled.failures.len(), handled.totals.retries), (0, 1));
}

#[tokio::test]
async fn no_transaction_is_sent_without_the_computed_rollup_that_it_needs() {
    let mut world = EdgeWorld::new(SHOP);
    for shop in ["SHOP#s1", "SHOP#s2"] {
        world.put(shop, "BOOK#b1", json!({ "price": { "N": "5" } }));
    }
    world.stream();
    let reads = AtomicUsize::new(0);
    let is_rollup = |key: &ItemKey| *key.table == *STATE && key.partition.value.as_text() == Some("SHOP#s1");
    let tables = ObservedTables::throttling(&world.tables, move |key| {
        is_rollup(key) && reads.fetch_add(1, Ordering::Relaxed) == 0
    });
    let handled = deliver_to(SHOP, tables, &world.records).await.expect("an event");
    assert!(handled.failures.is_empty(), "{handled:?}");
    for shop in ["SHOP#s1", "SHOP#s2"] {
        let measures = ["books", "dearest"].map(|measure| world.measure(shop, "ROLLUP", measure));
        assert_eq!(measures, [Some(1), Some(5)], "{shop}");
    }
}
