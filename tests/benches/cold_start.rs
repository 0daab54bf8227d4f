//! The cold starts and the sizes of all functions, and the memory of `aggregator`, compared with a function that does nothing.
//!
//! `cargo bench -p afterwrite-tests --bench cold_start` builds the functions as they are deployed (`--profile lambda`), packs them
//! with the model as `infra/build` does, starts them in turns under a Runtime API on loopback, next to embedded servers, and prints
//! a table.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a benchmark that meets the unexpected must fail at once"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use afterwrite_local::cloudfront::EmbeddedCloudFront;
use afterwrite_local::sdk::CREDENTIAL;
use afterwrite_services::ObjectStore as _;
use afterwrite_tests::archive::{BUCKET, EmbeddedArchive, STREAM};
use afterwrite_tests::cloudfront::{DISTRIBUTION, start_cloudfront};
use afterwrite_tests::datasets::gzip;
use afterwrite_tests::deployment::{FunctionDeployment, event};
use afterwrite_tests::python;
use afterwrite_tests::runtime_api::{FunctionProcess, InvocationResult};
use afterwrite_tests::sqs::queue_event;
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
const TIMEOUT: Duration = Duration::from_secs(150);
/// The packages of the functions.
const PACKAGES: [&str; 3] = ["afterwrite-functions", "afterwrite-datasets", "afterwrite-operations"];

/// A measured function: one that is deployed, or one that does nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MeasuredFunction {
    HelloWorld,
    Aggregator,
    Relay,
    Invalidator,
    Exporter,
    Compactor,
    Verifier,
}

impl MeasuredFunction {
    const ALL: [Self; 7] = [
        Self::HelloWorld,
        Self::Aggregator,
        Self::Relay,
        Self::Invalidator,
        Self::Exporter,
        Self::Compactor,
        Self::Verifier,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::HelloWorld => "hello_world",
            Self::Aggregator => "aggregator",
            Self::Relay => "relay",
            Self::Invalidator => "invalidator",
            Self::Exporter => "exporter",
            Self::Compactor => "compactor",
            Self::Verifier => "verifier",
        }
    }

    /// The work that its first event requests.
    fn first_event(self) -> &'static str {
        match self {
            Self::HelloWorld => "nothing",
            Self::Aggregator => "counts one record",
            Self::Relay => "archives one record",
            Self::Invalidator => "invalidates one path",
            Self::Exporter => "exports one object of one row",
            Self::Compactor => "finds an empty bucket",
            Self::Verifier => "verifies empty tables",
        }
    }
}

/// A function as it is deployed.
struct BuiltFunction {
    function: MeasuredFunction,
    binary: PathBuf,
    zip_bytes: u64,
}

/// The times of one start, from the start of the process.
struct ColdStart {
    /// Until the function requests its first event.
    first_request: Duration,
    /// Until the response to that event.
    first_response: Duration,
}

#[tokio::main]
async fn main() {
    let functions = build();
    let surroundings = Surroundings::prepare().await;
    let mut starts: Vec<Vec<ColdStart>> = functions.iter().map(|_| Vec::new()).collect();
    // In turns, so that other load on the machine affects all.
    for number in 0..STARTS {
        for (built, starts) in functions.iter().zip(&mut starts) {
            starts.push(surroundings.start(built, number).await);
        }
    }
    println!("Medians (and the fastest) of {STARTS} starts of each function, in turn, in milliseconds\n");
    println!(
        "| function | binary, bytes | zip, bytes | exec to `/next` | exec to the first response | which |"
    );
    println!("|---|---|---|---|---|---|");
    for (built, starts) in functions.iter().zip(&starts) {
        print_row(built, starts);
    }
    println!("\nMemory of aggregator (VmRSS) after batches of {BATCH_SIZE} records");
    let aggregator = functions.iter().find(|built| built.function == MeasuredFunction::Aggregator).unwrap();
    for (batches, resident_kib) in memory(&aggregator.binary).await {
        match resident_kib {
            Some(kib) => println!("{batches:>12} {:>9}.{} MiB", kib / 1024, kib % 1024 * 10 / 1024),
            None => println!("{batches:>12} not reported by this system"),
        }
    }
}

/// Builds and packs all functions as they are deployed.
fn build() -> Vec<BuiltFunction> {
    let packages = PACKAGES.iter().flat_map(|package| ["-p", package]);
    let mut artifacts = cargo_build(packages.chain(["--bins"]));
    // Separately: an example takes part in the choice of the dependencies' features.
    artifacts.extend(cargo_build(["-p", PACKAGES[0], "--example", MeasuredFunction::HelloWorld.name()]));
    let zips = tempfile::tempdir().unwrap();
    let packed = |function: MeasuredFunction| {
        let is_its_binary = |artifact: &&Value| {
            artifact["target"]["name"] == function.name() && artifact["executable"].is_string()
        };
        let artifact = artifacts.iter().find(is_its_binary).unwrap();
        let binary = PathBuf::from(artifact["executable"].as_str().unwrap());
        let zip_bytes = pack(&binary, &zips.path().join(function.name()).with_extension("zip"));
        BuiltFunction { function, binary, zip_bytes }
    };
    MeasuredFunction::ALL.into_iter().map(packed).collect()
}

/// Runs `cargo build` for Lambda; returns its messages.
fn cargo_build<'a>(selection: impl IntoIterator<Item = &'a str>) -> Vec<Value> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo)
        .args(["build", "--locked", "--profile", "lambda", "--message-format", "json-render-diagnostics"])
        .args(selection)
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    assert!(built.status.success(), "the functions cannot be built");
    let messages = String::from_utf8(built.stdout).unwrap();
    messages.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Writes the zip of a function with the default model; returns its size.
fn pack(binary: &Path, zip: &Path) -> u64 {
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../common/model/src/table/models/exambuddy.toml");
    let packed = python::script("../infra/package.py").args([zip, binary, &model]).output().unwrap();
    assert!(packed.status.success(), "{}", String::from_utf8_lossy(&packed.stderr));
    fs::metadata(zip).unwrap().len()
}

/// The services that the functions read and write.
struct Surroundings {
    deployment: FunctionDeployment,
    archive: EmbeddedArchive,
    cloudfront: EmbeddedCloudFront,
    /// A record of the application's table for each start.
    records: Vec<Value>,
    /// Tables and a bucket without any item or object.
    empty_deployment: FunctionDeployment,
    empty_archive: EmbeddedArchive,
}

impl Surroundings {
    async fn prepare() -> Self {
        let deployment = FunctionDeployment::new().await;
        deployment.put_project("p1").await;
        for number in 0..STARTS {
            deployment.put_question("p1", &format!("q{number}")).await;
        }
        let records = deployment.records().await.split_off(1);
        assert_eq!(records.len(), STARTS);
        let archive = Box::pin(EmbeddedArchive::start()).await;
        for number in 0..STARTS {
            let line = format!("{}\n", attempt(number, &records[0]["eventSourceARN"]));
            archive.bucket().put(&archived_object(number), gzip(&line)).await.unwrap();
        }
        Self {
            deployment,
            archive,
            cloudfront: start_cloudfront().await,
            records,
            empty_deployment: FunctionDeployment::new().await,
            empty_archive: Box::pin(EmbeddedArchive::start()).await,
        }
    }

    /// Measures one start with one event. As in Lambda, the event waits before the function starts.
    async fn start(&self, built: &BuiltFunction, number: usize) -> ColdStart {
        let settings = self.settings(built.function);
        let settings: Vec<(&str, &str)> =
            settings.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let (api, function) = self.tables(built.function).function(&built.binary, &settings).await;
        let event = self.event(built.function, number);
        let (response, ready) = tokio::join!(api.invoke(event, TIMEOUT), api.ready());
        let responded = Instant::now();
        assert_accepted(&response, &function);
        ColdStart {
            first_request: ready.unwrap() - function.started(),
            first_response: responded - function.started(),
        }
    }

    fn tables(&self, function: MeasuredFunction) -> &FunctionDeployment {
        match function {
            MeasuredFunction::Compactor | MeasuredFunction::Verifier => &self.empty_deployment,
            MeasuredFunction::HelloWorld
            | MeasuredFunction::Aggregator
            | MeasuredFunction::Relay
            | MeasuredFunction::Invalidator
            | MeasuredFunction::Exporter => &self.deployment,
        }
    }

    /// The settings of a function in addition to those of its tables.
    fn settings(&self, function: MeasuredFunction) -> Vec<(&'static str, String)> {
        match function {
            MeasuredFunction::HelloWorld | MeasuredFunction::Aggregator => Vec::new(),
            MeasuredFunction::Relay => {
                let mut settings = bucket_settings(&self.archive);
                settings.push(("AFTERWRITE_FIREHOSE_STREAM", STREAM.to_owned()));
                settings.push(("AWS_ENDPOINT_URL_FIREHOSE", self.archive.firehose.endpoint()));
                settings
            }
            MeasuredFunction::Invalidator => vec![
                ("AFTERWRITE_CLOUDFRONT_DISTRIBUTION", DISTRIBUTION.to_owned()),
                ("AWS_ENDPOINT_URL_CLOUDFRONT", self.cloudfront.endpoint()),
            ],
            MeasuredFunction::Exporter => bucket_settings(&self.archive),
            MeasuredFunction::Compactor | MeasuredFunction::Verifier => bucket_settings(&self.empty_archive),
        }
    }

    fn event(&self, function: MeasuredFunction, number: usize) -> String {
        match function {
            MeasuredFunction::HelloWorld | MeasuredFunction::Aggregator | MeasuredFunction::Relay => {
                event(&self.records[number..=number])
            }
            MeasuredFunction::Invalidator => {
                queue_event(&[json!({ "version": 1, "paths": [format!("/{number}")] }).to_string()])
            }
            MeasuredFunction::Exporter => {
                let object =
                    json!({ "bucket": { "name": BUCKET }, "object": { "key": archived_object(number) } });
                event(&[json!({ "eventSource": "aws:s3", "s3": object })])
            }
            MeasuredFunction::Compactor => "{}".to_owned(),
            MeasuredFunction::Verifier => json!({ "verify": { "sample": 1 } }).to_string(),
        }
    }
}

fn bucket_settings(archive: &EmbeddedArchive) -> Vec<(&'static str, String)> {
    vec![
        ("AFTERWRITE_BUCKET", BUCKET.to_owned()),
        ("AWS_ENDPOINT_URL_S3", archive.s3.endpoint()),
        ("AWS_ACCESS_KEY_ID", CREDENTIAL.to_owned()),
        ("AWS_SECRET_ACCESS_KEY", CREDENTIAL.to_owned()),
    ]
}

/// The key of an object of the archive, as Firehose names it.
fn archived_object(number: usize) -> String {
    format!("archive/dt=2026-02-06/hh=14/{number:05}.gz")
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

fn print_row(built: &BuiltFunction, starts: &[ColdStart]) {
    let shown = |part: fn(&ColdStart) -> Duration| {
        format!("{:.1} ({:.1})", ms(median(starts, part)), ms(starts.iter().map(part).min().unwrap()))
    };
    println!(
        "| {} | {} | {} | {} | {} | {} |",
        built.function.name(),
        fs::metadata(&built.binary).unwrap().len(),
        built.zip_bytes,
        shown(|start| start.first_request),
        shown(|start| start.first_response),
        built.function.first_event(),
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
