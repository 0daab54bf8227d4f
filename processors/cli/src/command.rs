//! The command line: its commands, its output and its exit codes.
//!
//! Results go to standard output, errors to standard error. Exit codes: 0 success, 1 a problem was found, 2 wrong
//! usage or configuration, 3 the command could not finish.

use std::process::ExitCode;

use afterwrite_model::harmless::harmless;
use afterwrite_model::{Error, ErrorKind};
use clap::{Parser, Subcommand};

use crate::backfill::BackfillCommand;
use crate::client::ClientCommand;
use crate::compact::CompactArguments;
use crate::console::ConsoleArguments;
use crate::cost::CostArguments;
use crate::datasets::DatasetsCommand;
use crate::demo::DemoArguments;
use crate::dev::DevArguments;
use crate::doctor::DoctorArguments;
use crate::export::ExportArguments;
use crate::heartbeat::HeartbeatArguments;
use crate::invoke::InvokeArguments;
use crate::jobs::JobsCommand;
use crate::model::ModelCommand;
use crate::query::QueryArguments;
use crate::record::RecordArguments;
use crate::redrive::RedriveArguments;
use crate::repair::RepairCommand;
use crate::replay::ReplayArguments;
use crate::request_output::telling_of_requests;
use crate::run::RunArguments;
use crate::state::StateCommand;
use crate::tail::TailArguments;
use crate::template::TemplateCommand;
use crate::verify::VerifyCommand;

const FOUND_A_PROBLEM: u8 = 1;
const WRONG_USAGE: u8 = 2;
const COULD_NOT_FINISH: u8 = 3;

/// Keeps counters, rollups, caches and Parquet in step with a DynamoDB table, and publishes events of its changes.
#[derive(Debug, Parser)]
#[command(
    name = "afterwrite",
    version,
    propagate_version = true,
    help_template = help_template(),
    after_help = "Examples:\n  afterwrite demo\n  afterwrite model init --table Orders --out orders.toml\n  afterwrite verify --report drift.jsonl\n\nExit codes: 0 success, 1 a problem was found, 2 wrong usage or configuration, 3 the command could not finish."
)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a sample application on this machine, and check every number.
    Demo(DemoArguments),
    /// Run DynamoDB, S3, the queues and all functions until Ctrl-C.
    Dev(DevArguments),
    /// Pass one Lambda event through the functions, and show its effects.
    Invoke(InvokeArguments),
    /// Propose, check, show, explain, compare and test table models.
    #[command(
        subcommand,
        after_help = "Examples:\n  afterwrite model check my-model.toml\n  afterwrite model show\n  afterwrite model explain my-model.toml --item item.json"
    )]
    Model(ModelCommand),
    /// Write typed readers of a model's rollups, for applications.
    #[command(subcommand)]
    Client(ClientCommand),
    /// Estimate a deployment's monthly cost, by part, before it exists.
    Cost(CostArguments),
    /// Write the deployment for another tool than Terraform (AWS SAM).
    #[command(subcommand)]
    Template(TemplateCommand),
    /// Check a deployment; report every problem with its fix.
    ///
    /// Checks tables, readers of the streams, mappings, queues and freshness.
    Doctor(DoctorArguments),
    /// Show a deployment in a browser: flow, rollups, items and health.
    Console(ConsoleArguments),
    /// Process the streams of deployed tables here instead of in Lambda.
    Run(RunArguments),
    /// Count the items that the tables already have.
    ///
    /// After a change of the model, reconciles the items with it. The application may write to the tables meanwhile.
    Backfill(BackfillCommand),
    /// Compare counters, rollups, mirrors and the ledger with the items.
    ///
    /// The application may write to the tables meanwhile.
    Verify(VerifyCommand),
    /// Repair the findings of `verify`, and log each write.
    Repair(RepairCommand),
    /// List, show, pause, resume, stop and throttle jobs.
    #[command(
        subcommand,
        after_help = "Examples:\n  afterwrite jobs list\n  afterwrite jobs set backfill-20260206T101500-042713958 rate=100"
    )]
    Jobs(JobsCommand),
    /// Compare state tables, and switch to a rebuilt one.
    #[command(subcommand)]
    State(StateCommand),
    /// Write the heartbeat item, by whose age each stage shows its delay.
    Heartbeat(HeartbeatArguments),
    /// Show the changes in the streams as they flow, and their effects.
    Tail(TailArguments),
    /// Write change records as JSON lines, without secrets.
    ///
    /// Reads streams, archives and Lambda events.
    Record(RecordArguments),
    /// Deliver recorded changes again, to the targets of your choice.
    ///
    /// The targets are counters, caches, the archive, datasets and events. An event that is published again has the same id.
    Replay(ReplayArguments),
    /// Process parked items, and records that Lambda has given up, again.
    Redrive(RedriveArguments),
    /// Query the datasets with SQL.
    ///
    /// Has the tables, views and saved queries that Athena has. Needs no AWS account for a local folder.
    Query(QueryArguments),
    /// Show the freshness of the datasets.
    #[command(subcommand, after_help = "Examples:\n  afterwrite datasets freshness --bucket my-bucket")]
    Datasets(DatasetsCommand),
    /// Export archive objects that the datasets lack.
    ///
    /// After a change of the model, exports all objects again. Does the work of the function `exporter`.
    Export(ExportArguments),
    /// Pack the logs of the datasets, and derive their current rows.
    ///
    /// Does the work of the function `compactor`.
    Compact(CompactArguments),
}

impl Command {
    async fn run(self) -> Result<bool, Error> {
        match self {
            Self::Demo(arguments) => Box::pin(arguments.run()).await,
            Self::Invoke(arguments) => Box::pin(arguments.run()).await,
            Self::Tail(arguments) => Box::pin(arguments.run()).await,
            Self::Record(arguments) => Box::pin(arguments.run()).await,
            Self::Replay(arguments) => Box::pin(arguments.run()).await,
            Self::Redrive(arguments) => Box::pin(arguments.run()).await,
            Self::State(command) => Box::pin(command.run()).await,
            Self::Heartbeat(arguments) => Box::pin(arguments.run()).await,
            Self::Dev(arguments) => Box::pin(arguments.run()).await,
            Self::Run(arguments) => Box::pin(arguments.run()).await,
            Self::Query(arguments) => Box::pin(arguments.run()).await,
            Self::Export(arguments) => Box::pin(arguments.run()).await,
            Self::Compact(arguments) => Box::pin(arguments.run()).await,
            Self::Datasets(command) => Box::pin(command.run()).await,
            Self::Backfill(command) => Box::pin(command.run()).await,
            Self::Verify(command) => Box::pin(command.run()).await,
            Self::Repair(command) => Box::pin(command.run()).await,
            Self::Cost(arguments) => Box::pin(arguments.run()).await,
            Self::Doctor(arguments) => Box::pin(arguments.run()).await,
            Self::Console(arguments) => Box::pin(arguments.run()).await,
            Self::Template(command) => command.run(),
            Self::Client(command) => command.run(),
            Self::Model(command) => Box::pin(command.run()).await,
            Self::Jobs(command) => Box::pin(command.run()).await,
        }
    }
}

/// The headings of the list of commands, each with its first command.
const COMMAND_HEADINGS: [(&str, &str); 6] = [
    ("demo", "Try it on this machine"),
    ("model", "Model"),
    ("cost", "Deploy"),
    ("backfill", "Operate"),
    ("tail", "Change records"),
    ("query", "Datasets"),
];

/// The help of the program: its commands under their headings.
fn help_template() -> String {
    let commands = Command::augment_subcommands(clap::Command::new("commands"));
    let mut list = String::new();
    for command in commands.get_subcommands() {
        let name = command.get_name();
        if let Some((_, heading)) = COMMAND_HEADINGS.iter().find(|(first, _)| *first == name) {
            list += &format!("\n{heading}:\n");
        }
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        list += &format!("  {name:<9}  {about}\n");
    }
    format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n{list}\nOptions:\n{{options}}{{after-help}}"
    )
}

impl Cli {
    /// Reads the arguments of the process; ends it with their error. The error quotes arguments, and these may come from strangers by a
    /// script: they are quoted as harmless text.
    #[must_use]
    pub fn read() -> Self {
        Self::try_parse().unwrap_or_else(|error| {
            let shown =
                std::env::args_os().map(|argument| harmless(&argument.to_string_lossy()).into_owned());
            Self::try_parse_from(shown).err().unwrap_or(error).exit()
        })
    }

    /// Checks that the arguments fit together, as far as a command's parser does not know it.
    ///
    /// # Errors
    /// `Configuration`, as the command itself.
    pub fn check(&self) -> Result<(), Error> {
        if let Command::Replay(arguments) = &self.command { arguments.check_targets() } else { Ok(()) }
    }

    /// Runs the command; prints its error, if any.
    pub async fn run(self) -> ExitCode {
        let result = telling_of_requests(Box::pin(self.command.run())).await;
        if let Err(error) = &result {
            eprintln!("afterwrite: {}", error.report());
        }
        ExitCode::from(exit_code(&result))
    }
}

/// The exit code of a command that succeeded, found a problem, or failed.
fn exit_code(result: &Result<bool, Error>) -> u8 {
    match result.as_ref().map_err(Error::kind) {
        Ok(true) => 0,
        Ok(false) => FOUND_A_PROBLEM,
        Err(ErrorKind::Configuration | ErrorKind::Model) => WRONG_USAGE,
        Err(
            ErrorKind::Event
            | ErrorKind::Stream
            | ErrorKind::Record
            | ErrorKind::Misfit
            | ErrorKind::Unavailable
            | ErrorKind::Conflict
            | ErrorKind::Rejected
            | ErrorKind::Unreadable
            | ErrorKind::State,
        ) => COULD_NOT_FINISH,
    }
}

#[cfg(test)]
mod tests;
