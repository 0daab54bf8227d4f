//! Replay of recordings: over a live state nothing changes, and a fresh table becomes equal to the live one, digit by digit.

use std::path::Path;
use std::sync::Arc;

use afterwrite_input::{InputObject, TimeRange};
use afterwrite_ledger::TombstoneHistory;
use afterwrite_memory::{MemoryObjects, MemoryTables};
use afterwrite_model::clock::SystemClock;
use afterwrite_model::record::Item;
use afterwrite_operations::jobs::{JobTask as _, JobTotals};
use afterwrite_operations::replay::{InputSource, LookupCopy, NoTarget, ReplayTask, StateOnlyTables};
use afterwrite_operations::state_table::{StateDiff, StateDiffTotals, StateDifference};
use afterwrite_preview::tables::OverlayTables;
use afterwrite_tests::recording::fixtures;

use super::world::{ExamWorld, LIVE};

type Source = InputSource<MemoryObjects>;

/// The recording's own file, whose lines are `{"shard":…,"record":…}`.
fn recording(range: TimeRange) -> Source {
    let path = fixtures().join("exam-42/records.jsonl.gz");
    InputSource::in_range(InputObject::of_path(&path).unwrap(), range)
}

async fn replay(world: &ExamWorld, source: Source) -> JobTotals {
    let aggregator = world.aggregator(LIVE, Arc::clone(&world.tables), TombstoneHistory::Expiring);
    let task: ReplayTask<_, _, _, Arc<MemoryTables>, _> =
        ReplayTask::new(source, aggregator, NoTarget, SystemClock);
    let totals = task.run(|_| {}).await.unwrap();
    assert_eq!(task.report().failed, [""; 0]);
    totals
}

async fn diff(world: &ExamWorld, other: &str) -> (StateDiffTotals, Vec<StateDifference>) {
    let mut differences = Vec::new();
    let diff = StateDiff::new(Arc::clone(&world.tables), Arc::from(LIVE), Arc::from(other));
    let totals = diff.compare(|difference| differences.push(difference)).await.unwrap();
    (totals, differences)
}

#[tokio::test]
async fn replaying_a_recording_over_a_live_state_changes_nothing() {
    let world = ExamWorld::live().await;
    let before = world.everything();
    for _ in 0..2 {
        let totals = replay(&world, recording(TimeRange::default())).await;
        assert_eq!(totals["records"], 3070);
        assert_eq!(totals.get("ledger_writes"), None);
        assert_eq!(world.everything(), before);
    }
}

#[tokio::test]
async fn a_fresh_table_becomes_equal_to_the_live_one_digit_by_digit() {
    let world = ExamWorld::live().await;
    let source_items = world.tables.scan("ExamBuddyTable");
    // The records are older than tombstones live: in a fresh table they are applied nevertheless.
    let tables = StateOnlyTables::new(Arc::clone(&world.tables), "fresh");
    let aggregator = world.aggregator("fresh", tables, TombstoneHistory::Complete);
    let lookups =
        LookupCopy { tables: Arc::clone(&world.tables), from: Arc::from(LIVE), into: Arc::from("fresh") };
    let task = ReplayTask::new(recording(TimeRange::default()), aggregator, NoTarget, SystemClock);
    let totals = task.copying_lookups(lookups).run(|_| {}).await.unwrap();
    assert!(totals["lookups_copied"] > 10 && totals["ledger_writes"] > 1000, "{totals:?}");
    let (compared, differences) = diff(&world, "fresh").await;
    assert_eq!(differences, []);
    assert!(compared.first_items > 1000, "{compared:?}");
    world.assert_golden("fresh");
    assert_eq!(world.tables.scan("ExamBuddyTable"), source_items, "a mirror was written");
}

#[tokio::test]
async fn the_difference_of_two_tables_is_named() {
    let world = ExamWorld::live().await;
    let (_, differences) = diff(&world, "fresh").await;
    let rollups = differences.iter().filter(|difference| difference.entity_type == "ROLLUP").count();
    assert!(rollups > 10 && differences.iter().all(|difference| difference.attribute.is_empty()));
    for item in world.tables.scan(LIVE) {
        let mut copy: Item = item.clone();
        if copy["SK"].as_text() == Some("ROLLUP#TOTAL") {
            let attempts = copy["attempts"].as_number().unwrap().plus(&1.into()).unwrap();
            copy.insert("attempts".into(), afterwrite_model::record::AttributeValue::N(attempts));
        }
        world.tables.put("fresh", copy).unwrap();
    }
    let (_, differences) = diff(&world, "fresh").await;
    assert!(!differences.is_empty());
    assert!(
        differences
            .iter()
            .all(|difference| difference.attribute == "attempts" && difference.sort == "ROLLUP#TOTAL")
    );
}

#[tokio::test]
async fn a_dry_run_writes_nothing_and_names_the_changes() {
    let world = ExamWorld::empty();
    let before = world.everything();
    let overlay = Arc::new(OverlayTables::new(Arc::clone(&world.tables)));
    // As of the time of the recording, so that its records are applied.
    let aggregator = world.aggregator(LIVE, Arc::clone(&overlay), TombstoneHistory::Complete);
    let task: ReplayTask<_, _, _, Arc<MemoryTables>, _> =
        ReplayTask::new(recording(TimeRange::default()), aggregator, NoTarget, SystemClock);
    task.run(|_| {}).await.unwrap();
    assert_eq!(world.everything(), before);
    let differences = overlay.differences();
    let rollups = differences.iter().filter(|item| item.entity_type() == "ROLLUP").count();
    assert_eq!(rollups, world.recording.rollups.len());
    let mirrored = differences.iter().filter(|item| item.entity_type() == "PROJECT").count();
    assert!(mirrored > 0, "the copies on projects are named, too");

    let live = ExamWorld::live().await;
    let overlay = Arc::new(OverlayTables::new(Arc::clone(&live.tables)));
    let aggregator = live.aggregator(LIVE, Arc::clone(&overlay), TombstoneHistory::Expiring);
    let task: ReplayTask<_, _, _, Arc<MemoryTables>, _> =
        ReplayTask::new(recording(TimeRange::default()), aggregator, NoTarget, SystemClock);
    task.run(|_| {}).await.unwrap();
    // A redelivery may bring the revision of an equal copy up to date; nothing else changes.
    for difference in overlay.differences() {
        let attributes: Vec<String> =
            difference.attributes().into_iter().map(|attribute| attribute.attribute).collect();
        assert_eq!(attributes, ["question_count_rev"]);
    }
}

#[tokio::test]
async fn records_of_rollups_that_an_earlier_model_archived_are_passed_over() {
    let world = ExamWorld::live().await;
    let before = world.everything();
    let folder = tempfile::tempdir().unwrap();
    let record = world.recording.records().next().unwrap().get();
    let of_rollup = record.replace(":table/ExamBuddyTable/stream/", ":table/live/stream/");
    std::fs::write(folder.path().join("archive.jsonl"), format!("{record}\n{of_rollup}\n")).unwrap();
    let source = || Source::of(InputObject::of_path(folder.path()).unwrap());
    let task = || {
        let aggregator = world.aggregator(LIVE, Arc::clone(&world.tables), TombstoneHistory::Expiring);
        ReplayTask::<_, _, _, Arc<MemoryTables>, _>::new(source(), aggregator, NoTarget, SystemClock)
    };
    let refused = task().run(|_| {}).await.unwrap_err().to_string();
    assert!(refused.contains("`live`"), "{refused}");
    let totals = task().without_rollups_of(Some(LIVE)).run(|_| {}).await.unwrap();
    assert_eq!((totals["records"], totals["unmatched"]), (1, 1));
    assert_eq!(world.everything(), before);
}

#[tokio::test]
async fn a_replay_that_is_killed_after_any_step_goes_on_at_its_cursor() {
    let folder = tempfile::tempdir().unwrap();
    split(folder.path());
    let world = ExamWorld::empty();
    let mut cursor = None;
    let mut steps = 0;
    loop {
        // Each step in a process of its own.
        let objects = InputObject::of_path(folder.path()).unwrap();
        let source: Source = InputSource::of(objects);
        let aggregator = world.aggregator(LIVE, Arc::clone(&world.tables), TombstoneHistory::Complete);
        let task: ReplayTask<_, _, _, Arc<MemoryTables>, _> =
            ReplayTask::new(source, aggregator, NoTarget, SystemClock);
        let mut unit = task.units().pop().unwrap();
        unit.cursor = cursor.take();
        // The step's result is lost once, and it runs again.
        task.step(&unit).await.unwrap();
        let outcome = task.step(&unit).await.unwrap();
        steps += 1;
        match outcome.cursor {
            Some(next) => cursor = Some(next),
            None => break,
        }
    }
    assert!(steps >= 4, "{steps}");
    world.assert_golden(LIVE);
}

#[tokio::test]
async fn only_records_of_the_range_are_replayed() {
    let world = ExamWorld::empty();
    let middle = afterwrite_model::record::Timestamp::from_epoch_seconds(world.recording.end() - 40_000);
    let first = replay(&world, recording(TimeRange { from: None, to: Some(middle) })).await["records"];
    let second = replay(&world, recording(TimeRange { from: Some(middle), to: None })).await["records"];
    assert!(first > 0 && second > 0);
    assert_eq!(first + second, 3070);
}

/// The recording in several files, as plain lines and as on-failure objects.
fn split(folder: &Path) {
    let world = ExamWorld::empty();
    let records: Vec<&str> = world.recording.records().map(|record| record.get()).collect();
    for (number, records) in records.chunks(700).enumerate() {
        let text = if number % 2 == 0 {
            records.iter().map(|record| format!("{}\n", record.replace('\n', " "))).collect::<String>()
        } else {
            let event = format!("{{\"Records\":[{}]}}", records.join(","));
            serde_json::json!({ "version": "1.0", "payload": event }).to_string()
        };
        std::fs::write(folder.join(format!("part-{number}.json")), text).unwrap();
    }
}
