//! Commands of Afterwrite that a button starts. Each runs in a process of its own, so that it takes the same precautions as in a terminal, and
//! goes on if the console ends.

use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use afterwrite_model::clock::{Clock as _, SystemClock};
use afterwrite_model::record::Timestamp;
use afterwrite_model::{Error, ErrorKind, Result};
use tokio::process::Command;

use crate::context::CommandLine;

/// How long a plan may take.
const PLAN_TIME: Duration = Duration::from_secs(60);
/// The commands that are remembered.
const MAX_RUNS: usize = 20;
/// The end of an output that is kept, in bytes.
const MAX_OUTPUT: usize = 64 * 1024;

/// The commands that this console has started, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct CommandRuns(Mutex<Vec<Arc<CommandRun>>>);

/// A command that was started.
#[derive(Debug)]
pub(crate) struct CommandRun {
    /// Names it among the commands of this console.
    pub(crate) id: String,
    /// Its arguments, without those that name the deployment.
    pub(crate) arguments: Vec<String>,
    /// When it was started.
    pub(crate) started: Timestamp,
    end: Mutex<Option<CommandEnd>>,
}

/// How a command has ended.
#[derive(Clone, Debug)]
pub(crate) struct CommandEnd {
    /// The exit code; `None` if it was killed or could not be started.
    pub(crate) code: Option<i32>,
    /// The end of its output and of its errors.
    pub(crate) output: String,
}

impl CommandLine {
    /// Runs a command to its end, for its output: a plan.
    ///
    /// # Errors
    /// `State` if the program cannot be started; `Unavailable` if the plan takes too long.
    pub(crate) async fn plan(&self, arguments: &[String]) -> Result<CommandEnd> {
        let output = self.command(arguments).kill_on_drop(true).output();
        let output = tokio::time::timeout(PLAN_TIME, output).await.map_err(|_| {
            Error::new(ErrorKind::Unavailable, "the plan was not made within a minute")
                .hint("Run the command in a terminal. The plan of a repair waits for the tolerance at each level of rollups that are sources, by default five minutes")
        })?;
        output
            .map(|output| CommandEnd::of(&output))
            .map_err(|error| Error::new(ErrorKind::State, "the command cannot be started").caused_by(error))
    }

    fn command(&self, arguments: &[String]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(arguments).args(&self.deployment);
        for name in &self.removed {
            command.env_remove(name);
        }
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        // Without a terminal, nothing starts without --yes: a plan is printed.
        command.stdin(Stdio::null());
        command
    }
}

impl CommandEnd {
    fn of(output: &std::process::Output) -> Self {
        let text = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
        let kept = text.get(text.len().saturating_sub(MAX_OUTPUT)..).unwrap_or_default();
        Self { code: output.status.code(), output: String::from_utf8_lossy(kept).into_owned() }
    }
}

impl CommandRun {
    /// How it has ended; `None` while it runs.
    pub(crate) fn end(&self) -> Option<CommandEnd> {
        self.end.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl CommandRuns {
    /// Starts a command.
    pub(crate) fn start(&self, line: &CommandLine, id: String, arguments: Vec<String>) {
        let run = CommandRun { id, arguments, started: SystemClock.now(), end: Mutex::new(None) };
        let run = Arc::new(run);
        let mut runs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        runs.push(Arc::clone(&run));
        let excess = runs.len().saturating_sub(MAX_RUNS);
        runs.drain(..excess);
        let mut command = line.command(&run.arguments);
        tokio::spawn(async move {
            let end = match command.output().await {
                Ok(output) => CommandEnd::of(&output),
                Err(error) => CommandEnd { code: None, output: error.to_string() },
            };
            *run.end.lock().unwrap_or_else(PoisonError::into_inner) = Some(end);
        });
    }

    /// The commands, the newest first.
    pub(crate) fn newest(&self) -> Vec<Arc<CommandRun>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().rev().cloned().collect()
    }
}
