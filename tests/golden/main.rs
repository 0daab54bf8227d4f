//! Golden: a recorded stream gives exactly what was computed of it independently, however it is delivered.

mod long_keys;
mod platform;
mod poison;
mod processes;
mod stored;
mod throttled;

use afterwrite_tests::random::SeededRandom;
use afterwrite_tests::replay::RecordingReplay;

use self::stored::Project;

const RECORDING: &str = "exam-42";

#[tokio::test]
async fn batches_of_any_size() {
    for size in [1, 7, 100, 1_000] {
        let mut replay = RecordingReplay::new(RECORDING);
        replay.deliver_all(size).await;
        replay.assert_golden(&format!("batches of {size}"));
    }
}

#[tokio::test]
async fn everything_twice_in_a_row() {
    let mut replay = RecordingReplay::new(RECORDING);
    replay.deliver_all(100).await;
    let once = replay.totals();
    replay.rewind();
    replay.deliver_all(33).await;
    replay.assert_golden("twice");
    assert_eq!(replay.totals().transactions, once.transactions, "the second time nothing is counted");
}

#[tokio::test]
async fn a_lone_subset_of_old_records_last_of_all() {
    let mut replay = RecordingReplay::new(RECORDING);
    replay.deliver_all(100).await;
    replay.deliver_subset(200, &mut SeededRandom::new(42)).await;
    replay.assert_golden("a lone subset");
}

#[tokio::test]
async fn every_batch_delivered_again_after_the_next() {
    let mut replay = RecordingReplay::new(RECORDING);
    replay.deliver_with_echoes(50).await;
    replay.assert_golden("echoes");
}

/// What was stored before Afterwrite came, right or wrong, ends right; with its revision beside it.
#[tokio::test]
async fn a_stored_count_ends_right_whether_it_was_right_or_not() {
    for stored in [50, 0, 7, 51] {
        let project = Project::with_questions(50, stored).await;
        assert_eq!(project.shown(), (50, true), "stored was {stored}");
    }
}
