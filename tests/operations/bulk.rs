//! The bulk backfill: a table export becomes the same state, digit by digit, as a backfill by transactions.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use afterwrite_bulk::request::{BulkRequest, BulkResponse, BulkTotals, PlanReport, PlanRequest};
use afterwrite_bulk::{BulkWorker, RunLayout, RunRequests, visit_items};
use afterwrite_functions::StreamAggregator;
use afterwrite_ledger::state::import::ImportTimes;
use afterwrite_ledger::{Ledger, TombstoneHistory};
use afterwrite_memory::{MemoryObjects, MemoryTables};
use afterwrite_model::clock::Clock as _;
use afterwrite_model::record::{AttributeValue, Decimal, Item, Timestamp};
use afterwrite_model::table::Model;
use afterwrite_model::{ErrorKind, Result};
use afterwrite_operations::DeploymentContext;
use afterwrite_operations::backfill::{BackfillArguments, BackfillTask};
use afterwrite_operations::jobs::JobTask as _;
use afterwrite_operations::replay::{LookupCopy, StateOnlyTables};
use afterwrite_services::{Bucket as _, ObjectStore as _};
use afterwrite_tests::clock::StillClock;
use afterwrite_tests::random::SeededRandom;
use afterwrite_tests::state_stream::table_names;

use super::exports::full_export;
use super::world::{OperationWorld, STATE};

const RUN: &str = "bulk/run";
const NEW: &str = "new-state";
const PARTITIONS: u32 = 3;

type WorldWorker = BulkWorker<Arc<MemoryObjects>, Arc<MemoryTables>, &'static StillClock>;
/// The items of a state table by `PK` and `SK`.
type StateRows = BTreeMap<(String, String), Item>;

fn text<'i>(item: &'i Item, name: &str) -> &'i str {
    item.get(name).and_then(AttributeValue::as_text).unwrap_or_default()
}

fn by_key(items: impl IntoIterator<Item = Item>) -> StateRows {
    items
        .into_iter()
        .map(|item| ((text(&item, "PK").to_owned(), text(&item, "SK").to_owned()), item))
        .collect()
}

/// Exports every table of the application; returns the worker, and the plan of a run over all exports.
async fn exported(world: &OperationWorld, files: usize) -> (WorldWorker, PlanRequest) {
    let bucket = Arc::new(MemoryObjects::default());
    let mut exports = Vec::new();
    for name in application_tables(world) {
        let prefix = format!("AWSDynamoDB/{name}");
        for (key, object) in full_export(&world.rows(&name), &name, world.clock.now(), &prefix, files) {
            bucket.put(&key, object).await.unwrap();
        }
        exports.push(prefix);
    }
    let worker = BulkWorker::new(
        bucket,
        world.model(),
        world.table_names(),
        Arc::from(STATE),
        Arc::clone(&world.tables),
        world.clock,
    );
    let plan = PlanRequest {
        run: RUN.to_owned(),
        exports,
        mapping_since_ms: world.clock.now().epoch_ms(),
        partitions: PARTITIONS,
        lookup_rate: 1_000_000,
    };
    (worker, plan)
}

/// The names of the application's tables. Rollups of rollups are counted by transactions in the imported table.
fn application_tables(world: &OperationWorld) -> impl Iterator<Item = Arc<str>> {
    world.table_names().into_iter().filter(|name| **name != *STATE)
}

async fn planned(worker: &WorldWorker, plan: &PlanRequest) -> PlanReport {
    match worker.handle(&BulkRequest::Plan(plan.clone())).await.unwrap() {
        BulkResponse::Planned(report) => report,
        BulkResponse::Counted { totals } => panic!("{totals:?}"),
    }
}

/// Runs all steps through their JSON, each phase in a random order; a share (per thousand) of the steps runs twice.
async fn run_steps(worker: &WorldWorker, plan: &PlanRequest, seed: u64, twice: u64) -> BulkTotals {
    let mut random = SeededRandom::new(seed);
    planned(worker, plan).await;
    let mut totals = BulkTotals::new();
    for phase in ["lookups", "items", "reduce"] {
        let mut requests = RunRequests::read(worker.bucket(), RUN, phase).await.unwrap();
        while !requests.is_empty() {
            let next = usize::try_from(random.below(u64::try_from(requests.len()).unwrap())).unwrap();
            let request = requests.swap_remove(next);
            let counted = counted(worker, &request).await.unwrap();
            if random.chance(twice) {
                let before = worker.bucket().objects();
                assert_eq!(self::counted(worker, &request).await.unwrap(), counted, "{request:?}");
                assert!(
                    before == worker.bucket().objects(),
                    "a step that runs twice writes the same objects"
                );
            }
            for (name, number) in counted {
                *totals.entry(name).or_default() += number;
            }
        }
    }
    totals
}

async fn counted(worker: &WorldWorker, request: &BulkRequest) -> Result<BulkTotals> {
    let request = BulkRequest::read(&request.to_json().unwrap()).unwrap().unwrap();
    match worker.handle(&request).await? {
        BulkResponse::Counted { totals } => Ok(totals),
        BulkResponse::Planned(report) => panic!("{report:?}"),
    }
}

/// The items that `ImportTable` would read.
async fn imported(bucket: &Arc<MemoryObjects>) -> Vec<Item> {
    let mut items = Vec::new();
    for object in bucket.list(&RunLayout(RUN).import()).await.unwrap() {
        let visited = visit_items(bucket, &object.key, |item| {
            items.push(item);
            Ok(())
        });
        visited.await.unwrap();
    }
    items
}

/// The new table: the imported items, and the lookups that the deployed table remembers, too.
async fn import(world: &OperationWorld, bucket: &Arc<MemoryObjects>) {
    world.create_state_table(NEW);
    for item in imported(bucket).await {
        let before = world.tables.put(NEW, item).unwrap();
        assert_eq!(before, None, "no key is imported twice");
    }
    let copy = LookupCopy { tables: Arc::clone(&world.tables), from: Arc::from(STATE), into: Arc::from(NEW) };
    let mut after = None;
    loop {
        let (_, next) = copy.copy_page(after).await.unwrap();
        match next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
}

/// Backfills a state table by transactions.
pub(super) async fn backfill(world: &OperationWorld, state_table: &str, arguments: BackfillArguments) {
    let table_names = table_names(&world.model(), state_table);
    let state_table = Arc::from(state_table);
    let context = DeploymentContext { state_table, table_names, ..world.context(Arc::clone(&world.tables)) };
    let task = BackfillTask::new(context, arguments, None);
    let task = task.await.unwrap();
    for mut unit in task.units() {
        while !unit.is_done {
            let outcome = task.step(&unit).await.unwrap();
            assert!(!outcome.totals.contains_key("failed"), "{:?}", outcome.totals);
            unit.is_done = outcome.cursor.is_none();
            unit.cursor = outcome.cursor;
        }
    }
}

pub(super) fn refreshing() -> BackfillArguments {
    BackfillArguments { mirrors: true, ..BackfillArguments::default() }
}

/// A state without what depends on the way of counting: when an item was read, and how many transactions a rollup has seen.
fn comparable(items: Vec<Item>) -> StateRows {
    let mut rows = by_key(items);
    rows.retain(|_, item| text(item, "EntityType") != "IMPORT");
    for item in rows.values_mut() {
        match text(item, "EntityType") {
            "ROLLUP" => {
                assert!(item.remove("rev").is_some_and(|rev| rev.as_number().is_some()), "{item:?}");
            }
            "LEDGER" => {
                assert!(item.remove("as_of").is_some(), "{item:?}");
            }
            _ => {}
        }
    }
    rows
}

fn count_of(rows: &StateRows, entity_type: &str) -> usize {
    rows.values().filter(|item| text(item, "EntityType") == entity_type).count()
}

#[tokio::test]
async fn a_table_has_the_same_state_by_transactions_and_in_bulk_digit_by_digit() {
    for model in Model::built_in_names() {
        for seed in 0..3 {
            let by_transactions = OperationWorld::new(model, seed, 60, 1000);
            backfill(&by_transactions, STATE, BackfillArguments::default()).await;
            let in_bulk = OperationWorld::new(model, seed, 60, 1000);
            let (worker, plan) = exported(&in_bulk, 4).await;
            let totals = run_steps(&worker, &plan, seed, 300).await;
            import(&in_bulk, worker.bucket()).await;

            let entries = u64::try_from(count_of(&comparable(in_bulk.rows(NEW)), "LEDGER")).unwrap();
            let has_levels = in_bulk.model().state_source().is_some();
            if has_levels {
                backfill(&in_bulk, NEW, BackfillArguments::default()).await;
            }
            let expected = comparable(by_transactions.rows(STATE));
            let actual = comparable(in_bulk.rows(NEW));
            assert!(
                count_of(&expected, "ROLLUP") > 10 && count_of(&expected, "LEDGER") > 50,
                "{model} {seed}"
            );
            for (key, item) in &expected {
                assert_eq!(Some(item), actual.get(key), "{model} {seed} {key:?}");
            }
            assert_eq!(expected.len(), actual.len(), "{model} {seed}");
            assert_eq!(
                (totals.get("entries"), totals.get("failed")),
                (Some(&entries), None),
                "{model} {seed}"
            );
            let mut items = application_tables(&in_bulk).flat_map(|table| in_bulk.rows(&table));
            let has_copy = |item: Item| item.keys().any(|name| name.ends_with("_rev"));
            assert!(has_levels || !items.any(has_copy), "{model}: the application's items are not written");
            // After the switch, the copies on the application's items are refreshed, and nothing else.
            backfill(&in_bulk, NEW, refreshing()).await;
            assert_eq!(in_bulk.differences_in(NEW), [], "{model} {seed}: by the workload's own recount");
        }
    }
}

#[tokio::test]
async fn changes_since_the_export_are_replayed_into_the_new_table() {
    for model in Model::built_in_names() {
        for seed in 0..3 {
            let world = OperationWorld::new(model, 50 + seed, 50, 600);
            let (worker, plan) = exported(&world, 3).await;
            // The application goes on, and the functions count into the deployed state table.
            world.clock.sleep(Duration::from_secs(60)).await;
            world.finish();
            run_steps(&worker, &plan, seed, 100).await;
            import(&world, worker.bucket()).await;
            let aggregator = fresh_aggregator(&world);
            let archived = world.take_archived();
            assert!(archived.len() > 20, "{model} {seed}: {} records", archived.len());
            for lines in archived.chunks(40) {
                replay(&aggregator, lines).await;
            }
            // The archive has the changes of the application's tables: rollups of rollups are counted from the new table itself.
            if world.model().state_source().is_some() {
                backfill(&world, NEW, BackfillArguments::default()).await;
            }
            backfill(&world, NEW, refreshing()).await;
            assert_eq!(world.differences_in(NEW), [], "{model} {seed}");
            // A second replay changes nothing.
            let before = world.rows(NEW);
            for lines in archived.chunks(60) {
                replay(&aggregator, lines).await;
            }
            assert!(before == world.rows(NEW), "{model} {seed}: records are counted once");
        }
    }
}

type FreshAggregator = StreamAggregator<StateOnlyTables<Arc<MemoryTables>>, &'static StillClock>;

fn fresh_aggregator(world: &OperationWorld) -> FreshAggregator {
    let tables = StateOnlyTables::new(Arc::clone(&world.tables), NEW);
    let names = table_names(&world.model(), NEW);
    let ledger = Ledger::new(world.model(), names, Arc::from(NEW), tables, world.clock);
    StreamAggregator::new(ledger.with_history(TombstoneHistory::Complete))
}

/// Delivers records; a batch is of one stream.
async fn replay(aggregator: &FreshAggregator, lines: &[String]) {
    let mut by_stream: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for line in lines {
        let record: serde_json::Value = serde_json::from_str(line).unwrap();
        let stream = record.get("eventSourceARN").unwrap().to_string();
        by_stream.entry(stream).or_default().push(line);
    }
    for records in by_stream.into_values() {
        let event = format!(r#"{{"Records":[{}]}}"#, records.join(","));
        let handled = aggregator.handle(event.as_bytes(), Timestamp::from_epoch_ms(i64::MAX)).await.unwrap();
        assert!(handled.failures.is_empty() && handled.parked.is_empty(), "{:?}", handled.failures);
    }
}

#[tokio::test]
async fn a_small_reduce_step_reads_its_parts_several_times_and_merges_the_same() {
    let world = OperationWorld::new("shop", 5, 80, 1000);
    let (worker, plan) = exported(&world, 5).await;
    run_steps(&worker, &plan, 1, 0).await;
    let whole = by_key(imported(worker.bucket()).await);
    let objects = worker.bucket().list(&RunLayout(RUN).import()).await.unwrap().len();
    let worker = worker.merging_at_once(200);
    run_steps(&worker, &plan, 2, 500).await;
    let parts = worker.bucket().list(&RunLayout(RUN).import()).await.unwrap().len();
    assert!(parts > objects, "{parts} and {objects} objects");
    // The first object of each partition was replaced, and the others were added.
    assert!(whole == by_key(imported(worker.bucket()).await));
}

#[tokio::test]
async fn revisions_and_the_origin_of_the_table_are_of_the_time_of_the_export() {
    let world = OperationWorld::new("exambuddy", 7, 40, 1000);
    let (worker, plan) = exported(&world, 3).await;
    run_steps(&worker, &plan, 7, 0).await;
    let now = world.clock.now().epoch_ms();
    let items = imported(worker.bucket()).await;
    for rollup in items.iter().filter(|item| text(item, "EntityType") == "ROLLUP") {
        let rev = rollup["rev"].as_number().and_then(Decimal::to_i64).unwrap();
        assert!(rev > now && rev < now + 1_000, "{rev}");
    }
    let origins: Vec<_> = items.iter().filter(|item| text(item, "EntityType") == "IMPORT").collect();
    assert_eq!(origins.len(), 1);
    assert_eq!(ImportTimes::decode(origins[0]).unwrap(), ImportTimes { earliest_ms: now, latest_ms: now });
    assert_eq!(text(origins[0], "PK"), "AFTERWRITE#IMPORT#");
}

#[tokio::test]
async fn items_whose_looked_up_item_is_gone_are_reported_and_all_others_counted() {
    let world = OperationWorld::new("exambuddy", 9, 60, 1000);
    let name = world.table_names().remove(0);
    let project = world
        .rows(&name)
        .into_iter()
        .find(|item| text(item, "PK").starts_with("ADMIN#") && text(item, "SK").starts_with("PROJECT#"));
    let key = world.tables.key_of(&name, &project.unwrap()).unwrap();
    world.tables.delete(&key).unwrap();
    let (worker, plan) = exported(&world, 4).await;
    let totals = run_steps(&worker, &plan, 9, 500).await;
    let (failed, entries) = (totals["failed_lookups"], totals["entries"]);
    assert!(failed > 0 && entries > 0 && totals["failed"] == failed, "{totals:?}");
}

#[tokio::test]
async fn an_item_without_the_key_of_the_table_fails_its_step() {
    let world = OperationWorld::new("exambuddy", 12, 40, 1000);
    let (worker, plan) = exported(&world, 1).await;
    let name = world.table_names().remove(0);
    let mut rows = world.rows(&name);
    rows.last_mut().unwrap().remove("SK");
    for (key, object) in full_export(&rows, &name, world.clock.now(), &plan.exports[0], 1) {
        worker.bucket().put(&key, object).await.unwrap();
    }
    planned(&worker, &plan).await;
    for request in RunRequests::read(worker.bucket(), RUN, "items").await.unwrap() {
        let error = counted(&worker, &request).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Configuration);
        assert!(error.to_string().contains("does not have the key of the table"), "{error}");
    }
}

#[tokio::test]
async fn a_run_that_could_be_counted_wrongly_is_refused() {
    let world = OperationWorld::new("quiz", 3, 20, 1000);
    let (worker, plan) = exported(&world, 2).await;
    let refused = async |plan: PlanRequest, words: &str| {
        let error = worker.handle(&BulkRequest::Plan(plan)).await.unwrap_err();
        assert!(error.kind() == ErrorKind::Configuration && error.to_string().contains(words), "{error}");
    };
    refused(PlanRequest { mapping_since_ms: plan.mapping_since_ms + 1, ..plan.clone() }, "not read before")
        .await;
    refused(PlanRequest { exports: plan.exports[..1].to_vec(), ..plan.clone() }, "has no export").await;
    let twice = [plan.exports[..1].to_vec(), plan.exports.clone()].concat();
    refused(PlanRequest { exports: twice, ..plan.clone() }, "two exports").await;
    refused(PlanRequest { partitions: 0, ..plan.clone() }, "out of range").await;
    planned(&worker, &plan).await;
    planned(&worker, &plan).await;
    refused(PlanRequest { partitions: 4, ..plan.clone() }, "another run").await;

    let mut broken = RunRequests::read(worker.bucket(), RUN, "items").await.unwrap();
    let Some(BulkRequest::Map(request)) = broken.first_mut() else { panic!("no data file") };
    request.file.item_count += 1;
    let error = worker.handle(&broken[0]).await.unwrap_err();
    assert!(error.to_string().contains("items in the manifest"), "{error}");
    let Some(BulkRequest::Map(request)) = broken.first_mut() else { panic!("no data file") };
    request.model = "other".to_owned();
    let error = worker.handle(&broken[0]).await.unwrap_err();
    assert!(error.to_string().contains("another model"), "{error}");

    world.clock.sleep(Duration::from_secs(35 * 24 * 3600)).await;
    refused(plan, "35 days").await;
}
