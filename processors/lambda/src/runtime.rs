//! A function's process, from its start to its end.

use std::process::ExitCode;
use std::time::Duration;

use afterwrite::config::EnvironmentSettings;
use afterwrite::record::Timestamp;
use afterwrite::{Error, ErrorKind, Result};
use lambda_runtime::{LambdaEvent, service_fn};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::logging;

/// Time before Lambda's deadline that is reserved for sending the response.
const RESPONSE_RESERVE: Duration = Duration::from_millis(500);

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

/// Runs a function until Lambda ends its process.
///
/// `start` creates the function from the environment's settings.
pub fn run<F, S>(start: impl FnOnce(EnvironmentSettings) -> S) -> ExitCode
where
    F: LambdaFunction,
    S: Future<Output = Result<F>>,
{
    logging::start();
    match serve(start(EnvironmentSettings::from_env())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn serve<F: LambdaFunction>(start: impl Future<Output = Result<F>>) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime =
        runtime.map_err(|error| unavailable("the async runtime cannot be started").caused_by(error))?;
    runtime.block_on(async {
        let function = Box::pin(start).await?;
        let serving = lambda_runtime::run(service_fn(|event| handle(&function, event)));
        serving
            .await
            .map_err(|error| unavailable("the Lambda Runtime API cannot be reached").caused_by(error))
    })
}

async fn handle<F: LambdaFunction>(
    function: &F,
    event: LambdaEvent<Box<RawValue>>,
) -> Result<F::Response, lambda_runtime::Error> {
    let lambda_deadline = Timestamp::from_epoch_ms(i64::try_from(event.context.deadline).unwrap_or(i64::MAX));
    let deadline = lambda_deadline.minus(RESPONSE_RESERVE);
    Ok(function.handle(Invocation { payload: event.payload, deadline }).await?)
}

fn unavailable(message: &str) -> Error {
    Error::new(ErrorKind::Unavailable, message)
}
