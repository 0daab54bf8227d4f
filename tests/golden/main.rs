//! Golden: a recorded stream gives exactly what was computed of it independently, however it is delivered.

mod world;

use afterwrite_tests::random::Random;
use world::World;

const RECORDING: &str = "exam-42";

#[tokio::test]
async fn batches_of_any_size() {
    for size in [1, 7, 100, 1_000] {
        let mut world = World::new(RECORDING);
        world.deliver_all(size).await;
        world.assert_golden(&format!("batches of {size}"));
    }
}

#[tokio::test]
async fn everything_twice_in_a_row() {
    let mut world = World::new(RECORDING);
    world.deliver_all(100).await;
    let once = world.totals();
    world.rewind();
    world.deliver_all(33).await;
    world.assert_golden("twice");
    assert_eq!(world.totals().transactions, once.transactions, "the second time nothing is counted");
}

#[tokio::test]
async fn a_lone_subset_of_old_records_last_of_all() {
    let mut world = World::new(RECORDING);
    world.deliver_all(100).await;
    world.deliver_subset(200, &mut Random::new(42)).await;
    world.assert_golden("a lone subset");
}

#[tokio::test]
async fn every_batch_delivered_again_after_the_next() {
    let mut world = World::new(RECORDING);
    world.deliver_with_echoes(50).await;
    world.assert_golden("echoes");
}
