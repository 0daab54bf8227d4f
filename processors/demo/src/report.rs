//! What the demo shows: the most telling rollups, what it cost, and the verdict. As tables, or as JSON.

use std::time::Duration;

use serde::Serialize;

use super::Demo;
use super::archive::{Archived, InvalidatedByRule};
use super::chart::Chart;
use super::lake::Lake;
use super::subject::Subject;
use super::verdict::Verdict;
use afterwrite_local::poller::{PollerProgress, SkippedRecord};

/// All results of a demo.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Whether every number is right, no record was skipped, and every change is archived.
    pub right: bool,
    /// The built-in model.
    pub model: &'static str,
    /// What was played: [`Workload::about`](super::workloads::Workload::about).
    #[serde(skip)]
    pub about: &'static str,
    /// The random seed.
    pub seed: u64,
    /// How much was played, in `unit`s.
    pub size: u64,
    /// What `size` counts.
    pub unit: &'static str,
    /// From the start of the server until every record was counted and the first recount was compared.
    pub seconds: f64,
    /// The most telling rollups.
    pub charts: Vec<Chart>,
    /// What counting cost.
    pub cost: Cost,
    /// What the archive holds.
    pub archive: Archived,
    /// The cache keys that were invalidated.
    pub cache_keys: Vec<InvalidatedByRule>,
    /// The datasets that were exported from the archive.
    pub datasets: Lake,
    /// The old records that were delivered once more in the end.
    pub delivered_again: u64,
    /// The verdict before those records, and the one after them.
    pub verdicts: [Verdict; 2],
    /// The records that were given up after repeated failures.
    pub skipped: Vec<SkippedRecord>,
}

/// What was played, for [`Report::new`]: what changes in the end is taken as it was when all was counted first.
pub(super) struct Played<'a> {
    pub(super) demo: &'a Demo,
    pub(super) charts: Vec<Chart>,
    pub(super) subject: &'a Subject,
    pub(super) cost: Cost,
    pub(super) archived: Archived,
    pub(super) invalidated: Vec<InvalidatedByRule>,
    pub(super) lake: Lake,
    /// Before and after the old records came once more.
    pub(super) verdicts: [Verdict; 2],
    /// Of counting, of archiving, and of the old records.
    pub(super) progress: [&'a PollerProgress; 3],
    pub(super) counted: Duration,
}

/// What counting cost, until all was counted.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Cost {
    /// Items that the application wrote.
    pub items_written: u64,
    /// Records read from the streams.
    pub records: u64,
    /// Invocations of the aggregator.
    pub batches: u64,
    /// Invocations that repeated a failed one.
    pub retried_batches: u64,
    /// Records that were redelivered on purpose.
    pub redelivered_records: u64,
    /// Records that were counted before and skipped.
    pub duplicates_skipped: u64,
    /// Records that a newer one of the same item made unnecessary.
    pub folded: u64,
    /// Transactions.
    pub transactions: u64,
    /// Ledger entries written.
    pub ledger_writes: u64,
    /// Mirrors refreshed.
    pub mirrors: u64,
    /// Write units consumed.
    pub write_units: u64,
    /// Write units for each record.
    pub write_units_a_record: f64,
}

impl Cost {
    pub(super) fn new(items_written: u64, subject: &Subject, progress: &PollerProgress) -> Self {
        let (counts, sums) = (progress.counts(), subject.sums());
        let totals = sums.totals;
        Self {
            items_written,
            records: counts.read,
            batches: counts.batches,
            retried_batches: counts.retries,
            redelivered_records: counts.redelivered,
            duplicates_skipped: totals.duplicates,
            folded: totals.folded,
            transactions: totals.transactions,
            ledger_writes: totals.ledger_writes,
            mirrors: totals.mirrors,
            write_units: totals.write_units,
            write_units_a_record: ratio(totals.write_units, counts.read),
        }
    }
}

impl Report {
    pub(super) fn new(played: Played<'_>) -> Self {
        let Played { demo, subject, progress, .. } = played;
        let mut skipped: Vec<SkippedRecord> =
            progress.iter().flat_map(|progress| progress.skipped()).collect();
        let reasons = subject.sums().reasons;
        for skipped in &mut skipped {
            if let Some(reason) = reasons.get(&skipped.sequence_number) {
                skipped.reason.clone_from(reason);
            }
        }
        let [.., again] = progress;
        Self {
            right: played.verdicts.iter().all(Verdict::is_equal)
                && skipped.is_empty()
                && played.archived.is_whole()
                && played.lake.is_whole(),
            model: demo.workload.model(),
            about: demo.workload.about(),
            seed: demo.seed,
            size: demo.size,
            unit: demo.workload.unit(),
            seconds: played.counted.as_secs_f64(),
            charts: played.charts,
            cost: played.cost,
            archive: played.archived,
            cache_keys: played.invalidated,
            datasets: played.lake,
            delivered_again: again.counts().accepted,
            verdicts: played.verdicts,
            skipped,
        }
    }

    /// Whether every number is right and no record was given up.
    #[must_use]
    pub fn is_right(&self) -> bool {
        self.right
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of a demo are far below 2^53")]
fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
