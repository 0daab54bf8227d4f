//! Crashes between the commit of an item and the refresh of the mirrors that it made stale.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::FutureExt as _;
use serde_json::{Value, json};

use super::observed::ObservedTables;
use super::world::{EdgeWorld, deliver_to};

/// The number of books of a shop, shown on the shop. A book moves to another shop.
const SHOPS: &str = r##"
[entities.shop]
key = { PK = "SHOP#{shop_id}", SK = "SHOP" }
[entities.book]
key = { PK = "BOOK#{book_id}", SK = "BOOK" }
attributes = { shop_id = "S", place = "S" }
[rollups.shop]
key = { PK = "SHOP#{shop_id}", SK = "ROLLUP" }
[[aggregates]]
name = "books"
of = "book"
into = "shop"
measures = { books = "count" }
[[mirrors]]
onto = "shop"
from = "shop"
attributes = { books = "books" }
"##;

/// A function counts these records, and crashes before it refreshes a mirror.
fn crash_before_mirrors(world: &EdgeWorld, records: &[Value]) {
    crash_with(SHOPS, world, records);
}

/// As [`crash_before_mirrors`], by this model.
fn crash_with(model: &str, world: &EdgeWorld, records: &[Value]) {
    let delivery = deliver_to(model, ObservedTables::without_mirrors(&world.tables), records);
    assert!(delivery.now_or_never().is_none(), "it was to crash in the write of a mirror");
}

fn move_book(world: &mut EdgeWorld, shop: &str, place: &str) {
    world.put("BOOK#b1", "BOOK", json!({ "shop_id": { "S": shop }, "place": { "S": place } }));
}

/// A world in which a book has been counted and shown at shop `s1`; the records that follow are not delivered yet.
async fn world_with_book() -> EdgeWorld {
    let mut world = EdgeWorld::new(SHOPS);
    world.put("SHOP#s1", "SHOP", json!({}));
    world.put("SHOP#s2", "SHOP", json!({}));
    move_book(&mut world, "s1", "shelf");
    world.settle().await;
    assert_eq!(world.shown("SHOP#s1", "SHOP", "books"), Some(1));
    world
}

#[tokio::test]
async fn the_shop_that_a_book_left_is_refreshed_after_any_number_of_crashes() {
    let mut world = world_with_book().await;
    let first_new = world.records.len();
    for (crashes, place) in ["window", "table", "floor"].into_iter().enumerate() {
        // Each author finds the records of the crashed ones counted, counts one more, and crashes as well.
        move_book(&mut world, "s2", place);
        world.stream();
        crash_before_mirrors(&world, &world.records[first_new..]);
        assert_eq!(
            world.measure("SHOP#s1", "ROLLUP", "books"),
            Some(0),
            "it is counted after {crashes} crashes"
        );
    }
    // The record of the move is the oldest: what its images name must not be needed, so it is lost.
    let last = world.records[first_new + 1..].to_vec();
    let delivery = world.deliver_these(&last).await;
    assert_eq!(delivery.failures, BTreeMap::new());
    assert_eq!(world.shown("SHOP#s1", "SHOP", "books"), Some(0), "the shop that the book left");
    assert_eq!(world.shown("SHOP#s2", "SHOP", "books"), Some(1));
}

#[tokio::test]
async fn the_shop_that_a_book_left_is_refreshed_though_the_records_of_the_move_were_discarded() {
    let mut world = world_with_book().await;
    move_book(&mut world, "s2", "window");
    world.stream();
    crash_before_mirrors(&world, world.newest(1));
    move_book(&mut world, "s2", "table");
    world.stream();
    let delivery = world.deliver_these(world.newest(1)).await;
    assert_eq!(delivery.failures, BTreeMap::new());
    assert_eq!(world.shown("SHOP#s1", "SHOP", "books"), Some(0));
}

#[tokio::test]
async fn the_shop_where_a_book_is_now_is_refreshed_by_an_older_record_of_the_book() {
    let mut world = world_with_book().await;
    world.put("SHOP#s3", "SHOP", json!({}));
    world.settle().await;
    let counted = world.records.len();
    move_book(&mut world, "s2", "window");
    move_book(&mut world, "s3", "window");
    world.stream();
    crash_before_mirrors(&world, &world.records[counted..]);
    // The newer record is discarded.
    let delivery = world.deliver_these(&world.records[counted..=counted]).await;
    assert_eq!(delivery.failures, BTreeMap::new());
    let shown = ["SHOP#s1", "SHOP#s2", "SHOP#s3"].map(|shop| world.shown(shop, "SHOP", "books"));
    assert_eq!(shown, [Some(0), Some(0), Some(1)]);
}

#[tokio::test]
async fn an_entry_forgets_the_rollups_that_its_item_left_once_their_mirrors_are_right() {
    let mut world = world_with_book().await;
    for place in ["window", "table"] {
        move_book(&mut world, "s2", place);
        world.settle().await;
    }
    let counted = world.entry("BOOK#b1", "BOOK", "contributions").expect("an entry");
    assert!(!counted.contains("SHOP#s1"), "{counted}");
}

#[tokio::test]
async fn a_model_that_no_longer_has_mirrors_counts_an_item_that_left_a_mirrored_rollup() {
    let mut world = world_with_book().await;
    move_book(&mut world, "s2", "window");
    world.settle().await;
    move_book(&mut world, "s1", "table");
    world.stream();
    let (newer, _) = SHOPS.split_once("[[mirrors]]").expect("the mirrors are the last part");
    let newer = format!("generation = 2\n{newer}");
    let handled = deliver_to(&newer, Arc::clone(&world.tables), world.newest(1)).await.expect("an event");
    assert_eq!(handled.failures.len(), 0);
    assert_eq!(world.measure("SHOP#s1", "ROLLUP", "books"), Some(1));
}

#[tokio::test]
async fn a_maximum_is_shown_although_nothing_else_of_its_rollup_is_counted() {
    let dearest = SHOPS
        .replace("place = \"S\"", "price = \"N\"")
        .replace("books = \"count\"", "dearest = { max = \"price\" }")
        .replace("{ books = \"books\" }", "{ dearest = \"dearest\" }");
    let mut world = EdgeWorld::new(&dearest);
    let put_book = |world: &mut EdgeWorld, book: &str, price: &str| {
        let attributes = json!({ "shop_id": { "S": "s1" }, "price": { "N": price } });
        world.put(book, "BOOK", attributes);
    };
    world.put("SHOP#s1", "SHOP", json!({}));
    world.settle().await;
    put_book(&mut world, "BOOK#b1", "5");
    world.settle().await;
    assert_eq!(world.shown("SHOP#s1", "SHOP", "dearest"), Some(5));

    put_book(&mut world, "BOOK#b2", "9");
    world.stream();
    let newest = world.newest(1).to_vec();
    crash_with(&dearest, &world, &newest);
    assert_eq!(world.shown("SHOP#s1", "SHOP", "dearest"), Some(5));
    world.deliver_these(&newest).await;
    assert_eq!(world.shown("SHOP#s1", "SHOP", "dearest"), Some(9));
}
