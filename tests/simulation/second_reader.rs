//! The second reader of the streams: the relay, with its own cursors over the same shards. Calls to its cache and
//! delivery stream fail, its process crashes between calls, and batches are delivered twice and with other boundaries.
//!
//! At the end, the archive has every change as delivered, and every cache key with a copy of an item was invalidated
//! after the item's last change.

use std::collections::{BTreeMap, BTreeSet};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use afterwrite_functions::{RelayedBatch, SourceTables, StreamRelay};
use afterwrite_model::clock::Clock;
use afterwrite_model::projection::StaleKey;
use afterwrite_model::record::Timestamp;
use afterwrite_model::{Error, ErrorKind};
use afterwrite_relay::archive::ChangeArchiver;
use afterwrite_relay::invalidate::CacheInvalidator;
use afterwrite_services::sqs::SqsQueue;
use afterwrite_services::{
    Cache, DeliveryStream, Distribution, DistributionError, InvalidatedKeys, ObjectStore, PathTarget,
};
use afterwrite_tests::clock::reached;
use afterwrite_tests::random::SeededRandom;

use super::clock::SimulatedTime;
use super::coverage::FaultCoverage;
use super::model::model;
use super::stale_keys::stale_keys;
use super::store::STATE;
use super::stream::{STREAMED, StreamSet};

/// The time limit of an invocation.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The records of a batch at most: the cache takes one key after the other, and an invocation ends in time.
const MOST_RECORDS: usize = 200;

/// A clock without skew whose sleeps wait until the time has passed.
#[derive(Clone, Debug)]
struct PatientClock(Arc<SimulatedTime>);

impl Clock for PatientClock {
    fn now(&self) -> Timestamp {
        self.0.now()
    }

    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send {
        reached(self, self.now().plus(duration))
    }

    fn until(&self, time: Timestamp) -> impl Future<Output = ()> + Send {
        reached(self, time)
    }

    fn permille(&self) -> u32 {
        500
    }
}

/// The state outside the process: cache, delivery stream and bucket.
#[derive(Debug)]
struct ExternalState {
    random: SeededRandom,
    /// Calls per thousand that fail, and whose response is lost.
    faults: u64,
    /// The number of records in the streams so far.
    records: usize,
    /// By key: the number of records when it was last invalidated.
    invalidated: BTreeMap<String, usize>,
    /// Every line of the archive.
    lines: BTreeSet<String>,
    coverage: FaultCoverage,
}

#[derive(Clone, Debug)]
struct ExternalServices(Arc<Mutex<ExternalState>>);

impl ExternalServices {
    fn lock(&self) -> MutexGuard<'_, ExternalState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Yields to other tasks, then draws whether the call fails, and whether its response is lost.
    async fn draw_faults(&self) -> (bool, bool) {
        let mut turns = { 1 + self.lock().random.below(3) };
        poll_fn(|_| {
            turns -= 1;
            if turns == 0 { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        let mut outside = self.lock();
        let faults = outside.faults;
        let (fails, is_lost) = (outside.random.chance(faults), outside.random.chance(faults));
        if fails {
            outside.coverage.record("relay: call failed");
        } else if is_lost {
            outside.coverage.record("relay: response lost");
        }
        (fails, is_lost)
    }
}

fn unavailable() -> Error {
    Error::new(ErrorKind::Unavailable, "injected")
}

impl Cache for ExternalServices {
    async fn invalidate(&self, keys: &[StaleKey], _: Duration) -> InvalidatedKeys {
        let mut results = Vec::new();
        for key in keys {
            let (fails, is_lost) = self.draw_faults().await;
            if !fails {
                let mut outside = self.lock();
                let records = outside.records;
                outside.invalidated.insert(key.key.clone(), records);
            }
            results.push(if fails || is_lost { Err(unavailable()) } else { Ok(()) });
        }
        InvalidatedKeys { results, commands: 0 }
    }
}

impl Distribution for ExternalServices {
    async fn invalidate(&self, _: &[String], _: &str, _: Duration) -> Result<(), DistributionError> {
        Ok(())
    }
}

impl DeliveryStream for ExternalServices {
    async fn put_batch(&self, records: &[&[u8]]) -> Result<Vec<Result<(), Error>>, Error> {
        let (fails, is_lost) = self.draw_faults().await;
        if fails {
            return Err(unavailable());
        }
        let mut results = Vec::new();
        for record in records {
            let (fails, is_lost) = self.draw_faults().await;
            if !fails {
                let text = std::str::from_utf8(record).unwrap();
                assert!(text.ends_with('\n'), "a record has complete lines");
                self.lock().lines.extend(text.lines().map(str::to_owned));
            }
            results.push(if fails || is_lost { Err(unavailable()) } else { Ok(()) });
        }
        if is_lost { Err(unavailable()) } else { Ok(results) }
    }
}

impl ObjectStore for ExternalServices {
    async fn put(&self, _: &str, _: Vec<u8>) -> Result<(), Error> {
        panic!("the simulation's records fit into the delivery stream")
    }
}

type RelayProcess = StreamRelay<
    ExternalServices,
    ExternalServices,
    SqsQueue,
    ExternalServices,
    ExternalServices,
    PatientClock,
>;

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
    services: ExternalServices,
    process: Arc<RelayProcess>,
    cursors: Vec<ShardCursor>,
    tasks: Vec<RelayTask>,
    next_task: u64,
    pub(crate) problems: Vec<String>,
}

impl SecondReader {
    pub(crate) fn new(mut random: SeededRandom, time: Arc<SimulatedTime>) -> Self {
        let outside = ExternalState {
            faults: if random.chance(700) { 60 } else { 0 },
            random: random.split(),
            records: 0,
            invalidated: BTreeMap::new(),
            lines: BTreeSet::new(),
            coverage: FaultCoverage::default(),
        };
        let services = ExternalServices(Arc::new(Mutex::new(outside)));
        let process = process(&services, &time);
        Self {
            random,
            time,
            services,
            process,
            cursors: Vec::new(),
            tasks: Vec::new(),
            next_task: 0,
            problems: Vec::new(),
        }
    }

    pub(crate) fn is_idle(&self, streams: &StreamSet) -> bool {
        let is_read = |(shard, cursor): (&super::stream::StreamShard, &ShardCursor)| {
            cursor.checkpoint == shard.records.len()
        };
        self.tasks.is_empty()
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
    pub(crate) fn step(&mut self, streams: &StreamSet, may_fail: bool) {
        self.cursors.resize(streams.shards.len(), ShardCursor::default());
        let mut outside = self.services.lock();
        outside.records = streams.records.len();
        if !may_fail {
            outside.faults = 0;
        }
        drop(outside);
        match self.random.below(100) {
            0..25 => self.deliver(streams, may_fail),
            25..28 if may_fail => self.replay(streams),
            28..30 if may_fail && !self.tasks.is_empty() => {
                let index = self.below(self.tasks.len());
                self.record("relay: crashed");
                self.end(index);
                self.process = process(&self.services, &self.time);
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
        let (event, process) = (streams.event(&records, |_| false), Arc::clone(&self.process));
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
        let outside = self.services.lock();
        let mut problems = self.problems.clone();
        // No dataset has rows of rollups, so the archive has no change of the state table.
        let archived = streams.records.iter().filter(|record| record.table != STATE);
        let expected: BTreeSet<&str> = archived.map(|record| record.json.as_str()).collect();
        let archived: BTreeSet<&str> = outside.lines.iter().map(String::as_str).collect();
        let (missing, unexpected) =
            (expected.difference(&archived).count(), archived.difference(&expected).count());
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
        problems
    }
}

fn process(services: &ExternalServices, time: &Arc<SimulatedTime>) -> Arc<RelayProcess> {
    let (model, clock) = (model(1), PatientClock(Arc::clone(time)));
    let invalidator = CacheInvalidator::new(
        Some(services.clone()),
        Some(PathTarget::Distribution(services.clone())),
        clock.clone(),
    );
    let archiver = ChangeArchiver::new(services.clone(), services.clone(), clock.clone());
    let tables = SourceTables::new(model, STREAMED.map(Arc::from).to_vec());
    Arc::new(StreamRelay::new(tables, Some(invalidator), Some(archiver), clock))
}
