//! The `afterwrite` command.

use std::process::ExitCode;

use afterwrite_cli::command::Cli;
use clap::Parser as _;

#[tokio::main]
async fn main() -> ExitCode {
    Cli::parse().run().await
}
