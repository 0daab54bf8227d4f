//! How fast one aggregator works off the backlog of one shard: `cargo bench -p afterwrite-tests --bench catch_up`.
//!
//! The recording `exam-42` is one shard, in the order of time. Its tables are an embedded DynamoDB behind a proxy that answers as
//! late as a region does: reads after 6 ms, transactions after 15 ms, other writes after 5 ms. A batch begins when the batch before
//! it has ended, as in Lambda.
//!
//! The embedded DynamoDB shares the processors with the aggregator and is slower than a region if many requests are open. So the same
//! is measured with tables in memory that answer after the same times and need next to no processor time.
//!
//! A larger batch counts more records per call, and a batching window fills it. The price is latency: a record waits for the
//! window, unless the batch is full before, and for its whole batch.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a benchmark that meets the unexpected must fail at once"
)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use afterwrite_functions::StreamAggregator;
use afterwrite_ledger::tables::{
    ConsumedUnits, IndexPage, IndexQuery, ReadSnapshot, Tables, TransactError, WriteError,
};
use afterwrite_ledger::{CommitTotals, Ledger};
use afterwrite_local::dynamodb::{EmbeddedDynamoDb, KeyDefinition, TableDefinition};
use afterwrite_memory::{IndexDefinition, MemoryTables, item_key};
use afterwrite_model::Error;
use afterwrite_model::clock::{Clock as _, SystemClock};
use afterwrite_model::effect::{ItemKey, Write, WriteAction, WriteCondition};
use afterwrite_model::record::{AttributeValue, Item};
use afterwrite_model::table::Model;
use afterwrite_services::dynamodb::DynamoDb;
use afterwrite_tests::deployment::event;
use afterwrite_tests::latency_proxy::{CallLatencies, LatencyProxy};
use afterwrite_tests::recording::StreamRecording;
use afterwrite_tests::replay::STATE;
use afterwrite_tests::sdk_items::item_of_json;
use futures::stream::{StreamExt as _, iter};
use serde_json::Value;

const RECORDING: &str = "exam-42";
const BATCH_SIZES: [usize; 3] = [100, 300, 1000];
/// The batching window whose latency is reported.
const WINDOW: Duration = Duration::from_secs(5);
/// The time limit of an invocation, far longer than needed.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Concurrent writes while the source table is filled.
const CONCURRENCY: usize = 16;

/// The figures of a backlog in batches of one size.
struct CatchUpRun {
    batch_size: usize,
    records: usize,
    /// The time of each batch.
    batches: Vec<Duration>,
    totals: CommitTotals,
}

#[tokio::main]
async fn main() {
    let recording = StreamRecording::load(RECORDING);
    let records = recording.records_ending(SystemClock.now().epoch_seconds());
    println!("{RECORDING}: {} records of one shard, {:?}", records.len(), CallLatencies::REGION);
    println!("\nan embedded DynamoDB behind a proxy\n{}", CatchUpRun::header());
    for batch_size in BATCH_SIZES {
        println!("{}", over_http(&recording, &records, batch_size).await.row());
    }
    println!("\ntables in memory\n{}", CatchUpRun::header());
    for batch_size in BATCH_SIZES {
        println!("{}", in_memory(&recording, &records, batch_size).await.row());
    }
    println!(
        "\nunits: write units a record. full above: the records a second of a shard from which a batch is full before a window of\n\
         {} s ends. counted in: how long after its write a record is counted at the latest with that window, if the shard keeps up.",
        WINDOW.as_secs()
    );
}

/// Delivers all records to a new aggregator whose tables are an embedded DynamoDB.
async fn over_http(recording: &StreamRecording, records: &[Value], batch_size: usize) -> CatchUpRun {
    let names = table_names();
    let server = filled_server(recording, &names).await;
    let proxy = LatencyProxy::start(&server.endpoint(), CallLatencies::REGION).await.unwrap();
    let client = server.client().config().to_builder().endpoint_url(proxy.endpoint()).build();
    catch_up(DynamoDb::new(aws_sdk_dynamodb::Client::from_conf(client)), records, batch_size).await
}

/// Delivers all records to a new aggregator whose tables are in memory.
async fn in_memory(recording: &StreamRecording, records: &[Value], batch_size: usize) -> CatchUpRun {
    let tables = MemoryTables::new();
    tables.create_table(afterwrite_memory::TableDefinition::new(STATE, "PK").sort("SK"));
    for name in table_names() {
        let index =
            |name: &str| IndexDefinition::new(name, &*format!("{name}PK")).sort(&*format!("{name}SK"));
        let indexes = ["GSI1", "GSI2", "GSI3"].map(index);
        let table = afterwrite_memory::TableDefinition::new(&*name, "PK").sort("SK");
        tables.create_table(indexes.into_iter().fold(table, |table, index| table.index(index)));
        for item in source_items(recording) {
            tables.put(&name, item).unwrap();
        }
    }
    catch_up(DelayedTables { tables, latencies: CallLatencies::REGION }, records, batch_size).await
}

/// Delivers all records to a new aggregator.
async fn catch_up<T: Tables>(tables: T, records: &[Value], batch_size: usize) -> CatchUpRun {
    let model = Arc::new(Model::load(Model::DEFAULT_NAME).unwrap());
    let ledger = Ledger::new(model, table_names(), Arc::from(STATE), tables, SystemClock);
    let aggregator = StreamAggregator::new(ledger);
    let mut run = CatchUpRun {
        batch_size,
        records: records.len(),
        batches: Vec::new(),
        totals: CommitTotals::default(),
    };
    for batch in records.chunks(batch_size) {
        let event = event(batch);
        let begun = Instant::now();
        let handled = aggregator.handle(event.as_bytes(), SystemClock.now().plus(TIMEOUT)).await.unwrap();
        run.batches.push(begun.elapsed());
        run.totals += handled.totals;
        assert!(handled.failures.is_empty(), "{:?}", handled.failures);
    }
    run
}

fn table_names() -> Vec<Arc<str>> {
    let model = Model::load(Model::DEFAULT_NAME).unwrap();
    model.tables.iter().map(|table| Arc::clone(&table.name)).collect()
}

/// Every item of the recording, those that it deletes included: an index has the item that a lookup needs.
fn source_items(recording: &StreamRecording) -> impl Iterator<Item = Item> {
    let images = recording.last_images();
    let items: BTreeMap<[String; 2], Item> = images
        .iter()
        .chain(&recording.items)
        .map(item_of_json)
        .map(|item| (["PK", "SK"].map(|name| text(&item, name)), item))
        .collect();
    items.into_values()
}

/// An embedded DynamoDB whose source tables hold the items of the recording.
async fn filled_server(recording: &StreamRecording, names: &[Arc<str>]) -> EmbeddedDynamoDb {
    let server = EmbeddedDynamoDb::start().await.unwrap();
    let key = KeyDefinition::new("PK", "SK");
    server.create_table(&TableDefinition::state(STATE)).await.unwrap();
    let tables = DynamoDb::new(server.client());
    for name in names {
        let index =
            |name: &str| (name.to_owned(), KeyDefinition::new(&format!("{name}PK"), &format!("{name}SK")));
        let indexes = ["GSI1", "GSI2", "GSI3"].map(index).to_vec();
        let source = TableDefinition {
            name: name.to_string(),
            key: key.clone(),
            indexes,
            ..TableDefinition::default()
        };
        server.create_table(&source).await.unwrap();
        iter(source_items(recording)).for_each_concurrent(CONCURRENCY, |item| put(&tables, name, item)).await;
    }
    server
}

async fn put(tables: &DynamoDb, table: &Arc<str>, item: Item) {
    let key = item_key(table, &text(&item, "PK"), &text(&item, "SK"));
    let put = Write { key, condition: WriteCondition::Always, action: WriteAction::Put(item) };
    tables.write(&put).await.unwrap();
}

fn text(item: &Item, name: &str) -> String {
    item.get(name).and_then(AttributeValue::as_text).unwrap().to_owned()
}

/// Tables that answer after a time, which includes their own.
struct DelayedTables<T> {
    tables: T,
    latencies: CallLatencies,
}

impl<T> DelayedTables<T> {
    async fn after<R>(&self, latency: Duration, request: impl Future<Output = R>) -> R {
        let due = tokio::time::Instant::now() + latency;
        let response = request.await;
        tokio::time::sleep_until(due).await;
        response
    }
}

impl<T: Tables> Tables for DelayedTables<T> {
    async fn read(&self, keys: &[ItemKey]) -> Result<ReadSnapshot, Error> {
        self.after(self.latencies.read, self.tables.read(keys)).await
    }

    async fn write(&self, write: &Write) -> Result<ConsumedUnits, WriteError> {
        self.after(self.latencies.write, self.tables.write(write)).await
    }

    async fn transact(&self, writes: &[Write]) -> Result<ConsumedUnits, TransactError> {
        self.after(self.latencies.transaction, self.tables.transact(writes)).await
    }

    async fn query_index(&self, query: &IndexQuery) -> Result<IndexPage, Error> {
        self.after(self.latencies.read, self.tables.query_index(query)).await
    }
}

impl CatchUpRun {
    fn header() -> String {
        format!(
            "{:>10} {:>10} {:>9} {:>13} {:>11} {:>11} {:>12} {:>11}",
            "batch of", "records/s", "units", "transactions", "median", "slowest", "full above", "counted in"
        )
    }

    /// The line of the report.
    fn row(mut self) -> String {
        self.batches.sort_unstable();
        let total: Duration = self.batches.iter().sum();
        let median = self.batches[self.batches.len() / 2];
        let slowest = *self.batches.last().unwrap();
        let records = f64::from(u32::try_from(self.records).unwrap());
        let units = f64::from(u32::try_from(self.totals.write_units).unwrap());
        format!(
            "{:>10} {:>10.0} {:>9.2} {:>13} {:>8} ms {:>8} ms {:>10}/s {:>9.1} s",
            self.batch_size,
            records / total.as_secs_f64(),
            units / records,
            self.totals.transactions,
            median.as_millis(),
            slowest.as_millis(),
            self.batch_size / usize::try_from(WINDOW.as_secs()).unwrap(),
            // A record that arrives while a batch is handled waits for its end, then for its own.
            (WINDOW + slowest).as_secs_f64(),
        )
    }
}
