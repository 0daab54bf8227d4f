//! C7. The progress states what is waited for, and until when.

use std::sync::Arc;
use std::time::Duration;

use afterwrite_memory::MemoryObjects;
use afterwrite_model::clock::Clock as _;
use afterwrite_operations::backfill::BackfillArguments;
use afterwrite_operations::jobs::{JobTask as _, WaitBoard, WaitReason};
use afterwrite_operations::verify::{DatasetCoverage, VerifyArguments, VerifyJob};
use afterwrite_tests::clock::TokioClock;

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
