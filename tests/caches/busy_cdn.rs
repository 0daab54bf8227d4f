//! A distribution that is busy for a minute, measured: how long cache keys stay stale, and what is archived twice. Time is simulated.

use std::sync::Arc;
use std::time::Duration;

use afterwrite_model::clock::Clock as _;
use afterwrite_model::record::Timestamp;
use serde_json::Value;

use super::cloudfront::{BEGIN, SharedClock};
use super::delivery::{model, question};
use super::relay_failures::{at, event};
use super::stand_ins::{RelaySetup, TestedTarget};

/// The application changes an item each time.
const CHANGE_EVERY: Duration = Duration::from_millis(50);
const CHANGES: u32 = 1_800;
const BATCH: usize = 100;
/// The time of an invocation without waiting; what is written meanwhile is the next batch.
const INVOCATION: Duration = Duration::from_millis(300);

/// The distribution is busy from the tenth to the seventieth second.
fn busy() -> std::ops::Range<Timestamp> {
    BEGIN.plus(Duration::from_secs(10))..BEGIN.plus(Duration::from_secs(70))
}

/// The results of one run.
struct ShardRun {
    setup: RelaySetup,
    /// By record: from its write until its key was gone.
    staleness: Vec<Duration>,
    /// By record: from its first delivery until its key was gone.
    delays: Vec<Duration>,
}

impl ShardRun {
    fn p99(&self) -> Duration {
        let mut sorted = self.staleness.clone();
        sorted.sort_unstable();
        sorted[sorted.len() * 99 / 100]
    }
}

fn written_at(index: usize) -> Timestamp {
    BEGIN.plus(CHANGE_EVERY * u32::try_from(index).unwrap())
}

fn records() -> Vec<Value> {
    let record =
        |id: u32| at(question(&format!("p{}", id % 10), &format!("q{id}")), &(1_000 + id).to_string());
    (0..CHANGES).map(record).collect()
}

/// Delivers a shard as Lambda does: a batch is what has been written; after a failure, the rest of the batch from the lowest failure on.
async fn run(target: TestedTarget) -> ShardRun {
    let clock = SharedClock::at(BEGIN);
    let setup = RelaySetup::new(&Arc::clone(&model()), target, clock.clone());
    let records = records();
    let mut first_delivery = vec![None; records.len()];
    let (mut from, mut until) = (0, 0);
    while from < records.len() {
        if from == until {
            clock.sleep(written_at(from).since(clock.now())).await;
            let is_written = |index: &usize| *index < records.len() && written_at(*index) <= clock.now();
            until = (from..from + BATCH).take_while(is_written).count() + from;
        }
        first_delivery[from..until].iter_mut().for_each(|first| _ = first.get_or_insert(clock.now()));
        let deadline = clock.now().plus(Duration::from_secs(60));
        let relayed = setup.relay.handle(event(&records[from..until]).as_bytes(), deadline).await.unwrap();
        clock.sleep(INVOCATION).await;
        let failure = relayed.response.batch_item_failures.first();
        let index_of =
            |number: &str| records.iter().position(|record| record["dynamodb"]["SequenceNumber"] == *number);
        from = failure.map_or(until, |failure| index_of(&failure.item_identifier).unwrap());
    }
    let removed = setup.cache.removed();
    let gone = |index: usize| removed[&format!("question:q{index}")][0];
    let staleness = (0..records.len()).map(|index| gone(index).since(written_at(index))).collect();
    let delays = (0..records.len()).map(|index| gone(index).since(first_delivery[index].unwrap())).collect();
    ShardRun { setup, staleness, delays }
}

#[tokio::test]
async fn a_cdn_that_is_busy_for_a_minute_delays_no_key_and_archives_nothing_twice() {
    let without = run(TestedTarget::Nowhere).await;
    let with_queue = run(TestedTarget::Queue).await;
    let direct = run(TestedTarget::Cdn(busy())).await;
    for (name, run) in [("no paths", &without), ("queue", &with_queue), ("no queue", &direct)] {
        let slowest = run.staleness.iter().max().unwrap();
        println!("{name:10} write to key gone: p99 {:?}, longest {slowest:?}", run.p99());
        assert_eq!(run.setup.lines(), records().len(), "{name}: an archived change is not archived again");
        assert!(run.delays.iter().all(Duration::is_zero), "{name}: a delivered key waits for nothing");
    }
    // The queue takes the paths whatever CloudFront does.
    assert_eq!(with_queue.staleness, without.staleness);
    // Without it, the shard waits for CloudFront, but the keys of each batch were gone at once.
    assert!(direct.p99() > without.p99());
    let removals = direct.setup.cache.removed();
    let of_questions = removals.iter().filter(|(key, _)| key.starts_with("question:"));
    assert!(of_questions.clone().all(|(_, times)| times.len() == 1));
    assert_eq!(of_questions.count(), records().len());
}
