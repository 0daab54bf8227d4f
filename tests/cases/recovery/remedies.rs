//! The remedies of `docs/RUNBOOK.md` for records that were lost or given up.

use super::page::{command_block, command_blocks};
use super::shop::OrderChange::{Delete, Expire, Put};
use super::world::RecoveryWorld;

/// A mapping was off for 30 hours; the stream has the changes of the last 24.
async fn after_a_disabled_mapping(has_ttl: bool) -> RecoveryWorld {
    let mut world = RecoveryWorld::with_ttl(has_ttl).await;
    let counted = world.hours_ago(40);
    for number in 0..8 {
        world.change(counted, &format!("o{number}"), Put(10 + number)).await;
    }
    world.deliver(counted).await;
    world
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn c1_the_remedy_of_a_disabled_mapping_counts_every_item() {
    let mut world = after_a_disabled_mapping(false).await;
    let off = world.hours_ago(29);
    for number in 0..4 {
        world.change(off, &format!("o{number}"), Put(100 + number)).await;
    }
    world.change(off, "o5", Delete).await;
    world.change(off, "o6", Delete).await;
    world.change(off, "o6", Put(700)).await;
    world.change(off, "new", Put(1_000)).await;
    // Neither function read them.
    world.lose();
    assert_ne!(world.totals().await, world.truth());
    let commands = command_block("RUNBOOK.md", "freshness");
    world.follow(&commands, (world.hours_ago(54), world.hours_ago(30)), &[]);
    assert_eq!(world.totals().await, world.truth());
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn c1_the_remedy_settles_what_the_archive_has() {
    let mut world = after_a_disabled_mapping(true).await;
    let off = world.hours_ago(29);
    world.change(off, "o0", Put(100)).await;
    world.change(off, "o1", Expire).await;
    world.change(off, "o2", Delete).await;
    world.change(off, "new", Put(1_000)).await;
    // The relay read them, `aggregator` did not.
    world.archive(off).await;
    let commands = command_block("RUNBOOK.md", "freshness");
    world.follow(&commands, (world.hours_ago(54), world.hours_ago(30)), &[]);
    assert_eq!(world.totals().await, world.truth());
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn c1_a_backfill_that_cannot_know_what_expired_reports_it() {
    let mut world = after_a_disabled_mapping(true).await;
    let off = world.hours_ago(29);
    world.change(off, "o1", Expire).await;
    world.lose();
    let text = world.run(1, "afterwrite backfill --all --yes");
    assert!(text.contains("vanished") && text.contains("afterwrite replay s3://"), "{text}");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn c1_a_backfill_of_a_table_without_ttl_ends_with_success() {
    let mut world = after_a_disabled_mapping(false).await;
    let off = world.hours_ago(29);
    world.change(off, "o1", Delete).await;
    world.lose();
    world.run(0, "afterwrite backfill --all --yes");
    assert_eq!(world.totals().await, world.truth());
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn c1_the_remedy_of_dropped_records_finds_and_repairs_their_items() {
    let mut world = after_a_disabled_mapping(false).await;
    let dropped = world.hours_ago(2);
    world.change(dropped, "o1", Put(100)).await;
    world.change(dropped, "o2", Delete).await;
    world.change(dropped, "new", Put(1_000)).await;
    world.lose();
    let commands = command_blocks("RUNBOOK.md", "dropped").remove(0);
    let ends: Vec<_> = commands.iter().map(|line| world.try_run(line)).collect();
    let [(Some(1), _), (_, preview), (Some(0), _)] = &ends[..] else { panic!("{ends:?}") };
    assert!(preview.contains("nothing was written"), "{preview}");
    assert_eq!(world.totals().await, world.truth());
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn c1_the_remedy_of_batches_that_were_given_up_counts_them() {
    let mut world = after_a_disabled_mapping(true).await;
    let failed = world.hours_ago(2);
    world.change(failed, "o1", Expire).await;
    world.change(failed, "o2", Put(200)).await;
    world.fail("failures").await;
    for line in command_blocks("RUNBOOK.md", "on-failure").remove(0) {
        let line = line.replace("NAME-failures-ACCOUNT-REGION", "failures");
        // This deployment has neither a cache nor a delivery stream.
        let (code, text) = world.try_run(&line.replace("aggregate,invalidate,archive", "aggregate"));
        assert!(line.contains("--dry-run") || code == Some(0), "{line}\n{text}");
    }
    assert_eq!(world.totals().await, world.truth());
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn c1_the_remedy_of_expiries_that_are_too_old_finds_those_that_were_never_settled() {
    const DAY: i64 = 24;
    let mut world = RecoveryWorld::start().await;
    let (placed, expired) = (world.hours_ago(40 * DAY), world.hours_ago(39 * DAY));
    world.change(placed, "o1", Put(1)).await;
    world.change(expired, "o1", Expire).await;
    world.archive(expired).await;
    let recent = world.hours_ago(1);
    world.change(recent, "o2", Put(2)).await;
    world.deliver(recent).await;
    for end in ["--dry-run", "--yes"] {
        let replayed = world.run(1, &format!("afterwrite replay s3://lake/archive/ {end}"));
        assert!(replayed.contains("expiries too old") && replayed.contains("docs/RUNBOOK.md"), "{replayed}");
    }
    world.run(0, "afterwrite verify");
    assert_ne!(world.totals().await, world.truth(), "a verification cannot see what expired");
    world.create_state_table("NAME-state-rebuilt").await;
    let commands = command_block("RUNBOOK.md", "expiries-too-old");
    let commands: Vec<_> = commands.iter().map(|line| line.replace("s3://BUCKET/", "s3://lake/")).collect();
    let [rebuild, reconcile, compare] = &commands[..] else { panic!("{commands:?}") };
    world.run(0, rebuild);
    world.run(0, reconcile);
    let differences = world.run(1, compare);
    assert!(
        differences.contains("settled_orders: 0 and 1") || differences.contains("settled_orders: - and 1"),
        "{differences}"
    );
    world.variables.insert("AFTERWRITE_STATE_TABLE".to_owned(), "NAME-state-rebuilt".to_owned());
    assert_eq!(world.totals().await, world.truth());
    world.stop().await;
}
