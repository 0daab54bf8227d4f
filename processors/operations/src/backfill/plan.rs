//! The estimate of a backfill: its own steps, run on tables whose writes stay in memory.
//!
//! Up to [`EXACT_ITEMS`] items the whole backfill is run, and the estimate is exact. Of larger tables some segments are run, and
//! their costs are scaled up.

use std::collections::BTreeMap;
use std::sync::Arc;

use afterwrite_ledger::tables::{TableScan, Tables};
use afterwrite_model::Result;
use afterwrite_model::clock::Clock;
use afterwrite_preview::tables::OverlayTables;

use super::task::BackfillTask;
use super::{BackfillArguments, BackfillPart, BackfillTotal, ExportSource};
use crate::dropped::DROPPED_CONTRIBUTIONS;
use crate::jobs::{JobPlan, JobTask as _, JobTotals, STEP_TIME, repeated};
use crate::{DeploymentContext, PatientTables};

/// The most items of which all are tried.
pub(super) const EXACT_ITEMS: u64 = 5_000;
/// The items of a sampled segment, about.
pub(super) const SEGMENT_ITEMS: u64 = 500;
/// The sampled segments of each table.
pub(super) const SAMPLED_SEGMENTS: u32 = 8;

/// The note of a plan that drops contributions.
const DROPPED_NOTE: &str =
    "items count into rollups that are sources and have expired: the levels above lack these contributions";

/// The counters of a sample.
#[derive(Default)]
struct SampleTotals {
    items: u64,
    paced: u64,
    bytes: u64,
    totals: JobTotals,
}

/// Plans a backfill without writing anything. Requests that are throttled are repeated, as those of the backfill are.
///
/// # Errors
/// As [`BackfillTask::new`]; an error of a step, which the backfill would meet as well.
pub async fn plan_backfill<T, C>(
    context: DeploymentContext<T, C>,
    arguments: &BackfillArguments,
) -> Result<JobPlan>
where
    T: Tables + TableScan + Clone,
    C: Clock + Clone,
{
    let DeploymentContext { tables, clock, .. } = context.clone();
    let tables = PatientTables::new(tables, clock.clone());
    let (mut items, mut indexes) = (0, BTreeMap::new());
    for name in &context.table_names {
        let summary = tables.describe(name).await?;
        items += summary.items;
        indexes.insert(name.to_string(), summary.indexes);
    }
    let state = tables.describe(&context.state_table).await?;
    indexes.insert(context.state_table.to_string(), state.indexes.clone());
    let has_ranks = context.model.has_ranks();
    let is_exact = items <= EXACT_ITEMS;
    let segments =
        if is_exact { 1 } else { u32::try_from(items / SEGMENT_ITEMS).unwrap_or(u32::MAX).min(100_000) };
    let sampled = BackfillArguments { segments, export: None, ..arguments.clone() };
    let overlay = Arc::new(OverlayTables::new(tables).with_indexes(indexes));
    let task = BackfillTask::new(context.with_tables(Arc::clone(&overlay)), sampled, None).await?;
    let sample = run_sample(&task, if is_exact { segments } else { SAMPLED_SEGMENTS }, &clock).await?;
    // The sample has this share of the segments.
    let scale = |number: u64| {
        if is_exact { number } else { number * u64::from(segments) / u64::from(SAMPLED_SEGMENTS) }
    };
    let units = overlay.units();
    let changes = scale(sample.totals.number(BackfillTotal::Reconciled));
    let sampled_items = (!is_exact).then_some(sample.items);
    let ledger = if is_exact { 0 } else { state.items };
    Ok(JobPlan {
        items: scale(sample.items),
        paced: scale(sample.paced) + ledger,
        bytes: scale(sample.bytes) + if is_exact { 0 } else { state.bytes },
        changes,
        read_units: scale(units.reads) + ledger,
        write_units: scale(units.writes),
        storage_bytes: scale(overlay.growth()),
        notes: notes(arguments, &sample.totals, sampled_items, has_ranks),
        ..JobPlan::default()
    })
}

/// The assumptions of a plan; `sampled` are the items of the sample, if not all were tried.
fn notes(
    arguments: &BackfillArguments,
    totals: &JobTotals,
    sampled: Option<u64>,
    has_ranks: bool,
) -> Vec<String> {
    let mut notes = vec!["prices are those of on-demand tables in us-east-1".to_owned()];
    notes.extend(sampled.map(|items| format!("estimated from a sample of {items} items")));
    if sampled.is_some() && has_ranks {
        notes.push("without the rollups that lack the group of a rank: each costs one write".to_owned());
    }
    if totals.number(DROPPED_CONTRIBUTIONS) > 0 {
        notes.push(DROPPED_NOTE.to_owned());
    }
    let has_earlier = totals.number(BackfillTotal::EntriesOfEarlierModels) > 0;
    notes.extend(arguments.export.as_ref().filter(|_| has_earlier).map(ExportSource::earlier_model_note));
    notes
}

/// Runs the steps of so many segments of each table.
async fn run_sample<T: Tables + TableScan + Clone, C: Clock>(
    task: &BackfillTask<T, C>,
    segments: u32,
    clock: &C,
) -> Result<SampleTotals> {
    let mut sample = SampleTotals::default();
    for mut unit in task.sampled_units(segments) {
        while !unit.is_done {
            let outcome = repeated(clock, STEP_TIME, || Box::pin(task.step(&unit))).await?;
            unit.is_done = outcome.cursor.is_none();
            unit.cursor = outcome.cursor;
            sample.items += outcome.items;
            sample.paced += outcome.spent;
            sample.bytes += outcome.bytes;
            sample.totals.add_all(&outcome.totals);
        }
    }
    Ok(sample)
}

impl BackfillPart {
    /// Whether a sample of so many segments has the part. Of a large ledger nothing is tried: it only costs reads.
    pub(super) fn is_sampled(&self, all: u32, sampled: u32) -> bool {
        match self {
            Self::Segment { segment, .. } => segment % (all / sampled.max(1)).max(1) == 0,
            Self::File { .. } => false,
            Self::Ledger { .. } => all <= sampled,
        }
    }
}
