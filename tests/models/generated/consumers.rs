//! Two consumers of all shards, interrupted between any two of their calls.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use afterwrite::commit::{Clock as _, Ledger};
use afterwrite::record::{Item, Timestamp};
use afterwrite::sink::memory::MemoryTables;
use afterwrite::table::Model;
use afterwrite_demo::recount::WorkloadOutcome;
use afterwrite_demo::rollups::RollupSet;
use afterwrite_demo::workload::Workload;
use afterwrite_functions::{Aggregator, Handled};
use afterwrite_tests::clock::StillClock;
use afterwrite_tests::faults::{Faulty, Rates};
use afterwrite_tests::random::Random;

use super::application::{Application, NOW, STATE, tables};
use super::stream::Streams;
use super::values::sdk_item_of;

const CONSUMERS: usize = 2;
/// Invocations at a time.
const TASKS: usize = 3;
/// How long an invocation may take, amid faults and without any.
const TIMEOUTS: [Duration; 3] = [Duration::from_millis(20), Duration::from_secs(1), Duration::from_secs(20)];
const PATIENCE: Duration = Duration::from_secs(60);

type Process = Aggregator<Arc<Faulty<MemoryTables>>, StillClock>;
type Answering = Pin<Box<dyn Future<Output = afterwrite::Result<Handled>>>>;

/// An invocation under way.
struct Task {
    id: u64,
    consumer: usize,
    /// The shard whose checkpoint it may move; none if it only delivers something again.
    shard: Option<usize>,
    records: Vec<usize>,
    future: Answering,
}

/// A workload, written, counted and disturbed.
pub(super) struct Run {
    now: i64,
    random: Random,
    application: Application,
    model: Arc<Model>,
    tables: Arc<Faulty<MemoryTables>>,
    pub(super) streams: Streams,
    consumers: [Arc<Process>; CONSUMERS],
    tasks: Vec<Task>,
    next_task: u64,
    may_fail: bool,
    crashes: u64,
    redelivered: u64,
    failures: u64,
    again: u64,
}

impl Run {
    pub(super) fn new(workload: &Workload, seed: u64, size: u64) -> Self {
        Self::at(NOW, workload, seed, size)
    }

    /// A run of which everything is written at this time.
    pub(super) fn at(now: i64, workload: &Workload, seed: u64, size: u64) -> Self {
        let mut random = Random::new(seed);
        let model = Model::load(workload.model).unwrap_or_else(|error| panic!("{error}"));
        let (model, rates) = (Arc::new(model), Rates { index_lag: 0, ..Rates::SOME });
        let tables = Arc::new(Faulty::new(tables(workload, now), rates, random.number()));
        let consumers = [(); CONSUMERS].map(|()| process(&model, &tables, now));
        Self {
            now,
            application: Application::new(now, workload, seed, size),
            random,
            model,
            tables,
            streams: Streams::default(),
            consumers,
            tasks: Vec::new(),
            next_task: 0,
            may_fail: true,
            crashes: 0,
            redelivered: 0,
            failures: 0,
            again: 0,
        }
    }

    /// Writes and counts everything amid faults; then without any what is left, and a part of all old records once more.
    pub(super) fn go(&mut self) {
        while !self.application.is_done() {
            self.step();
        }
        // Half of the seeds are counted to the end amid faults as well.
        let is_patient = self.random.chance(500);
        while is_patient && !(self.streams.is_drained() && self.tasks.is_empty()) {
            self.step();
        }
        self.tables.set_rates(Rates::NONE);
        while !self.tasks.is_empty() {
            self.crash(0);
        }
        self.may_fail = false;
        while !self.streams.is_drained() || !self.tasks.is_empty() {
            self.step();
        }
        for place in 0..self.streams.records.len() {
            if self.random.chance(200) {
                self.again += 1;
                self.invoke(None, vec![place]);
                while !self.tasks.is_empty() {
                    self.poll(0);
                }
            }
        }
        assert!(self.streams.is_drained(), "what comes again writes nothing");
    }

    fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end).expect("a length");
        usize::try_from(self.random.below(end)).expect("less than a length")
    }

    fn step(&mut self) {
        match self.random.below(100) {
            0..25 => self.application.act(self.tables.inner(), &mut self.random),
            25..40 => self.deliver(),
            40..43 if self.may_fail => self.deliver_again(),
            43..45 if self.may_fail && !self.tasks.is_empty() => {
                let place = self.below(self.tasks.len());
                self.crash(place);
            }
            _ if self.tasks.is_empty() => self.deliver(),
            _ => {
                let place = self.below(self.tasks.len());
                self.poll(place);
            }
        }
        self.collect();
    }

    fn collect(&mut self) {
        let changes = self.application.changes(self.tables.inner());
        self.streams.append(changes);
    }

    /// The next batch of some shard, cut anywhere.
    fn deliver(&mut self) {
        let waiting = |shard: &super::stream::Shard| {
            shard.in_flight.is_none() && shard.checkpoint < shard.records.len()
        };
        let shards = &self.streams.shards;
        let open: Vec<usize> = (0..shards.len()).filter(|shard| waiting(&shards[*shard])).collect();
        let Some(shard) = self.random.pick(&open).copied().filter(|_| self.tasks.len() < TASKS) else {
            return;
        };
        let size = 1 + self.below(20);
        let source = &self.streams.shards[shard];
        let records: Vec<usize> = source.records[source.checkpoint..].iter().copied().take(size).collect();
        self.streams.shards[shard].in_flight = Some(self.next_task);
        self.invoke(Some(shard), records);
    }

    /// Something that was delivered before, cut elsewhere.
    fn deliver_again(&mut self) {
        if self.streams.shards.is_empty() || self.tasks.len() == TASKS {
            return;
        }
        let shard = self.below(self.streams.shards.len());
        let past = self.streams.shards[shard].records[..self.streams.shards[shard].checkpoint].to_vec();
        if past.is_empty() {
            return;
        }
        let from = self.below(past.len());
        let size = 1 + self.below(8);
        self.redelivered += 1;
        self.invoke(None, past[from..].iter().copied().take(size).collect());
    }

    fn invoke(&mut self, shard: Option<usize>, records: Vec<usize>) {
        let event = self.streams.event(&records);
        // One after the other, whoever had the last batch.
        let consumer = usize::try_from(self.next_task).expect("a small number") % CONSUMERS;
        let process = Arc::clone(&self.consumers[consumer]);
        let timeout = self.random.pick(&TIMEOUTS).copied().filter(|_| self.may_fail).unwrap_or(PATIENCE);
        let future = Box::pin(async move {
            let deadline = process.ledger().clock().now().plus(timeout);
            process.handle(event.as_bytes(), deadline).await
        });
        self.tasks.push(Task { id: self.next_task, consumer, shard, records, future });
        self.next_task += 1;
    }

    /// A process ends between two calls; another takes its place and knows nothing of it.
    fn crash(&mut self, place: usize) {
        let task = self.tasks.swap_remove(place);
        self.crashes += 1;
        self.consumers[task.consumer] = process(&self.model, &self.tables, self.now);
        self.release(&task, 0);
    }

    /// The shard moves on by so many records, and may be delivered further.
    fn release(&mut self, task: &Task, counted: usize) {
        if let Some(shard) = task.shard.map(|shard| &mut self.streams.shards[shard])
            && shard.in_flight == Some(task.id)
        {
            shard.in_flight = None;
            shard.checkpoint += counted;
        }
    }

    fn poll(&mut self, place: usize) {
        let mut context = Context::from_waker(Waker::noop());
        let Poll::Ready(answer) = self.tasks[place].future.as_mut().poll(&mut context) else { return };
        let task = self.tasks.swap_remove(place);
        let handled = answer.unwrap_or_else(|error| panic!("an invocation failed as a whole: {error}"));
        let failed = handled.response.batch_item_failures.first().map(|failure| &failure.item_identifier);
        let counted = failed.map_or(task.records.len(), |number| {
            let is_it = |record: &usize| self.streams.records[*record].sequence_number == *number;
            task.records.iter().position(is_it).expect("a record of the batch")
        });
        assert_eq!(handled.unmatched, 0);
        if failed.is_some() {
            self.failures += 1;
            assert!(self.may_fail, "without any fault: {:?}", handled.failures);
        }
        self.release(&task, counted);
    }

    /// What happened, and how often.
    pub(super) fn met(&self) -> [(&'static str, u64); 9] {
        let injected = self.tables.injected();
        [
            ("crash", self.crashes),
            ("batch delivered again", self.redelivered),
            ("batch that failed in part or whole", self.failures),
            ("old record alone again", self.again),
            ("conflict", injected.conflicts),
            ("throttle", injected.throttles),
            ("unavailable", injected.unavailable),
            ("lost answer", injected.lost_answers),
            ("slow call", injected.slow),
        ]
    }

    pub(super) fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// How the workload ended.
    pub(super) fn outcome(&self) -> WorkloadOutcome {
        self.application.outcome(self.tables.inner())
    }

    /// The items of the state table.
    pub(super) fn state(&self) -> Vec<Item> {
        self.tables.inner().scan(STATE)
    }

    /// The rollups among them.
    pub(super) fn rollups(&self) -> RollupSet {
        RollupSet::of(&self.state().iter().map(sdk_item_of).collect::<Vec<_>>())
    }
}

fn process(model: &Arc<Model>, tables: &Arc<Faulty<MemoryTables>>, now: i64) -> Arc<Process> {
    let names = model.tables.iter().map(|table| Arc::clone(&table.name)).collect();
    let clock = StillClock::at(Timestamp::from_epoch_seconds(now + 60));
    let ledger = Ledger::new(Arc::clone(model), names, Arc::from(STATE), Arc::clone(tables), clock);
    Arc::new(Aggregator::new(ledger))
}
