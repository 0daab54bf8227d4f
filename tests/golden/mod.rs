//! Golden tests: a recorded stream produces exactly the independently computed results, however it is delivered.

mod events;
mod long_keys;
mod platform;
mod poison;
mod processes;
mod stored;
mod throttled;

use afterwrite_tests::random::SeededRandom;
use afterwrite_tests::replay::RecordingReplay;

use self::stored::MirroringProject;

const RECORDING: &str = "exam-42";

#[tokio::test]
async fn batches_of_any_size_produce_the_golden_results() {
    for size in [1, 7, 100, 1_000] {
        let mut replay = RecordingReplay::new(RECORDING);
        replay.deliver_all(size).await;
        replay.assert_golden(&format!("batches of {size}"));
    }
}

#[tokio::test]
async fn delivering_everything_twice_changes_nothing() {
    let mut replay = RecordingReplay::new(RECORDING);
    replay.deliver_all(100).await;
    let once = replay.totals();
    replay.rewind();
    replay.deliver_all(33).await;
    replay.assert_golden("twice");
    assert_eq!(replay.totals().transactions, once.transactions, "the second delivery commits nothing");
}

#[tokio::test]
async fn replaying_a_subset_of_old_records_changes_nothing() {
    let mut replay = RecordingReplay::new(RECORDING);
    replay.deliver_all(100).await;
    replay.deliver_subset(200, &mut SeededRandom::new(42)).await;
    replay.assert_golden("a lone subset");
}

#[tokio::test]
async fn delivering_every_batch_again_after_the_next_changes_nothing() {
    let mut replay = RecordingReplay::new(RECORDING);
    replay.deliver_with_echoes(50).await;
    replay.assert_golden("echoes");
}

/// A count that was stored before Afterwrite was deployed becomes correct and gets a revision.
#[tokio::test]
async fn a_stored_count_becomes_correct_whether_it_was_correct_or_not() {
    for stored in [50, 0, 7, 51] {
        let project = MirroringProject::with_questions(50, stored).await;
        assert_eq!(project.shown(), (50, true), "the stored count was {stored}");
    }
}
