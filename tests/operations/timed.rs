//! Verifications with a deadline, as the function `verifier` runs them.

use std::sync::Arc;
use std::time::Duration;

use afterwrite_memory::MemoryObjects;
use afterwrite_model::clock::Clock as _;
use afterwrite_model::effect::{AttributeChange, Write, WriteAction, WriteCondition};
use afterwrite_model::record::{AttributePath, AttributeValue, Decimal, Item, Timestamp};
use afterwrite_operations::verifier::{RotationReport, TimedVerification, VerifiedShare, VerifierReport};
use afterwrite_operations::verify::{
    DatasetCheck, DatasetCoverage, VerifyArguments, VerifyJob, VerifyReport, VerifyTask, verify_units,
};

use super::lake::{compact, export_archive, judge, store_heartbeat};
use super::world::{OperationWorld, STATE, state_key};

const TOLERANCE: Duration = Duration::from_secs(60);

/// A quiet world of which everything was written under the eyes of the stream.
async fn complete_world(seed: u64) -> (Arc<OperationWorld>, Arc<MemoryObjects>) {
    let world = OperationWorld::new("exambuddy", seed, 60, 0);
    let objects = Arc::new(MemoryObjects::default());
    objects.set_clock(world.clock.now());
    world.finish();
    export_archive(&world, &objects, "all").await;
    compact(&world, &objects).await;
    world.clock.sleep(Duration::from_secs(3600)).await;
    store_heartbeat(&objects, world.clock.now().plus(Duration::from_secs(24 * 3600))).await;
    (world, objects)
}

/// Verifies within a time.
async fn verify(
    world: &Arc<OperationWorld>,
    objects: &Arc<MemoryObjects>,
    (time, sample): (Duration, f64),
) -> (VerifyReport, VerifiedShare) {
    let arguments = VerifyArguments {
        segments: 16,
        sample,
        tolerance_seconds: TOLERANCE.as_secs(),
        datasets: DatasetCoverage::Compared,
        ..VerifyArguments::default()
    };
    let deadline: Timestamp = world.clock.now().plus(time);
    let state = VerifyTask::new(world.context(Arc::clone(world)), arguments.clone());
    let rows = judge(world, Arc::clone(objects), Arc::clone(world), TOLERANCE).until(deadline);
    let check = DatasetCheck::new(rows, arguments.clone());
    let job = VerifyJob::new(state.until(deadline), Some(check), DatasetCoverage::Compared);
    let timed = TimedVerification { job: &job, clock: &world.clock, deadline, tolerance: TOLERANCE };
    let done = timed.run(verify_units(&world.model(), &arguments)).await.unwrap();
    assert!(world.clock.now() <= deadline.plus(Duration::from_secs(1)), "it ends in time");
    (done.report, done.share)
}

fn report(found: &VerifyReport, share: VerifiedShare) -> VerifierReport {
    VerifierReport::new(found, share, RotationReport { round: None, last_round: None })
}

fn total_of(world: &OperationWorld) -> Item {
    let is_total = |item: &Item| item.get("SK").and_then(AttributeValue::as_text) == Some("ROLLUP#TOTAL");
    world.rows(STATE).into_iter().find(is_total).unwrap()
}

fn add_attempt(world: &OperationWorld, total: &Item) {
    let text = |name: &str| total.get(name).and_then(AttributeValue::as_text).unwrap().to_owned();
    let change = AttributeChange::Add(AttributePath::from("attempts"), Decimal::ONE);
    let key = state_key(&text("PK"), &text("SK"));
    let write =
        Write { key, condition: WriteCondition::ItemExists, action: WriteAction::Update(vec![change]) };
    world.tables.write_now(&write).unwrap();
}

#[tokio::test]
async fn with_enough_time_everything_is_read_and_drift_is_named() {
    let (world, objects) = complete_world(500).await;
    let (found, share) = verify(&world, &objects, (Duration::from_secs(3600), 1.0)).await;
    assert_eq!(found.findings, []);
    let all = VerifiedShare {
        rollups: 1.0,
        items: 1.0,
        entries: 1.0,
        dataset_items: 1.0,
        dataset_rows: 1.0,
        unjudged: 0,
    };
    assert_eq!(share, all);
    add_attempt(&world, &total_of(&world));
    let (found, share) = verify(&world, &objects, (Duration::from_secs(3600), 1.0)).await;
    let report = report(&found, share);
    assert_eq!((report.drifted_targets, report.undecided_targets), (1, 0), "{:#?}", found.findings);
    let summary = &found.summary;
    assert_eq!(report.checked_targets, summary.items + summary.rollups + summary.dataset_keys);
    assert!(summary.items > 0 && summary.rollups > 0 && summary.dataset_keys > 0);
}

#[tokio::test]
async fn with_less_time_a_part_is_read_and_nothing_is_invented() {
    let (mut partial, mut judged) = (0, 0);
    for (seed, seconds) in [(501, 20), (502, 75), (503, 90), (504, 130), (505, 200), (506, 260)] {
        let (world, objects) = complete_world(seed).await;
        let (found, share) = verify(&world, &objects, (Duration::from_secs(seconds), 1.0)).await;
        assert_eq!(found.findings, [], "{seconds} s: {share:?}");
        let shares = [share.rollups, share.items, share.entries, share.dataset_items, share.dataset_rows];
        partial += usize::from(shares.iter().any(|share| *share < 1.0));
        judged += found.summary.items + found.summary.rollups + found.summary.dataset_keys;
    }
    assert!(partial >= 3, "{partial} runs were cut short");
    assert!(judged > 0);
}

#[tokio::test]
async fn suspects_without_time_for_a_second_look_are_undecided() {
    let (world, objects) = complete_world(507).await;
    let name = world.table_names().remove(0);
    let is_attempt = |item: &Item| {
        item.get("SK").and_then(AttributeValue::as_text).is_some_and(|sort| sort.starts_with("ATTEMPT#"))
    };
    let attempt = world.rows(&name).into_iter().find(is_attempt).unwrap();
    world.tables.delete(&world.tables.key_of(&name, &attempt).unwrap()).unwrap();
    let _ = world.tables.take_changes(&name);
    let (found, share) = verify(&world, &objects, (Duration::from_secs(3600), 1.0)).await;
    assert!(report(&found, share).drifted_targets >= 2, "the entry and the row");
    // The tolerance alone takes 60 seconds.
    let (found, share) = verify(&world, &objects, (Duration::from_secs(55), 1.0)).await;
    let report = report(&found, share);
    assert_eq!(report.drifted_targets, 0, "{:#?}", found.findings);
}
