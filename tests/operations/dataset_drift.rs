//! Datasets that differ from their items: found, named, repaired; and writes that go on are never taken for drift.

use std::sync::Arc;
use std::time::Duration;

use afterwrite_datasets::delta::{DeltaTable, TableChange};
use afterwrite_datasets::schema::arrow_schema;
use afterwrite_memory::MemoryObjects;
use afterwrite_model::clock::Clock as _;
use afterwrite_model::record::AttributeValue;
use afterwrite_model::table::Model;
use afterwrite_operations::repair::{DriftRepairer, RepairOutcome, RepairTask};
use afterwrite_operations::verify::{
    DatasetCoverage, FindingPlace, FindingSubject, RowDifference, VerifyArguments, VerifyFinding,
    VerifyReport, recheck_rows,
};
use afterwrite_services::Bucket as _;
use afterwrite_tests::size::size;

use super::lake::{compact, differences, export_archive, judge, store_heartbeat, table_rows};
use super::live_lake::LiveLake;
use super::quiet_lake::{QuietLake, TOLERANCE, arguments, fill, of_datasets, single, text, verify};
use super::world::OperationWorld;

#[tokio::test]
async fn datasets_of_quiet_tables_equal_the_items() {
    for (model, seed) in [("exambuddy", 40), ("shop", 41), ("quiz", 42), ("glad", 43)] {
        let lake = QuietLake::new(model, seed).await;
        let report = lake.verify().await;
        assert_eq!(report.findings, [], "{model}");
        let summary = report.summary;
        assert_eq!(summary.dataset_keys, summary.dataset_keys_confirmed, "{model}");
        assert!(summary.dataset_keys > 0 && summary.datasets == DatasetCoverage::Compared, "{model}");
    }
}

#[tokio::test]
async fn an_item_without_its_row_is_found_and_gets_a_snapshot() {
    let lake = QuietLake::new("exambuddy", 1).await;
    let mut copy = lake.attempt();
    copy.insert("SK".into(), AttributeValue::text("ATTEMPT#unseen"));
    copy.insert("attempt_id".into(), AttributeValue::text("unseen"));
    lake.put_unseen(copy.clone());
    let report = lake.verify().await;
    let finding = single(&report);
    let row = finding.subject.row().unwrap();
    assert_eq!((row.dataset.as_str(), row.difference), ("attempts", RowDifference::Missing));
    assert_eq!(row.day, text(&copy, "started_at").split('T').next().unwrap());
    assert_eq!(finding.subject.key().1, [text(&copy, "PK"), "ATTEMPT#unseen"]);
    assert_eq!(finding.values["attempt_id"].expected.as_deref(), Some("unseen"));
    lake.assert_repaired(&report).await;
}

#[tokio::test]
async fn a_row_without_its_item_is_found_and_ends() {
    for seed in [2, 3] {
        let lake = QuietLake::new("exambuddy", seed).await;
        let attempt = lake.attempt();
        lake.delete_unseen(&attempt);
        let report = lake.verify().await;
        let finding = single(&report);
        assert_eq!(finding.subject.row().unwrap().difference, RowDifference::Foreign);
        assert!(finding.cause.clone().unwrap().contains("deletion was lost"), "{finding:?}");
        lake.assert_repaired(&report).await;
        // The item lives again, and its record comes: it has its row.
        lake.world.tables.set_time(lake.world.clock.now());
        lake.world.tables.put(&lake.table(), attempt).unwrap();
        lake.world.stream_changes();
        lake.world.finish();
        lake.pass(Duration::from_secs(600)).await;
        export_archive(&lake.world, &lake.objects, "again").await;
        compact(&lake.world, &lake.objects).await;
        assert_eq!(differences(&lake.world, &lake.objects).await, [""; 0]);
        assert_eq!(of_datasets(&lake.verify().await), []);
    }
}

#[tokio::test]
async fn a_row_that_differs_is_found_with_its_values_and_replaced() {
    let lake = QuietLake::new("exambuddy", 4).await;
    let mut attempt = lake.attempt();
    let before = text(&attempt, "status").to_owned();
    attempt.insert("status".into(), AttributeValue::text("REVISED"));
    lake.put_unseen(attempt);
    let report = lake.verify().await;
    let finding = single(&report);
    assert_eq!(finding.subject.row().unwrap().difference, RowDifference::Different);
    assert_eq!(finding.values.keys().collect::<Vec<_>>(), ["status"]);
    let status = &finding.values["status"];
    assert_eq!((status.expected.as_deref(), status.found.as_deref()), (Some("REVISED"), Some(&*before)));
    lake.assert_repaired(&report).await;
}

#[tokio::test]
async fn an_item_that_moved_to_another_day_unseen_has_two_wrong_partitions() {
    let lake = QuietLake::new("exambuddy", 5).await;
    let mut attempt = lake.attempt();
    attempt.insert("started_at".into(), AttributeValue::text("2031-01-02T03:04:05Z"));
    lake.put_unseen(attempt);
    let report = lake.verify().await;
    let mut found: Vec<_> = of_datasets(&report)
        .into_iter()
        .filter_map(|finding| finding.subject.row().cloned())
        .map(|row| (row.difference, row.day == "2031-01-02"))
        .collect();
    found.sort();
    assert_eq!(found, [(RowDifference::Missing, true), (RowDifference::Foreign, false)]);
    lake.assert_repaired(&report).await;
}

#[tokio::test]
async fn current_rows_that_another_program_removed_are_derived_again() {
    let lake = QuietLake::new("exambuddy", 6).await;
    let model = lake.world.model();
    let dataset = model.datasets.iter().find(|dataset| *dataset.name == *"attempts").unwrap();
    let table = DeltaTable::new(Arc::clone(&lake.objects), "datasets/attempts/");
    let snapshot = table.snapshot().await.unwrap();
    let file = snapshot.files().next().unwrap();
    let (removed, rows) = (file.path.clone(), file.rows());
    let deadline = lake.world.clock.now().plus(Duration::from_secs(60));
    let change =
        TableChange { remove: [removed].into(), ..TableChange::new("DELETE", arrow_schema(dataset)) };
    table.update(&lake.world.clock, deadline, |_| Ok(Some(change.clone()))).await.unwrap();
    let report = lake.verify().await;
    let findings = of_datasets(&report);
    // Rows of lives that ended by expiry have no item.
    assert!((1..=rows).contains(&u64::try_from(findings.len()).unwrap()), "{findings:#?}");
    assert!(findings.iter().all(|finding| {
        let row = finding.subject.row().unwrap();
        row.difference == RowDifference::Missing && finding.cause.as_deref().unwrap().contains("derived")
    }));
    lake.assert_repaired(&report).await;
}

#[tokio::test]
async fn a_row_in_the_log_of_a_day_that_is_not_compacted_yet_counts() {
    let lake = QuietLake::new("exambuddy", 7).await;
    let mut attempt = lake.attempt();
    attempt.insert("status".into(), AttributeValue::text("REVISED"));
    lake.world.tables.set_time(lake.world.clock.now());
    lake.world.tables.put(&lake.table(), attempt).unwrap();
    lake.world.stream_changes();
    lake.world.finish();
    export_archive(&lake.world, &lake.objects, "late").await;
    lake.pass(Duration::from_secs(600)).await;
    assert_eq!(differences(&lake.world, &lake.objects).await.len(), 2, "the current row is older");
    let report = lake.verify().await;
    assert_eq!(of_datasets(&report), []);
    assert_eq!(report.summary.dataset_keys, report.summary.dataset_keys_confirmed);
}

#[tokio::test]
async fn a_difference_is_undecided_until_the_log_is_known_to_be_complete() {
    let lake = QuietLake::new("exambuddy", 8).await;
    let mut attempt = lake.attempt();
    attempt.insert("status".into(), AttributeValue::text("REVISED"));
    lake.put_unseen(attempt);
    lake.objects.delete(&["heartbeat/exported".to_owned()]).await.unwrap();
    for cause in ["no heartbeat has been exported", "not complete yet"] {
        let report = lake.verify().await;
        let findings = of_datasets(&report);
        let [finding] = findings.as_slice() else { panic!("{findings:#?}") };
        assert!(!finding.is_drift());
        assert!(finding.cause.as_deref().unwrap().contains(cause), "{finding:#?}");
        let log = lake.repair(&findings, "early").await;
        assert!(log.iter().all(|entry| entry.outcome == RepairOutcome::Changed), "{log:#?}");
        // The heartbeats stopped an hour ago.
        let old = lake.world.clock.now().minus(Duration::from_secs(3600));
        store_heartbeat(&lake.objects, old).await;
    }
    lake.pass(Duration::from_secs(60)).await;
    single(&lake.verify().await);
}

#[tokio::test]
async fn a_repair_waits_until_a_snapshot_wins_over_the_newest_row() {
    let lake = QuietLake::new("exambuddy", 9).await;
    let mut attempt = lake.attempt();
    attempt.insert("status".into(), AttributeValue::text("SEEN"));
    lake.world.tables.set_time(lake.world.clock.now());
    lake.world.tables.put(&lake.table(), attempt.clone()).unwrap();
    lake.world.stream_changes();
    lake.world.finish();
    export_archive(&lake.world, &lake.objects, "late").await;
    attempt.insert("status".into(), AttributeValue::text("UNSEEN"));
    lake.put_unseen(attempt);
    lake.pass(Duration::from_secs(60)).await;
    let report = lake.verify().await;
    let begun = lake.world.clock.now();
    lake.assert_repaired(&report).await;
    assert!(lake.world.clock.now().since(begun) > Duration::from_secs(10 * 60), "it waited");
}

#[tokio::test]
async fn an_item_that_lives_again_keeps_its_row_although_the_finding_was_right() {
    let lake = QuietLake::new("exambuddy", 10).await;
    let attempt = lake.attempt();
    lake.delete_unseen(&attempt);
    let finding = single(&lake.verify().await);
    lake.put_unseen(attempt);
    let log = lake.repair(&[finding], "late").await;
    assert!(log.iter().all(|entry| entry.outcome == RepairOutcome::AlreadyRight), "{log:#?}");
    assert_eq!(differences(&lake.world, &lake.objects).await, [""; 0]);
}

#[tokio::test]
async fn a_tenant_and_a_sample_judge_their_part_only() {
    let lake = QuietLake::new("exambuddy", 11).await;
    let attempts = table_rows(&lake.objects, "attempts").await;
    let admin = attempts.iter().find_map(|row| row.get("admin_id")).unwrap().clone();
    let only = |value: &str| VerifyArguments {
        only: Some(format!("admin_id={value}").parse().unwrap()),
        ..arguments()
    };
    let all = lake.verify().await.summary.dataset_keys;
    let of_tenant = lake.verify_with(only(&admin)).await;
    assert_eq!(of_tenant.findings, []);
    assert!(of_tenant.summary.dataset_keys > 0 && of_tenant.summary.dataset_keys < all);
    let of_nobody = lake.verify_with(only("nobody")).await;
    assert_eq!((of_nobody.findings.len(), of_nobody.summary.dataset_keys), (0, 0));
    let sample = lake.verify_with(VerifyArguments { sample: 0.3, ..arguments() }).await;
    assert_eq!(sample.findings, []);
    assert!(sample.summary.dataset_keys > 0 && sample.summary.dataset_keys < all);
    let attempt = lake.attempt();
    lake.delete_unseen(&attempt);
    assert_eq!(of_datasets(&lake.verify_with(only("nobody")).await), []);
}

#[tokio::test]
async fn b3_a_row_of_another_model_is_neither_right_nor_repaired() {
    let lake = QuietLake::new("exambuddy", 12).await;
    lake.delete_unseen(&lake.attempt());
    let mut findings = of_datasets(&lake.verify().await);
    assert!(!findings.is_empty());
    for finding in &mut findings {
        let FindingSubject::Row(_, row) = &mut finding.subject else { panic!("{finding:?}") };
        row.dataset = "of_another_model".to_owned();
    }
    let judge = judge(&lake.world, Arc::clone(&lake.objects), Arc::clone(&lake.world), TOLERANCE);
    let found = recheck_rows(&judge, &findings).await.unwrap();
    assert_eq!(found.len(), findings.len());
    assert!(found.iter().all(|finding| !finding.is_drift()), "{found:#?}");
    let coverage = DatasetCoverage::Compared;
    let report = VerifyReport::of_recheck(&lake.world.model(), &findings, found, coverage);
    assert_eq!(report.summary.unjudged.len(), 1, "the verification did not finish");
    let log = lake.repair(&findings, "foreign").await;
    assert!(log.iter().all(|entry| entry.outcome == RepairOutcome::Failed), "{log:#?}");
}

#[tokio::test]
async fn a_repair_of_everything_writes_each_place() {
    let lake = QuietLake::new("exambuddy", 12).await;
    let attempt = lake.attempt();
    lake.delete_unseen(&attempt);
    let report = lake.verify().await;
    assert!(report.findings.iter().any(|finding| finding.place() == FindingPlace::Ledger));
    let repairer = DriftRepairer::new(lake.world.context(Arc::clone(&lake.world)), TOLERANCE);
    let judge = judge(&lake.world, Arc::clone(&lake.objects), Arc::clone(&lake.world), TOLERANCE);
    let task = RepairTask::new(repairer, Some(judge), "all", &report.findings);
    let log = task.run().await.unwrap();
    assert!(log.iter().any(|entry| entry.finding.place() == FindingPlace::Dataset), "{log:#?}");
    assert!(log.iter().all(|entry| entry.outcome != RepairOutcome::Failed), "{log:#?}");
    assert_eq!(lake.verify().await.findings, []);
}

#[tokio::test]
async fn writes_that_go_on_are_never_taken_for_drift_of_datasets() {
    let (mut judged, mut exports) = (0, 0);
    for model in Model::built_in_names() {
        for seed in (0..8).step_by(size(4, 1)) {
            let world = OperationWorld::new(model, 3_000 + seed, 120, 300);
            let objects = Arc::new(MemoryObjects::default());
            objects.set_clock(world.clock.now());
            world.set_activity(20);
            fill(&world, &objects).await;
            world.set_activity(100 + 60 * seed);
            let lake = LiveLake::new(&world, Arc::clone(&objects), seed);
            let report = verify(&world, lake.clone(), Arc::clone(&world), arguments()).await;
            let drift = report.findings.iter().filter(|finding| finding.is_drift());
            assert_eq!(drift.collect::<Vec<_>>(), Vec::<&VerifyFinding>::new(), "{model} {seed}");
            judged += report.summary.dataset_keys;
            exports += lake.exports();
            world.finish();
            export_archive(&world, &objects, "rest").await;
            let later = world.clock.now().plus(Duration::from_secs(24 * 3600));
            store_heartbeat(&objects, later).await;
            let quiet = verify(&world, Arc::clone(&objects), Arc::clone(&world), arguments()).await;
            assert_eq!(quiet.findings, [], "{model} {seed}");
        }
    }
    println!("{judged} items and rows judged, {exports} exports meanwhile");
    assert!(judged > 1_000 && exports > size(25, 100), "{judged} judged, {exports} exports");
}
