//! Commits and requests of the datasets: `cargo bench -p afterwrite-tests --bench bucket_requests`.
//!
//! 1. How many commits a second exporters make to one table. The bucket responds as late as S3 does: reads after 15 ms, writes
//!    after 30 ms. Each exporter is a process of its own: it knows only what it has read.
//! 2. How many requests the exporter and the compactor send for the recording `exam-42`, and their price for a million changes.

#![expect(clippy::unwrap_used, reason = "a benchmark that meets the unexpected must fail at once")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use afterwrite_datasets::compact::{CompactionOptions, DatasetCompactor};
use afterwrite_datasets::delta::DeltaTable;
use afterwrite_datasets::export::ArchiveExporter;
use afterwrite_memory::{MemoryObjects, MemoryTables};
use afterwrite_model::clock::{Clock as _, SystemClock};
use afterwrite_model::record::Timestamp;
use afterwrite_model::table::Model;
use afterwrite_services::ObjectStore as _;
use afterwrite_tests::clock::StillClock;
use afterwrite_tests::datasets::{archive_objects, gzip};
use afterwrite_tests::metered_bucket::{MeteredBucket, RequestCounts, RequestLatencies};
use afterwrite_tests::recording::StreamRecording;

const S3: RequestLatencies =
    RequestLatencies { read: Duration::from_millis(15), write: Duration::from_millis(30) };
const TABLE: &str = "datasets/attempts_log/";
/// Commits of all exporters together.
const COMMITS: usize = 320;
/// Objects between two compactions: an hour of objects of five minutes.
const OBJECTS_PER_COMPACTION: usize = 12;
/// After the recording.
const NOW: i64 = 1_772_000_000;
/// S3 in us-east-1, dollars a request; deleting is free.
const DOLLARS_PER_WRITE: f64 = 0.005 / 1000.0;
const DOLLARS_PER_READ: f64 = 0.0004 / 1000.0;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    println!("{COMMITS} commits of one file each, {S3:?}\n");
    println!(
        "{:>9} {:>12} {:>14} {:>12} {:>12}",
        "exporters", "commits/s", "slowest", "GET/commit", "PUT/commit"
    );
    for exporters in [1, 4, 16] {
        commits(exporters).await;
    }
    println!(
        "\nexam-42, exported and compacted every {OBJECTS_PER_COMPACTION} objects; a million changes:\n"
    );
    println!(
        "{:>16} {:>14} {:>9} {:>9} {:>9} {:>9}",
        "changes/object", "function", "GET", "PUT", "LIST", "dollars"
    );
    for lines in [100, 1000] {
        requests(lines).await;
    }
}

/// An object with one attempt.
fn object(number: usize) -> Vec<u8> {
    gzip(&format!(
        r#"{{"eventID":"{number}","eventName":"INSERT","eventSourceARN":"arn:aws:dynamodb:eu-west-1:1:table/ExamBuddyTable/stream/2026-01-01T00:00:00.000","dynamodb":{{"ApproximateCreationDateTime":1770336000,"Keys":{{"PK":{{"S":"CANDIDATE#c"}},"SK":{{"S":"ATTEMPT#{number}"}}}},"NewImage":{{"started_at":{{"S":"2026-02-06T00:00:00Z"}},"status":{{"S":"STARTED"}}}},"SequenceNumber":"{}"}}}}
"#,
        1000 + number
    ))
}

async fn commits(exporters: usize) {
    let (bucket, counts) = (Arc::new(MemoryObjects::default()), Arc::new(RequestCounts::default()));
    for number in 0..COMMITS {
        bucket.put(&format!("archive/{number}.gz"), object(number)).await.unwrap();
    }
    let start = Instant::now();
    let runs = (0..exporters).map(|exporter| {
        let bucket = MeteredBucket::new(Arc::clone(&bucket), S3, Arc::clone(&counts));
        async move {
            let exporter_of_process = self::exporter(bucket);
            let mut slowest = Duration::ZERO;
            for number in (exporter..COMMITS).step_by(exporters) {
                let start = Instant::now();
                let deadline = SystemClock.now().plus(Duration::from_secs(60));
                let outcome =
                    exporter_of_process.export(&[format!("archive/{number}.gz")], deadline).await.remove(0);
                assert_eq!(outcome.unwrap().files, 1);
                slowest = slowest.max(start.elapsed());
            }
            slowest
        }
    });
    let slowest = futures::future::join_all(runs).await.into_iter().max().unwrap();
    let seconds = start.elapsed().as_secs_f64();
    let table = DeltaTable::new(Arc::clone(&bucket), TABLE);
    assert_eq!(table.snapshot().await.unwrap().files().count(), COMMITS, "a commit is lost");
    let count = as_float(COMMITS);
    println!(
        "{exporters:>9} {:>12.1} {:>11} ms {:>12.1} {:>12.1}",
        count / seconds,
        slowest.as_millis(),
        to_float(counts.gets()) / count,
        to_float(counts.puts()) / count
    );
}

fn exporter(bucket: MeteredBucket) -> ArchiveExporter<MeteredBucket, MemoryTables, SystemClock> {
    let model = Arc::new(Model::load("exambuddy").unwrap());
    let tables = model.tables.iter().map(|table| Arc::clone(&table.name)).collect();
    ArchiveExporter::new(model, tables, bucket, None, SystemClock)
}

async fn requests(lines: usize) {
    let recording = StreamRecording::load("exam-42");
    let records = recording.records().count();
    let objects: Vec<(String, Vec<u8>)> = archive_objects(&recording, lines).into_iter().collect();
    let store = Arc::new(MemoryObjects::default());
    let counts: [Arc<RequestCounts>; 2] = Default::default();
    let [exporting, compacting] = counts.each_ref().map(|counts| {
        MeteredBucket::new(Arc::clone(&store), RequestLatencies::default(), Arc::clone(counts))
    });
    let exporter = exporter(exporting);
    let model = Arc::new(Model::load("exambuddy").unwrap());
    for batch in objects.chunks(OBJECTS_PER_COMPACTION) {
        for (key, object) in batch {
            store.put(key, object.clone()).await.unwrap();
            let deadline = SystemClock.now().plus(Duration::from_secs(60));
            exporter.export(std::slice::from_ref(key), deadline).await.remove(0).unwrap();
        }
        // Each run of the function on its schedule is likely to be a cold one.
        let clock = StillClock::at(Timestamp::from_epoch_seconds(NOW));
        let options = CompactionOptions::default();
        let compactor = DatasetCompactor::new(Arc::clone(&model), compacting.clone(), options, clock);
        compactor.compact(None, None).await.unwrap();
    }
    let factor = 1e6 / as_float(records);
    for (name, counts) in BTreeMap::from([("exporter", &counts[0]), ("compactor", &counts[1])]) {
        let [gets, puts, lists] =
            [counts.gets(), counts.puts(), counts.lists()].map(|count| to_float(count) * factor);
        let dollars = gets * DOLLARS_PER_READ + (puts + lists) * DOLLARS_PER_WRITE;
        println!("{lines:>16} {name:>14} {gets:>9.0} {puts:>9.0} {lists:>9.0} {dollars:>9.2}");
    }
}

fn as_float(count: usize) -> f64 {
    to_float(u64::try_from(count).unwrap())
}

#[expect(clippy::cast_precision_loss, reason = "a count for a report")]
fn to_float(count: u64) -> f64 {
    count as f64
}
