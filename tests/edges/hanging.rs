//! Requests that hang or are slow: items that do not need them are counted long before the deadline.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use afterwrite::Error;
use afterwrite::commit::Ledger;
use afterwrite::effect::{ItemKey, Write};
use afterwrite::record::Timestamp;
use afterwrite::sink::{
    ConsumedUnits, IndexPage, IndexQuery, PartialRead, ReadSnapshot, Tables, TransactError, WriteError,
};
use afterwrite_functions::{AggregatedBatch, StreamAggregator};
use afterwrite_memory::MemoryTables;
use afterwrite_tests::clock::TokioClock;
use afterwrite_tests::deployment::event;
use serde_json::{Value, json};

use crate::models::{ATTEMPTS, PROJECTS, READINGS, SHOP, put_project, reading};
use crate::world::{EdgeWorld, NOW, STATE, TABLE, key, parsed};

const NEVER_DONE: Duration = Duration::MAX;

/// A request whose time a test determines.
enum SlowRequest<'r> {
    Read,
    Write(&'r Write),
    Transact(&'r [Write]),
    Query(&'r IndexQuery),
}

/// Tables whose requests take some time before they are carried out.
struct SlowTables<F> {
    tables: Arc<MemoryTables>,
    time: F,
}

impl<F: Fn(SlowRequest<'_>) -> Duration + Send + Sync> SlowTables<F> {
    async fn wait(&self, request: SlowRequest<'_>) {
        match (self.time)(request) {
            NEVER_DONE => std::future::pending().await,
            time => tokio::time::sleep(time).await,
        }
    }
}

impl<F: Fn(SlowRequest<'_>) -> Duration + Send + Sync> Tables for SlowTables<F> {
    async fn read(&self, keys: &[ItemKey]) -> Result<ReadSnapshot, Error> {
        self.tables.read(keys).await
    }

    async fn read_some(&self, keys: &[ItemKey]) -> Result<PartialRead, Error> {
        self.wait(SlowRequest::Read).await;
        self.tables.read_some(keys).await
    }

    async fn write(&self, write: &Write) -> Result<ConsumedUnits, WriteError> {
        self.wait(SlowRequest::Write(write)).await;
        self.tables.write(write).await
    }

    async fn transact(&self, writes: &[Write]) -> Result<ConsumedUnits, TransactError> {
        self.wait(SlowRequest::Transact(writes)).await;
        self.tables.transact(writes).await
    }

    async fn query_index(&self, query: &IndexQuery) -> Result<IndexPage, Error> {
        self.wait(SlowRequest::Query(query)).await;
        self.tables.query_index(query).await
    }
}

/// Delivers records to a new function that has this many seconds.
async fn deliver(
    model: &str,
    records: &[Value],
    seconds: u64,
    tables: SlowTables<impl Fn(SlowRequest<'_>) -> Duration + Send + Sync>,
) -> AggregatedBatch {
    deliver_at_random(500, model, records, seconds, tables).await
}

/// As [`deliver`]. The random number of the function is in thousandths.
async fn deliver_at_random(
    permille: u32,
    model: &str,
    records: &[Value],
    seconds: u64,
    tables: SlowTables<impl Fn(SlowRequest<'_>) -> Duration + Send + Sync>,
) -> AggregatedBatch {
    let begin = Timestamp::from_epoch_seconds(NOW);
    let (tables_of_model, state) = (vec![Arc::from(TABLE)], Arc::from(STATE));
    let ledger = Ledger::new(parsed(model), tables_of_model, state, tables, TokioClock::at(begin, permille));
    let deadline = begin.plus(Duration::from_secs(seconds));
    let handled = StreamAggregator::new(ledger).handle(event(records).as_bytes(), deadline).await;
    let handled = handled.expect("an event");
    assert!(handled.parked.is_empty(), "{handled:?}");
    handled
}

/// A world with attempts of unknown projects, and then 100 attempts of a project whose owner is remembered.
async fn world_of_attempts(unknown: usize) -> EdgeWorld {
    let mut world = EdgeWorld::new(ATTEMPTS);
    put_project(&mut world, "p1");
    world.put("CANDIDATE#c1", "ATTEMPT#t1", json!({ "project_id": { "S": "p1" } }));
    world.settle().await;
    world.records.clear();
    let projects = (0..unknown).map(|number| format!("u{number}"));
    for (number, project) in projects.chain(vec!["p1".to_owned(); 100]).enumerate() {
        world.put("CANDIDATE#c2", &format!("ATTEMPT#t{number}"), json!({ "project_id": { "S": project } }));
    }
    world.stream();
    world
}

#[tokio::test(start_paused = true)]
async fn items_that_need_no_query_are_counted_although_others_hang_or_are_many() {
    for (unknown, time, seconds) in [
        (520, NEVER_DONE, 60),
        (520, NEVER_DONE, 5),
        (520, NEVER_DONE, 2),
        (4_000, Duration::from_millis(20), 5),
    ] {
        let world = world_of_attempts(unknown).await;
        let tables = SlowTables {
            tables: Arc::clone(&world.tables),
            time: |request: SlowRequest<'_>| {
                if matches!(request, SlowRequest::Query(_)) { time } else { Duration::from_millis(5) }
            },
        };
        let handled = deliver(ATTEMPTS, &world.records, seconds, tables).await;
        let counted = world.measure("ADMIN#a1", "ROLLUP", "attempts");
        assert_eq!((counted, handled.failures.len()), (Some(101), unknown), "{unknown} in {seconds} s");
    }
}

#[tokio::test(start_paused = true)]
async fn lookups_for_which_there_was_no_time_are_tried_before_those_that_hung() {
    let mut world = world_of_attempts(40).await;
    // The queries of these projects follow those that hang.
    for number in 0..40 {
        let project = format!("v{number}");
        put_project(&mut world, &project);
        world.put("CANDIDATE#c3", &format!("ATTEMPT#t{number}"), json!({ "project_id": { "S": project } }));
    }
    world.stream();
    let is_attempt = |record: &Value| record["dynamodb"]["Keys"]["PK"]["S"] != "ADMIN#a1";
    world.records.retain(is_attempt);
    let tables = SlowTables {
        tables: Arc::clone(&world.tables),
        time: |request: SlowRequest<'_>| match request {
            SlowRequest::Query(query) if is_unknown(query) => NEVER_DONE,
            _ => Duration::from_millis(15),
        },
    };
    let handled = deliver(ATTEMPTS, &world.records, 10, tables).await;
    let counted = world.measure("ADMIN#a1", "ROLLUP", "attempts");
    assert_eq!((counted, handled.failures.len()), (Some(141), 40));
}

fn is_unknown(query: &IndexQuery) -> bool {
    query.partition.value.as_text().is_some_and(|key| key.starts_with("PROJECT#u"))
}

#[tokio::test(start_paused = true)]
async fn lookups_that_find_nothing_hold_back_no_others_for_more_than_some_deliveries() {
    let mut world = world_of_attempts(1_500).await;
    // Their keys follow those of the unknown projects.
    for number in 0..40 {
        let project = format!("v{number}");
        put_project(&mut world, &project);
        world.put("CANDIDATE#c3", &format!("ATTEMPT#t{number}"), json!({ "project_id": { "S": project } }));
    }
    world.stream();
    world.records.retain(|record| record["dynamodb"]["Keys"]["PK"]["S"] != "ADMIN#a1");
    for permille in [0, 618, 236, 854, 472, 90, 708] {
        let tables = SlowTables {
            tables: Arc::clone(&world.tables),
            time: |request: SlowRequest<'_>| match request {
                SlowRequest::Query(_) => Duration::from_millis(40),
                _ => Duration::from_millis(5),
            },
        };
        deliver_at_random(permille, ATTEMPTS, &world.records, 2, tables).await;
    }
    assert_eq!(world.measure("ADMIN#a1", "ROLLUP", "attempts"), Some(141));
}

#[tokio::test(start_paused = true)]
async fn a_query_that_takes_a_third_of_the_time_is_waited_for() {
    let mut world = EdgeWorld::new(ATTEMPTS);
    put_project(&mut world, "p1");
    world.put("CANDIDATE#c1", "ATTEMPT#t1", json!({ "project_id": { "S": "p1" } }));
    world.stream();
    let tables = SlowTables {
        tables: Arc::clone(&world.tables),
        time: |request: SlowRequest<'_>| {
            Duration::from_millis(if matches!(request, SlowRequest::Query(_)) { 1_000 } else { 15 })
        },
    };
    let handled = deliver(ATTEMPTS, &world.records[1..], 3, tables).await;
    let counted = world.measure("ADMIN#a1", "ROLLUP", "attempts");
    assert_eq!((counted, handled.failures.len()), (Some(1), 0));
}

#[tokio::test(start_paused = true)]
async fn a_read_that_hangs_leaves_time_to_send_it_again() {
    for (seconds, most_failures) in [(2, 0), (1, 100)] {
        let mut world = EdgeWorld::new(READINGS);
        for number in 0..300 {
            world.put(&format!("SENSOR#s{number}"), "READING#r1", reading(1));
        }
        world.stream();
        let reads = AtomicUsize::new(0);
        let tables = SlowTables {
            tables: Arc::clone(&world.tables),
            time: move |request: SlowRequest<'_>| match request {
                SlowRequest::Read if reads.fetch_add(1, Ordering::Relaxed) == 1 => NEVER_DONE,
                _ => Duration::from_millis(15),
            },
        };
        let handled = deliver(READINGS, &world.records, seconds, tables).await;
        assert!(handled.failures.len() <= most_failures, "{} in {seconds} s", handled.failures.len());
    }
}

#[tokio::test(start_paused = true)]
async fn mirrors_are_refreshed_although_another_item_hangs_until_the_deadline() {
    let mut world = EdgeWorld::new(SHOP);
    for shop in ["s1", "s2"] {
        world.put(&format!("SHOP#{shop}"), "SHOP", json!({}));
    }
    world.settle().await;
    world.records.clear();
    for shop in ["s1", "s2"] {
        world.put(&format!("SHOP#{shop}"), "BOOK#b1", json!({ "price": { "N": "1" } }));
    }
    world.stream();
    let hangs = |write: &Write| write.key.partition.value.as_text() == Some("SHOP#s1");
    let tables = SlowTables {
        tables: Arc::clone(&world.tables),
        time: |request: SlowRequest<'_>| match request {
            SlowRequest::Transact(writes) if writes.iter().any(hangs) => NEVER_DONE,
            _ => Duration::from_millis(15),
        },
    };
    let handled = deliver(SHOP, &world.records, 3, tables).await;
    assert_eq!((world.shown("SHOP#s2", "SHOP", "stats.books"), handled.failures.len()), (Some(1), 1));
}

#[tokio::test(start_paused = true)]
async fn lookups_are_begun_although_reading_the_remembered_ones_takes_long() {
    let mut world = EdgeWorld::new(ATTEMPTS);
    put_project(&mut world, "p1");
    let project = world.item("ADMIN#a1", "PROJECT#p1").expect("a project");
    world.put("CANDIDATE#c1", "ATTEMPT#t1", json!({ "project_id": { "S": "p1" } }));
    world.stream();
    world.tables.delete(&key(TABLE, "ADMIN#a1", "PROJECT#p1")).expect("a key");
    let (queries, indexed) = (AtomicUsize::new(0), Arc::clone(&world.tables));
    let tables = SlowTables {
        tables: Arc::clone(&world.tables),
        time: move |request: SlowRequest<'_>| match request {
            SlowRequest::Read => Duration::from_millis(2_500),
            SlowRequest::Query(_) => {
                // The index has the project when it is queried for the second time.
                if queries.fetch_add(1, Ordering::Relaxed) == 1 {
                    indexed.put(TABLE, project.clone()).expect("an item");
                }
                Duration::from_millis(15)
            }
            _ => Duration::from_millis(15),
        },
    };
    let handled = deliver(ATTEMPTS, &world.records[1..], 20, tables).await;
    let counted = world.measure("ADMIN#a1", "ROLLUP", "attempts");
    assert_eq!((counted, handled.failures.len()), (Some(1), 0));
}

#[tokio::test(start_paused = true)]
async fn items_whose_rollups_are_writable_are_counted_although_others_hang() {
    for (hanging, seconds) in [(1, 3), (20, 5), (40, 10)] {
        let mut world = EdgeWorld::new(READINGS);
        for number in 0..hanging + 100 {
            world.put(&format!("SENSOR#s{number:03}"), "READING#r1", reading(1));
        }
        world.stream();
        let hangs = move |write: &Write| {
            let partition = write.key.partition.value.as_text().expect("a text");
            let sensor = partition.strip_prefix("TOTAL#s").and_then(|number| number.parse::<usize>().ok());
            sensor.is_some_and(|sensor| sensor % 3 == 1 && sensor / 3 < hanging)
        };
        let tables = SlowTables {
            tables: Arc::clone(&world.tables),
            time: move |request: SlowRequest<'_>| match request {
                SlowRequest::Transact(writes) if writes.iter().any(hangs) => NEVER_DONE,
                _ => Duration::from_millis(15),
            },
        };
        let handled = deliver(READINGS, &world.records, seconds, tables).await;
        assert_eq!(handled.failures.len(), hanging, "{hanging} in {seconds} s");
    }
}

#[tokio::test(start_paused = true)]
async fn a_thousand_items_that_moved_are_noted_within_the_deadline() {
    let mut world = EdgeWorld::new(PROJECTS);
    let put = |world: &mut EdgeWorld, owner: &str| {
        for number in 0..1_000 {
            let item = json!({ "GSI1PK": { "S": format!("PROJECT#p{number}") } });
            world.put("PROJECTS", &format!("OWNER#{owner}#PROJECT#p{number}"), item);
        }
    };
    put(&mut world, "ann");
    world.settle().await;
    world.records.clear();
    put(&mut world, "bob");
    world.stream();
    let slow = |request: SlowRequest<'_>| match request {
        SlowRequest::Write(write) => Duration::from_millis(if *write.key.table == *STATE { 15 } else { 5 }),
        _ => Duration::from_millis(15),
    };
    let tables = SlowTables { tables: Arc::clone(&world.tables), time: slow };
    let handled = deliver(PROJECTS, &world.records, 10, tables).await;
    assert_eq!(handled.failures.len(), 0);
}
