//! The error reports of a function that cannot start, or cannot use an invocation's payload.

use std::io::Write as _;
use std::process::Command;

use afterwrite_local::sdk::CREDENTIAL;
use afterwrite_tests::deployment::{FunctionDeployment, event};
use afterwrite_tests::programs::program;
use afterwrite_tests::runtime_api::{FunctionProcess, RuntimeApi};
use serde_json::{Value, json};

use super::{TIME, assert_all_handled, failure, failure_to_start, metrics};

const FUNCTIONS: [&str; 6] = ["aggregator", "relay", "invalidator", "exporter", "compactor", "verifier"];

/// Everything that any function needs to start. Nothing listens at the endpoint.
const SETTINGS: [(&str, &str); 9] = [
    ("AFTERWRITE_MODEL", "exambuddy"),
    ("AFTERWRITE_STATE_TABLE", "state"),
    ("AFTERWRITE_FIREHOSE_STREAM", "changes"),
    ("AFTERWRITE_BUCKET", "lake"),
    ("AFTERWRITE_CLOUDFRONT_DISTRIBUTION", "EXAMPLE"),
    ("AWS_REGION", "eu-west-1"),
    ("AWS_ENDPOINT_URL", "http://127.0.0.1:9"),
    ("AWS_ACCESS_KEY_ID", CREDENTIAL),
    ("AWS_SECRET_ACCESS_KEY", CREDENTIAL),
];

async fn started(function: &str, settings: &[(&str, &str)]) -> (RuntimeApi, FunctionProcess) {
    let api = RuntimeApi::start().await.unwrap();
    let function = FunctionProcess::start(&program(function), &api, settings).unwrap();
    api.ready().await.unwrap_or_else(|error| panic!("{}", error.message));
    (api, function)
}

#[tokio::test]
#[ignore = "needs the release binaries: run tests/run"]
async fn no_function_starts_without_a_model() {
    for function in FUNCTIONS {
        let error = failure_to_start(function, &SETTINGS[1..]).await;
        assert_eq!(error.kind, "ConfigurationError", "{function}");
        assert!(error.message.starts_with("AFTERWRITE_MODEL is not set. "), "{function}: {}", error.message);
    }
}

#[tokio::test]
#[ignore = "needs the release binaries: run tests/run"]
async fn a_wrong_model_is_reported_as_the_command_line_reports_it() {
    let mut file = tempfile::Builder::new().suffix(".toml").tempfile().unwrap();
    file.write_all(b"name = \"shelf\"\ngeneration = 0\n[tables.shelf]\nkey = [\"pk\"]\n[entities.book]\n")
        .unwrap();
    let path = file.path().to_str().unwrap();
    let command_line =
        Command::new(program("afterwrite")).args(["compact", "--model", path]).output().unwrap();
    let printed = String::from_utf8(command_line.stderr).unwrap();
    let settings = [&[("AFTERWRITE_MODEL", path)], &SETTINGS[1..]].concat();
    let error = failure_to_start("aggregator", &settings).await;
    assert_eq!(error.kind, "ModelError");
    assert!(error.message.lines().count() > 1, "a problem has a line of its own: {}", error.message);
    assert_eq!(printed, format!("afterwrite: {}\n", error.message));
}

#[tokio::test]
#[ignore = "needs the release binaries: run tests/run"]
async fn a_payload_of_another_service_is_named() {
    let dynamodb = json!({ "Records": [{ "eventID": "1", "eventSource": "aws:dynamodb", "dynamodb": {} }] });
    let sqs = json!({ "Records": [{ "messageId": "1", "body": "{}", "eventSource": "aws:sqs" }] });
    let kinesis =
        json!({ "Records": [{ "eventID": "1", "eventSource": "aws:kinesis", "kinesis": { "data": "" } }] });
    let sns = json!({ "Records": [{ "EventSource": "aws:sns", "Sns": { "Message": "{}" } }] });
    let s3 = json!({ "Records": [{ "eventSource": "aws:s3", "s3": { "bucket": {}, "object": {} } }] });
    let s3_test = json!({ "Service": "Amazon S3", "Event": "s3:TestEvent", "Bucket": "lake" });
    let schedule =
        json!({ "version": "0", "detail-type": "Scheduled Event", "source": "aws.events", "detail": {} });
    let stream_readers: &[(&str, &Value)] = &[
        ("an SQS event", &sqs),
        ("a Kinesis event", &kinesis),
        ("an SNS event", &sns),
        ("an S3 event", &s3),
        ("an S3 event", &s3_test),
        ("an EventBridge event", &schedule),
    ];
    let invalidator: &[(&str, &Value)] = &[
        ("a DynamoDB stream event", &dynamodb),
        ("a Kinesis event", &kinesis),
        ("an SNS event", &sns),
        ("an S3 event", &s3),
        ("an S3 event", &s3_test),
        ("an EventBridge event", &schedule),
    ];
    let exporter: &[(&str, &Value)] = &[
        ("a DynamoDB stream event", &dynamodb),
        ("a Kinesis event", &kinesis),
        ("an SNS event", &sns),
        ("an EventBridge event", &schedule),
    ];
    let compactor: &[(&str, &Value)] = &[
        ("a DynamoDB stream event", &dynamodb),
        ("an SQS event", &sqs),
        ("a Kinesis event", &kinesis),
        ("an SNS event", &sns),
        ("an S3 event", &s3),
        ("an S3 event", &s3_test),
    ];
    for (name, payloads, reads) in [
        ("aggregator", stream_readers, "DynamoDB stream events"),
        ("relay", stream_readers, "DynamoDB stream events"),
        ("invalidator", invalidator, "SQS messages of the relay"),
        ("exporter", exporter, "S3 events"),
        ("compactor", compactor, "compaction requests"),
        ("verifier", compactor, "verification requests"),
    ] {
        let (api, function) = started(name, &SETTINGS).await;
        for (named, payload) in payloads {
            let error = failure(api.invoke(payload.to_string(), TIME).await, &function);
            assert_eq!(error.kind, "PayloadError", "{name}: {}", error.message);
            let expected = format!("this is {named}; {name} reads {reads}");
            assert!(error.message.starts_with(&expected), "`{expected}`: {}", error.message);
        }
        let output = function.stop();
        assert!(metrics(&output).is_empty(), "no batch was handled: {output}");
    }
}

#[tokio::test]
#[ignore = "needs the release binaries: run tests/run"]
async fn an_error_type_is_a_stable_name() {
    let deployment = FunctionDeployment::new().await;
    deployment.put_project("p1").await;
    let records = event(&deployment.records().await);
    let (api, function) = deployment.function(&program("aggregator"), &[]).await;
    let of_another_table = records.replace("table/ExamBuddyTable/", "table/SomebodyElsesTable/");
    let mut expected_lines = Vec::new();
    for (payload, kind) in [("{}".to_owned(), "PayloadError"), (of_another_table, "StreamError")] {
        let error = failure(api.invoke(payload, TIME).await, &function);
        assert_eq!(error.kind, kind, "{}", error.message);
        expected_lines.push(format!("{kind}: {}", error.message));
    }
    let output = function.stop();
    for line in expected_lines {
        assert!(output.contains(&line), "`{line}` is not logged: {output}");
    }
    let (api, function) =
        deployment.function(&program("aggregator"), &[("AFTERWRITE_STATE_TABLE", "NoSuchTable")]).await;
    let error = failure(api.invoke(records, TIME).await, &function);
    assert_eq!(error.kind, "ConfigurationError", "{}", error.message);
}

#[tokio::test]
#[ignore = "needs the release binaries: run tests/run"]
async fn an_unknown_variable_is_warned_about_once() {
    let deployment = FunctionDeployment::new().await;
    let unknown = [("AFTERWRITE_TABELS", "x=y"), ("AFTERWRITE_COLOUR_SCHEME", "dark")];
    let (api, function) = deployment.function(&program("aggregator"), &unknown).await;
    deployment.put_project("p1").await;
    let records = event(&deployment.records().await);
    for _ in 0..2 {
        assert_all_handled(api.invoke(records.clone(), TIME).await, &function);
    }
    let output = function.stop();
    for warning in [
        "AFTERWRITE_TABELS is not a setting of Afterwrite and is ignored; did you mean AFTERWRITE_TABLES?",
        "AFTERWRITE_COLOUR_SCHEME is not a setting of Afterwrite and is ignored\n",
    ] {
        assert_eq!(output.matches(warning).count(), 1, "`{warning}` in: {output}");
    }
    assert_eq!(output.matches("is not a setting").count(), 2, "{output}");
}
