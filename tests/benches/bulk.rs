//! The steps of a bulk backfill: `cargo bench -p afterwrite-tests --bench bulk`.
//!
//! The attempts of the recording `exam-42` are copied under new ids into the data files of a table export, 200,000 items in all, in a
//! folder that stands for the bucket. The files are counted one after the other in one thread; then the rollups are merged.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a benchmark that meets the unexpected must fail at once"
)]

use std::io::Write as _;
use std::sync::Arc;
use std::time::Instant;

use afterwrite_bulk::request::{BulkRequest, BulkResponse, BulkTotals, PlanRequest};
use afterwrite_bulk::{BulkWorker, RunLayout, RunRequests};
use afterwrite_memory::{IndexDefinition, MemoryTables, TableDefinition};
use afterwrite_model::clock::{Clock as _, SystemClock};
use afterwrite_model::record::Timestamp;
use afterwrite_model::table::Model;
use afterwrite_services::{Bucket as _, ObjectStore as _};
use afterwrite_tests::folder_bucket::FolderBucket;
use afterwrite_tests::recording::StreamRecording;
use afterwrite_tests::sdk_items::item_of_json;
use base64::Engine as _;
use flate2::Compression;
use flate2::write::GzEncoder;
use md5::{Digest as _, Md5};
use serde_json::{Value, json};

const TABLE: &str = "ExamBuddyTable";
const ITEMS: usize = 200_000;
const FILES: usize = 4;
const RUN: &str = "bulk/measured";

type MeasuredWorker = BulkWorker<FolderBucket, Arc<MemoryTables>, SystemClock>;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let recording = StreamRecording::load("exam-42");
    let folder = tempfile::tempdir().unwrap();
    let bucket = FolderBucket(folder.path().to_owned());
    let now = SystemClock.now();
    let packed = write_export(&recording, &bucket, now).await;
    println!(
        "{ITEMS} items in {FILES} data files of {} MiB, resident {} MiB",
        packed >> 20,
        resident_mebibytes()
    );
    let worker = BulkWorker::new(
        bucket,
        Arc::new(Model::load(Model::DEFAULT_NAME).unwrap()),
        vec![Arc::from(TABLE)],
        Arc::from("state"),
        Arc::new(tables(&recording)),
        SystemClock,
    );
    let plan = PlanRequest {
        run: RUN.to_owned(),
        exports: vec!["export".to_owned()],
        mapping_since_ms: now.epoch_ms() - 1_000,
        partitions: 16,
        lookup_rate: 100_000,
    };
    worker.handle(&BulkRequest::Plan(plan)).await.unwrap();
    for phase in ["lookups", "items", "reduce"] {
        run(&worker, phase).await;
    }
    let imported = worker.bucket().list(&RunLayout(RUN).import()).await.unwrap();
    println!(
        "import: {} objects, {} MiB",
        imported.len(),
        imported.iter().map(|object| object.size).sum::<u64>() >> 20
    );
}

async fn run(worker: &MeasuredWorker, phase: &str) {
    let requests = RunRequests::read(worker.bucket(), RUN, phase).await.unwrap();
    let (started, begun, mut totals) = (Instant::now(), processor_seconds(), BulkTotals::new());
    for request in &requests {
        let BulkResponse::Counted { totals: counted } = worker.handle(request).await.unwrap() else {
            panic!("the response is that of a plan")
        };
        for (name, number) in counted {
            *totals.entry(name).or_default() += number;
        }
    }
    let seconds = processor_seconds() - begun;
    let read = totals.get("items").or(totals.get("rollups")).copied().unwrap_or(0);
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    let rate = read as f64 / seconds;
    println!(
        "{phase}: {} steps in {seconds:.1} s of processor time ({:.1} s), {rate:.0}/s, resident {} MiB",
        requests.len(),
        started.elapsed().as_secs_f64(),
        resident_mebibytes()
    );
    println!("  {totals:?}");
}

/// Writes the export; returns the compressed size of a data file.
async fn write_export(recording: &StreamRecording, bucket: &FolderBucket, now: Timestamp) -> usize {
    let attempts: Vec<(String, String)> = recording
        .last_images()
        .iter()
        .filter_map(|item| {
            let id = item["attempt_id"]["S"].as_str()?.to_owned();
            let is_attempt = item["SK"]["S"].as_str().is_some_and(|sort| sort.starts_with("ATTEMPT#"));
            is_attempt.then(|| (id, json!({ "Item": item }).to_string()))
        })
        .collect();
    let others = recording.last_images().into_iter().chain(recording.items.iter().cloned());
    let others: Vec<Value> = others
        .filter(|item| item["SK"]["S"].as_str().is_some_and(|sort| sort.starts_with("PROJECT#")))
        .collect();
    assert!(!attempts.is_empty() && !others.is_empty(), "the recording has attempts and projects");
    let (mut manifest, mut largest) = (String::new(), 0);
    for file in 0..FILES {
        let mut object = GzEncoder::new(Vec::new(), Compression::fast());
        let mut written = 0;
        if file == 0 {
            for item in &others {
                writeln!(object, "{}", json!({ "Item": item })).unwrap();
                written += 1;
            }
        }
        let copies = attempts.iter().cycle().enumerate();
        for (number, (id, line)) in copies.take(ITEMS / FILES) {
            writeln!(object, "{}", line.replace(id.as_str(), &format!("{id}-{file}-{number}"))).unwrap();
            written += 1;
        }
        let object = object.finish().unwrap();
        largest = largest.max(object.len());
        let key = format!("export/data/{file}.json.gz");
        let checksum = base64::engine::general_purpose::STANDARD.encode(Md5::digest(&object));
        let line = json!({ "itemCount": written, "md5Checksum": checksum, "dataFileS3Key": key });
        manifest.push_str(&format!("{line}\n"));
        bucket.put(&key, object).await.unwrap();
    }
    let summary =
        json!({ "exportTime": now.to_string(), "tableArn": format!("arn:aws:dynamodb:r:1:table/{TABLE}") });
    bucket.put("export/manifest-files.json", manifest.into_bytes()).await.unwrap();
    bucket.put("export/manifest-summary.json", summary.to_string().into_bytes()).await.unwrap();
    largest
}

fn tables(recording: &StreamRecording) -> MemoryTables {
    let tables = MemoryTables::new();
    tables.create_table(TableDefinition::new("state", "PK").sort("SK"));
    let mut source = TableDefinition::new(TABLE, "PK").sort("SK").streamed();
    for index in ["GSI1", "GSI2", "GSI3"] {
        let (partition, sort) = (format!("{index}PK"), format!("{index}SK"));
        source = source.index(IndexDefinition::new(index, partition.as_str()).sort(sort.as_str()));
    }
    tables.create_table(source);
    for item in recording.last_images().iter().chain(&recording.items) {
        tables.put(TABLE, item_of_json(item)).unwrap();
    }
    tables
}

/// The processor time of this process: other work on the machine does not change it.
fn processor_seconds() -> f64 {
    let status = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // After the name in parentheses; user and system time are fields 14 and 15, in hundredths of a second.
    let fields = status.rsplit_once(')').map_or("", |(_, fields)| fields).split_whitespace();
    fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}

/// The resident memory of this process.
fn resident_mebibytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) / 1024
}
