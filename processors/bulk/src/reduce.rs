//! The reduce step: the parts of the rollups of one partition become the rollups.
//!
//! **Memory** is bounded: if the partition's parts exceed [`PASS_BYTES`] in compressed form, they are read several times, and each time
//! the rollups of one part of the keys are merged.

use std::collections::BTreeMap;
use std::sync::Arc;

use afterwrite_ledger::RollupMerger;
use afterwrite_ledger::state::import::ImportTimes;
use afterwrite_ledger::state::{ROLLUP_TYPE, is_of_type};
use afterwrite_model::Result;
use afterwrite_model::record::Item;
use afterwrite_model::table::Model;
use afterwrite_services::{Bucket, ListedObject};

use crate::layout::{RunLayout, key_hash};
use crate::lines::{ItemWriter, visit_items};
use crate::request::{BulkTotals, ReduceRequest};
use crate::tables::state_key;

/// The compressed bytes that are merged at once: in memory, about 20 times as many.
const PASS_BYTES: u64 = 16 * 1024 * 1024;

/// Merges a partition.
pub(crate) async fn reduce(
    bucket: &impl Bucket,
    model: &Arc<Model>,
    request: &ReduceRequest,
    pass_bytes: u64,
) -> Result<BulkTotals> {
    let layout = RunLayout(&request.run);
    let parts = bucket.list(&layout.partials(request.partition)).await?;
    let bytes: u64 = parts.iter().map(|part| part.size).sum();
    let passes = bytes.div_ceil(pass_bytes.max(1)).max(1);
    let merger = RollupMerger::new(Arc::clone(model));
    let mut totals = BulkTotals::new();
    let mut add = |name: &str, number: u64| *totals.entry(name.to_owned()).or_default() += number;
    for pass in 0..passes {
        let merged = merged_items(bucket, &merger, &parts, (pass, passes, request.partitions)).await?;
        let mut written = ItemWriter::default();
        if pass == 0 && request.partition == 0 {
            let ReduceRequest { earliest_ms, latest_ms, .. } = *request;
            let origin = ImportTimes { earliest_ms, latest_ms }.encode();
            written.push(&ImportTimes::key(&Arc::from("")).keyed(origin))?;
        }
        for mut item in merged.into_values() {
            if is_of_type(&item, ROLLUP_TYPE) {
                merger.finish(&mut item, request.latest_ms)?;
                add("rollups", 1);
            }
            written.push(&item)?;
        }
        if written.items() > 0 {
            add("import_items", written.items());
            add("import_bytes", written.bytes());
            add("import_files", 1);
            bucket.put(&layout.rollups(request.partition, pass), written.finish()?).await?;
        }
    }
    Ok(totals)
}

/// The merged items of one pass, by key.
async fn merged_items(
    bucket: &impl Bucket,
    merger: &RollupMerger,
    parts: &[ListedObject],
    (pass, passes, partitions): (u64, u64, u32),
) -> Result<BTreeMap<(String, String), Item>> {
    let mut merged: BTreeMap<(String, String), Item> = BTreeMap::new();
    for part in parts {
        let visited = visit_items(bucket, &part.key, |item| {
            let key = state_key(&item);
            // The lower digits decide about the partition.
            if (key_hash(&key.0, &key.1) / u64::from(partitions.max(1))) % passes != pass {
                return Ok(());
            }
            merge(merger, merged.entry(key).or_default(), item)
        });
        visited.await?;
    }
    Ok(merged)
}

/// The default of [`reduce`]'s bound.
pub(crate) const DEFAULT_PASS_BYTES: u64 = PASS_BYTES;

fn merge(merger: &RollupMerger, sum: &mut Item, part: Item) -> Result<()> {
    if is_of_type(&part, ROLLUP_TYPE) {
        return merger.add(sum, part);
    }
    // A remembered lookup. Its outputs never change; it may have noted further keys of the looked-up item.
    for (name, value) in part {
        sum.entry(name).or_insert(value);
    }
    Ok(())
}
