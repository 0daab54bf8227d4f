//! Backfill: a table that has items already, while it is written to; a model that changes; a table export.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use afterwrite_ledger::tables::{TableScan, Tables};
use afterwrite_local::dynamodb::{EmbeddedDynamoDb, TableDefinition};
use afterwrite_memory::{MemoryObjects, MemoryTables};
use afterwrite_model::clock::{Clock as _, SystemClock};
use afterwrite_model::record::AttributeValue;
use afterwrite_model::table::Model;
use afterwrite_operations::DeploymentContext;
use afterwrite_operations::backfill::{
    BackfillArguments, BackfillTask, ExportFolder, ExportSource, TableExport, plan_backfill,
};
use afterwrite_operations::jobs::{
    JobKind, JobPlan, JobRunner, JobState, JobStatus, JobStore, JobTask, JobTotals, SilentObserver,
    StepOutcome, WorkUnit, require_recovery,
};
use afterwrite_operations::verify::{DatasetCoverage, VerifyArguments, VerifyJob, VerifyTask};
use afterwrite_services::dynamodb::DynamoDb;

use super::created::{acquire, new_job};
use super::exports::full_export;
use super::world::{OperationWorld, STATE, sdk_item};

/// Fails like a killed process after some steps.
struct DyingTask<'t, J> {
    task: &'t J,
    steps_left: std::sync::atomic::AtomicUsize,
}

impl<J: JobTask> JobTask for DyingTask<'_, J> {
    async fn step(&self, unit: &WorkUnit) -> afterwrite_model::Result<StepOutcome> {
        let left = self.steps_left.load(std::sync::atomic::Ordering::Relaxed);
        if left == 0 {
            std::future::pending::<()>().await;
        }
        self.steps_left.store(left.saturating_sub(1), std::sync::atomic::Ordering::Relaxed);
        self.task.step(unit).await
    }
}

async fn task<T: Tables + TableScan + Clone>(
    world: &OperationWorld,
    tables: T,
    arguments: BackfillArguments,
    export: Option<TableExport>,
) -> BackfillTask<T, &'static afterwrite_tests::clock::StillClock> {
    BackfillTask::new(world.context(tables), arguments, export).await.unwrap()
}

fn jobs(world: &OperationWorld) -> JobStore<Arc<MemoryTables>, &'static afterwrite_tests::clock::StillClock> {
    JobStore::new(Arc::clone(&world.tables), world.clock, Arc::from(STATE))
}

/// Runs a backfill on tables that are quiet, or busy between any two requests.
async fn backfill<T: Tables + TableScan + Clone>(
    world: &OperationWorld,
    tables: T,
    arguments: BackfillArguments,
) -> JobState {
    let task = task(world, tables, arguments.clone(), None).await;
    let store = jobs(world);
    let job = store.create(new_job(JobKind::Backfill, task.units())).await.unwrap();
    let job = acquire(world, &store, &job.id).await.unwrap();
    let runner = JobRunner { store: &store, observer: &SilentObserver, workers: 4 };
    runner.run(job, &task).await.unwrap()
}

fn total(job: &JobState, name: &str) -> u64 {
    job.totals.get(name).copied().unwrap_or(0)
}

async fn plan(world: &OperationWorld, arguments: &BackfillArguments) -> JobPlan {
    plan_backfill(world.context(Arc::clone(&world.tables)), arguments).await.unwrap()
}

#[tokio::test]
async fn a_table_with_items_is_counted_exactly_while_it_is_written_to() {
    for model in Model::built_in_names() {
        for seed in 0..4 {
            let world = OperationWorld::new(model, seed, 40, 600);
            let job = backfill(&world, Arc::clone(&world), BackfillArguments::default()).await;
            assert!(total(&job, "reconciled") > 0, "{model} {seed}: {job:?}");
            world.finish();
            if total(&job, "failed_lookups") > 0 {
                // The record of a looked-up item was in flight.
                let again = backfill(&world, Arc::clone(&world.tables), BackfillArguments::default()).await;
                assert_eq!(total(&again, "failed"), 0, "{model} {seed}");
            }
            assert_eq!(world.differences(), [], "{model} {seed}");
        }
    }
}

#[tokio::test]
async fn a_killed_backfill_is_resumed_and_exact() {
    for seed in 0..3 {
        let world = OperationWorld::new("exambuddy", 100 + seed, 60, 700);
        let store = jobs(&world);
        let task = task(&world, Arc::clone(&world), BackfillArguments::default(), None).await;
        let job = store.create(new_job(JobKind::Backfill, task.units())).await.unwrap();
        let mut kills = 0;
        for steps in [5, 9, 14, 23, 31] {
            let dying = DyingTask { task: &task, steps_left: steps.into() };
            let Ok(acquired) = acquire(&world, &store, &job.id).await else { break };
            let runner = JobRunner { store: &store, observer: &SilentObserver, workers: 3 };
            if futures::FutureExt::now_or_never(runner.run(acquired, &dying)).is_some() {
                break;
            }
            kills += 1;
            world.clock.sleep(Duration::from_secs(61)).await;
        }
        assert!(kills >= 3, "{kills} kills");
        if store.load(&job.id).await.unwrap().status != JobStatus::Done {
            let acquired = acquire(&world, &store, &job.id).await.unwrap();
            let runner = JobRunner { store: &store, observer: &SilentObserver, workers: 3 };
            assert_eq!(runner.run(acquired, &task).await.unwrap().status, JobStatus::Done);
        }
        world.finish();
        assert_eq!(world.differences(), [], "seed {seed}");
    }
}

#[tokio::test]
async fn the_plan_is_the_price_and_a_second_backfill_writes_nothing() {
    for model in ["exambuddy", "shop"] {
        let world = OperationWorld::new(model, 7, 80, 1000);
        let arguments = BackfillArguments { segments: 1, ..BackfillArguments::default() };
        let plan = plan(&world, &arguments).await;
        assert!(world.rows(STATE).is_empty(), "a plan writes nothing");
        let job = backfill(&world, Arc::clone(&world.tables), arguments.clone()).await;
        let (planned, spent) = (plan.write_units, total(&job, "write_units"));
        let difference = planned.abs_diff(spent) * 100;
        assert!(difference <= spent * 2, "{model}: planned {planned}, spent {spent}");
        assert_eq!(plan.changes, total(&job, "reconciled"), "{model}");
        let state: BTreeSet<String> = world
            .rows(STATE)
            .iter()
            .map(|item| format!("{item:?}"))
            .filter(|item| !item.contains("JOB"))
            .collect();
        let again = backfill(&world, Arc::clone(&world.tables), arguments).await;
        assert_eq!((total(&again, "reconciled"), total(&again, "write_units")), (0, 0), "{model}");
        let after: BTreeSet<String> = world
            .rows(STATE)
            .iter()
            .map(|item| format!("{item:?}"))
            .filter(|item| !item.contains("JOB"))
            .collect();
        assert!(state == after, "{model}");
    }
}

/// ExamBuddy's model with one more aggregate and the next generation.
fn extended() -> Arc<Model> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../common/model/src/table/models/exambuddy.toml");
    let source = std::fs::read_to_string(folder).unwrap();
    let source = source.replacen("generation = 1", "generation = 2", 1)
        + r##"
[rollups.candidate_total]
key = { PK = "CANDIDATE#{candidate_id}", SK = "ROLLUP#CANDIDATE" }

[[aggregates]]
name = "attempts_by_candidate"
of = "attempt"
into = ["candidate_total"]
measures.taken = "count"
"##;
    Arc::new(Model::parse(&source, "extended.toml").unwrap_or_else(|errors| panic!("{errors}")))
}

#[tokio::test]
async fn a_new_aggregate_is_counted_exactly_and_nothing_else_is_written() {
    let world = OperationWorld::new("exambuddy", 11, 60, 700);
    backfill(&world, Arc::clone(&world), BackfillArguments::default()).await;
    world.finish();
    let before = world.rows(STATE);
    world.deploy(&extended());
    let arguments = BackfillArguments { segments: 1, ..BackfillArguments::default() };
    let plan = plan(&world, &arguments).await;
    let job = backfill(&world, Arc::clone(&world.tables), arguments).await;
    let (planned, spent) = (plan.write_units, total(&job, "write_units"));
    assert!(planned.abs_diff(spent) * 20 <= spent, "planned {planned}, spent {spent}");

    let name = world.table_names().remove(0);
    let mut expected = std::collections::BTreeMap::<String, i64>::new();
    let text = |item: &afterwrite_model::record::Item, name: &str| {
        item.get(name).and_then(AttributeValue::as_text).unwrap_or_default().to_owned()
    };
    for item in world.rows(&name) {
        if text(&item, "PK").starts_with("CANDIDATE#") && text(&item, "SK").starts_with("ATTEMPT#") {
            *expected.entry(text(&item, "PK")).or_default() += 1;
        }
    }
    let attempts: i64 = expected.values().sum();
    assert_eq!(total(&job, "reconciled"), u64::try_from(attempts).unwrap(), "only attempts are written");
    let state = world.rows(STATE);
    let counted = state.iter().filter(|item| text(item, "SK") == "ROLLUP#CANDIDATE").map(|item| {
        let taken = item.get("taken").and_then(AttributeValue::as_number).and_then(|taken| taken.to_i64());
        (text(item, "PK"), taken.unwrap())
    });
    assert_eq!(counted.collect::<std::collections::BTreeMap<_, _>>(), expected);
    let rollups = |items: &[afterwrite_model::record::Item]| -> BTreeSet<String> {
        let old = items
            .iter()
            .filter(|item| text(item, "EntityType") == "ROLLUP" && text(item, "SK") != "ROLLUP#CANDIDATE");
        old.map(|item| format!("{item:?}")).collect()
    };
    assert!(rollups(&before) == rollups(&state), "the other rollups are untouched, their revisions included");

    // The model goes back: what it no longer has is subtracted on request.
    let without = Model::parse(
        &std::fs::read_to_string(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../common/model/src/table/models/exambuddy.toml"
        ))
        .unwrap()
        .replacen("generation = 1", "generation = 3", 1),
        "without.toml",
    );
    world.deploy(&Arc::new(without.unwrap()));
    let drop = BackfillArguments { drop: true, ..BackfillArguments::default() };
    backfill(&world, Arc::clone(&world.tables), drop).await;
    let state = world.rows(STATE);
    let mut left = state.iter().filter(|item| text(item, "SK") == "ROLLUP#CANDIDATE");
    assert!(left.all(|item| item["taken"] == AttributeValue::N(0.into())), "everything is subtracted");
    assert_eq!(world.differences().iter().filter(|other| !other.place.contains("CANDIDATE")).count(), 0);
}

#[tokio::test]
async fn one_tenant_first_and_then_all() {
    let world = OperationWorld::new("exambuddy", 21, 60, 1000);
    let text = |item: &afterwrite_model::record::Item, name: &str| {
        item.get(name).and_then(AttributeValue::as_text).unwrap_or_default().to_owned()
    };
    let name = world.table_names().remove(0);
    let projects = world.rows(&name);
    let admin = projects.iter().find_map(|item| {
        let key = text(item, "PK");
        key.strip_prefix("ADMIN#").filter(|_| text(item, "SK").starts_with("PROJECT#")).map(str::to_owned)
    });
    let admin = admin.unwrap();
    let only = format!("admin_id={admin}").parse().unwrap();
    let pilot = BackfillArguments { only: Some(only), ..BackfillArguments::default() };
    backfill(&world, Arc::clone(&world.tables), pilot).await;
    let state = world.rows(STATE);
    let partitions: BTreeSet<String> = state
        .iter()
        .filter(|item| text(item, "EntityType") == "ROLLUP" && text(item, "PK").starts_with("ADMIN#"))
        .map(|item| text(item, "PK"))
        .collect();
    assert_eq!(partitions, [format!("ADMIN#{admin}")].into());
    let of_tenant = |place: &str| place.starts_with(&format!("ADMIN#{admin} "));
    assert!(!world.differences().iter().any(|other| of_tenant(&other.place)), "the tenant is exact");
    assert!(!world.differences().is_empty(), "the others are not counted yet");
    backfill(&world, Arc::clone(&world.tables), BackfillArguments::default()).await;
    assert_eq!(world.differences(), []);
}

#[tokio::test]
async fn an_entry_whose_item_is_gone_is_reconciled() {
    let world = OperationWorld::new("exambuddy", 31, 40, 1000);
    backfill(&world, Arc::clone(&world.tables), BackfillArguments::default()).await;
    assert_eq!(world.differences(), []);
    let name = world.table_names().remove(0);
    let attempt = world.rows(&name).into_iter().find(|item| {
        item.get("SK").and_then(AttributeValue::as_text).is_some_and(|sort| sort.starts_with("ATTEMPT#"))
    });
    let key = world.tables.key_of(&name, &attempt.unwrap()).unwrap();
    world.tables.delete(&key).unwrap();
    // The record of the deletion is lost.
    let _ = world.tables.take_changes(&name);
    assert_ne!(world.differences(), []);
    let job = backfill(&world, Arc::clone(&world.tables), BackfillArguments::default()).await;
    assert_eq!((total(&job, "orphans"), world.differences()), (1, Vec::new()));
}

/// A full export of a table, in two data files; the second has a wrong checksum if `is_broken`.
fn export(world: &OperationWorld, is_broken: bool) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("data")).unwrap();
    let name = world.table_names().remove(0);
    for (key, mut object) in full_export(&world.rows(&name), &name, world.clock.now(), "x", 2) {
        if is_broken && key.ends_with("000001.json.gz") {
            object.push(0);
        }
        std::fs::write(folder.path().join(key.strip_prefix("x/").unwrap()), object).unwrap();
    }
    folder
}

#[tokio::test]
async fn a_table_export_is_counted_exactly_with_the_changes_after_it() {
    for seed in 0..3 {
        let world = OperationWorld::new("exambuddy", 40 + seed, 60, 600);
        let folder = export(&world, false);
        let (export, exported_at) =
            TableExport::open(ExportFolder::Local(folder.path().to_owned())).await.unwrap();
        let source = ExportSource {
            table: world.table_names()[0].to_string(),
            location: folder.path().display().to_string(),
            exported_at_ms: exported_at.epoch_ms(),
            mapping_since_ms: exported_at.epoch_ms(),
            manifest: export.manifest().fingerprint.clone(),
        };
        let arguments = BackfillArguments { export: Some(source), ..BackfillArguments::default() };
        let task = task(&world, Arc::clone(&world), arguments, Some(export)).await;
        let totals = run_alone(&task).await;
        assert!(totals["reconciled"] > 0);
        world.finish();
        assert_eq!(world.differences(), [], "seed {seed}");
    }
}

async fn run_alone(task: &impl BackfillSteps) -> JobTotals {
    let mut totals = JobTotals::new();
    for mut unit in task.all_units() {
        while !unit.is_done {
            let outcome = task.step(&unit).await.unwrap();
            unit.is_done = outcome.cursor.is_none();
            unit.cursor = outcome.cursor;
            totals.add_all(&outcome.totals);
        }
    }
    totals
}

trait BackfillSteps: JobTask {
    fn all_units(&self) -> Vec<WorkUnit>;
}

impl<T: Tables + TableScan + Clone, C: afterwrite_model::clock::Clock> BackfillSteps for BackfillTask<T, C> {
    fn all_units(&self) -> Vec<WorkUnit> {
        self.units()
    }
}

#[tokio::test]
async fn an_export_that_could_be_counted_wrongly_is_refused() {
    let world = OperationWorld::new("exambuddy", 50, 20, 1000);
    let folder = export(&world, true);
    let open = || TableExport::open(ExportFolder::Local(folder.path().to_owned()));
    let (broken, exported_at) = open().await.unwrap();
    let source = |mapping_since_ms: i64, exported_at_ms: i64| ExportSource {
        table: world.table_names()[0].to_string(),
        location: "x".to_owned(),
        exported_at_ms,
        mapping_since_ms,
        manifest: broken.manifest().fingerprint.clone(),
    };
    let at = exported_at.epoch_ms();
    let old = at - 35 * 24 * 3_600_000;
    for (source, words) in [(source(at + 1, at), "not read before"), (source(0, old), "35 days")] {
        let arguments = BackfillArguments { export: Some(source), ..BackfillArguments::default() };
        let (export, _) = open().await.unwrap();
        let refused = BackfillTask::new(world.context(Arc::clone(&world.tables)), arguments, Some(export));
        let error = refused.await.err().unwrap().to_string();
        assert!(error.contains(words), "{error}");
    }
    let arguments = BackfillArguments { export: Some(source(at, at)), ..BackfillArguments::default() };
    let task = task(&world, Arc::clone(&world.tables), arguments, Some(broken)).await;
    let unit = task.units().into_iter().find(|unit| unit.name.starts_with("file 1/")).unwrap();
    let error = task.step(&unit).await.unwrap_err().to_string();
    assert!(error.contains("checksum"), "{error}");
}

#[tokio::test]
async fn a_table_of_a_dynamodb_server_is_planned_and_filled_and_verified() {
    let world = OperationWorld::new("exambuddy", 60, 30, 1000);
    let server = EmbeddedDynamoDb::start().await.unwrap();
    let client = server.client();
    server.create_table(&TableDefinition::state(STATE)).await.unwrap();
    for table in world.workload.tables() {
        server.create_table(&table).await.unwrap();
        for item in world.rows(&table.name) {
            client.put_item().table_name(&table.name).set_item(Some(sdk_item(&item))).send().await.unwrap();
        }
    }
    let tables = Arc::new(DynamoDb::new(client.clone()));
    // An emulated table needs no recovery.
    require_recovery(&tables, STATE, false).await.unwrap();

    let arguments = BackfillArguments { segments: 2, ..BackfillArguments::default() };
    let context = DeploymentContext {
        model: world.model(),
        table_names: world.table_names(),
        state_table: Arc::from(STATE),
        tables,
        clock: SystemClock,
    };
    let plan = plan_backfill(context.clone(), &arguments);
    let plan = plan.await.unwrap();
    let task = BackfillTask::new(context.clone(), arguments, None);
    let totals = run_alone(&task.await.unwrap()).await;
    assert_eq!(totals["reconciled"], plan.changes);
    let arguments = VerifyArguments { segments: 2, tolerance_seconds: 1, ..VerifyArguments::default() };
    let task = VerifyTask::new(context, arguments);
    let mut totals = JobTotals::new();
    for mut unit in task.units_in_order() {
        while !unit.is_done {
            let outcome = task.step(&unit).await.unwrap();
            totals.add_all(&outcome.totals);
            unit.is_done = outcome.cursor.is_none();
            unit.cursor = outcome.cursor;
        }
    }
    let job: VerifyJob<Arc<MemoryObjects>, _, _> = VerifyJob::new(task, None, DatasetCoverage::NoDatasets);
    let report = job.report(&totals);
    assert_eq!((report.findings.len(), report.summary.items), (0, report.summary.items_confirmed));
    assert!(report.summary.rollups_confirmed > 0);
    server.stop().await.unwrap();
}

trait UnitsInOrder {
    fn units_in_order(&self) -> Vec<WorkUnit>;
}

impl<T: Tables + TableScan + Clone, C: afterwrite_model::clock::Clock> UnitsInOrder for VerifyTask<T, C> {
    fn units_in_order(&self) -> Vec<WorkUnit> {
        let mut units = self.units();
        units.sort_by_key(|unit| unit.phase);
        units
    }
}
