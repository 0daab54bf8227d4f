//! The end of the test: everything is counted from the database, independently of the product.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use afterwrite_datasets::delta::DeltaTable;
use afterwrite_demo::item::SdkItem;
use afterwrite_demo::recount::WorkloadOutcome;
use afterwrite_demo::rollups::RollupSet;
use afterwrite_demo::verdict::compare;
use afterwrite_demo::workload::Workload;
use afterwrite_demo::writer::ScriptWriter;
use afterwrite_mapping::{ShardPosition, StreamSource as _};
use afterwrite_services::s3::S3Bucket;
use afterwrite_tests::datasets::rows_of;
use afterwrite_tests::programs::program;
use flate2::read::MultiGzDecoder;
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::time::sleep;

use super::platform::{BUCKET, Platform, SOURCE, STATE};

const LIMIT: Duration = Duration::from_secs(90);

/// Every rollup and every mirrored attribute has the recounted value, or gets it in time.
pub(crate) async fn rollups_become_exact(
    platform: &Platform,
    workload: &Workload,
    mut outcome: WorkloadOutcome,
) {
    let started = Instant::now();
    let writer = ScriptWriter::new(platform.dynamodb.client(), workload.tables());
    loop {
        outcome.items = writer.items().await.unwrap();
        let scan = platform.dynamodb.client().scan().table_name(STATE).consistent_read(true);
        let state: Result<Vec<SdkItem>, _> = scan.into_paginator().items().send().collect().await;
        let verdict = compare(&workload.recount(&outcome), &RollupSet::of(&state.unwrap()));
        if verdict.is_equal() {
            assert!(verdict.values > 500 && verdict.mirrored > 5, "{verdict:?}");
            return;
        }
        assert!(started.elapsed() < LIMIT, "{:#?}", verdict.differences);
        sleep(Duration::from_millis(500)).await;
    }
}

/// The relay has archived every change, and told of every completed attempt.
pub(crate) async fn every_change_is_relayed(platform: &Platform) {
    let records = records(platform).await;
    every_change_is_archived(platform, &records).await;
    every_completion_is_an_event(platform, &records);
}

/// The archive has each record of the stream at least once.
async fn every_change_is_archived(platform: &Platform, records: &[String]) {
    let mut archived = BTreeSet::new();
    for key in platform.keys("archive/").await {
        let mut lines = String::new();
        MultiGzDecoder::new(&*platform.object(&key).await).read_to_string(&mut lines).unwrap();
        archived.extend(lines.lines().map(event_id));
    }
    let records: BTreeSet<String> = records.iter().map(|record| event_id(record)).collect();
    assert!(records.len() > 3_000, "{} records", records.len());
    let missing: Vec<&String> = records.difference(&archived).collect();
    assert!(missing.is_empty(), "{} of {} records are not archived", missing.len(), records.len());
}

/// The item's key and the position of a change.
type AttemptChange = (String, String);

/// Each attempt that was completed has its event at least once, under one id, and there is no other event.
fn every_completion_is_an_event(platform: &Platform, records: &[String]) {
    let mut ids: BTreeMap<AttemptChange, BTreeSet<String>> = BTreeMap::new();
    let events = platform.bus.take_events();
    for event in &events {
        let detail: Value = serde_json::from_str(&event.detail).unwrap();
        let position = detail["position"].as_str().unwrap().to_owned();
        let id = detail["id"].as_str().unwrap().to_owned();
        ids.entry((detail["key"].to_string(), position)).or_default().insert(id);
    }
    let completed: BTreeSet<AttemptChange> = records.iter().filter_map(|record| completion(record)).collect();
    assert!(completed.len() > 300, "{} completions", completed.len());
    assert!(ids.keys().eq(&completed), "{} events of {} completions", ids.len(), completed.len());
    assert!(ids.values().all(|ids| ids.len() == 1), "an event has several ids");
    println!("{} events of {} completions", events.len(), completed.len());
}

/// The transition, if the record is of an attempt that becomes completed.
fn completion(record: &str) -> Option<AttemptChange> {
    let record: Value = serde_json::from_str(record).unwrap();
    let (change, label) = (&record["dynamodb"], record["eventSourceARN"].as_str()?.rsplit('/').next()?);
    let status = |image: &str| change[image]["status"]["S"].as_str();
    let key = ["PK", "SK"].map(|name| change["Keys"][name]["S"].as_str().unwrap_or_default());
    let is_attempt = key[0].starts_with("CANDIDATE#") && key[1].starts_with("ATTEMPT#");
    let is_completed = status("NewImage") == Some("COMPLETED") && status("OldImage") != Some("COMPLETED");
    let number = change["SequenceNumber"].as_str()?;
    let transition = (json!({ "PK": key[0], "SK": key[1] }).to_string(), format!("{label}#{number:0>40}"));
    (is_attempt && is_completed).then_some(transition)
}

/// All records of the stream.
async fn records(platform: &Platform) -> Vec<String> {
    let stream = platform.dynamodb.stream(SOURCE).await.unwrap();
    let mut records = Vec::new();
    for shard in stream.describe(None).await.unwrap().shards {
        let mut next = Some(stream.iterator(&shard.id, &ShardPosition::TrimHorizon).await.unwrap());
        while let Some(iterator) = next {
            let page = stream.read(&iterator).await.unwrap();
            records.extend(page.records.into_iter().map(|record| record.json));
            next = page.next.filter(|_| !page.is_at_end);
        }
    }
    records
}

fn event_id(record: &str) -> String {
    let record: Value = serde_json::from_str(record).unwrap();
    record["eventID"].as_str().unwrap().to_owned()
}

/// The current rows of attempts are the attempts that exist: each once, in its last state.
pub(crate) async fn current_attempts_are_exact(platform: &Platform, outcome: &WorkloadOutcome) {
    let bucket = Arc::new(S3Bucket::retrying(platform.s3.client(), Arc::from(BUCKET)));
    let snapshot = DeltaTable::new(bucket, "datasets/attempts/").snapshot().await.unwrap();
    let mut rows = Vec::new();
    for file in snapshot.files() {
        let content = platform.object(&format!("datasets/attempts/{}", file.path)).await;
        let live = rows_of(content).into_iter().filter(|row| row["_operation"] != "EXPIRE");
        rows.extend(live.map(|row| ["candidate_id", "attempt_id", "status"].map(|name| row[name].clone())));
    }
    rows.sort();
    let mut attempts: Vec<[String; 3]> =
        outcome.items.iter().filter_map(|item| attempt(&item.item)).collect();
    attempts.sort();
    assert!(attempts.len() > 500, "{} attempts", attempts.len());
    assert!(rows == attempts, "{} rows of {} attempts", rows.len(), attempts.len());
}

/// The candidate, the attempt and its status, if the item is an attempt.
fn attempt(item: &SdkItem) -> Option<[String; 3]> {
    let text = |name: &str| item.get(name)?.as_s().ok();
    let candidate = text("PK")?.strip_prefix("CANDIDATE#")?;
    let attempt = text("SK")?.strip_prefix("ATTEMPT#")?;
    Some([candidate.to_owned(), attempt.to_owned(), text("status")?.clone()])
}

/// `afterwrite verify` finds neither drift nor anything that it cannot decide.
pub(crate) async fn nothing_has_drifted(platform: &Platform) {
    // Longer than the tolerance: nothing is in flight.
    sleep(Duration::from_secs(2)).await;
    let mut command = Command::new(program("afterwrite"));
    let verify = command.args(["verify", "--tolerance", "1", "--json"]).envs(platform.variables());
    let verified = verify.output().await.unwrap();
    let output = String::from_utf8_lossy(&verified.stdout);
    assert_eq!(verified.status.code(), Some(0), "{output}{}", String::from_utf8_lossy(&verified.stderr));
    let summary: Value = serde_json::from_str(&output).unwrap();
    println!("{summary}");
}
