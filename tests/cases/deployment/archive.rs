//! Archive objects that are not compressed; replays into a new table; failed records that may not be read.

use std::collections::{BTreeMap, HashMap};
use std::io::Read as _;
use std::sync::Arc;

use afterwrite_memory::MemoryObjects;
use afterwrite_model::table::Model;
use afterwrite_tests::datasets::{archive_objects, export};
use afterwrite_tests::deployment::{FunctionDeployment, SOURCE, STATE};
use afterwrite_tests::loopback::LoopbackServer;
use afterwrite_tests::recording::StreamRecording;
use flate2::read::MultiGzDecoder;
use http_body_util::Full;
use hyper::{Response, StatusCode};
use serde_json::Value;

use super::{afterwrite, text};

#[tokio::test]
async fn h10_the_exporter_reads_objects_that_are_not_compressed() {
    let model = Arc::new(Model::load("exambuddy").expect("a built-in model"));
    let compressed = archive_objects(&StreamRecording::load("exam-42"), 700);
    let plain: BTreeMap<String, Vec<u8>> = compressed
        .iter()
        .map(|(key, object)| {
            let mut lines = Vec::new();
            MultiGzDecoder::new(&**object).read_to_end(&mut lines).expect("gzip");
            (key.clone(), lines)
        })
        .collect();
    let mut totals = Vec::new();
    for objects in [compressed, plain] {
        let bucket = Arc::new(MemoryObjects::default());
        totals.push(format!("{:?}", export(&model, &bucket, &objects).await));
    }
    assert_eq!(totals[0], totals[1]);
    assert!(totals[0].contains("rows"), "{}", totals[0]);
}

/// A server that refuses every request as S3 does.
async fn refusing_s3() -> LoopbackServer {
    let refuse = |_| async {
        let body = "<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code><Message>no</Message></Error>";
        let mut response = Response::new(Full::from(body));
        *response.status_mut() = StatusCode::FORBIDDEN;
        Ok(response)
    };
    LoopbackServer::serve(refuse).await.expect("a port")
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn h8_a_bucket_of_failed_records_that_may_not_be_read_is_named_with_the_setting_that_admits_readers() {
    let (deployment, s3) = (FunctionDeployment::new().await, refusing_s3().await);
    let settings = HashMap::from([
        ("AWS_ENDPOINT_URL", deployment.endpoint()),
        ("AWS_ENDPOINT_URL_S3", s3.endpoint()),
        ("AFTERWRITE_STATE_TABLE", STATE.to_owned()),
    ]);
    let run = |arguments: &[&str]| tokio::task::block_in_place(|| afterwrite(arguments, &settings));
    let failures = "s3://exams-failures-123456789012-eu-west-1/aws/lambda/";
    for arguments in [
        &["redrive", failures, "--yes", "--without-recovery"][..],
        &["redrive", failures, "--dry-run"],
        &["record", failures],
    ] {
        let output = run(arguments);
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {errors}");
        for named in
            ["exams-failures-123456789012-eu-west-1", "redrive_principal_arns", "RedrivePrincipalArn"]
        {
            assert!(errors.contains(named), "{arguments:?} does not name {named}: {errors}");
        }
        assert!(!errors.contains("AFTERWRITE_BUCKET"), "{errors}");
    }
    // Another bucket that a command names.
    let errors = text(&run(&["record", "s3://my-archive/archive/"]).stderr);
    assert!(errors.contains("my-archive") && !errors.contains("redrive_principal_arns"), "{errors}");
    assert!(errors.contains("name the right one in the command"), "{errors}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn h11_a_replay_into_a_new_table_counts_what_it_wrote() {
    let deployment = FunctionDeployment::new().await;
    for project in ["p1", "p2"] {
        deployment.put_project(project).await;
        for question in ["q1", "q2", "q3"] {
            deployment.put_question(project, &format!("{project}-{question}")).await;
        }
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("records.jsonl");
    let lines: String = deployment.records().await.iter().map(|record| format!("{record}\n")).collect();
    std::fs::write(&file, lines).expect("a file");
    deployment.create_table("fresh", ["PK", "SK"]).await;
    let settings = HashMap::from([
        ("AWS_ENDPOINT_URL", deployment.endpoint()),
        ("AFTERWRITE_STATE_TABLE", STATE.to_owned()),
    ]);
    let file = file.to_str().expect("a path in UTF-8");
    let replay = |more: &[&str]| {
        let arguments = [&["replay", file, "--yes", "--json"], more].concat();
        let output = tokio::task::block_in_place(|| afterwrite(&arguments, &settings));
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        serde_json::from_slice::<Value>(&output.stdout).expect("a report")
    };
    let before = deployment.scan(SOURCE).await;
    let report = replay(&["--into", "fresh"]);
    assert_eq!(deployment.scan(SOURCE).await, before, "a mirror was written");
    assert!(report["totals"]["ledger_writes"].as_u64() > Some(0), "{report}");
    assert!(report["totals"]["mirrors"].is_null(), "{report}");
    // Over the live table, copies are written and counted.
    let report = replay(&["--without-recovery"]);
    assert!(report["totals"]["mirrors"].as_u64() > Some(0), "{report}");
}
