//! Which shards are read, and in which order.

use std::sync::atomic::Ordering;
use std::time::Duration;

use afterwrite_mapping::ShardCheckpoint;
use serde_json::json;

use super::harness::MappingRun;
use super::simulated_stream::SimulatedStream;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

#[tokio::test(start_paused = true)]
async fn parents_come_before_children_and_closed_shards_are_read_to_their_end() {
    let mut stream = SimulatedStream::new();
    stream.page_records = 2;
    for (id, parent, numbers) in [
        ("grandchild", Some("child"), &["g1"][..]),
        ("child", Some("parent"), &["c1", "c2"]),
        ("parent", Some("trimmed long ago"), &["p1", "p2", "p3", "p4", "p5"]),
    ] {
        stream.open(id, parent);
        numbers.iter().for_each(|number| stream.write(id, number));
    }
    stream.close("parent");
    stream.close("child");
    let run = MappingRun::new(&stream, json!({})).drain().await;
    assert_eq!(run.numbers(), ["p1", "p2", "p3", "p4", "p5", "c1", "c2", "g1"]);
}

#[tokio::test(start_paused = true)]
async fn both_children_of_a_split_begin_after_their_parent() {
    let stream = SimulatedStream::of(&["1", "2"]);
    let run = MappingRun::new(&stream, json!({}));
    let run = run
        .while_running(async {
            tokio::time::sleep(Duration::from_secs(60)).await;
            stream.write("s", "3");
            stream.close("s");
            for (child, number) in [("left", "4"), ("right", "5")] {
                stream.open(child, Some("s"));
                stream.write(child, number);
            }
            tokio::time::sleep(Duration::from_secs(60)).await;
            stream.write("right", "6");
        })
        .await;
    let numbers = run.numbers();
    assert_eq!(numbers[..3], ["1", "2", "3"]);
    let mut rest = numbers[3..].to_vec();
    rest.sort();
    assert_eq!(rest, ["4", "5", "6"]);
}

#[tokio::test(start_paused = true)]
async fn a_child_waits_until_its_parents_last_batch_is_accepted() {
    let stream = SimulatedStream::of(&["1"]);
    stream.close("s");
    stream.open("child", Some("s"));
    stream.write("child", "2");
    let fails_twice = |delivery: usize, _: &[String]| {
        if delivery < 3 { Err(super::harness::function_error()) } else { Ok(json!(null)) }
    };
    let run = MappingRun::new(&stream, json!({})).script(&fails_twice).drain().await;
    assert_eq!(run.numbers(), ["1", "1", "1", "2"]);
}

#[tokio::test(start_paused = true)]
async fn a_thousand_retained_shards_are_read_across_pages_of_a_hundred() {
    let stream = SimulatedStream::new();
    let id = |index: usize| format!("shard-{:04}", (index * 7919) % 1000);
    for index in 0..1000_usize {
        let parent = index.checked_sub(1).map(id);
        stream.open(&id(index), parent.as_deref());
        stream.write(&id(index), &format!("{index:05}"));
        if index < 999 {
            stream.close(&id(index));
        }
    }
    let run = MappingRun::new(&stream, json!({})).drain().await;
    let expected: Vec<String> = (0..1000).map(|index| format!("{index:05}")).collect();
    assert_eq!(run.numbers(), expected, "each shard after its parent");
}

#[tokio::test(start_paused = true)]
async fn pages_end_at_a_thousand_records_or_a_megabyte() {
    let stream = SimulatedStream::of(&[]);
    let numbers: Vec<String> = (0..2500).map(|number| format!("{number:021}")).collect();
    numbers.iter().for_each(|number| stream.write("s", number));
    for number in ["a", "b", "c"] {
        stream.write_change("s", number, json!({ "NewImage": { "fill": { "S": "x".repeat(700_000) } } }));
    }
    let run = MappingRun::new(&stream, json!({ "BatchSize": 10_000 })).drain().await;
    assert_eq!(run.numbers()[..2500], numbers);
    assert_eq!(run.numbers()[2500..], ["a", "b", "c"]);
}

#[tokio::test(start_paused = true)]
async fn an_expired_iterator_is_replaced_after_the_last_record_read() {
    let stream = SimulatedStream::of(&["1", "2"]);
    let run = MappingRun::new(&stream, json!({ "MaximumRetryAttempts": 0 }));
    // The function takes 20 minutes, and reading waits for it: the iterator expires meanwhile.
    let mut run = run;
    run.duration = Duration::from_secs(50);
    run.settings.batch_size = 1;
    let outcome = run
        .while_running(async {
            for number in 3..40 {
                stream.write("s", &number.to_string());
            }
        })
        .await;
    let expected: Vec<String> = (1..40).map(|number| number.to_string()).collect();
    assert_eq!(outcome.numbers(), expected);
    assert!(stream.iterators_expired.load(Ordering::SeqCst) > 0, "no iterator expired");
}

#[tokio::test(start_paused = true)]
async fn throttled_requests_are_repeated() {
    let stream = SimulatedStream::of(&["1", "2"]);
    stream.throttled.store(6, Ordering::SeqCst);
    let run = MappingRun::new(&stream, json!({})).drain().await;
    assert_eq!(run.numbers(), ["1", "2"]);
}

#[tokio::test(start_paused = true)]
async fn records_older_than_a_day_are_trimmed_and_the_mapping_goes_on_with_the_oldest() {
    let stream = SimulatedStream::of(&["1", "2"]);
    tokio::time::advance(DAY / 2).await;
    stream.write("s", "3");
    tokio::time::advance(DAY / 2 + Duration::from_secs(60)).await;
    let run = MappingRun::new(&stream, json!({ "StartingPosition": "TRIM_HORIZON" })).drain().await;
    assert_eq!(run.numbers(), ["3"]);
}

#[tokio::test(start_paused = true)]
async fn latest_begins_with_the_next_record_and_reads_later_shards_in_full() {
    let stream = SimulatedStream::of(&["1"]);
    stream.close("s");
    stream.open("child", Some("s"));
    stream.write("child", "2");
    let run = MappingRun::new(&stream, json!({ "StartingPosition": "LATEST" }));
    let run = run
        .while_running(async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            stream.write("child", "3");
            stream.close("child");
            stream.open("grandchild", Some("child"));
            stream.write("grandchild", "4");
        })
        .await;
    assert_eq!(run.numbers(), ["3", "4"]);
}

#[tokio::test(start_paused = true)]
async fn a_listed_shard_that_is_gone_is_finished() {
    let stream = SimulatedStream::of(&["1"]);
    stream.close("s");
    stream.forget("s");
    stream.open("child", Some("s"));
    stream.write("child", "2");
    let run = MappingRun::new(&stream, json!({}));
    let outcome = run.drain().await;
    assert_eq!((outcome.batches(), outcome.counts.gaps), (vec!["2".to_owned()], 0));
    assert_eq!(run.checkpoints.stored().shards["s"], ShardCheckpoint::Finished);
}
