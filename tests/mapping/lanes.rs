//! `ParallelizationFactor`: batches of a shard at the same time, each item in order.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::Duration;

use afterwrite_mapping::ShardCheckpoint;
use serde_json::json;

use super::harness::{MappingRun, failures, function_error};
use super::simulated_stream::SimulatedStream;

/// 600 changes of 30 items, their numbers ascending.
fn changes_of_many_items() -> (SimulatedStream, BTreeMap<String, String>) {
    let (stream, mut item_of) = (SimulatedStream::of(&[]), BTreeMap::new());
    for number in 0..600 {
        let (number, item) = (format!("{number:021}"), format!("item {}", number % 30));
        stream.write_item("s", &number, &item);
        item_of.insert(number, item);
    }
    (stream, item_of)
}

#[tokio::test(start_paused = true)]
async fn each_item_is_delivered_in_order_while_batches_run_at_the_same_time() {
    let (stream, item_of) = changes_of_many_items();
    let mut run = MappingRun::new(&stream, json!({ "BatchSize": 10, "ParallelizationFactor": 10 }));
    run.duration = Duration::from_secs(1);
    let started = tokio::time::Instant::now();
    let outcome = run.drain().await;
    assert_eq!(outcome.numbers().len(), 600);
    let mut last: BTreeMap<&str, String> = BTreeMap::new();
    for number in outcome.numbers() {
        let before = last.insert(&item_of[&number], number.clone());
        assert!(before.is_none_or(|before| before < number), "{number} is out of order");
    }
    assert!(started.elapsed() < Duration::from_secs(30), "60 batches of 1 s ran one after the other");
    let starts: BTreeSet<_> = outcome.deliveries.iter().map(|(at, _)| *at).collect();
    assert!(starts.len() < outcome.deliveries.len(), "no two batches ran at the same time");
}

#[tokio::test(start_paused = true)]
async fn a_factor_of_one_delivers_one_batch_at_a_time() {
    let (stream, _) = changes_of_many_items();
    let mut run = MappingRun::new(&stream, json!({ "BatchSize": 100 }));
    run.duration = Duration::from_secs(1);
    let outcome = run.drain().await;
    let starts: Vec<_> = outcome.deliveries.iter().map(|(at, _)| *at).collect();
    assert!(starts.windows(2).all(|pair| pair[1].since(pair[0]) >= Duration::from_secs(1)));
}

#[tokio::test(start_paused = true)]
async fn a_failing_item_holds_up_its_lane_and_no_other() {
    let (stream, item_of) = changes_of_many_items();
    let attempts = Mutex::new(0);
    let fails_a_while = |_: usize, numbers: &[String]| {
        if numbers.iter().any(|number| item_of[number] == "item 7") {
            *attempts.lock().unwrap() += 1;
            if *attempts.lock().unwrap() < 10 {
                return Err(function_error());
            }
        }
        Ok(failures(&[]))
    };
    let run = MappingRun::new(&stream, json!({ "BatchSize": 10, "ParallelizationFactor": 10 }));
    let outcome = run.script(&fails_a_while).drain().await;
    let delivered: BTreeSet<String> = outcome.numbers().into_iter().collect();
    assert_eq!(delivered.len(), 600);
    let recovered = outcome
        .deliveries
        .iter()
        .filter(|(_, numbers)| numbers.iter().any(|number| item_of[number] == "item 7"));
    let recovered = recovered.map(|(at, _)| *at).nth(9).unwrap();
    let before: BTreeSet<&String> = outcome
        .deliveries
        .iter()
        .filter(|(at, _)| *at < recovered)
        .flat_map(|(_, numbers)| numbers)
        .collect();
    assert!(before.len() > 400, "other lanes went on: {}", before.len());
}

#[tokio::test(start_paused = true)]
async fn the_checkpoint_is_before_the_first_record_that_is_not_delivered() {
    let stream = SimulatedStream::of(&[]);
    for number in 0..100 {
        stream.write_item("s", &format!("{number:03}"), &format!("item {}", number % 20));
    }
    // The item of record 005 fails forever.
    let poison = |_: usize, numbers: &[String]| {
        let is_poison = |number: &String| number.parse::<u32>().unwrap() % 20 == 5;
        if numbers.iter().any(is_poison) { Err(function_error()) } else { Ok(failures(&[])) }
    };
    let run =
        MappingRun::new(&stream, json!({ "BatchSize": 1, "ParallelizationFactor": 10 })).script(&poison);
    let control = afterwrite_mapping::MappingControl::default();
    run.run(&control, async {
        tokio::time::sleep(Duration::from_secs(600)).await;
        control.stop();
    })
    .await;
    let checkpoint = run.checkpoints.stored().shards["s"].clone();
    assert_eq!(checkpoint, ShardCheckpoint::After("004".to_owned()));
}
