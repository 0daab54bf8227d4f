//! Replay of a long archive: `cargo bench -p afterwrite-tests --bench replay_archive`.
//!
//! The recording `exam-42` is written again and again into a folder of gzip objects, 1,000,000 records in all. It is replayed twice into
//! tables in memory: everything after the first copy of the recording is counted already, as in a replay over a live table. Memory is
//! measured between the copies: it must not grow with the number of records.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark that meets the unexpected must fail at once"
)]

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use afterwrite_functions::StreamAggregator;
use afterwrite_input::InputObject;
use afterwrite_ledger::{Ledger, TombstoneHistory};
use afterwrite_memory::{IndexDefinition, MemoryObjects, MemoryTables, TableDefinition};
use afterwrite_model::clock::SystemClock;
use afterwrite_model::table::Model;
use afterwrite_operations::replay::{InputSource, NoTarget, ReplayTask};
use afterwrite_tests::recording::StreamRecording;
use afterwrite_tests::sdk_items::item_of_json;
use flate2::Compression;
use flate2::write::GzEncoder;

const RECORDS: usize = 1_000_000;
const COPIES_PER_OBJECT: usize = 10;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let recording = StreamRecording::load("exam-42");
    let folder = tempfile::tempdir().unwrap();
    let records = write_archive(&recording, folder.path());
    let tables = Arc::new(tables(&recording));
    for round in ["first", "second"] {
        replay(&tables, folder.path(), records, round).await;
    }
}

/// Writes the objects; returns the number of records.
fn write_archive(recording: &StreamRecording, folder: &Path) -> usize {
    let copy: String =
        recording.records().map(|record| format!("{}\n", record.get().replace('\n', " "))).collect();
    let records = recording.records().count();
    let copies = RECORDS.div_ceil(records);
    for (number, first) in (0..copies).step_by(COPIES_PER_OBJECT).enumerate() {
        let file = std::fs::File::create(folder.join(format!("{number:04}.gz"))).unwrap();
        let mut object = GzEncoder::new(file, Compression::fast());
        for _ in first..copies.min(first + COPIES_PER_OBJECT) {
            object.write_all(copy.as_bytes()).unwrap();
        }
        object.finish().unwrap();
    }
    copies * records
}

fn tables(recording: &StreamRecording) -> MemoryTables {
    let tables = MemoryTables::new();
    tables.create_table(TableDefinition::new("state", "PK").sort("SK"));
    let mut source = TableDefinition::new("ExamBuddyTable", "PK").sort("SK");
    for index in ["GSI1", "GSI2", "GSI3"] {
        let (partition, sort) = (format!("{index}PK"), format!("{index}SK"));
        source = source.index(IndexDefinition::new(index, partition.as_str()).sort(sort.as_str()));
    }
    tables.create_table(source);
    for item in recording.last_images().iter().chain(&recording.items) {
        tables.put("ExamBuddyTable", item_of_json(item)).unwrap();
    }
    tables
}

async fn replay(tables: &Arc<MemoryTables>, folder: &Path, records: usize, round: &str) {
    let model = Arc::new(Model::load(Model::DEFAULT_NAME).unwrap());
    let names = vec![Arc::from("ExamBuddyTable")];
    let ledger = Ledger::new(model, names, Arc::from("state"), Arc::clone(tables), SystemClock);
    let aggregator = StreamAggregator::new(ledger.with_history(TombstoneHistory::Complete));
    let objects: Vec<InputObject<MemoryObjects>> = InputObject::of_path(folder).unwrap();
    let source = InputSource::of(objects);
    let task: ReplayTask<_, _, _, Arc<MemoryTables>, _> =
        ReplayTask::new(source, aggregator, NoTarget, SystemClock);
    let (started, mut resident) = (Instant::now(), Vec::new());
    let mut next_measure = records / 10;
    let totals = task.run(|totals| {
        let done = totals.get("records").copied().unwrap_or(0);
        if done >= u64::try_from(next_measure).unwrap() {
            resident.push(resident_mebibytes());
            next_measure += records / 10;
        }
    });
    let totals = totals.await.unwrap();
    let seconds = started.elapsed().as_secs_f64();
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    let rate = records as f64 / seconds;
    println!("{round} replay: {records} records in {seconds:.1} s, {rate:.0} records/s");
    println!("  memory in MiB after each tenth: {resident:?}");
    println!("  {totals:?}");
}

/// The resident memory of this process.
fn resident_mebibytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) / 1024
}
