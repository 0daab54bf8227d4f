//! Functions in processes of their own, through the Lambda Runtime API.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

use afterwrite_mapping::EventHandler as _;
use afterwrite_mapping::runtime::{FunctionPool, FunctionProgram};
use afterwrite_model::ErrorKind;
use afterwrite_tests::deployment::{FunctionDeployment, STATE};
use afterwrite_tests::programs::program;
use serde_json::Value;
use tempfile::TempDir;

const REMAINING: Duration = Duration::from_secs(20);

/// A custom runtime in Python; `BODY` responds to an event.
const BOOTSTRAP: &str = r#"#!/usr/bin/env python3
import json, os, sys, time, urllib.request

API = "http://" + os.environ["AWS_LAMBDA_RUNTIME_API"] + "/2018-06-01/runtime/"

def post(path, body):
    request = urllib.request.Request(API + path, data=json.dumps(body).encode(), method="POST")
    try:
        return urllib.request.urlopen(request).status
    except urllib.error.HTTPError as error:
        return error.code

INIT
while True:
    with urllib.request.urlopen(API + "invocation/next") as next_event:
        headers, event = dict(next_event.headers), json.load(next_event)
    request = headers["lambda-runtime-aws-request-id"]
    BODY
"#;

fn function(folder: &TempDir, init: &str, body: &str) -> FunctionProgram {
    let path: PathBuf = folder.path().join("bootstrap");
    let script = BOOTSTRAP.replace("INIT", init).replace("BODY", body);
    let mut file = std::fs::File::create(&path).unwrap();
    file.write_all(script.as_bytes()).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    let variables = vec![("GREETING".to_owned(), "hello".to_owned())];
    FunctionProgram { name: "consumer".to_owned(), path, variables }
}

#[tokio::test]
async fn a_program_of_any_language_gets_the_event_and_lambdas_headers_and_variables() {
    let folder = tempfile::tempdir().unwrap();
    let body = r#"post("invocation/" + request + "/response", {
        "event": event, "headers": headers, "pid": os.getpid(),
        "environment": {name: os.environ.get(name) for name in ["GREETING", "AWS_LAMBDA_FUNCTION_NAME", "_HANDLER"]},
        "late": (int(headers["lambda-runtime-deadline-ms"]) / 1000 - time.time()) > 25,
    })"#;
    let pool = FunctionPool::start(function(&folder, "", body)).await.unwrap();
    let mut processes = Vec::new();
    for _ in 0..2 {
        let response = pool.handle(br#"{"Records":[1]}"#.to_vec(), REMAINING).await.unwrap();
        let response: Value = serde_json::from_slice(&response).unwrap();
        assert_eq!(response["event"]["Records"][0], 1);
        assert_eq!(response["environment"]["GREETING"], "hello");
        assert_eq!(response["environment"]["AWS_LAMBDA_FUNCTION_NAME"], "consumer");
        assert_eq!(response["late"], false);
        let headers = &response["headers"];
        assert_eq!(headers["lambda-runtime-aws-request-id"].as_str().unwrap().len(), 36);
        let arn = "arn:aws:lambda:us-east-1:000000000000:function:consumer";
        assert_eq!(headers["lambda-runtime-invoked-function-arn"], arn);
        assert!(headers["lambda-runtime-trace-id"].as_str().unwrap().starts_with("Root=1-"));
        processes.push(response["pid"].as_u64());
    }
    assert_eq!(processes[0], processes[1], "a warm process is used again");
}

#[tokio::test]
async fn invocations_at_the_same_time_get_processes_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let body = r#"time.sleep(0.3); post("invocation/" + request + "/response", os.getpid())"#;
    let pool = FunctionPool::new(function(&folder, "", body));
    let (one, other) =
        tokio::join!(pool.handle(b"{}".to_vec(), REMAINING), pool.handle(b"{}".to_vec(), REMAINING));
    assert_ne!(one.unwrap(), other.unwrap());
}

#[tokio::test]
async fn a_reported_error_fails_the_invocation_with_its_type_and_message() {
    let folder = tempfile::tempdir().unwrap();
    let body = r#"post("invocation/" + request + "/error", {"errorType": "Boom", "errorMessage": "no"})"#;
    let pool = FunctionPool::new(function(&folder, "", body));
    let error = pool.handle(b"{}".to_vec(), REMAINING).await.unwrap_err();
    assert_eq!(error.to_string(), "the function consumer failed: Boom: no");
    assert!(!error.is_retryable());
}

#[tokio::test]
async fn a_process_that_exits_fails_the_invocation_and_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let body = r#"
    if event.get("die"):
        sys.exit(3)
    post("invocation/" + request + "/response", "alive")"#;
    let pool = FunctionPool::new(function(&folder, "", body));
    let error = pool.handle(br#"{"die": true}"#.to_vec(), REMAINING).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("exit status: 3"), "{error}");
    assert_eq!(pool.handle(b"{}".to_vec(), REMAINING).await.unwrap(), b"\"alive\"");
}

#[tokio::test]
async fn an_error_at_the_start_fails_the_invocation_that_waits_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let init = r#"
time.sleep(0.3)
post("init/error", {"errorType": "Runtime.InitError", "errorMessage": "no settings"})
sys.exit(1)"#;
    let pool = FunctionPool::new(function(&folder, init, "pass"));
    let error = pool.handle(b"{}".to_vec(), REMAINING).await.unwrap_err();
    assert_eq!(error.to_string(), "the function consumer failed: Runtime.InitError: no settings");
}

#[tokio::test]
async fn an_unknown_request_id_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let body = r#"
    unknown = post("invocation/unknown/response", 1)
    first = post("invocation/" + request + "/response", unknown)
    if os.path.exists("second"): pass"#;
    let pool = FunctionPool::new(function(&folder, "", body));
    assert_eq!(pool.handle(b"{}".to_vec(), REMAINING).await.unwrap(), b"400");
}

#[tokio::test]
async fn a_dropped_invocation_kills_its_process() {
    let folder = tempfile::tempdir().unwrap();
    let marker = folder.path().join("finished");
    let body = format!(
        r#"time.sleep(1); open("{}", "w").close(); post("invocation/" + request + "/response", 1)"#,
        marker.display()
    );
    let pool = FunctionPool::new(function(&folder, "", &body));
    let handling = pool.handle(b"{}".to_vec(), REMAINING);
    assert!(tokio::time::timeout(Duration::from_millis(400), handling).await.is_err());
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!marker.exists(), "the process went on");
}

#[tokio::test]
async fn a_program_that_cannot_be_started_is_named() {
    let program = FunctionProgram { name: "x".to_owned(), path: "./not-there".into(), variables: Vec::new() };
    let error = FunctionPool::start(program).await.map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration);
    assert!(error.to_string().contains("./not-there"), "{error}");
}

#[tokio::test]
#[ignore = "needs the release binaries: run tests/run"]
async fn the_deployed_aggregator_counts_under_the_runtime_api() {
    let deployment = FunctionDeployment::new().await;
    deployment.put_project("p1").await;
    deployment.put_attempt("p1", "t1").await;
    let records = deployment.records().await;
    let event = serde_json::json!({ "Records": records }).to_string().into_bytes();
    let endpoint = deployment.endpoint();
    let variables = [
        ("AFTERWRITE_MODEL", "exambuddy"),
        ("AFTERWRITE_STATE_TABLE", STATE),
        ("AWS_ENDPOINT_URL_DYNAMODB", endpoint.as_str()),
        ("AWS_REGION", "us-east-1"),
        ("AWS_ACCESS_KEY_ID", "test"),
        ("AWS_SECRET_ACCESS_KEY", "test"),
    ];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let aggregator =
        FunctionProgram { name: "aggregator".to_owned(), path: program("aggregator"), variables };
    let pool = FunctionPool::start(aggregator).await.unwrap();
    for _ in 0..2 {
        let response = pool.handle(event.clone(), REMAINING).await.unwrap();
        assert_eq!(response, br#"{"batchItemFailures":[]}"#);
    }
    let total = deployment.item(STATE, "ADMIN#a1", "ROLLUP#TOTAL").await;
    assert_eq!(total["attempts"], "1");
}
