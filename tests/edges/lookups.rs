//! Lookups that find nothing yet, or fail: how often and how soon they are tried again, and what waits for them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use afterwrite_ledger::RememberedLookups;
use afterwrite_model::ErrorKind;
use afterwrite_model::clock::Clock as _;
use afterwrite_model::effect::ItemKey;
use afterwrite_model::projection::LookupKey;
use afterwrite_model::record::{AttributeValue, Timestamp};
use afterwrite_tests::deployment::event;
use serde_json::json;

use super::models::{ATTEMPTS, REVIEWS, put_project};
use super::observed::{ObservedTables, WriteFate};
use super::world::{DEADLINE, EdgeWorld, NOW, STATE, aggregator_over, deliver_to};

const BEGIN: Timestamp = Timestamp::from_epoch_seconds(NOW);

fn put_attempt(world: &mut EdgeWorld, attempt: &str, project: &str) {
    world.put("CANDIDATE#c1", attempt, json!({ "project_id": { "S": project } }));
}

fn is_lookup(key: &ItemKey, beginning: &str) -> bool {
    *key.table == *STATE && key.partition.value.as_text().is_some_and(|key| key.starts_with(beginning))
}

/// Tables in which the first write of a remembered lookup fails.
fn failing_once(world: &EdgeWorld, kind: ErrorKind) -> Arc<ObservedTables> {
    ObservedTables::with_fate_once(&world.tables, ("write", WriteFate::Failed(kind)), |key| {
        is_lookup(key, "LOOKUP#")
    })
}

/// A world in which only the index has a project.
fn world_with_project(project: &str) -> EdgeWorld {
    let mut world = EdgeWorld::new(ATTEMPTS);
    put_project(&mut world, project);
    world.stream();
    world.records.clear();
    world
}

#[tokio::test]
async fn an_index_that_finds_nothing_is_queried_three_times_with_growing_pauses() {
    for (limit, queries, waited) in [(3_000, 3, 300), (250, 2, 100)] {
        let mut world = EdgeWorld::new(ATTEMPTS);
        put_attempt(&mut world, "ATTEMPT#t1", "p1");
        world.stream();
        let tables = ObservedTables::new(&world.tables);
        let aggregator = aggregator_over(ATTEMPTS, Arc::clone(&tables));
        let deadline = BEGIN.plus(Duration::from_millis(limit));
        let handled = aggregator.handle(event(&world.records).as_bytes(), deadline).await.expect("an event");
        assert_eq!((handled.failures.len(), handled.parked.len()), (1, 0));
        let sent = tables.take().into_iter().filter(|request| request.kind == "query").count();
        let now = aggregator.ledger().clock().now();
        assert_eq!((sent, now), (queries, BEGIN.plus(Duration::from_millis(waited))));
    }
}

#[tokio::test]
async fn outputs_that_another_writer_remembers_meanwhile_are_found() {
    let mut world = world_with_project("p1");
    put_attempt(&mut world, "ATTEMPT#t0", "p1");
    world.settle().await;
    let mut remembered = world.remembered().remove(0);
    remembered.insert("PK".into(), "LOOKUP#owner#p9".into());
    put_attempt(&mut world, "ATTEMPT#t1", "p9");
    world.stream();
    let newest = world.newest(1).to_vec();
    let (written, reads) = (Arc::clone(&world.tables), AtomicUsize::new(0));
    // The index never has this project: it is deleted by the time that this function looks.
    let tables = ObservedTables::throttling(&world.tables, move |key| {
        if is_lookup(key, "LOOKUP#owner#p9") && reads.fetch_add(1, Ordering::Relaxed) == 1 {
            written.put(STATE, remembered.clone()).expect("a lookup");
        }
        false
    });
    let handled = deliver_to(ATTEMPTS, tables, &newest).await.expect("an event");
    assert!(handled.failures.is_empty(), "{:?}", handled.failures);
    assert_eq!(world.measure("ADMIN#a1", "ROLLUP", "attempts"), Some(2));
}

#[tokio::test]
async fn outputs_that_can_never_be_remembered_park_the_record_at_once() {
    let mut world = world_with_project("p1");
    put_attempt(&mut world, "ATTEMPT#t1", "p1");
    world.stream();
    let handled = deliver_to(ATTEMPTS, failing_once(&world, ErrorKind::Rejected), &world.records)
        .await
        .expect("an event");
    assert_eq!((handled.failures.len(), handled.parked.len(), handled.totals.retries), (0, 1, 0));
}

#[tokio::test]
async fn a_lookup_outside_of_a_batch_is_tried_again() {
    let world = world_with_project("p1");
    let aggregator = aggregator_over(ATTEMPTS, failing_once(&world, ErrorKind::Unavailable));
    let lookup = LookupKey { lookup: 0, key: "p1".into() };
    let found = aggregator.ledger().look_up(&[lookup], DEADLINE).await.expect("outputs");
    let outputs = found[0].as_deref().expect("outputs");
    assert_eq!(outputs.iter().map(|output| output.as_text()).collect::<Vec<_>>(), [Some("a1")]);
}

#[tokio::test]
async fn remembered_outputs_are_replaced_only_if_they_differ() {
    let mut world = world_with_project("p1");
    put_attempt(&mut world, "ATTEMPT#t1", "p1");
    world.settle().await;
    let model = Arc::clone(world.aggregator.ledger().model());
    let remembered = RememberedLookups::new(model, Arc::from(STATE), Arc::clone(&world.tables));
    let [known, unknown] = ["p1", "p2"].map(|project| LookupKey { lookup: 0, key: project.into() });
    for (key, owner, is_replaced) in [(&known, "a1", false), (&known, "a2", true), (&unknown, "a2", false)] {
        let replaced = remembered.replace(key, &[AttributeValue::text(owner)]).await.expect("a write");
        assert_eq!(replaced, is_replaced, "{key:?} {owner}");
    }
    let read = remembered.read(&[known, unknown]).await.expect("a read");
    let read: Vec<_> = read.iter().map(|outputs| outputs.as_deref()?.first()?.as_text()).collect();
    assert_eq!(read, [Some("a2"), None]);
}

#[tokio::test]
async fn an_input_of_a_lookup_is_used_as_it_is() {
    let mut world = world_with_project("p%231");
    put_attempt(&mut world, "ATTEMPT#t1", "p%231");
    assert_eq!(world.deliver().await.failures, BTreeMap::new());
    assert_eq!(world.measure("ADMIN#a1", "ROLLUP", "attempts"), Some(1));
}

#[tokio::test]
async fn an_older_image_whose_lookup_finds_nothing_delays_no_newer_one() {
    let mut world = world_with_project("p1");
    put_attempt(&mut world, "ATTEMPT#t1", "unknown");
    put_attempt(&mut world, "ATTEMPT#t1", "p1");
    let delivery = world.deliver().await;
    assert_eq!((delivery.failures, delivery.parked), (BTreeMap::new(), BTreeMap::new()));
    assert_eq!(world.measure("ADMIN#a1", "ROLLUP", "attempts"), Some(1));
}

/// A second aggregate of attempts.
fn with_scores(settings: &str) -> String {
    let scores = r##"
[rollups.score]
key = { PK = "SCORE#{status}", SK = "ROLLUP" }
[[aggregates]]
name = "scores"
of = "attempt"
into = "score"
measures = { scores = "count" }
"##;
    format!("{ATTEMPTS}{scores}{settings}")
}

#[tokio::test]
async fn a_record_is_parked_only_when_no_aggregate_waits_for_a_lookup() {
    let model = with_scores("when.status = [\"DONE\"]\n");
    let mut world = EdgeWorld::new(&model);
    world.put("CANDIDATE#c1", "ATTEMPT#t1", json!({ "project_id": { "S": "p1" }, "status": { "N": "1" } }));
    world.stream();
    let handled =
        world.aggregator.handle(event(&world.records).as_bytes(), DEADLINE).await.expect("an event");
    assert_eq!((handled.failures.len(), handled.parked.len()), (1, 0));
}

#[tokio::test]
async fn a_misfit_is_charged_to_its_own_aggregate() {
    let failing = REVIEWS.replacen("lookup = \"owner\"", "lookup = \"owner\"\non_misfit = \"fail\"", 1);
    let mut world = EdgeWorld::new(&failing);
    world.put("CANDIDATE#c1", "REVIEW#r1", json!({ "project_id": { "S": "p1" } }));
    let delivery = world.deliver().await;
    assert_eq!((delivery.failures, delivery.parked.len()), (BTreeMap::new(), 1));
}

#[tokio::test]
async fn an_output_that_is_null_is_not_remembered() {
    let model = ATTEMPTS
        .replace(
            "SK = \"PROJECT#{project_id}\" }",
            "SK = \"PROJECT#{project_id}\" }\nattributes = { team = \"S\" }",
        )
        .replace("gives = [\"admin_id\"]", "gives = [\"team\"]")
        .replace("PK = \"ADMIN#{admin_id}\", SK = \"ROLLUP\"", "PK = \"TEAM#{team}\", SK = \"ROLLUP\"");
    let mut world = EdgeWorld::new(&model);
    let put_project = |world: &mut EdgeWorld, team: serde_json::Value| {
        world.put("ADMIN#a1", "PROJECT#p1", json!({ "GSI1PK": { "S": "PROJECT#p1" }, "team": team }));
    };
    put_project(&mut world, json!({ "NULL": true }));
    put_attempt(&mut world, "ATTEMPT#t1", "p1");
    assert_eq!(world.deliver().await.failures.len(), 1);
    assert_eq!(world.remembered().len(), 0);
    put_project(&mut world, json!({ "S": "t1" }));
    let records = world.records.clone();
    world.settle().await;
    assert_eq!(world.deliver_these(&records).await.failures, BTreeMap::new());
    assert_eq!(world.measure("TEAM#t1", "ROLLUP", "attempts"), Some(1));
}

#[tokio::test]
async fn an_item_takes_the_outputs_that_a_later_record_of_its_batch_offers() {
    let mut world = EdgeWorld::new(ATTEMPTS);
    put_attempt(&mut world, "ATTEMPT#t1", "p1");
    put_project(&mut world, "p1");
    world.stream();
    let tables = ObservedTables::new(&world.tables);
    let handled = deliver_to(ATTEMPTS, Arc::clone(&tables), &world.records).await.expect("an event");
    assert!(handled.failures.is_empty(), "{handled:?}");
    assert_eq!(world.measure("ADMIN#a1", "ROLLUP", "attempts"), Some(1));
    assert!(tables.take().iter().all(|request| request.kind != "query"), "no index is needed");
}

#[tokio::test]
async fn the_error_of_a_record_names_the_lookup_that_found_nothing_or_why_it_could_not_be_made() {
    let mut world = EdgeWorld::new(ATTEMPTS);
    put_attempt(&mut world, "ATTEMPT#t1", "p1");
    world.stream();
    for (is_throttled, expected) in [(false, "lookup `owner` found no item"), (true, "throttled")] {
        let tables =
            ObservedTables::throttling(&world.tables, move |key| is_throttled && is_lookup(key, "LOOKUP#"));
        let handled = deliver_to(ATTEMPTS, tables, &world.records).await.expect("an event");
        let errors: Vec<_> = handled.failures.iter().map(|failed| failed.error.to_string()).collect();
        assert!(errors.len() == 1 && errors[0].contains(expected), "{errors:?}");
    }
}

/// Stays, counted for the country of their host and for the kind of their room.
const STAYS: &str = r##"
[entities.host]
key = { PK = "HOST#{host_id}", SK = "HOST" }
attributes = { country = "S" }
[entities.room]
key = { PK = "ROOM#{room_id}", SK = "ROOM" }
attributes = { kind = "S" }
[entities.stay]
key = { PK = "GUEST#{guest_id}", SK = "STAY#{stay_id}" }
attributes = { host_id = "S", room_id = "S" }
[lookups.host]
of = "host"
key = { PK = "HOST#{host_id}", SK = "HOST" }
gives = ["country"]
[lookups.room]
of = "room"
key = { PK = "ROOM#{room_id}", SK = "ROOM" }
gives = ["kind"]
[rollups.country]
key = { PK = "COUNTRY#{country}", SK = "ROLLUP" }
[rollups.kind]
key = { PK = "KIND#{kind}", SK = "ROLLUP" }
[[aggregates]]
name = "stays"
of = "stay"
lookup = ["host", "room"]
into = ["country", "kind"]
optional = ["country"]
measures = { stays = "count" }
"##;

#[tokio::test]
async fn an_optional_output_of_an_item_that_does_not_exist_leaves_out_its_rollups_alone() {
    let mut world = EdgeWorld::new(STAYS);
    world.put("ROOM#r1", "ROOM", json!({ "kind": { "S": "suite" } }));
    world.put("GUEST#g1", "STAY#1", json!({ "host_id": { "S": "h1" }, "room_id": { "S": "r1" } }));
    let delivery = world.deliver().await;
    assert_eq!((delivery.failures, delivery.parked), (BTreeMap::new(), BTreeMap::new()));
    assert_eq!(world.measure("KIND#suite", "ROLLUP", "stays"), Some(1));
}

#[tokio::test]
async fn a_record_without_an_input_of_one_of_its_lookups_is_parked() {
    let mut world = EdgeWorld::new(STAYS);
    world.put("HOST#h1", "HOST", json!({ "country": { "S": "AT" } }));
    world.put("GUEST#g1", "STAY#1", json!({ "host_id": { "S": "h1" } }));
    world.stream();
    let delivery = world.deliver_these(world.newest(1)).await;
    assert_eq!((delivery.failures, delivery.parked.len()), (BTreeMap::new(), 1));
}
