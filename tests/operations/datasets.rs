//! Datasets of a table that has items already: filled by a backfill, while the application writes.

use std::sync::Arc;
use std::time::Duration;

use afterwrite_model::clock::Clock as _;
use afterwrite_model::record::AttributeValue;
use afterwrite_operations::backfill::{
    BackfillArguments, BackfillJob, BackfillTask, DatasetFill, DatasetFilling, plan_datasets,
};
use afterwrite_operations::jobs::{
    JobKind, JobPlan, JobRunner, JobState, JobStatus, JobStore, SilentObserver,
};

use super::created::{acquire, new_job, run};
use super::lake::{
    MortalBucket, ThrottledTables, compact, current_rows, differences, export_archive, exporter, filling,
    table_rows,
};
use super::world::{OperationWorld, STATE};

fn total(job: &JobState, name: &str) -> u64 {
    job.totals.get(name).copied().unwrap_or(0)
}

#[tokio::test]
async fn current_tables_equal_the_items_although_the_stream_never_delivered_most_of_them() {
    for (model, seed) in [("exambuddy", 1), ("exambuddy", 2), ("shop", 3), ("quiz", 4), ("glad", 5)] {
        let world = OperationWorld::new(model, seed, 60, 600);
        let bucket = MortalBucket::new(&world);
        let counting = BackfillTask::new(
            world.context(Arc::clone(&world)),
            BackfillArguments { segments: 2, ..BackfillArguments::default() },
            None,
        );
        let task = BackfillJob {
            counting: Some(counting.await.unwrap()),
            filling: Some(filling(&world, bucket.clone(), Arc::clone(&world), "job")),
        };
        let job = run(&world, JobKind::Backfill, task.units(), &task).await;
        assert!(total(&job, "dataset_rows") > 0 && total(&job, "reconciled") > 0, "{model}: {job:?}");
        // The rows of the backfill alone are compacted first; those of the stream come later.
        compact(&world, &bucket.objects).await;
        world.finish();
        export_archive(&world, &bucket.objects, "later").await;
        compact(&world, &bucket.objects).await;
        assert_eq!(differences(&world, &bucket.objects).await, [""; 0], "{model} {seed}");
        let mut without_stream = 0;
        for dataset in &world.model().datasets {
            for row in table_rows(&bucket.objects, &dataset.name).await {
                without_stream += usize::from(row["_operation"] == "SNAPSHOT");
            }
        }
        assert!(without_stream > 0, "{model}: items that only the backfill has read");
    }
}

#[tokio::test]
async fn a_snapshot_has_the_start_of_the_stream_the_time_of_its_reading_and_the_remembered_lookups() {
    let world = OperationWorld::new("exambuddy", 7, 40, 1000);
    let bucket = MortalBucket::new(&world);
    let counting =
        BackfillTask::new(world.context(Arc::clone(&world.tables)), BackfillArguments::default(), None);
    let task = BackfillJob {
        counting: Some(counting.await.unwrap()),
        filling: Some(filling(&world, bucket.clone(), Arc::clone(&world.tables), "job")),
    };
    run(&world, JobKind::Backfill, task.units(), &task).await;
    let rows = table_rows(&bucket.objects, "attempts_log").await;
    assert!(!rows.is_empty());
    for row in rows {
        let (label, digits) = row["_position"].rsplit_once('#').unwrap();
        assert_eq!((row["_operation"].as_str(), digits), ("SNAPSHOT", "0".repeat(40).as_str()));
        assert_eq!(label, afterwrite_memory::MEMORY_STREAM_LABEL);
        assert!(row.contains_key("_changed_at") && row.contains_key("admin_id"), "{row:?}");
    }
}

#[tokio::test]
async fn a_state_that_the_stream_delivers_later_wins_over_the_snapshot_and_a_deletion_too() {
    let world = OperationWorld::new("exambuddy", 11, 40, 1000);
    let bucket = MortalBucket::new(&world);
    let fill = filling(&world, bucket.clone(), Arc::clone(&world.tables), "job");
    run(&world, JobKind::Backfill, fill.units(), &fill).await;
    let name = world.table_names().remove(0);
    let is_attempt = |item: &afterwrite_model::record::Item| {
        item.get("SK").and_then(AttributeValue::as_text).is_some_and(|sort| sort.starts_with("ATTEMPT#"))
    };
    let mut attempts = world.rows(&name).into_iter().filter(is_attempt);
    let (mut changed, deleted) = (attempts.next().unwrap(), attempts.next().unwrap());
    changed.insert("status".into(), AttributeValue::text("REVISED"));
    world.tables.set_time(world.clock.now());
    world.tables.put(&name, changed).unwrap();
    world.tables.delete(&world.tables.key_of(&name, &deleted).unwrap()).unwrap();
    world.stream_changes();
    compact(&world, &bucket.objects).await;
    assert_eq!(differences(&world, &bucket.objects).await.len(), 3, "one item is older, and one is gone");
    world.finish();
    export_archive(&world, &bucket.objects, "later").await;
    compact(&world, &bucket.objects).await;
    assert_eq!(differences(&world, &bucket.objects).await, [""; 0]);
    let rows = current_rows(&world, &bucket.objects).await;
    assert!(rows.iter().any(|(_, row)| row.get("status").is_some_and(|status| status == "REVISED")));
}

#[tokio::test]
async fn a_killed_filling_is_resumed_and_adds_no_duplicates() {
    for seed in 0..3 {
        let world = OperationWorld::new("exambuddy", 200 + seed, 60, 700);
        let bucket = MortalBucket::new(&world);
        let store = JobStore::new(Arc::clone(&world.tables), world.clock, Arc::from(STATE));
        let fill = filling(&world, bucket.clone(), Arc::clone(&world), "job");
        let job = store.create(new_job(JobKind::Backfill, fill.units())).await.unwrap();
        let mut kills = 0;
        for puts in [3, 7, 12, 20, 33] {
            bucket.die_after(puts);
            bucket.objects.set_clock(world.clock.now());
            let acquired = acquire(&world, &store, &job.id).await.unwrap();
            let runner = JobRunner { store: &store, observer: &SilentObserver, workers: 3 };
            if futures::FutureExt::now_or_never(runner.run(acquired, &fill)).is_some() {
                break;
            }
            kills += 1;
            world.clock.sleep(Duration::from_secs(61)).await;
        }
        assert!(kills >= 3, "{kills} kills");
        bucket.die_after(usize::MAX);
        if store.load(&job.id).await.unwrap().status != JobStatus::Done {
            let acquired = acquire(&world, &store, &job.id).await.unwrap();
            let runner = JobRunner { store: &store, observer: &SilentObserver, workers: 3 };
            assert_eq!(runner.run(acquired, &fill).await.unwrap().status, JobStatus::Done);
        }
        world.finish();
        export_archive(&world, &bucket.objects, "later").await;
        compact(&world, &bucket.objects).await;
        assert_eq!(differences(&world, &bucket.objects).await, [""; 0], "seed {seed}");
    }
}

#[tokio::test]
async fn a_step_that_is_repeated_after_a_kill_changes_nothing_and_another_job_writes_again() {
    let world = OperationWorld::new("exambuddy", 21, 40, 1000);
    let bucket = MortalBucket::new(&world);
    let fill = filling(&world, bucket.clone(), Arc::clone(&world.tables), "job");
    run(&world, JobKind::Backfill, fill.units(), &fill).await;
    let written = bucket.objects.objects();
    world.clock.sleep(Duration::from_secs(3600)).await;
    let again = filling(&world, bucket.clone(), Arc::clone(&world.tables), "job");
    let job = run(&world, JobKind::Backfill, again.units(), &again).await;
    assert_eq!((total(&job, "dataset_files"), bucket.objects.objects() == written), (0, true));
    let other = filling(&world, bucket.clone(), Arc::clone(&world.tables), "other");
    let job = run(&world, JobKind::Backfill, other.units(), &other).await;
    assert!(total(&job, "dataset_files") > 0);
    compact(&world, &bucket.objects).await;
    assert_eq!(differences(&world, &bucket.objects).await, [""; 0]);
}

#[tokio::test]
async fn a_throttled_table_is_read_in_shorter_chunks_and_completely() {
    let world = OperationWorld::new("exambuddy", 27, 40, 1000);
    let bucket = MortalBucket::new(&world);
    let tables = ThrottledTables { tables: Arc::clone(&world.tables), scans: Arc::default() };
    let fill = filling(&world, bucket.clone(), tables.clone(), "job");
    let job = run(&world, JobKind::Backfill, fill.units(), &fill).await;
    let items: usize = world.table_names().iter().map(|name| world.rows(name).len()).sum();
    assert_eq!(total(&job, "dataset_rows"), u64::try_from(items).unwrap(), "no page is read twice");
    compact(&world, &bucket.objects).await;
    assert_eq!(differences(&world, &bucket.objects).await, [""; 0]);
}

#[tokio::test]
async fn one_tenant_is_filled_alone_if_the_remembered_lookups_name_it() {
    let world = OperationWorld::new("exambuddy", 29, 60, 1000);
    let counting =
        BackfillTask::new(world.context(Arc::clone(&world.tables)), BackfillArguments::default(), None);
    let counting = counting.await.unwrap();
    run(&world, JobKind::Backfill, counting.units(), &counting).await;
    let all = MortalBucket::new(&world);
    let fill = filling(&world, all.clone(), Arc::clone(&world.tables), "all");
    run(&world, JobKind::Backfill, fill.units(), &fill).await;
    let attempts = table_rows(&all.objects, "attempts_log").await;
    let admin = attempts.iter().find_map(|row| row.get("admin_id")).unwrap().clone();
    let of_admin = attempts.iter().filter(|row| row.get("admin_id") == Some(&admin)).count();
    assert!(of_admin < attempts.len(), "there are other tenants");

    let arguments = BackfillArguments {
        only: Some(format!("admin_id={admin}").parse().unwrap()),
        datasets: DatasetFilling::Only,
        ..BackfillArguments::default()
    };
    let bucket = MortalBucket::new(&world);
    let exporter = exporter(&world, bucket.clone(), Arc::clone(&world.tables));
    let fill = DatasetFill::new(exporter, Arc::clone(&world.tables), arguments, "pilot");
    run(&world, JobKind::Backfill, fill.units(), &fill).await;
    let filled = table_rows(&bucket.objects, "attempts_log").await;
    assert!(filled.iter().all(|row| row.get("admin_id") == Some(&admin)));
    assert_eq!(filled.len(), of_admin);
}

#[tokio::test]
async fn a_plan_counts_the_rows_exactly_and_at_least_the_put_requests() {
    let world = OperationWorld::new("exambuddy", 31, 40, 1000);
    let bucket = MortalBucket::new(&world);
    let arguments =
        BackfillArguments { segments: 3, datasets: DatasetFilling::Only, ..BackfillArguments::default() };
    let mut plan = JobPlan::default();
    let (model, names) = (world.model(), world.table_names());
    plan_datasets(&model, &names, &world.tables, &arguments, &mut plan).await.unwrap();
    assert!(bucket.objects.objects().is_empty());

    let fill = filling(&world, bucket.clone(), Arc::clone(&world.tables), "job").with_chunk_items(10_000);
    let job = run(&world, JobKind::Backfill, fill.units(), &fill).await;
    let rows = format!("datasets: about {} rows", total(&job, "dataset_rows"));
    assert!(plan.notes.iter().any(|note| note.starts_with(&rows)), "{rows}: {:?}", plan.notes);
    let puts = u64::try_from(bucket.objects.objects().len()).unwrap();
    assert!(plan.put_requests >= puts && plan.put_requests <= 2 * puts, "{} {puts}", plan.put_requests);

    let skipped = BackfillArguments { datasets: DatasetFilling::Skipped, ..arguments };
    let mut plan = JobPlan::default();
    plan_datasets(&model, &names, &world.tables, &skipped, &mut plan).await.unwrap();
    assert_eq!(plan, JobPlan::default());
}
