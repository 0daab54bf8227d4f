//! The deployed function `exporter`.

use afterwrite_local::sdk::CREDENTIAL;
use afterwrite_services::{Bucket as _, ObjectStore as _};
use afterwrite_tests::archive::{BUCKET, EmbeddedArchive};
use afterwrite_tests::datasets::{gzip, rows_of};
use afterwrite_tests::deployment::FunctionDeployment;
use afterwrite_tests::programs::program;
use afterwrite_tests::runtime_api::{FunctionProcess, RuntimeApi};
use futures::TryStreamExt as _;
use serde_json::{Value, json};

use super::{TIME, error, metrics, refusal_to_start_of, response};

const KEY: &str = "archive/dt=2026-02-06/hh=14/changes one+two.gz";
/// The same key in events of S3.
const KEY_IN_EVENTS: &str = "archive/dt%3D2026-02-06/hh%3D14/changes+one%2Btwo.gz";

/// Starts a function that uses this archive's bucket.
pub(super) async fn start_before_bucket(
    function: &str,
    deployment: &FunctionDeployment,
    archive: &EmbeddedArchive,
) -> (RuntimeApi, FunctionProcess) {
    let s3 = archive.s3.endpoint();
    let settings = [
        ("AFTERWRITE_BUCKET", BUCKET),
        ("AWS_ENDPOINT_URL_S3", &*s3),
        ("AWS_ACCESS_KEY_ID", CREDENTIAL),
        ("AWS_SECRET_ACCESS_KEY", CREDENTIAL),
    ];
    deployment.function(&program(function), &settings).await
}

/// The event of a created object.
pub(super) fn created(bucket: &str, key: &str) -> Value {
    json!({ "Records": [{ "eventSource": "aws:s3", "s3": { "bucket": { "name": bucket }, "object": { "key": key } } }] })
}

#[tokio::test]
#[ignore = "needs the release binaries: run tests/run"]
async fn an_archive_object_becomes_parquet_once() {
    let deployment = FunctionDeployment::new().await;
    let archive = Box::pin(EmbeddedArchive::start()).await;
    // The aggregator remembers the owner of the project.
    let (counting, counter) = deployment.function(&program("aggregator"), &[]).await;
    deployment.put_project("p1").await;
    deployment.put_attempt("p1", "t1").await;
    let records = deployment.records().await;
    let event = afterwrite_tests::deployment::event(&records);
    assert_eq!(response(counting.invoke(event, TIME).await, &counter), json!({ "batchItemFailures": [] }));
    let (api, exporter) = start_before_bucket("exporter", &deployment, &archive).await;
    let bucket = archive.bucket();
    let text: String = records.iter().map(|record| format!("{record}\n")).collect();
    bucket.put(KEY, gzip(&text)).await.unwrap();

    let event = created(BUCKET, KEY_IN_EVENTS).to_string();
    assert_eq!(
        response(api.invoke(event.clone(), TIME).await, &exporter),
        json!({ "batchItemFailures": [] })
    );
    let files = bucket.list("datasets/").await.unwrap();
    assert_eq!(files.len(), 4, "two files and their commits: {files:?}");
    let attempts = files.iter().find(|file| file.key.starts_with("datasets/attempts_log/dt=")).unwrap();
    let chunks: Vec<_> = bucket.get(&attempts.key).await.unwrap().unwrap().try_collect().await.unwrap();
    let rows = rows_of(chunks.concat());
    assert_eq!(
        (&*rows[0]["attempt_id"], &*rows[0]["admin_id"]),
        ("t1", "a1"),
        "the output of the remembered lookup"
    );

    assert_eq!(response(api.invoke(event, TIME).await, &exporter), json!({ "batchItemFailures": [] }));
    assert_eq!(bucket.list("datasets/").await.unwrap(), files, "a second export writes nothing");
}

#[tokio::test]
#[ignore = "needs the release binaries: run tests/run"]
async fn only_failed_messages_are_redelivered() {
    let deployment = FunctionDeployment::new().await;
    let archive = Box::pin(EmbeddedArchive::start()).await;
    let (api, exporter) = start_before_bucket("exporter", &deployment, &archive).await;
    archive.bucket().put("archive/cut.gz", gzip("{}\n")[..12].to_vec()).await.unwrap();
    let message = |id: &str, body: &Value| json!({ "messageId": id, "body": body.to_string() });
    let test = json!({ "Service": "Amazon S3", "Event": "s3:TestEvent", "Bucket": BUCKET });
    let messages = json!({ "Records": [
        message("test", &test),
        message("cut", &created(BUCKET, "archive/cut.gz")),
        message("foreign", &created(BUCKET, "elsewhere/a.gz")),
        message("other bucket", &created("sea", "archive/a.gz")),
        message("gone", &created(BUCKET, "archive/gone.gz")),
        json!({ "messageId": "garbage", "body": "hello" }),
    ]});
    let reported = response(api.invoke(messages.to_string(), TIME).await, &exporter);
    let failed = ["cut", "gone", "garbage"].map(|id| json!({ "itemIdentifier": id }));
    assert_eq!(reported, json!({ "batchItemFailures": failed }), "{}", exporter.output());
    let message = error(api.invoke(created(BUCKET, "archive/cut.gz").to_string(), TIME).await, &exporter);
    assert!(message.contains("archive/cut.gz"), "{message}");
    assert_eq!(archive.bucket().list("datasets/").await.unwrap(), []);
    let output = exporter.stop();
    let foreign: Vec<_> = metrics(&output).iter().map(|line| line["ForeignObjects"].clone()).collect();
    assert_eq!(foreign.first(), Some(&json!(2)), "{output}");
}

#[tokio::test]
#[ignore = "needs the release binaries: run tests/run"]
async fn a_missing_setting_of_the_exporter_is_named_at_start_up() {
    let message =
        refusal_to_start_of("exporter", &[("AFTERWRITE_MODEL", "exambuddy"), ("AWS_REGION", "eu-west-1")])
            .await;
    assert!(message.contains("AFTERWRITE_BUCKET"), "{message}");
}
