//! The second reader of the streams: the relay, with its own cursors over the same shards. Calls to its cache and
//! delivery stream fail, its process crashes between calls, and batches are delivered twice and with other boundaries.
//!
//! At the end, the archive has every change as delivered, and every cache key with a copy of an item was invalidated
//! after the item's last change. In the worlds with events, every transition of an item has its event ([`super::events`]).

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use afterwrite_functions::{RelayedBatch, SourceTables, StreamRelay};
use afterwrite_model::record::Timestamp;
use afterwrite_model::table::Model;
use afterwrite_relay::archive::ChangeArchiver;
use afterwrite_relay::invalidate::CacheInvalidator;
use afterwrite_relay::notify::EventNotifier;
use afterwrite_services::PathTarget;
use afterwrite_tests::random::SeededRandom;

use super::clock::{PatientClock, SimulatedTime};
use super::coverage::FaultCoverage;
use super::events::check_events;
use super::events::damage::RecordDamage;
use super::events::queue::QueueDrain;
use super::events::state::{EventBypass, EventOptions};
use super::events::targets::SimulatedTarget;
use super::options::RunOptions;
use super::relay_services::ExternalServices;
use super::source_rollups::SourceRollup;
use super::stale_keys::stale_keys;
use super::store::{STATE, Store};
use super::stream::{STREAMED, StreamRecord, StreamSet};

/// The time limit of an invocation.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The records of a batch at most: the cache takes one key after the other, and an invocation ends in time.
const MOST_RECORDS: usize = 200;

type PlainRelay = StreamRelay<
    ExternalServices,
    ExternalServices,
    ExternalServices,
    ExternalServices,
    ExternalServices,
    PatientClock,
>;

type NotifyingRelay = StreamRelay<
    ExternalServices,
    ExternalServices,
    ExternalServices,
    ExternalServices,
    ExternalServices,
    PatientClock,
    SimulatedTarget,
>;

/// The relay's process.
enum RelayProcess {
    Plain(PlainRelay),
    Notifying(NotifyingRelay),
}

impl RelayProcess {
    async fn handle(&self, event: &[u8], deadline: Timestamp) -> afterwrite_model::Result<RelayedBatch> {
        match self {
            Self::Plain(relay) => relay.handle(event, deadline).await,
            Self::Notifying(relay) => relay.handle(event, deadline).await,
        }
    }
}

/// The settings of the relay.
#[derive(Clone, Debug)]
struct RelaySettings {
    model: Arc<Model>,
    /// How events are published; `None` if they are not.
    events: Option<EventOptions>,
    bypass: Option<EventBypass>,
}

/// The faults of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RelayFaults {
    /// Everything.
    All,
    /// Calls fail and processes crash, but no earlier batch is delivered again: that would repair a loss.
    WithoutReplays,
    None,
}

/// The position of this reader in a shard.
#[derive(Clone, Copy, Debug, Default)]
struct ShardCursor {
    checkpoint: usize,
    in_flight: Option<u64>,
}

struct RelayTask {
    id: u64,
    /// The shard, unless it is a replay.
    shard: Option<usize>,
    records: Vec<usize>,
    deadline: Timestamp,
    /// Whether failures are allowed: a task that started before the end of the faults may fail.
    may_fail: bool,
    future: Pin<Box<dyn Future<Output = afterwrite_model::Result<RelayedBatch>>>>,
}

pub(crate) struct SecondReader {
    random: SeededRandom,
    time: Arc<SimulatedTime>,
    settings: RelaySettings,
    services: ExternalServices,
    process: Arc<RelayProcess>,
    /// Drains the queue of events.
    queue: Option<QueueDrain>,
    cursors: Vec<ShardCursor>,
    tasks: Vec<RelayTask>,
    next_task: u64,
    damage: RecordDamage,
    pub(crate) problems: Vec<String>,
}

impl SecondReader {
    pub(crate) fn new<S: Store>(
        mut random: SeededRandom,
        time: Arc<SimulatedTime>,
        store: &S,
        options: &RunOptions,
    ) -> Self {
        let settings =
            RelaySettings { model: store.model(1), events: options.events, bypass: store.event_bypass() };
        let faults = if random.chance(700) { 60 } else { 0 };
        let services = ExternalServices::new(random.split(), faults);
        let queue = settings.events.map(|events| {
            let mut outside = services.lock();
            (outside.events.faults, outside.events.bypass) = (events.faults, settings.bypass);
            QueueDrain::new(random.clone().split(), &services, &time)
        });
        let process = settings.process(&services, &time);
        let damage = RecordDamage::new(settings.events, settings.bypass, &random);
        Self {
            random,
            time,
            settings,
            services,
            process,
            queue,
            cursors: Vec::new(),
            tasks: Vec::new(),
            next_task: 0,
            damage,
            problems: Vec::new(),
        }
    }

    pub(crate) fn is_idle(&self, streams: &StreamSet) -> bool {
        let is_read = |(shard, cursor): (&super::stream::StreamShard, &ShardCursor)| {
            cursor.checkpoint == shard.records.len()
        };
        self.tasks.is_empty()
            && self.queue.as_ref().is_none_or(QueueDrain::is_idle)
            && self.cursors.len() == streams.shards.len()
            && streams.shards.iter().zip(&self.cursors).all(is_read)
    }

    pub(crate) fn coverage(&self) -> FaultCoverage {
        self.services.lock().coverage.clone()
    }

    fn record(&self, event: &str) {
        self.services.lock().coverage.record(event);
    }

    /// Starts a delivery, continues one, crashes, or delivers records again.
    pub(crate) fn step(&mut self, streams: &StreamSet, faults: RelayFaults) {
        let may_fail = faults != RelayFaults::None;
        self.cursors.resize(streams.shards.len(), ShardCursor::default());
        let mut outside = self.services.lock();
        outside.records = streams.records.len();
        if !may_fail {
            (outside.faults, outside.events.faults) = (0, 0);
        }
        drop(outside);
        if self.queue.as_mut().is_some_and(|queue| queue.step(may_fail)) {
            return;
        }
        match self.random.below(100) {
            0..25 => self.deliver(streams, may_fail),
            25..28 if faults == RelayFaults::All => self.replay(streams),
            28..30 if may_fail && !self.tasks.is_empty() => {
                let index = self.below(self.tasks.len());
                self.record("relay: crashed");
                self.end(index);
                self.process = self.settings.process(&self.services, &self.time);
            }
            _ if self.tasks.is_empty() => self.deliver(streams, may_fail),
            _ => {
                let index = self.below(self.tasks.len());
                self.poll(index, streams);
            }
        }
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.random.below(u64::try_from(end).unwrap())).unwrap()
    }

    /// Starts the delivery of a shard's next batch, of a random size.
    fn deliver(&mut self, streams: &StreamSet, may_fail: bool) {
        let shard = self.below(streams.shards.len());
        let (source, cursor) = (&streams.shards[shard], self.cursors[shard]);
        if cursor.in_flight.is_some() || cursor.checkpoint == source.records.len() {
            return;
        }
        if !streams.is_readable(shard, |parent| self.cursors[parent].checkpoint) {
            return;
        }
        let waiting = source.records.len() - cursor.checkpoint;
        let size = if waiting > 60 { MOST_RECORDS } else { 1 + self.below(12) };
        let until = source.records.len().min(cursor.checkpoint + size);
        let records = source.records[cursor.checkpoint..until].to_vec();
        self.cursors[shard].in_flight = Some(self.next_task);
        self.invoke(Some(shard), records, streams, may_fail);
    }

    fn replay(&mut self, streams: &StreamSet) {
        let shard = self.below(streams.shards.len());
        let past = &streams.shards[shard].records[..self.cursors[shard].checkpoint];
        if past.is_empty() {
            return;
        }
        let (past, from) = (past.to_vec(), self.below(past.len()));
        let until = past.len().min(from + 1 + self.below(8));
        self.record("relay: batch delivered again");
        self.invoke(None, past[from..until].to_vec(), streams, true);
    }

    fn invoke(&mut self, shard: Option<usize>, records: Vec<usize>, streams: &StreamSet, may_fail: bool) {
        let event = match may_fail {
            true => self.damage.event(&records, streams, &self.services),
            false => streams.event(&records, |_| false),
        };
        let process = Arc::clone(&self.process);
        let deadline = self.time.now().plus(TIMEOUT);
        let future = Box::pin(async move { process.handle(event.as_bytes(), deadline).await });
        self.tasks.push(RelayTask { id: self.next_task, shard, records, deadline, may_fail, future });
        self.next_task += 1;
    }

    fn end(&mut self, index: usize) {
        let task = self.tasks.swap_remove(index);
        if let Some(shard) = task.shard
            && self.cursors[shard].in_flight == Some(task.id)
        {
            self.cursors[shard].in_flight = None;
        }
    }

    fn poll(&mut self, index: usize, streams: &StreamSet) {
        if self.time.now() > self.tasks[index].deadline.plus(Duration::from_secs(1)) {
            self.record("relay: invocation timed out");
            return self.end(index);
        }
        let Poll::Ready(result) =
            self.tasks[index].future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
        else {
            return;
        };
        let (id, shard, records, may_fail) = {
            let task = &self.tasks[index];
            (task.id, task.shard, task.records.clone(), task.may_fail)
        };
        self.end(index);
        let relayed = match result {
            Ok(relayed) => relayed,
            Err(error) => {
                return self.problems.push(format!("the relay's task {id} failed as a whole: {error}"));
            }
        };
        let failed = relayed.response.batch_item_failures.first().map(|failure| &failure.item_identifier);
        let index_of = |identifier: &String| {
            records.iter().position(|record| streams.records[*record].sequence_number == *identifier)
        };
        if failed.is_some() && !may_fail {
            self.problems.push(format!("the relay failed without faults: {:?}", relayed.failures));
        }
        let done = failed.map_or(Some(records.len()), index_of);
        match (shard, done) {
            (_, None) => self.problems.push("the relay names a record that is not in its batch".to_owned()),
            (Some(shard), Some(done)) => self.cursors[shard].checkpoint += done,
            (None, Some(_)) => {}
        }
    }

    /// The problems after everything has been delivered.
    pub(crate) fn check(&self, streams: &StreamSet) -> Vec<String> {
        let mut outside = self.services.lock();
        let mut problems = self.problems.clone();
        // Of the state table, the archive has the rollups that cache and event rules read. No dataset has rows of rollups.
        let is_archived = |record: &&StreamRecord| match record.source() {
            Some(SourceRollup::UserTotal | SourceRollup::UserDay) => true,
            Some(_) | None => record.table != STATE,
        };
        let archived = streams.records.iter().filter(is_archived);
        let expected: BTreeSet<&str> = archived.map(|record| record.json.as_str()).collect();
        let archived: BTreeSet<&str> = outside.lines.iter().map(String::as_str).collect();
        let (missing, unexpected) = self.damage.archive_faults(&expected, &archived);
        if missing + unexpected > 0 {
            problems
                .push(format!("the archive lacks {missing} changes and has {unexpected} unexpected lines"));
        }
        for (number, record) in streams.records.iter().enumerate() {
            for key in stale_keys(record) {
                if outside.invalidated.get(&key).is_none_or(|records| *records <= number) {
                    problems.push(format!("`{key}` was not invalidated after record {number}: {record}"));
                }
            }
        }
        if let Some(queue) = &self.queue {
            problems.extend(queue.problems.iter().cloned());
            let outside = &mut *outside;
            problems.extend(check_events(streams, &outside.events.taken, &mut outside.coverage));
        }
        problems
    }
}

impl RelaySettings {
    fn process(&self, services: &ExternalServices, time: &Arc<SimulatedTime>) -> Arc<RelayProcess> {
        let clock = PatientClock(Arc::clone(time));
        let invalidator = CacheInvalidator::new(
            Some(services.clone()),
            Some(PathTarget::Distribution(services.clone())),
            clock.clone(),
        );
        let archiver = ChangeArchiver::new(services.clone(), services.clone(), clock.clone());
        let tables = SourceTables::new(Arc::clone(&self.model), STREAMED.map(Arc::from).to_vec());
        let relay: PlainRelay = StreamRelay::new(tables, Some(invalidator), Some(archiver), clock.clone());
        let Some(events) = self.events else { return Arc::new(RelayProcess::Plain(relay)) };
        let has_queue = events.has_queue && self.bypass != Some(EventBypass::HideOrder);
        let queue = has_queue.then(|| services.clone());
        let notifier = EventNotifier::new(SimulatedTarget::all(services, self.bypass), queue, clock);
        Arc::new(RelayProcess::Notifying(relay.notifying(notifier)))
    }
}
