//! Throttled partitions: each holds up the items that need it, and no others.

use std::sync::atomic::{AtomicUsize, Ordering};

use afterwrite_model::effect::ItemKey;
use serde_json::{Value, json};

use super::models::{ATTEMPTS, READINGS, SHOP, put_project, reading};
use super::observed::ObservedTables;
use super::world::{EdgeWorld, STATE, TABLE, aged, deliver_to};

/// More items than requests are sent at once.
const MANY: usize = 30;

/// Whether a key's partition begins with one of these.
fn begins(key: &ItemKey, beginnings: &[&str]) -> bool {
    let partition = key.partition.value.as_text().expect("a text");
    beginnings.iter().any(|beginning| partition.starts_with(beginning))
}

/// Delivers records while keys are throttled. Returns the items whose records failed, by their sort keys.
async fn failures(
    world: &EdgeWorld,
    model: &str,
    records: &[Value],
    is_throttled: impl Fn(&ItemKey) -> bool + Send + Sync + 'static,
) -> Vec<String> {
    let handled = deliver_to(model, ObservedTables::throttling(&world.tables, is_throttled), records)
        .await
        .expect("an event");
    let sort_key = |number: Option<String>| {
        let record =
            records.iter().find(|record| record["dynamodb"]["SequenceNumber"].as_str() == number.as_deref());
        record.expect("a record")["dynamodb"]["Keys"]["SK"]["S"].as_str().expect("a sort key").to_owned()
    };
    handled.failures.into_iter().map(|failure| sort_key(failure.sequence_number)).collect()
}

/// A world with two projects, of which the first is remembered, and an attempt at each that is not delivered yet.
async fn world_of_attempts() -> EdgeWorld {
    let mut world = EdgeWorld::new(ATTEMPTS);
    put_project(&mut world, "p1");
    world.put("CANDIDATE#c1", "ATTEMPT#t0", json!({ "project_id": { "S": "p1" } }));
    world.settle().await;
    // The first delivery of this project is lost; only the index has it.
    put_project(&mut world, "p2");
    world.stream();
    world.records.clear();
    world.put("CANDIDATE#c1", "ATTEMPT#t1", json!({ "project_id": { "S": "p1" } }));
    world.put("CANDIDATE#c2", "ATTEMPT#t2", json!({ "project_id": { "S": "p2" } }));
    world.stream();
    world
}

#[tokio::test]
async fn outputs_that_cannot_be_remembered_hold_up_the_items_that_need_them() {
    let world = world_of_attempts().await;
    let failed = failures(&world, ATTEMPTS, &world.records, |key| begins(key, &["LOOKUP#owner#p2"])).await;
    assert_eq!(failed, ["ATTEMPT#t2"]);
    assert_eq!(world.measure("ADMIN#a1", "ROLLUP", "attempts"), Some(2));
    world.deliver_these(&world.records).await;
    assert_eq!(world.measure("ADMIN#a1", "ROLLUP", "attempts"), Some(3));
}

#[tokio::test]
async fn an_entry_that_cannot_be_read_holds_up_its_item() {
    let world = world_of_attempts().await;
    let failed =
        failures(&world, ATTEMPTS, &world.records, |key| begins(key, &["LEDGER#app#CANDIDATE#c1"])).await;
    assert_eq!(failed, ["ATTEMPT#t1"]);
    assert_eq!(world.measure("ADMIN#a1", "ROLLUP", "attempts"), Some(2));
    world.deliver_these(&world.records).await;
    assert_eq!(world.measure("ADMIN#a1", "ROLLUP", "attempts"), Some(3));
}

/// A world with shops, each with a book; nothing is delivered yet.
fn world_of_shops() -> EdgeWorld {
    let mut world = EdgeWorld::new(SHOP);
    for shop in 0..=MANY {
        world.put(&format!("SHOP#s{shop:02}"), "SHOP", json!({ "stats": { "M": {} } }));
        world.put(&format!("SHOP#s{shop:02}"), &format!("BOOK#b{shop:02}"), json!({ "price": { "N": "5" } }));
    }
    world.stream();
    world
}

fn shown(world: &EdgeWorld) -> Vec<Option<i64>> {
    (0..=MANY).map(|shop| world.shown(&format!("SHOP#s{shop:02}"), "SHOP", "stats.books")).collect()
}

/// Throttles keys that the first shops need. The others show their books nevertheless.
async fn mirrors_are_set(throttled: usize, is_throttled: impl Fn(&ItemKey) -> bool + Send + Sync + 'static) {
    let world = world_of_shops();
    let failed = failures(&world, SHOP, &world.records, is_throttled).await;
    let books: Vec<String> = (0..throttled).map(|shop| format!("BOOK#b{shop:02}")).collect();
    assert!(books.iter().all(|book| failed.contains(book)), "{failed:?}");
    assert_eq!(shown(&world)[throttled..], vec![Some(1); MANY + 1 - throttled]);
    world.deliver_these(&world.records).await;
    assert_eq!(shown(&world), vec![Some(1); MANY + 1]);
}

#[tokio::test]
async fn mirrors_wait_for_no_other_rollup() {
    mirrors_are_set(10, |key| begins(key, &["SHOP#s0"]) && *key.table == *STATE).await;
}

#[tokio::test]
async fn mirrors_wait_for_no_other_mirrors() {
    mirrors_are_set(20, |key| begins(key, &["SHOP#s0", "SHOP#s1"]) && *key.table == *TABLE).await;
}

#[tokio::test]
async fn mirrors_wait_for_no_other_entry() {
    mirrors_are_set(10, |key| begins(key, &["LEDGER#app#SHOP#s0"])).await;
}

#[tokio::test]
async fn a_lookup_that_is_throttled_at_last_parks_no_record() {
    let by_key = ATTEMPTS
        .replace(
            "ADMIN#{admin_id}\", SK = \"PROJECT#{project_id}\"",
            "PROJECT#{project_id}\", SK = \"PROJECT\"",
        )
        .replace("index = \"GSI1\"\nkey = { GSI1PK = \"PROJECT#{project_id}\" }\n", "")
        .replace("gives = [\"admin_id\"]", "gives = [\"admin_id\"]\n")
        .replace("[entities.attempt]", "attributes = { admin_id = \"S\" }\n[entities.attempt]");
    let mut world = EdgeWorld::new(&by_key);
    world.put("CANDIDATE#c1", "ATTEMPT#t1", json!({ "project_id": { "S": "p1" } }));
    world.stream();
    // The first read finds no project; then there is no answer until the deadline.
    let reads = AtomicUsize::new(0);
    let is_throttled =
        move |key: &ItemKey| begins(key, &["PROJECT#p1"]) && reads.fetch_add(1, Ordering::Relaxed) > 0;
    assert_eq!(failures(&world, &by_key, &world.records, is_throttled).await, ["ATTEMPT#t1"]);
}

#[tokio::test]
async fn a_remembered_lookup_that_is_throttled_once_fails_no_record() {
    let world = world_of_attempts().await;
    let reads = AtomicUsize::new(0);
    let is_throttled =
        move |key: &ItemKey| begins(key, &["LOOKUP#owner#p1"]) && reads.fetch_add(1, Ordering::Relaxed) == 0;
    let failed = failures(&world, ATTEMPTS, &world.records[..1], is_throttled).await;
    assert!(failed.is_empty(), "{failed:?}");
    assert_eq!(world.measure("ADMIN#a1", "ROLLUP", "attempts"), Some(2));
}

#[tokio::test]
async fn an_item_that_cannot_be_read_holds_up_no_other() {
    let mut world = EdgeWorld::new(READINGS);
    world.put("SENSOR#s1", "READING#r1", reading(1));
    world.put("SENSOR#s2", "READING#r2", reading(2));
    world.stream();
    // Older than tombstones live: its item is counted as the table has it.
    world.records[0] = aged(&world.records[0], 40);
    let failed = failures(&world, READINGS, &world.records, |key| *key.table == *TABLE).await;
    assert_eq!(failed, ["READING#r1"]);
    assert_eq!(world.measure("TOTAL#s2", "ROLLUP", "total"), Some(2));
    world.deliver_these(&world.records).await;
    assert_eq!(world.measure("TOTAL#s1", "ROLLUP", "total"), Some(1));
}

#[tokio::test]
async fn a_computed_rollup_that_cannot_be_read_holds_up_the_items_that_need_it() {
    let visits = r##"
[entities.visit]
key = { PK = "SHOP#{shop_id}", SK = "VISIT#{visit_id}" }
[rollups.visits]
key = { PK = "VISITS#{shop_id}", SK = "ROLLUP" }
[[aggregates]]
name = "visits"
of = "visit"
into = "visits"
measures = { visits = "count" }
"##;
    let model = format!("{SHOP}{visits}");
    let mut world = EdgeWorld::new(&model);
    world.put("SHOP#s1", "BOOK#b1", json!({ "price": { "N": "5" } }));
    world.put("SHOP#s1", "VISIT#v1", json!({}));
    world.stream();
    let failed = failures(&world, &model, &world.records, |key| begins(key, &["SHOP#s1"])).await;
    assert_eq!(failed, ["BOOK#b1"]);
    assert_eq!(world.measure("VISITS#s1", "ROLLUP", "visits"), Some(1));
    world.deliver_these(&world.records).await;
    assert_eq!(world.measure("SHOP#s1", "ROLLUP", "dearest"), Some(5));
}

#[tokio::test]
async fn mirrors_wait_for_no_other_part_of_a_read() {
    let mut world = EdgeWorld::new(SHOP);
    for shop in 0..120 {
        world.put(&format!("SHOP#s{shop:03}"), "SHOP", json!({ "stats": { "M": {} } }));
        world.put(&format!("SHOP#s{shop:03}"), "BOOK#b1", json!({ "price": { "N": "5" } }));
    }
    world.stream();
    // All are counted, and nothing is shown.
    failures(&world, SHOP, &world.records, |key| *key.table == *TABLE).await;
    // The items of copies that may be stale are read a hundred at a time.
    let is_throttled = |key: &ItemKey| *key.table == *TABLE && begins(key, &["SHOP#s1"]);
    failures(&world, SHOP, &world.records, is_throttled).await;
    let shown = |shop: usize| world.shown(&format!("SHOP#s{shop:03}"), "SHOP", "stats.books");
    assert_eq!((0..120).map(shown).collect::<Vec<_>>(), [vec![Some(1); 100], vec![None; 20]].concat());
}
