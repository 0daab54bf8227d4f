//! Streams of several regions: positions do not name the region, so records of another region fail and are not parked.

use afterwrite_functions::StreamRegion;
use afterwrite_model::ErrorKind;
use afterwrite_model::record::Timestamp;
use afterwrite_tests::deployment::event;
use serde_json::Value;

use super::models::{READINGS, reading};
use super::world::EdgeWorld;

/// Two records of the world's region, `eu-west-1`, and the same two of another.
fn records(world: &mut EdgeWorld) -> [Vec<Value>; 2] {
    world.put("SENSOR#s1", "READING#r1", reading(1));
    world.put("SENSOR#s1", "READING#r2", reading(1));
    world.stream();
    let own = world.records.clone();
    let elsewhere = own.iter().map(|record| record.to_string().replace(":eu-west-1:", ":us-east-1:"));
    let elsewhere = elsewhere.map(|record| serde_json::from_str(&record).expect("a record")).collect();
    [own, elsewhere]
}

async fn refusal(world: &EdgeWorld, records: &[Value]) -> Option<ErrorKind> {
    let deadline = Timestamp::from_epoch_ms(i64::MAX);
    let handled = world.aggregator.handle(event(records).as_bytes(), deadline).await;
    handled.err().map(|error| error.kind())
}

#[tokio::test]
async fn a_batch_of_another_region_than_the_first_fails_as_a_whole() {
    let mut world = EdgeWorld::new(READINGS);
    let [own, elsewhere] = records(&mut world);
    assert_eq!(refusal(&world, &own).await, None);
    assert_eq!(refusal(&world, &elsewhere).await, Some(ErrorKind::Stream));
    assert_eq!(world.measure("TOTAL#s1", "ROLLUP", "readings"), Some(2));
}

#[tokio::test]
async fn a_record_of_another_region_fails_alone_and_is_not_parked() {
    let mut world = EdgeWorld::new(READINGS);
    let [own, elsewhere] = records(&mut world);
    let delivery = world.deliver_these(&[own[0].clone(), elsewhere[1].clone()]).await;
    assert_eq!((delivery.failures.len(), delivery.parked.len()), (1, 0));
    let error = delivery.failures.values().next().map(String::as_str).unwrap_or_default();
    assert!(error.contains("`us-east-1`") && error.contains("`eu-west-1`"), "{error}");
    assert_eq!(world.measure("TOTAL#s1", "ROLLUP", "readings"), Some(1));
    assert_eq!(world.entry("SENSOR#s1", "READING#r2", "behind"), None);
}

#[tokio::test]
async fn the_functions_own_region_is_known_before_the_first_record() {
    let mut world = EdgeWorld::new(READINGS).in_region(StreamRegion::new(Some("eu-west-1")));
    let [own, elsewhere] = records(&mut world);
    assert_eq!(refusal(&world, &elsewhere).await, Some(ErrorKind::Stream));
    assert_eq!(refusal(&world, &own).await, None);
    assert_eq!(world.measure("TOTAL#s1", "ROLLUP", "readings"), Some(2));
}
