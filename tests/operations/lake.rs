//! The bucket of a world: what a backfill and the exporter write, compacted, and read back.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use afterwrite_datasets::compact::{CompactionOptions, DatasetCompactor};
use afterwrite_datasets::delta::DeltaTable;
use afterwrite_datasets::export::ArchiveExporter;
use afterwrite_ledger::RememberedLookups;
use afterwrite_ledger::tables::{
    ConsumedUnits, IndexPage, IndexQuery, ReadSnapshot, ScanPage, ScanRequest, TableScan, TableSummary,
    Tables, TransactError, WriteError,
};
use afterwrite_memory::{MemoryObjects, MemoryTables};
use afterwrite_model::clock::Clock as _;
use afterwrite_model::effect::{ItemKey, Write};
use afterwrite_model::entity::SourceKey;
use afterwrite_model::record::{AttributeValue, Image, Item, Timestamp};
use afterwrite_model::table::{Column, Term};
use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_operations::backfill::{BackfillArguments, DatasetFill, DatasetFilling};
use afterwrite_operations::verify::DatasetJudge;
use afterwrite_services::{Bucket, ListedObject, ObjectBody, ObjectChunks, ObjectStore, PutOutcome};
use afterwrite_tests::clock::StillClock;
use afterwrite_tests::datasets::{TextRow, gzip, rows_of};

use super::world::{OperationWorld, STATE};

/// The rows of a dataset: its name, and the columns that an item determines.
pub(crate) type DatasetRows = Vec<(String, TextRow)>;

/// A bucket in memory, written by processes that may be killed at any request.
#[derive(Clone)]
pub(crate) struct MortalBucket {
    pub(crate) objects: Arc<MemoryObjects>,
    /// After so many writes no write returns.
    puts_left: Arc<AtomicUsize>,
}

impl MortalBucket {
    pub(crate) fn new(world: &OperationWorld) -> Self {
        let objects = Arc::new(MemoryObjects::default());
        objects.set_clock(world.clock.now());
        Self { objects, puts_left: Arc::new(usize::MAX.into()) }
    }

    /// Kills its writer after so many writes.
    pub(crate) fn die_after(&self, puts: usize) {
        self.puts_left.store(puts, Ordering::Relaxed);
    }
}

impl ObjectStore for MortalBucket {
    async fn put(&self, key: &str, body: Vec<u8>) -> Result<(), Error> {
        self.objects.put(key, body).await
    }
}

impl Bucket for MortalBucket {
    async fn get(&self, key: &str) -> Result<Option<ObjectChunks>, Error> {
        self.objects.get(key).await
    }

    async fn put_new(&self, key: &str, body: ObjectBody) -> Result<PutOutcome, Error> {
        let left = self.puts_left.load(Ordering::Relaxed);
        if left == 0 {
            std::future::pending::<()>().await;
        }
        self.puts_left.store(left.saturating_sub(1), Ordering::Relaxed);
        self.objects.put_new(key, body).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<ListedObject>, Error> {
        self.objects.list(prefix).await
    }

    async fn delete(&self, keys: &[String]) -> Result<(), Error> {
        self.objects.delete(keys).await
    }
}

/// Tables in memory, of which every third page of a scan is throttled.
#[derive(Clone)]
pub(crate) struct ThrottledTables {
    pub(crate) tables: Arc<MemoryTables>,
    pub(crate) scans: Arc<AtomicUsize>,
}

impl Tables for ThrottledTables {
    async fn read(&self, keys: &[ItemKey]) -> Result<ReadSnapshot, Error> {
        self.tables.read(keys).await
    }

    async fn write(&self, write: &Write) -> Result<ConsumedUnits, WriteError> {
        self.tables.write(write).await
    }

    async fn transact(&self, writes: &[Write]) -> Result<ConsumedUnits, TransactError> {
        self.tables.transact(writes).await
    }

    async fn query_index(&self, query: &IndexQuery) -> Result<IndexPage, Error> {
        self.tables.query_index(query).await
    }
}

impl TableScan for ThrottledTables {
    async fn scan(&self, request: &ScanRequest) -> Result<ScanPage, Error> {
        if self.scans.fetch_add(1, Ordering::Relaxed) % 3 == 2 {
            return Err(Error::new(ErrorKind::Unavailable, "the table is throttled"));
        }
        self.tables.scan_now(&ScanRequest { page_items: Some(4), ..request.clone() })
    }

    async fn describe(&self, table: &str) -> Result<TableSummary, Error> {
        self.tables.describe_now(table)
    }
}

type WorldExporter<B, T> = ArchiveExporter<B, T, &'static StillClock>;

pub(crate) fn exporter<B: Bucket, T: Tables>(
    world: &OperationWorld,
    bucket: B,
    tables: T,
) -> WorldExporter<B, T> {
    let remembered = RememberedLookups::new(world.model(), Arc::from(STATE), tables);
    ArchiveExporter::new(world.model(), world.table_names(), bucket, Some(remembered), world.clock)
}

/// Fills datasets in chunks of a few items.
pub(crate) fn filling<B: Bucket, T: Tables + TableScan + Clone>(
    world: &OperationWorld,
    bucket: B,
    tables: T,
    job: &str,
) -> DatasetFill<B, T, &'static StillClock> {
    let arguments =
        BackfillArguments { segments: 3, datasets: DatasetFilling::Included, ..BackfillArguments::default() };
    DatasetFill::new(exporter(world, bucket, tables.clone()), tables, arguments, job).with_chunk_items(15)
}

/// Judges the rows of a bucket.
pub(crate) fn judge<B: Bucket + Clone, T: Tables + TableScan + Clone>(
    world: &OperationWorld,
    bucket: B,
    tables: T,
    tolerance: Duration,
) -> DatasetJudge<B, T, &'static StillClock> {
    DatasetJudge::new(world.context(tables), bucket, tolerance)
}

/// The mark of the exporter: a heartbeat that was written at this time is exported.
pub(crate) async fn store_heartbeat(objects: &Arc<MemoryObjects>, written: Timestamp) {
    objects.put("heartbeat/exported", written.epoch_ms().to_string().into_bytes()).await.unwrap();
}

/// Exports what was delivered since the last export.
pub(crate) async fn export_archive(world: &OperationWorld, objects: &Arc<MemoryObjects>, name: &str) {
    let lines = world.take_archived();
    objects.set_clock(world.clock.now());
    let key = format!("archive/dt=2026-02-06/hh=10/{name}.gz");
    objects.put(&key, gzip(&(lines.join("\n") + "\n"))).await.unwrap();
    let exporter = exporter(world, Arc::clone(objects), Arc::clone(&world.tables));
    let deadline = world.clock.now().plus(Duration::from_secs(60));
    let totals = exporter.export(&[key], deadline).await.remove(0).unwrap();
    assert_eq!((totals.lines, totals.rejected), (lines.len(), 0));
}

/// Compacts every day of every dataset.
pub(crate) async fn compact(world: &OperationWorld, objects: &Arc<MemoryObjects>) {
    objects.set_clock(world.clock.now());
    let options = CompactionOptions::default();
    let compactor = DatasetCompactor::new(world.model(), Arc::clone(objects), options, world.clock);
    compactor.compact(None, None).await.unwrap();
}

/// The rows of a version of a table, such as `attempts` or `attempts_log`.
pub(crate) async fn table_rows(objects: &Arc<MemoryObjects>, table: &str) -> Vec<TextRow> {
    let root = format!("datasets/{table}/");
    let snapshot = DeltaTable::new(Arc::clone(objects), root.as_str()).snapshot().await.unwrap();
    let stored = objects.objects();
    let files = snapshot.files().map(|file| stored.get(&format!("{root}{}", file.path)).cloned().unwrap());
    files.flat_map(rows_of).collect()
}

/// The current rows of items that exist, sorted.
pub(crate) async fn current_rows(world: &OperationWorld, objects: &Arc<MemoryObjects>) -> DatasetRows {
    let mut rows = Vec::new();
    for dataset in &world.model().datasets {
        for mut row in table_rows(objects, &dataset.name).await {
            // An item that expired stays; it is not among the items.
            if row.get("_operation").unwrap() != "EXPIRE" {
                row.retain(|name, _| {
                    let column = dataset.columns.iter().find(|column| *column.name == **name);
                    column.is_some_and(is_compared)
                });
                rows.push((dataset.name.to_string(), row));
            }
        }
    }
    rows.sort();
    rows
}

/// The rows of only one side: the current tables (`extra`), and the items (`missing`).
pub(crate) async fn differences(world: &OperationWorld, objects: &Arc<MemoryObjects>) -> Vec<String> {
    let (current, expected) = (current_rows(world, objects).await, expected_rows(world));
    let mut differences = Vec::new();
    for (name, rows, others) in [("extra", &current, &expected), ("missing", &expected, &current)] {
        let mut others = others.clone();
        for row in rows {
            // A row that is there twice is extra once.
            match others.binary_search(row) {
                Ok(at) => drop(others.remove(at)),
                Err(_) => differences.push(format!("{name}: {row:?}")),
            }
        }
    }
    differences
}

/// The rows that follow from the items of the tables, without derived values and outputs of lookups, sorted.
fn expected_rows(world: &OperationWorld) -> DatasetRows {
    let model = world.model();
    let mut expected = Vec::new();
    for (table, name) in world.table_names().iter().enumerate() {
        for item in world.rows(name) {
            let Some(source) = SourceKey::of_item(&model, table, &item) else { continue };
            let image = Image::from_item(&item, &model.row_attributes);
            let Some(identity) = source.identify(&model, &image) else { continue };
            for (_, dataset) in model.datasets_of(identity.entity) {
                let mut row = TextRow::new();
                for column in &dataset.columns {
                    let variable = identity.entity.variables.iter().position(|name| *name == column.source);
                    let value = match variable.and_then(|at| identity.variables.get(at)) {
                        Some(value) => Some(value.to_string()),
                        None => item_text(&item, &column.source),
                    };
                    if let (true, Some(value)) = (is_compared(column), value) {
                        row.insert(column.name.to_string(), value);
                    }
                }
                expected.push((dataset.name.to_string(), row));
            }
        }
    }
    expected.sort();
    expected
}

/// Whether a column has the text of an attribute or of a part of the key.
fn is_compared(column: &Column) -> bool {
    let is_of_item = match &column.from {
        Term::Key(_) | Term::Attribute(_) => true,
        Term::Derived(_) | Term::LookupOutput { .. } | Term::Element(_) => false,
    };
    is_of_item && ["string", "int64", "boolean"].contains(&&*column.column_type.to_string())
}

fn item_text(item: &Item, name: &str) -> Option<String> {
    let value: &AttributeValue<'_> = item.get(name)?;
    let number = || value.as_number().map(|number| number.to_string());
    let truth = || (*value == AttributeValue::Bool(true)).then(|| "true".to_owned());
    let falsehood = || (*value == AttributeValue::Bool(false)).then(|| "false".to_owned());
    value.as_text().map(str::to_owned).or_else(number).or_else(truth).or_else(falsehood)
}
