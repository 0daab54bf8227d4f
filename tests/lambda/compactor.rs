//! The deployed function `compactor`.

use std::path::Path;
use std::process::{Command, Output};

use afterwrite_local::sdk::CREDENTIAL;
use afterwrite_services::{Bucket as _, ObjectStore as _};
use afterwrite_tests::archive::{BUCKET, EmbeddedArchive};
use afterwrite_tests::datasets::gzip;
use afterwrite_tests::deployment::FunctionDeployment;
use afterwrite_tests::programs::program;
use afterwrite_tests::runtime_api::{FunctionProcess, RuntimeApi};
use serde_json::{Value, json};

use super::exporter::{created, start_before_bucket};
use super::{TIME, error, refusal_to_start_of, response};

/// The event of an EventBridge schedule: none of its fields is a field of a request.
fn schedule() -> String {
    json!({ "version": "0", "detail-type": "Scheduled Event", "source": "aws.events", "detail": {} })
        .to_string()
}

/// Exports an archive with the same attempts in several objects: several files for each day.
async fn exported(deployment: &FunctionDeployment, archive: &EmbeddedArchive) {
    let (api, exporter) = start_before_bucket("exporter", deployment, archive).await;
    deployment.put_project("p1").await;
    for attempt in ["t1", "t2", "t3"] {
        deployment.put_attempt("p1", attempt).await;
    }
    let records = deployment.records().await;
    let text: String = records.iter().map(|record| format!("{record}\n")).collect();
    for key in ["archive/dt=2026-02-06/hh=14/a.gz", "archive/dt=2026-02-06/hh=15/b.gz"] {
        archive.bucket().put(key, gzip(&text)).await.unwrap();
        let reported = response(api.invoke(created(BUCKET, key).to_string(), TIME).await, &exporter);
        assert_eq!(reported, json!({ "batchItemFailures": [] }), "{}", exporter.output());
    }
}

async fn compacted(api: &RuntimeApi, compactor: &FunctionProcess, request: String) -> Value {
    response(api.invoke(request, TIME).await, compactor)
}

#[tokio::test]
#[ignore = "needs the release binaries: run tests/run"]
async fn many_files_become_few_and_then_nothing_is_left_to_do() {
    let deployment = FunctionDeployment::new().await;
    let archive = Box::pin(EmbeddedArchive::start()).await;
    exported(&deployment, &archive).await;
    let (api, compactor) = start_before_bucket("compactor", &deployment, &archive).await;

    let first = compacted(&api, &compactor, schedule()).await;
    assert_eq!(
        (&first["partitions"], &first["files_in"], &first["files_out"]),
        (&json!(2), &json!(4), &json!(2)),
        "{first}"
    );
    assert_eq!(
        (&first["rows_in"], &first["rows_out"], &first["duplicates"]),
        (&json!(8), &json!(4), &json!(4)),
        "{first}"
    );
    assert_eq!((&first["derived"], &first["current_rows"]), (&json!(2), &json!(4)), "{first}");

    for request in ["{}", "{\"dataset\":\"attempts\"}", "{\"dt\":\"2026-02-06\"}"] {
        let again = compacted(&api, &compactor, request.to_owned()).await;
        assert_eq!((&again["files_in"], &again["derived"]), (&json!(0), &json!(0)), "{again}");
    }
    let lines = compactor.output();
    assert!(lines.contains("CloudWatchMetrics"), "{lines}");
}

/// Runs `afterwrite compact` on this archive's bucket.
fn command_line(archive: &EmbeddedArchive, temporary: &Path) -> Output {
    let mut command = Command::new(program("afterwrite"));
    command.args(["compact", "--bucket", BUCKET, "--json"]).env_clear().env("TMPDIR", temporary);
    command.env("AWS_REGION", "eu-west-1").env("AWS_ENDPOINT_URL_S3", archive.s3.endpoint());
    command.env("AWS_ACCESS_KEY_ID", CREDENTIAL).env("AWS_SECRET_ACCESS_KEY", CREDENTIAL);
    command.output().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn the_command_line_compacts_and_changes_nothing_without_disk() {
    let deployment = FunctionDeployment::new().await;
    let archive = Box::pin(EmbeddedArchive::start()).await;
    exported(&deployment, &archive).await;
    let files = || async {
        let mut listed = archive.bucket().list("").await.unwrap();
        listed.retain(|object| !object.key.contains("_delta_log"));
        listed
    };
    let before = files().await;
    let folder = tempfile::tempdir().unwrap();

    let refused = command_line(&archive, &folder.path().join("nowhere"));
    let message = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{message}");
    for word in ["temporary file", "ephemeral storage"] {
        assert!(message.contains(word), "`{word}` is missing in: {message}");
    }
    assert_eq!(files().await, before);

    let done = command_line(&archive, folder.path());
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let totals: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(
        (&totals["files_in"], &totals["files_out"], &totals["rows_out"]),
        (&json!(4), &json!(2), &json!(4))
    );
}

#[tokio::test]
#[ignore = "needs the release binaries: run tests/run"]
async fn an_unknown_dataset_and_an_invalid_day_are_errors() {
    let deployment = FunctionDeployment::new().await;
    let archive = Box::pin(EmbeddedArchive::start()).await;
    let (api, compactor) = start_before_bucket("compactor", &deployment, &archive).await;
    for (request, word) in
        [(json!({ "dataset": "atempts" }), "attempts"), (json!({ "dt": "06.02.2026" }), "yyyy-mm-dd")]
    {
        let message = error(api.invoke(request.to_string(), TIME).await, &compactor);
        assert!(message.contains(word), "{request}: {message}");
    }
}

#[tokio::test]
#[ignore = "needs the release binaries: run tests/run"]
async fn a_missing_setting_of_the_compactor_is_named_at_start_up() {
    let message =
        refusal_to_start_of("compactor", &[("AFTERWRITE_MODEL", "exambuddy"), ("AWS_REGION", "eu-west-1")])
            .await;
    assert!(message.contains("AFTERWRITE_BUCKET"), "{message}");
}
