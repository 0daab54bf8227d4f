//! A4: a job has any number of units; A1: and no other units than it was planned with.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use afterwrite_model::clock::Clock as _;
use afterwrite_model::record::{AttributeValue as Value, Item};
use afterwrite_model::{ErrorKind, Result};
use afterwrite_operations::jobs::{
    JobBasis, JobRunner, JobStatus, JobTask, SilentObserver, StepOutcome, WorkUnit,
};
use afterwrite_tests::size::size;
use aws_sdk_dynamodb::types::AttributeValue;
use futures::FutureExt as _;

use super::deployment::{STATE, Shop};
use super::exports::export;
use super::store::{NOW, new_job, store, tables};

/// Does a unit in two steps; dies after so many steps.
struct CountingTask {
    steps: AtomicU64,
    dies_after: u64,
}

impl JobTask for CountingTask {
    async fn step(&self, unit: &WorkUnit) -> Result<StepOutcome> {
        if self.steps.fetch_add(1, Ordering::Relaxed) >= self.dies_after {
            std::future::pending::<()>().await;
        }
        let cursor = unit.cursor.is_none().then(|| serde_json::json!("k".repeat(40)));
        let totals = [("counted", 1)].into();
        Ok(StepOutcome { cursor, items: 1, bytes: 0, spent: 1, totals })
    }
}

#[tokio::test]
async fn a4_a_job_of_100000_units_is_created_killed_resumed_and_done() {
    const UNITS: usize = 100_000;
    let tables = tables();
    let store = store(&tables, NOW);
    let id = store.create(new_job(UNITS)).await.unwrap().id;
    // Nothing moves the clock but waiting for it, so that the first process is killed before its first save.
    let killed = CountingTask { steps: AtomicU64::new(0), dies_after: 1_000 };
    let acquired = store.acquire(&id, &JobBasis::default()).await.unwrap();
    assert_eq!(acquired.units.len(), UNITS);
    let runner = JobRunner { store: &store, observer: &SilentObserver, workers: 8 };
    assert!(runner.run(acquired, &killed).now_or_never().is_none());
    store.clock().sleep(Duration::from_secs(61)).await;
    tables.set_time(store.clock().now());
    let whole = CountingTask { steps: AtomicU64::new(0), dies_after: u64::MAX };
    let acquired = store.acquire(&id, &JobBasis::default()).await.unwrap();
    let done = runner.run(acquired, &whole).await.unwrap();
    assert_eq!((done.status, done.work.units_done), (JobStatus::Done, UNITS));
    assert_eq!(done.totals["counted"], 2 * u64::try_from(UNITS).unwrap());
    let stored = store.load(&id).await.unwrap();
    assert_eq!((stored.work, stored.totals), (done.work, done.totals));
}

#[tokio::test]
async fn a1_a_job_with_fewer_units_than_it_was_planned_with_is_refused() {
    for (planned, left) in [(4, 0), (4, 3), (20, 0), (20, 15)] {
        let tables = tables();
        let store = store(&tables, NOW);
        let id = store.create(new_job(planned)).await.unwrap().id;
        let units: Vec<WorkUnit> = (0..left).map(|unit| WorkUnit::new(format!("{unit}"), 0)).collect();
        let text = |value: &str| Value::text(value.to_owned());
        let damaged = Item::from([
            ("PK".into(), text(&format!("AFTERWRITE#JOB#{id}#000000"))),
            ("SK".into(), text("-")),
            ("units".into(), text(&serde_json::to_string(&units).unwrap())),
            ("totals".into(), text("{}")),
        ]);
        assert!(tables.put(STATE, damaged).unwrap().is_some(), "the part was there");
        let error = store.acquire(&id, &JobBasis::default()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::State, "{error}");
        assert!(error.to_string().contains("units of the job are missing"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn a4_an_export_of_thousands_of_files_is_counted_and_resumed() {
    let shop = Shop::with_orders(0).await;
    let files = size(1_500, 6_000);
    export(&shop.path("export"), Some("Orders"), files);
    let started = shop.paused_in(
        shop.folder.path(),
        &[
            "backfill",
            "--yes",
            "--without-recovery",
            "--mapping-since",
            "2026-01-01",
            "--export",
            "export",
            "--segments",
            &files.to_string(),
            "--rate",
            "900",
        ],
    );
    let done = shop.json(0, &["jobs", "resume", &started, "--json"]);
    assert_eq!(done["progress"]["units"], 2 * files, "{done}");
    shop.server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn a4_a_repair_is_resumed_only_with_all_of_its_findings() {
    let shop = Shop::with_orders(2_100).await;
    shop.text(1, &["verify", "--tolerance", "0", "--report", "drift.jsonl"]);
    let repair = ["repair", "drift.jsonl", "--yes", "--without-recovery", "--workers=1", "--tolerance=3"];
    let id = shop.paused_in(shop.folder.path(), &repair);
    // A process that is killed while it stores the findings leaves a part of the last thousand out.
    let scan = shop.server.client().scan().table_name(STATE).into_paginator().items().send();
    let items: Vec<_> = scan.try_collect().await.unwrap();
    let key_of = |item: &std::collections::HashMap<String, AttributeValue>| {
        ["PK", "SK"].map(|name| (name.to_owned(), item[name].clone()))
    };
    let is_last = |item: &&std::collections::HashMap<String, AttributeValue>| {
        let mut values = item.values().filter_map(|value| value.as_s().ok());
        item.contains_key("value") && values.any(|text| text.ends_with("#000004"))
    };
    let last = items.iter().find(is_last).expect("the last part of the findings");
    let delete = shop.server.client().delete_item().table_name(STATE).set_key(Some(key_of(last).into()));
    delete.send().await.unwrap();
    let refused = shop.text(3, &["jobs", "resume", &id]);
    assert!(refused.contains("does not have all of its findings"), "{refused}");
    shop.server.stop().await.unwrap();
}
