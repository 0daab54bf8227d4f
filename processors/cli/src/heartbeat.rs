//! `afterwrite heartbeat`: writes the item whose age every stage reports.

use std::time::Duration;

use afterwrite_functions::write_heartbeats;
use afterwrite_model::clock::{Clock as _, SystemClock};
use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_services::config::{ProjectionKind, dynamodb_client};
use afterwrite_services::dynamodb::DynamoDb;
use clap::Args;
use serde::Serialize;

use crate::model_option::ModelOption;
use crate::print::{json, print_one};

/// The time between two heartbeats.
const INTERVAL: Duration = Duration::from_secs(60);

/// The arguments of `afterwrite heartbeat`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  afterwrite heartbeat\n  afterwrite heartbeat --repeat\n\nEach source table of the model, and the state table if rollups are sources, gets the item whose text keys are AFTERWRITE#HEARTBEAT. It matches no entity. The functions report its age as the metric FreshnessSeconds, by stage: counted, archived, exported, queryable. A schedule that invokes the function `aggregator` with {\"afterwrite\":\"heartbeat\"} does the same.\n\nExit codes: 0 written, 2 wrong usage or configuration, 3 a table could not be written."
)]
pub struct HeartbeatArguments {
    /// Write again each minute, until Ctrl-C. A heartbeat that cannot be written is reported, and the next one follows.
    #[arg(long)]
    repeat: bool,
    #[command(flatten)]
    model: ModelOption,
    /// Print one JSON object for each heartbeat.
    #[arg(long)]
    json: bool,
}

/// A heartbeat that was written.
#[derive(Serialize)]
struct WrittenHeartbeat {
    written_at_ms: i64,
    tables: Vec<String>,
}

impl HeartbeatArguments {
    /// Writes heartbeats; returns `true`.
    ///
    /// # Errors
    /// A setting that is missing or wrong; a table that cannot be written, unless the command repeats.
    pub async fn run(&self) -> Result<bool> {
        let (settings, config) = (self.model.settings(), self.model.config()?);
        settings.check_state_source(&config.model, ProjectionKind::ALL)?;
        let tables = DynamoDb::retrying(Box::pin(dynamodb_client()).await?);
        loop {
            let now = SystemClock.now();
            let written = write_heartbeats(&config.model, &config.table_names, &tables, now).await;
            match written {
                Ok(tables) if tables.is_empty() => return Err(no_table()),
                Ok(tables) => {
                    let tables = tables.iter().map(ToString::to_string).collect();
                    if !self.print(&WrittenHeartbeat { written_at_ms: now.epoch_ms(), tables })? {
                        return Ok(true);
                    }
                }
                Err(error) if self.repeat && error.is_retryable() => {
                    eprintln!("afterwrite: {}", error.report());
                }
                Err(error) => return Err(error),
            }
            if !self.repeat {
                return Ok(true);
            }
            tokio::select! {
                () = tokio::time::sleep(INTERVAL) => {}
                _ = tokio::signal::ctrl_c() => return Ok(true),
            }
        }
    }

    /// Prints a heartbeat; returns whether standard output takes more.
    fn print(&self, written: &WrittenHeartbeat) -> Result<bool> {
        if self.json {
            return print_one(&json(written)?);
        }
        print_one(&format!("heartbeat written to {}\n", written.tables.join(", ")))
    }
}

fn no_table() -> Error {
    Error::new(
        ErrorKind::Configuration,
        "no table of the model can have a heartbeat: all key attributes are numbers",
    )
}
