//! A model, its tables in memory, and every way from an item to a number.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::Arc;

use afterwrite_bulk::request::{BulkRequest, BulkResponse, PlanRequest};
use afterwrite_bulk::{BulkWorker, RunLayout, RunRequests, visit_items};
use afterwrite_functions::{AggregatedBatch, StreamAggregator};
use afterwrite_ledger::Ledger;
use afterwrite_memory::{
    IndexDefinition, KeyAttributeType, KeyDefinition, MEMORY_STREAM_LABEL, MemoryObjects, MemoryTables,
    TableDefinition,
};
use afterwrite_model::clock::Clock as _;
use afterwrite_model::record::{AttributeValue, Item, Timestamp};
use afterwrite_model::table::{KeySchema, KeyType, Model};
use afterwrite_operations::DeploymentContext;
use afterwrite_operations::backfill::{BackfillArguments, BackfillTask};
use afterwrite_operations::jobs::{
    JobBasis, JobKind, JobPlan, JobRunner, JobState, JobStore, JobTask, NewJob, SilentObserver, WorkUnit,
};
use afterwrite_operations::repair::{DriftRepairer, RepairLogEntry, RepairTask};
use afterwrite_operations::verify::{
    DatasetCoverage, VerifyArguments, VerifyFinding, VerifyJob, VerifyReport, VerifyTask,
};
use afterwrite_services::{Bucket as _, ObjectStore as _};
use afterwrite_tests::change_record::stream_record;
use afterwrite_tests::clock::StillClock;
use base64::Engine as _;
use flate2::Compression;
use flate2::write::GzEncoder;
use md5::{Digest as _, Md5};
use serde_json::{Value, json};

pub(crate) const TABLE: &str = "app";
const STATE: &str = "state";
/// The time of the world, in epoch seconds.
pub(crate) const NOW: i64 = 1_770_400_000;
const RUN: &str = "bulk/run";

/// The measures of each rollup, by `PK / SK`.
pub(crate) type Rollups = BTreeMap<String, BTreeMap<String, String>>;

pub(crate) struct CountingWorld {
    pub(crate) model: Arc<Model>,
    pub(crate) tables: Arc<MemoryTables>,
    pub(crate) clock: &'static StillClock,
    records: u64,
}

/// A model of the table `app`, which continues with these parts.
pub(crate) fn model(parts: &str) -> Arc<Model> {
    let text = format!("name = 'cases'\ngeneration = 1\ntables.app.key = ['PK', 'SK']\n{parts}");
    Arc::new(Model::parse(&text, "cases.toml").unwrap_or_else(|errors| panic!("{errors}")))
}

/// The problems of such a model as text; empty if it loads.
pub(crate) fn problems(parts: &str) -> String {
    let text = format!("name = 'cases'\ngeneration = 1\ntables.app.key = ['PK', 'SK']\n{parts}");
    Model::parse(&text, "cases.toml").map_or_else(|errors| errors.to_string(), |_| String::new())
}

/// An item in DynamoDB's JSON.
pub(crate) fn item(partition: &str, sort: &str, attributes: Value) -> Value {
    let mut item = attributes;
    item["PK"] = json!({ "S": partition });
    item["SK"] = json!({ "S": sort });
    item
}

fn stored(item: &Value) -> Item {
    let line = format!("{{\"Item\":{item}}}");
    afterwrite_model::record::read_item_line(line.as_bytes(), |_| true).expect("an item")
}

fn text<'i>(item: &'i Item, name: &str) -> &'i str {
    item.get(name).and_then(AttributeValue::as_text).unwrap_or_default()
}

/// The table `app`, with the indexes that the model declares.
fn source_table(model: &Model) -> TableDefinition {
    let key = |key: &KeySchema| match key.key_type {
        KeyType::Text => KeyDefinition::from(&*key.name),
        KeyType::Number => KeyDefinition::new(&*key.name, KeyAttributeType::Number),
        KeyType::Binary => KeyDefinition::new(&*key.name, KeyAttributeType::Binary),
    };
    let mut table = TableDefinition::new(TABLE, "PK").sort("SK").streamed();
    for declared in model.tables.iter().flat_map(|table| &table.indexes) {
        let (first, others) = declared.partition.split_first().expect("a partition key");
        let index = IndexDefinition::new(&*declared.name, key(first));
        let index = others.iter().fold(index, |index, attribute| index.partition(key(attribute)));
        table = table.index(declared.sort.iter().fold(index, |index, attribute| index.sort(key(attribute))));
    }
    table
}

/// The rollups among items of a state table.
fn rollups_of(items: impl IntoIterator<Item = Item>) -> Rollups {
    let is_rollup = |item: &Item| text(item, "EntityType") == "ROLLUP";
    let key = |item: &Item| format!("{} / {}", text(item, "PK"), text(item, "SK"));
    let measures = |item: &Item| {
        let numbers = item.iter().filter_map(|(name, value)| Some((name, value.as_number()?)));
        let numbers = numbers.filter(|(name, number)| &**name != "rev" && !number.is_zero());
        numbers.map(|(name, number)| (name.to_string(), number.to_string())).collect()
    };
    let rollups = items.into_iter().filter(is_rollup).map(|item| (key(&item), measures(&item)));
    rollups.filter(|(_, measures): &(_, BTreeMap<_, _>)| !measures.is_empty()).collect()
}

impl CountingWorld {
    pub(crate) fn new(model: &Arc<Model>) -> Self {
        let tables = MemoryTables::new();
        tables.set_time(Timestamp::from_epoch_seconds(NOW));
        tables.create_table(TableDefinition::new(STATE, "PK").sort("SK"));
        tables.create_table(source_table(model));
        let clock = Box::leak(Box::new(StillClock::at(Timestamp::from_epoch_seconds(NOW))));
        Self { model: Arc::clone(model), tables: Arc::new(tables), clock, records: 0 }
    }

    /// A world with these items, which nothing has counted.
    pub(crate) fn with(model: &Arc<Model>, items: &[Value]) -> Self {
        let world = Self::new(model);
        items.iter().for_each(|item| world.put(item));
        world
    }

    pub(crate) fn put(&self, item: &Value) {
        self.tables.put(TABLE, stored(item)).expect("an item");
    }

    /// The next record: of a change between these images.
    pub(crate) fn record(&mut self, old: Option<&Value>, new: Option<&Value>) -> Value {
        self.records += 1;
        let stream = format!("arn:aws:dynamodb:eu-west-1:1:table/{TABLE}/stream/{MEMORY_STREAM_LABEL}");
        stream_record(&stream, &["PK", "SK"], (&self.records.to_string(), NOW), (old, new))
    }

    /// The record of the creation of an item, which the table has from then on.
    pub(crate) fn insert(&mut self, item: &Value) -> Value {
        self.put(item);
        self.record(None, Some(item))
    }

    pub(crate) fn names(&self) -> Vec<Arc<str>> {
        vec![Arc::from(TABLE)]
    }

    /// Delivers records to the function.
    pub(crate) async fn deliver(&self, records: &[Value]) -> AggregatedBatch {
        let event = json!({ "Records": records }).to_string();
        self.handle(&event).await.expect("an event")
    }

    pub(crate) async fn handle(&self, event: &str) -> afterwrite_model::Result<AggregatedBatch> {
        let (model, tables) = (Arc::clone(&self.model), Arc::clone(&self.tables));
        let ledger = Ledger::new(model, self.names(), Arc::from(STATE), tables, self.clock);
        let deadline = Timestamp::from_epoch_ms(i64::MAX);
        StreamAggregator::new(ledger).handle(event.as_bytes(), deadline).await
    }

    pub(crate) fn rollups(&self) -> Rollups {
        rollups_of(self.tables.scan(STATE))
    }

    /// The marks of parked records.
    pub(crate) fn parked(&self) -> usize {
        self.tables.scan(STATE).iter().filter(|item| item.contains_key("behind")).count()
    }

    async fn run(&self, kind: JobKind, units: Vec<WorkUnit>, task: &impl JobTask) -> JobState {
        let store = JobStore::new(Arc::clone(&self.tables), self.clock, Arc::from(STATE));
        let (arguments, basis) = (json!({}), JobBasis::default());
        let new =
            NewJob { kind, arguments, basis: basis.clone(), units, plan: JobPlan::default(), rate: None };
        let job = store.create(new).await.unwrap();
        self.tables.set_time(self.clock.now());
        let job = store.acquire(&job.id, &basis).await.unwrap();
        let runner = JobRunner { store: &store, observer: &SilentObserver, workers: 2 };
        runner.run(job, task).await.unwrap()
    }

    /// The deployment.
    fn context(&self) -> DeploymentContext<Arc<MemoryTables>, &'static StillClock> {
        DeploymentContext {
            model: Arc::clone(&self.model),
            table_names: self.names(),
            state_table: Arc::from(STATE),
            tables: Arc::clone(&self.tables),
            clock: self.clock,
        }
    }

    pub(crate) async fn backfill(&self, all: bool) -> JobState {
        let arguments = BackfillArguments { all, ..BackfillArguments::default() };
        let task = BackfillTask::new(self.context(), arguments, None);
        let task = task.await.unwrap();
        self.run(JobKind::Backfill, task.units(), &task).await
    }

    pub(crate) async fn verify(&self) -> VerifyReport {
        let arguments = VerifyArguments { tolerance_seconds: 1, segments: 1, ..VerifyArguments::default() };
        let task = VerifyTask::new(self.context(), arguments);
        let units = task.units();
        let job: VerifyJob<Arc<MemoryObjects>, _, _> =
            VerifyJob::new(task, None, DatasetCoverage::NoDatasets);
        let done = self.run(JobKind::Verify, units, &job).await;
        job.report(&done.totals)
    }

    pub(crate) async fn repair(&self, findings: &[VerifyFinding]) -> Vec<RepairLogEntry> {
        let tolerance = std::time::Duration::from_secs(1);
        let repairer = DriftRepairer::new(self.context(), tolerance);
        let task: RepairTask<Arc<MemoryObjects>, _, _> = RepairTask::new(repairer, None, "repair", findings);
        task.run().await.unwrap()
    }

    /// The rollups that a bulk backfill imports, and its totals.
    pub(crate) async fn bulk(&self, items: &[Value]) -> (Rollups, BTreeMap<String, u64>) {
        let bucket = Arc::new(MemoryObjects::default());
        for (key, object) in self.export(items) {
            bucket.put(&key, object).await.unwrap();
        }
        let (model, tables) = (Arc::clone(&self.model), Arc::clone(&self.tables));
        let worker =
            BulkWorker::new(Arc::clone(&bucket), model, self.names(), Arc::from(STATE), tables, self.clock);
        let plan = BulkRequest::Plan(PlanRequest {
            run: RUN.to_owned(),
            exports: vec!["export".to_owned()],
            mapping_since_ms: self.clock.now().epoch_ms(),
            partitions: 1,
            lookup_rate: 1_000_000,
        });
        worker.handle(&plan).await.unwrap();
        let mut totals = BTreeMap::new();
        for phase in ["lookups", "items", "reduce"] {
            for request in RunRequests::read(&bucket, RUN, phase).await.unwrap() {
                let BulkResponse::Counted { totals: counted } = worker.handle(&request).await.unwrap() else {
                    panic!("a plan")
                };
                for (name, number) in counted {
                    *totals.entry(name).or_default() += number;
                }
            }
        }
        let mut imported = Vec::new();
        for object in bucket.list(&RunLayout(RUN).import()).await.unwrap() {
            let visited = visit_items(&bucket, &object.key, |item| {
                imported.push(item);
                Ok(())
            });
            visited.await.unwrap();
        }
        (rollups_of(imported), totals)
    }

    /// The objects of a table export.
    fn export(&self, items: &[Value]) -> [(String, Vec<u8>); 3] {
        let lines: Vec<String> = items.iter().map(|item| json!({ "Item": item }).to_string()).collect();
        let mut file = GzEncoder::new(Vec::new(), Compression::fast());
        file.write_all((lines.join("\n") + "\n").as_bytes()).unwrap();
        let (file, key) = (file.finish().unwrap(), "export/data/0.json.gz");
        let checksum = base64::engine::general_purpose::STANDARD.encode(Md5::digest(&file));
        let line = json!({ "itemCount": lines.len(), "md5Checksum": checksum, "dataFileS3Key": key });
        let summary = json!({
            "exportTime": self.clock.now().to_string(), "exportType": "FULL_EXPORT",
            "outputFormat": "DYNAMODB_JSON", "tableArn": format!("arn:aws:dynamodb:eu-west-1:1:table/{TABLE}"),
        });
        [
            (key.to_owned(), file),
            ("export/manifest-files.json".to_owned(), format!("{line}\n").into_bytes()),
            ("export/manifest-summary.json".to_owned(), summary.to_string().into_bytes()),
        ]
    }
}
