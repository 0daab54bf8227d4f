//! The command line: what can be asked for, and what the process answers with.
//!
//! Results go to standard output, errors to standard error. Exit codes: 0 fine, 1 found a problem, 2 wrong usage or
//! configuration, 3 could not finish.

use std::process::ExitCode;

use afterwrite::{Error, ErrorKind};
use clap::{Parser, Subcommand};

use crate::compact::CompactArguments;
use crate::demo::DemoArguments;
use crate::model::ModelCommand;
use crate::query::QueryArguments;

const FOUND_A_PROBLEM: u8 = 1;
const WRONG_USAGE: u8 = 2;
const COULD_NOT_FINISH: u8 = 3;

/// Keeps right what is derived from a DynamoDB table: counters, rollups and mirrored counts.
#[derive(Debug, Parser)]
#[command(
    name = "afterwrite",
    version,
    propagate_version = true,
    after_help = "Example:\n  afterwrite demo\n\nExit codes: 0 fine, 1 found a problem, 2 wrong usage or configuration, 3 could not finish."
)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Play an application on this machine, count it from its streams, and check every number.
    Demo(DemoArguments),
    /// Ask the datasets in SQL, where they lie: the views and saved queries that Athena gets, and no AWS account needed.
    Query(QueryArguments),
    /// Make the many small files of the datasets few and large, as the function `compactor` does on its schedule.
    Compact(CompactArguments),
    /// What follows from a table model.
    #[command(
        subcommand,
        after_help = "Examples:\n  afterwrite model check my-model.toml\n  afterwrite model show\n  afterwrite model explain my-model.toml --item item.json"
    )]
    Model(ModelCommand),
}

impl Cli {
    /// Does what was asked for.
    pub async fn run(self) -> ExitCode {
        let done = match self.command {
            Command::Demo(arguments) => Box::pin(arguments.run()).await,
            Command::Query(arguments) => Box::pin(arguments.run()).await,
            Command::Compact(arguments) => Box::pin(arguments.run()).await,
            Command::Model(command) => command.run(),
        };
        if let Err(error) = &done {
            eprintln!("afterwrite: {}", error.report());
        }
        ExitCode::from(exit_code(&done))
    }
}

/// The exit code of a command that found all right, found a problem, or failed.
fn exit_code(done: &Result<bool, Error>) -> u8 {
    match done.as_ref().map_err(Error::kind) {
        Ok(true) => 0,
        Ok(false) => FOUND_A_PROBLEM,
        Err(ErrorKind::Configuration | ErrorKind::Model) => WRONG_USAGE,
        Err(
            ErrorKind::Event
            | ErrorKind::Stream
            | ErrorKind::Record
            | ErrorKind::Unavailable
            | ErrorKind::Conflict
            | ErrorKind::Rejected
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
    fn the_exit_code_tells_a_wrong_digit_from_a_failure() {
        let failed = |kind| exit_code(&Err(Error::new(kind, "x")));
        assert_eq!([exit_code(&Ok(true)), exit_code(&Ok(false))], [0, 1]);
        assert_eq!([failed(ErrorKind::Configuration), failed(ErrorKind::Unavailable)], [2, 3]);
    }

    #[test]
    fn wrong_usage_is_refused() {
        for line in [
            "",
            "dance",
            "demo --attempts 0",
            "model",
            "query",
            "query --list --saved x",
            "query x --csv --json",
            "model explain m",
            "model diff a",
            "model diff a b --items e=x",
        ] {
            let line = ["afterwrite"].into_iter().chain(line.split_whitespace());
            assert!(Cli::try_parse_from(line).unwrap_err().use_stderr());
        }
    }

    #[test]
    fn what_help_shows_is_understood() {
        for line in [
            "demo --model shop --seed 7 --attempts 500 --json",
            "query --list --json",
            "query --saved x --datasets d --model m --csv",
            "query x --bucket b",
            "model ddl m --out d",
            "model check m --json",
            "model show",
            "model explain m --item - --given a=b --table t",
            "model diff a b --items e=5",
        ] {
            let line = ["afterwrite"].into_iter().chain(line.split_whitespace());
            assert!(Cli::try_parse_from(line.clone()).is_ok(), "{:?}", line.collect::<Vec<_>>());
        }
    }
}
