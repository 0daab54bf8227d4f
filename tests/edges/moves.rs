//! Items that show a rollup whose key they know by a lookup, and that move: each place shows it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use afterwrite_functions::AggregatedBatch;
use afterwrite_model::effect::Write;
use afterwrite_model::{Error, ErrorKind};
use serde_json::{Value, json};

use super::models::PROJECTS;
use super::observed::{ObservedTables, WriteFate};
use super::world::{EdgeWorld, STATE, TABLE, deliver_to, key};

/// As [`PROJECTS`], but a project that moves to another owner moves to another partition.
fn by_owner() -> String {
    PROJECTS.replace(
        "PK = \"PROJECTS\", SK = \"OWNER#{owner_id}#PROJECT#{project_id}\"",
        "PK = \"OWNER#{owner_id}\", SK = \"PROJECT#{project_id}\"",
    )
}

fn put_project(world: &mut EdgeWorld, owner: &str) {
    world.put("PROJECTS", &format!("OWNER#{owner}#PROJECT#p1"), json!({ "GSI1PK": { "S": "PROJECT#p1" } }));
}

fn shown(world: &EdgeWorld, owner: &str) -> Option<i64> {
    world.shown("PROJECTS", &format!("OWNER#{owner}#PROJECT#p1"), "tasks")
}

async fn deliver(tables: Arc<ObservedTables>, records: &[Value]) -> Result<AggregatedBatch, Error> {
    deliver_to(PROJECTS, tables, records).await
}

/// A world with a project that shows its task.
async fn world() -> EdgeWorld {
    let mut world = EdgeWorld::new(PROJECTS);
    put_project(&mut world, "ann");
    world.put("PROJECT#p1", "TASK#t1", json!({}));
    world.settle().await;
    assert_eq!(shown(&world, "ann"), Some(1));
    world
}

/// The fate of a write of a remembered lookup.
fn of_lookups(
    world: &EdgeWorld,
    fate: impl Fn() -> WriteFate + Send + Sync + 'static,
) -> Arc<ObservedTables> {
    ObservedTables::with_fate(&world.tables, move |_, write: &Write| {
        let is_lookup = write.key.partition.value.as_text().is_some_and(|key| key.starts_with("LOOKUP#"));
        if is_lookup && *write.key.table == *STATE { fate() } else { WriteFate::CarriedOut }
    })
}

#[tokio::test]
async fn an_item_that_moves_within_its_partition_or_to_another_shows_its_rollup() {
    for (model, places) in [
        (PROJECTS.to_owned(), [("PROJECTS", "OWNER#ann#PROJECT#p1"), ("PROJECTS", "OWNER#ben#PROJECT#p1")]),
        (by_owner(), [("OWNER#ann", "PROJECT#p1"), ("OWNER#ben", "PROJECT#p1")]),
    ] {
        let mut world = EdgeWorld::new(&model);
        let [(before, sort_before), (after, sort_after)] = places;
        world.put(before, sort_before, json!({ "GSI1PK": { "S": "PROJECT#p1" } }));
        world.put("PROJECT#p1", "TASK#t1", json!({}));
        world.settle().await;
        world.tables.delete(&key(TABLE, before, sort_before)).expect("a key");
        world.put(after, sort_after, json!({ "GSI1PK": { "S": "PROJECT#p1" } }));
        world.settle().await;
        assert_eq!(world.shown(after, sort_after, "tasks"), Some(1));
        world.put("PROJECT#p1", "TASK#t2", json!({}));
        world.settle().await;
        assert_eq!(world.shown(after, sort_after, "tasks"), Some(2));
    }
}

#[tokio::test]
async fn an_item_at_the_place_that_its_lookup_names_is_not_noted() {
    let world = world().await;
    let remembered = world.remembered();
    let names: Vec<_> = remembered[0].keys().map(AsRef::as_ref).collect();
    assert_eq!(names, ["EntityType", "PK", "SK", "gives"]);
}

#[tokio::test]
async fn two_items_that_show_one_rollup_are_both_right() {
    let mut world = world().await;
    // The project is written at its old key, copies included, and put at the new one without them.
    let mut item = world.item("PROJECTS", "OWNER#ann#PROJECT#p1").expect("a project");
    item.insert("title".into(), "new".into());
    world.tables.put(TABLE, item).expect("a project");
    put_project(&mut world, "ben");
    let delivery = world.deliver().await;
    assert!(delivery.failures.is_empty(), "{:?}", delivery.failures);
    assert_eq!((shown(&world, "ann"), shown(&world, "ben")), (Some(1), Some(1)));
}

#[tokio::test]
async fn a_note_of_a_new_key_that_fails_has_the_outcome_of_its_error() {
    let failing = |kind: ErrorKind| async move {
        let mut world = world().await;
        put_project(&mut world, "ben");
        world.stream();
        let moved = world.newest(1).to_vec();
        let is_failed = AtomicBool::new(false);
        let tables = of_lookups(&world, move || {
            let fails = kind != ErrorKind::Unavailable || !is_failed.swap(true, Ordering::Relaxed);
            if fails { WriteFate::Failed(kind) } else { WriteFate::CarriedOut }
        });
        let handled = deliver(tables, &moved).await;
        (handled, shown(&world, "ben"))
    };
    let (handled, _) = failing(ErrorKind::Rejected).await;
    let handled = handled.expect("an event");
    assert_eq!((handled.failures.len(), handled.unwritable_mirrors.len()), (0, 1), "it is counted");
    let (handled, shown) = failing(ErrorKind::Unavailable).await;
    let handled = handled.expect("an event");
    assert_eq!((handled.failures.len(), handled.totals.retries, shown), (0, 1, Some(1)));
    let (handled, _) = failing(ErrorKind::Configuration).await;
    assert_eq!(handled.expect_err("a wrong set-up").kind(), ErrorKind::Configuration);
}

#[tokio::test]
async fn an_item_whose_own_lookup_is_not_remembered_at_once_shows_its_rollup() {
    let mut world = EdgeWorld::new(PROJECTS);
    put_project(&mut world, "ann");
    world.stream();
    let is_failed = AtomicBool::new(false);
    let tables = of_lookups(&world, move || {
        let is_first = !is_failed.swap(true, Ordering::Relaxed);
        if is_first { WriteFate::Failed(ErrorKind::Unavailable) } else { WriteFate::CarriedOut }
    });
    let handled = deliver(tables, &world.records).await.expect("an event");
    assert!(handled.failures.is_empty(), "{handled:?}");
    assert_eq!(shown(&world, "ann"), Some(0));
}

/// Delivers records while one remembered lookup cannot be written: only the record with this index may fail.
async fn assert_fails_alone(world: &EdgeWorld, unwritable: &'static str, records: &[Value], index: usize) {
    let tables = ObservedTables::with_fate(&world.tables, move |_, write: &Write| {
        let is_unwritable = write.key.partition.value.as_text() == Some(unwritable);
        if is_unwritable { WriteFate::Failed(ErrorKind::Unavailable) } else { WriteFate::CarriedOut }
    });
    let handled = deliver(tables, records).await.expect("an event");
    let failed: Vec<_> = handled.failures.iter().map(|failed| failed.sequence_number.as_deref()).collect();
    assert_eq!(failed, [records[index]["dynamodb"]["SequenceNumber"].as_str()]);
}

#[tokio::test]
async fn a_note_that_cannot_be_written_holds_up_no_other_mirror() {
    let mut world = world().await;
    put_project(&mut world, "ben");
    world.put("PROJECTS", "OWNER#cat#PROJECT#p2", json!({ "GSI1PK": { "S": "PROJECT#p2" } }));
    world.stream();
    let newest = world.newest(2).to_vec();
    assert_fails_alone(&world, "LOOKUP#owner#p1", &newest, 0).await;
    assert_eq!(world.shown("PROJECTS", "OWNER#cat#PROJECT#p2", "tasks"), Some(0));
}

#[tokio::test]
async fn outputs_that_cannot_be_remembered_hold_up_no_mirror_of_other_lookups() {
    let mut world = world().await;
    world.put("PROJECT#p1", "TASK#t2", json!({}));
    world.put("PROJECTS", "OWNER#cat#PROJECT#p2", json!({ "GSI1PK": { "S": "PROJECT#p2" } }));
    world.stream();
    let newest = world.newest(2).to_vec();
    assert_fails_alone(&world, "LOOKUP#owner#p2", &newest, 1).await;
    assert_eq!(shown(&world, "ann"), Some(2));
}

#[tokio::test]
async fn a_record_whose_entry_cannot_be_read_waits_for_no_lookup() {
    let mut world = world().await;
    let entry = key(STATE, "LEDGER#app#PROJECT#p1", "TASK#t1");
    world.overwrite(&entry, "contributions", "?".into());
    world.put("PROJECT#p1", "TASK#t1", json!({ "title": { "S": "new" } }));
    world.stream();
    let newest = world.newest(1).to_vec();
    let tables = ObservedTables::throttling(&world.tables, |key| {
        key.partition.value.as_text() == Some("LOOKUP#owner#p1")
    });
    let handled = deliver(tables, &newest).await.expect("an event");
    assert_eq!((handled.failures.len(), handled.parked.len()), (0, 1), "{handled:?}");
}
