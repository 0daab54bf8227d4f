//! The requests of a batch that follow one another: each costs every record of the batch its latency.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use afterwrite_model::ErrorKind;
use afterwrite_model::effect::{ItemKey, Write};
use afterwrite_model::record::AttributeValue;
use afterwrite_tests::deployment::event;
use futures::FutureExt as _;
use serde_json::{Value, json};

use super::models::{ATTEMPTS, SHOP, put_project};
use super::observed::{ObservedTables, WriteFate};
use super::world::{DEADLINE, EdgeWorld, STATE, TABLE, aggregator_over, deliver_to, key};

/// The requests of a new process for these records, in order.
async fn requests_of(world: &EdgeWorld, records: &[Value]) -> Vec<&'static str> {
    requests_with(ATTEMPTS, world, records).await
}

async fn requests_with(model: &str, world: &EdgeWorld, records: &[Value]) -> Vec<&'static str> {
    let tables = ObservedTables::new(&world.tables);
    let handled = deliver_to(model, Arc::clone(&tables), records).await.expect("an event");
    assert!(handled.failures.is_empty(), "{:?}", handled.failures);
    tables.take().into_iter().map(|request| request.kind).collect()
}

/// A world with a project and 20 attempts; the records of the attempts are not delivered.
fn world() -> EdgeWorld {
    let mut world = EdgeWorld::new(ATTEMPTS);
    put_project(&mut world, "p1");
    world.stream();
    for attempt in 0..20 {
        let attributes = json!({ "project_id": { "S": "p1" } });
        world.put("CANDIDATE#c1", &format!("ATTEMPT#t{attempt}"), attributes);
    }
    world.stream();
    world
}

#[tokio::test]
async fn a_new_process_reads_what_is_remembered_with_the_entries() {
    let world = world();
    let (first, second) = world.records[1..].split_at(10);
    assert_eq!(requests_of(&world, first).await, ["read", "query", "write", "transact"]);
    assert_eq!(requests_of(&world, second).await, ["read", "transact"], "the lookup is remembered");
    assert_eq!(requests_of(&world, second).await, ["read"], "all are counted");
    assert_eq!(world.measure("ADMIN#a1", "ROLLUP", "attempts"), Some(20));
}

#[tokio::test]
async fn a_record_that_is_counted_already_has_nothing_looked_up() {
    let world = world();
    requests_of(&world, &world.records[1..]).await;
    // The remembered outputs are gone: only an item that needs them may search the index.
    let remembered = world.remembered().remove(0);
    let text = |name: &str| remembered.get(name).and_then(|key| key.as_text()).expect("a key").to_owned();
    world.tables.delete(&key(STATE, &text("PK"), &text("SK"))).expect("an item");
    assert_eq!(requests_of(&world, &world.records[1..]).await, ["read"]);
    assert_eq!(world.entry("CANDIDATE#c1", "ATTEMPT#t0", "behind"), None);
    assert_eq!(world.measure("ADMIN#a1", "ROLLUP", "attempts"), Some(20));
}

/// The tables of a world in which the outputs of lookups cannot be remembered.
fn without_lookups(world: &EdgeWorld, fate: WriteFate) -> Arc<ObservedTables> {
    ObservedTables::with_fate(&world.tables, move |_, write: &Write| {
        let partition = write.key.partition.value.as_text();
        if partition.is_some_and(|key| key.starts_with("LOOKUP#")) { fate } else { WriteFate::CarriedOut }
    })
}

/// A world whose attempts are counted except the newest, which has a record together with a new project.
async fn world_with_new_project() -> EdgeWorld {
    let mut world = world();
    world.settle().await;
    put_project(&mut world, "p2");
    world.put("CANDIDATE#c2", "ATTEMPT#t1", json!({ "project_id": { "S": "p1" } }));
    world.stream();
    world
}

#[tokio::test]
async fn outputs_that_no_item_waits_for_delay_no_transaction() {
    let world = world_with_new_project().await;
    let tables = without_lookups(&world, WriteFate::Pending);
    let aggregator = aggregator_over(ATTEMPTS, Arc::clone(&tables));
    let event = event(&world.records[21..]);
    assert!(aggregator.handle(event.as_bytes(), DEADLINE).now_or_never().is_none());
    assert_eq!(world.measure("ADMIN#a1", "ROLLUP", "attempts"), Some(21));
}

#[tokio::test]
async fn a_record_whose_outputs_cannot_be_remembered_is_delivered_again() {
    let mut world = world_with_new_project().await;
    let tables = without_lookups(&world, WriteFate::Failed(ErrorKind::Unavailable));
    let handled = deliver_to(ATTEMPTS, tables, &world.records[21..]).await.expect("an event");
    let numbers: Vec<_> = handled.failures.iter().map(|failed| failed.sequence_number.as_deref()).collect();
    assert_eq!(numbers, [world.records[21]["dynamodb"]["SequenceNumber"].as_str()]);
    assert_eq!(world.measure("ADMIN#a1", "ROLLUP", "attempts"), Some(21), "the other record is counted");
    assert_eq!(world.remembered().len(), 1);
    world.settle().await;
    assert_eq!(world.remembered().len(), 2);
}

#[tokio::test]
async fn a_remembered_lookup_without_a_declared_output_fails_its_records_at_once() {
    let mut world = world();
    world.settle().await;
    let mut remembered = world.remembered().remove(0);
    remembered.insert("gives".into(), AttributeValue::M(BTreeMap::new()));
    world.tables.put(STATE, remembered).expect("a lookup");
    world.put("CANDIDATE#c2", "ATTEMPT#t1", json!({ "project_id": { "S": "p1" } }));
    world.stream();
    let tables = Arc::clone(&world.tables);
    let handled = deliver_to(ATTEMPTS, tables, &world.records[21..]).await.expect("an event");
    let errors: Vec<_> = handled.failures.iter().map(|failed| failed.error.to_string()).collect();
    assert_eq!((errors.len(), handled.parked.len(), handled.totals.retries), (1, 0, 0));
    assert!(errors[0].contains("lacks an output"), "{errors:?}");
}

/// The tables of a world that fail the first request of this kind with a key that begins so.
fn failing_once(world: &EdgeWorld, kind: &'static str, beginning: &'static str) -> Arc<ObservedTables> {
    ObservedTables::with_fate_once(
        &world.tables,
        (kind, WriteFate::Failed(ErrorKind::Unavailable)),
        move |key| key.partition.value.as_text().expect("a text").starts_with(beginning),
    )
}

/// Delivers records to these tables until the deadline. No record fails.
async fn assert_delivered(model: &str, tables: Arc<ObservedTables>, records: &[Value]) {
    let handled = deliver_to(model, tables, records).await;
    let handled = handled.expect("an event");
    assert!(handled.failures.is_empty(), "{:?}", handled.failures);
    assert_eq!((handled.parked.len(), handled.totals.retries), (0, 1));
}

#[tokio::test]
async fn outputs_that_could_not_be_remembered_are_remembered_in_the_same_batch() {
    let world = world_with_new_project().await;
    assert_delivered(ATTEMPTS, failing_once(&world, "write", "LOOKUP#"), &world.records[21..]).await;
    assert_eq!(world.remembered().len(), 2);
}

#[tokio::test]
async fn mirrors_that_could_not_be_written_are_written_in_the_same_batch() {
    let mut world = EdgeWorld::new(SHOP);
    world.put("SHOP#s1", "SHOP", json!({ "stats": { "M": {} } }));
    world.put("SHOP#s1", "BOOK#b1", json!({ "price": { "N": "5" } }));
    world.stream();
    assert_delivered(SHOP, failing_once(&world, "write", "SHOP#"), &world.records).await;
    assert_eq!(world.shown("SHOP#s1", "SHOP", "stats.books"), Some(1));
}

#[tokio::test]
async fn an_entry_or_a_transaction_without_a_response_is_written_in_the_same_batch() {
    for (kind, beginning) in [("write", "LEDGER#"), ("transact", "ADMIN#")] {
        let world = world();
        assert_delivered(ATTEMPTS, failing_once(&world, kind, beginning), &world.records).await;
        assert_eq!(world.measure("ADMIN#a1", "ROLLUP", "attempts"), Some(20));
    }
}

#[tokio::test]
async fn a_throttled_transaction_is_sent_again_after_a_wait() {
    let world = world();
    let checks = AtomicUsize::new(0);
    let is_throttled = move |key: &ItemKey| {
        let is_rollup = key.partition.value.as_text() == Some("ADMIN#a1") && *key.table == *STATE;
        is_rollup && checks.fetch_add(1, Ordering::Relaxed) < 1
    };
    assert_delivered(ATTEMPTS, ObservedTables::throttling(&world.tables, is_throttled), &world.records).await;
    assert_eq!(world.measure("ADMIN#a1", "ROLLUP", "attempts"), Some(20));
}

#[tokio::test]
async fn outputs_that_a_record_of_the_batch_shows_are_not_looked_up() {
    let world = world();
    world.tables.delete(&key(TABLE, "ADMIN#a1", "PROJECT#p1")).expect("a key").expect("a project");
    let requests = requests_of(&world, &world.records).await;
    assert!(!requests.contains(&"query"), "{requests:?}");
    assert_eq!(world.measure("ADMIN#a1", "ROLLUP", "attempts"), Some(20));
}

#[tokio::test]
async fn the_first_items_of_a_large_batch_are_finished_first() {
    let mut world = EdgeWorld::new(SHOP);
    for shop in 0..1100 {
        let shop = format!("SHOP#s{shop}");
        world.put(&shop, "SHOP", json!({ "stats": { "M": {} } }));
        world.put(&shop, "BOOK#b", json!({ "price": { "N": "5" } }));
    }
    world.stream();
    let mut requests = requests_with(SHOP, &world, &world.records).await;
    let committed = requests.iter().rposition(|kind| *kind == "transact").expect("a transaction");
    // The last of the entries that are written while transactions are.
    let entries = requests[committed + 1..].iter().take_while(|kind| **kind == "write").count();
    let mut copies = requests.split_off(committed + 1 + entries);
    copies.dedup();
    // If the deadline came after the first thousand items, their records would not be delivered again.
    assert_eq!(copies, ["read", "write", "read", "write", "read", "write"]);
}

#[tokio::test]
async fn a_copy_of_a_large_batch_is_set_once() {
    let mut world = EdgeWorld::new(SHOP);
    world.put("SHOP#s1", "SHOP", json!({ "stats": { "M": {} } }));
    for book in 0..2100 {
        world.put("SHOP#s1", &format!("BOOK#b{book}"), json!({ "price": { "N": "5" } }));
    }
    world.stream();
    let copies = Arc::new(AtomicUsize::new(0));
    let sent = Arc::clone(&copies);
    let tables = ObservedTables::with_fate(&world.tables, move |_, write| {
        sent.fetch_add(usize::from(*write.key.table == *TABLE), Ordering::Relaxed);
        WriteFate::CarriedOut
    });
    let handled = deliver_to(SHOP, tables, &world.records).await;
    assert!(handled.expect("an event").failures.is_empty());
    assert_eq!(world.shown("SHOP#s1", "SHOP", "stats.books"), Some(2100));
    assert_eq!(copies.load(Ordering::Relaxed), 1);
}
