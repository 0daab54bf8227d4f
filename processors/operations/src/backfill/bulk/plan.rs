//! The estimate of a bulk backfill: a part of the first data files is counted in memory, and scaled up.

use std::sync::Arc;

use afterwrite_bulk::request::{BulkRequest, BulkTotals, MapPass, MapRequest, PlanReport, PlanRequest};
use afterwrite_bulk::{BulkWorker, RunRequests};
use afterwrite_ledger::tables::{TableScan, Tables};
use afterwrite_model::Result;
use afterwrite_model::clock::Clock;
use afterwrite_preview::tables::OverlayTables;
use afterwrite_services::Bucket;

use crate::DeploymentContext;
use crate::jobs::JobPlan;

/// The items of a table that are counted for the estimate.
const SAMPLED_ITEMS: u64 = 10_000;

/// Plans a bulk backfill without writing anything. Returns the number of steps, too.
///
/// # Errors
/// As [`BulkWorker::handle`].
pub async fn plan_bulk<B, T, C>(
    bucket: B,
    deployment: DeploymentContext<T, C>,
    request: &PlanRequest,
) -> Result<(JobPlan, PlanReport)>
where
    B: Bucket,
    T: Tables + TableScan,
    C: Clock + Clone,
{
    let DeploymentContext { model, table_names, state_table, tables, clock } = deployment;
    let overlay = Arc::new(OverlayTables::new(tables));
    let worker = BulkWorker::new(bucket, model, table_names, state_table, Arc::clone(&overlay), clock);
    let (requests, report) = worker.requests(request).await?;
    let (mut bytes, mut entries, mut sampled) = (0, 0, 0);
    for (request, items) in first_files(&requests) {
        let totals = worker.sample(request, SAMPLED_ITEMS).await?;
        let total = |name: &str| total(&totals, name);
        let read = total("items").max(1);
        let scale = |number: u64| number.saturating_mul(items.max(1)) / read;
        match request.pass {
            MapPass::Lookups => {}
            MapPass::Items => sampled += total("items"),
        }
        bytes += scale(total("sampled_bytes"));
        entries += scale(total("reconciled"));
    }
    let units = overlay.units();
    let files = u64::from(report.requests.iter().sum::<u32>());
    let partitions = u64::from(request.partitions);
    let maps = u64::from(report.requests[0]) + u64::from(report.requests[1]);
    let lookups = units.reads.saturating_mul(report.item_count) / sampled.max(1);
    Ok((
        JobPlan {
            items: report.item_count,
            changes: entries,
            read_units: lookups,
            write_units: units.writes,
            storage_bytes: bytes,
            put_requests: maps * (1 + partitions) + files + 4,
            import_bytes: bytes,
            notes: vec![
                format!("estimated from {sampled} items; a rollup that many files count into is estimated too large"),
                format!("read units are those of lookups if none repeats; at most {} a second by each worker", request.lookup_rate),
                "write units are those of lookups that are remembered in the deployed state table".to_owned(),
                "not included: the export ($0.10 a GB of the table), workers in Lambda, and the replay of the archive".to_owned(),
            ],
            ..JobPlan::default()
        },
        report,
    ))
}

/// The first data file of each table, with the number of items of all its files.
fn first_files(requests: &RunRequests) -> Vec<(&MapRequest, u64)> {
    let mut first: Vec<(&MapRequest, u64)> = Vec::new();
    for request in requests.lookups.iter().chain(&requests.items) {
        let BulkRequest::Map(map) = request else { continue };
        let items = map.file.item_count;
        match first.iter_mut().find(|(known, _)| known.table == map.table && known.pass == map.pass) {
            Some((_, all)) => *all += items,
            None => first.push((map, items)),
        }
    }
    first
}

fn total(totals: &BulkTotals, name: &str) -> u64 {
    totals.get(name).copied().unwrap_or(0)
}
