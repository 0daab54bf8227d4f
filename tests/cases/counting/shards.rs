//! D6: shards that DynamoDB lists although nothing of them is kept.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::Duration;

use afterwrite_mapping::{
    EventHandler, EventSourceMapping, GapPolicy, MappingControl, MappingCounts, MappingEnd, MappingOptions,
    MappingProgress, MappingSettings, MemoryCheckpoints, RecordPage, ShardCheckpoint, ShardPage,
    ShardPosition, StoredCheckpoints, StreamGap, StreamReadError, StreamRecord, StreamShard, StreamSource,
};
use afterwrite_model::Result;
use afterwrite_model::record::Timestamp;
use afterwrite_tests::clock::TokioClock;
use serde_json::{Value, json};

const ARN: &str = "arn:aws:dynamodb:eu-west-1:1:table/app/stream/2026-02-06T10:00:00.000";

/// The answers of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ShardState {
    /// One record, `1`, and the end.
    Kept,
    /// GetShardIterator answers ResourceNotFoundException.
    Gone,
    /// GetShardIterator answers TrimmedDataAccessException.
    Trimmed,
    /// GetRecords answers ResourceNotFoundException.
    GoneLater,
    /// GetRecords answers TrimmedDataAccessException.
    TrimmedLater,
    /// The first iterator is trimmed, the next ones are not.
    TrimmedOnce,
}

/// A stream of such shards, each the parent of the next.
struct ListedStream {
    shards: Vec<(&'static str, ShardState)>,
    tried: Mutex<BTreeSet<String>>,
}

impl ListedStream {
    fn state(&self, shard: &str) -> ShardState {
        self.shards.iter().find(|(id, _)| *id == shard).expect("a shard").1
    }
}

impl StreamSource for ListedStream {
    fn arn(&self) -> &str {
        ARN
    }

    async fn describe(&self, _after: Option<&str>) -> Result<ShardPage> {
        let shard = |(index, (id, _)): (usize, &(&'static str, ShardState))| {
            let parent = index.checked_sub(1).map(|parent| self.shards[parent].0.to_owned());
            StreamShard { id: (*id).to_owned(), parent, first: None }
        };
        Ok(ShardPage { shards: self.shards.iter().enumerate().map(shard).collect(), next: None })
    }

    async fn iterator(&self, shard: &str, _position: &ShardPosition) -> Result<String, StreamReadError> {
        match self.state(shard) {
            ShardState::Gone => Err(StreamReadError::Gone),
            ShardState::Trimmed => Err(StreamReadError::Trimmed),
            ShardState::TrimmedOnce if self.tried.lock().unwrap().insert(shard.to_owned()) => {
                Err(StreamReadError::Trimmed)
            }
            ShardState::Kept | ShardState::GoneLater | ShardState::TrimmedLater | ShardState::TrimmedOnce => {
                Ok(shard.to_owned())
            }
        }
    }

    async fn read(&self, iterator: &str) -> Result<RecordPage, StreamReadError> {
        match self.state(iterator) {
            ShardState::GoneLater => Err(StreamReadError::Gone),
            ShardState::TrimmedLater => Err(StreamReadError::Trimmed),
            ShardState::Kept | ShardState::TrimmedOnce | ShardState::Gone | ShardState::Trimmed => {
                let json = json!({ "eventName": "INSERT", "dynamodb": { "SequenceNumber": "1", "Keys": { "PK": { "S": iterator } } } });
                let record = StreamRecord { sequence_number: "1".to_owned(), json: json.to_string() };
                Ok(RecordPage { records: vec![record], is_at_end: false, next: None })
            }
        }
    }
}

/// A function that notes the items that it gets.
#[derive(Default)]
struct NotingFunction(Mutex<Vec<String>>);

impl EventHandler for NotingFunction {
    async fn handle(&self, event: Vec<u8>, _remaining: Duration) -> Result<Vec<u8>> {
        let event: Value = serde_json::from_slice(&event).unwrap();
        let records = event["Records"].as_array().unwrap();
        let item = |record: &Value| record["dynamodb"]["Keys"]["PK"]["S"].as_str().unwrap().to_owned();
        self.0.lock().unwrap().extend(records.iter().map(item));
        Ok(b"null".to_vec())
    }
}

struct Outcome {
    end: MappingEnd,
    items: Vec<String>,
    counts: MappingCounts,
    checkpoints: StoredCheckpoints,
}

async fn drain(
    shards: &[(&'static str, ShardState)],
    stored: &[(&str, ShardCheckpoint)],
    gaps: GapPolicy,
) -> Outcome {
    let source = ListedStream { shards: shards.to_vec(), tried: Mutex::default() };
    let stored: BTreeMap<String, ShardCheckpoint> =
        stored.iter().map(|(shard, checkpoint)| ((*shard).to_owned(), checkpoint.clone())).collect();
    let stream_arn = (!stored.is_empty()).then(|| ARN.to_owned());
    let checkpoints = MemoryCheckpoints::new(StoredCheckpoints { stream_arn, shards: stored });
    let (function, progress) = (NotingFunction::default(), MappingProgress::default());
    let clock = TokioClock::at(Timestamp::from_epoch_seconds(1_770_400_000), 500);
    let settings = MappingSettings::from_json("{}").unwrap();
    let options = MappingOptions { gaps, ..MappingOptions::new(&progress, &checkpoints) };
    let mapping = EventSourceMapping::new(&source, &function, &clock, &settings, options);
    let end = mapping.run(&MappingControl::draining()).await.expect("an end");
    let items = function.0.into_inner().unwrap();
    Outcome { end, items, counts: progress.counts(), checkpoints: checkpoints.stored() }
}

const LOST: [ShardState; 4] =
    [ShardState::Gone, ShardState::Trimmed, ShardState::GoneLater, ShardState::TrimmedLater];

#[tokio::test(start_paused = true)]
async fn d6_a_fresh_consumer_takes_a_shard_that_is_gone_as_finished() {
    for lost in LOST {
        for gaps in [GapPolicy::Stop, GapPolicy::GoOn] {
            let shards = [("old", lost), ("older child", lost), ("new", ShardState::Kept)];
            let run = drain(&shards, &[], gaps).await;
            assert_eq!((run.end, run.counts.gaps), (MappingEnd::Drained, 0), "{lost:?}");
            assert_eq!(run.items, ["new"], "{lost:?}: its children are read");
            let all = run.checkpoints.shards.values();
            assert!(all.clone().all(|checkpoint| *checkpoint == ShardCheckpoint::Finished), "{all:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn d6_an_unfinished_checkpoint_in_it_is_a_gap() {
    for lost in LOST {
        for (checkpoint, after) in
            [(ShardCheckpoint::After("7".to_owned()), Some("7".to_owned())), (ShardCheckpoint::Oldest, None)]
        {
            let shards = [("old", lost), ("new", ShardState::Kept)];
            let stored = [("old", checkpoint)];
            let run = drain(&shards, &stored, GapPolicy::Stop).await;
            let gap = StreamGap::Trimmed { shard: "old".to_owned(), after };
            assert_eq!((run.end, run.items.len()), (MappingEnd::Gap(gap), 0), "{lost:?}");
            let run = drain(&shards, &stored, GapPolicy::GoOn).await;
            assert_eq!((run.end, run.counts.gaps), (MappingEnd::Drained, 1), "{lost:?}");
            assert_eq!(run.items, ["new"], "{lost:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn d6_other_checkpoints_make_no_gap_of_it() {
    for lost in LOST {
        let shards = [("old", lost), ("new", ShardState::Kept)];
        for stored in [("old", ShardCheckpoint::Finished), ("another", ShardCheckpoint::Finished)] {
            let run = drain(&shards, &[stored], GapPolicy::Stop).await;
            assert_eq!((run.end, run.items), (MappingEnd::Drained, vec!["new".to_owned()]), "{lost:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn d6_records_that_are_kept_are_read_after_trimmed_ones() {
    let shards = [("s", ShardState::TrimmedOnce)];
    let fresh = drain(&shards, &[], GapPolicy::Stop).await;
    assert_eq!((fresh.end, fresh.counts.gaps, fresh.items), (MappingEnd::Drained, 0, vec!["s".to_owned()]));
    let stored = [("s", ShardCheckpoint::After("0".to_owned()))];
    let behind = drain(&shards, &stored, GapPolicy::GoOn).await;
    assert_eq!(
        (behind.end, behind.counts.gaps, behind.items),
        (MappingEnd::Drained, 1, vec!["s".to_owned()])
    );
}
