//! C1. Lives of items that ended or began without a record are named until their records are delivered, by each process that reads the ledger.

use super::page::command_block;
use super::shop::OrderChange::{self, Delete, Expire, Put};
use super::world::RecoveryWorld;

/// Commands that judge the whole ledger.
const JUDGES: [&str; 3] =
    ["afterwrite backfill --all --yes", "afterwrite backfill --yes", "afterwrite verify"];

/// Commands that judge the ledger end with this code.
fn judged(world: &RecoveryWorld, code: i32, situation: &str) -> String {
    let texts = JUDGES.map(|command| {
        let (found, text) = world.try_run(command);
        assert_eq!(found, Some(code), "{situation}: {command}\n{text}");
        text
    });
    texts.concat()
}

/// One order that is counted, and whose removal is lost for the functions; the archive has it.
async fn lost(removal: OrderChange) -> RecoveryWorld {
    let mut world = RecoveryWorld::start().await;
    let counted = world.hours_ago(40);
    world.change(counted, "o1", Put(10)).await;
    world.change(counted, "o2", Put(20)).await;
    world.deliver(counted).await;
    let off = world.hours_ago(29);
    world.change(off, "o1", removal).await;
    world.archive(off).await;
    world
}

/// Replays the archive as the page says: then no command names a life, and the totals are right.
async fn ends_with_a_replay(mut world: RecoveryWorld) {
    let commands = command_block("RUNBOOK.md", "freshness");
    let times = (world.hours_ago(54), world.hours_ago(30));
    world.follow(&commands[..1], times, &[]);
    judged(&world, 0, "the record is replayed");
    assert_eq!(world.totals().await, world.truth());
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn c1_a_life_that_vanished_is_named_until_its_record_is_replayed() {
    for removal in [Expire, Delete] {
        let world = lost(removal).await;
        let text = judged(&world, 1, "the record is missing");
        assert!(text.contains("1 items ended without a record") && text.contains("replay s3://"), "{text}");
        ends_with_a_replay(world).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn c1_the_record_of_another_life_does_not_stand_for_the_missing_record() {
    for next in [Delete, Expire] {
        let mut world = lost(Expire).await;
        judged(&world, 1, "the record is missing");
        // Records of before a reconciliation are passed over.
        let now = world.now();
        for change in [Put(30), next] {
            world.change(now, "o1", change).await;
            world.count();
            judged(&world, 1, "another life");
            world.lose();
        }
        ends_with_a_replay(world).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn c1_a_deletion_that_is_found_ends_the_message_also_if_the_key_lives_again() {
    let mut world = lost(Delete).await;
    judged(&world, 1, "the record is missing");
    world.change(world.now(), "o1", Put(30)).await;
    world.count();
    judged(&world, 1, "the key lives again");
    world.lose();
    ends_with_a_replay(world).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn c1_an_insertion_over_a_counted_item_names_the_missing_record() {
    let mut world = lost(Expire).await;
    // Nobody has judged the ledger before the key lives again.
    world.change(world.now(), "o1", Put(30)).await;
    world.count();
    world.lose();
    judged(&world, 1, "the key lives again");
    ends_with_a_replay(world).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn c1_a_record_that_is_missing_within_a_delivery_is_named() {
    for is_counted_before in [false, true] {
        let mut world = RecoveryWorld::start().await;
        let since = world.hours_ago(30);
        world.change(since, "o1", Put(10)).await;
        if is_counted_before {
            world.count();
            world.lose();
            world.change(since + 10, "o1", Put(20)).await;
        }
        world.change(since + 20, "o1", Expire).await;
        world.lose_newest();
        world.change(since + 30, "o1", Put(30)).await;
        world.count();
        let text = judged(&world, 1, "the key lives again");
        assert!(text.contains("1 items ended without a record"), "{text}");
        world.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn c1_a_reconciliation_of_a_tombstone_keeps_the_life_that_vanished() {
    let mut world = lost(Expire).await;
    judged(&world, 1, "the record is missing");
    // A record that cannot be counted parks the item; the remedy reconciles it.
    world.park("o1").await;
    world.run(1, "afterwrite redrive --parked --yes");
    judged(&world, 1, "the item was reconciled again");
    ends_with_a_replay(world).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn c1_a_life_that_vanished_is_named_until_it_is_accepted() {
    let mut world = RecoveryWorld::start().await;
    let counted = world.hours_ago(40);
    world.change(counted, "o1", Put(10)).await;
    world.deliver(counted).await;
    world.change(world.hours_ago(29), "o1", Delete).await;
    // No archive has its record.
    world.lose();
    assert!(judged(&world, 1, "the record is missing").contains("backfill --accept-lives"));
    world.run(0, "afterwrite backfill --accept-lives --yes");
    judged(&world, 0, "the life is accepted");
    assert_eq!(world.totals().await, world.truth());
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn c1_a_recheck_and_a_switch_of_the_state_table_name_the_life_that_vanished() {
    let world = lost(Expire).await;
    world.run(1, "afterwrite verify --report drift.jsonl");
    world.run(1, "afterwrite backfill --all --yes");
    let text = world.run(1, "afterwrite verify --recheck drift.jsonl");
    assert!(text.contains("1 items ended without a record"), "{text}");
    // A table that is as wrong as the first one.
    world.create_state_table("rebuilt").await;
    world.run(0, "afterwrite backfill --all --yes --state-table rebuilt");
    for command in ["afterwrite state diff NAME-state rebuilt", "afterwrite state promote rebuilt"] {
        let text = world.run(1, command);
        assert!(text.contains("only in the first table"), "{text}");
    }
    ends_with_a_replay(world).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn c1_a_repair_of_a_deleted_rollup_names_what_expired() {
    let mut world = RecoveryWorld::start().await;
    world.deploy(|model| {
        model.replace(
            "placed_at = \"S\" }\n\n[rollups",
            "placed_at = \"S\", expires_at = \"N\" }\nttl = \"expires_at\"\n\n[rollups",
        )
    });
    let counted = world.hours_ago(40);
    for (order, total) in [("o1", 10), ("o2", 20)] {
        world.change(counted, order, Put(total)).await;
    }
    world.change(world.hours_ago(39), "o1", Expire).await;
    world.deliver(counted).await;
    assert_eq!(world.totals().await, world.truth());
    world.delete_rollup().await;
    world.run(1, "afterwrite verify --report drift.jsonl");
    for repair in ["repair drift.jsonl --dry-run", "repair drift.jsonl --yes", "repair drift.jsonl --yes"] {
        let text = world.run(1, &format!("afterwrite {repair}"));
        assert!(text.contains("lacks what TTL settled") && text.contains("1 without settled"), "{text}");
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn c1_only_lives_that_were_named_before_are_accepted() {
    let mut world = lost(Delete).await;
    judged(&world, 1, "the record is missing");
    world.change(world.now(), "o2", Expire).await;
    world.lose();
    // The job itself subtracts the second item.
    let text = world.run(1, "afterwrite backfill --accept-lives --yes");
    assert!(text.contains("1 items ended without a record"), "{text}");
    let text = judged(&world, 1, "nobody has seen the second life");
    assert!(text.contains("1 items ended without a record"), "{text}");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn c1_a_removal_after_the_find_is_of_another_life() {
    let mut world = lost(Expire).await;
    judged(&world, 1, "the record is missing");
    let later = world.now() + 120;
    world.change(later, "o1", Put(30)).await;
    world.lose();
    world.change(later + 10, "o1", Delete).await;
    world.count();
    judged(&world, 1, "the next life has ended");
    world.lose();
    ends_with_a_replay(world).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn c1_an_insertion_after_a_reconciliation_names_the_missing_record() {
    let mut world = lost(Expire).await;
    world.change(world.now() - 120, "o1", Put(30)).await;
    // The reconciliation counts the next life before its record is delivered.
    judged(&world, 0, "the key lives again");
    world.count();
    world.lose();
    judged(&world, 1, "the insertion is delivered");
    ends_with_a_replay(world).await;
}
