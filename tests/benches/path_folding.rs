//! The CloudFront paths that the queue folds: `cargo bench -p afterwrite-tests --bench path_folding`.
//!
//! The relay handles the recording `exam-42`, four shards at once, at a steady rate; each shard has a batch every second.
//! Without a queue, each batch invalidates its own paths. With it, the invalidator invalidates each path once in a window.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a benchmark that meets the unexpected must fail at once"
)]

use std::collections::BTreeSet;
use std::sync::Arc;

use afterwrite_functions::{SourceTables, StreamRelay};
use afterwrite_memory::{MemoryObjects, MemoryQueue, MemoryStream};
use afterwrite_model::record::Timestamp;
use afterwrite_model::table::Model;
use afterwrite_relay::invalidate::CacheInvalidator;
use afterwrite_services::PathTarget;
use afterwrite_services::cloudfront::CloudFront;
use afterwrite_services::redis::RedisCache;
use afterwrite_tests::clock::StillClock;
use afterwrite_tests::recording::{StreamRecording, event};
use serde_json::Value;

/// Changes a second of all shards.
const RATES: [usize; 3] = [10, 100, 1000];
/// Windows of the queue, in seconds.
const WINDOWS: [usize; 3] = [5, 20, 60];
/// CloudFront's price of a path after the first thousand of a month.
const DOLLARS_PER_PATH: f64 = 0.005;

type PathRelay =
    StreamRelay<RedisCache, CloudFront, Arc<MemoryQueue>, MemoryStream, MemoryObjects, StillClock>;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let recording = StreamRecording::load("exam-42");
    let changes: usize = recording.shards.iter().map(Vec::len).sum();
    println!("exam-42: {changes} changes of {} shards, a batch a shard and second\n", recording.shards.len());
    println!("{:>12} {:>8} {:>9} {:>9}  dollars a million changes", "changes/s", "window", "paths", "saved");
    for rate in RATES {
        let seconds = paths_by_second(&recording, rate).await;
        let without: usize = seconds.iter().flatten().map(BTreeSet::len).sum();
        print(rate, "none", without, without, changes);
        for window in WINDOWS {
            let folded = |seconds: &[Vec<BTreeSet<String>>]| {
                seconds.iter().flatten().flatten().collect::<BTreeSet<_>>().len()
            };
            let paths = seconds.chunks(window).map(folded).sum();
            print(rate, &format!("{window} s"), paths, without, changes);
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts for a report")]
fn print(rate: usize, window: &str, paths: usize, without: usize, changes: usize) {
    let saved = 100.0 * (1.0 - paths as f64 / without as f64);
    let dollars = DOLLARS_PER_PATH * paths as f64 / changes as f64 * 1e6;
    println!("{rate:>12} {window:>8} {paths:>9} {saved:>7.0} %  {dollars:>9.0}");
}

/// The paths of each second: for each shard, those of its batch.
async fn paths_by_second(recording: &StreamRecording, rate: usize) -> Vec<Vec<BTreeSet<String>>> {
    let queue = Arc::new(MemoryQueue::default());
    let model = Arc::new(Model::load("exambuddy").unwrap());
    let names = model.tables.iter().map(|table| Arc::clone(&table.name)).collect();
    let clock = || StillClock::at(Timestamp::from_epoch_seconds(recording.end() + 60));
    let target = PathTarget::Queue(Arc::clone(&queue));
    let invalidator = CacheInvalidator::new(None, Some(target), clock());
    let relay: PathRelay =
        StreamRelay::new(SourceTables::new(model, names), Some(invalidator), None, clock());
    // The records of a second are consecutive in the order of time, whatever their shard.
    let mut next = vec![0; recording.shards.len()];
    let mut seconds = Vec::new();
    for order in recording.order.chunks(rate) {
        let mut second = Vec::new();
        for (shard, records) in recording.shards.iter().enumerate() {
            let count = order.iter().filter(|other| **other == shard).count();
            let begin = next[shard];
            next[shard] += count;
            if count == 0 {
                continue;
            }
            let batch = event(records[begin..begin + count].iter().map(AsRef::as_ref));
            let sent = queue.messages().len();
            let relayed = relay.handle(&batch, Timestamp::from_epoch_ms(i64::MAX)).await.unwrap();
            assert!(relayed.failures.is_empty());
            second.push(queue.messages()[sent..].iter().flat_map(|message| paths(message)).collect());
        }
        seconds.push(second);
    }
    seconds
}

fn paths(message: &str) -> Vec<String> {
    let message: Value = serde_json::from_str(message).unwrap();
    serde_json::from_value(message["paths"].clone()).unwrap()
}
