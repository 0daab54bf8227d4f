//! Conditions come before lookups: an item that does not count needs nothing looked up.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::models::{ATTEMPTS, REVIEWS, put_project};
use super::world::EdgeWorld;

/// Attempts that count only when they are done.
fn drafts() -> String {
    let when = "when = { status = [\"DONE\"], project_id = [{ exists = true }] }\ninto = \"admin\"";
    ATTEMPTS.replace("into = \"admin\"", when)
}

async fn counted(attributes: Value) -> (BTreeMap<String, String>, Option<i64>) {
    let mut world = EdgeWorld::new(&drafts());
    put_project(&mut world, "p1");
    world.put("CANDIDATE#c1", "ATTEMPT#t1", attributes);
    let delivery = world.deliver().await;
    (delivery.failures, world.measure("ADMIN#a1", "ROLLUP", "attempts"))
}

#[tokio::test]
async fn a_draft_without_the_input_of_a_lookup_does_not_count_and_does_not_fail() {
    assert_eq!(counted(json!({ "status": { "S": "DRAFT" } })).await, (BTreeMap::new(), None));
}

#[tokio::test]
async fn null_is_absent_for_exists_and_for_the_input_of_a_lookup() {
    for status in ["DRAFT", "DONE"] {
        let attributes = json!({ "status": { "S": status }, "project_id": { "NULL": true } });
        assert_eq!(counted(attributes).await, (BTreeMap::new(), None), "{status}");
    }
}

#[tokio::test]
async fn an_item_that_counts_is_looked_up() {
    let attributes = json!({ "status": { "S": "DONE" }, "project_id": { "S": "p1" } });
    assert_eq!(counted(attributes).await, (BTreeMap::new(), Some(1)));
}

#[tokio::test]
async fn an_item_that_does_not_count_does_not_wait_for_an_unknown_project() {
    let attributes = json!({ "status": { "S": "DRAFT" }, "project_id": { "S": "nobody" } });
    assert_eq!(counted(attributes).await, (BTreeMap::new(), None));
}

#[tokio::test]
async fn an_item_that_lacks_the_input_of_one_of_two_lookups_is_parked() {
    let mut world = EdgeWorld::new(REVIEWS);
    put_project(&mut world, "p1");
    world.put("CANDIDATE#c1", "REVIEW#r1", json!({ "project_id": { "S": "p1" } }));
    world.stream();
    // The project is not in the batch: its lookup has no result, because none is made.
    let review = world.records[1..].to_vec();
    let delivery = world.deliver_these(&review).await;
    assert_eq!(delivery.failures, BTreeMap::new());
    assert_eq!(delivery.parked.len(), 1);
    let behind = world.entry("CANDIDATE#c1", "REVIEW#r1", "behind").expect("a mark");
    assert!(behind.ends_with(" RecordError"), "{behind}");
}
