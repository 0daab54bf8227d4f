//! C7. The progress states what is waited for, and until when.

use std::sync::Arc;
use std::time::Duration;

use afterwrite_memory::MemoryObjects;
use afterwrite_model::clock::Clock as _;
use afterwrite_operations::backfill::BackfillArguments;
use afterwrite_operations::jobs::{JobTask as _, WaitBoard, WaitReason};
use afterwrite_operations::verify::{DatasetCoverage, VerifyArguments, VerifyJob};
use afterwrite_tests::clock::TokioClock;
use afterwrite_tests::development::{Development, SHOP, STATE, model_file, number, text};

use super::world::{ProofWorld, SeenLines};

#[tokio::test(start_paused = true)]
async fn c7_a_wait_is_shown_while_it_lasts() {
    let clock = TokioClock::at(afterwrite_model::record::Timestamp::from_epoch_seconds(1_770_400_000), 5);
    let board = WaitBoard::default();
    assert_eq!(board.current(), None);
    let waiting = board.sleep(&clock, WaitReason::Tolerance, Duration::from_secs(300), 9);
    let seen = async {
        clock.sleep(Duration::from_secs(10)).await;
        board.current().unwrap()
    };
    let ((), seen) = futures::future::join(waiting, seen).await;
    let line =
        "waits for the tolerance until 17:51:40Z: 9 differences may be of changes in flight (--tolerance)";
    assert_eq!(seen.line(), line);
    assert_eq!(board.current(), None, "it has ended");
    board.sleep(&clock, WaitReason::Tolerance, Duration::ZERO, 9).await;
}

#[tokio::test]
async fn c7_the_line_of_a_verification_without_a_wait_is_its_progress() {
    let world = ProofWorld::new(20);
    world.backfill(BackfillArguments::default()).await.unwrap();
    let task = world.task(VerifyArguments::default());
    let units = task.units();
    let job: VerifyJob<Arc<MemoryObjects>, _, _> = VerifyJob::new(task, None, DatasetCoverage::NoDatasets);
    assert_eq!(job.waiting(), None);
    let lines = SeenLines::default();
    world.run(units, &job, &lines).await.unwrap();
    assert!(lines.lines().iter().all(|line| line.contains("items")), "{:?}", lines.lines());
}

/// Without a terminal, a command says on standard error what it waits for: nothing else shows that it lives.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn c7_verify_and_repair_say_in_a_pipe_what_they_wait_for() {
    let (folder, model) = model_file(SHOP);
    let development = Development::start(&["--model", model.to_str().unwrap()]);
    development.put_order("1", number("4.5")).await;
    development.spent("4.5").await;
    // An item without its entry may be a change in flight.
    let lost = development.client.delete_item().table_name(STATE);
    let lost = lost.key("PK", text("LEDGER#Corner#CUSTOMER#c1")).key("SK", text("ORDER#1"));
    lost.send().await.unwrap();
    let file = folder.path().join("drift.jsonl");
    let file = file.to_str().unwrap();
    for (arguments, code) in [
        (&["verify", "--tolerance", "5", "--report", file][..], 1),
        (&["repair", file, "--tolerance", "5", "--without-recovery", "--yes"], 0),
    ] {
        let ended = development.run(arguments);
        let errors = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(code), "{arguments:?}: {errors}");
        let waits = errors.lines().filter(|line| line.contains("waits for the tolerance until")).count();
        assert!(
            (1..=2).contains(&waits),
            "{arguments:?}: a line for each wait, and not one each second: {errors}"
        );
    }
    development.spent("4.5").await;
    development.stop();
}
