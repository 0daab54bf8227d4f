//! The requests of a batch that follow one another: each costs every record of the batch its latency.

use std::sync::{Arc, Mutex};

use afterwrite::Error;
use afterwrite::effect::{ItemKey, Write};
use afterwrite::record::Timestamp;
use afterwrite::sink::{
    ConsumedUnits, IndexPage, IndexQuery, ReadSnapshot, Tables, TransactError, WriteError,
};
use afterwrite_memory::MemoryTables;
use afterwrite_tests::deployment::event;
use serde_json::{Value, json};

use crate::world::{EdgeWorld, STATE, aggregator_over, key};

/// Attempts, counted for the owner of their project.
const OWNERS: &str = r##"
name = "edge"
generation = 1
[tables.app]
key = ["PK", "SK"]
[entities.project]
key = { PK = "ADMIN#{admin_id}", SK = "PROJECT#{project_id}" }
[entities.attempt]
key = { PK = "CANDIDATE#{candidate_id}", SK = "ATTEMPT#{attempt_id}" }
attributes = { project_id = "S" }
[lookups.owner]
of = "project"
index = "GSI1"
key = { GSI1PK = "PROJECT#{project_id}" }
gives = ["admin_id"]
[rollups.admin]
key = { PK = "ADMIN#{admin_id}", SK = "ROLLUP" }
[[aggregates]]
name = "attempts"
of = "attempt"
lookup = "owner"
into = "admin"
measures = { attempts = "count" }
"##;

/// Tables that note the kind of each request.
struct NotingTables {
    tables: Arc<MemoryTables>,
    requests: Mutex<Vec<&'static str>>,
}

impl NotingTables {
    fn note(&self, kind: &'static str) {
        self.requests.lock().expect("no test panicked while it held the lock").push(kind);
    }
}

impl Tables for NotingTables {
    async fn read(&self, keys: &[ItemKey]) -> Result<ReadSnapshot, Error> {
        self.note("read");
        self.tables.read(keys).await
    }

    async fn write(&self, write: &Write) -> Result<ConsumedUnits, WriteError> {
        self.note("write");
        self.tables.write(write).await
    }

    async fn transact(&self, writes: &[Write]) -> Result<ConsumedUnits, TransactError> {
        self.note("transact");
        self.tables.transact(writes).await
    }

    async fn query_index(&self, query: &IndexQuery) -> Result<IndexPage, Error> {
        self.note("query");
        self.tables.query_index(query).await
    }
}

/// The requests of a new process for these records, in order.
async fn requests_of(world: &EdgeWorld, records: &[Value]) -> Vec<&'static str> {
    let tables = Arc::new(NotingTables { tables: Arc::clone(&world.tables), requests: Mutex::default() });
    let aggregator = aggregator_over(OWNERS, Arc::clone(&tables));
    let deadline = Timestamp::from_epoch_ms(i64::MAX);
    let handled = aggregator.handle(event(records).as_bytes(), deadline).await.expect("an event");
    assert!(handled.failures.is_empty(), "{:?}", handled.failures);
    let requests = tables.requests.lock().expect("no test panicked while it held the lock");
    requests.clone()
}

/// A world with a project and 20 attempts; the records of the attempts are not delivered.
fn world() -> EdgeWorld {
    let mut world = EdgeWorld::new(OWNERS);
    world.put("ADMIN#a1", "PROJECT#p1", json!({ "GSI1PK": { "S": "PROJECT#p1" } }));
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
    let remembered = world.tables.scan(STATE).into_iter().find(|item| {
        item.get("PK").and_then(|key| key.as_text()).is_some_and(|key| key.starts_with("LOOKUP#"))
    });
    let remembered = remembered.expect("a remembered lookup");
    let text = |name: &str| remembered.get(name).and_then(|key| key.as_text()).expect("a key").to_owned();
    world.tables.delete(&key(STATE, &text("PK"), &text("SK"))).expect("an item");
    assert_eq!(requests_of(&world, &world.records[1..]).await, ["read"]);
    assert_eq!(world.entry("CANDIDATE#c1", "ATTEMPT#t0", "behind"), None);
    assert_eq!(world.measure("ADMIN#a1", "ROLLUP", "attempts"), Some(20));
}
