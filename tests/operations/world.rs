//! A demo's application on tables in memory, whose writes and deliveries happen between any two requests of a job.
//!
//! The application has written for some time before its stream was read. Then the functions start, and it goes on writing.

mod recounted;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use afterwrite_demo::item::TableItem;
use afterwrite_demo::recount::WorkloadOutcome;
use afterwrite_demo::script::{ScriptStep, has_expired};
use afterwrite_demo::workload::Workload;
use afterwrite_demo::workloads;
use afterwrite_functions::StreamAggregator;
use afterwrite_ledger::Ledger;
use afterwrite_ledger::tables::{
    ConsumedUnits, IndexPage, IndexQuery, ReadSnapshot, ScanPage, ScanRequest, TableScan, TableSummary,
    Tables, TransactError, WriteError,
};
use afterwrite_local::dynamodb::TableDefinition as LocalTable;
use afterwrite_memory::{IndexDefinition, MEMORY_STREAM_LABEL, MemoryTables, TableDefinition, item_key};
use afterwrite_model::Error;
use afterwrite_model::clock::Clock as _;
use afterwrite_model::effect::{AttributeChange, ItemKey, Write, WriteAction, WriteCondition};
use afterwrite_model::record::{AttributePath, Item, Timestamp};
use afterwrite_model::table::Model;
use afterwrite_operations::DeploymentContext;
use afterwrite_tests::change_record::change_record;
use afterwrite_tests::clock::StillClock;
use afterwrite_tests::deployment::event;
use afterwrite_tests::random::SeededRandom;
use afterwrite_tests::state_stream::{is_of_source, table_names};
use futures::FutureExt as _;
use serde_json::Value;

pub(crate) use afterwrite_tests::sdk_items::{image_json, item_of, sdk_item};

pub(crate) const STATE: &str = "state";
const NOW: i64 = 1_770_400_000;
/// A record is delivered at most this long after its change.
const LONGEST_LAG: Duration = Duration::from_secs(60);

type WorldAggregator = StreamAggregator<Arc<MemoryTables>, &'static StillClock>;

enum WorldStep {
    Write(ScriptStep),
    Sweep,
}

/// The application and its stream.
struct WorldState {
    random: SeededRandom,
    steps: VecDeque<WorldStep>,
    /// Changes that are not delivered yet, in the order of the stream.
    pending: VecDeque<(Timestamp, Value)>,
    records: usize,
    /// The records that were delivered, as lines of an archive.
    archived: Vec<String>,
    outcome: WorkloadOutcome,
    is_read: bool,
    /// How often the application writes between two requests, per thousand.
    activity: u64,
}

/// A world. Requests of a job go through it; between them, the application writes and records are delivered.
pub(crate) struct OperationWorld {
    pub(crate) workload: &'static Workload,
    pub(crate) tables: Arc<MemoryTables>,
    pub(crate) clock: &'static StillClock,
    definitions: Vec<LocalTable>,
    aggregator: Mutex<WorldAggregator>,
    state: Mutex<WorldState>,
}

impl OperationWorld {
    /// An application of `model_name` that has written the share `before` (per thousand) of its script, unread.
    pub(crate) fn new(model_name: &str, seed: u64, size: u64, before: usize) -> Arc<Self> {
        let workload = workloads::of(model_name).unwrap();
        // One clock for each world; worlds are few and short.
        let clock: &'static StillClock =
            Box::leak(Box::new(StillClock::at(Timestamp::from_epoch_seconds(NOW))));
        let tables = MemoryTables::new();
        tables.create_table(TableDefinition::new(STATE, "PK").sort("SK").streamed());
        let definitions = workload.tables();
        for table in &definitions {
            tables.create_table(memory_table(table));
        }
        let tables = Arc::new(tables);
        let script = workload.script(seed, size, NOW);
        let mut steps = VecDeque::new();
        for round in script.rounds {
            steps.extend(round.into_iter().flat_map(|lane| lane.steps).map(WorldStep::Write));
            steps.push_back(WorldStep::Sweep);
        }
        let state = WorldState {
            random: SeededRandom::new(seed),
            pending: VecDeque::new(),
            records: 0,
            archived: Vec::new(),
            outcome: WorkloadOutcome { now: NOW, ..WorkloadOutcome::default() },
            is_read: false,
            activity: 1_000,
            steps,
        };
        let model = Arc::new(Model::load(model_name).unwrap());
        let aggregator = Mutex::new(aggregator(&model, &tables, clock));
        let world = Self { workload, tables, clock, definitions, aggregator, state: Mutex::new(state) };
        let mut state = world.state.lock().unwrap();
        let unread = state.steps.len() * before / 1000;
        for _ in 0..unread {
            world.act(&mut state);
        }
        // The state when the stream is read first: what was before is unknown.
        state.outcome.images = world.items();
        state.outcome.expired.clear();
        state.is_read = true;
        drop(state);
        Arc::new(world)
    }

    pub(crate) fn model(&self) -> Arc<Model> {
        Arc::clone(self.aggregator.lock().unwrap().ledger().model())
    }

    /// Deploys another model.
    pub(crate) fn deploy(&self, model: &Arc<Model>) {
        *self.aggregator.lock().unwrap() = aggregator(model, &self.tables, self.clock);
    }

    /// The deployment, reached through these tables.
    pub(crate) fn context<T>(&self, tables: T) -> DeploymentContext<T, &'static StillClock> {
        DeploymentContext {
            model: self.model(),
            table_names: self.table_names(),
            state_table: Arc::from(STATE),
            tables,
            clock: self.clock,
        }
    }

    pub(crate) fn table_names(&self) -> Vec<Arc<str>> {
        table_names(&self.model(), STATE)
    }

    /// Writes the rest of the script, and delivers everything.
    pub(crate) fn finish(&self) {
        let mut state = self.state.lock().unwrap();
        while !state.steps.is_empty() {
            self.act(&mut state);
            self.deliver(&mut state, 50);
        }
        while !state.pending.is_empty() {
            self.deliver(&mut state, 50);
        }
    }

    /// Puts changes that a test has made itself into the stream.
    pub(crate) fn stream_changes(&self) {
        self.take_changes(&mut self.state.lock().unwrap());
    }

    /// The lines of the archive since this was called last.
    pub(crate) fn take_archived(&self) -> Vec<String> {
        std::mem::take(&mut self.state.lock().unwrap().archived)
    }

    /// A time up to which every change has been delivered.
    pub(crate) fn delivered_until(&self) -> Timestamp {
        let state = self.state.lock().unwrap();
        state.pending.front().map_or_else(|| self.clock.now(), |(created, _)| *created)
    }

    /// All items of a table, without anything happening in between.
    pub(crate) fn rows(&self, table: &str) -> Vec<Item> {
        MemoryTables::scan(&self.tables, table)
    }

    /// Sets how often the application writes between two requests, per thousand.
    pub(crate) fn set_activity(&self, activity: u64) {
        self.state.lock().unwrap().activity = activity;
    }

    /// How many steps of the script are left.
    pub(crate) fn steps_left(&self) -> usize {
        self.state.lock().unwrap().steps.len()
    }

    /// Creates an empty state table.
    pub(crate) fn create_state_table(&self, name: &str) {
        self.tables.create_table(TableDefinition::new(name, "PK").sort("SK").streamed());
    }

    fn items(&self) -> Vec<TableItem> {
        let of_table = |table: &LocalTable| {
            let items = self.rows(&table.name);
            let name = table.name.clone();
            items.into_iter().map(move |item| TableItem { table: name.clone(), item: sdk_item(&item) })
        };
        self.definitions.iter().flat_map(of_table).collect()
    }

    /// Something happens between two requests.
    fn tick(&self) {
        let mut state = self.state.lock().unwrap();
        if !state.is_read {
            return;
        }
        if state.random.chance(600) {
            futures::executor::block_on(self.clock.sleep(Duration::from_millis(200)));
        }
        let activity = state.activity;
        let writes = if state.random.chance(activity) { state.random.below(4) } else { 0 };
        for _ in 0..writes {
            self.act(&mut state);
        }
        if state.random.chance(400) {
            let records = 1 + usize::try_from(state.random.below(12)).unwrap();
            self.deliver(&mut state, records);
        }
        let oldest = self.clock.now().minus(LONGEST_LAG);
        while state.pending.front().is_some_and(|(created, _)| *created < oldest) {
            self.deliver(&mut state, 20);
        }
    }

    /// The application's next step.
    fn act(&self, state: &mut MutexGuard<'_, WorldState>) {
        self.tables.set_time(self.clock.now());
        match state.steps.pop_front() {
            Some(WorldStep::Write(step)) => self.write(state, step),
            Some(WorldStep::Sweep) => self.sweep(state),
            None => {}
        }
        self.take_changes(state);
    }

    fn write(&self, state: &mut WorldState, step: ScriptStep) {
        match step {
            ScriptStep::Put { table, items } => {
                for item in items {
                    self.tables.put(table, item_of(&item)).unwrap();
                    state.outcome.images.push(TableItem { table: table.to_owned(), item });
                }
            }
            ScriptStep::Set { table, key, attributes } => {
                let key = self.tables.key_of(table, &item_of(&key)).unwrap();
                let changes = item_of(&attributes)
                    .into_iter()
                    .map(|(name, value)| AttributeChange::Set(AttributePath::from(name.as_ref()), value));
                let action = WriteAction::Update(changes.collect());
                self.tables
                    .write_now(&Write { key: key.clone(), condition: WriteCondition::Always, action })
                    .unwrap();
                let item = sdk_item(&self.tables.get(&key).unwrap());
                state.outcome.images.push(TableItem { table: table.to_owned(), item });
            }
            // Before the stream is read nothing is deleted: an item that needs a deleted one could never be counted.
            ScriptStep::Delete { .. } if !state.is_read => {}
            ScriptStep::Delete { table, key } => {
                let key = self.tables.key_of(table, &item_of(&key)).unwrap();
                self.tables.delete(&key).unwrap();
            }
        }
    }

    fn sweep(&self, state: &mut WorldState) {
        if !state.is_read {
            return;
        }
        for stored in self.items().into_iter().filter(|item| has_expired(item, &self.definitions, NOW)) {
            let key = self.tables.key_of(&stored.table, &item_of(&stored.item)).unwrap();
            self.tables.expire(&key).unwrap();
            state.outcome.expired.push(stored);
        }
    }

    fn take_changes(&self, state: &mut WorldState) {
        let model = self.model();
        for table in self.definitions.iter().map(|table| table.name.as_str()).chain([STATE]) {
            for change in self.tables.take_changes(table) {
                if table == STATE && !is_of_source(&model, &change) {
                    continue;
                }
                state.records += 1;
                if state.is_read {
                    let number = format!("{:021}", state.records);
                    let stream =
                        format!("arn:aws:dynamodb:eu-west-1:1:table/{table}/stream/{MEMORY_STREAM_LABEL}");
                    let record = change_record(&stream, &number, &change);
                    state.pending.push_back((change.time, record));
                }
            }
        }
    }

    /// Delivers the oldest records; those that fail are delivered again first.
    fn deliver(&self, state: &mut WorldState, most: usize) {
        let records: Vec<Value> = state.pending.iter().take(most).map(|(_, record)| record.clone()).collect();
        let table = |record: &Value| record["eventSourceARN"].to_string();
        let Some(first) = records.first().map(table) else { return };
        // A batch is of one stream.
        let batch: Vec<Value> = records.into_iter().take_while(|record| table(record) == first).collect();
        assert!(!batch.is_empty());
        let aggregator = self.aggregator.lock().unwrap();
        let payload = event(&batch);
        let handling = aggregator.handle(payload.as_bytes(), Timestamp::from_epoch_ms(i64::MAX));
        let handled = handling.now_or_never().expect("tables in memory respond at once").unwrap();
        drop(aggregator);
        if handled.failures.is_empty() {
            assert!(handled.parked.is_empty(), "{:?}", handled.parked);
            let delivered: Vec<_> = state.pending.drain(..batch.len()).collect();
            if !first.contains(&format!(":table/{STATE}/")) {
                state.archived.extend(delivered.iter().map(|(_, record)| record.to_string()));
            }
        } else {
            // A looked-up item is deleted, and its record follows: a larger batch has it.
            assert!(most < 8 * state.pending.len(), "{:?}", handled.failures);
            self.deliver(state, most * 4);
        }
        // Mirrors are written to the application's tables.
        self.take_changes(state);
    }
}

impl Tables for OperationWorld {
    async fn read(&self, keys: &[ItemKey]) -> Result<ReadSnapshot, Error> {
        self.tick();
        self.tables.read_now(keys)
    }

    async fn write(&self, write: &Write) -> Result<ConsumedUnits, WriteError> {
        self.tick();
        self.tables.write_now(write)
    }

    async fn transact(&self, writes: &[Write]) -> Result<ConsumedUnits, TransactError> {
        self.tick();
        self.tables.transact_now(writes)
    }

    async fn query_index(&self, query: &IndexQuery) -> Result<IndexPage, Error> {
        self.tick();
        self.tables.query_index_now(query)
    }
}

impl TableScan for OperationWorld {
    async fn scan(&self, request: &ScanRequest) -> Result<ScanPage, Error> {
        self.tick();
        let few = ScanRequest { page_items: Some(request.page_items.unwrap_or(7).min(7)), ..request.clone() };
        self.tables.scan_now(&few)
    }

    async fn describe(&self, table: &str) -> Result<TableSummary, Error> {
        self.tables.set_time(self.clock.now());
        self.tables.describe_now(table)
    }
}

fn aggregator(model: &Arc<Model>, tables: &Arc<MemoryTables>, clock: &'static StillClock) -> WorldAggregator {
    let names = table_names(model, STATE);
    StreamAggregator::new(Ledger::new(Arc::clone(model), names, Arc::from(STATE), Arc::clone(tables), clock))
}

fn memory_table(table: &LocalTable) -> TableDefinition {
    let mut definition = TableDefinition::new(table.name.as_str(), table.key.partition.as_str()).streamed();
    if let Some(sort) = &table.key.sort {
        definition = definition.sort(sort.as_str());
    }
    for (name, key) in &table.indexes {
        let index = IndexDefinition::new(name.as_str(), key.partition.as_str());
        definition = definition.index(match &key.sort {
            Some(sort) => index.sort(sort.as_str()),
            None => index,
        });
    }
    definition
}

/// A key of the state table.
pub(crate) fn state_key(partition: &str, sort: &str) -> ItemKey {
    item_key(STATE, partition, sort)
}
