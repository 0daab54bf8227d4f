//! From the archive to what analysts read: exporting, compacting, and what lies there in the end; beside DuckDB and PyArrow, each on
//! one thread, from the same objects to the same columns.
//!
//! With a Python that has duckdb and pyarrow:
//! `AFTERWRITE_TEST_PYTHON=… cargo bench --workspace --bench datasets` (`-- 200000` for fewer records than two million).
//!
//! Each runs as a process of its own, so that its processor time and its largest resident memory can be told.

#![expect(clippy::unwrap_used, reason = "a benchmark that meets the unexpected must fail at once")]

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use afterwrite::commit::{Clock as _, SystemClock};
use afterwrite::sink::Bucket as _;
use afterwrite::table::Model;
use afterwrite_datasets::compact::{Compactor, Options};
use afterwrite_datasets::export::Exporter;
use afterwrite_memory::MemoryTables;
use afterwrite_tests::datasets::gzip;
use afterwrite_tests::folder_bucket::FolderBucket;
use afterwrite_tests::random::Random;
use serde_json::{Value, json};

/// Tells this program what it is to do, and where.
const ROLE: &str = "AFTERWRITE_BENCH_ROLE";
const FOLDER: &str = "AFTERWRITE_BENCH_FOLDER";
const RECORDS: u64 = 2_000_000;
/// So many make an object of 128 MiB, larger than any that Firehose writes by itself.
const RECORDS_PER_OBJECT: u64 = 810_000;
/// Over how many days the attempts are spread, from when, in epoch seconds; and in an object of very many.
const DAYS: u64 = 28;
const FIRST_DAY: i64 = 1_769_904_000;
const MANY_DAYS: u64 = 1_500;
/// Of so many records one is delivered again, later.
const AGAIN: u64 = 10;

fn main() {
    if let (Ok(role), Some(folder)) = (std::env::var(ROLE), std::env::var_os(FOLDER)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let folder = Path::new(&folder);
        return match &*role {
            "export" => runtime.block_on(export(folder)),
            _ => runtime.block_on(compact(folder)),
        };
    }
    let records = std::env::args().skip(1).find_map(|word| word.parse().ok()).unwrap_or(RECORDS);
    let folder = tempfile::tempdir().unwrap();
    let (text, packed) = generate(folder.path(), records, DAYS);
    println!(
        "{records} changes of attempts, one in {AGAIN} twice: {:.0} MB of JSON, {:.0} MB packed\n",
        megabytes(text),
        megabytes(packed)
    );
    let ours = |role: &str| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        measured(command.env(ROLE, role).env(FOLDER, folder.path()))
    };
    let interpreter = std::env::var_os("AFTERWRITE_TEST_PYTHON").unwrap_or_else(|| "python3".into());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/datasets_others.py");
    let python = |name: &str| measured(Command::new(&interpreter).arg(&script).arg(name).arg(folder.path()));

    let export = [("exporter", ours("export")), ("DuckDB", python("duckdb")), ("PyArrow", python("pyarrow"))];
    show("Exporting", &export, text);
    // An object of changes of very many days, each a file: what a migration leaves that touches every item.
    let migrated = tempfile::tempdir().unwrap();
    let (text_migrated, _) = generate(migrated.path(), records.min(RECORDS_PER_OBJECT), MANY_DAYS);
    let mut command = Command::new(std::env::current_exe().unwrap());
    let many_days = measured(command.env(ROLE, "export").env(FOLDER, migrated.path()));
    show("\nMany days", &[("exporter", many_days)], text_migrated);
    // DuckDB compacts what was exported, before it is compacted and removed.
    let (sorted, compacted) = (python("duckdb-sorts"), ours("compact"));
    show("\nCompacting", &[("compactor", compacted), ("DuckDB", sorted)], text);
    let sizes = python("sizes");
    println!("\n{}", sizes.get("told").and_then(Value::as_str).unwrap());
}

/// What some did, a line each.
fn show(title: &str, all: &[(&str, Value)], text: u64) {
    let mb = megabytes(text);
    println!(
        "{title:10} {:>9} {:>10} {:>12} {:>10} {:>10}",
        "rows", "CPU s", "MB JSON/s", "peak MB", "file MB"
    );
    for (name, told) in all {
        let figure = |name: &str| told[name].as_f64().unwrap();
        let cpu = figure("cpu_seconds");
        println!(
            "{name:10} {:>9} {cpu:>10.1} {:>12.0} {:>10.0} {:>10.0}",
            told["rows"],
            mb / cpu,
            figure("peak_kb") / 1024.0,
            figure("file_bytes") / 1e6
        );
    }
}

#[expect(clippy::cast_precision_loss, reason = "a size to be shown")]
fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// Runs a program that prints what it did and what it took.
fn measured(command: &mut Command) -> Value {
    let ran = command.output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    serde_json::from_slice(&ran.stdout).unwrap()
}

/// Writes an archive of attempts that are begun and then completed, over so many days; the bytes of the JSON and of the objects.
fn generate(folder: &Path, records: u64, days: u64) -> (u64, u64) {
    let mut random = Random::new(42);
    let (mut text, mut packed) = (0, 0);
    fs::create_dir_all(folder.join("archive")).unwrap();
    let mut write = |name: u64, lines: &str| {
        let object = gzip(lines);
        text += u64::try_from(lines.len()).unwrap();
        packed += u64::try_from(object.len()).unwrap();
        fs::write(folder.join(format!("archive/{name:09}.gz")), object).unwrap();
    };
    let (mut number, mut again) = (0, String::new());
    while number < records {
        let mut lines = String::new();
        for _ in 0..RECORDS_PER_OBJECT.min(records - number) {
            let start = lines.len();
            write_record(&mut lines, number, days, &mut random);
            if number.is_multiple_of(AGAIN) {
                again.push_str(&lines[start..]);
            }
            number += 1;
        }
        write(number, &lines);
    }
    write(number + 1, &again);
    (text, packed)
}

fn write_record(lines: &mut String, number: u64, days: u64, random: &mut Random) {
    let (candidate, project) = (random.below(20_000), random.below(50));
    let attempt = format!("{:016x}{:016x}", random.number(), random.number());
    let (day, second) = (random.below(days), random.below(86_400));
    let started = i64::try_from(day * 86_400 + second).unwrap() + FIRST_DAY;
    let started = jiff::Timestamp::from_second(started).unwrap();
    let questions = 20 + random.below(60);
    let keys = format!(r#""PK":{{"S":"CANDIDATE#c-{candidate:06}"}},"SK":{{"S":"ATTEMPT#{attempt}"}}"#);
    let common = format!(
        r#"{keys},"GSI1PK":{{"S":"ATTEMPT#{attempt}"}},"GSI1SK":{{"S":"ATTEMPT#{attempt}"}},"GSI2PK":{{"S":"PROJECT#p-{project:04}"}},"GSI2SK":{{"S":"{started}#{attempt}"}},"EntityType":{{"S":"ATTEMPT"}},"attempt_id":{{"S":"{attempt}"}},"candidate_id":{{"S":"c-{candidate:06}"}},"project_id":{{"S":"p-{project:04}"}},"started_at":{{"S":"{started}"}},"total_questions":{{"N":"{questions}"}}"#
    );
    let begun = format!(r#"{{{common},"status":{{"S":"IN_PROGRESS"}}}}"#);
    let (event, images) = if random.chance(500) {
        ("INSERT", format!(r#""NewImage":{begun}"#))
    } else {
        let (score, taken) = (random.below(questions + 1), 60 + random.below(5000));
        let done = format!(
            r#"{{{common},"status":{{"S":"COMPLETED"}},"completed_at":{{"S":"{started}"}},"score":{{"N":"{score}"}},"time_taken_seconds":{{"N":"{taken}"}}}}"#
        );
        ("MODIFY", format!(r#""NewImage":{done},"OldImage":{begun}"#))
    };
    // Writing to a string cannot fail.
    let _ = writeln!(
        lines,
        r#"{{"eventID":"{:032x}","eventName":"{event}","eventVersion":"1.1","eventSource":"aws:dynamodb","awsRegion":"eu-west-1","dynamodb":{{"ApproximateCreationDateTime":{},"Keys":{{{keys}}},{images},"SequenceNumber":"{}","SizeBytes":700,"StreamViewType":"NEW_AND_OLD_IMAGES"}},"eventSourceARN":"arn:aws:dynamodb:eu-west-1:123456789012:table/ExamBuddyTable/stream/2026-01-01T00:00:00.000"}}"#,
        random.number(),
        1_769_900_000 + number,
        100_000_000_000_000_000_000_u128 + u128::from(number)
    );
}

/// Exports everything under `archive/`.
async fn export(folder: &Path) {
    let model = Arc::new(Model::load("exambuddy").unwrap());
    let tables = model.tables.iter().map(|table| Arc::clone(&table.name)).collect();
    let bucket = FolderBucket(folder.to_owned());
    let exporter: Exporter<_, MemoryTables> = Exporter::new(model, tables, bucket.clone(), None);
    let (mut rows, mut file_bytes) = (0, 0);
    for object in bucket.list("archive/").await.unwrap() {
        let tally = exporter.export(&object.key).await.unwrap();
        assert_eq!((tally.rejected, tally.rescued), (0, 0));
        rows += tally.rows;
        file_bytes += tally.file_bytes;
    }
    tell(rows, file_bytes);
}

/// Compacts what was exported, and has the inputs removed, which readers need no more.
async fn compact(folder: &Path) {
    let model = Arc::new(Model::load("exambuddy").unwrap());
    let options = Options { grace: std::time::Duration::ZERO, ..Options::default() };
    let compactor = Compactor::new(model, FolderBucket(folder.to_owned()), options);
    let compacted = compactor.compact(None, None, SystemClock.now()).await.unwrap();
    tell(compacted.rows_out.try_into().unwrap(), compacted.bytes_out.try_into().unwrap());
    let later = SystemClock.now().plus(std::time::Duration::from_secs(60));
    let swept = compactor.compact(None, None, later).await.unwrap();
    assert_eq!((swept.files_in, swept.files_removed), (0, compacted.files_in));
}

/// What was done, and what it took so far.
fn tell(rows: usize, file_bytes: usize) {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak_kb: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    println!(
        "{}",
        json!({ "rows": rows, "cpu_seconds": cpu_seconds(), "peak_kb": peak_kb, "file_bytes": file_bytes })
    );
}

/// The processor time of this process, in Linux's hundredths of a second.
fn cpu_seconds() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    let figures = stat.rsplit_once(')').unwrap().1.split_whitespace().skip(11).take(2);
    figures.map(|ticks| ticks.parse::<f64>().unwrap()).sum::<f64>() / 100.0
}
