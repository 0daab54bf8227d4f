//! A function's process: start-up, then one invocation after another.
//!
//! ```text
//! settings ─▶ start ──▶ next invocation ─▶ handle ─▶ response or error ─┐
//!               │              ▲                                       │
//!               │              └───────────────────────────────────────┘
//!               └─ failed ─▶ printed, and reported to /runtime/init/error; the process ends
//! ```
//!
//! A [`BatchResponse`] names the records that failed. An invocation that fails as a whole is reported as a `FunctionFailure`: a stable type for
//! alarms and retry rules, and a text for people.

use std::any::Any;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::process::ExitCode;
use std::time::Duration;

use afterwrite_model::harmless::harmless;
use afterwrite_model::record::Timestamp;
use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_services::config::EnvironmentSettings;
use futures::future::LocalBoxFuture;
use futures::{FutureExt as _, TryFutureExt as _};
use lambda_runtime::{Diagnostic, LambdaEvent, service_fn, tracing};
use lambda_runtime_api_client::body::Body;
use lambda_runtime_api_client::{PooledClient, build_request};
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use crate::logging::{LogOutput, start_logging};

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

/// Lambda's partial batch response, for event source mappings with `ReportBatchItemFailures`.
///
/// Without failures the batch succeeded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BatchResponse {
    /// The records that Lambda redelivers. Of a stream: everything from the lowest sequence number on, so one entry is enough; an empty
    /// identifier redelivers the whole batch. Of a queue: each message that failed.
    pub batch_item_failures: Vec<BatchItemFailure>,
}

/// A failed stream record or queue message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BatchItemFailure {
    /// The record's sequence number, or the message's id.
    pub item_identifier: String,
}

impl BatchResponse {
    /// Reads a response; a text of another form has no failures.
    #[must_use]
    pub fn read(response: &[u8]) -> Self {
        serde_json::from_slice(response).unwrap_or_default()
    }

    /// Whether the record or message with this identifier failed.
    #[must_use]
    pub fn has_failed(&self, identifier: &str) -> bool {
        self.batch_item_failures.iter().any(|failure| failure.item_identifier == identifier)
    }

    /// The response for a stream's batch: the lowest of these sequence numbers.
    #[must_use]
    pub fn lowest(sequence_numbers: impl IntoIterator<Item = String>) -> Self {
        let lowest = sequence_numbers.into_iter().min_by_key(|number| numeric_order(number));
        let failures = lowest.map(|item_identifier| BatchItemFailure { item_identifier });
        Self { batch_item_failures: failures.into_iter().collect() }
    }

    /// The response for a stream's batch that several handlers processed: the lowest failure of any.
    #[must_use]
    pub fn merged(responses: impl IntoIterator<Item = Self>) -> Self {
        let failures = responses.into_iter().flat_map(|response| response.batch_item_failures);
        Self::lowest(failures.map(|failure| failure.item_identifier))
    }
}

/// Digits of any length compare as numbers once leading zeros are removed; an empty identifier (the whole batch) is the lowest.
fn numeric_order(sequence_number: &str) -> (usize, String) {
    let digits = sequence_number.trim_start_matches('0').to_owned();
    (digits.len(), digits)
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
    start_logging(LogOutput::StandardOutput);
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

/// Why an invocation, or the start of the function, failed.
#[derive(Clone, PartialEq, Eq)]
struct FunctionFailure {
    error_type: &'static str,
    message: String,
}

impl FunctionFailure {
    /// An error with its causes.
    fn new(error: &Error) -> Self {
        Self { error_type: error.kind().name(), message: error.report() }
    }

    /// A panic is a defect. The runtime catches it, and the process handles the next invocation.
    fn from_panic(payload: &(dyn Any + Send)) -> Self {
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        let message = format!("the function panicked: {}", harmless(text.unwrap_or("no message")));
        Self { error_type: "PanicError", message }
    }
}

/// Its report for the Runtime API.
impl From<FunctionFailure> for Diagnostic {
    fn from(FunctionFailure { error_type, message }: FunctionFailure) -> Self {
        Self { error_type: error_type.to_owned(), error_message: message }
    }
}

impl fmt::Display for FunctionFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.error_type, self.message)
    }
}

/// The runtime logs failures by `Debug`.
impl fmt::Debug for FunctionFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
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

    #[test]
    fn a_failure_has_a_stable_type_and_all_causes() {
        let cause = Error::new(ErrorKind::Unavailable, "connection reset");
        let error =
            Error::new(ErrorKind::State, "the entry cannot be read").hint("Restore it").caused_by(cause);
        let failure = FunctionFailure::new(&error);
        let message = "the entry cannot be read. Restore it\n  because: connection reset";
        assert_eq!(format!("{failure:?}"), format!("StoreError: {message}"));
        let diagnostic = Diagnostic::from(failure);
        assert_eq!((&*diagnostic.error_type, &*diagnostic.error_message), ("StoreError", message));
    }

    #[test]
    fn a_panic_is_reported_by_its_message() {
        for payload in [Box::new("x") as Box<dyn Any + Send>, Box::new("x".to_owned())] {
            let message = FunctionFailure::from_panic(&*payload).to_string();
            assert_eq!(message, "PanicError: the function panicked: x");
        }
    }
}
