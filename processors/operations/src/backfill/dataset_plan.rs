//! The estimate of filling datasets: some segments are read, and their rows and days counted. Nothing is written.

use std::collections::BTreeSet;
use std::sync::Arc;

use afterwrite_ledger::tables::{ScanRequest, TableScan, item_bytes};
use afterwrite_model::Result;
use afterwrite_model::projection::{datasets_of, snapshot_row};
use afterwrite_model::record::Image;
use afterwrite_model::table::{Entity, Model};

use super::datasets::{CHUNK_ITEMS, dataset_tables};
use super::plan::{EXACT_ITEMS, SAMPLED_SEGMENTS, SEGMENT_ITEMS};
use super::{BackfillArguments, DatasetFilling};
use crate::items::{identified_of, source_keys};
use crate::jobs::{JobPlan, count};

/// The counters of the segments of one table that were read.
#[derive(Default)]
struct SampledRows {
    items: u64,
    /// Items that no phase before has processed.
    first_seen: u64,
    bytes: u64,
    read_units: u64,
    rows: u64,
    /// A partition is a dataset and a day.
    partitions: BTreeSet<(usize, String)>,
    datasets: BTreeSet<usize>,
}

/// Adds the filling of datasets to the plan of a backfill. A tenant's plan is that of all tenants: an upper limit.
///
/// # Errors
/// As [`TableScan`].
pub async fn plan_datasets(
    model: &Model,
    table_names: &[Arc<str>],
    tables: &impl TableScan,
    arguments: &BackfillArguments,
    plan: &mut JobPlan,
) -> Result<()> {
    if arguments.datasets == DatasetFilling::Skipped {
        return Ok(());
    }
    let (mut rows, mut puts) = (0, 0);
    for (table, name) in table_names.iter().enumerate() {
        if !dataset_tables(model).contains(&table) {
            continue;
        }
        let items = tables.describe(name).await?.items;
        let is_exact = items <= EXACT_ITEMS;
        let segments = if is_exact { 1 } else { (items / SEGMENT_ITEMS).min(100_000) };
        let sampled = if is_exact { 1 } else { SAMPLED_SEGMENTS };
        let sample = sample(model, table, name, tables, (segments, sampled), arguments.datasets).await?;
        let scale = |number: u64| number * segments / u64::from(sampled);
        plan.items += scale(sample.first_seen);
        plan.paced += scale(sample.items);
        plan.bytes += scale(sample.bytes);
        plan.read_units += scale(sample.read_units);
        let table_rows = scale(sample.rows);
        rows += table_rows;
        let chunks =
            u64::from(arguments.segments.max(1)).max(scale(sample.items).div_ceil(count(CHUNK_ITEMS)));
        // A file for each partition of a chunk, a row at least in each; a version of each log for each chunk.
        puts +=
            (chunks * count(sample.partitions.len())).min(table_rows) + chunks * count(sample.datasets.len());
    }
    plan.put_requests += puts;
    plan.notes.push(format!(
        "datasets: about {rows} rows, at most about {puts} PUT requests; the tables are read once more for them"
    ));
    Ok(())
}

async fn sample(
    model: &Model,
    table: usize,
    name: &Arc<str>,
    tables: &impl TableScan,
    (segments, sampled): (u64, u32),
    filling: DatasetFilling,
) -> Result<SampledRows> {
    let segments = u32::try_from(segments).unwrap_or(u32::MAX);
    let mut sample = SampledRows::default();
    let step = (segments / sampled.max(1)).max(1);
    for segment in (0..sampled).map(|index| index * step) {
        let mut request = ScanRequest { segment, segments, ..ScanRequest::whole(Arc::clone(name)) };
        loop {
            let page = tables.scan(&request).await?;
            sample.items += count(page.items.len());
            sample.bytes += count(page.items.iter().map(item_bytes).sum());
            sample.read_units += page.read_units;
            let sources = source_keys(model, table, &page.items);
            for read in identified_of(model, &page.items, &sources, Entity::has_datasets) {
                sample.first_seen += u64::from(filling.is_first_to_see(&read.candidates));
                let image = Image::from_item(read.item, &model.row_attributes);
                for (index, dataset) in datasets_of(&read.candidates) {
                    let Some(row) = snapshot_row(dataset, &read.candidates, &image) else { continue };
                    sample.partitions.insert((index, row.day.to_string()));
                    sample.datasets.insert(index);
                    sample.rows += 1;
                }
            }
            request.start_after = page.next;
            if request.start_after.is_none() {
                break;
            }
        }
    }
    Ok(sample)
}
