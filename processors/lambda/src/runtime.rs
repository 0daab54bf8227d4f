//! A function's process: start-up, then one invocation after another.
//!
//! ```text
//! settings ─▶ start ──▶ next invocation ─▶ handle ─▶ response or error ─┐
//!               │              ▲                                       │
//!               │              └───────────────────────────────────────┘
//!               └─ failed ─▶ printed, and reported to /runtime/init/error; the process ends
//! ```

use std::panic::AssertUnwindSafe;
use std::process::ExitCode;
use std::time::Duration;

use afterwrite::config::EnvironmentSettings;
use afterwrite::record::Timestamp;
use afterwrite::{Error, ErrorKind, Result};
use futures::FutureExt as _;
use lambda_runtime::{Diagnostic, LambdaEvent, service_fn, tracing};
use lambda_runtime_api_client::body::Body;
use lambda_runtime_api_client::{PooledClient, build_request};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::failure::FunctionFailure;
use crate::logging;

/// Time before Lambda's deadline that is reserved for sending the response.
const RESPONSE_RESERVE: Duration = Duration::from_millis(500);
/// How long the report of a failed start may take.
const REPORT_LIMIT: Duration = Duration::from_secs(2);

/// A Lambda function, ready for invocations.
pub trait LambdaFunction {
    /// The JSON that an invocation returns.
    type Response: Serialize;

    /// Handles one invocation. An error fails the invocation.
    fn handle(&self, invocation: Invocation) -> impl Future<Output = Result<Self::Response>>;
}

/// One invocation.
#[derive(Clone, Debug)]
pub struct Invocation {
    payload: Box<RawValue>,
    deadline: Timestamp,
}

impl Invocation {
    /// The payload: JSON of any shape.
    #[must_use]
    pub fn payload(&self) -> &str {
        self.payload.get()
    }

    /// When the handler must return: shortly before Lambda ends the invocation.
    #[must_use]
    pub fn deadline(&self) -> Timestamp {
        self.deadline
    }
}

/// Runs the function `name` until Lambda ends its process. `start` creates it from the environment's settings.
pub fn run<F, S>(name: &'static str, start: impl FnOnce(EnvironmentSettings) -> S) -> ExitCode
where
    F: LambdaFunction,
    S: Future<Output = Result<F>>,
{
    logging::start();
    let settings = EnvironmentSettings::from_env();
    for warning in &settings.warnings {
        tracing::warn!("{warning}");
    }
    match serve(settings, start) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{name}: {}", error.report());
            ExitCode::FAILURE
        }
    }
}

fn serve<F, S>(settings: EnvironmentSettings, start: impl FnOnce(EnvironmentSettings) -> S) -> Result<()>
where
    F: LambdaFunction,
    S: Future<Output = Result<F>>,
{
    if settings.runtime_api.is_none() {
        return Err(Error::new(ErrorKind::Configuration, "AWS_LAMBDA_RUNTIME_API is not set")
            .hint("This program is a Lambda function: deploy it, and Lambda sets the variable"));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| unavailable("the async runtime cannot be started", error))?;
    runtime.block_on(async {
        let function = match Box::pin(start(settings)).await {
            Ok(function) => function,
            Err(error) => {
                report_failed_start(&error).await;
                return Err(error);
            }
        };
        let serving = lambda_runtime::run(service_fn(|event| handle(&function, event)));
        serving.await.map_err(|error| unavailable("the Lambda Runtime API cannot be reached", error))
    })
}

async fn handle<F: LambdaFunction>(
    function: &F,
    event: LambdaEvent<Box<RawValue>>,
) -> Result<F::Response, FunctionFailure> {
    let lambda_deadline = Timestamp::from_epoch_ms(i64::try_from(event.context.deadline).unwrap_or(i64::MAX));
    let invocation = Invocation { payload: event.payload, deadline: lambda_deadline.minus(RESPONSE_RESERVE) };
    match AssertUnwindSafe(function.handle(invocation)).catch_unwind().await {
        Ok(handled) => handled.map_err(|error| FunctionFailure::new(&error)),
        Err(panic) => Err(FunctionFailure::from_panic(&*panic)),
    }
}

/// Reports to Lambda that the function cannot start; Lambda fails the invocation that waits for it with this error.
async fn report_failed_start(error: &Error) {
    let body = serde_json::to_vec(&Diagnostic::from(FunctionFailure::new(error))).unwrap_or_default();
    let request = build_request()
        .method("POST")
        .uri("/2018-06-01/runtime/init/error")
        .header("lambda-runtime-function-error-type", "Runtime.InitError")
        .body(Body::from(body));
    let Ok(request) = request else { return };
    let report = PooledClient::builder().build().call(request);
    if !matches!(tokio::time::timeout(REPORT_LIMIT, report).await, Ok(Ok(_))) {
        tracing::warn!("the Lambda Runtime API did not accept the report of the failed start");
    }
}

fn unavailable(message: &str, cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::new(ErrorKind::Unavailable, message).caused_by(cause)
}
