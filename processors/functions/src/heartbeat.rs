//! Writes the heartbeat of each table whose stream is read: the source tables, and the state table if rollups are sources. The function `aggregator` does so when a schedule requests it, and so does the command line.

use std::sync::Arc;

use afterwrite_ledger::tables::{Tables, WriteError};
use afterwrite_model::effect::Write;
use afterwrite_model::heartbeat::heartbeat_write;
use afterwrite_model::record::Timestamp;
use afterwrite_model::table::Model;
use afterwrite_model::{Error, ErrorKind, Result};

/// Writes the heartbeat of each of [`Model::tables`], deployed under `names`; returns the names of the tables that were written. A table
/// whose key attributes are all numbers has no heartbeat.
///
/// # Errors
/// As [`Tables::write`], for the first table that cannot be written.
pub async fn write_heartbeats(
    model: &Model,
    names: &[Arc<str>],
    tables: &impl Tables,
    now: Timestamp,
) -> Result<Vec<Arc<str>>> {
    let mut written = Vec::new();
    for (table, name) in model.tables.iter().zip(names) {
        let Some(write) = heartbeat_write(table, Arc::clone(name), now) else { continue };
        tables.write(&write).await.map_err(|error| write_failed(&write, error))?;
        written.push(Arc::clone(name));
    }
    Ok(written)
}

fn write_failed(write: &Write, error: WriteError) -> Error {
    match error {
        WriteError::Failed(error) => error,
        WriteError::Refused(_) => Error::new(ErrorKind::Rejected, "the table refused the heartbeat")
            .with("table", &*write.key.table)
            .hint("Allow dynamodb:UpdateItem on the table, for the key AFTERWRITE#HEARTBEAT"),
    }
}
