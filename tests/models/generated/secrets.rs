//! Password hashes appear in no output: state table, archive, datasets, logs, metrics, and errors about failed records. The outputs are
//! searched byte by byte.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use afterwrite_functions::{MetricsLabels, StreamAggregator};
use afterwrite_ledger::Ledger;
use afterwrite_local::sdk::CREDENTIAL;
use afterwrite_memory::MemoryTables;
use afterwrite_model::clock::{Clock as _, SystemClock};
use afterwrite_model::record::Timestamp;
use afterwrite_model::table::Model;
use afterwrite_preview::trace::{RecordTracer, TraceLookups};
use afterwrite_services::config::EnvironmentSettings;
use afterwrite_tests::archive::{BUCKET, EmbeddedArchive, STREAM, objects};
use afterwrite_tests::clock::StillClock;
use afterwrite_tests::datasets::gzip;
use afterwrite_tests::deployment::{FunctionDeployment, STATE};
use afterwrite_tests::programs::program;
use afterwrite_tests::runtime_api::InvocationResult;
use serde_json::{Value, json};

use super::application::NOW;
use super::consumers::WorkloadRun;
use super::relay_and_exporter::{exported, relay, relay_batch};
use super::stream::{StreamRecord, event};
use super::workload;

const SECRET: &str = "PasswordHash";
/// The prefix of every hash.
const PREFIX: &str = "$2a$10$";
/// Large enough for every kind of change.
const SIZE: u64 = 200;

/// A finished run of the workload, and all hashes that it wrote.
fn finished_run(now: i64) -> (WorkloadRun, BTreeSet<String>) {
    let mut run = WorkloadRun::at(now, workload("glad"), 11, SIZE);
    run.run_to_end();
    let hashes: BTreeSet<String> = run
        .streams
        .records
        .iter()
        .flat_map(StreamRecord::images)
        .filter_map(|image| image.get(SECRET)?.as_s().ok().cloned())
        .collect();
    assert!(hashes.len() > 40 && hashes.iter().all(|hash| hash.starts_with(PREFIX) && hash.len() == 60));
    let events = run.streams.records.iter().filter(|record| record.json.contains(PREFIX)).count();
    assert!(events > 40, "the stream contains hashes");
    (run, hashes)
}

/// Asserts that the bytes contain no hash, no part of one, and not the attribute's name.
fn assert_no_secret(place: &str, bytes: &[u8], hashes: &BTreeSet<String>) {
    let has = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
    for text in [PREFIX, SECRET] {
        assert!(!has(text), "{text} is in {place}");
    }
    for hash in hashes {
        // 20 characters after the prefix: a shortened log line may contain them.
        assert!(!has(&hash[PREFIX.len()..][..20]), "a hash is in {place}");
    }
}

/// Records that cannot be counted: each has a hash in place of a number, a digit string or a type name, and in the secret attribute.
fn failing_records(hash: &str, now: i64) -> Vec<String> {
    let item = json!({
        "PK": { "S": "USER#eve" }, "SK": { "S": "SKILL#Rust" }, "PasswordHash": { "S": hash },
        "Endorsements": { "S": hash }, "ProficiencyLevel": { "S": "Expert" }, "CreatedAt": { "S": "2026-02-06T10:00:00Z" },
    });
    let mut no_number = item.clone();
    no_number["Endorsements"] = json!({ "N": hash });
    let mut no_type = item.clone();
    no_type["YearsOfExperience"] = json!({ hash: hash });
    [item, no_number, no_type]
        .into_iter()
        .zip(1..)
        .map(|(image, number)| failing_record(number, &image, now).to_string())
        .collect()
}

fn failing_record(number: u32, image: &Value, now: i64) -> Value {
    json!({
        "eventID": format!("failing-{number}"), "eventName": "INSERT",
        "eventSourceARN": "arn:aws:dynamodb:eu-west-1:123456789012:table/glad-entities/stream/2026-02-01T00:00:00.000",
        "dynamodb": {
            "Keys": { "PK": { "S": format!("USER#eve{number}") }, "SK": { "S": "SKILL#Rust" } }, "NewImage": image,
            "ApproximateCreationDateTime": now, "SequenceNumber": format!("2{number:021}"),
            "StreamViewType": "NEW_AND_OLD_IMAGES",
        },
    })
}

#[tokio::test]
async fn no_output_contains_a_password_hash() {
    let (run, hashes) = finished_run(NOW);
    assert_no_secret("the state table", format!("{:?}", run.state()).as_bytes(), &hashes);

    let (relay, stream, _) = relay(&run);
    for batch in run.streams.records.chunks(40) {
        let relayed = relay_batch(&relay, batch).await;
        assert_no_secret("the relay's result", format!("{relayed:?}").as_bytes(), &hashes);
        let labels = MetricsLabels::new(&EnvironmentSettings::default(), "relay", run.model()).unwrap();
        let line = relayed.metrics().render(&labels, Duration::ZERO, Timestamp::from_epoch_ms(0));
        assert_no_secret("the relay's metrics", line.as_bytes(), &hashes);
    }
    let lines = stream.contents();
    assert_no_secret("the archive", &lines, &hashes);
    let lines = String::from_utf8(lines).unwrap();
    assert_no_secret("the compressed archive", &gzip(&lines), &hashes);
    let (rows, bucket) = exported(&run, &lines).await;
    assert!(!rows["skills"].is_empty());
    assert_no_secret("the rows of datasets", format!("{rows:?}").as_bytes(), &hashes);
    for (name, file) in bucket.objects() {
        assert_no_secret(&name, &file, &hashes);
    }
    let messages = forwarded(&run);
    assert!(
        messages.len() == run.streams.records.len() && messages.iter().any(|body| body.contains("USER#"))
    );
    assert_no_secret("the messages of events", messages.concat().as_bytes(), &hashes);
}

/// The messages of a rule that forwards every record.
fn forwarded(run: &WorkloadRun) -> Vec<String> {
    let rule = "\n[[events]]\nname = \"changes\"\nof = \"*\"\nrecords = true\n";
    let source = [Model::built_in("glad").expect("a built-in model"), rule].concat();
    let model = Arc::new(Model::parse(&source, "glad.toml").unwrap_or_else(|errors| panic!("{errors}")));
    let names = model.tables.iter().map(|table| Arc::clone(&table.name)).collect();
    let lookups = TraceLookups::<MemoryTables>::new(&model, None);
    let tracer = RecordTracer::new(Arc::clone(&model), names, lookups);
    let records = run.streams.records.iter();
    records
        .flat_map(|record| tracer.events(&record.json).expect("events"))
        .map(|event| event.body())
        .collect()
}

#[tokio::test]
async fn an_error_message_holds_no_password_hash() {
    let (run, hashes) = finished_run(NOW);
    let (relay, stream, _) = relay(&run);
    let tables = super::application::tables(workload("glad"), NOW);
    let names = run.model().tables.iter().map(|table| Arc::clone(&table.name)).collect();
    let clock = StillClock::at(Timestamp::from_epoch_seconds(NOW + 60));
    let aggregator =
        StreamAggregator::new(Ledger::new(Arc::clone(run.model()), names, Arc::from("state"), tables, clock));
    let hash = hashes.first().unwrap();
    for record in failing_records(hash, NOW) {
        let event = event([record.as_str()].into_iter());
        let latest = Timestamp::from_epoch_ms(i64::MAX);
        let handled =
            aggregator.handle(event.as_bytes(), latest).await.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((handled.failures.len(), handled.parked.len()), (0, 1), "{record}");
        for failed in &handled.parked {
            let message = format!("{} {:?}", failed.error, failed.error);
            assert!(message.contains("Endorsements") || message.contains("YearsOfExperience"), "{message}");
        }
        assert_no_secret("the aggregator's result", format!("{handled:?}").as_bytes(), &hashes);
        let labels = MetricsLabels::new(&EnvironmentSettings::default(), "aggregator", run.model()).unwrap();
        let line = handled.metrics().render(&labels, Duration::ZERO, latest);
        assert_no_secret("the aggregator's metrics", line.as_bytes(), &hashes);
        // The archive takes these records too. They are skills, and the attribute is a secret of users alone.
        let relayed = relay.handle(event.as_bytes(), latest).await.unwrap_or_else(|error| panic!("{error}"));
        assert_no_secret("the relay's result", format!("{relayed:?}").as_bytes(), &hashes);
    }
    let archived = String::from_utf8(stream.contents()).unwrap();
    assert!(archived.contains("USER#eve1"));
}

#[tokio::test]
#[ignore = "needs the release binaries: run tests/run"]
async fn the_deployed_functions_log_no_password_hash() {
    // A function with a real clock does not apply records older than the life of tombstones.
    let now = SystemClock.now().epoch_seconds();
    let (run, hashes) = finished_run(now);
    let (deployment, archive) = (FunctionDeployment::new().await, Box::pin(EmbeddedArchive::start()).await);
    let (firehose, s3) = (archive.firehose.endpoint(), archive.s3.endpoint());
    let settings = [
        ("AFTERWRITE_MODEL", "glad"),
        ("AFTERWRITE_FIREHOSE_STREAM", STREAM),
        ("AFTERWRITE_BUCKET", BUCKET),
        ("AWS_ENDPOINT_URL_FIREHOSE", &*firehose),
        ("AWS_ENDPOINT_URL_S3", &*s3),
        ("AWS_ACCESS_KEY_ID", CREDENTIAL),
        ("AWS_SECRET_ACCESS_KEY", CREDENTIAL),
        // Every log line of the process.
        ("AWS_LAMBDA_LOG_LEVEL", "TRACE"),
    ];
    for function in ["aggregator", "relay"] {
        let (api, running) = deployment.function(&program(function), &settings).await;
        let batches = run
            .streams
            .records
            .chunks(200)
            .map(|batch| event(batch.iter().map(|record| record.json.as_str())));
        let failing = failing_records(hashes.first().unwrap(), now)
            .into_iter()
            .map(|record| event([record.as_str()].into_iter()));
        for event in batches.chain(failing) {
            match api.invoke(event, Duration::from_secs(60)).await {
                InvocationResult::Response(response) => assert_no_secret("a response", &response, &hashes),
                other @ (InvocationResult::Error(_) | InvocationResult::TimedOut) => {
                    panic!("{function}: {other:?}: {}", running.output())
                }
            }
        }
        let output = running.stop();
        assert!(
            output.contains(&format!("\"Function\":\"{function}\"")),
            "{function} logs nothing: {output}"
        );
        if function == "aggregator" {
            assert!(output.contains("a record cannot be counted"), "the failure is not logged: {output}");
        }
        assert_no_secret(&format!("the output of {function}"), output.as_bytes(), &hashes);
    }
    let state = deployment.scan(STATE).await;
    assert!(state.len() > 100);
    assert_no_secret("the state table", format!("{state:?}").as_bytes(), &hashes);
    archive.firehose.flush().await.unwrap();
    for (key, text) in objects(&archive.s3.client(), BUCKET).await {
        let healthy: String = text.lines().filter(|line| !line.contains("USER#eve")).collect();
        assert!(healthy.len() > 1000, "{key}");
        assert_no_secret(&key, healthy.as_bytes(), &hashes);
    }
}
