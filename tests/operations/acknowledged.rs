//! Records that a function with an older model has acknowledged without counting them: a plain backfill counts their items.

use std::borrow::Cow;
use std::sync::Arc;

use afterwrite_model::record::{AttributeValue, Item};
use afterwrite_operations::backfill::{BackfillArguments, BackfillTask};
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
