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

use afterwrite_model::record::Timestamp;
use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_services::config::EnvironmentSettings;
use futures::future::LocalBoxFuture;
use futures::{FutureExt as _, TryFutureExt as _};
use lambda_runtime::{Diagnostic, LambdaEvent, service_fn, tracing};
use lambda_runtime_api_client::body::Body;
use lambda_runtime_api_client::{PooledClient, build_request};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use crate::failure::FunctionFailure;
use crate::logging::start_logging;

/// Time before Lambda's deadline that is reserved for sending the response.
const RESPONSE_RESERVE: Duration = Duration::from_millis(500);
/// How long the report of a failed start may take.
const REPORT_LIMIT: Duration = Duration::from_secs(2);

/// A Lambda function, ready for invocations.
///
/// It is used as an object: the runtime is compiled once for all functions, and each function once for all programs that host it.
pub trait LambdaFunction {
    /// Handles one invocation; returns the JSON of the response (see [`response_json`]). An error fails the invocation.
    fn handle(&self, invocation: Invocation) -> HandledInvocation<'_>;
}

/// The JSON of the response, when it is ready.
pub type HandledInvocation<'f> = LocalBoxFuture<'f, Result<Box<RawValue>>>;

/// A response as JSON.
///
/// # Errors
/// [`ErrorKind::State`] if the response cannot be serialized.
pub fn response_json(response: &impl Serialize) -> Result<Box<RawValue>> {
    to_raw_value(response)
        .map_err(|error| Error::new(ErrorKind::State, "the response cannot be serialized").caused_by(error))
}

/// One invocation.
#[derive(Clone, Debug)]
pub struct Invocation {
    payload: Box<RawValue>,
    deadline: Timestamp,
}

impl Invocation {
    /// An invocation outside Lambda, which ends at this time.
    ///
    /// # Errors
    /// [`ErrorKind::Event`] if the payload is not JSON.
    pub fn new(payload: &[u8], lambda_deadline: Timestamp) -> Result<Self> {
        let payload = serde_json::from_slice(payload).map_err(|error| {
            Error::new(ErrorKind::Event, "the payload of the invocation is not JSON").caused_by(error)
        })?;
        Ok(Self { payload, deadline: lambda_deadline.minus(RESPONSE_RESERVE) })
    }

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

/// Creates a function.
type FunctionStart = Box<dyn FnOnce(EnvironmentSettings) -> LocalBoxFuture<'static, Result<StartedFunction>>>;
type StartedFunction = Box<dyn LambdaFunction>;

/// Runs the function `name` until Lambda ends its process. `start` creates it from the environment's settings.
pub fn run<F, S>(name: &'static str, start: impl FnOnce(EnvironmentSettings) -> S + 'static) -> ExitCode
where
    F: LambdaFunction + 'static,
    S: Future<Output = Result<F>> + 'static,
{
    let boxed = |function| Box::new(function) as StartedFunction;
    run_object(name, Box::new(move |settings| Box::pin(start(settings).map_ok(boxed))))
}

fn run_object(name: &'static str, start: FunctionStart) -> ExitCode {
    start_logging();
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

fn serve(settings: EnvironmentSettings, start: FunctionStart) -> Result<()> {
    check_runtime_api(settings.runtime_api.as_deref())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| unavailable("the async runtime cannot be started", error))?;
    runtime.block_on(async {
        let function = match start(settings).await {
            Ok(function) => function,
            Err(error) => {
                report_failed_start(&error).await;
                return Err(error);
            }
        };
        let serving = lambda_runtime::run(service_fn(|event| handle(&*function, event)));
        serving.await.map_err(|error| unavailable("the Lambda Runtime API cannot be reached", error))
    })
}

/// The runtime panics if the address of its API is not one.
fn check_runtime_api(address: Option<&str>) -> Result<()> {
    let problem = match address.map(|address| build_request().uri(address)) {
        None => "is not set",
        Some(request) if request.uri_ref().is_some_and(|uri| uri.authority().is_some()) => return Ok(()),
        Some(_) => "is not a host and a port",
    };
    Err(Error::new(ErrorKind::Configuration, format!("AWS_LAMBDA_RUNTIME_API {problem}"))
        .hint("This program is a Lambda function: deploy it, and Lambda sets the variable"))
}

async fn handle(
    function: &dyn LambdaFunction,
    event: LambdaEvent<Box<RawValue>>,
) -> Result<Box<RawValue>, FunctionFailure> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_the_runtime_api_is_a_host_and_a_port() {
        for address in ["127.0.0.1:9001", "localhost:80", "http://[::1]:9001"] {
            assert!(check_runtime_api(Some(address)).is_ok(), "{address}");
        }
        for address in [None, Some("a b"), Some("/path"), Some("host:1:2"), Some("http://"), Some("::")] {
            let error = check_runtime_api(address).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Configuration);
            assert!(error.to_string().starts_with("AWS_LAMBDA_RUNTIME_API is not "), "{error}");
        }
    }
}
