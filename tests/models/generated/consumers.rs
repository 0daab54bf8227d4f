//! Two consumers of all shards. A crash can interrupt each of them between any two calls to the tables.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use afterwrite_demo::recount::WorkloadOutcome;
use afterwrite_demo::rollups::RollupSet;
use afterwrite_demo::workload::Workload;
use afterwrite_functions::{AggregatedBatch, StreamAggregator};
use afterwrite_ledger::Ledger;
use afterwrite_memory::MemoryTables;
use afterwrite_model::clock::Clock as _;
use afterwrite_model::record::{Item, Timestamp};
use afterwrite_model::table::Model;
use afterwrite_tests::clock::StillClock;
use afterwrite_tests::faults::{FaultRates, FaultyTables};
use afterwrite_tests::random::SeededRandom;
use afterwrite_tests::sdk_items::sdk_item;
use afterwrite_tests::state_stream::table_names;

use super::application::{NOW, STATE, ScriptedApplication, tables};
use super::stream::TableStreams;

const CONSUMERS: usize = 2;
/// The largest number of invocations at a time.
const INVOCATIONS: usize = 3;
/// The deadlines of invocations while faults are injected.
const TIMEOUTS: [Duration; 3] = [Duration::from_millis(20), Duration::from_secs(1), Duration::from_secs(20)];
/// The deadline of invocations without faults.
const LONG_TIMEOUT: Duration = Duration::from_secs(60);

type MemoryAggregator = StreamAggregator<Arc<FaultyTables<MemoryTables>>, StillClock>;
type PendingResponse = Pin<Box<dyn Future<Output = afterwrite_model::Result<AggregatedBatch>>>>;

/// An invocation under way.
struct PendingInvocation {
    id: u64,
    consumer: usize,
    /// The shard whose checkpoint it may advance; `None` for a redelivery of old records.
    shard: Option<usize>,
    records: Vec<usize>,
    future: PendingResponse,
}

/// A workload that is written and counted while faults are injected.
pub(super) struct WorkloadRun {
    now: i64,
    random: SeededRandom,
    application: ScriptedApplication,
    model: Arc<Model>,
    tables: Arc<FaultyTables<MemoryTables>>,
    pub(super) streams: TableStreams,
    consumers: [Arc<MemoryAggregator>; CONSUMERS],
    pending: Vec<PendingInvocation>,
    next_invocation: u64,
    may_fail: bool,
    crashes: u64,
    redelivered: u64,
    failures: u64,
    repeated: u64,
}

impl WorkloadRun {
    pub(super) fn new(workload: &Workload, seed: u64, size: u64) -> Self {
        Self::at(NOW, workload, seed, size)
    }

    /// A run in which everything is written at this time.
    pub(super) fn at(now: i64, workload: &Workload, seed: u64, size: u64) -> Self {
        let mut random = SeededRandom::new(seed);
        let model = Model::load(workload.model).unwrap_or_else(|error| panic!("{error}"));
        let (model, rates) = (Arc::new(model), FaultRates { index_lag: 0, ..FaultRates::SOME });
        let tables = Arc::new(FaultyTables::new(tables(workload, now), rates, random.number()));
        let consumers = [(); CONSUMERS].map(|()| new_consumer(&model, &tables, now));
        Self {
            now,
            application: ScriptedApplication::new(now, workload, seed, size),
            random,
            model,
            tables,
            streams: TableStreams::default(),
            consumers,
            pending: Vec::new(),
            next_invocation: 0,
            may_fail: true,
            crashes: 0,
            redelivered: 0,
            failures: 0,
            repeated: 0,
        }
    }

    /// Writes and counts everything with faults; then counts the rest, and a part of the old records again, without faults.
    pub(super) fn run_to_end(&mut self) {
        while !self.application.is_done() {
            self.step();
        }
        // Half of the seeds inject faults until everything is counted.
        let is_patient = self.random.chance(500);
        while is_patient && !(self.streams.is_drained() && self.pending.is_empty()) {
            self.step();
        }
        self.tables.set_rates(FaultRates::NONE);
        while !self.pending.is_empty() {
            self.crash(0);
        }
        self.may_fail = false;
        while !self.streams.is_drained() || !self.pending.is_empty() {
            self.step();
        }
        for place in 0..self.streams.records.len() {
            if self.random.chance(200) {
                self.repeated += 1;
                self.invoke(None, vec![place]);
                while !self.pending.is_empty() {
                    self.poll(0);
                }
            }
        }
        assert!(self.streams.is_drained(), "a redelivered record writes nothing");
    }

    fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end).expect("a length");
        usize::try_from(self.random.below(end)).expect("less than a length")
    }

    fn step(&mut self) {
        match self.random.below(100) {
            0..25 => self.application.act(self.tables.inner(), &mut self.random),
            25..40 => self.deliver(),
            40..43 if self.may_fail => self.redeliver(),
            43..45 if self.may_fail && !self.pending.is_empty() => {
                let place = self.below(self.pending.len());
                self.crash(place);
            }
            _ if self.pending.is_empty() => self.deliver(),
            _ => {
                let place = self.below(self.pending.len());
                self.poll(place);
            }
        }
        self.collect();
    }

    fn collect(&mut self) {
        let changes = self.application.take_changes(self.tables.inner());
        self.streams.append(changes);
        let changes = ScriptedApplication::take_changes_of_rollups(&self.model, self.tables.inner());
        self.streams.append(changes);
    }

    /// Delivers the next batch of a random shard, of any size.
    fn deliver(&mut self) {
        let shards = &self.streams.shards;
        let open: Vec<usize> = (0..shards.len()).filter(|shard| shards[*shard].is_waiting()).collect();
        let Some(shard) = self.random.pick(&open).copied().filter(|_| self.pending.len() < INVOCATIONS)
        else {
            return;
        };
        let size = 1 + self.below(20);
        let source = &self.streams.shards[shard];
        let records: Vec<usize> = source.records[source.checkpoint..].iter().copied().take(size).collect();
        self.streams.shards[shard].in_flight = Some(self.next_invocation);
        self.invoke(Some(shard), records);
    }

    /// Delivers records that were delivered before, in a batch of another size.
    fn redeliver(&mut self) {
        if self.streams.shards.is_empty() || self.pending.len() == INVOCATIONS {
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
        // Consumers take turns, regardless of the shard.
        let consumer = usize::try_from(self.next_invocation).expect("a small number") % CONSUMERS;
        let aggregator = Arc::clone(&self.consumers[consumer]);
        let timeout = self.random.pick(&TIMEOUTS).copied().filter(|_| self.may_fail).unwrap_or(LONG_TIMEOUT);
        let future = Box::pin(async move {
            let deadline = aggregator.ledger().clock().now().plus(timeout);
            aggregator.handle(event.as_bytes(), deadline).await
        });
        self.pending.push(PendingInvocation { id: self.next_invocation, consumer, shard, records, future });
        self.next_invocation += 1;
    }

    /// Ends a consumer between two of its calls. A new one without its memory takes its place.
    fn crash(&mut self, place: usize) {
        let invocation = self.pending.swap_remove(place);
        self.crashes += 1;
        self.consumers[invocation.consumer] = new_consumer(&self.model, &self.tables, self.now);
        self.release(&invocation, 0);
    }

    /// Advances the checkpoint of the invocation's shard by `counted` records, and frees the shard for its next batch.
    fn release(&mut self, invocation: &PendingInvocation, counted: usize) {
        if let Some(shard) = invocation.shard.map(|shard| &mut self.streams.shards[shard])
            && shard.in_flight == Some(invocation.id)
        {
            shard.in_flight = None;
            shard.checkpoint += counted;
        }
    }

    fn poll(&mut self, place: usize) {
        let mut context = Context::from_waker(Waker::noop());
        let Poll::Ready(response) = self.pending[place].future.as_mut().poll(&mut context) else { return };
        let invocation = self.pending.swap_remove(place);
        let handled = response.unwrap_or_else(|error| panic!("an invocation failed as a whole: {error}"));
        let failed = handled.response.batch_item_failures.first().map(|failure| &failure.item_identifier);
        let counted = failed.map_or(invocation.records.len(), |number| {
            let is_it = |record: &usize| self.streams.records[*record].sequence_number == *number;
            invocation.records.iter().position(is_it).expect("a record of the batch")
        });
        // A rollup whose additive measures are zero counts as absent, also if another measure of it changes.
        let of_rollups =
            invocation.records.iter().filter(|place| self.streams.records[**place].table == STATE);
        assert!(handled.unmatched <= u64::try_from(of_rollups.count()).expect("a count"));
        if failed.is_some() {
            self.failures += 1;
            assert!(self.may_fail, "failed without a fault: {:?}", handled.failures);
        }
        self.release(&invocation, counted);
    }

    /// The faults that the run met, each with its number.
    pub(super) fn fault_counts(&self) -> [(&'static str, u64); 9] {
        let injected = self.tables.injected();
        [
            ("crash", self.crashes),
            ("redelivered batch", self.redelivered),
            ("failed batch, in part or whole", self.failures),
            ("redelivered single record", self.repeated),
            ("conflict", injected.conflicts),
            ("throttle", injected.throttles),
            ("unavailable", injected.unavailable),
            ("lost response", injected.lost_answers),
            ("slow call", injected.slow),
        ]
    }

    pub(super) fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// The source tables at the end.
    pub(super) fn outcome(&self) -> WorkloadOutcome {
        self.application.outcome(self.tables.inner())
    }

    /// The items of the state table.
    pub(super) fn state(&self) -> Vec<Item> {
        self.tables.inner().scan(STATE)
    }

    /// The rollups among them.
    pub(super) fn rollups(&self) -> RollupSet {
        RollupSet::of(&self.state().iter().map(sdk_item).collect::<Vec<_>>())
    }
}

fn new_consumer(
    model: &Arc<Model>,
    tables: &Arc<FaultyTables<MemoryTables>>,
    now: i64,
) -> Arc<MemoryAggregator> {
    let clock = StillClock::at(Timestamp::from_epoch_seconds(now + 60));
    let ledger = Ledger::new(
        Arc::clone(model),
        table_names(model, STATE),
        Arc::from(STATE),
        Arc::clone(tables),
        clock,
    );
    Arc::new(StreamAggregator::new(ledger))
}
