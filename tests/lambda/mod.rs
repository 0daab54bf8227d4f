//! The deployed functions: their release binaries, connected to a Runtime API and embedded servers.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that meets the unexpected must fail at once"
)]

mod aggregator;
mod cache_secret;
mod compactor;
mod events;
mod exporter;
mod failures;
mod invalidator;
mod levels;
mod relay;
mod verifier;

use std::time::Duration;

use afterwrite_mapping::runtime::ReportedError;
use afterwrite_tests::programs::program;
use afterwrite_tests::runtime_api::{FunctionProcess, InvocationResult, RuntimeApi};
use serde_json::{Value, json};

/// Time limit of an invocation and of the end of a process; far more than either takes.
const TIME: Duration = Duration::from_secs(60);

/// The function's response.
fn response(result: InvocationResult, function: &FunctionProcess) -> Value {
    let InvocationResult::Response(response) = &result else {
        panic!("no response but {result:?}; it wrote:\n{}", function.output());
    };
    serde_json::from_slice(response).unwrap()
}

/// The function has handled all records or messages.
fn assert_all_handled(result: InvocationResult, function: &FunctionProcess) {
    assert_eq!(response(result, function), json!({ "batchItemFailures": [] }), "{}", function.output());
}

/// The message with which the function failed the invocation.
fn error(result: InvocationResult, function: &FunctionProcess) -> String {
    failure(result, function).message
}

/// The error with which the function failed the invocation.
fn failure(result: InvocationResult, function: &FunctionProcess) -> ReportedError {
    let InvocationResult::Error(error) = result else {
        panic!("no error but {result:?}; it wrote:\n{}", function.output());
    };
    error
}

/// The metrics that a function has printed: a line for each batch.
fn metrics(output: &str) -> Vec<Value> {
    let lines = output.lines().filter(|line| line.contains("CloudWatchMetrics"));
    lines.map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The line declares a metric of this name and unit for CloudWatch, and has its value.
fn assert_measured(line: &Value, name: &str, unit: &str) {
    let listed = line["_aws"]["CloudWatchMetrics"][0]["Metrics"].as_array().unwrap();
    assert!(listed.contains(&json!({ "Name": name, "Unit": unit })), "{name} is not a metric of {line}");
    assert!(line[name].is_u64(), "{name} has no value in {line}");
}

/// The message of a function that cannot start. The function reports it to the Runtime API, prints it, and ends.
async fn refusal_to_start_of(function: &str, environment: &[(&str, &str)]) -> String {
    failure_to_start(function, environment).await.message
}

/// The error of a function that cannot start.
async fn failure_to_start(name: &str, environment: &[(&str, &str)]) -> ReportedError {
    let api = RuntimeApi::start().await.unwrap();
    let mut function = FunctionProcess::start(&program(name), &api, environment).unwrap();
    let status = function.exited(TIME).await.unwrap().expect("it ends by itself");
    assert!(!status.success());
    let error = api.start_error().expect("it is reported to the Runtime API");
    let printed = format!("{name}: {}\n", error.message);
    assert!(
        function.output().ends_with(&printed),
        "`{printed}` is not what was printed: {}",
        function.output()
    );
    error
}
