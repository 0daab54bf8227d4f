//! One run: a scheduler that lets one of many tasks take its next step, until all are done.
//!
//! ```text
//! application ──writes──▶ tables ──changes──▶ streams ──batches──▶ consumers ──calls──▶ faults ──▶ tables
//!                                                ▲                    │                              │
//!                                                └──────────── mirrored copies ◀────────────────────┘
//! ```
//!
//! A consumer's future is polled only here and is pending at every call, so anything else can happen between two of its
//! calls, including a crash of its process.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use afterwrite_functions::{AggregatedBatch, StreamAggregator};
use afterwrite_ledger::{CommitOutcome, ItemRecords, Ledger, PoisonPolicy, SourceItem as LedgerItem};
use afterwrite_model::entity::SourceKey;
use afterwrite_model::record::{Timestamp, decode};
use afterwrite_tests::faults::{FaultRates, FaultyTables};
use afterwrite_tests::random::SeededRandom;

use super::application::SimulatedApplication;
use super::clock::{SimulatedTime, SkewedClock};
use super::coverage::FaultCoverage;
use super::options::RunOptions;
use super::second_reader::SecondReader;
use super::state::OverwrittenMeasure;
use super::state_keys::StateKey;
use super::store::{STATE, Store};
use super::stream::{STREAMED, StreamSet};
use super::trace::RunTrace;
use super::watcher::StateWatcher;

pub(crate) type LedgerProcess<S> = StreamAggregator<Arc<FaultyTables<S>>, SkewedClock>;

pub(crate) type TaskFuture = Pin<Box<dyn Future<Output = afterwrite_model::Result<TaskResult>>>>;

/// The result of a task.
#[derive(Debug)]
pub(crate) enum TaskResult {
    AggregatedBatch(Box<AggregatedBatch>),
    Reconciled(CommitOutcome),
}

/// The reason for a task.
#[derive(Clone, Debug)]
pub(crate) enum TaskKind {
    /// A shard's next batch.
    Deliver { shard: usize },
    /// Records that were delivered before.
    RecordingReplay,
    /// Records of the on-failure bucket.
    Redrive,
    /// A reconciliation of an item.
    Reconcile,
}

pub(crate) struct ConsumerTask {
    pub(crate) id: u64,
    pub(crate) kind: TaskKind,
    pub(crate) records: Vec<usize>,
    /// The entries that it wrote and that name a rollup that their item has left.
    pub(crate) left: Vec<StateKey>,
    pub(crate) consumer: usize,
    pub(crate) generation: u64,
    pub(crate) deadline: Timestamp,
    /// The number of turns to skip: a process that pauses while others continue.
    pub(crate) pause: u64,
    /// How often it was continued after its deadline.
    pub(crate) polls_after_deadline: u32,
    /// The writes rejected before it began.
    pub(crate) rejected_before: u64,
    pub(crate) future: TaskFuture,
}

struct ConsumerProcess<S> {
    process: Arc<LedgerProcess<S>>,
    generation: u64,
    skew_ms: i64,
}

pub(crate) struct SimulationRun<S> {
    pub(crate) options: RunOptions,
    pub(crate) random: SeededRandom,
    pub(crate) time: Arc<SimulatedTime>,
    pub(crate) tables: Arc<FaultyTables<S>>,
    pub(crate) streams: StreamSet,
    consumers: Vec<ConsumerProcess<S>>,
    pub(crate) tasks: Vec<ConsumerTask>,
    next_task: u64,
    /// The on-failure bucket: batches whose retries are used up.
    pub(crate) failed_batches: Vec<Vec<usize>>,
    /// The records that were parked.
    pub(crate) parked_records: BTreeSet<usize>,
    /// The records whose item must be reconciled again, because the reconciliation was not completed.
    pub(crate) reconcile_again: BTreeSet<usize>,
    /// The entries that name a rollup that their item has left, and whose author may not have refreshed its mirrors.
    pub(crate) unrefreshed: BTreeSet<StateKey>,
    pub(crate) application: SimulatedApplication,
    pub(crate) watcher: StateWatcher,
    pub(crate) trace: RunTrace,
    pub(crate) coverage: FaultCoverage,
    pub(crate) relay: SecondReader,
    pub(crate) problems: Vec<String>,
    /// Items with an image that may never be counted, because a later one was counted first or the item was reconciled.
    pub(crate) items_with_unseen_images: BTreeSet<(String, Option<String>)>,
    /// The measure that is overwritten by text, if there is one.
    pub(crate) overwritten: Option<OverwrittenMeasure>,
    /// The writes of the application, TTL included, to its items.
    pub(crate) application_writes: u64,
    /// Our own writes to the application's items.
    pub(crate) own_writes: u64,
    /// Whether faults are injected.
    pub(crate) has_faults: bool,
    /// Whether failures are allowed; without faults they are problems.
    pub(crate) may_fail: bool,
}

impl<S: Store + 'static> SimulationRun<S> {
    pub(crate) fn new(seed: u64, is_traced: bool, store: S) -> Self {
        let mut random = SeededRandom::new(seed);
        let options = RunOptions::draw(seed, &mut random);
        let start =
            Timestamp::from_epoch_seconds(1_770_000_000 + i64::try_from(random.below(86_400 * 200)).unwrap());
        let time = SimulatedTime::new(start, random.split());
        store.set_time(start);
        let tables = Arc::new(FaultyTables::new(store, options.rates, random.number()));
        let streams = StreamSet::new(start, &options, &mut random);
        let application = SimulatedApplication::new(random.split(), &options);
        let relay = SecondReader::new(random.split(), Arc::clone(&time), tables.inner(), &options);
        let mut run = Self {
            random,
            time,
            tables,
            streams,
            consumers: Vec::new(),
            tasks: Vec::new(),
            next_task: 0,
            failed_batches: Vec::new(),
            parked_records: BTreeSet::new(),
            reconcile_again: BTreeSet::new(),
            unrefreshed: BTreeSet::new(),
            application,
            watcher: StateWatcher::default(),
            trace: RunTrace::new(is_traced),
            coverage: FaultCoverage::default(),
            relay,
            problems: Vec::new(),
            items_with_unseen_images: BTreeSet::new(),
            overwritten: None,
            application_writes: 0,
            own_writes: 0,
            has_faults: true,
            may_fail: true,
            options,
        };
        run.trace.step(&[seed], || format!("seed {seed}: {:?}", run.options));
        for _ in 0..run.options.consumers {
            // Two skews and an invocation's duration add up to less than the product's tolerance.
            let skew_ms = i64::try_from(run.random.below(360_000)).unwrap() - 180_000;
            let process = run.process(1, skew_ms);
            run.consumers.push(ConsumerProcess { process, generation: 1, skew_ms });
        }
        run
    }

    fn process(&self, generation: u64, skew_ms: i64) -> Arc<LedgerProcess<S>> {
        let (names, model) = (STREAMED.map(Arc::from).to_vec(), self.tables.inner().model(generation));
        let clock = SkewedClock { time: Arc::clone(&self.time), skew_ms };
        let ledger = Ledger::new(model, names, Arc::from(STATE), Arc::clone(&self.tables), clock);
        let policy = if self.options.parks { PoisonPolicy::Park } else { PoisonPolicy::Fail };
        Arc::new(StreamAggregator::new(ledger.on_poison(policy)))
    }

    pub(crate) fn note(&mut self, words: &[u64], describe: impl FnOnce() -> String) {
        let now = self.time.now();
        let words: Vec<u64> = words.iter().copied().chain([now.epoch_ms().unsigned_abs()]).collect();
        self.trace.step(&words, || format!("{now}  {}", describe()));
    }

    /// The newest generation of the model that a consumer has.
    pub(crate) fn newest_generation(&self) -> u64 {
        self.consumers.iter().map(|consumer| consumer.generation).max().unwrap_or(1)
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.random.below(u64::try_from(end).unwrap())).unwrap()
    }

    pub(crate) fn spawn(
        &mut self,
        kind: TaskKind,
        records: Vec<usize>,
        future: impl FnOnce(Arc<LedgerProcess<S>>, Timestamp) -> TaskFuture,
    ) -> u64 {
        let consumer = self.below(self.consumers.len());
        let timeout = self.random.pick(&[3, 20, 60, 60, 240]).copied().unwrap_or(60);
        let deadline = self.time.now().plus(Duration::from_secs(if self.may_fail { timeout } else { 240 }));
        let ConsumerProcess { process, generation, skew_ms } = &self.consumers[consumer];
        let own_deadline = Timestamp::from_epoch_ms(deadline.epoch_ms() + skew_ms);
        let (generation, future) = (*generation, future(Arc::clone(process), own_deadline));
        let id = self.next_task;
        self.next_task += 1;
        self.note(&[1, id, u64::try_from(records.len()).unwrap()], || {
            format!("task {id} on consumer {consumer} (generation {generation}): {kind:?} {records:?}")
        });
        let rejected_before = self.tables.injected().rejected;
        self.tasks.push(ConsumerTask {
            id,
            kind,
            records,
            left: Vec::new(),
            consumer,
            generation,
            deadline,
            pause: 0,
            polls_after_deadline: 0,
            rejected_before,
            future,
        });
        id
    }

    /// Starts an invocation with these records.
    pub(crate) fn invoke(&mut self, kind: TaskKind, records: Vec<usize>) -> u64 {
        let event = self.event(&records);
        self.spawn(kind, records, |process, deadline| {
            Box::pin(async move {
                Ok(TaskResult::AggregatedBatch(Box::new(process.handle(event.as_bytes(), deadline).await?)))
            })
        })
    }

    /// The event of the next invocation. While a decoder that reads the expiries of kept items replaces the other, every second
    /// invocation has it, so that two deliveries of one batch differ.
    fn event(&mut self, records: &[usize]) -> String {
        if self.options.malformed == 0 {
            return self.streams.event(records, |_| false);
        }
        if !self.options.mixed_decoders || !self.next_task.is_multiple_of(2) {
            return self.streams.event(records, |_| true);
        }
        if records.iter().any(|record| self.streams.records[*record].is_corrected()) {
            self.coverage.record("malformed record read by a corrected decoder");
        }
        self.streams.event(records, |record| !record.is_corrected())
    }

    /// Allows `max` and `min` to miss images of these records' items.
    pub(crate) fn allow_unseen_images(&mut self, records: impl IntoIterator<Item = usize>) {
        for record in records {
            let record = &self.streams.records[record];
            self.items_with_unseen_images.insert((record.partition.clone(), record.sort.clone()));
        }
    }

    /// Allows `max` and `min` to miss images of all undelivered records' items.
    pub(crate) fn allow_unseen_undelivered_images(&mut self) {
        let rest = self.streams.shards.iter().flat_map(|shard| shard.records[shard.checkpoint..].to_vec());
        let rest: Vec<usize> = rest.collect();
        self.allow_unseen_images(rest);
    }

    /// Starts a reconciliation of a record's item.
    pub(crate) fn reconcile(&mut self, record: usize) {
        if self.may_fail {
            self.allow_unseen_images([record]);
        }
        let event = self.streams.event(&[record], |_| false);
        self.spawn(TaskKind::Reconcile, vec![record], |process, deadline| {
            Box::pin(async move {
                let ledger = process.ledger();
                let batch = decode(event.as_bytes(), &ledger.model().attributes)?;
                let Some(Ok(record)) = batch.records.first() else {
                    return Ok(TaskResult::Reconciled(CommitOutcome::default()));
                };
                let table = ledger.model().table_deployed_as(ledger.table_names(), &record.table).unwrap();
                let source = SourceKey::of_keys(ledger.model(), table, &record.keys).unwrap();
                let candidates = source.candidates(ledger.model());
                if candidates.is_empty() {
                    return Ok(TaskResult::Reconciled(CommitOutcome::default()));
                }
                let item =
                    LedgerItem { source: &source, candidates: &candidates, records: ItemRecords::new() };
                Ok(TaskResult::Reconciled(
                    ledger.reconcile(vec![item], record.position.label(), deadline).await?,
                ))
            })
        });
    }

    /// Replaces a consumer's process by a new one with empty caches.
    pub(crate) fn restart(&mut self, consumer: usize, generation: u64) {
        let generation = generation.max(self.consumers[consumer].generation);
        let skew_ms = self.consumers[consumer].skew_ms;
        let process = self.process(generation, skew_ms);
        self.consumers[consumer] = ConsumerProcess { process, generation, skew_ms };
    }

    /// Restarts every consumer with the newest model.
    pub(crate) fn upgrade_all(&mut self) {
        for consumer in 0..self.consumers.len() {
            self.restart(consumer, 2);
        }
    }

    pub(crate) fn upgrade_one(&mut self) {
        let consumer = self.below(self.consumers.len());
        self.coverage.record("model replaced while the other runs");
        self.note(&[5], || format!("consumer {consumer} starts with generation 2"));
        self.restart(consumer, 2);
    }

    /// Ends the faults; failures are problems from now on.
    pub(crate) fn end_faults(&mut self) {
        self.tables.set_rates(FaultRates::NONE);
        self.may_fail = false;
    }
}
