//! The units of each level: the recording `exam-42`, whose model also counts the different candidates of each project and day. Both the plan
//! and the meter deliver the records of each stream when their batch is full, or when its window has passed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use afterwrite_deployment::cost::{CostTrial, TrialTotals};
use afterwrite_deployment::stream_filters::{MAX_PATTERNS, StreamFilter};
use afterwrite_functions::StreamAggregator;
use afterwrite_ledger::Ledger;
use afterwrite_ledger::tables::{IndexProjection, TableIndex};
use afterwrite_local::dynamodb::{EmbeddedDynamoDb, EmbeddedStream, KeyDefinition, TableDefinition};
use afterwrite_mapping::{FilterCriteria, ShardPosition, StreamSource as _};
use afterwrite_model::clock::{Clock as _, SystemClock};
use afterwrite_model::table::Model;
use afterwrite_services::config::ProjectionKind;
use afterwrite_services::dynamodb::DynamoDb;
use afterwrite_tests::recording::StreamRecording;
use afterwrite_tests::sdk_items::{SdkItem, sdk_item_of_json};
use afterwrite_tests::state_stream::table_names;

use super::{DELIVERY, STATE, batches, rates};

const TABLE: &str = "ExamBuddyTable";
const INDEXES: [&str; 3] = ["GSI1", "GSI2", "GSI3"];
/// The level of the distinct count. The members are of the first level.
const DISTINCT_LEVEL: u32 = 2;

const DISTINCT: &str = r#"
[[aggregates]]
name = "candidates"
of = "attempt"
lookup = ["project_owner"]
into = ["project_day"]
measures.candidates = { distinct = "candidate_id" }
"#;

/// Write units of the first level and of the second, and the records that the second counts.
#[derive(Debug)]
pub(super) struct LevelUnits {
    first: f64,
    second: f64,
    second_records: u64,
}

impl LevelUnits {
    pub(super) fn all(&self) -> f64 {
        self.first + self.second
    }
}

fn source() -> &'static str {
    include_str!("../../common/model/src/table/models/exambuddy.toml")
}

fn model(source: &str) -> Arc<Model> {
    Arc::new(Model::parse(source, "exam").unwrap())
}

async fn predicted(model: &Arc<Model>, sample: &[String]) -> LevelUnits {
    let rates = rates(model, sample);
    let index = |name: &&str| TableIndex {
        keys: vec![format!("{name}PK").into(), format!("{name}SK").into()],
        projection: IndexProjection::All,
    };
    let indexes = INDEXES.iter().map(index).collect();
    let trial = CostTrial {
        model: Arc::clone(model),
        records: sample,
        rates: &rates,
        delivery: DELIVERY,
        indexes: [(TABLE.to_owned(), indexes)].into(),
        events: BTreeMap::new(),
    };
    let TrialTotals { levels, write_units, .. } = trial.run().await.unwrap();
    let second = levels.iter().find(|level| level.level == DISTINCT_LEVEL);
    let units = second.map_or(0.0, |level| level.write_units);
    let second_records = second.map_or(0, |level| level.records);
    LevelUnits { first: exact(write_units) - units, second: units, second_records }
}

#[expect(clippy::cast_precision_loss, reason = "units of a recording are far below 2^53")]
fn exact(number: u64) -> f64 {
    number as f64
}

/// A deployment on the embedded server.
pub(super) struct MeteredDeployment {
    _server: EmbeddedDynamoDb,
    /// Each stream has its own handler: records of the recording name another region than the server's.
    of_tables: StreamAggregator<DynamoDb, SystemClock>,
    of_state: StreamAggregator<DynamoDb, SystemClock>,
    changes: EmbeddedStream,
    iterator: String,
    filter: FilterCriteria,
    /// The records of the state table that wait for their batch, each with its time.
    waiting: Vec<(f64, String)>,
    pub(super) units: LevelUnits,
}

impl MeteredDeployment {
    /// A deployment whose tables have these items.
    pub(super) async fn start(
        model: &Arc<Model>,
        tables: &[TableDefinition],
        items: impl Iterator<Item = (String, SdkItem)>,
    ) -> Self {
        let server = EmbeddedDynamoDb::start().await.unwrap();
        let state = TableDefinition { stream: true, ..TableDefinition::state(STATE) };
        server.create_table(&state.ranked(model)).await.unwrap();
        for table in tables {
            server.create_table(&TableDefinition { stream: false, ..table.clone() }).await.unwrap();
        }
        let client = server.client();
        for (table, item) in items {
            client.put_item().table_name(table).set_item(Some(item)).send().await.unwrap();
        }
        let names = table_names(model, STATE);
        let aggregator = || {
            let tables = DynamoDb::new(server.client());
            StreamAggregator::new(Ledger::new(
                Arc::clone(model),
                names.clone(),
                STATE.into(),
                tables,
                SystemClock,
            ))
        };
        let (of_tables, of_state) = (aggregator(), aggregator());
        let changes = server.stream(STATE).await.unwrap();
        let shard = changes.describe(None).await.unwrap().shards.remove(0);
        let iterator = changes.iterator(&shard.id, &ShardPosition::TrimHorizon).await.unwrap();
        let units = LevelUnits { first: 0.0, second: 0.0, second_records: 0 };
        let (filter, waiting) = (filter(model), Vec::new());
        Self { _server: server, of_tables, of_state, changes, iterator, filter, waiting, units }
    }

    /// Delivers a batch of the application's table, after the batches of rollups that are due before.
    pub(super) async fn deliver(&mut self, at: f64, records: &[&str]) {
        self.deliver_rollups(at).await;
        self.units.first += units_of(&self.of_tables, records).await;
        self.read_changes(at).await;
    }

    /// Delivers the batches of the state table's stream that are due by this time.
    pub(super) async fn deliver_rollups(&mut self, until: f64) {
        while let Some(due) = self.next_due().filter(|due| *due <= until) {
            let ready =
                self.waiting.iter().take(DELIVERY.batch_size).take_while(|(at, _)| *at <= due).count();
            let batch: Vec<(f64, String)> = self.waiting.drain(..ready).collect();
            let records: Vec<&str> = batch.iter().map(|(_, record)| record.as_str()).collect();
            // The filter also passes rollups of projects, whose keys begin like the keys of members. Their records count nothing, but share
            // the batches, so that less folds into one write. The plan leaves them out.
            let members = records.iter().filter(|record| record.contains("#DISTINCT#candidates"));
            self.units.second_records += u64::try_from(members.count()).unwrap();
            self.units.second += units_of(&self.of_state, &records).await;
            self.read_changes(due).await;
        }
    }

    /// When the next batch of the state table's stream is full, or its window has passed.
    fn next_due(&self) -> Option<f64> {
        let window = self.waiting.first().map(|(at, _)| at + DELIVERY.window_seconds)?;
        let full = self.waiting.get(DELIVERY.batch_size - 1).map(|(at, _)| *at);
        Some(full.map_or(window, |full| full.min(window)))
    }

    /// Reads the changes of rollups that are sources from the state table's stream.
    async fn read_changes(&mut self, at: f64) {
        loop {
            let page = self.changes.read(&self.iterator).await.unwrap();
            let records = page.records.into_iter().map(|record| record.json);
            self.waiting
                .extend(records.filter(|record| self.filter.accepts(record)).map(|record| (at, record)));
            self.iterator = page.next.expect("the stream is open");
            if page.is_at_end {
                return;
            }
        }
    }
}

/// The filter of the state table's stream, as a deployment has it.
fn filter(model: &Model) -> FilterCriteria {
    let Some(table) = model.state_source() else {
        // No function reads the stream. A pattern that nothing matches stands for that.
        return FilterCriteria::from_patterns([r#"{"eventName": ["none"]}"#]).unwrap();
    };
    let filter = StreamFilter::new(model, table, &BTreeSet::from([ProjectionKind::Aggregate]), MAX_PATTERNS);
    FilterCriteria::from_patterns(filter.patterns.iter().map(String::as_str)).unwrap()
}

async fn units_of(aggregator: &StreamAggregator<DynamoDb, SystemClock>, records: &[&str]) -> f64 {
    let event = format!("{{\"Records\":[{}]}}", records.join(","));
    let deadline = SystemClock.now().plus(Duration::from_secs(60));
    let handled = aggregator.handle(event.as_bytes(), deadline).await.unwrap();
    assert!(handled.failures.is_empty() && handled.parked.is_empty());
    exact(handled.totals.write_units)
}

async fn measured(model: &Arc<Model>, recording: &StreamRecording, sample: &[String]) -> LevelUnits {
    let index =
        |name: &str| (name.to_owned(), KeyDefinition::new(&format!("{name}PK"), &format!("{name}SK")));
    let table = TableDefinition {
        name: TABLE.to_owned(),
        key: KeyDefinition::new("PK", "SK"),
        indexes: INDEXES.into_iter().map(index).collect(),
        ..TableDefinition::default()
    };
    // Lookups need items that a later record removes.
    let images = recording.last_images();
    let items = images.iter().chain(&recording.items);
    let items = items.map(|image| (TABLE.to_owned(), sdk_item_of_json(image)));
    let mut deployment = MeteredDeployment::start(model, &[table], items).await;
    for (at, batch) in batches(sample) {
        deployment.deliver(at, &batch).await;
    }
    deployment.deliver_rollups(f64::INFINITY).await;
    deployment.units
}

fn assert_close(name: &str, predicted: f64, measured: f64, records: f64) {
    let difference = (predicted / measured - 1.0) * 100.0;
    println!(
        "{name}: predicted {predicted:.0}, measured {measured:.0} units, {:.3} a record: {difference:+.1} %",
        measured / records
    );
    assert!(difference.abs() < 5.0, "{name}: {difference:+.1} %");
}

#[tokio::test]
async fn the_plan_and_the_meter_agree_on_each_level_of_a_distinct_count() {
    let recording = StreamRecording::load("exam-42");
    let end = SystemClock.now().epoch_seconds();
    let sample: Vec<String> = recording.records_ending(end).iter().map(ToString::to_string).collect();
    let records = exact(u64::try_from(sample.len()).unwrap());

    let with = model(&format!("{}{DISTINCT}", source()));
    let (plan, meter) = (predicted(&with, &sample).await, measured(&with, &recording, &sample).await);
    println!("changes of members: predicted {}, measured {}", plan.second_records, meter.second_records);
    assert_close("level 1, with the members", plan.first, meter.first, records);
    assert_close("level 2", plan.second, meter.second, records);
    assert_close("all levels", plan.all(), meter.all(), records);

    let without = model(source());
    let (plan, meter) = (predicted(&without, &sample).await, measured(&without, &recording, &sample).await);
    assert_close("without the distinct count", plan.all(), meter.all(), records);
    assert!(meter.second == 0.0 && meter.second_records == 0, "{meter:?}");
}
