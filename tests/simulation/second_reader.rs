//! The stream's second reader: the relay, with cursors of its own over the same shards. Its cache and its delivery stream fail
//! now and then, it crashes between any two calls, and batches come twice and cut elsewhere.
//!
//! In the end every change is in the archive as it was delivered, and every key that holds a copy of an item was invalidated
//! after the item's last change.

use std::collections::{BTreeMap, BTreeSet};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use afterwrite::clock::Clock;
use afterwrite::projection::StaleKey;
use afterwrite::record::{AttributeValue, Item, Timestamp};
use afterwrite::relay::archive::Archiver;
use afterwrite::relay::invalidate::CacheInvalidator;
use afterwrite::sink::DeliveryStream;
use afterwrite::sink::ObjectStore;
use afterwrite::sink::{Cache, Distribution, DistributionError, InvalidatedKeys};
use afterwrite::{Error, ErrorKind};
use afterwrite_functions::{Relay, Relayed, SourceTables};
use afterwrite_tests::random::SeededRandom;

use super::clock::Time;
use super::evils::Evils;
use super::run::model;
use super::store::MAIN;
use super::stream::{Record, Streams, TABLES};

/// How long an invocation may take.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Goes with the true time, and waits until it has passed.
#[derive(Clone, Debug)]
struct PatientClock(Arc<Time>);

impl Clock for PatientClock {
    fn now(&self) -> Timestamp {
        self.0.now()
    }

    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send {
        let (time, until) = (Arc::clone(&self.0), self.0.now().plus(duration));
        poll_fn(move |_| if time.now() >= until { Poll::Ready(()) } else { Poll::Pending })
    }

    fn permille(&self) -> u32 {
        500
    }
}

/// What is outside the process: the cache, the delivery stream, the bucket.
#[derive(Debug)]
struct Outside {
    random: SeededRandom,
    /// Calls in a thousand that fail, or whose answer is lost.
    faults: u64,
    /// How many records the streams have had so far.
    records: usize,
    /// By key: how many records there were when it was last invalidated.
    invalidated: BTreeMap<String, usize>,
    /// Every line that was ever written.
    lines: BTreeSet<String>,
    /// What this reader has met.
    evils: Evils,
}

#[derive(Clone, Debug)]
struct Services(Arc<Mutex<Outside>>);

impl Services {
    fn lock(&self) -> MutexGuard<'_, Outside> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets others go first; whether the call has no effect, and whether its answer is lost.
    async fn fate(&self) -> (bool, bool) {
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
            outside.evils.happened("relay: call failed");
        } else if is_lost {
            outside.evils.happened("relay: answer lost");
        }
        (fails, is_lost)
    }
}

fn unavailable() -> Error {
    Error::new(ErrorKind::Unavailable, "injected")
}

impl Cache for Services {
    async fn invalidate(&self, keys: &[StaleKey], _: Timestamp, _: Duration) -> InvalidatedKeys {
        let mut answers = Vec::new();
        for key in keys {
            let (fails, is_lost) = self.fate().await;
            if !fails {
                let mut outside = self.lock();
                let records = outside.records;
                outside.invalidated.insert(key.key.clone(), records);
            }
            answers.push(if fails || is_lost { Err(unavailable()) } else { Ok(()) });
        }
        InvalidatedKeys { results: answers, commands: 0 }
    }
}

impl Distribution for Services {
    async fn invalidate(&self, _: &[String], _: &str, _: Duration) -> Result<(), DistributionError> {
        Ok(())
    }
}

impl DeliveryStream for Services {
    async fn put_batch(&self, records: &[&[u8]]) -> Result<Vec<Result<(), Error>>, Error> {
        let (fails, is_lost) = self.fate().await;
        if fails {
            return Err(unavailable());
        }
        let mut answers = Vec::new();
        for record in records {
            let (fails, is_lost) = self.fate().await;
            if !fails {
                let text = std::str::from_utf8(record).unwrap();
                assert!(text.ends_with('\n'), "lines are whole");
                self.lock().lines.extend(text.lines().map(str::to_owned));
            }
            answers.push(if fails || is_lost { Err(unavailable()) } else { Ok(()) });
        }
        if is_lost { Err(unavailable()) } else { Ok(answers) }
    }
}

impl ObjectStore for Services {
    async fn put(&self, _: &str, _: Vec<u8>) -> Result<(), Error> {
        panic!("the simulation's records are small")
    }
}

type Process = Relay<Services, Services, Services, Services, PatientClock>;

/// How far a shard has been delivered to this reader.
#[derive(Clone, Copy, Debug, Default)]
struct Cursor {
    checkpoint: usize,
    in_flight: Option<u64>,
}

struct Task {
    id: u64,
    /// The shard, unless it is a replay.
    shard: Option<usize>,
    records: Vec<usize>,
    deadline: Timestamp,
    /// Whether it may meet faults: one that began among them may have met them before they ended.
    may_fail: bool,
    future: Pin<Box<dyn Future<Output = afterwrite::Result<Relayed>>>>,
}

pub(crate) struct SecondReader {
    random: SeededRandom,
    time: Arc<Time>,
    services: Services,
    process: Arc<Process>,
    cursors: Vec<Cursor>,
    tasks: Vec<Task>,
    next_task: u64,
    pub(crate) problems: Vec<String>,
}

impl SecondReader {
    pub(crate) fn new(mut random: SeededRandom, time: Arc<Time>) -> Self {
        let outside = Outside {
            faults: if random.chance(700) { 60 } else { 0 },
            random: random.split(),
            records: 0,
            invalidated: BTreeMap::new(),
            lines: BTreeSet::new(),
            evils: Evils::default(),
        };
        let services = Services(Arc::new(Mutex::new(outside)));
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

    pub(crate) fn is_quiet(&self, streams: &Streams) -> bool {
        let is_read =
            |(shard, cursor): (&super::stream::Shard, &Cursor)| cursor.checkpoint == shard.records.len();
        self.tasks.is_empty()
            && self.cursors.len() == streams.shards.len()
            && streams.shards.iter().zip(&self.cursors).all(is_read)
    }

    /// What it has met so far.
    pub(crate) fn evils(&self) -> Evils {
        self.services.lock().evils.clone()
    }

    fn happened(&self, evil: &str) {
        self.services.lock().evils.happened(evil);
    }

    /// Begins a delivery, goes on with one, crashes, or delivers something again.
    pub(crate) fn step(&mut self, streams: &Streams, may_fail: bool) {
        self.cursors.resize(streams.shards.len(), Cursor::default());
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
                let place = self.below(self.tasks.len());
                self.happened("relay: crashed");
                self.end(place);
                self.process = process(&self.services, &self.time);
            }
            _ if self.tasks.is_empty() => self.deliver(streams, may_fail),
            _ => {
                let place = self.below(self.tasks.len());
                self.poll(place, streams);
            }
        }
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.random.below(u64::try_from(end).unwrap())).unwrap()
    }

    /// The next batch of some shard that has one, cut anywhere.
    fn deliver(&mut self, streams: &Streams, may_fail: bool) {
        let shard = self.below(streams.shards.len());
        let (source, cursor) = (&streams.shards[shard], self.cursors[shard]);
        if cursor.in_flight.is_some() || cursor.checkpoint == source.records.len() {
            return;
        }
        let until = source.records.len().min(cursor.checkpoint + 1 + self.below(12));
        let records = source.records[cursor.checkpoint..until].to_vec();
        self.cursors[shard].in_flight = Some(self.next_task);
        self.invoke(Some(shard), records, streams, may_fail);
    }

    fn replay(&mut self, streams: &Streams) {
        let shard = self.below(streams.shards.len());
        let past = &streams.shards[shard].records[..self.cursors[shard].checkpoint];
        if past.is_empty() {
            return;
        }
        let (past, from) = (past.to_vec(), self.below(past.len()));
        let until = past.len().min(from + 1 + self.below(8));
        self.happened("relay: batch delivered once more");
        self.invoke(None, past[from..until].to_vec(), streams, true);
    }

    fn invoke(&mut self, shard: Option<usize>, records: Vec<usize>, streams: &Streams, may_fail: bool) {
        let (event, process) = (streams.event(&records, false), Arc::clone(&self.process));
        let deadline = self.time.now().plus(TIMEOUT);
        let future = Box::pin(async move { process.handle(event.as_bytes(), deadline).await });
        self.tasks.push(Task { id: self.next_task, shard, records, deadline, may_fail, future });
        self.next_task += 1;
    }

    fn end(&mut self, place: usize) {
        let task = self.tasks.swap_remove(place);
        if let Some(shard) = task.shard
            && self.cursors[shard].in_flight == Some(task.id)
        {
            self.cursors[shard].in_flight = None;
        }
    }

    fn poll(&mut self, place: usize, streams: &Streams) {
        if self.time.now() > self.tasks[place].deadline.plus(Duration::from_secs(1)) {
            self.happened("relay: invocation timed out");
            return self.end(place);
        }
        let Poll::Ready(answer) =
            self.tasks[place].future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
        else {
            return;
        };
        let (id, shard, records, may_fail) = {
            let task = &self.tasks[place];
            (task.id, task.shard, task.records.clone(), task.may_fail)
        };
        self.end(place);
        let relayed = match answer {
            Ok(relayed) => relayed,
            Err(error) => {
                return self.problems.push(format!("the relay's task {id} failed as a whole: {error}"));
            }
        };
        let failed = relayed.response.batch_item_failures.first().map(|failure| &failure.item_identifier);
        let place_of = |identifier: &String| {
            records.iter().position(|record| streams.records[*record].sequence_number == *identifier)
        };
        if failed.is_some() && !may_fail {
            self.problems.push(format!("without any fault the relay failed: {:?}", relayed.failures));
        }
        let done = failed.map_or(Some(records.len()), place_of);
        match (shard, done) {
            (_, None) => self.problems.push("the relay names a record that it was not given".to_owned()),
            (Some(shard), Some(done)) => self.cursors[shard].checkpoint += done,
            (None, Some(_)) => {}
        }
    }

    /// What is not as it must be, after everything has been delivered.
    pub(crate) fn check(&self, streams: &Streams) -> Vec<String> {
        let outside = self.services.lock();
        let mut problems = self.problems.clone();
        let expected: BTreeSet<&str> = streams.records.iter().map(|record| record.json.as_str()).collect();
        let archived: BTreeSet<&str> = outside.lines.iter().map(String::as_str).collect();
        let (lost, invented) =
            (expected.difference(&archived).count(), archived.difference(&expected).count());
        if lost + invented > 0 {
            problems.push(format!("the archive lacks {lost} changes and holds {invented} that nobody made"));
        }
        for (number, record) in streams.records.iter().enumerate() {
            for key in cached_under(record) {
                if outside.invalidated.get(&key).is_none_or(|records| *records <= number) {
                    problems.push(format!("`{key}` was not invalidated after record {number}: {record}"));
                }
            }
        }
        problems
    }
}

fn process(services: &Services, time: &Arc<Time>) -> Arc<Process> {
    let (model, clock) = (model(1), PatientClock(Arc::clone(time)));
    let invalidator = CacheInvalidator::new(
        Arc::clone(&model),
        Some(services.clone()),
        Some(services.clone()),
        clock.clone(),
    );
    let archiver = Archiver::new(services.clone(), services.clone(), clock.clone());
    let tables = SourceTables::new(model, TABLES.map(Arc::from).to_vec());
    Arc::new(Relay::new(tables, Some(invalidator), Some(archiver), clock))
}

/// The keys that hold a copy of what a change has changed, said a second time.
fn cached_under(record: &Record) -> Vec<String> {
    let sort = record.sort.as_deref().unwrap_or_default();
    let parts = (record.partition.split_once('#'), sort.split_once('#'));
    match parts {
        (Some(("OWNER", owner)), Some(("PROJECT", project))) if record.table == MAIN => {
            vec![format!("project:{project}"), format!("owner:{owner}:projects")]
        }
        (Some(("PROJECT", project)), Some(("TASK", task))) if record.table == MAIN => {
            let mut keys = vec![format!("task:{project}/{task}")];
            let status = |image: &Option<Item>| image.as_ref().and_then(|item| item.get("status").cloned());
            let is_moved =
                record.old.is_none() || record.new.is_none() || status(&record.old) != status(&record.new);
            if is_moved {
                keys.push(format!("project:{project}:board"));
            }
            let is_done = |image: &Option<Item>| {
                status(image).as_ref().and_then(AttributeValue::as_text) == Some("DONE")
            };
            if is_done(&record.old) || is_done(&record.new) {
                keys.push(format!("project:{project}:done"));
            }
            keys
        }
        _ => Vec::new(),
    }
}
