//! Password hashes occur nowhere: not in the state table, the archive, the datasets, in what is logged, nor in what is said of records
//! that fail. Searched byte by byte.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use afterwrite::commit::{Clock as _, Ledger, SystemClock};
use afterwrite::record::Timestamp;
use afterwrite_functions::{Aggregator, metrics};
use afterwrite_local::sdk::CREDENTIAL;
use afterwrite_tests::archive::{Archive, BUCKET, STREAM, objects};
use afterwrite_tests::clock::StillClock;
use afterwrite_tests::datasets::gzip;
use afterwrite_tests::deployment::{Deployment, STATE};
use afterwrite_tests::programs::program;
use afterwrite_tests::runtime_api::InvocationResult;
use serde_json::{Value, json};

use super::application::NOW;
use super::consumers::Run;
use super::passed_on::{exported, pass_on, relay};
use super::stream::{Record, event};
use super::workload;

const SECRET: &str = "PasswordHash";
/// What every hash begins with.
const BEGINNING: &str = "$2a$10$";
/// Enough for every kind of change.
const SIZE: u64 = 200;

/// A run of the workload, and every hash that was ever written.
fn played(now: i64) -> (Run, BTreeSet<String>) {
    let mut run = Run::at(now, workload("glad"), 11, SIZE);
    run.go();
    let hashes: BTreeSet<String> = run
        .streams
        .records
        .iter()
        .flat_map(Record::images)
        .filter_map(|image| image.get(SECRET)?.as_s().ok().cloned())
        .collect();
    assert!(hashes.len() > 40 && hashes.iter().all(|hash| hash.starts_with(BEGINNING) && hash.len() == 60));
    let events = run.streams.records.iter().filter(|record| record.json.contains(BEGINNING)).count();
    assert!(events > 40, "the stream does hold them");
    (run, hashes)
}

/// No hash is in these bytes, whole or begun; nor is the attribute that held them.
fn assert_none(place: &str, bytes: &[u8], hashes: &BTreeSet<String>) {
    let has = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
    for text in [BEGINNING, SECRET] {
        assert!(!has(text), "{text} is in {place}");
    }
    for hash in hashes {
        // The part behind the beginning, as a reader of a cut log line might find it.
        assert!(!has(&hash[BEGINNING.len()..][..20]), "a hash is in {place}");
    }
}

/// Records that cannot be counted, each holding a hash where a number, a text or a name should be, and beside it.
fn failing(hash: &str, now: i64) -> Vec<String> {
    let item = json!({
        "PK": { "S": "USER#eve" }, "SK": { "S": "SKILL#Rust" }, "PasswordHash": { "S": hash },
        "Endorsements": { "S": hash }, "ProficiencyLevel": { "S": "Expert" }, "CreatedAt": { "S": "2026-02-06T10:00:00Z" },
    });
    let record = |number: u32, image: Value| {
        json!({
            "eventID": format!("failing-{number}"), "eventName": "INSERT",
            "eventSourceARN": "arn:aws:dynamodb:eu-west-1:123456789012:table/glad-entities/stream/2026-02-01T00:00:00.000",
            "dynamodb": {
                "Keys": { "PK": { "S": format!("USER#eve{number}") }, "SK": { "S": "SKILL#Rust" } }, "NewImage": image,
                "ApproximateCreationDateTime": now, "SequenceNumber": format!("2{number:021}"),
                "StreamViewType": "NEW_AND_OLD_IMAGES",
            },
        })
    };
    let mut no_number = item.clone();
    no_number["Endorsements"] = json!({ "N": hash });
    let mut no_type = item.clone();
    no_type["YearsOfExperience"] = json!({ hash: hash });
    [item, no_number, no_type]
        .into_iter()
        .zip(1..)
        .map(|(image, number)| record(number, image).to_string())
        .collect()
}

#[tokio::test]
async fn a_password_hash_is_nowhere() {
    let (run, hashes) = played(NOW);
    assert_none("the state table", format!("{:?}", run.state()).as_bytes(), &hashes);

    let (relay, stream, _) = relay(&run);
    for batch in run.streams.records.chunks(40) {
        let relayed = pass_on(&relay, batch).await;
        assert_none("the relay's answer", format!("{relayed:?}").as_bytes(), &hashes);
        let line =
            metrics::relayed(&relayed).of("relay", "glad", Duration::ZERO, Timestamp::from_epoch_ms(0));
        assert_none("the relay's metrics", line.as_bytes(), &hashes);
    }
    let lines = stream.contents();
    assert_none("the archive", &lines, &hashes);
    let lines = String::from_utf8(lines).unwrap();
    assert_none("the archive as it is packed", &gzip(&lines), &hashes);
    let (rows, bucket) = exported(&run, &lines).await;
    assert!(!rows["skills"].is_empty());
    assert_none("the datasets' rows", format!("{rows:?}").as_bytes(), &hashes);
    for (name, file) in bucket.objects() {
        assert_none(&name, &file, &hashes);
    }
}

#[tokio::test]
async fn an_error_message_holds_no_password_hash() {
    let (run, hashes) = played(NOW);
    let (relay, stream, _) = relay(&run);
    let tables = super::application::tables(workload("glad"), NOW);
    let names = run.model().tables.iter().map(|table| Arc::clone(&table.name)).collect();
    let clock = StillClock::at(Timestamp::from_epoch_seconds(NOW + 60));
    let aggregator =
        Aggregator::new(Ledger::new(Arc::clone(run.model()), names, Arc::from("state"), tables, clock));
    let hash = hashes.first().unwrap();
    for record in failing(hash, NOW) {
        let event = event([record.as_str()].into_iter());
        let latest = Timestamp::from_epoch_ms(i64::MAX);
        let handled =
            aggregator.handle(event.as_bytes(), latest).await.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(handled.failures.len(), 1, "{record}");
        for failed in &handled.failures {
            let said = format!("{} {:?}", failed.error, failed.error);
            assert!(said.contains("Endorsements") || said.contains("YearsOfExperience"), "{said}");
        }
        assert_none("the aggregator's answer", format!("{handled:?}").as_bytes(), &hashes);
        let line = metrics::aggregated(&handled).of("aggregator", "glad", Duration::ZERO, latest);
        assert_none("the aggregator's metrics", line.as_bytes(), &hashes);
        // The archive takes even what nobody can read, but not the secret; what stands in its place elsewhere is the item's own.
        let relayed = relay.handle(event.as_bytes(), latest).await.unwrap_or_else(|error| panic!("{error}"));
        assert_none("the relay's answer", format!("{relayed:?}").as_bytes(), &hashes);
    }
    let archived = String::from_utf8(stream.contents()).unwrap();
    assert!(archived.contains("USER#eve1") && !archived.contains(SECRET));
}

#[tokio::test]
#[ignore = "needs the release binaries: run tests/run"]
async fn the_deployed_functions_log_no_password_hash() {
    // A function with a real clock takes what is older than tombstones live for too old to be applied.
    let now = SystemClock.now().epoch_seconds();
    let (run, hashes) = played(now);
    let (deployment, archive) = (Deployment::new().await, Box::pin(Archive::start()).await);
    let (firehose, s3) = (archive.firehose.endpoint(), archive.s3.endpoint());
    let settings = [
        ("AFTERWRITE_MODEL", "glad"),
        ("AFTERWRITE_FIREHOSE_STREAM", STREAM),
        ("AFTERWRITE_BUCKET", BUCKET),
        ("AWS_ENDPOINT_URL_FIREHOSE", &*firehose),
        ("AWS_ENDPOINT_URL_S3", &*s3),
        ("AWS_ACCESS_KEY_ID", CREDENTIAL),
        ("AWS_SECRET_ACCESS_KEY", CREDENTIAL),
        // Whatever anyone in the process would ever say.
        ("AWS_LAMBDA_LOG_LEVEL", "TRACE"),
    ];
    for function in ["aggregator", "relay"] {
        let (api, running) = deployment.function(&program(function), &settings).await;
        let batches = run
            .streams
            .records
            .chunks(200)
            .map(|batch| event(batch.iter().map(|record| record.json.as_str())));
        let failing = failing(hashes.first().unwrap(), now)
            .into_iter()
            .map(|record| event([record.as_str()].into_iter()));
        for event in batches.chain(failing) {
            match api.invoke(event, Duration::from_secs(60)).await {
                InvocationResult::Response(answer) => assert_none("an answer", &answer, &hashes),
                other @ (InvocationResult::Error(_) | InvocationResult::TimedOut) => {
                    panic!("{function}: {other:?}: {}", running.output())
                }
            }
        }
        let output = running.stop();
        assert!(output.contains(&format!("\"Function\":\"{function}\"")), "it does log: {output}");
        if function == "aggregator" {
            assert!(output.contains("a record was not counted"), "it does say what failed: {output}");
        }
        assert_none(&format!("the output of {function}"), output.as_bytes(), &hashes);
    }
    let state = deployment.scan(STATE).await;
    assert!(state.len() > 100);
    assert_none("the state table", format!("{state:?}").as_bytes(), &hashes);
    archive.firehose.flush().await.unwrap();
    for (key, text) in objects(&archive.s3.client(), BUCKET).await {
        let healthy: String = text.lines().filter(|line| !line.contains("USER#eve")).collect();
        assert!(healthy.len() > 1000, "{key}");
        assert_none(&key, healthy.as_bytes(), &hashes);
    }
}
