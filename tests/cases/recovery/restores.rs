//! Restored tables: each procedure of `docs/RUNBOOK.md`, into the same names and into others.

use afterwrite_model::record::Timestamp;

use super::page::{CommandBlock, command_block, command_blocks, page_text};
use super::shop::OrderChange::{Delete, Expire, Put};
use super::world::RecoveryWorld;

const PAGE: &str = "RUNBOOK.md";
const TABLES: &str = "AFTERWRITE_TABLES";
const STATE_TABLE: &str = "AFTERWRITE_STATE_TABLE";
const OTHER_STATE: &str = "NAME-state-restored";
const OTHER_SOURCE: &str = "Orders-restored";

/// Nine orders, one of which has expired.
async fn shop(world: &mut RecoveryWorld) {
    let placed = world.hours_ago(5);
    for number in 1..10 {
        world.change(placed, &format!("o{number}"), Put(10 * number)).await;
    }
    world.change(placed + 60, "o1", Expire).await;
    world.deliver(placed).await;
}

/// The changes of the hour that a restored state table lacks.
async fn lost_hour(world: &mut RecoveryWorld) {
    let lost = world.hours_ago(1) + 60;
    for order in ["o2", "o3", "o4"] {
        world.change(lost, order, Expire).await;
    }
    world.change(lost, "o5", Delete).await;
    world.change(lost, "o6", Put(6_000)).await;
    world.change(lost, "o10", Put(100)).await;
    // A life that ended, and another of the same key.
    world.change(lost, "o7", Expire).await;
    world.change(lost + 60, "o7", Put(70_000)).await;
    world.deliver(lost).await;
}

async fn with_restored_state(name: Option<&str>) -> RecoveryWorld {
    let mut world = RecoveryWorld::start().await;
    shop(&mut world).await;
    let copy = world.state_copy().await;
    lost_hour(&mut world).await;
    assert_eq!(world.totals().await, world.truth());
    world.restore_state(copy, name).await;
    world
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn c2_a_restored_state_table_counts_what_expired_in_the_lost_hour() {
    for name in [None, Some(OTHER_STATE)] {
        let mut world = with_restored_state(name).await;
        let at = world.now() - 30;
        if let Some(name) = name {
            world.variables.insert(STATE_TABLE.to_owned(), name.to_owned());
        }
        assert_ne!(world.totals().await, world.truth());
        // The functions go on: changes are counted before the procedure begins.
        world.change(at, "o8", Put(8)).await;
        world.change(at, "o6", Expire).await;
        world.deliver(at).await;
        let commands = command_block(PAGE, "Restored state table");
        let exports: Vec<&str> = name.map(|_| STATE_TABLE).into_iter().collect();
        world.follow(&commands, (world.hours_ago(25), world.hours_ago(1)), &exports);
        assert_eq!(world.totals().await, world.truth(), "{name:?}");
        world.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn c2_a_repair_before_the_replay_reports_the_archive_and_loses_nothing() {
    let mut world = with_restored_state(None).await;
    let found = world.run(1, "afterwrite verify --report drift.jsonl");
    assert!(found.contains("replay the archive"), "{found}");
    let repaired = world.run(1, "afterwrite repair drift.jsonl --yes");
    assert!(repaired.contains("afterwrite replay s3://"), "{repaired}");
    assert_ne!(world.totals().await, world.truth());
    let commands = command_block(PAGE, "Restored state table");
    world.follow(&commands, (world.hours_ago(25), world.hours_ago(1)), &[]);
    assert_eq!(world.totals().await, world.truth());
    world.stop().await;
}

/// A source table that was restored to an hour ago. Its state table has counted the hour.
async fn with_restored_source(source: Option<&str>, state: Option<&str>, goes_back: bool) -> RecoveryWorld {
    let mut world = RecoveryWorld::start().await;
    shop(&mut world).await;
    let state_copy = world.state_copy().await;
    // After the state table's time, and before that of the source table.
    let between = world.hours_ago(1) - 600;
    world.change(between, "o2", Expire).await;
    world.change(between, "o3", Put(33)).await;
    world.change(between, "o11", Put(1_100)).await;
    world.deliver(between).await;
    let source_copy = world.source_copy().await;
    undone_hour(&mut world).await;
    if goes_back {
        world.restore_state(state_copy, state).await;
    }
    world.restore_source(source_copy, source).await;
    world
}

/// Changes that the restored source table does not have.
async fn undone_hour(world: &mut RecoveryWorld) {
    let undone = world.hours_ago(1) + 60;
    world.change(undone, "o4", Expire).await;
    world.change(undone, "o5", Delete).await;
    world.change(undone, "o6", Put(6_000)).await;
    world.change(undone, "o12", Put(1_200)).await;
    world.deliver(undone).await;
}

/// An item that TTL deletes again, in the new stream, is settled once.
async fn expire_again(world: &mut RecoveryWorld) {
    let before = world.totals().await;
    world.change(world.now() - 20, "o4", Expire).await;
    world.deliver(world.now() - 20).await;
    assert_eq!((world.totals().await, world.truth()), (before, before));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn c3_undone_changes_are_of_a_deployed_table_and_none_of_them_is_worth_a_line() {
    let mut world = RecoveryWorld::start().await;
    shop(&mut world).await;
    let replay = "afterwrite replay s3://lake/archive/ --yes";
    // A typing error, and the name in the model of a table that has another name.
    for (tables, undone) in [("Orders=Orders", "orders"), ("Orders=Orders-restored", "Orders")] {
        let line = format!("{replay} --tables {tables} --undone {undone}=2026-02-06T10:00:00Z");
        let refused = world.run(2, &line);
        for words in ["would leave out nothing", "AFTERWRITE_TABLES", &format!("table: {undone},")] {
            assert!(refused.contains(words), "no {words}: {refused}");
        }
    }
    let none = world.run(0, &format!("{replay} --undone Orders=2099-01-01"));
    assert!(none.contains("no change was left out"), "{none}");
    let (_, some) = world.try_run(&format!("{replay} --undone Orders=2020-01-01 --json"));
    assert!(some.contains("\"left_out_as_undone\": ") && !some.contains("no change was left out"), "{some}");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn c3_restored_source_and_state_tables_count_each_item_once() {
    let names = [
        (None, None),
        (None, Some(OTHER_STATE)),
        (Some(OTHER_SOURCE), None),
        (Some(OTHER_SOURCE), Some(OTHER_STATE)),
    ];
    let commands: CommandBlock = command_blocks(PAGE, "Restored source table").remove(0);
    for (source, state) in names {
        let mut world = with_restored_source(source, state, true).await;
        let exports: Vec<&str> =
            source.map(|_| TABLES).into_iter().chain(state.map(|_| STATE_TABLE)).collect();
        world.follow(&commands, (world.hours_ago(25), world.hours_ago(1)), &exports);
        assert_eq!(world.totals().await, world.truth(), "{source:?} {state:?}");
        expire_again(&mut world).await;
        world.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn c3_a_state_table_that_cannot_be_restored_is_built_from_the_archive() {
    let commands: CommandBlock = command_blocks(PAGE, "Restored source table").remove(1);
    for source in [None, Some(OTHER_SOURCE)] {
        let mut world = with_restored_source(source, None, false).await;
        world.create_state_table("NAME-state-rebuilt").await;
        let exports: Vec<&str> = source.map(|_| TABLES).into_iter().chain([STATE_TABLE]).collect();
        world.follow(&commands, (world.hours_ago(25), world.hours_ago(1)), &exports);
        assert_eq!(world.totals().await, world.truth(), "{source:?}");
        expire_again(&mut world).await;
        world.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn c3_a_backfill_over_a_settled_item_that_lives_again_reports_it() {
    let world = with_restored_source(None, None, false).await;
    let found = world.run(1, "afterwrite verify --report drift.jsonl");
    assert!(found.contains("After a restore"), "{found}");
    let text = world.run(1, "afterwrite backfill --all --yes");
    assert!(text.contains("revived") && text.contains("After a restore"), "{text}");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn c3_what_other_tables_have_after_the_restored_time_is_counted() {
    let commands: CommandBlock = command_blocks(PAGE, "Restored source table").remove(0);
    for source in [None, Some(OTHER_SOURCE)] {
        let mut world = RecoveryWorld::start().await;
        world.add_visits().await;
        shop(&mut world).await;
        world.visit(world.hours_ago(5), "v1", true).await;
        world.deliver(world.hours_ago(5)).await;
        let (state_copy, source_copy) = (world.state_copy().await, world.source_copy().await);
        let undone = world.hours_ago(1) + 60;
        world.visit(undone, "v1", false).await;
        world.visit(undone, "v2", true).await;
        world.visit(undone + 60, "v2", false).await;
        undone_hour(&mut world).await;
        world.restore_state(state_copy, None).await;
        world.restore_source(source_copy, source).await;
        let exports: Vec<&str> = source.map(|_| TABLES).into_iter().collect();
        world.follow(&commands, (world.hours_ago(25), world.hours_ago(1)), &exports);
        assert_eq!(world.totals().await, world.truth(), "{source:?}");
        assert_eq!(world.visits().await, 2, "both visits have expired, and stay counted: {source:?}");
        world.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn c3_failed_batches_of_the_old_table_are_replayed_up_to_the_restored_time() {
    const FAILED: &str = "`afterwrite replay s3://NAME-failures-ACCOUNT-REGION/aws/lambda/ --undone Orders=2026-02-06T10:00:00Z --yes`";
    assert!(page_text(PAGE).contains(FAILED));
    let mut world = RecoveryWorld::start().await;
    shop(&mut world).await;
    let state_copy = world.state_copy().await;
    let between = world.hours_ago(1) - 600;
    world.change(between, "o2", Expire).await;
    world.change(between, "o3", Put(33)).await;
    let source_copy = world.source_copy().await;
    let undone = world.hours_ago(1) + 60;
    world.change(undone, "o4", Expire).await;
    world.change(undone, "o12", Put(1_200)).await;
    // One batch has changes of both times.
    world.fail("failures").await;
    world.restore_state(state_copy, None).await;
    world.restore_source(source_copy, Some(OTHER_SOURCE)).await;
    let failed = FAILED.trim_matches('`').replace("NAME-failures-ACCOUNT-REGION", "failures");
    let names = format!("export {TABLES}=Orders={OTHER_SOURCE},Orders=Orders");
    let (since, at) = (world.hours_ago(25), world.hours_ago(1));
    world.follow(&[names, failed], (since, at), &[TABLES]);
    let commands: CommandBlock = command_blocks(PAGE, "Restored source table").remove(0);
    world.follow(&commands, (since, at), &[TABLES]);
    assert_eq!(world.totals().await, world.truth());
    expire_again(&mut world).await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn c2_a_state_table_of_more_than_35_days_ago_does_not_pass_for_recovered() {
    const DAY: i64 = 24;
    let mut world = RecoveryWorld::start().await;
    let (placed, expired) = (world.hours_ago(60 * DAY), world.hours_ago(40 * DAY));
    world.change(placed, "o1", Put(10)).await;
    world.change(placed, "o2", Put(20)).await;
    world.archive(placed).await;
    world.change(expired, "o1", Expire).await;
    world.archive(expired).await;
    // The backup is older than both orders.
    let replay = command_block(PAGE, "Restored state table").remove(1);
    let since = Timestamp::from_epoch_seconds(placed - 3_600).to_string();
    let replay = replay.replace("2026-02-05T10:00:00Z", &since).replace("s3://BUCKET/", "s3://lake/");
    let replayed = world.run(1, &replay);
    assert!(replayed.contains("1 expiries") && replayed.contains("expiries-too-old"), "{replayed}");
    assert_ne!(world.totals().await, world.truth());
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn c3_an_earlier_table_that_is_deployed_again_is_reported_and_counted_by_another_state_table() {
    let mut world = RecoveryWorld::start().await;
    shop(&mut world).await;
    let (state_copy, earlier) = (world.state_copy().await, world.source_copy().await);
    let restored = world.source_copy().await;
    world.restore_source(restored, Some(OTHER_SOURCE)).await;
    world.variables.insert(TABLES.to_owned(), format!("Orders={OTHER_SOURCE},Orders=Orders"));
    let undone = world.hours_ago(1) + 60;
    world.change(undone, "o2", Put(22)).await;
    world.change(undone, "o3", Expire).await;
    world.deliver(undone).await;
    world.deploy_again(earlier, "Orders").await;
    world.variables.insert(TABLES.to_owned(), format!("Orders=Orders,Orders={OTHER_SOURCE}"));
    let reported = world.run(1, "afterwrite backfill --all --yes");
    let page = "An earlier table is deployed again";
    assert!(reported.contains("of later stream") && reported.contains(page), "{reported}");
    let at = world.now() - 30;
    world.change(at, "o2", Put(222)).await;
    world.deliver(at).await;
    assert_ne!(world.totals().await, world.truth(), "the change passes for a duplicate");
    world.restore_state(state_copy, Some(OTHER_STATE)).await;
    let times = (world.hours_ago(25), world.hours_ago(1));
    world.follow(&command_block(PAGE, page), times, &[TABLES, STATE_TABLE]);
    assert_eq!(world.totals().await, world.truth());
    world.change(at + 1, "o2", Put(2)).await;
    world.change(at + 1, "o4", Expire).await;
    world.deliver(at + 1).await;
    assert_eq!(world.totals().await, world.truth());
    world.run(0, "afterwrite backfill --all --yes");
    world.stop().await;
}
