//! B1. Another sample in each run; the verifier judges everything once in a round.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use afterwrite_memory::{MemoryObjects, MemoryTables};
use afterwrite_model::clock::Clock as _;
use afterwrite_operations::backfill::BackfillArguments;
use afterwrite_operations::verifier::{RotationReport, RotationStore, TimedVerification, VerifierReport};
use afterwrite_operations::verify::{
    DatasetCoverage, KeySample, VerifyArguments, VerifyFinding, VerifyJob, verify_units,
};

use super::world::{ProofWorld, TOLERANCE, keys, model};

const SHARE: f64 = 0.05;

/// 2,000 orders, of which 40 were changed and not counted again.
async fn drifted_world() -> (ProofWorld, BTreeSet<String>) {
    let world = ProofWorld::new(2_000);
    world.backfill(BackfillArguments::default()).await.unwrap();
    let wrong: BTreeSet<String> = (0..40).map(|number| format!("ORDER#{}", number * 50)).collect();
    (0..40).for_each(|number| world.put_order(number * 50, "1", 6));
    (world, wrong)
}

/// A run of the function within this time; the findings of the items.
async fn run(
    world: &ProofWorld,
    bucket: &Arc<MemoryObjects>,
    (share, time): (f64, Duration),
) -> (VerifierReport, Vec<VerifyFinding>) {
    // As every process does, it knows only what the bucket has.
    let store = RotationStore::new(Some(Arc::clone(bucket)));
    let mut rotation = store.load(world.rotation("first").await).await.unwrap();
    let KeySample { share, seed } = rotation.sample(share);
    let segments = rotation.segments(share, 3);
    let arguments = VerifyArguments { sample: share, seed, segments, ..VerifyArguments::default() };
    let (begun, deadline) = (world.clock.now(), world.clock.now().plus(time));
    let task = world.task(arguments.clone()).until(deadline);
    let job: VerifyJob<Arc<MemoryObjects>, Arc<MemoryTables>, _> =
        VerifyJob::new(task, None, DatasetCoverage::NoDatasets);
    let timed = TimedVerification { job: &job, clock: &world.clock, deadline, tolerance: TOLERANCE };
    let mut units = verify_units(&world.model, &arguments);
    rotation.mark_read(share, &mut units);
    let result = timed.run(units.clone()).await.unwrap();
    rotation.note((arguments.key_sample(), segments), &units, &result, (begun, world.clock.now()));
    store.save(&rotation).await.unwrap();
    let report = VerifierReport::new(&result.report, result.share, rotation.report());
    (report, result.report.findings)
}

#[tokio::test]
async fn b1_the_verifier_has_named_every_wrong_item_after_one_over_share_runs() {
    let (world, wrong) = drifted_world().await;
    let bucket = Arc::new(MemoryObjects::default());
    let mut named = BTreeSet::new();
    let mut reports = Vec::new();
    for _ in 0..20 {
        let (report, findings) = run(&world, &bucket, (SHARE, Duration::from_secs(3600))).await;
        assert!(report.summary.items < 200, "a run judges its share: {report:#?}");
        assert!(findings.iter().all(|finding| finding.sample == Some(report.summary.sample)));
        named.extend(keys(&findings));
        reports.push(report);
    }
    assert_eq!(named, wrong);
    let seeds: BTreeSet<u32> = reports.iter().map(|report| report.summary.sample.seed).collect();
    assert_eq!(seeds.len(), 20, "each run judges another sample");
    let tenth = reports[9].rotation.round.as_ref().unwrap();
    assert!((tenth.judged.items - 0.5).abs() < 0.001 && tenth.runs == 10, "{tenth:?}");
    let RotationReport { round, last_round } = &reports[19].rotation;
    let last = last_round.as_ref().unwrap();
    assert_eq!((round, last.judged.items, last.judged.rollups, last.runs), (&None, 1.0, 1.0, 20));
    assert_eq!(last.since, tenth.since, "everything was judged since the first run");

    // The next round judges the same samples, so any 20 runs in a row judge everything.
    let (next, _) = run(&world, &bucket, (SHARE, Duration::from_secs(3600))).await;
    assert_eq!(next.rotation.round.as_ref().unwrap().runs, 1);
    assert!(next.rotation.last_round.is_some());
}

#[tokio::test]
async fn b1_another_share_goes_on_where_the_last_run_ended() {
    let (world, wrong) = drifted_world().await;
    let bucket = Arc::new(MemoryObjects::default());
    let mut named = BTreeSet::new();
    for share in [0.25, 0.1, 0.4, 0.3] {
        named.extend(keys(&run(&world, &bucket, (share, Duration::from_secs(3600))).await.1));
    }
    assert_eq!(named, wrong);
}

#[tokio::test]
async fn b1_another_model_or_table_begins_a_new_round_at_the_next_sample() {
    let (world, _) = drifted_world().await;
    let bucket = Arc::new(MemoryObjects::default());
    run(&world, &bucket, (SHARE, Duration::from_secs(3600))).await;
    let store = RotationStore::new(Some(Arc::clone(&bucket)));
    let before = store.load(world.rotation("first").await).await.unwrap();
    assert!(before.report().round.is_some());
    // The same tables, of which the state table was created again: nothing of it has been judged.
    let fresh = store.load(world.rotation("second").await).await.unwrap();
    assert_eq!(fresh.report().round, None);
    assert_eq!(fresh.sample(SHARE), before.sample(SHARE), "it goes on where the last run ended");
    let other = world.with(model(2, &["country", "region"]));
    let changed = store.load(other.rotation("first").await).await.unwrap();
    assert_eq!(changed.report().round, None);
}

#[tokio::test]
async fn b1_a_run_without_time_moves_nothing_and_claims_nothing() {
    let (world, _) = drifted_world().await;
    let bucket = Arc::new(MemoryObjects::default());
    let (late, _) = run(&world, &bucket, (SHARE, Duration::from_secs(1))).await;
    let round = late.rotation.round.as_ref().unwrap();
    assert_eq!(round.judged.items, 0.0, "{late:#?}");
    let failure = late.failure().expect("a run that has read nothing did not finish").to_string();
    assert!(failure.contains("no segment of a table was read in time"), "{failure}");
    let (next, _) = run(&world, &bucket, (SHARE, Duration::from_secs(3600))).await;
    assert_eq!(next.summary.sample, late.summary.sample, "the same sample again");
    let (after, _) = run(&world, &bucket, (SHARE, Duration::from_secs(3600))).await;
    assert_ne!(after.summary.sample, next.summary.sample);
}

#[tokio::test]
async fn b1_a_sample_with_another_seed_has_other_items_and_the_same_seed_the_same() {
    let (world, _) = drifted_world().await;
    let mut found = Vec::new();
    for seed in [1, 1_500_000_000, 1] {
        let arguments = VerifyArguments { sample: 0.2, seed, ..VerifyArguments::default() };
        let report = world.verify(arguments).await.unwrap();
        assert_eq!(report.summary.sample, KeySample { share: 0.2, seed });
        found.push(keys(&report.findings));
    }
    assert!(!found[0].is_empty() && !found[1].is_empty());
    assert!(found[0] == found[2] && found[0] != found[1]);
}
