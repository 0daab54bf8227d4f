//! How records become batches.

use std::time::Duration;

use afterwrite_mapping::MappingSettings;
use serde_json::json;

use super::harness::MappingRun;
use super::simulated_stream::SimulatedStream;

#[tokio::test(start_paused = true)]
async fn a_batch_has_at_most_batch_size_records() {
    let stream = SimulatedStream::of(&["1", "2", "3", "4", "5"]);
    let run = MappingRun::new(&stream, json!({ "BatchSize": 2 })).drain().await;
    assert_eq!(run.batches(), ["1 2", "3 4", "5"]);
    assert_eq!((run.counts.read, run.counts.accepted, run.counts.batches), (5, 5, 3));
    assert_eq!(MappingSettings::default().batch_size, 100);
}

#[tokio::test(start_paused = true)]
async fn without_a_window_a_record_is_delivered_at_once() {
    let stream = SimulatedStream::of(&[]);
    let run = MappingRun::new(&stream, json!({ "BatchSize": 100 }));
    let run = run
        .while_running(async {
            for number in ["1", "2", "3"] {
                stream.write("s", number);
                tokio::time::sleep(Duration::from_secs(5)).await;
            }
        })
        .await;
    assert_eq!(run.batches(), ["1", "2", "3"]);
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_is_not_full_waits_for_its_window() {
    let stream = SimulatedStream::of(&[]);
    let started = tokio::time::Instant::now();
    let run = MappingRun::new(&stream, json!({ "BatchSize": 100, "MaximumBatchingWindowInSeconds": 30 }));
    let run = run
        .while_running(async {
            for number in ["1", "2", "3"] {
                stream.write("s", number);
                tokio::time::sleep(Duration::from_secs(12)).await;
            }
            tokio::time::sleep(Duration::from_secs(60)).await;
        })
        .await;
    assert_eq!(run.batches(), ["1 2 3"]);
    let waited = run.deliveries[0]
        .0
        .since(afterwrite_model::record::Timestamp::parse("2026-02-06T10:00:00Z").unwrap());
    assert!((30..=31).contains(&waited.as_secs()), "{waited:?}");
    assert!(started.elapsed() >= Duration::from_secs(96));
}

#[tokio::test(start_paused = true)]
async fn a_full_batch_does_not_wait_for_its_window() {
    let stream = SimulatedStream::of(&["1", "2", "3", "4", "5"]);
    let run = MappingRun::new(&stream, json!({ "BatchSize": 4, "MaximumBatchingWindowInSeconds": 300 }));
    let run = run.while_running(async { tokio::time::sleep(Duration::from_secs(600)).await }).await;
    assert_eq!(run.batches(), ["1 2 3 4", "5"]);
    assert!(run.deliveries[1].0.since(run.deliveries[0].0) >= Duration::from_secs(300));
}

#[tokio::test(start_paused = true)]
async fn an_event_has_at_most_six_megabytes() {
    let stream = SimulatedStream::of(&[]);
    for number in 0..20 {
        let change = json!({ "NewImage": { "fill": { "S": "x".repeat(800_000) } } });
        stream.write_change("s", &format!("{number:02}"), change);
    }
    let run = MappingRun::new(&stream, json!({ "BatchSize": 10_000, "MaximumBatchingWindowInSeconds": 300 }));
    let run = run.drain().await;
    let sizes: Vec<usize> = run.deliveries.iter().map(|(_, numbers)| numbers.len()).collect();
    assert_eq!(sizes, [7, 7, 6], "7 × 800 KB fit into 6 MB, 8 do not");
}

#[tokio::test(start_paused = true)]
async fn a_batch_of_ten_thousand_records_is_delivered_whole() {
    let stream = SimulatedStream::of(&[]);
    for number in 0..10_001 {
        stream.write("s", &format!("{number:021}"));
    }
    let run = MappingRun::new(&stream, json!({ "BatchSize": 10_000, "MaximumBatchingWindowInSeconds": 60 }));
    let run = run.drain().await;
    let sizes: Vec<usize> = run.deliveries.iter().map(|(_, numbers)| numbers.len()).collect();
    assert_eq!(sizes, [10_000, 1]);
}
