//! The deployed function `verifier`.

use std::time::Duration;

use afterwrite_services::Bucket as _;
use afterwrite_tests::archive::EmbeddedArchive;
use afterwrite_tests::deployment::{FunctionDeployment, event};
use afterwrite_tests::runtime_api::{FunctionProcess, RuntimeApi};
use futures::TryStreamExt as _;
use serde_json::{Value, json};

use super::exporter::start_before_bucket;
use super::{TIME, assert_all_handled, assert_measured, error, metrics, refusal_to_start_of, response};

/// Long enough for the pauses and the tolerance.
const LONG: Duration = Duration::from_secs(150);

async fn verified(api: &RuntimeApi, verifier: &FunctionProcess) -> Value {
    let request = json!({ "verify": { "sample": 1, "tolerance_seconds": 1 } });
    response(api.invoke(request.to_string(), LONG).await, verifier)
}

#[tokio::test]
#[ignore = "needs the release binaries: run tests/run"]
async fn drift_is_measured_and_reported_in_the_bucket() {
    let deployment = FunctionDeployment::new().await;
    let archive = Box::pin(EmbeddedArchive::start()).await;
    let (counting, aggregator) = start_before_bucket("aggregator", &deployment, &archive).await;
    deployment.put_project("p1").await;
    deployment.put_attempt("p1", "t1").await;
    let records = deployment.records().await;
    assert_all_handled(counting.invoke(event(&records), TIME).await, &aggregator);

    let (api, verifier) = start_before_bucket("verifier", &deployment, &archive).await;
    let right = verified(&api, &verifier).await;
    assert_eq!((&right["drifted_targets"], &right["drift"]), (&json!(0), &json!(0)), "{right}");
    assert_eq!((&right["read"]["rollups"], &right["read"]["items"]), (&json!(1.0), &json!(1.0)), "{right}");
    // Nothing was exported, and no heartbeat: the rows of both items are undecided.
    assert_eq!(right["undecided_targets"], json!(2), "{right}");

    deployment.put_attempt("p1", "unseen").await;
    let wrong = verified(&api, &verifier).await;
    assert_eq!(wrong["drifted_targets"], json!(1), "{wrong}");
    let findings = wrong["findings"].as_str().unwrap();
    assert!(findings.starts_with("reports/verify/") && findings.ends_with(".jsonl"), "{findings}");
    let lines = archive.bucket().get(findings).await.unwrap().unwrap();
    let lines = String::from_utf8(lines.try_collect::<Vec<_>>().await.unwrap().concat()).unwrap();
    let finding: Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    assert_eq!((&finding["place"], &finding["verdict"]), (&json!("ledger"), &json!("drift")), "{lines}");
    let reports = archive.bucket().list("reports/verify/").await.unwrap();
    assert_eq!(reports.iter().filter(|report| report.key.ends_with(".json")).count(), 2);
    let output = verifier.output();
    let measured = metrics(&output);
    for name in ["CheckedTargets", "DriftedTargets", "UndecidedTargets"] {
        assert_measured(measured.last().unwrap(), name, "Count");
    }
    assert!(!output.contains("unseen"), "no log has the content of an item: {output}");
}

#[tokio::test]
#[ignore = "needs the release binaries: run tests/run"]
async fn a_request_that_is_not_valid_is_an_error_with_an_example() {
    let deployment = FunctionDeployment::new().await;
    let archive = Box::pin(EmbeddedArchive::start()).await;
    let (api, verifier) = start_before_bucket("verifier", &deployment, &archive).await;
    for request in [json!({ "verify": { "sample": 2 } }), json!({ "verify": { "share": 1 } })] {
        let message = error(api.invoke(request.to_string(), TIME).await, &verifier);
        assert!(message.contains("sample"), "{request}: {message}");
    }
}

#[tokio::test]
#[ignore = "needs the release binaries: run tests/run"]
async fn a_missing_setting_of_the_verifier_is_named_at_start_up() {
    let message =
        refusal_to_start_of("verifier", &[("AFTERWRITE_MODEL", "exambuddy"), ("AWS_REGION", "eu-west-1")])
            .await;
    assert!(message.contains("AFTERWRITE_STATE_TABLE"), "{message}");
}
