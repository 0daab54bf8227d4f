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
use crate::run::RunArguments;
use crate::state::StateCommand;
use crate::tail::TailArguments;
use crate::template::TemplateCommand;
use crate::verify::VerifyCommand;

const FOUND_A_PROBLEM: u8 = 1;
const WRONG_USAGE: u8 = 2;
const COULD_NOT_FINISH: u8 = 3;

/// Keeps counters, rollups, caches and Parquet in step with a DynamoDB table.
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
        after_help = "Examples:\n  afterwrite jobs list\n  afterwrite jobs set backfill-20260206T101500-042 rate=100"
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
    /// The targets are counters, caches, the archive and datasets.
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

    /// Runs the command; prints its error, if any.
    pub async fn run(self) -> ExitCode {
        let result = match self.command {
            Command::Demo(arguments) => Box::pin(arguments.run()).await,
            Command::Invoke(arguments) => Box::pin(arguments.run()).await,
            Command::Tail(arguments) => Box::pin(arguments.run()).await,
            Command::Record(arguments) => Box::pin(arguments.run()).await,
            Command::Replay(arguments) => Box::pin(arguments.run()).await,
            Command::Redrive(arguments) => Box::pin(arguments.run()).await,
            Command::State(command) => Box::pin(command.run()).await,
            Command::Heartbeat(arguments) => Box::pin(arguments.run()).await,
            Command::Dev(arguments) => Box::pin(arguments.run()).await,
            Command::Run(arguments) => Box::pin(arguments.run()).await,
            Command::Query(arguments) => Box::pin(arguments.run()).await,
            Command::Export(arguments) => Box::pin(arguments.run()).await,
            Command::Compact(arguments) => Box::pin(arguments.run()).await,
            Command::Datasets(command) => Box::pin(command.run()).await,
            Command::Backfill(command) => Box::pin(command.run()).await,
            Command::Verify(command) => Box::pin(command.run()).await,
            Command::Repair(command) => Box::pin(command.run()).await,
            Command::Cost(arguments) => Box::pin(arguments.run()).await,
            Command::Doctor(arguments) => Box::pin(arguments.run()).await,
            Command::Console(arguments) => Box::pin(arguments.run()).await,
            Command::Template(command) => command.run(),
            Command::Client(command) => command.run(),
            Command::Model(command) => Box::pin(command.run()).await,
            Command::Jobs(command) => Box::pin(command.run()).await,
        };
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
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_exit_code_distinguishes_a_wrong_number_from_a_failure() {
        let failed = |kind| exit_code(&Err(Error::new(kind, "x")));
        assert_eq!([exit_code(&Ok(true)), exit_code(&Ok(false))], [0, 1]);
        assert_eq!([failed(ErrorKind::Configuration), failed(ErrorKind::Unavailable)], [2, 3]);
    }

    #[test]
    fn every_help_text_has_exit_codes_and_examples_that_fit_a_terminal() {
        let mut open = vec![Cli::command()];
        while let Some(command) = open.pop() {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let has_subcommands = command.get_subcommands().next().is_some();
            assert!(has_subcommands || help.contains("Exit codes: 0 "), "{}", command.get_name());
            for example in help.lines().filter(|line| line.starts_with("  ")) {
                assert!(example.chars().count() <= 80, "{example}");
            }
            open.extend(command.get_subcommands().cloned());
        }
    }

    #[test]
    fn the_help_lists_every_command_under_a_heading_on_one_line() {
        let help = Cli::command().render_help().to_string();
        let mut lines = help.lines();
        for command in Cli::command().get_subcommands() {
            let name = format!("  {} ", command.get_name());
            let line =
                lines.find(|line| line.starts_with(&name)).expect("a line in the order of the commands");
            assert!(line.chars().count() <= 80, "{line}");
        }
        for (first, heading) in COMMAND_HEADINGS {
            assert!(help.contains(&format!("\n\n{heading}:\n  {first} ")), "{help}");
        }
    }

    #[test]
    fn long_lists_of_options_are_divided_by_headings() {
        let mut open = vec![Cli::command()];
        while let Some(command) = open.pop() {
            let mut sizes = std::collections::BTreeMap::<_, usize>::new();
            for option in command.get_arguments() {
                *sizes.entry(option.get_help_heading()).or_default() += 1;
            }
            assert!(sizes.values().all(|size| *size <= 8), "{}: {sizes:?}", command.get_name());
            // The headings of shared options end with these options.
            let mut own = command
                .get_arguments()
                .filter(|option| ["report", "dry_run"].contains(&option.get_id().as_str()));
            assert!(own.all(|option| option.get_help_heading().is_none()), "{}", command.get_name());
            open.extend(command.get_subcommands().cloned());
        }
    }

    #[test]
    fn a_wrong_value_is_rejected_in_our_own_words() {
        for (line, message) in [
            ("demo --seed x", "write a whole number"),
            ("demo --attempts 0", "write a whole number from 1 to 1000000"),
            ("compact --dt 2026-2-6", "write the day as yyyy-mm-dd"),
            ("dev --inject crash=2", "`crash=2` is not a fault that can be injected"),
            ("dev --function relay", "write a name, `=` and a value"),
            ("model diff a b --items e=x", "write a whole number"),
            ("model diff a b --items e", "write a name, `=` and a value"),
            ("record a --from yesterday", "write a time, such as"),
            ("jobs set x rate=0", "write rate=ITEMS"),
            ("jobs set x speed=1", "write rate=ITEMS"),
            ("verify --sample 0", "write a number above 0"),
            ("backfill --only a", "write a name"),
            ("cost shop --rate order=20", "write ENTITY=NUMBER/s"),
        ] {
            let line = ["afterwrite"].into_iter().chain(line.split_whitespace());
            let error = Cli::try_parse_from(line).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
    }

    #[test]
    fn wrong_usage_is_rejected() {
        for line in [
            "",
            "dance",
            "demo --attempts 0",
            "model",
            "run",
            "run --name x --on-expired never",
            "query",
            "query --list --saved x",
            "query x --csv --json",
            "model explain m",
            "model diff a",
            "model diff a b --items e=x",
            "backfill --export x",
            "verify --recheck f --only a=b",
            "repair",
            "model test",
            "model init",
            "model init --table t --key a",
            "model init --from f --sample 0",
            "model init --from f --separator ab",
            "invoke",
            "invoke --event e --dry-run",
            "invoke --event e --deployed --items i",
            "tail --file a --from-start",
            "record a --stream",
            "replay a --dry-run --into t",
            "replay a --only everything",
            "state diff a",
            "cost shop",
            "template",
            "template sam",
            "doctor --report",
            "cost --rate order=1/s",
        ] {
            let line = ["afterwrite"].into_iter().chain(line.split_whitespace());
            assert!(Cli::try_parse_from(line).unwrap_err().use_stderr());
        }
    }

    #[test]
    fn the_options_in_the_help_are_accepted() {
        for line in [
            "demo --model shop --seed 7 --attempts 500 --json",
            "dev --model shop --port 0 --data d --function relay=./r --inject crash=0.1 --json",
            "run --name blue --on-expired stop --table t --start latest --reset",
            "query --list --json",
            "query --saved x --datasets d --model m --csv",
            "query x --bucket b",
            "model ddl m --out d",
            "model check m --json",
            "model show",
            "model schema --out f",
            "model init --table t --sample 10 --out f",
            "model init --from f --table t --key a,b --separator ~ --type-attribute _model_name",
            "model explain m --item - --given a=b --table t",
            "model diff a b --items e=5",
            "model test d --model m --json",
            "model filters m --function relay --without-archive --max-patterns 10 --json",
            "cost m --rate a=1/s --sample f --index T=PK,SK --shards 2 --month 3 --queries 9 --cloudfront --json",
            "invoke --event - --function relay --items a --items b --json",
            "invoke --event e --deployed --dry-run",
            "tail --table t --endpoint-url http://127.0.0.1:1 --limit 5 --show-items --json",
            "record s3://b/archive/ a - --from 2026-02-06 --to 2026-02-07 --out f --limit 3",
            "heartbeat --repeat --json",
            "replay s3://b/archive/ --from 2026-02-06 --only aggregate,invalidate,archive,export --yes --rate 100",
            "replay a b --into t --state-table s --without-recovery --yes",
            "redrive s3://b/aws/lambda/ --parked --only aggregate,archive --delete --dry-run --json",
            "state diff a b --json",
            "state promote b --accept-differences",
            "jobs list --state-table s --json",
            "jobs set x rate=none",
            "jobs resume x --workers 4",
            "backfill --only a=b --yes --without-recovery",
            "verify --sample 0.5 --only a=b",
            "repair f --dry-run",
            "doctor --model m --state-table s --tables a=b --bucket b --report f --json",
            "template sam m --code d --single-reader --out f",
        ] {
            let line = ["afterwrite"].into_iter().chain(line.split_whitespace());
            assert!(Cli::try_parse_from(line.clone()).is_ok(), "{:?}", line.collect::<Vec<_>>());
        }
    }
}
