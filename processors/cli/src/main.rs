//! The `afterwrite` command.

use std::process::ExitCode;

use afterwrite_cli::command::Cli;

#[tokio::main]
async fn main() -> ExitCode {
    Cli::read().run().await
}
