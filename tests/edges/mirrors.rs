//! Mirrors: nothing feeds itself, and a mirror that cannot be written never fails a counted record.

use std::collections::BTreeMap;
use std::sync::Arc;

use afterwrite_model::table::Model;
use serde_json::json;

use super::models::SHOP;
use super::world::{EdgeWorld, deliver_to, source};

/// The largest price of a book, shown on the book itself.
fn self_feeding() -> String {
    SHOP.replace(
        "key = { PK = \"SHOP#{shop_id}\", SK = \"ROLLUP\" }",
        "key = { PK = \"SHOP#{shop_id}\", SK = \"ROLLUP#{book_id}\" }",
    )
    .replace("onto = \"shop\"", "onto = \"book\"")
    .replace("{ \"stats.books\" = \"books\" }", "{ dearest = \"dearest\" }")
}

#[tokio::test]
async fn a_maximum_mirrored_onto_the_item_that_feeds_it_settles() {
    let mut world = EdgeWorld::new(&self_feeding());
    world.put("SHOP#s1", "BOOK#b1", json!({ "price": { "N": "5" } }));
    let records = world.settle().await;
    assert!(records <= 2, "the item, and its mirror: {records}");
    assert_eq!(world.shown("SHOP#s1", "BOOK#b1", "dearest"), Some(5));
}

#[test]
fn a_cycle_of_aggregates_and_mirrors_over_several_items_is_refused() {
    let model = r##"
[entities.child]
key = { PK = "PARENT#{parent_id}", SK = "CHILD#{child_id}" }
attributes = { size = "N" }
[entities.parent]
key = { PK = "PARENT#{parent_id}", SK = "PARENT" }
attributes = { children = "N" }
[rollups.parent]
key = { PK = "PARENT#{parent_id}", SK = "ROLLUP#CHILDREN" }
[rollups.child]
key = { PK = "PARENT#{parent_id}", SK = "ROLLUP#CHILD#{child_id}" }
[[aggregates]]
name = "children"
of = "child"
into = "parent"
measures = { children = { sum = "size" } }
[[mirrors]]
onto = "parent"
from = "parent"
attributes = { children = "children" }
[[aggregates]]
name = "parents"
of = "parent"
into = "parent"
measures = { largest = { max = "children" } }
"##;
    let errors = Model::parse(&source(model), "edge.toml").expect_err("a cycle").to_string();
    assert!(errors.contains("children"), "{errors}");
}

#[tokio::test]
async fn a_mirror_into_an_attribute_that_is_not_a_map_fails_no_record() {
    for stats in [json!({ "NULL": true }), json!({ "S": "many" })] {
        let mut world = EdgeWorld::new(SHOP);
        world.put("SHOP#s1", "SHOP", json!({ "stats": stats }));
        world.put("SHOP#s1", "BOOK#b1", json!({ "price": { "N": "5" } }));
        let delivery = world.deliver().await;
        assert_eq!(delivery.failures, BTreeMap::new(), "counting and showing are two outcomes");
        assert_eq!(world.measure("SHOP#s1", "ROLLUP", "books"), Some(1));
        assert_eq!(delivery.totals.unwritable_mirrors, 1, "it is counted as a metric");
        // Once the item can show it, its next change does.
        world.put("SHOP#s1", "SHOP", json!({ "stats": { "M": {} } }));
        world.settle().await;
        assert_eq!(world.shown("SHOP#s1", "SHOP", "stats.books"), Some(1));
    }
}

#[tokio::test]
async fn a_copy_in_maps_that_the_item_lacks_is_set_with_the_delivery_that_counts() {
    let deep = SHOP.replace("\"stats.books\"", "\"stats.all.books\"");
    for (model, path) in [(SHOP, "stats.books"), (&*deep, "stats.all.books")] {
        let mut world = EdgeWorld::new(model);
        world.put("SHOP#s1", "SHOP", json!({}));
        world.put("SHOP#s1", "BOOK#b1", json!({ "price": { "N": "5" } }));
        world.stream();
        let handled = deliver_to(model, Arc::clone(&world.tables), &world.records).await.expect("an event");
        assert_eq!((handled.failures.len(), handled.unwritable_mirrors.len()), (0, 0));
        assert_eq!(world.shown("SHOP#s1", "SHOP", path), Some(1));
    }
}

#[tokio::test]
async fn a_redelivered_batch_writes_no_mirror_that_is_right() {
    let mut world = EdgeWorld::new(SHOP);
    world.put("SHOP#s1", "SHOP", json!({}));
    for book in 0..20 {
        world.put("SHOP#s1", &format!("BOOK#b{book}"), json!({ "price": { "N": "5" } }));
    }
    world.settle().await;
    assert_eq!(world.shown("SHOP#s1", "SHOP", "stats.books"), Some(20));
    let records = world.records.clone();
    let before = world.tables.write_units();
    let delivery = world.deliver_these(&records).await;
    assert_eq!(delivery.failures, BTreeMap::new());
    assert_eq!(world.tables.write_units(), before, "a redelivered batch writes nothing");
}

#[tokio::test]
async fn deeply_nested_copies_are_set_by_writes_that_dynamodb_has_room_for() {
    let maps = vec!["map"; 16].join(".");
    let copies = (0..8).map(|copy| format!("\"{maps}.c{copy}\" = \"m{copy}\""));
    let measures = (0..8).map(|measure| format!("m{measure} = \"count\""));
    let deep = SHOP.replace("\"stats.books\" = \"books\"", &copies.collect::<Vec<_>>().join(", ")).replace(
        "books = \"count\", dearest = { max = \"price\" }",
        &measures.collect::<Vec<_>>().join(", "),
    );
    let mut world = EdgeWorld::new(&deep);
    world.put("SHOP#s1", "SHOP", json!({}));
    world.settle().await;
    world.put("SHOP#s1", "BOOK#b1", json!({ "price": { "N": "5" } }));
    // Five copies and three: their paths have 16 maps each.
    assert_eq!(world.deliver().await.totals.mirrors, 2);
    for copy in 0..8 {
        assert_eq!(world.shown("SHOP#s1", "SHOP", &format!("{maps}.c{copy}")), Some(1));
    }
}

/// Books with topics whose keys are long. Each topic shows the largest price of its books, so that no two states of a book are
/// counted by one write.
const TOPICS: &str = r##"
[entities.topic]
key = { PK = "TOPIC#{topic}", SK = "TOPIC" }
[entities.book]
key = { PK = "BOOK#{book_id}", SK = "BOOK" }
attributes = { price = "N", topics = "L" }
[rollups.topic]
key = { PK = "TOPIC#{topic}", SK = "ROLLUP" }
[[aggregates]]
name = "books"
of = "book"
for_each = { topic = "topics" }
at_most = 20
into = "topic"
measures = { books = "count", dearest = { max = "price" } }
[[mirrors]]
onto = "topic"
from = "topic"
attributes = { dearest = "dearest", books = "books" }
"##;

#[tokio::test]
async fn an_item_that_leaves_more_rollups_than_an_entry_can_name_is_counted() {
    const STATES: usize = 120;
    let topic = |state: usize, number: usize| format!("{state}-{number}-{}", "x".repeat(900));
    let mut world = EdgeWorld::new(TOPICS);
    for state in 0..STATES {
        world.put(&format!("TOPIC#{}", topic(state, 0)), "TOPIC", json!({}));
    }
    world.settle().await;
    for state in 0..STATES {
        let topics: Vec<_> = (0..20).map(|number| json!({ "S": topic(state, number) })).collect();
        let price = json!({ "N": state.to_string() });
        world.put("BOOK#b1", "BOOK", json!({ "price": price, "topics": { "L": topics } }));
    }
    let delivery = world.deliver().await;
    assert_eq!((delivery.failures, delivery.parked), (BTreeMap::new(), BTreeMap::new()));
    for state in 0..STATES {
        let partition = format!("TOPIC#{}", topic(state, 0));
        let books = i64::from(state == STATES - 1);
        assert_eq!(world.measure(&partition, "ROLLUP", "books").unwrap_or(0), books, "{state}");
        assert_eq!(world.shown(&partition, "TOPIC", "books").unwrap_or(0), books, "{state}");
    }
}
