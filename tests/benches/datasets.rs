//! The exporter and the compactor, compared with DuckDB and PyArrow: from the same objects to the same columns, on one thread; the
//! size of the resulting files; and what the saved queries read.
//!
//! With a Python that has duckdb, pyarrow and sqlglot:
//! `AFTERWRITE_TEST_PYTHON=… cargo bench --workspace --bench datasets` (`-- 200000` for fewer records than two million).
//!
//! Each runs as a process of its own, whose processor time and peak memory are measured.

#![expect(clippy::unwrap_used, reason = "a benchmark that meets the unexpected must fail at once")]

use afterwrite_memory::MemoryTables;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use afterwrite_datasets::compact::{CompactionOptions, DatasetCompactor};
use afterwrite_datasets::export::ArchiveExporter;
use afterwrite_model::clock::{Clock as _, SystemClock};
use afterwrite_model::table::Model;
use afterwrite_services::Bucket as _;
use afterwrite_tests::clock::StillClock;
use afterwrite_tests::datasets::gzip;
use afterwrite_tests::folder_bucket::FolderBucket;
use afterwrite_tests::python;
use afterwrite_tests::random::SeededRandom;
use serde_json::{Value, json};

/// Select the task of this program in a process of its own, and its folder.
const ROLE: &str = "AFTERWRITE_BENCH_ROLE";
const FOLDER: &str = "AFTERWRITE_BENCH_FOLDER";
const RECORDS: u64 = 2_000_000;
/// They make an object of 128 MiB, larger than any object that Firehose writes.
const RECORDS_PER_OBJECT: u64 = 810_000;
/// The number of days of the attempts, and the first day in epoch seconds; and the number of days in an object of a migration.
const DAYS: u64 = 28;
const FIRST_DAY: i64 = 1_769_904_000;
const MANY_DAYS: u64 = 1_500;
/// One record of this many is delivered a second time.
const RECORDS_PER_DUPLICATE: u64 = 10;

fn main() {
    if let (Ok(role), Some(folder)) = (std::env::var(ROLE), std::env::var_os(FOLDER)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
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
        "{records} changes of attempts, one in {RECORDS_PER_DUPLICATE} twice: {:.0} MB of JSON, {:.0} MB packed\n",
        megabytes(text),
        megabytes(packed)
    );
    let ours = |role: &str| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        measured(command.env(ROLE, role).env(FOLDER, folder.path()))
    };
    let python =
        |name: &str| measured(python::script("benches/datasets_others.py").arg(name).arg(folder.path()));

    let export = [("exporter", ours("export")), ("DuckDB", python("duckdb")), ("PyArrow", python("pyarrow"))];
    print_measurements("Exporting", &export, text);
    // A migration changes every item: its object holds changes of very many days, and each day becomes a file.
    let migrated = tempfile::tempdir().unwrap();
    let (text_migrated, _) = generate(migrated.path(), records.min(RECORDS_PER_OBJECT), MANY_DAYS);
    let mut command = Command::new(std::env::current_exe().unwrap());
    let many_days = measured(command.env(ROLE, "export").env(FOLDER, migrated.path()));
    print_measurements("\nMany days", &[("exporter", many_days)], text_migrated);
    // DuckDB reads the exported files before the compactor removes them.
    let (sorted, compacted) = (python("duckdb-sorts"), ours("compact"));
    print_measurements("\nCompacting", &[("compactor", compacted), ("DuckDB", sorted)], text);
    for report in ["sizes", "queries"] {
        println!("\n{}", python(report).get("report").and_then(Value::as_str).unwrap());
    }
}

/// Prints a line for each measurement.
fn print_measurements(title: &str, measurements: &[(&str, Value)], text: u64) {
    let mb = megabytes(text);
    println!(
        "{title:10} {:>9} {:>10} {:>12} {:>10} {:>10}",
        "rows", "CPU s", "MB JSON/s", "peak MB", "file MB"
    );
    for (name, measured) in measurements {
        let figure = |name: &str| measured[name].as_f64().unwrap();
        let cpu = figure("cpu_seconds");
        println!(
            "{name:10} {:>9} {cpu:>10.1} {:>12.0} {:>10.0} {:>10.0}",
            measured["rows"],
            mb / cpu,
            figure("peak_kb") / 1024.0,
            figure("file_bytes") / 1e6
        );
    }
}

#[expect(clippy::cast_precision_loss, reason = "a size for a report")]
fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// Runs a program that prints its measurements as JSON.
fn measured(command: &mut Command) -> Value {
    let ran = command.output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    serde_json::from_slice(&ran.stdout).unwrap()
}

/// Writes an archive of attempts, half of them completed, over `days` days. Returns the bytes of the JSON and of the objects.
fn generate(folder: &Path, records: u64, days: u64) -> (u64, u64) {
    let mut random = SeededRandom::new(42);
    let (mut text, mut packed) = (0, 0);
    fs::create_dir_all(folder.join("archive")).unwrap();
    let (mut number, mut duplicates) = (0, String::new());
    while number < records {
        let mut lines = String::new();
        for _ in 0..RECORDS_PER_OBJECT.min(records - number) {
            let start = lines.len();
            write_record(&mut lines, number, days, &mut random);
            if number.is_multiple_of(RECORDS_PER_DUPLICATE) {
                duplicates.push_str(&lines[start..]);
            }
            number += 1;
        }
        text += lines.len();
        packed += write_object(folder, number, &lines);
    }
    text += duplicates.len();
    packed += write_object(folder, number + 1, &duplicates);
    (u64::try_from(text).unwrap(), u64::try_from(packed).unwrap())
}

/// Writes an object of the archive, and returns its size in bytes.
fn write_object(folder: &Path, number: u64, lines: &str) -> usize {
    let object = gzip(lines);
    fs::write(folder.join(format!("archive/{number:09}.gz")), &object).unwrap();
    object.len()
}

fn write_record(lines: &mut String, number: u64, days: u64, random: &mut SeededRandom) {
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
    let started_image = format!(r#"{{{common},"status":{{"S":"IN_PROGRESS"}}}}"#);
    let (event, images) = if random.chance(500) {
        ("INSERT", format!(r#""NewImage":{started_image}"#))
    } else {
        let (score, taken) = (random.below(questions + 1), 60 + random.below(5000));
        let completed_image = format!(
            r#"{{{common},"status":{{"S":"COMPLETED"}},"completed_at":{{"S":"{started}"}},"score":{{"N":"{score}"}},"time_taken_seconds":{{"N":"{taken}"}}}}"#
        );
        ("MODIFY", format!(r#""NewImage":{completed_image},"OldImage":{started_image}"#))
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
    let exporter: ArchiveExporter<_, MemoryTables, _> =
        ArchiveExporter::new(model, tables, bucket.clone(), None, SystemClock);
    let (mut rows, mut file_bytes) = (0, 0);
    for object in bucket.list("archive/").await.unwrap() {
        let deadline = SystemClock.now().plus(std::time::Duration::from_secs(60));
        let tally = exporter.export(&[object.key], deadline).await.remove(0).unwrap();
        assert_eq!((tally.rejected, tally.rescued), (0, 0));
        rows += tally.rows;
        file_bytes += tally.file_bytes;
    }
    print_usage(rows, file_bytes);
}

/// Compacts the exported files, and removes them, as on the day after the retention.
async fn compact(folder: &Path) {
    let model = Arc::new(Model::load("exambuddy").unwrap());
    let options = CompactionOptions {
        retention: std::time::Duration::from_secs(60 * 60),
        ..CompactionOptions::default()
    };
    let compactor = DatasetCompactor::new(
        Arc::clone(&model),
        FolderBucket(folder.to_owned()),
        options.clone(),
        SystemClock,
    );
    let compacted = compactor.compact(None, None).await.unwrap();
    print_usage(compacted.rows_out.try_into().unwrap(), compacted.bytes_out.try_into().unwrap());
    let later = StillClock::at(SystemClock.now().plus(std::time::Duration::from_secs(25 * 60 * 60)));
    let compactor = DatasetCompactor::new(model, FolderBucket(folder.to_owned()), options, later);
    let swept = compactor.compact(None, None).await.unwrap();
    assert_eq!((swept.files_in, swept.files_removed), (0, compacted.files_in));
}

/// Prints the measurements of this process.
fn print_usage(rows: usize, file_bytes: usize) {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak_kb: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    println!(
        "{}",
        json!({ "rows": rows, "cpu_seconds": cpu_seconds(), "peak_kb": peak_kb, "file_bytes": file_bytes })
    );
}

/// The processor time of this process in seconds. Linux counts hundredths of a second.
fn cpu_seconds() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    let figures = stat.rsplit_once(')').unwrap().1.split_whitespace().skip(11).take(2);
    figures.map(|ticks| ticks.parse::<f64>().unwrap()).sum::<f64>() / 100.0
}
