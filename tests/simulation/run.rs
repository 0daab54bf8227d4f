//! One run: a scheduler that lets one of many take its next step, until all is done.
//!
//! ```text
//! world ──writes──▶ tables ──changes──▶ streams ──batches──▶ consumers ──calls──▶ faults ──▶ tables
//!                                          ▲                    │                              │
//!                                          └──────── mirrors' feedback ◀──────────────────────-┘
//! ```
//!
//! A consumer's future is polled only here, and is pending at every call it makes: so between any two of its calls
//! anything else can happen, its own end included.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use afterwrite::commit::{CommitOutcome, ItemRecords, Ledger, SourceItem as LedgerItem};
use afterwrite::entity::SourceKey;
use afterwrite::record::{Timestamp, decode};
use afterwrite::table::Model;
use afterwrite_functions::{Aggregator, Handled};
use afterwrite_tests::faults::{FaultRates, FaultyTables};
use afterwrite_tests::random::SeededRandom;

use super::clock::{SkewedClock, Time};
use super::evils::Evils;
use super::options::Options;
use super::second_reader::SecondReader;
use super::store::{STATE, Store};
use super::stream::{Streams, TABLES};
use super::trace::Trace;
use super::watch::Watch;
use super::world::World;

pub(crate) type Process<S> = Aggregator<Arc<FaultyTables<S>>, SkewedClock>;
type Answering = Pin<Box<dyn Future<Output = afterwrite::Result<Answer>>>>;

/// What an invocation comes to.
#[derive(Debug)]
pub(crate) enum Answer {
    Handled(Box<Handled>),
    Reconciled(CommitOutcome),
}

/// Why something is being done.
#[derive(Clone, Debug)]
pub(crate) enum Job {
    /// A shard's next batch.
    Deliver { shard: usize },
    /// Records that were delivered before, once more.
    Replay,
    /// What lay in the on-failure bucket.
    Redrive,
    /// An item, reconciled.
    Reconcile,
}

pub(crate) struct Task {
    id: u64,
    job: Job,
    pub(crate) records: Vec<usize>,
    consumer: usize,
    generation: u64,
    deadline: Timestamp,
    /// How often it is passed over: a process that stands still while others go on.
    pause: u64,
    future: Answering,
}

struct Consumer<S> {
    process: Arc<Process<S>>,
    generation: u64,
    skew_ms: i64,
}

pub(crate) struct Run<S> {
    pub(crate) options: Options,
    pub(crate) random: SeededRandom,
    pub(crate) time: Arc<Time>,
    pub(crate) tables: Arc<FaultyTables<S>>,
    pub(crate) streams: Streams,
    consumers: Vec<Consumer<S>>,
    pub(crate) tasks: Vec<Task>,
    next_task: u64,
    /// The on-failure bucket: batches that the mapping gave up.
    pub(crate) dead: Vec<Vec<usize>>,
    pub(crate) world: World,
    pub(crate) watch: Watch,
    pub(crate) trace: Trace,
    pub(crate) evils: Evils,
    pub(crate) relay: SecondReader,
    pub(crate) problems: Vec<String>,
    /// Items of which some image may never have been counted: a later one was counted before it, or the item was reconciled.
    pub(crate) not_seen_in_order: BTreeSet<(String, Option<String>)>,
    /// Whether a failure is one more of the run's evils, or must not be any more.
    pub(crate) may_fail: bool,
}

/// The model of a generation.
pub(crate) fn model(generation: u64) -> Arc<Model> {
    static MODELS: OnceLock<[Arc<Model>; 2]> = OnceLock::new();
    let sources = [
        include_str!("../fixtures/simulation/generation-1.toml"),
        include_str!("../fixtures/simulation/generation-2.toml"),
    ];
    let parse =
        |source| Arc::new(Model::parse(source, "generation").unwrap_or_else(|error| panic!("{error}")));
    let models = MODELS.get_or_init(|| sources.map(parse));
    Arc::clone(&models[usize::from(generation == 2)])
}

impl<S: Store + 'static> Run<S> {
    pub(crate) fn new(seed: u64, is_shown: bool, store: S) -> Self {
        let mut random = SeededRandom::new(seed);
        let options = Options::draw(&mut random);
        let start =
            Timestamp::from_epoch_seconds(1_770_000_000 + i64::try_from(random.below(86_400 * 200)).unwrap());
        let time = Time::new(start, random.split());
        store.set_time(start);
        let tables = Arc::new(FaultyTables::new(store, options.rates, random.number()));
        let streams = Streams::new(start, options.malformed, &mut random);
        let world = World::new(random.split(), options.poison);
        let relay = SecondReader::new(random.split(), Arc::clone(&time));
        let mut run = Self {
            random,
            time,
            tables,
            streams,
            consumers: Vec::new(),
            tasks: Vec::new(),
            next_task: 0,
            dead: Vec::new(),
            world,
            watch: Watch::default(),
            trace: Trace::new(is_shown),
            evils: Evils::default(),
            relay,
            problems: Vec::new(),
            not_seen_in_order: BTreeSet::new(),
            may_fail: true,
            options,
        };
        run.trace.step(&[seed], || format!("seed {seed}: {:?}", run.options));
        for _ in 0..run.options.consumers {
            // Together less than the engine's tolerance, an invocation's length included.
            let skew_ms = i64::try_from(run.random.below(360_000)).unwrap() - 180_000;
            let process = run.process(1, skew_ms);
            run.consumers.push(Consumer { process, generation: 1, skew_ms });
        }
        run
    }

    fn process(&self, generation: u64, skew_ms: i64) -> Arc<Process<S>> {
        let names = TABLES.map(Arc::from).to_vec();
        let clock = SkewedClock { time: Arc::clone(&self.time), skew_ms };
        let ledger = Ledger::new(model(generation), names, Arc::from(STATE), Arc::clone(&self.tables), clock);
        Arc::new(Aggregator::new(ledger))
    }

    pub(crate) fn note(&mut self, words: &[u64], describe: impl FnOnce() -> String) {
        let now = self.time.now();
        let words: Vec<u64> = words.iter().copied().chain([now.epoch_ms().unsigned_abs()]).collect();
        self.trace.step(&words, || format!("{now}  {}", describe()));
    }

    /// Takes in what has changed: the streams' part, and what is watched.
    pub(crate) fn collect(&mut self, generation: u64) {
        for table in TABLES {
            let changes = self.tables.inner().take_changes(table);
            let first = self.streams.records.len();
            self.streams.append(table, changes, &mut self.random);
            if self.trace.is_shown() {
                for (number, record) in self.streams.records.iter().enumerate().skip(first) {
                    println!("        record {number}: {record}");
                }
            }
        }
        for change in self.tables.inner().take_changes(STATE) {
            self.watch.observe(&change, generation);
            if self.trace.is_shown() {
                println!("        state: {:?} -> {:?}", change.old, change.new);
            }
        }
        self.problems.append(&mut self.watch.problems);
    }

    fn count(&self, chance: u64) -> usize {
        usize::try_from(chance).unwrap_or(0)
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        let below = self.random.below(u64::try_from(end).unwrap());
        self.count(below)
    }

    /// Time passes, a little or much.
    pub(crate) fn pass(&mut self, by: Duration) {
        if by > Duration::from_secs(300) {
            // No invocation lives that long.
            while !self.tasks.is_empty() {
                self.end_task(0, "timed out");
            }
        }
        self.time.advance(by);
        self.tables.inner().set_time(self.time.now());
    }

    fn spawn(
        &mut self,
        job: Job,
        records: Vec<usize>,
        future: impl FnOnce(Arc<Process<S>>, Timestamp) -> Answering,
    ) -> u64 {
        let consumer = self.below(self.consumers.len());
        let timeout = self.random.pick(&[3, 20, 60, 60, 240]).copied().unwrap_or(60);
        let deadline = self.time.now().plus(Duration::from_secs(if self.may_fail { timeout } else { 240 }));
        let Consumer { process, generation, skew_ms } = &self.consumers[consumer];
        let own_deadline = Timestamp::from_epoch_ms(deadline.epoch_ms() + skew_ms);
        let (generation, future) = (*generation, future(Arc::clone(process), own_deadline));
        let id = self.next_task;
        self.next_task += 1;
        self.note(&[1, id, u64::try_from(records.len()).unwrap()], || {
            format!("task {id} on consumer {consumer} (generation {generation}): {job:?} {records:?}")
        });
        self.tasks.push(Task { id, job, records, consumer, generation, deadline, pause: 0, future });
        id
    }

    /// An invocation with these records.
    pub(crate) fn invoke(&mut self, job: Job, records: Vec<usize>) -> u64 {
        let event = self.streams.event(&records, self.options.malformed > 0);
        self.spawn(job, records, |process, deadline| {
            Box::pin(async move {
                Ok(Answer::Handled(Box::new(process.handle(event.as_bytes(), deadline).await?)))
            })
        })
    }

    /// Notes that not every image of these records' items need be seen by `max` and `min`.
    pub(crate) fn may_be_unseen(&mut self, records: impl IntoIterator<Item = usize>) {
        for record in records {
            let record = &self.streams.records[record];
            self.not_seen_in_order.insert((record.partition.clone(), record.sort.clone()));
        }
    }

    /// The same for all that has not been delivered yet.
    pub(crate) fn undelivered_may_be_unseen(&mut self) {
        let rest = self.streams.shards.iter().flat_map(|shard| shard.records[shard.checkpoint..].to_vec());
        let rest: Vec<usize> = rest.collect();
        self.may_be_unseen(rest);
    }

    /// Reconciles the item that a record is of.
    pub(crate) fn reconcile(&mut self, record: usize) {
        if self.may_fail {
            self.may_be_unseen([record]);
        }
        let event = self.streams.event(&[record], false);
        self.spawn(Job::Reconcile, vec![record], |process, deadline| {
            Box::pin(async move {
                let ledger = process.ledger();
                let batch = decode(event.as_bytes(), &ledger.model().attributes)?;
                let Some(Ok(record)) = batch.records.first() else {
                    return Ok(Answer::Reconciled(CommitOutcome::default()));
                };
                let table = ledger.table_index(&record.table).unwrap();
                let source = SourceKey::of_keys(ledger.model(), table, &record.keys).unwrap();
                let Some(identity) = source.identify(ledger.model()) else {
                    return Ok(Answer::Reconciled(CommitOutcome::default()));
                };
                let item = LedgerItem { source: &source, identity: &identity, records: ItemRecords::new() };
                Ok(Answer::Reconciled(ledger.reconcile(vec![item], record.position.label(), deadline).await?))
            })
        });
    }

    /// Lets one task go on to its next call; gives its answer if it is done.
    pub(crate) fn poll(&mut self, place: usize) {
        let now = self.time.now();
        let (id, generation) = (self.tasks[place].id, self.tasks[place].generation);
        if now > self.tasks[place].deadline.plus(Duration::from_secs(5)) {
            self.end_task(place, "timed out");
            return;
        }
        if self.tasks[place].pause > 0 {
            self.tasks[place].pause -= 1;
            return;
        }
        if self.may_fail && self.random.chance(80) {
            self.tasks[place].pause = self.random.below(40);
        }
        self.note(&[3, id], || format!("task {id}"));
        let answer = self.tasks[place].future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        self.tables.inner().set_time(self.time.now());
        self.collect(generation);
        if let Poll::Ready(answer) = answer {
            let task = self.tasks.swap_remove(place);
            self.complete(task, answer);
        }
    }

    /// A task ends without an answer: its process crashed, or took too long.
    pub(crate) fn end_task(&mut self, place: usize, why: &str) {
        let task = self.tasks.swap_remove(place);
        self.note(&[4, task.id], || format!("task {} {why}", task.id));
        self.restart(task.consumer, task.generation);
        match task.job {
            Job::Deliver { shard } => self.failed_delivery(shard, task.id, 0, &task.records),
            Job::Redrive => self.dead.push(task.records),
            Job::Replay | Job::Reconcile => {}
        }
    }

    /// A new process in place of a consumer's: it knows nothing of what the old one had learnt.
    pub(crate) fn restart(&mut self, consumer: usize, generation: u64) {
        let generation = generation.max(self.consumers[consumer].generation);
        let skew_ms = self.consumers[consumer].skew_ms;
        let process = self.process(generation, skew_ms);
        self.consumers[consumer] = Consumer { process, generation, skew_ms };
    }

    /// Every consumer, from now on, with the newest model.
    pub(crate) fn upgrade_all(&mut self) {
        for consumer in 0..self.consumers.len() {
            self.restart(consumer, 2);
        }
    }

    pub(crate) fn upgrade_one(&mut self) {
        let consumer = self.below(self.consumers.len());
        self.evils.happened("model replaced while the other runs");
        self.note(&[5], || format!("consumer {consumer} gets generation 2"));
        self.restart(consumer, 2);
    }

    fn complete(&mut self, task: Task, answer: afterwrite::Result<Answer>) {
        let Task { id, job, records, .. } = task;
        let handled = match answer {
            Ok(Answer::Handled(handled)) => handled,
            Ok(Answer::Reconciled(outcome)) => {
                self.note(&[6, id], || format!("task {id} reconciled: {:?}", outcome.failures));
                return self.reconciled(records[0], &outcome);
            }
            Err(error) => {
                self.problems.push(format!("an invocation failed as a whole: {error}"));
                return;
            }
        };
        let failed = self.first_failed(&records, &handled);
        self.note(&[7, id, u64::try_from(failed.unwrap_or(9999)).unwrap()], || {
            let why: Vec<String> = handled.failures.iter().map(|failure| failure.error.to_string()).collect();
            format!("task {id} answers: failed from {failed:?} on: {why:?}")
        });
        let counted = records.get(..failed.unwrap_or(records.len())).unwrap_or_default();
        for record in counted {
            let now = self.time.now();
            self.streams.records[*record].first_counted_at.get_or_insert(now);
        }
        if !self.may_fail && failed.is_some() {
            let why: Vec<String> = handled.failures.iter().map(|failure| failure.error.to_string()).collect();
            let labels: Vec<String> =
                records.iter().map(|record| self.streams.records[*record].position()).collect();
            self.problems.push(format!("without any fault, records failed ({job:?} {labels:?}): {why:?}"));
        }
        match (job, failed) {
            (Job::Deliver { shard }, failed) => self.delivered(shard, id, failed, &records),
            (Job::Redrive, Some(failed)) => self.dead.push(records[failed..].to_vec()),
            (Job::Redrive, None) | (Job::Replay | Job::Reconcile, _) => {}
        }
    }

    fn reconciled(&mut self, record: usize, outcome: &CommitOutcome) {
        if !self.may_fail && !outcome.failures.is_empty() {
            let position = self.streams.records[record].position();
            self.problems
                .push(format!("without any fault, reconciling {position} failed: {:?}", outcome.failures));
        }
    }

    /// The place in the batch from which on its records come again. The answer must make sense.
    fn first_failed(&mut self, records: &[usize], handled: &Handled) -> Option<usize> {
        let failures = &handled.response.batch_item_failures;
        if failures.len() > 1 || failures.is_empty() != handled.failures.is_empty() {
            self.problems.push(format!("an answer of {} identifiers", failures.len()));
        }
        let identifier = &failures.first()?.item_identifier;
        if identifier.is_empty() {
            return Some(0);
        }
        let place =
            records.iter().position(|record| self.streams.records[*record].sequence_number == *identifier);
        if place.is_none() {
            self.problems.push(format!("the answer names {identifier}, which the batch does not hold"));
        }
        place
    }

    /// A batch was answered: the shard moves on to the first record that failed.
    fn delivered(&mut self, shard: usize, task: u64, failed: Option<usize>, records: &[usize]) {
        if self.streams.shards[shard].in_flight != Some(task) {
            return; // The mapping has long given up on it.
        }
        match failed {
            Some(failed) => self.failed_delivery(shard, task, failed, records),
            None => {
                let shard = &mut self.streams.shards[shard];
                shard.checkpoint += records.len();
                (shard.in_flight, shard.attempts) = (None, 0);
            }
        }
    }

    fn failed_delivery(&mut self, shard: usize, task: u64, failed: usize, records: &[usize]) {
        let is_bisected = self.random.chance(600);
        let retries = self.options.retries;
        let shard = &mut self.streams.shards[shard];
        if shard.in_flight != Some(task) {
            return;
        }
        shard.in_flight = None;
        shard.checkpoint += failed;
        shard.attempts = if failed > 0 { 1 } else { shard.attempts + 1 };
        if retries.is_some_and(|retries| shard.attempts > retries) {
            let given_up = if is_bisected { &records[failed..=failed] } else { &records[failed..] };
            shard.checkpoint += given_up.len();
            shard.attempts = 0;
            self.dead.push(given_up.to_vec());
            self.may_be_unseen(given_up.to_vec());
            self.evils.happened("batch given up");
            self.note(&[8], || format!("to the on-failure bucket: {given_up:?}"));
        }
    }

    /// Starts a shard's next batch, cut anywhere.
    pub(crate) fn deliver(&mut self, shard: usize) {
        let size = 1 + self.below(12);
        let Some(source) = self.streams.shards.get(shard) else { return };
        let from = source.checkpoint;
        let until = source.records.len().min(from + size);
        if source.in_flight.is_some() || from == until {
            return;
        }
        let records = source.records[from..until].to_vec();
        let task = self.invoke(Job::Deliver { shard }, records);
        self.streams.shards[shard].in_flight = Some(task);
    }

    /// The faults end; what fails from now on is wrong.
    pub(crate) fn be_kind(&mut self) {
        self.tables.set_rates(FaultRates::NONE);
        self.may_fail = false;
    }
}
