//! Checkpoints: where a mapping goes on.

use std::time::Duration;

use afterwrite_mapping::{
    GapPolicy, MappingEnd, MemoryCheckpoints, ShardCheckpoint, StoredCheckpoints, StreamGap,
    StreamSource as _,
};
use serde_json::json;

use super::harness::MappingRun;
use super::simulated_stream::SimulatedStream;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The checkpoints of an earlier run of this stream.
async fn after_draining(stream: &SimulatedStream) -> StoredCheckpoints {
    let run = MappingRun::new(stream, json!({}));
    run.drain().await.end.unwrap();
    run.checkpoints.stored()
}

fn resumed<'s>(stream: &'s SimulatedStream, stored: &StoredCheckpoints, gaps: GapPolicy) -> MappingRun<'s> {
    let mut run = MappingRun::new(stream, json!({}));
    run.checkpoints = MemoryCheckpoints::new(stored.clone());
    run.gaps = gaps;
    run
}

#[tokio::test(start_paused = true)]
async fn a_mapping_goes_on_after_its_checkpoint() {
    let stream = SimulatedStream::of(&["1", "2"]);
    let stored = after_draining(&stream).await;
    stream.write("s", "3");
    let run = resumed(&stream, &stored, GapPolicy::Stop).drain().await;
    assert_eq!(run.batches(), ["3"]);
}

#[tokio::test(start_paused = true)]
async fn a_finished_shard_is_not_read_again_and_its_children_are_read_in_full() {
    let stream = SimulatedStream::of(&["1"]);
    stream.close("s");
    let stored = after_draining(&stream).await;
    assert_eq!(stored.shards["s"], ShardCheckpoint::Finished);
    stream.open("child", Some("s"));
    stream.write("child", "2");
    let run = resumed(&stream, &stored, GapPolicy::Stop).drain().await;
    assert_eq!(run.batches(), ["2"]);
}

#[tokio::test(start_paused = true)]
async fn a_checkpoint_before_the_trim_horizon_goes_on_with_the_oldest_record_as_lambda_does() {
    let stream = SimulatedStream::of(&["1", "2"]);
    let stored = after_draining(&stream).await;
    tokio::time::advance(Duration::from_secs(60)).await;
    stream.write("s", "3");
    tokio::time::advance(DAY + Duration::from_secs(1)).await;
    stream.write("s", "4");
    let run = resumed(&stream, &stored, GapPolicy::GoOn).drain().await;
    assert_eq!(run.batches(), ["4"]);
    assert_eq!(run.counts.gaps, 1);
}

#[tokio::test(start_paused = true)]
async fn a_checkpoint_before_the_trim_horizon_can_stop_the_mapping() {
    let stream = SimulatedStream::of(&["1", "2"]);
    let stored = after_draining(&stream).await;
    tokio::time::advance(Duration::from_secs(60)).await;
    stream.write("s", "3");
    tokio::time::advance(DAY).await;
    let run = resumed(&stream, &stored, GapPolicy::Stop).drain().await;
    let gap = StreamGap::Trimmed { shard: "s".to_owned(), after: Some("2".to_owned()) };
    assert_eq!(run.end.unwrap(), MappingEnd::Gap(gap));
    assert!(run.deliveries.is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_unfinished_shard_that_is_not_listed_any_more_is_a_gap() {
    let stream = SimulatedStream::of(&["1", "2"]);
    let stored = after_draining(&stream).await;
    stream.close("s");
    tokio::time::advance(DAY + Duration::from_secs(60)).await;
    stream.open("child", Some("s"));
    stream.write("child", "3");
    let gap = StreamGap::Trimmed { shard: "s".to_owned(), after: Some("2".to_owned()) };
    let run = resumed(&stream, &stored, GapPolicy::Stop).drain().await;
    assert_eq!(run.end.unwrap(), MappingEnd::Gap(gap));
    let run = resumed(&stream, &stored, GapPolicy::GoOn).drain().await;
    assert_eq!(run.batches(), ["3"]);
}

#[tokio::test(start_paused = true)]
async fn the_checkpoint_of_a_stream_that_was_created_again_is_a_gap() {
    let old = SimulatedStream::of(&["1", "2"]);
    let stored = after_draining(&old).await;
    let stream = SimulatedStream::recreated();
    stream.open("s", None);
    stream.write("s", "1");
    let run = resumed(&stream, &stored, GapPolicy::Stop).drain().await;
    let gap = StreamGap::Recreated { from: old.arn().to_owned(), to: stream.arn().to_owned() };
    assert_eq!(run.end.unwrap(), MappingEnd::Gap(gap));
    let run = resumed(&stream, &stored, GapPolicy::GoOn);
    assert_eq!(run.drain().await.batches(), ["1"], "its sequence numbers start again");
    assert_eq!(run.checkpoints.stored().stream_arn.as_deref(), Some(stream.arn()));
}

#[tokio::test(start_paused = true)]
async fn a_mapping_at_latest_reads_shards_that_are_newer_than_itself_in_full() {
    let stream = SimulatedStream::of(&["1"]);
    let first = MappingRun::new(&stream, json!({ "StartingPosition": "LATEST" }));
    first.drain().await;
    assert_eq!(first.checkpoints.stored().shards["s"], ShardCheckpoint::Latest);
    stream.close("s");
    stream.open("child", Some("s"));
    stream.write("child", "2");
    let mut second = MappingRun::new(&stream, json!({ "StartingPosition": "LATEST" }));
    second.checkpoints = MemoryCheckpoints::new(first.checkpoints.stored());
    // The start of the mapping lies in the first shard, where nothing says.
    assert_eq!(second.drain().await.batches(), ["1", "2"]);
}

#[tokio::test(start_paused = true)]
async fn a_mapping_at_latest_that_delivered_nothing_loses_no_record_when_it_starts_again() {
    let stream = SimulatedStream::of(&["1"]);
    let latest = json!({ "StartingPosition": "LATEST" });
    let first = MappingRun::new(&stream, latest.clone());
    first.drain().await;
    stream.write("s", "2");
    let mut second = MappingRun::new(&stream, latest);
    second.checkpoints = MemoryCheckpoints::new(first.checkpoints.stored());
    assert_eq!(second.drain().await.batches(), ["1 2"], "the start lies between them; nothing says where");
}

#[tokio::test(start_paused = true)]
async fn a_shard_that_was_begun_and_whose_first_record_is_trimmed_is_a_gap() {
    let stream = SimulatedStream::new();
    stream.open("s", None);
    let stored = after_draining(&stream).await;
    assert_eq!(stored.shards["s"], ShardCheckpoint::Oldest);
    check_trimmed_start(&stream, &stored, "s").await;
}

#[tokio::test(start_paused = true)]
async fn a_child_of_a_delivered_shard_whose_first_record_is_trimmed_is_a_gap() {
    let stream = SimulatedStream::of(&["1"]);
    stream.close("s");
    let stored = after_draining(&stream).await;
    stream.open("child", Some("s"));
    check_trimmed_start(&stream, &stored, "child").await;
}

/// Two records a day apart are written to the shard. A later run names the gap, or counts it and delivers the second record.
async fn check_trimmed_start(stream: &SimulatedStream, stored: &StoredCheckpoints, shard: &str) {
    stream.write(shard, "8");
    tokio::time::advance(DAY + Duration::from_secs(1)).await;
    stream.write(shard, "9");
    let run = resumed(stream, stored, GapPolicy::Stop).drain().await;
    let gap = StreamGap::Trimmed { shard: shard.to_owned(), after: None };
    assert_eq!((run.end.unwrap(), run.deliveries.len()), (MappingEnd::Gap(gap), 0));
    let run = resumed(stream, stored, GapPolicy::GoOn).drain().await;
    assert_eq!((run.batches(), run.counts.gaps), (vec!["9".to_owned()], 1));
}

#[tokio::test(start_paused = true)]
async fn a_shard_that_was_removed_before_it_was_begun_is_a_gap() {
    let stream = SimulatedStream::of(&["1"]);
    stream.close("s");
    let stored = after_draining(&stream).await;
    stream.open("removed", Some("s"));
    stream.write("removed", "2");
    stream.close("removed");
    tokio::time::advance(DAY + Duration::from_secs(60)).await;
    stream.open("kept", Some("removed"));
    stream.write("kept", "3");
    let run = resumed(&stream, &stored, GapPolicy::Stop).drain().await;
    let gap = StreamGap::Trimmed { shard: "removed".to_owned(), after: None };
    assert_eq!(run.end.unwrap(), MappingEnd::Gap(gap));
    let run = resumed(&stream, &stored, GapPolicy::GoOn).drain().await;
    assert_eq!((run.batches(), run.counts.gaps), (vec!["3".to_owned()], 1));
    let fresh = MappingRun::new(&stream, json!({})).drain().await;
    assert_eq!((fresh.batches(), fresh.counts.gaps), (vec!["3".to_owned()], 0), "it preceded the mapping");
}

#[tokio::test(start_paused = true)]
async fn a_drained_mapping_delivers_what_its_function_writes_meanwhile() {
    let stream = SimulatedStream::of(&["1"]);
    let writes_twice = |delivery: usize, _: &[String]| {
        if delivery < 3 {
            stream.write("s", &(delivery + 1).to_string());
        }
        Ok(json!(null))
    };
    for window in [0, 300] {
        let mut run = MappingRun::new(&stream, json!({ "MaximumBatchingWindowInSeconds": window }));
        // Reads find the end of the stream while the function works.
        run.duration = Duration::from_secs(2);
        if window == 0 {
            let outcome = run.script(&writes_twice).drain().await;
            assert_eq!(outcome.batches(), ["1", "2", "3"]);
            assert_eq!(outcome.end.unwrap(), MappingEnd::Drained);
        } else {
            assert_eq!(run.drain().await.batches(), ["1 2 3"], "draining does not wait for the window");
        }
    }
}
