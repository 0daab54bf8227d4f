//! The processor time of the function `relay`, compared with a typical handwritten handler in Python.
//!
//! With redis-server on the path, and a Python that has boto3 and redis-py:
//! `cargo build --profile lambda -p afterwrite-functions`, then
//! `AFTERWRITE_TEST_BIN_DIR=$PWD/target/lambda cargo bench -p afterwrite-tests --bench relay`.
//!
//! Both handle the recording `exam-42` ten times in events of 100 records, one after the other in one run; the relay gets other event ids
//! each time, because it does not repeat what it remembers. Every record is archived
//! through a delivery stream on loopback HTTP, and its cache keys are removed from a real Redis. Both are measured without and with the event rules of
//! `fixtures/exam-42/events.toml`, whose events go to an EventBridge on loopback HTTP. The figure is the user and system time of the handling process. The function is the deployed one under a Runtime API, responses and metrics included. The Python
//! handler is called in a loop.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a benchmark that meets the unexpected must fail at once"
)]

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use afterwrite_local::eventbridge::EmbeddedEventBridge;
use afterwrite_model::table::Model;
use afterwrite_tests::archive::{BUCKET, EmbeddedArchive, STREAM};
use afterwrite_tests::programs::program;
use afterwrite_tests::python;
use afterwrite_tests::recording::{StreamRecording, event};
use afterwrite_tests::redis_server::RedisServer;
use afterwrite_tests::runtime_api::{FunctionProcess, InvocationResult, RuntimeApi};
use serde_json::Value;
use serde_json::value::RawValue;

const RECORDING: &str = "exam-42";
const RULES: &str = include_str!("../fixtures/exam-42/events.toml");
const BUS: &str = "arn:aws:events:us-east-1:123456789012:event-bus/events";
/// The label of the recording's stream, without its milliseconds.
const LABEL: &str = "/stream/2026-02-06T10:00:00";
const RECORDS_PER_EVENT: usize = 100;
const ROUNDS: usize = 10;
const TIMEOUT: Duration = Duration::from_secs(60);
/// Linux counts processor time in ticks.
const TICKS_PER_SECOND: f64 = 100.0;

/// The cost of handling some records.
struct HandlingCost {
    records: f64,
    cpu_seconds: f64,
    /// Of the handler's loop, or of the invocations.
    wall_seconds: f64,
    keys_gone_ms: Vec<u64>,
}

impl HandlingCost {
    /// The processor seconds of a record.
    fn per_record(&self) -> f64 {
        self.cpu_seconds / self.records
    }
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let binary = program("relay");
    let recording = StreamRecording::load(RECORDING);
    let records: Vec<&RawValue> = recording.records().collect();
    let events: Vec<String> = records
        .chunks(RECORDS_PER_EVENT)
        .map(|records| String::from_utf8(event(records.iter().copied())).unwrap().replace('\n', " "))
        .collect();
    let archive = Box::pin(EmbeddedArchive::start()).await;
    let redis = RedisServer::start().await;
    let bus = EmbeddedEventBridge::start(0).await.unwrap();
    let ours = relay(&binary, &events, &archive, &redis, None).await;
    let ours_with_events = relay(&binary, &events, &archive, &redis, Some(&bus)).await;
    let published = bus.take_events().len();
    let theirs = python_handler(&events, &archive, &redis, None);
    let theirs_with_events = python_handler(&events, &archive, &redis, Some(&bus));
    // Each handles the first events once more, before it is measured.
    assert_eq!(bus.take_events().len(), published, "both publish the same events");
    println!("{published} events in {} records, the events of the first batch twice", ours.records);
    println!("{:34} {:>10} {:>16} {:>12}", "", "records", "CPU µs/record", "records/s");
    for (name, cost) in [
        ("relay (release)", &ours),
        ("relay with events", &ours_with_events),
        ("Python, boto3, redis-py", &theirs),
        ("Python with events", &theirs_with_events),
    ] {
        let rate = cost.records / cost.wall_seconds;
        println!("{name:34} {:>10} {:>16.1} {rate:>12.0}", cost.records, 1e6 * cost.per_record());
    }
    let ratio = |theirs: &HandlingCost, ours: &HandlingCost| theirs.per_record() / ours.per_record();
    println!("relay needs {:.1} times less processor time a record", ratio(&theirs, &ours));
    println!("with events, {:.1} times less", ratio(&theirs_with_events, &ours_with_events));
    print_keys_gone(ours.keys_gone_ms);
}

/// Prints the time from the start of a batch to its last key removed.
fn print_keys_gone(mut gone: Vec<u64>) {
    gone.sort_unstable();
    let percentile = |part: usize| gone.get(gone.len() * part / 100).copied().unwrap_or_default();
    println!(
        "from batch to keys gone: median {} ms, p99 {} ms, of {} batches",
        percentile(50),
        percentile(99),
        gone.len()
    );
}

async fn relay(
    binary: &Path,
    events: &[String],
    archive: &EmbeddedArchive,
    redis: &RedisServer,
    bus: Option<&EmbeddedEventBridge>,
) -> HandlingCost {
    let api = RuntimeApi::start().await.unwrap();
    let model = model_file(if bus.is_some() { RULES } else { "" });
    let (model, bus) = (model.path().to_str().unwrap(), bus.map(EmbeddedEventBridge::endpoint));
    let (firehose, s3) = (archive.firehose.endpoint(), archive.s3.endpoint());
    let url = format!("redis://127.0.0.1:{}", redis.port);
    let settings = [
        ("AFTERWRITE_MODEL", model),
        ("AFTERWRITE_EVENTS", BUS),
        ("AFTERWRITE_EVENTS_AUDIT", BUS),
        ("AFTERWRITE_EVENTS_LEARNING", BUS),
        ("AWS_ENDPOINT_URL_EVENTBRIDGE", bus.as_deref().unwrap_or_default()),
        ("AFTERWRITE_CACHE_URL", &*url),
        ("AFTERWRITE_FIREHOSE_STREAM", STREAM),
        ("AFTERWRITE_BUCKET", BUCKET),
        ("AWS_ENDPOINT_URL_FIREHOSE", &*firehose),
        ("AWS_ENDPOINT_URL_S3", &*s3),
        ("AWS_REGION", "us-east-1"),
        ("AWS_ACCESS_KEY_ID", "x"),
        ("AWS_SECRET_ACCESS_KEY", "x"),
    ];
    let function = FunctionProcess::start(binary, &api, &settings).unwrap();
    deliver(&api, events.first().unwrap(), &function).await;
    let rounds: Vec<String> = (0..ROUNDS).flat_map(|round| events_of_round(events, round)).collect();
    let (before, begun) = (cpu_seconds(&function), Instant::now());
    let mut handled = 0;
    for event in &rounds {
        deliver(&api, event, &function).await;
        handled += event.matches("\"eventID\"").count();
    }
    let (wall_seconds, cpu_seconds) = (begun.elapsed().as_secs_f64(), cpu_seconds(&function) - before);
    let output = function.stop();
    let lines = output.lines().filter(|line| line.contains("CloudWatchMetrics"));
    let gone = lines.filter_map(|line| serde_json::from_str::<Value>(line).unwrap()["KeysGone"].as_u64());
    HandlingCost {
        records: f64::from(u32::try_from(handled).unwrap()),
        cpu_seconds,
        wall_seconds,
        keys_gone_ms: gone.collect(),
    }
}

/// The built-in model with these event rules.
fn model_file(rules: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), [Model::built_in(Model::DEFAULT_NAME).unwrap(), rules].concat()).unwrap();
    file
}

/// The events with event ids and positions of this round.
fn events_of_round(events: &[String], round: usize) -> Vec<String> {
    let (id, label) = (format!("\"eventID\": \"round-{round}-"), format!("{LABEL}.1{round:02}"));
    let of_round =
        |event: &String| event.replace("\"eventID\": \"", &id).replace(&format!("{LABEL}.000"), &label);
    events.iter().map(of_round).collect()
}

async fn deliver(api: &RuntimeApi, event: &str, function: &FunctionProcess) {
    let response = api.invoke(event.to_owned(), TIMEOUT).await;
    let is_accepted =
        matches!(&response, InvocationResult::Response(body) if **body == *br#"{"batchItemFailures":[]}"#);
    assert!(is_accepted, "{response:?}; its output:\n{}", function.output());
}

/// The processor time of the process so far, from the 14th and 15th field of its `stat` file.
fn cpu_seconds(function: &FunctionProcess) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{}/stat", function.id())).unwrap();
    let figures = stat.rsplit_once(')').unwrap().1.split_whitespace().skip(11).take(2);
    figures.map(|ticks| ticks.parse::<f64>().unwrap()).sum::<f64>() / TICKS_PER_SECOND
}

fn python_handler(
    events: &[String],
    archive: &EmbeddedArchive,
    redis: &RedisServer,
    bus: Option<&EmbeddedEventBridge>,
) -> HandlingCost {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    for event in events {
        writeln!(file, "{event}").unwrap();
    }
    let output = python::script("benches/relay_handler.py")
        .arg(file.path())
        .args([redis.port.to_string(), archive.firehose.endpoint(), ROUNDS.to_string()])
        .args(bus.map(EmbeddedEventBridge::endpoint))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let measured: Value = serde_json::from_slice(&output.stdout).unwrap();
    HandlingCost {
        records: measured["records"].as_f64().unwrap(),
        cpu_seconds: measured["cpu_seconds"].as_f64().unwrap(),
        wall_seconds: measured["wall_seconds"].as_f64().unwrap(),
        keys_gone_ms: Vec::new(),
    }
}
