//! The table of `--into`: what it must be before records are counted into it.

use std::sync::Arc;

use afterwrite_input::TimeRange;
use afterwrite_ledger::TombstoneHistory;
use afterwrite_ledger::state::import::ImportTimes;
use afterwrite_ledger::tables::{ScanRequest, TableScan as _, Tables as _};
use afterwrite_model::clock::{Clock as _, SystemClock};
use afterwrite_model::table::Entity;
use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_services::config::dynamodb_client;
use aws_sdk_dynamodb::types::TimeToLiveStatus;

use crate::bulk::{check_import, enable_stream};
use crate::deployment::Deployment;
use crate::time_to_live::time_to_live;

/// The times of the exports that the table was built from, if `backfill --bulk` built it.
async fn import_times(deployment: &Deployment, into: &str) -> Result<Option<ImportTimes>> {
    let origin = ImportTimes::key(&Arc::from(into));
    let stored = deployment.patient_tables().read(&[origin]).await?.items.pop().flatten();
    stored.map(|stored| ImportTimes::decode(&stored)).transpose()
}

/// The history of the table.
pub(super) async fn history(deployment: &Deployment, into: &str) -> Result<TombstoneHistory> {
    let times = import_times(deployment, into).await?;
    Ok(if times.is_some() { TombstoneHistory::Imported } else { TombstoneHistory::Complete })
}

/// Fails if TTL could delete an expired rollup before the level above has counted it.
async fn check_ttl(deployment: &Deployment, into: &str) -> Result<()> {
    let model = &deployment.config.model;
    let expires = |rollup: usize| model.rollups.get(rollup).is_some_and(|rollup| rollup.lifetime.is_some());
    let keeps = |entity: &Entity| entity.keeps_what_expired() && entity.rollup.is_some_and(expires);
    if !model.entities.iter().any(keeps) {
        return Ok(());
    }
    let client = Box::pin(dynamodb_client()).await?;
    // `doctor` tells a caller who lacks the permission to read it.
    let status = time_to_live(&client, into).await;
    if !matches!(status, Some(TimeToLiveStatus::Enabled | TimeToLiveStatus::Enabling)) {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Configuration,
        "the table of --into has TTL, which would delete expired rollups before the level above has counted them",
    )
    .with("table", into)
    .hint(format!(
        "Disable it until the functions read the stream of the table: aws dynamodb update-time-to-live --table-name {into} --time-to-live-specification Enabled=false,AttributeName=expires_at"
    )))
}

/// Fails if rollups are sources and the table has no stream: no function could follow the rollups that are counted into it.
pub(super) async fn check_stream(deployment: &Deployment, into: &str) -> Result<()> {
    let has_levels = deployment.config.model.state_source().is_some();
    if !has_levels || deployment.patient_tables().describe(into).await?.stream_label.is_some() {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Configuration,
        "rollups of the model are sources, and the table of --into has no stream",
    )
    .with("table", into)
    .hint(format!("Enable it first: {}", enable_stream(into))))
}

/// Fails unless the table is empty, or was built from exports after the beginning of the replay: in a table that has lost tombstones, old
/// records must not be applied.
pub(super) async fn check_fresh(deployment: &Deployment, into: &str, range: &TimeRange) -> Result<()> {
    if *into == *deployment.state_table {
        return Err(Error::new(ErrorKind::Configuration, "--into names the deployment's own state table")
            .with("table", into)
            .hint("Create a new table with the same keys, or leave out --into"));
    }
    if let Some(times) = import_times(deployment, into).await? {
        return check_import(times, range.from, SystemClock.now());
    }
    check_ttl(deployment, into).await?;
    let tables = deployment.patient_tables();
    let mut request = Some(ScanRequest { page_items: Some(1), ..ScanRequest::whole(Arc::from(into)) });
    while let Some(now) = request {
        let page = tables.scan(&now).await?;
        if !page.items.is_empty() {
            return Err(Error::new(ErrorKind::Configuration, "the table of --into is not empty")
                .with("table", into)
                .hint(
                    "Create a fresh table; to go on with an earlier replay, use `afterwrite jobs resume`",
                ));
        }
        request = page.next.map(|next| ScanRequest { start_after: Some(next), ..now });
    }
    Ok(())
}
