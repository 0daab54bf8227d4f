//! A mapping that begins at a time.

use std::time::Duration;

use afterwrite_mapping::{
    GapPolicy, MappingEnd, MemoryCheckpoints, STREAM_RETENTION, ShardCheckpoint, StartingPosition, StreamGap,
};
use afterwrite_model::clock::Clock as _;
use afterwrite_model::record::Timestamp;
use serde_json::json;

use super::harness::MappingRun;
use super::simulated_stream::SimulatedStream;

const MINUTE: Duration = Duration::from_secs(60);

/// A stream with records of three minutes: the first shard ends before the second minute, and its child goes on.
async fn stream() -> (SimulatedStream, [Timestamp; 3]) {
    let stream = SimulatedStream::of(&["1"]);
    let first = stream.clock.now();
    stream.close("s");
    tokio::time::advance(MINUTE).await;
    stream.open("child", Some("s"));
    stream.write("child", "2");
    let second = stream.clock.now();
    tokio::time::advance(MINUTE).await;
    stream.write("child", "3");
    let third = stream.clock.now();
    (stream, [first, second, third])
}

fn at(stream: &SimulatedStream, time: Timestamp) -> MappingRun<'_> {
    let mut run = MappingRun::new(stream, json!({}));
    run.settings.starting_position = StartingPosition::At(time);
    run.gaps = GapPolicy::Stop;
    run
}

#[tokio::test(start_paused = true)]
async fn records_before_the_time_are_left_out_and_those_of_its_second_are_delivered() {
    let (stream, [first, second, third]) = stream().await;
    for (time, expected) in [
        (first, &["1", "2", "3"][..]),
        (first.plus(Duration::from_secs(1)), &["2", "3"]),
        (second, &["2", "3"]),
        (second.plus(Duration::from_millis(400)), &["2", "3"]),
        (third, &["3"]),
        (third.plus(MINUTE), &[]),
    ] {
        let run = at(&stream, time);
        let outcome = run.drain().await;
        assert_eq!(outcome.end.as_ref().unwrap(), &MappingEnd::Drained);
        assert_eq!(outcome.numbers(), expected, "{time}");
        assert_eq!(
            run.checkpoints.stored().shards["s"],
            ShardCheckpoint::Finished,
            "a shard of the past ends"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_shard_that_begins_later_is_read_in_full() {
    let (stream, [.., third]) = stream().await;
    let run = at(&stream, third.plus(MINUTE));
    let outcome = run.while_running(async {
        tokio::time::sleep(Duration::from_secs(120)).await;
        stream.write("child", "4");
        stream.close("child");
        stream.open("grandchild", Some("child"));
        stream.write("grandchild", "5");
    });
    assert_eq!(outcome.await.numbers(), ["4", "5"]);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_delivered_nothing_begins_at_the_same_time_again() {
    let (stream, [.., third]) = stream().await;
    let time = third.plus(Duration::from_secs(1));
    let first = at(&stream, time);
    assert_eq!(first.drain().await.numbers(), [""; 0]);
    assert_eq!(first.checkpoints.stored().shards["child"], ShardCheckpoint::At(time));
    tokio::time::advance(MINUTE).await;
    stream.write("child", "4");
    let mut second = MappingRun::new(&stream, json!({ "StartingPosition": "LATEST" }));
    second.checkpoints = MemoryCheckpoints::new(first.checkpoints.stored());
    assert_eq!(second.drain().await.numbers(), ["4"], "the checkpoint decides");
}

#[tokio::test(start_paused = true)]
async fn a_time_whose_records_were_trimmed_since_is_a_gap() {
    let (stream, [.., third]) = stream().await;
    let first = at(&stream, third.plus(Duration::from_secs(1)));
    first.drain().await;
    tokio::time::advance(MINUTE).await;
    stream.write("child", "4");
    tokio::time::advance(STREAM_RETENTION + MINUTE).await;
    stream.write("child", "5");
    let resumed = |gaps| {
        let mut run = MappingRun::new(&stream, json!({}));
        (run.checkpoints, run.gaps) = (MemoryCheckpoints::new(first.checkpoints.stored()), gaps);
        run
    };
    let stopped = resumed(GapPolicy::Stop).drain().await;
    let gap = StreamGap::Trimmed { shard: "child".to_owned(), after: None };
    assert_eq!((stopped.end.unwrap(), stopped.deliveries.len()), (MappingEnd::Gap(gap), 0));
    let continued = resumed(GapPolicy::GoOn).drain().await;
    assert_eq!((continued.numbers(), continued.counts.gaps), (vec!["5".to_owned()], 1));
}
