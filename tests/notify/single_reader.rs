//! One function for all projections, and two functions, measured: what waits while a target is out of service for a minute. Time is simulated, and
//! passes only while everything waits.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use afterwrite_functions::{SourceTables, StreamAggregator, StreamRelay};
use afterwrite_ledger::Ledger;
use afterwrite_memory::{MemoryObjects, MemoryQueue};
use afterwrite_model::clock::Clock as _;
use afterwrite_model::record::Timestamp;
use afterwrite_model::table::Model;
use afterwrite_relay::archive::ChangeArchiver;
use afterwrite_relay::invalidate::CacheInvalidator;
use afterwrite_relay::notify::{DRAIN_PATIENCE, EventNotifier, PATIENCE, TargetName};
use afterwrite_services::cloudfront::CloudFront;
use afterwrite_services::{EventOrder, PathTarget};
use afterwrite_tests::clock::TokioClock;
use futures::future::join;
use serde_json::{Value, json};

use super::stand_ins::{BEGIN, ORDERS, TIMEOUT, change, checkpoint, sequence_number};
use super::timed_queue::TimedQueue;
use super::timed_targets::{Effect, PausedClock, TimedTargets, order_of};

/// The application changes an item each time.
const CHANGE_EVERY: Duration = Duration::from_millis(50);
const CHANGES: usize = 1_800;
const BATCH: usize = 100;
/// The time of an invocation without waiting.
const INVOCATION: Duration = Duration::from_millis(300);
/// An effect that is delayed for longer waits for the target.
const LONG: Duration = Duration::from_secs(50);

const COUNT: &str = r#"
[rollups.all]
key = { PK = "ALL", SK = "ROLLUP" }

[[aggregates]]
name = "orders"
of = "order"
into = "all"
measures.orders = "count"
"#;

type Aggregator = StreamAggregator<TimedTargets, PausedClock>;
type Relay = StreamRelay<
    TimedTargets,
    CloudFront,
    Arc<MemoryQueue>,
    TimedTargets,
    MemoryObjects,
    PausedClock,
    TimedTargets,
>;

/// The functions that read the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Readers {
    Two,
    One,
}

/// The projections of a deployment, and its shard.
struct Deployment {
    clock: PausedClock,
    targets: TimedTargets,
    model: Arc<Model>,
    aggregator: Aggregator,
    relay: Relay,
    queue: Arc<MemoryQueue>,
    records: Vec<Value>,
}

/// The longest delay of each effect: counts, keys, paths, lines, events.
#[derive(Clone, Copy, Debug)]
struct Delays([Duration; Effect::ALL.len()]);

impl Delays {
    fn of(self, effect: Effect) -> Duration {
        let [counted, gone, invalidated, archived, told] = self.0;
        match effect {
            Effect::Counted => counted,
            Effect::KeyGone => gone,
            Effect::PathGone => invalidated,
            Effect::Archived => archived,
            Effect::Told => told,
        }
    }
}

/// A target is out of service from the tenth to the seventieth second.
fn outage() -> Range<Timestamp> {
    BEGIN.plus(Duration::from_secs(10))..BEGIN.plus(Duration::from_secs(70))
}

fn written_at(index: usize) -> Timestamp {
    BEGIN.plus(CHANGE_EVERY * u32::try_from(index).unwrap())
}

impl Deployment {
    fn new(out_of_service: Option<Effect>, order: EventOrder) -> Self {
        let clock = PausedClock(Arc::new(TokioClock::at(BEGIN, 500)));
        let targets = TimedTargets::new(&clock, out_of_service.map(|effect| (effect, outage())), order);
        let source = ORDERS.replace("keys = [", "paths = [\"/orders/{order_id}\"]\nkeys = [") + COUNT;
        let model = Arc::new(Model::parse(&source, "orders.toml").unwrap());
        let names: Vec<Arc<str>> = model.tables.iter().map(|table| Arc::clone(&table.name)).collect();
        let ledger =
            Ledger::new(Arc::clone(&model), names.clone(), "state".into(), targets.clone(), clock.clone());
        let queue = Arc::<MemoryQueue>::default();
        let paths = Some(PathTarget::<CloudFront, _>::Queue(Arc::clone(&queue)));
        let invalidator = CacheInvalidator::new(Some(targets.clone()), paths, clock.clone());
        let archiver = ChangeArchiver::new(targets.clone(), MemoryObjects::default(), clock.clone());
        let notifier = EventNotifier::new(by_name(&model, &targets), Some(Arc::clone(&queue)), clock.clone());
        let tables = SourceTables::new(Arc::clone(&model), names);
        let relay = StreamRelay::new(tables, Some(invalidator), Some(archiver), clock.clone());
        let records = (0..CHANGES).map(|number| change(number, &format!("o{number}"), "SENT")).collect();
        let (aggregator, relay) = (StreamAggregator::new(ledger), relay.notifying(notifier));
        Self { clock, targets, model, aggregator, relay, queue, records }
    }

    /// Counts a batch; returns the index of the record from which it is delivered again.
    async fn aggregate(&self, event: &[u8], batch: Range<usize>) -> Option<usize> {
        let handled = self.aggregator.handle(event, self.clock.now().plus(TIMEOUT)).await.unwrap();
        let failed = handled.response.batch_item_failures.first();
        let failed = failed.map(|failed| index_of(&failed.item_identifier));
        let counted = batch.start..failed.unwrap_or(batch.end);
        self.records[counted].iter().for_each(|record| self.targets.note(Effect::Counted, order_of(record)));
        failed
    }

    /// Relays a batch; returns the same.
    async fn relay(&self, event: &[u8]) -> Option<usize> {
        let relayed = self.relay.handle(event, self.clock.now().plus(TIMEOUT)).await.unwrap();
        checkpoint(&relayed).map(index_of)
    }

    /// Delivers the shard to a function as Lambda does: a batch is what has been written; after a failure, the rest of the batch from the lowest
    /// failure on. Returns the longest time of an invocation.
    async fn deliver(&self, handle: impl AsyncFn(&[u8], Range<usize>) -> Option<usize>) -> Duration {
        let (mut from, mut until, mut longest) = (0, 0, Duration::ZERO);
        while from < CHANGES {
            if from == until {
                self.clock.until(written_at(from)).await;
                let is_written = |index: &usize| *index < CHANGES && written_at(*index) <= self.clock.now();
                until = (from..from + BATCH).take_while(is_written).count() + from;
            }
            let event = json!({ "Records": self.records[from..until] }).to_string();
            let begun = self.clock.now();
            let failed = handle(event.as_bytes(), from..until).await;
            longest = longest.max(self.clock.now().since(begun));
            self.clock.sleep(INVOCATION).await;
            from = failed.unwrap_or(until);
        }
        longest
    }

    /// The queue of paths, and of events whose target is out of service, with its reader.
    fn queue(&self) -> TimedQueue {
        TimedQueue::new(&self.clock, &self.queue, &self.targets, by_name(&self.model, &self.targets))
    }

    /// Delivers the stream to its readers; returns the longest time of an invocation of the function that relays.
    async fn run(&self, readers: Readers) -> Duration {
        match readers {
            Readers::Two => {
                let count = self.deliver(async |event, batch| self.aggregate(event, batch).await);
                let relay = self.deliver(async |event, _| self.relay(event).await);
                join(count, relay).await.1
            }
            Readers::One => {
                self.deliver(async |event, batch| {
                    let (counted, relayed) = join(self.aggregate(event, batch), self.relay(event)).await;
                    counted.into_iter().chain(relayed).min()
                })
                .await
            }
        }
    }

    /// From the write to the effect.
    fn delays(&self) -> Delays {
        let delay = |effect: Effect, index: usize| {
            self.targets.time(effect, order_of(&self.records[index])).since(written_at(index))
        };
        let longest =
            |effect: Effect| (0..CHANGES).map(|index| delay(effect, index)).max().unwrap_or_default();
        Delays(Effect::ALL.map(longest))
    }
}

/// The targets of the model's events.
fn by_name(model: &Model, targets: &TimedTargets) -> BTreeMap<TargetName, TimedTargets> {
    model.event_targets().into_iter().map(|name| (name, targets.clone())).collect()
}

/// The index of the record with this sequence number.
fn index_of(number: &str) -> usize {
    (0..CHANGES).find(|index| sequence_number(*index) == number).unwrap()
}

/// Measures a deployment in which the target of one effect is out of service.
async fn measured(out_of_service: Option<Effect>, order: EventOrder, readers: Readers) -> (Delays, Duration) {
    let deployment = Deployment::new(out_of_service, order);
    let (is_done, queue) = (Cell::new(false), deployment.queue());
    let run = async {
        let longest = deployment.run(readers).await;
        is_done.set(true);
        longest
    };
    let (longest, ()) = join(run, queue.drain(|| is_done.get())).await;
    (deployment.delays(), longest)
}

/// How much longer an effect waits at most while the target of another effect is out of service.
fn patience(effect: Effect) -> Duration {
    match effect {
        Effect::PathGone => DRAIN_PATIENCE,
        Effect::Counted | Effect::KeyGone | Effect::Archived | Effect::Told => {
            PATIENCE + Duration::from_millis(100)
        }
    }
}

/// A row of the table in docs/OPERATE.md: the effects that wait while a target is out of service, with two functions and with one.
struct Row {
    target: &'static str,
    out_of_service: Effect,
    order: EventOrder,
    waiting: [&'static [Effect]; 2],
}

const fn row(
    target: &'static str,
    out_of_service: Effect,
    order: EventOrder,
    waiting: [&'static [Effect]; 2],
) -> Row {
    Row { target, out_of_service, order, waiting }
}

#[tokio::test(start_paused = true)]
async fn each_target_holds_up_what_the_page_says_with_two_functions_and_with_one() {
    use Effect::{Archived, Counted, KeyGone, PathGone, Told};
    use EventOrder::{Fifo, Standard};
    let rows = [
        row("cache", KeyGone, Standard, [&[KeyGone, PathGone, Archived, Told], &Effect::ALL]),
        row("standard target", Told, Standard, [&[Told], &[Told]]),
        row("FIFO target", Told, Fifo, [&[KeyGone, PathGone, Archived, Told], &Effect::ALL]),
        row("delivery stream", Archived, Standard, [&[KeyGone, PathGone, Archived, Told], &Effect::ALL]),
        row("state table", Counted, Standard, [&[Counted], &Effect::ALL]),
    ];
    for readers in [Readers::Two, Readers::One] {
        let (healthy, _) = measured(None, Standard, readers).await;
        println!("{readers:?} healthy: {healthy:?}");
        for Row { target, out_of_service, order, waiting } in &rows {
            let (delays, invocation) = measured(Some(*out_of_service), *order, readers).await;
            println!("{readers:?} {target}: {delays:?}, longest invocation {invocation:?}");
            let [of_two, of_one] = waiting;
            let waiting = if readers == Readers::Two { of_two } else { of_one };
            for effect in Effect::ALL {
                let (delay, usual) = (delays.of(effect), healthy.of(effect));
                if waiting.contains(&effect) {
                    assert!(delay > LONG, "{readers:?}, {target}: {effect:?} waits {delay:?} only");
                } else {
                    let most = usual + patience(effect);
                    assert!(delay <= most, "{readers:?}, {target}: {effect:?} waits {delay:?}");
                }
            }
            if *out_of_service == KeyGone {
                assert!(invocation <= Duration::from_secs(6), "{readers:?}: a batch waits {invocation:?}");
            }
        }
    }
}
