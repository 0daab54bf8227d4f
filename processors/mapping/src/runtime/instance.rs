//! One process of a function, with a Runtime API of its own.

use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use afterwrite_model::{Error, ErrorKind, Result};
use tokio::process::{Child, Command};

use super::api::{InvocationEnd, RuntimeApi};
use super::program::FunctionProgram;

/// A running process; dropping it kills it.
pub(super) struct FunctionInstance {
    api: RuntimeApi,
    process: Child,
    name: String,
}

impl FunctionInstance {
    /// Starts the program as Lambda does. The program's standard output is its log, and goes to standard error, as the log of this process does.
    /// The program has the environment of this process, with Lambda's variables and its own.
    pub(super) async fn start(program: &FunctionProgram) -> Result<Self> {
        let FunctionProgram { name, path, variables } = program;
        let api = RuntimeApi::start(crate::on_failure::function_arn(name)).await?;
        let mut command = Command::new(path);
        command
            .envs(lambda_variables(name, &api.address()))
            .envs(variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(std::io::stderr())
            .kill_on_drop(true);
        let process = command.spawn().map_err(|error| {
            Error::new(ErrorKind::Configuration, format!("the function {name} cannot be started"))
                .with("program", path.display().to_string())
                .hint("Name an executable file that speaks the Lambda Runtime API, such as a custom runtime's `bootstrap`")
                .caused_by(error)
        })?;
        Ok(Self { api, process, name: name.clone() })
    }

    /// Handles one event. After an error of the kind `Unavailable` the process is of no use any more.
    pub(super) async fn invoke(&mut self, event: Vec<u8>, remaining: Duration) -> Result<Vec<u8>> {
        let end = self.api.invoke(event, remaining);
        tokio::select! {
            biased;
            end = end => match end {
                Ok(InvocationEnd::Response(response)) => Ok(response.to_vec()),
                Ok(InvocationEnd::Failed(error)) => {
                    let message = format!("the function {} failed: {}: {}", self.name, error.kind, error.message);
                    Err(Error::new(ErrorKind::State, message))
                }
                Err(_) => Err(self.gone(None)),
            },
            status = self.process.wait() => Err(self.gone(status.ok())),
        }
    }

    /// Whether the process still runs.
    pub(super) fn is_running(&mut self) -> bool {
        self.process.try_wait().is_ok_and(|status| status.is_none())
    }

    fn gone(&self, status: Option<ExitStatus>) -> Error {
        let status =
            status.map_or_else(|| "it closed its connection".to_owned(), |status| status.to_string());
        let message = format!("the process of the function {} ended during an invocation", self.name);
        Error::new(ErrorKind::Unavailable, message).with("status", status)
    }
}

/// The environment variables that Lambda sets for every function.
fn lambda_variables(name: &str, address: &str) -> [(&'static str, String); 10] {
    [
        ("AWS_LAMBDA_RUNTIME_API", address.to_owned()),
        ("AWS_LAMBDA_FUNCTION_NAME", name.to_owned()),
        ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "512".to_owned()),
        ("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST".to_owned()),
        ("AWS_LAMBDA_INITIALIZATION_TYPE", "on-demand".to_owned()),
        ("AWS_LAMBDA_LOG_GROUP_NAME", format!("/aws/lambda/{name}")),
        ("AWS_LAMBDA_LOG_STREAM_NAME", "local".to_owned()),
        ("LAMBDA_TASK_ROOT", ".".to_owned()),
        ("_HANDLER", "bootstrap".to_owned()),
        ("TZ", ":UTC".to_owned()),
    ]
}
