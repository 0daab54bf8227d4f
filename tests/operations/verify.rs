//! Verification and repair: drift injected by hand in each place is found, named and repaired, and writes that go on are never
//! taken for drift.

use std::sync::Arc;
use std::time::Duration;

use afterwrite_ledger::tables::{TableScan, Tables};
use afterwrite_memory::MemoryObjects;
use afterwrite_model::clock::Clock;
use afterwrite_model::effect::{AttributeChange, ItemKey, Write, WriteAction, WriteCondition};
use afterwrite_model::record::{AttributePath, AttributeValue, Decimal, Item};
use afterwrite_model::table::Model;
use afterwrite_operations::backfill::{BackfillArguments, BackfillTask};
use afterwrite_operations::jobs::{JobKind, JobTotals};
use afterwrite_operations::repair::{DriftRepairer, RepairLogEntry, RepairOutcome, RepairTask};
use afterwrite_operations::verify::{
    DatasetCoverage, FindingPlace, FindingVerdict, ThreeWayCheck, VerifyArguments, VerifyFinding, VerifyJob,
    VerifyReport, VerifyTask, finding_lines, parse_findings, recheck_findings,
};
use afterwrite_tests::size::size;

use super::created::run;
use super::world::{OperationWorld, STATE, state_key};

const TOLERANCE: Duration = Duration::from_secs(120);

async fn backfill(world: &Arc<OperationWorld>) {
    backfill_by(world, BackfillArguments::default()).await;
}

async fn backfill_all(world: &Arc<OperationWorld>) -> JobTotals {
    backfill_by(world, BackfillArguments { all: true, ..BackfillArguments::default() }).await
}

async fn backfill_by(world: &Arc<OperationWorld>, arguments: BackfillArguments) -> JobTotals {
    let task = BackfillTask::new(world.context(Arc::clone(world)), arguments, None);
    let task = task.await.unwrap();
    run(world, JobKind::Verify, task.units(), &task).await.totals
}

async fn verify<T: Tables + TableScan + Clone>(
    world: &OperationWorld,
    tables: T,
    arguments: VerifyArguments,
) -> VerifyReport {
    let arguments = VerifyArguments { tolerance_seconds: TOLERANCE.as_secs(), segments: 3, ..arguments };
    let task = VerifyTask::new(world.context(tables), arguments);
    let units = task.units();
    let job: VerifyJob<Arc<MemoryObjects>, T, _> = VerifyJob::new(task, None, DatasetCoverage::NoDatasets);
    let done = run(world, JobKind::Verify, units, &job).await;
    job.report(&done.totals)
}

async fn repair<T: Tables + TableScan + Clone>(
    world: &OperationWorld,
    tables: T,
    findings: &[VerifyFinding],
) -> Vec<RepairLogEntry> {
    repair_with(DriftRepairer::new(world.context(tables), TOLERANCE), findings).await
}

async fn repair_with<T: Tables + TableScan + Clone, C: Clock + Clone>(
    repairer: DriftRepairer<T, C>,
    findings: &[VerifyFinding],
) -> Vec<RepairLogEntry> {
    let task: RepairTask<Arc<MemoryObjects>, _, _> = RepairTask::new(repairer, None, "repair", findings);
    task.run().await.unwrap()
}

/// A quiet world in which everything is counted.
async fn counted(model: &str, seed: u64) -> Arc<OperationWorld> {
    let world = OperationWorld::new(model, seed, 40, 600);
    backfill(&world).await;
    world.finish();
    assert_eq!(world.differences(), []);
    world
}

fn drift(report: &VerifyReport) -> Vec<&VerifyFinding> {
    report.findings.iter().filter(|finding| finding.is_drift()).collect()
}

#[tokio::test]
async fn writes_that_go_on_are_never_taken_for_drift() {
    let (mut judged, mut busy) = (0, 0);
    for model in Model::built_in_names() {
        for seed in (0..20).step_by(size(4, 1)) {
            let world = OperationWorld::new(model, 1_000 + seed, 150, 300);
            world.set_activity(20);
            backfill(&world).await;
            world.set_activity(150 + 40 * seed);
            let left = world.steps_left();
            let report = verify(&world, Arc::clone(&world), VerifyArguments::default()).await;
            assert_eq!(drift(&report), Vec::<&VerifyFinding>::new(), "{model} {seed}");
            busy += usize::from(left > world.steps_left());
            judged += report.summary.items + report.summary.rollups_confirmed;
            world.finish();
            let quiet = verify(&world, Arc::clone(&world.tables), VerifyArguments::default()).await;
            assert_eq!(quiet.findings, [], "{model} {seed}");
            assert_eq!(quiet.summary.items, quiet.summary.items_confirmed, "{model} {seed}");
        }
    }
    assert!(judged > 1_000 && busy > size(12, 50), "{judged} judged, {busy} busy");
}

fn add_one(key: ItemKey, attribute: &str) -> Write {
    let change = AttributeChange::Add(AttributePath::from(attribute), Decimal::ONE);
    Write { key, condition: WriteCondition::ItemExists, action: WriteAction::Update(vec![change]) }
}

fn text<'i>(item: &'i Item, name: &str) -> &'i str {
    item.get(name).and_then(AttributeValue::as_text).unwrap_or_default()
}

/// The key of the first item of the state table that `is_wanted` selects.
fn state_item(world: &OperationWorld, is_wanted: impl Fn(&Item) -> bool) -> (ItemKey, Item) {
    let item = world.rows(STATE).into_iter().find(|item| is_wanted(item)).unwrap();
    (state_key(text(&item, "PK"), text(&item, "SK")), item)
}

/// Verifies, repairs and verifies again; the drift must be at this place only, and everything right at the end.
async fn assert_found_and_repaired(world: &Arc<OperationWorld>, places: &[FindingPlace]) {
    let report = verify(world, Arc::clone(&world.tables), VerifyArguments::default()).await;
    let found = drift(&report);
    // A mirror shows what its rollup should be.
    let is_expected = |finding: &&&VerifyFinding| {
        places.contains(&finding.place())
            || (finding.place() == FindingPlace::Mirror && places.contains(&FindingPlace::Rollup))
    };
    assert!(!found.is_empty() && found.iter().all(|finding| is_expected(&finding)), "{found:#?}");
    assert!(places.iter().all(|place| found.iter().any(|finding| finding.place() == *place)), "{found:#?}");
    let findings = parse_findings(&finding_lines(&report.findings)).unwrap().findings;
    assert_eq!(findings, report.findings, "a report is read back");

    let before = world.rows(STATE);
    let dry_run = DriftRepairer::dry_run(world.context(Arc::clone(&world.tables)), TOLERANCE);
    let overlay = dry_run.tables();
    let dry = repair_with(dry_run, &findings).await;
    assert!(!overlay.differences().is_empty() && world.rows(STATE) == before, "a dry run writes nothing");
    let log = repair(world, Arc::clone(&world.tables), &findings).await;
    let planned = |entry: &RepairLogEntry| {
        if entry.outcome == RepairOutcome::WouldBeRepaired { RepairOutcome::Repaired } else { entry.outcome }
    };
    let lines = |log: &[RepairLogEntry]| -> Vec<_> {
        log.iter().map(|entry| (entry.finding.clone(), planned(entry))).collect()
    };
    assert_eq!(lines(&dry), lines(&log), "a dry run shows what the repair does");
    assert!(dry.iter().all(|entry| entry.outcome != RepairOutcome::Repaired), "{dry:#?}");
    assert!(log.iter().any(|entry| entry.outcome == RepairOutcome::Repaired), "{log:#?}");
    let after = verify(world, Arc::clone(&world.tables), VerifyArguments::default()).await;
    assert_eq!(after.findings, []);
    assert_eq!(world.differences(), []);
    let context = world.context(Arc::clone(&world.tables));
    let left = recheck_findings(&context, TOLERANCE, &findings);
    assert_eq!(left.await.unwrap(), []);
}

#[tokio::test]
async fn a_wrong_rollup_is_found_named_and_repaired() {
    for model in ["exambuddy", "shop", "quiz"] {
        let world = counted(model, 3).await;
        let rollups = &world.model();
        let is_computed = |name: &str| rollups.rollups.iter().any(|rollup| rollup.has_computed(name));
        let sum_of = |item: &Item| {
            let is_sum = |name: &str, value: &AttributeValue<'_>| {
                let is_own = name == "rev" || name == "expires_at" || name.starts_with("settled_");
                value.as_number().is_some() && !is_own && !is_computed(name)
            };
            item.iter().find(|(name, value)| is_sum(name, value)).map(|(name, _)| name.to_string())
        };
        let (key, item) = state_item(&world, |item| {
            text(item, "EntityType") == "ROLLUP" && !item.contains_key("expires_at") && sum_of(item).is_some()
        });
        let measure = sum_of(&item);
        world.tables.write_now(&add_one(key, measure.as_deref().unwrap())).unwrap();
        let report = verify(&world, Arc::clone(&world.tables), VerifyArguments::default()).await;
        let finding = drift(&report)[0];
        assert_eq!(
            (finding.place(), finding.subject.key().1.join("|")),
            (FindingPlace::Rollup, format!("{}|{}", text(&item, "PK"), text(&item, "SK")))
        );
        let measure = measure.unwrap();
        let value = &finding.values[&measure];
        assert_eq!(value.expected, item[measure.as_str()].as_number().map(ToString::to_string));
        assert_found_and_repaired(&world, &[FindingPlace::Rollup]).await;
    }
}

#[tokio::test]
async fn a_measure_of_an_earlier_model_is_not_judged() {
    let world = counted("exambuddy", 4).await;
    let (key, _) = state_item(&world, |item| text(item, "EntityType") == "ROLLUP");
    // A maximum that the model no longer has: no entry knows its value.
    let change = AttributeChange::Set(AttributePath::from("highest_score"), Decimal::from(97).into());
    let write =
        Write { key, condition: WriteCondition::ItemExists, action: WriteAction::Update(vec![change]) };
    world.tables.write_now(&write).unwrap();
    let report = verify(&world, Arc::clone(&world.tables), VerifyArguments::default()).await;
    assert_eq!(report.findings, []);
}

#[tokio::test]
async fn a_wrong_ledger_entry_is_found_with_its_rollups_and_both_are_repaired() {
    let world = counted("exambuddy", 5).await;
    let (key, mut item) = state_item(&world, |item| {
        text(item, "EntityType") == "LEDGER"
            && text(item, "SK").starts_with("ATTEMPT#")
            && text(item, "contributions") != "[]"
    });
    item.insert("contributions".into(), AttributeValue::text("[]"));
    let write = Write { key, condition: WriteCondition::Always, action: WriteAction::Put(item) };
    world.tables.write_now(&write).unwrap();
    assert_found_and_repaired(&world, &[FindingPlace::Ledger, FindingPlace::Rollup]).await;
}

/// Sets an attribute of a ledger entry of an attempt to a value that no entry has; returns the entry as it was.
fn make_unreadable(world: &OperationWorld) -> Item {
    let (key, entry) = state_item(world, |item| {
        text(item, "EntityType") == "LEDGER"
            && text(item, "SK").starts_with("ATTEMPT#")
            && text(item, "contributions") != "[]"
    });
    let change = AttributeChange::Set(AttributePath::from("contributions"), AttributeValue::text("?"));
    let (condition, action) = (WriteCondition::Always, WriteAction::Update(vec![change]));
    world.tables.write_now(&Write { key, condition, action }).unwrap();
    entry
}

#[tokio::test]
async fn an_unreadable_entry_is_a_finding_that_ends_neither_verify_nor_repair_nor_a_backfill() {
    let world = counted("exambuddy", 5).await;
    let entry = make_unreadable(&world);
    // A difference that may be the unreadable entry's part is not drift.
    let (rollup, _) = state_item(&world, |item| {
        text(item, "EntityType") == "ROLLUP"
            && item.contains_key("attempts")
            && !item.contains_key("expires_at")
    });
    world.tables.write_now(&add_one(rollup, "attempts")).unwrap();
    let report = verify(&world, Arc::clone(&world.tables), VerifyArguments::default()).await;
    let drifted = drift(&report);
    assert_eq!(drifted.len(), 1, "{report:#?}");
    assert_eq!(
        (drifted[0].place(), drifted[0].subject.key().1[1]),
        (FindingPlace::UnreadableEntry, text(&entry, "SK"))
    );
    assert!(
        drifted[0].cause.as_deref().is_some_and(|cause| cause.contains("Delete the entry")),
        "{drifted:?}"
    );
    let of_rollups: Vec<_> =
        report.findings.iter().filter(|finding| finding.place() == FindingPlace::Rollup).collect();
    assert!(
        !of_rollups.is_empty() && of_rollups.iter().all(|finding| finding.cause.is_some()),
        "{report:#?}"
    );
    assert_eq!(report.summary.items, report.summary.items_confirmed + 1, "all others are judged");

    let before = world.rows(STATE);
    let log = repair(&world, Arc::clone(&world.tables), &report.findings).await;
    assert!(log.iter().all(|entry| entry.outcome != RepairOutcome::Repaired), "{log:#?}");
    assert!(log.iter().any(|entry| entry.action.contains("Delete the entry")), "{log:#?}");
    assert_eq!(world.rows(STATE), before, "nothing is written");

    let totals = backfill_all(&world).await;
    assert_eq!(
        (totals.get("failed"), totals.get("failed_UnreadableError")),
        (Some(&1), Some(&1)),
        "{totals:?}"
    );

    // The remedy: delete the entry, backfill, verify, repair.
    world.tables.delete(&state_key(text(&entry, "PK"), text(&entry, "SK"))).unwrap();
    backfill(&world).await;
    let report = verify(&world, Arc::clone(&world.tables), VerifyArguments::default()).await;
    repair(&world, Arc::clone(&world.tables), &report.findings).await;
    let after = verify(&world, Arc::clone(&world.tables), VerifyArguments::default()).await;
    assert_eq!(after.findings, []);
    assert_eq!(world.differences(), []);
}

#[tokio::test]
async fn an_unreadable_entry_of_a_deleted_item_is_found_and_reported() {
    let world = counted("exambuddy", 6).await;
    let entry = make_unreadable(&world);
    let name = world.table_names().remove(0);
    let attempts = world.rows(&name).into_iter();
    let attempt = attempts.into_iter().find(|item| text(item, "SK") == text(&entry, "SK")).unwrap();
    world.tables.delete(&world.tables.key_of(&name, &attempt).unwrap()).unwrap();
    let _ = world.tables.take_changes(&name);
    let report = verify(&world, Arc::clone(&world.tables), VerifyArguments::default()).await;
    let places: Vec<_> = drift(&report).iter().map(|finding| finding.place()).collect();
    assert_eq!(places, [FindingPlace::UnreadableEntry], "{report:#?}");
    let totals = backfill_all(&world).await;
    assert_eq!(totals.get("failed_UnreadableError"), Some(&1), "{totals:?}");
}

#[tokio::test]
async fn a_missing_entry_and_a_deletion_that_was_lost_are_found_and_repaired() {
    let world = counted("exambuddy", 6).await;
    let name = world.table_names().remove(0);
    let attempts = world.rows(&name).into_iter().filter(|item| text(item, "SK").starts_with("ATTEMPT#"));
    let attempt = attempts.into_iter().next().unwrap();
    let key = world.tables.key_of(&name, &attempt).unwrap();
    world.tables.delete(&key).unwrap();
    let _ = world.tables.take_changes(&name);
    let report = verify(&world, Arc::clone(&world.tables), VerifyArguments::default()).await;
    let finding = drift(&report)[0];
    assert!(finding.cause.as_deref().is_some_and(|cause| cause.contains("deletion was lost")), "{finding:?}");
    assert_found_and_repaired(&world, &[FindingPlace::Ledger]).await;

    let mut copy = attempt;
    copy.insert("SK".into(), AttributeValue::text("ATTEMPT#lost"));
    copy.insert("attempt_id".into(), AttributeValue::text("lost"));
    world.tables.put(&name, copy).unwrap();
    let _ = world.tables.take_changes(&name);
    let report = verify(&world, Arc::clone(&world.tables), VerifyArguments::default()).await;
    let finding = drift(&report)[0];
    assert!(finding.cause.as_deref().is_some_and(|cause| cause.contains("no ledger entry")), "{finding:?}");
    assert_found_and_repaired(&world, &[FindingPlace::Ledger]).await;
}

#[tokio::test]
async fn a_wrong_mirror_is_found_named_and_repaired() {
    let world = counted("exambuddy", 7).await;
    let name = world.table_names().remove(0);
    let project = world.rows(&name).into_iter().find(|item| item.contains_key("question_count")).unwrap();
    let key = world.tables.key_of(&name, &project).unwrap();
    world.tables.write_now(&add_one(key, "question_count")).unwrap();
    let _ = world.tables.take_changes(&name);
    assert_found_and_repaired(&world, &[FindingPlace::Mirror]).await;
}

#[tokio::test]
async fn drift_is_found_while_writes_go_on() {
    let world = OperationWorld::new("exambuddy", 8, 120, 300);
    world.set_activity(20);
    backfill(&world).await;
    let (key, item) = state_item(&world, |item| {
        text(item, "SK").starts_with("ROLLUP#DAY#") && item.contains_key("attempts")
    });
    world.tables.write_now(&add_one(key, "passed")).unwrap();
    let report = verify(&world, Arc::clone(&world), VerifyArguments::default()).await;
    let of_rollup = report
        .findings
        .iter()
        .find(|finding| finding.subject.key().1 == [text(&item, "PK"), text(&item, "SK")]);
    // If the application kept changing it, it is undecided; it is never confirmed.
    assert!(of_rollup.is_some(), "{report:#?}");
    world.finish();
    assert_found_and_repaired(&world, &[FindingPlace::Rollup]).await;
}

#[tokio::test]
async fn a_sample_judges_a_part_and_bounds_the_rest() {
    let world = counted("shop", 9).await;
    let all = verify(&world, Arc::clone(&world.tables), VerifyArguments::default()).await;
    let sample = VerifyArguments { sample: 0.3, ..VerifyArguments::default() };
    let part = verify(&world, Arc::clone(&world.tables), sample).await;
    assert!(part.summary.items > 0 && part.summary.items < all.summary.items, "{part:?}");
    assert!(part.summary.rollups < all.summary.rollups);
    assert!(part.summary.drift_upper_bound > all.summary.drift_upper_bound);
    assert_eq!(part.findings, []);
}

#[tokio::test]
async fn one_tenant_is_verified_alone() {
    let world = counted("exambuddy", 10).await;
    let (key, item) =
        state_item(&world, |item| text(item, "PK").starts_with("ADMIN#") && item.contains_key("attempts"));
    world.tables.write_now(&add_one(key, "attempts")).unwrap();
    let admin = text(&item, "PK").trim_start_matches("ADMIN#").to_owned();
    let only = |value: &str| VerifyArguments {
        only: Some(format!("admin_id={value}").parse().unwrap()),
        ..VerifyArguments::default()
    };
    let of_tenant = verify(&world, Arc::clone(&world.tables), only(&admin)).await;
    assert_eq!((drift(&of_tenant).len(), of_tenant.summary.items > 0), (1, true));
    let of_other = verify(&world, Arc::clone(&world.tables), only("nobody")).await;
    assert_eq!((of_other.findings.len(), of_other.summary.items), (0, 0));
}

#[tokio::test]
async fn the_applications_own_counter_is_compared_with_rollup_and_recount() {
    let world = counted("exambuddy", 12).await;
    let name = world.table_names().remove(0);
    let three_way = || VerifyArguments {
        three_way: Some(ThreeWayCheck {
            attribute: "my_questions".to_owned(),
            rollup: "project".to_owned(),
            measure: "questions".to_owned(),
        }),
        ..VerifyArguments::default()
    };
    for project in world.rows(&name).into_iter().filter(|item| item.contains_key("question_count")) {
        let key = world.tables.key_of(&name, &project).unwrap();
        let count = project["question_count"].clone();
        let change = AttributeChange::Set(AttributePath::from("my_questions"), count);
        let write =
            Write { key, condition: WriteCondition::Always, action: WriteAction::Update(vec![change]) };
        world.tables.write_now(&write).unwrap();
    }
    let report = verify(&world, Arc::clone(&world.tables), three_way()).await;
    assert_eq!(report.findings, [], "all three agree");
    let project = world.rows(&name).into_iter().find(|item| item.contains_key("my_questions")).unwrap();
    let key = world.tables.key_of(&name, &project).unwrap();
    world.tables.write_now(&add_one(key, "my_questions")).unwrap();
    let report = verify(&world, Arc::clone(&world.tables), three_way()).await;
    let [finding] = report.findings.as_slice() else { panic!("{:#?}", report.findings) };
    assert_eq!((finding.place(), finding.verdict), (FindingPlace::ThreeWay, FindingVerdict::Drift));
    assert!(
        finding.cause.as_deref().is_some_and(|cause| cause.contains("the application's counter is wrong"))
    );
    assert_eq!(finding.values["my_questions"].expected, finding.values["project.questions"].found);
}
