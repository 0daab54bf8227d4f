//! `backfill --drop` after an entity left the model.

use super::page::command_block;
use super::shop::OrderChange::Put;
use super::shop::OrderTotals;
use super::world::RecoveryWorld;

const NOTHING: OrderTotals = OrderTotals { orders: 0, revenue: 0 };

async fn shop() -> RecoveryWorld {
    let mut world = RecoveryWorld::start().await;
    let placed = world.hours_ago(5);
    for number in 1..6 {
        world.change(placed, &format!("o{number}"), Put(10 * number)).await;
    }
    world.deliver(placed).await;
    assert_eq!(world.totals().await, world.truth());
    world
}

/// A model of the second generation, with another entity in place of orders.
const REFUNDS: &str = r##"
name = "recovery"
generation = 2

[tables.Orders]
key = ["pk", "sk"]

[entities.refund]
key = { pk = "SHOP#{shop_id}", sk = "REFUND#{refund_id}" }

[rollups.refunds]
key = { PK = "SHOP#{shop_id}", SK = "ROLLUP#REFUNDS" }

[[aggregates]]
name = "refunds"
of = "refund"
into = "refunds"
measures.refunds = "count"
"##;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn c6_an_entity_that_left_the_model_with_its_only_aggregate_is_subtracted() {
    let mut world = shop().await;
    world.deploy(|_| REFUNDS.to_owned());
    let commands = command_block("ADOPT.md", "A changed model");
    let times = (world.hours_ago(1), world.now());
    world.follow(&commands[..1], times, &[]);
    assert_eq!(world.totals().await, world.truth());
    world.follow(&commands[1..], times, &[]);
    assert_eq!(world.totals().await, NOTHING);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn c6_an_entity_whose_aggregate_left_the_model_is_subtracted() {
    let world = shop().await;
    let entity = "[entities.order]\nkey = { pk = \"SHOP#{shop_id}\", sk = \"ORDER#{order_id}\" }\n\n";
    world.deploy(|_| REFUNDS.replace("[[aggregates]]", &format!("{entity}[[aggregates]]")));
    world.run(0, "afterwrite backfill --drop --without-datasets --yes");
    assert_eq!(world.totals().await, NOTHING);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn c6_items_that_match_no_entity_any_more_contribute_nothing() {
    let world = shop().await;
    world.deploy(|model| {
        model.replace("generation = 1", "generation = 2").replace("ORDER#{order_id}", "SALE#{order_id}")
    });
    world.run(0, "afterwrite backfill --without-datasets --yes");
    assert_eq!(world.totals().await, NOTHING);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn c6_entries_of_a_table_that_left_the_model_are_reported() {
    let world = shop().await;
    world.deploy(|_| REFUNDS.replace("tables.Orders", "tables.Refunds"));
    let text = world.run(1, "afterwrite backfill --drop --without-datasets --yes --tables Refunds=Orders");
    assert!(text.contains("failed without item key"), "{text}");
    world.stop().await;
}
