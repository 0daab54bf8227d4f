//! The labels of the streams of the tables that are counted.

use afterwrite_ledger::tables::TableScan;
use afterwrite_model::clock::Clock;
use afterwrite_model::{Error, ErrorKind, Result};

use super::BackfillArguments;
use crate::DeploymentContext;
use crate::jobs::{STEP_TIME, repeated};

/// The label of each table's current stream; empty for a table that is not counted.
pub(super) async fn stream_labels<T: TableScan, C: Clock>(
    context: &DeploymentContext<T, C>,
    arguments: &BackfillArguments,
) -> Result<Vec<String>> {
    let DeploymentContext { model, table_names, tables, clock, .. } = context;
    let mut labels = Vec::with_capacity(table_names.len());
    for (table, name) in table_names.iter().enumerate() {
        labels.push(if arguments.counts_table(model, table) {
            let summary = repeated(clock, STEP_TIME, || tables.describe(name)).await?;
            required_label(summary.stream_label, name)?
        } else {
            String::new()
        });
    }
    Ok(labels)
}

/// The label of a table's current stream, which it must have.
pub(super) fn required_label(label: Option<String>, table: &str) -> Result<String> {
    label.ok_or_else(|| {
        Error::new(
            ErrorKind::Configuration,
            "the table has no stream, so that changes after the backfill would be lost",
        )
        .with("table", table)
        .hint("Enable the stream with new and old images, deploy the functions, and start the backfill then")
    })
}
