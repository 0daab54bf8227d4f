//! Records that a function with an older model has acknowledged without counting them: a plain backfill counts their items.

use std::borrow::Cow;
use std::sync::Arc;

use afterwrite_model::record::{AttributeValue, Item};
use afterwrite_model::table::Model;
use afterwrite_operations::DeploymentContext;
use afterwrite_operations::backfill::{BackfillArguments, BackfillTask, ExportSource, plan_backfill};
use afterwrite_operations::jobs::{JobKind, JobRunner, JobState, JobStore, SilentObserver};

use super::created::{acquire, new_job};
use super::world::{OperationWorld, STATE};

async fn backfill(world: &OperationWorld) -> JobState {
    let context = world.context(Arc::clone(&world.tables));
    let task = BackfillTask::new(context, BackfillArguments::default(), None).await.unwrap();
    let store = JobStore::new(Arc::clone(&world.tables), world.clock, Arc::from(STATE));
    let job = store.create(new_job(JobKind::Backfill, task.units())).await.unwrap();
    let job = acquire(world, &store, &job.id).await.unwrap();
    let runner = JobRunner { store: &store, observer: &SilentObserver, workers: 4 };
    runner.run(job, &task).await.unwrap()
}

fn is_order_item(item: &Item) -> bool {
    let starts_with = |name: &str, prefix: &str| {
        item.get(name).and_then(AttributeValue::as_text).is_some_and(|text| text.starts_with(prefix))
    };
    starts_with("PK", "ORDER#") && starts_with("SK", "ITEM#")
}

/// The entries of these items have the present model, so the model of an entry does not show that a record is missing.
#[tokio::test]
async fn c_a_record_acknowledged_by_an_older_model_is_counted_by_a_plain_backfill() {
    let world = OperationWorld::new("shop", 5, 60, 700);
    backfill(&world).await;
    world.finish();
    assert_eq!(world.differences(), []);
    let table = Arc::clone(&world.table_names()[0]);
    let items: Vec<Item> = world.rows(&table).into_iter().filter(is_order_item).collect();
    assert!(items.len() > 10, "{} items", items.len());
    for mut item in items.iter().cloned() {
        item.insert(Cow::Borrowed("quantity"), AttributeValue::N(977.into()));
        world.tables.put(&table, item).unwrap();
    }
    // No function counts these records.
    drop(world.tables.take_changes(&table));
    assert_ne!(world.differences(), []);
    let job = backfill(&world).await;
    assert_eq!(world.differences(), []);
    assert_eq!(job.totals.get("failed").copied().unwrap_or(0), 0);
    let again = backfill(&world).await;
    assert_eq!(again.totals.get("reconciled").copied().unwrap_or(0), 0, "nothing is left to count");
}

/// After a change of the model, nothing shows which functions have acknowledged a record since the export: the plan says what `--mapping-since` promises.
#[tokio::test]
async fn c_the_plan_of_an_export_names_entries_of_an_earlier_model() {
    let world = OperationWorld::new("shop", 6, 40, 1000);
    backfill(&world).await;
    let export = ExportSource {
        table: world.table_names()[0].to_string(),
        location: "export".to_owned(),
        exported_at_ms: 1_770_336_000_000,
        mapping_since_ms: 1_770_332_400_000,
        manifest: String::new(),
    };
    let with_export = BackfillArguments { export: Some(export), ..BackfillArguments::default() };
    let context = world.context(Arc::clone(&world.tables));
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../common/model/src/table/models/shop.toml");
    let text = std::fs::read_to_string(path).unwrap().replacen("generation = 1", "generation = 2", 1);
    let next = Arc::new(Model::parse(&text, "shop.toml").unwrap_or_else(|errors| panic!("{errors}")));
    for (model, arguments, is_named) in [
        (Arc::clone(&context.model), &with_export, false),
        (Arc::clone(&next), &BackfillArguments::default(), false),
        (next, &with_export, true),
    ] {
        let context = DeploymentContext { model, ..context.clone() };
        let plan = plan_backfill(context, arguments).await.unwrap();
        let note = plan.notes.iter().find(|note| note.contains("entries of an earlier generation"));
        assert_eq!(note.is_some(), is_named, "{:?}", plan.notes);
        assert!(note.is_none_or(|note| note.contains("2026-02-05T23:00:00Z")), "{note:?}");
    }
}
