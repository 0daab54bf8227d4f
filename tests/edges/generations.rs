//! Models that change: a function with an older one counts nothing that a newer one has counted.

use std::sync::Arc;

use afterwrite_functions::AggregatedBatch;
use serde_json::Value;

use super::models::{READINGS, reading};
use super::world::{EdgeWorld, deliver_to};

/// Delivers records to a function with this model.
async fn deliver(model: &str, world: &EdgeWorld, records: &[Value]) -> AggregatedBatch {
    deliver_to(model, Arc::clone(&world.tables), records).await.expect("an event")
}

/// A world with three records of one item, of which the first is counted.
async fn world() -> EdgeWorld {
    let mut world = EdgeWorld::new(READINGS);
    world.put("SENSOR#s1", "READING#r1", reading(1));
    world.settle().await;
    for value in [2, 3] {
        world.put("SENSOR#s1", "READING#r1", reading(value));
    }
    world.stream();
    world
}

#[tokio::test]
async fn a_record_of_an_item_that_a_newer_model_has_counted_waits_for_the_newer_function() {
    let world = world().await;
    let newer = format!("generation = 2\n{READINGS}");
    assert!(deliver(&newer, &world, &world.records[1..2]).await.failures.is_empty());
    let handled = deliver(READINGS, &world, &world.records[2..]).await;
    assert_eq!((handled.failures.len(), handled.parked.len()), (1, 0));
    assert_eq!(world.measure("TOTAL#s1", "ROLLUP", "total"), Some(2));
    assert!(deliver(&newer, &world, &world.records[2..]).await.failures.is_empty());
    assert_eq!(world.measure("TOTAL#s1", "ROLLUP", "total"), Some(3));
}

#[tokio::test]
async fn two_models_of_one_generation_are_reported() {
    let other = READINGS.replace("total = {", "amount = {");
    let newer = format!("generation = 2\n{other}");
    for (model, other_models) in [(READINGS, 0), (&*other, 1), (&*newer, 0)] {
        let world = world().await;
        let handled = deliver(model, &world, &world.records[1..]).await;
        assert_eq!(handled.totals.other_models, other_models);
    }
}
