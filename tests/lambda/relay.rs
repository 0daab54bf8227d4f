//! The deployed function `relay`, and functions that host other projections than their default.

use std::time::Duration;

use afterwrite_local::sdk::CREDENTIAL;
use afterwrite_tests::archive::{BUCKET, EmbeddedArchive, STREAM, by_event_id, objects};
use afterwrite_tests::deployment::{FunctionDeployment, STATE, event};
use afterwrite_tests::programs::program;
use afterwrite_tests::redis_server::{RedisServer, free_port};
use afterwrite_tests::runtime_api::{FunctionProcess, RuntimeApi};
use serde_json::{Value, json};

use super::{TIME, assert_measured, metrics, refusal_to_start_of, response};

/// The results of one batch.
struct DeliveredBatch {
    returned: Value,
    /// How many changes were archived.
    archived: usize,
    records: Vec<Value>,
    /// The relay's metrics.
    metrics: Value,
}

/// Starts `function` and delivers the changes of a project and two questions.
async fn deliver(
    deployment: &FunctionDeployment,
    function: &str,
    settings: &[(&str, &str)],
) -> DeliveredBatch {
    let archive = Box::pin(EmbeddedArchive::start()).await;
    let (firehose, s3) = (archive.firehose.endpoint(), archive.s3.endpoint());
    let mut environment = vec![
        ("AFTERWRITE_FIREHOSE_STREAM", STREAM),
        ("AFTERWRITE_BUCKET", BUCKET),
        ("AWS_ENDPOINT_URL_FIREHOSE", &*firehose),
        ("AWS_ENDPOINT_URL_S3", &*s3),
    ];
    environment.extend(settings);
    let (api, running) = deployment.function(&program(function), &environment).await;
    deployment.put_project("p1").await;
    for question in ["q1", "q2"] {
        deployment.put_question("p1", question).await;
    }
    let records = deployment.records().await;
    let returned = response(api.invoke(event(&records), TIME).await, &running);
    let objects = archive.read_back().await;
    let (archived, _) = by_event_id(objects.values());
    assert!(archived.values().all(|line| records.contains(line)), "a line is a record");
    let is_of_relay = |line: &Value| line.get("RecordsRelayed").is_some();
    let mut metrics = metrics(&running.stop());
    metrics.retain(is_of_relay);
    let [metrics] = metrics.try_into().expect("one batch, one line");
    DeliveredBatch { returned, archived: archived.len(), records, metrics }
}

/// The line has these counts for CloudWatch.
fn assert_counts(metrics: &Value, counts: &[(&str, u64)]) {
    for (name, count) in counts {
        assert_measured(metrics, name, "Count");
        assert_eq!(metrics[name], *count, "{name} of {metrics}");
    }
}

#[tokio::test]
#[ignore = "needs the release binaries: run tests/run"]
async fn relay_archives_every_change_and_needs_no_cache() {
    let deployment = FunctionDeployment::new().await;
    let DeliveredBatch { returned, archived, metrics, .. } = deliver(&deployment, "relay", &[]).await;
    assert_eq!((returned, archived), (json!({ "batchItemFailures": [] }), 3));
    assert_counts(
        &metrics,
        &[("RecordsRelayed", 3), ("RelayFailed", 0), ("LinesArchived", 3), ("KeysInvalidated", 0)],
    );
    assert!(metrics.get("KeysGone").is_none(), "no key, no time: {metrics}");
    assert!(deployment.item(STATE, "ADMIN#a1", "ROLLUP#TOTAL").await.is_empty(), "counting is not its own");
}

#[tokio::test]
#[ignore = "needs the release binaries: run tests/run"]
async fn any_function_hosts_any_set() {
    let all = [("AFTERWRITE_PROJECTIONS", "aggregate,invalidate,archive")];
    for function in ["aggregator", "relay"] {
        let deployment = FunctionDeployment::new().await;
        let DeliveredBatch { returned, archived, .. } = deliver(&deployment, function, &all).await;
        assert_eq!((returned, archived), (json!({ "batchItemFailures": [] }), 3), "{function}");
        let total = deployment.item(STATE, "ADMIN#a1", "ROLLUP#TOTAL").await;
        assert_eq!((&*total["projects_active"], &*total["questions"]), ("1", "2"), "{function}");
    }
}

/// The metrics of a healthy relay: counts by destination, the age of the records, and how long the cache was stale.
#[tokio::test]
#[ignore = "needs the release binaries and redis-server: run tests/run"]
async fn relay_reports_metrics_of_what_it_invalidated_and_archived() {
    let (deployment, redis) = (FunctionDeployment::new().await, RedisServer::start().await);
    let cached = ["project:p1", "project:p1:questions", "question:q1", "question:q2", "admin:a1:projects"];
    for key in cached {
        redis.run::<()>(&["SET", key, "cached"]).await;
    }
    let url = redis.url();
    let DeliveredBatch { returned, archived, metrics, .. } =
        deliver(&deployment, "relay", &[("AFTERWRITE_CACHE_URL", &*url)]).await;
    assert_eq!((returned, archived), (json!({ "batchItemFailures": [] }), 3));
    assert!(redis.run::<Vec<String>>(&["KEYS", "*"]).await.is_empty());
    assert_counts(
        &metrics,
        &[
            ("RecordsRelayed", 3),
            ("RelayFailed", 0),
            ("PathsInvalidated", 0),
            ("InvalidationRequests", 0),
            ("LinesArchived", 3),
            ("FirehoseRecords", 1),
            ("BilledUnits", 1),
            ("ArchiveRetries", 0),
            ("DirectObjects", 0),
        ],
    );
    // The rules name more keys than the cache held.
    for (name, least) in [("KeysInvalidated", cached.len()), ("CacheCommands", 1), ("ArchiveBytes", 1)] {
        assert_measured(&metrics, name, "Count");
        assert!(metrics[name].as_u64() >= u64::try_from(least).ok(), "{name} of {metrics}");
    }
    for name in ["KeysGone", "RelayedRecordAge", "Duration"] {
        assert_measured(&metrics, name, "Milliseconds");
    }
    // The keys are gone before the batch ends; the two clocks may differ by a tick.
    let [gone, took] = ["KeysGone", "Duration"].map(|name| metrics[name].as_u64().unwrap());
    assert!(gone <= took + 1, "{metrics}");
    assert_eq!((&metrics["Function"], &metrics["Model"]), (&json!("relay"), &json!("exambuddy")));
}

#[tokio::test]
#[ignore = "needs the release binaries: run tests/run"]
async fn an_unreachable_cache_stops_neither_the_archive_nor_the_counting() {
    let deployment = FunctionDeployment::new().await;
    let cache = format!("redis://127.0.0.1:{}", free_port());
    let settings =
        [("AFTERWRITE_PROJECTIONS", "aggregate,invalidate,archive"), ("AFTERWRITE_CACHE_URL", &*cache)];
    let DeliveredBatch { returned, archived, records, metrics } =
        deliver(&deployment, "relay", &settings).await;
    let first = &records[0]["dynamodb"]["SequenceNumber"];
    assert_eq!(returned, json!({ "batchItemFailures": [{ "itemIdentifier": first }] }));
    assert_eq!(archived, 3);
    assert_counts(&metrics, &[("RelayFailed", 3), ("LinesArchived", 3), ("KeysInvalidated", 0)]);
    assert_eq!(deployment.item(STATE, "ADMIN#a1", "ROLLUP#TOTAL").await["questions"], "2");
}

#[tokio::test]
#[ignore = "needs the release binaries and redis-server: run tests/run"]
async fn an_unreachable_archive_stops_neither_the_invalidation_nor_the_counting() {
    let (deployment, redis) = (FunctionDeployment::new().await, RedisServer::start().await);
    for key in ["question:q1", "question:q2", "project:p1:questions", "project:p1"] {
        redis.run::<()>(&["SET", key, "cached"]).await;
    }
    let (cache, nowhere) = (redis.url(), format!("http://127.0.0.1:{}", free_port()));
    let settings = [
        ("AFTERWRITE_PROJECTIONS", "aggregate,invalidate,archive"),
        ("AFTERWRITE_CACHE_URL", &*cache),
        ("AFTERWRITE_FIREHOSE_STREAM", STREAM),
        ("AFTERWRITE_BUCKET", BUCKET),
        ("AWS_ENDPOINT_URL", &*nowhere),
    ];
    let (api, running) = deployment.function(&program("relay"), &settings).await;
    deployment.put_project("p1").await;
    for question in ["q1", "q2"] {
        deployment.put_question("p1", question).await;
    }
    let records = deployment.records().await;
    let returned = response(api.invoke(event(&records), Duration::from_secs(3)).await, &running);
    let first = &records[0]["dynamodb"]["SequenceNumber"];
    assert_eq!(returned, json!({ "batchItemFailures": [{ "itemIdentifier": first }] }));
    assert!(redis.run::<Vec<String>>(&["KEYS", "*"]).await.is_empty());
    assert_eq!(deployment.item(STATE, "ADMIN#a1", "ROLLUP#TOTAL").await["questions"], "2");
}

#[tokio::test]
#[ignore = "needs the release binaries: run tests/run"]
async fn a_bucket_is_part_of_the_path_however_its_endpoint_is_set() {
    let archive = Box::pin(EmbeddedArchive::start()).await;
    // A host name: no client puts a bucket in front of an IP address.
    let endpoint = archive.s3.endpoint().replace("127.0.0.1", "localhost");
    let profile = |text: String| {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        file
    };
    let of_all = profile(format!("[default]\nendpoint_url = {endpoint}\n"));
    let of_s3 = profile(format!(
        "[default]\nservices = here\n\n[services here]\ns3 =\n  endpoint_url = {endpoint}\n"
    ));
    let (of_all, of_s3) = (of_all.path().to_str().unwrap(), of_s3.path().to_str().unwrap());
    let settings_of_endpoint = [
        ("AWS_ENDPOINT_URL", &*endpoint),
        ("AWS_ENDPOINT_URL_S3", &*endpoint),
        ("AWS_CONFIG_FILE", of_all),
        ("AWS_CONFIG_FILE", of_s3),
    ];
    for (number, setting) in settings_of_endpoint.into_iter().enumerate() {
        let api = RuntimeApi::start().await.unwrap();
        let settings = [
            ("AFTERWRITE_MODEL", "exambuddy"),
            ("AFTERWRITE_FIREHOSE_STREAM", STREAM),
            ("AFTERWRITE_BUCKET", BUCKET),
            ("AWS_REGION", "us-east-1"),
            ("AWS_ACCESS_KEY_ID", CREDENTIAL),
            ("AWS_SECRET_ACCESS_KEY", CREDENTIAL),
            setting,
        ];
        let running = FunctionProcess::start(&program("relay"), &api, &settings).unwrap();
        // Too large for the delivery stream.
        let keys = json!({ "PK": { "S": "PROJECT#p" }, "SK": { "S": "QUESTION#q" } });
        let record = json!({
            "eventID": format!("record-{number}"), "eventName": "INSERT",
            "eventSourceARN": "arn:aws:dynamodb:us-east-1:000000000000:table/ExamBuddyTable/stream/2026-02-06T10:00:00.000",
            "dynamodb": {
                "Keys": keys, "NewImage": { "explanation": { "S": "x".repeat(1_024_000) } }, "SequenceNumber": "100"
            }
        });
        let returned = response(api.invoke(event(&[record]), Duration::from_secs(10)).await, &running);
        assert_eq!(returned, json!({ "batchItemFailures": [] }), "{setting:?}: {}", running.output());
        let objects = objects(&archive.s3.client(), BUCKET).await;
        let name = format!("record-{number}.gz");
        assert!(objects.keys().any(|key| key.ends_with(&name)), "{setting:?}: {:?}", objects.keys());
    }
}

#[tokio::test]
#[ignore = "needs the release binaries: run tests/run"]
async fn a_missing_setting_of_the_archive_is_named_at_start_up() {
    let common = [
        ("AFTERWRITE_MODEL", "exambuddy"),
        ("AWS_REGION", "eu-west-1"),
        ("AWS_EC2_METADATA_DISABLED", "true"),
    ];
    let message = refusal_to_start_of("relay", &common).await;
    assert!(message.contains("AFTERWRITE_FIREHOSE_STREAM"), "{message}");
    let with_stream = [&common[..], &[("AFTERWRITE_FIREHOSE_STREAM", "s")]].concat();
    let message = refusal_to_start_of("relay", &with_stream).await;
    assert!(message.contains("AFTERWRITE_BUCKET"), "{message}");
}
