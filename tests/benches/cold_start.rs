//! The cold start and the memory of `aggregator`, compared with a function that does nothing.
//!
//! `cargo bench -p afterwrite-tests --bench cold_start` builds both functions as they are deployed (`--profile lambda`), starts
//! them in turns under a Runtime API on loopback, with an embedded DynamoDB, and prints medians.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a benchmark that meets the unexpected must fail at once"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use afterwrite_tests::deployment::{FunctionDeployment, event};
use afterwrite_tests::runtime_api::{FunctionProcess, InvocationResult};
use serde_json::{Value, json};

/// The number of starts of each function.
const STARTS: usize = 31;
/// The number of batches of the memory measurement, and of the records of a batch.
const BATCHES: usize = 100;
const BATCH_SIZE: usize = 100;
/// The number of batches between two readings of the memory.
const BATCHES_PER_READING: usize = 20;
/// The number of projects that the records belong to.
const PROJECTS: usize = 50;
/// The deadline of an invocation, far longer than needed.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The times of one start, from the start of the process.
struct ColdStart {
    /// Until the function requests its first event.
    first_request: Duration,
    /// Until the response to that event.
    first_response: Duration,
}

#[tokio::main]
async fn main() {
    let [hello_world, aggregator] = build();
    let deployment = FunctionDeployment::new().await;
    let (hello_starts, aggregator_starts) = cold_starts(&deployment, &hello_world, &aggregator).await;
    println!("Cold start: medians (and the fastest) of {STARTS} starts each, in turn, in milliseconds");
    println!("{:<12} {:>12} {:>18} {:>18}", "", "binary", "exec to /next", "exec to response");
    print_row("hello world", &hello_world, &hello_starts);
    print_row("aggregator", &aggregator, &aggregator_starts);
    let above = median(&aggregator_starts, |start| start.first_response)
        .saturating_sub(median(&hello_starts, |start| start.first_response));
    println!("aggregator's first response comes {:.1} ms after hello world's", ms(above));
    println!();
    println!("Memory of aggregator (VmRSS) after batches of {BATCH_SIZE} records");
    for (batches, resident_kib) in memory(&aggregator).await {
        match resident_kib {
            Some(kib) => println!("{batches:>12} {:>9}.{} MiB", kib / 1024, kib % 1024 * 10 / 1024),
            None => println!("{batches:>12} not reported by this system"),
        }
    }
}

/// Builds both functions as they are deployed, and returns their binaries.
fn build() -> [PathBuf; 2] {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo)
        .args(["build", "--locked", "--profile", "lambda", "-p", "afterwrite-functions"])
        .args([
            "--bin",
            "aggregator",
            "--example",
            "hello_world",
            "--message-format",
            "json-render-diagnostics",
        ])
        .stderr(std::process::Stdio::inherit())
        .output()
        .unwrap();
    assert!(built.status.success(), "the functions cannot be built");
    let artifacts = String::from_utf8(built.stdout).unwrap();
    let artifacts: Vec<Value> = artifacts.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    ["hello_world", "aggregator"].map(|name| {
        let built = artifacts
            .iter()
            .find(|artifact| artifact["target"]["name"] == name && artifact["executable"].is_string());
        PathBuf::from(built.unwrap()["executable"].as_str().unwrap())
    })
}

/// Starts both functions in turns, so that other load on the machine affects both.
async fn cold_starts(
    deployment: &FunctionDeployment,
    hello_world: &Path,
    aggregator: &Path,
) -> (Vec<ColdStart>, Vec<ColdStart>) {
    deployment.put_project("p1").await;
    for number in 0..STARTS {
        deployment.put_question("p1", &format!("q{number}")).await;
    }
    let records = deployment.records().await;
    let (mut hello_starts, mut aggregator_starts) = (Vec::new(), Vec::new());
    for record in records.chunks(1).skip(1) {
        hello_starts.push(start(deployment, hello_world, event(record)).await);
        aggregator_starts.push(start(deployment, aggregator, event(record)).await);
    }
    assert_eq!(aggregator_starts.len(), STARTS);
    (hello_starts, aggregator_starts)
}

/// Measures one start with one event. As in Lambda, the event waits before the function starts.
async fn start(deployment: &FunctionDeployment, binary: &Path, event: String) -> ColdStart {
    let (api, function) = deployment.function(binary, &[]).await;
    let (response, ready) = tokio::join!(api.invoke(event, TIMEOUT), api.ready());
    let responded = Instant::now();
    assert_accepted(&response, &function);
    ColdStart {
        first_request: ready.unwrap() - function.started(),
        first_response: responded - function.started(),
    }
}

/// The resident memory after numbers of batches, each of new records.
async fn memory(aggregator: &Path) -> Vec<(usize, Option<u64>)> {
    let deployment = FunctionDeployment::new().await;
    for project in 0..PROJECTS {
        deployment.put_project(&format!("p{project}")).await;
    }
    let arn = deployment.records().await[0]["eventSourceARN"].clone();
    let (api, function) = deployment.function(aggregator, &[]).await;
    let mut readings = Vec::new();
    for batch in 0..BATCHES {
        let records: Vec<Value> =
            (batch * BATCH_SIZE..(batch + 1) * BATCH_SIZE).map(|number| attempt(number, &arn)).collect();
        assert_accepted(&api.invoke(event(&records), TIMEOUT).await, &function);
        if batch == 0 || (batch + 1) % BATCHES_PER_READING == 0 {
            readings.push((batch + 1, resident_kib(&function)));
        }
    }
    drop(api);
    readings
}

/// The record of a new attempt.
fn attempt(number: usize, arn: &Value) -> Value {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let (candidate, id) = (format!("CANDIDATE#c{}", number % 1000), format!("ATTEMPT#t{number}"));
    let keys = json!({ "PK": { "S": candidate }, "SK": { "S": id } });
    json!({
        "eventID": format!("{number:032}"),
        "eventName": "INSERT",
        "eventVersion": "1.1",
        "eventSource": "aws:dynamodb",
        "awsRegion": "us-east-1",
        "eventSourceARN": arn,
        "dynamodb": {
            "ApproximateCreationDateTime": now,
            "Keys": keys,
            "SequenceNumber": format!("9{number:023}"),
            "SizeBytes": 400,
            "StreamViewType": "NEW_AND_OLD_IMAGES",
            "NewImage": {
                "PK": keys["PK"],
                "SK": keys["SK"],
                "project_id": { "S": format!("p{}", number % PROJECTS) },
                "started_at": { "S": format!("2026-02-{:02}T10:00:00Z", 1 + number % 28) },
                "status": { "S": "COMPLETED" },
                "score": { "N": (number % 51).to_string() },
                "total_questions": { "N": "50" },
                "time_taken_seconds": { "N": "1800" },
            },
        },
    })
}

fn assert_accepted(result: &InvocationResult, function: &FunctionProcess) {
    let names_failures = |response: &[u8]| response.windows(14).any(|text| text == b"itemIdentifier");
    let is_accepted = matches!(result, InvocationResult::Response(response) if !names_failures(response));
    assert!(is_accepted, "{result:?}; its output:\n{}", function.output());
}

fn resident_kib(function: &FunctionProcess) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{}/status", function.id())).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse().ok()
}

fn print_row(name: &str, binary: &Path, starts: &[ColdStart]) {
    let kib = fs::metadata(binary).unwrap().len() / 1024;
    let shown = |part: fn(&ColdStart) -> Duration| {
        format!("{:.1} ({:.1})", ms(median(starts, part)), ms(starts.iter().map(part).min().unwrap()))
    };
    println!(
        "{name:<12} {:>8}.{} MiB {:>18} {:>18}",
        kib / 1024,
        kib % 1024 * 10 / 1024,
        shown(|start| start.first_request),
        shown(|start| start.first_response)
    );
}

fn median(starts: &[ColdStart], part: fn(&ColdStart) -> Duration) -> Duration {
    let mut parts: Vec<Duration> = starts.iter().map(part).collect();
    parts.sort_unstable();
    parts[parts.len() / 2]
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
