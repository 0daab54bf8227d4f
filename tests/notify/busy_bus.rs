//! A bus that throttles for a minute, measured: how long cache keys stay stale, how long lines wait for the archive, and how long events are
//! under way. Time is simulated.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use afterwrite_functions::{QueueInvalidator, StreamRelay};
use afterwrite_memory::{MemoryObjects, MemoryQueue};
use afterwrite_model::ErrorKind;
use afterwrite_model::clock::Clock as _;
use afterwrite_model::record::Timestamp;
use afterwrite_relay::archive::ChangeArchiver;
use afterwrite_relay::invalidate::CacheInvalidator;
use afterwrite_relay::notify::{EventNotifier, PATIENCE, QueuedEventPublisher};
use afterwrite_services::cloudfront::CloudFront;
use afterwrite_services::{EventOrder, PathTarget};
use afterwrite_tests::sqs::queue_event;
use serde_json::{Value, json};

use super::stand_ins::{
    BEGIN, FlakyTarget, TIMEOUT, change, checkpoint, sequence_number, tables, targets_of,
};
use crate::caches::cloudfront::SharedClock;
use crate::caches::stand_ins::{FlakyCache, FlakyStream};

/// The application changes an item each time.
const CHANGE_EVERY: Duration = Duration::from_millis(50);
const CHANGES: u32 = 1_800;
const BATCH: usize = 100;
/// The time of an invocation without waiting; changes that are written meanwhile are the next batch.
const INVOCATION: Duration = Duration::from_millis(300);

/// The bus throttles from the tenth to the seventieth second.
fn busy() -> Range<Timestamp> {
    BEGIN.plus(Duration::from_secs(10))..BEGIN.plus(Duration::from_secs(70))
}

/// The results of one run.
struct ShardRun {
    /// By record: from its write until its key was gone.
    staleness: Vec<Duration>,
    lines: usize,
    bus: Arc<FlakyTarget>,
    queue: Arc<MemoryQueue>,
}

impl ShardRun {
    fn p99(&self) -> Duration {
        let mut sorted = self.staleness.clone();
        sorted.sort_unstable();
        sorted[sorted.len() * 99 / 100]
    }

    fn longest(&self) -> Duration {
        self.staleness.iter().max().copied().unwrap_or_default()
    }
}

fn written_at(index: usize) -> Timestamp {
    BEGIN.plus(CHANGE_EVERY * u32::try_from(index).unwrap())
}

fn records() -> Vec<Value> {
    (0..usize::try_from(CHANGES).unwrap())
        .map(|number| change(number, &format!("o{number}"), "SENT"))
        .collect()
}

/// A shard with a cache, an archive and a bus, delivered as Lambda does; then the queue is drained.
async fn run(throttled: Option<Range<Timestamp>>, has_queue: bool) -> ShardRun {
    let clock = SharedClock::at(BEGIN);
    let (cache, stream) = (FlakyCache::new(clock.clone()), Arc::<FlakyStream>::default());
    let (bus, billing) =
        (FlakyTarget::new(EventOrder::Standard, &clock), FlakyTarget::new(EventOrder::Standard, &clock));
    if let Some(busy) = throttled {
        bus.refuse(move |_, now| busy.contains(&now).then_some(ErrorKind::Unavailable));
    }
    let queue = Arc::<MemoryQueue>::default();
    let paths = None::<PathTarget<CloudFront, Arc<MemoryQueue>>>;
    let invalidator = CacheInvalidator::new(Some(cache.clone()), paths, clock.clone());
    let archiver = ChangeArchiver::new(Arc::clone(&stream), MemoryObjects::default(), clock.clone());
    let notifier =
        EventNotifier::new(targets_of(&bus, &billing), has_queue.then(|| Arc::clone(&queue)), clock.clone());
    let relay =
        StreamRelay::new(tables(), Some(invalidator), Some(archiver), clock.clone()).notifying(notifier);
    let (records, mut from, mut until) = (records(), 0, 0);
    while from < records.len() {
        if from == until {
            clock.sleep(written_at(from).since(clock.now())).await;
            let is_written = |index: &usize| *index < records.len() && written_at(*index) <= clock.now();
            until = (from..from + BATCH).take_while(is_written).count() + from;
        }
        let event = json!({ "Records": records[from..until] }).to_string();
        let relayed = relay.handle(event.as_bytes(), clock.now().plus(TIMEOUT)).await.unwrap();
        clock.sleep(INVOCATION).await;
        let index_of = |number: &str| (0..records.len()).position(|index| sequence_number(index) == number);
        from = checkpoint(&relayed).map_or(until, |number| index_of(number).unwrap());
    }
    let publisher = QueuedEventPublisher::new(targets_of(&bus, &billing), clock.clone());
    let drain = QueueInvalidator::new(None::<CloudFront>, clock.clone()).publishing(publisher);
    for request in queue.requests() {
        let drained = drain.handle(&queue_event(&request), clock.now().plus(TIMEOUT)).await.unwrap();
        assert!(drained.failures.is_empty(), "{:?}", drained.failures);
    }
    let removed: BTreeMap<String, Vec<Timestamp>> = cache.removed();
    let gone = |index: usize| removed[&format!("order:o{index}")][0];
    let staleness = (0..records.len()).map(|index| gone(index).since(written_at(index))).collect();
    let lines = stream.inner.contents().iter().filter(|byte| **byte == b'\n').count();
    ShardRun { staleness, lines, bus, queue }
}

#[tokio::test]
async fn a_bus_that_throttles_for_a_minute_delays_no_key_and_no_line() {
    let healthy = run(None, true).await;
    let with_queue = run(Some(busy()), true).await;
    let without = run(Some(busy()), false).await;
    for (name, run) in [("healthy", &healthy), ("queue", &with_queue), ("no queue", &without)] {
        println!("{name:10} write to key gone: p99 {:?}, longest {:?}", run.p99(), run.longest());
        assert_eq!(run.lines, records().len(), "{name}: each change is archived once");
        let events = run.bus.events();
        let ids: BTreeSet<&str> = events.iter().map(|event| event.id.as_str()).collect();
        assert_eq!((ids.len(), events.len()), (records().len(), records().len()), "{name}: each event once");
    }
    assert!(healthy.queue.messages().is_empty() && !with_queue.queue.messages().is_empty());
    // A batch waits for as long as the patience lasts, once in each pause.
    let delay = with_queue.longest().saturating_sub(healthy.longest());
    assert!(delay <= PATIENCE + Duration::from_millis(100), "{delay:?}");
    // Without the queue, the shard waits for the bus.
    assert!(without.p99() > Duration::from_secs(5), "{:?}", without.p99());
}
