//! Copied items: a copy shows its own count, not the original's.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use afterwrite_model::effect::Write;
use afterwrite_model::record::{Decimal, Timestamp};
use afterwrite_tests::deployment::event;
use serde_json::json;

use super::observed::{ObservedTables, WriteFate};
use super::world::{EdgeWorld, STATE, TABLE, aggregator_over, key, reconcile};

const PROJECTS: &str = r##"
[entities.project]
key = { PK = "PROJECT#{project_id}", SK = "PROJECT" }
[entities.question]
key = { PK = "PROJECT#{project_id}", SK = "QUESTION#{question_id}" }
[rollups.project]
key = { PK = "PROJECT#{project_id}", SK = "ROLLUP" }
[[aggregates]]
name = "questions"
of = "question"
into = "project"
measures = { questions = "count" }
[[mirrors]]
onto = "project"
from = "project"
attributes = { question_count = "questions" }
"##;

#[tokio::test]
async fn a_copied_item_shows_its_own_count_at_once_and_after_each_change() {
    let mut world = EdgeWorld::new(PROJECTS);
    world.put("PROJECT#p1", "PROJECT", json!({ "title": { "S": "one" } }));
    for question in 0..3 {
        world.put("PROJECT#p1", &format!("QUESTION#q{question}"), json!({}));
        world.settle().await;
    }
    assert_eq!(world.shown("PROJECT#p1", "PROJECT", "question_count"), Some(3));
    // The application clones the project with all its attributes, ours included.
    let mut copy = world.item("PROJECT#p1", "PROJECT").expect("a project");
    copy.insert("PK".into(), "PROJECT#p2".into());
    world.tables.put("app", copy).expect("a copy");
    world.settle().await;
    assert_eq!(world.shown("PROJECT#p2", "PROJECT", "question_count"), Some(0));
    world.put("PROJECT#p2", "QUESTION#q9", json!({}));
    world.settle().await;
    assert_eq!(world.shown("PROJECT#p2", "PROJECT", "question_count"), Some(1));
    assert_eq!(world.shown("PROJECT#p1", "PROJECT", "question_count"), Some(3));
}

/// An item of a table that was restored from another, with the copies that the other table's rollup had.
#[tokio::test]
async fn a_restored_item_shows_the_count_of_the_new_state_table() {
    for revision in
        [Some(json!({ "N": "500" })), Some(json!({ "S": "500" })), Some(json!({ "NULL": true })), None]
    {
        let mut world = EdgeWorld::new(PROJECTS);
        world.put("PROJECT#p1", "PROJECT", json!({}));
        world.put("PROJECT#p1", "QUESTION#q1", json!({}));
        world.settle().await;
        let shown = world.item("PROJECT#p1", "PROJECT").expect("a project");
        let of = shown["question_count_of"].as_text().expect("a name");
        let mut restored = json!({ "question_count": { "N": "500" }, "question_count_of": { "S": of } });
        if let Some(revision) = &revision {
            restored["question_count_rev"] = revision.clone();
        }
        world.put("PROJECT#p1", "PROJECT", restored);
        world.settle().await;
        assert_eq!(world.shown("PROJECT#p1", "PROJECT", "question_count"), Some(1), "{revision:?}");
        world.put("PROJECT#p1", "QUESTION#q2", json!({}));
        world.settle().await;
        assert_eq!(world.shown("PROJECT#p1", "PROJECT", "question_count"), Some(2), "{revision:?}");
    }
}

/// The record of the change that overwrote the copy is lost.
#[tokio::test]
async fn reconciling_an_item_sets_its_copies() {
    let mut world = EdgeWorld::new(PROJECTS);
    world.put("PROJECT#p1", "PROJECT", json!({}));
    world.put("PROJECT#p1", "QUESTION#q1", json!({}));
    world.settle().await;
    world.put("PROJECT#p1", "PROJECT", json!({ "title": { "S": "without copies" } }));
    let outcome = reconcile(world.aggregator.ledger(), "PROJECT#p1", Some("PROJECT")).await;
    assert!(outcome.failures.is_empty(), "{outcome:?}");
    assert_eq!(world.shown("PROJECT#p1", "PROJECT", "question_count"), Some(1));
}

/// The rollup reaches the revision and the value of the restored copy while a function replaces that copy. So the function that
/// counted the change found the copy right and did not write it.
#[tokio::test]
async fn a_restored_item_shows_a_count_that_changes_while_its_copy_is_replaced() {
    let mut world = EdgeWorld::new(PROJECTS);
    world.put("PROJECT#p1", "PROJECT", json!({}));
    world.put("PROJECT#p1", "QUESTION#q1", json!({}));
    world.settle().await;
    let shown = world.item("PROJECT#p1", "PROJECT").expect("a project");
    let of = shown["question_count_of"].as_text().expect("a name");
    let restored = json!({
        "question_count": { "N": "2" }, "question_count_rev": { "N": "2" }, "question_count_of": { "S": of },
    });
    world.put("PROJECT#p1", "PROJECT", restored);
    world.stream();
    let (tables, writes) = (Arc::clone(&world.tables), AtomicU32::new(0));
    let tables_observed = ObservedTables::with_fate(&world.tables, move |_, write: &Write| {
        // The first write of the copy is refused; the second one follows the decision to replace it.
        if *write.key.table == *TABLE && writes.fetch_add(1, Ordering::Relaxed) == 1 {
            let mut rollup = tables.get(&key(STATE, "PROJECT#p1", "ROLLUP")).expect("a rollup");
            for name in ["questions", "rev"] {
                rollup.insert(name.into(), Decimal::from(2_i64).into());
            }
            tables.put(STATE, rollup).expect("a rollup");
        }
        WriteFate::CarriedOut
    });
    let restoration = world.records.last().cloned().into_iter().collect::<Vec<_>>();
    let deadline = Timestamp::from_epoch_ms(i64::MAX);
    let aggregator = aggregator_over(PROJECTS, tables_observed);
    aggregator.handle(event(&restoration).as_bytes(), deadline).await.expect("an event");
    assert_eq!(world.measure("PROJECT#p1", "ROLLUP", "questions"), Some(2));
    assert_eq!(world.shown("PROJECT#p1", "PROJECT", "question_count"), Some(2));
}
