//! The results of a demo: the most telling rollups, the cost, and the verdicts.

use afterwrite_mapping::{MappingProgress, SkippedRecord};
use serde::Serialize;

use crate::archiving::{ArchiveReport, RuleInvalidations};
use crate::chart::Chart;
use crate::counting::CountingTotals;
use crate::datasets::DatasetsReport;
use crate::verdict::RecountVerdict;

/// All results of a demo.
#[derive(Clone, Debug, Serialize)]
pub struct DemoReport {
    /// Whether every number is right, no record was skipped, and every change is in the archive and the datasets.
    pub right: bool,
    /// The built-in model.
    pub model: &'static str,
    /// The workload, in a few words.
    #[serde(skip)]
    pub about: &'static str,
    /// The random seed.
    pub seed: u64,
    /// How much was played, in `unit`s.
    pub size: u64,
    /// The unit of `size`.
    pub unit: &'static str,
    /// From the start of the server to the first verdict.
    pub seconds: f64,
    /// The most telling rollups.
    pub charts: Vec<Chart>,
    /// The cost of counting.
    pub cost: CountingCost,
    /// The archive.
    pub archive: ArchiveReport,
    /// The invalidated cache keys.
    pub cache_keys: Vec<RuleInvalidations>,
    /// The datasets that were exported from the archive.
    pub datasets: DatasetsReport,
    /// The old records that were redelivered in the end.
    pub delivered_again: u64,
    /// The verdicts before and after that.
    pub verdicts: [RecountVerdict; 2],
    /// The records that were skipped after repeated failures.
    pub skipped: Vec<SkippedRecord>,
}

/// The cost of counting, without the redelivery in the end.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct CountingCost {
    /// Items that the application wrote.
    pub items_written: usize,
    /// Records read from the streams of the application's tables.
    pub records: u64,
    /// Invocations of the aggregator with them.
    pub batches: u64,
    /// Invocations that repeated a failed one.
    pub retried_batches: u64,
    /// Records that were redelivered on purpose.
    pub redelivered_records: u64,
    /// Records that had been counted before.
    pub duplicates_skipped: u64,
    /// Records that were folded into a newer record of the same item.
    pub folded: u64,
    /// Transactions.
    pub transactions: u64,
    /// Ledger entries written.
    pub ledger_writes: u64,
    /// Mirrors refreshed.
    pub mirrors: u64,
    /// Write units consumed.
    pub write_units: u64,
    /// Write units per record.
    pub write_units_a_record: f64,
}

impl CountingCost {
    #[expect(clippy::cast_precision_loss, reason = "counts of a demo are far below 2^53")]
    pub(crate) fn new(items_written: usize, totals: &CountingTotals, progress: &MappingProgress) -> Self {
        let (counts, commits) = (progress.counts(), totals.commits);
        Self {
            items_written,
            records: counts.read,
            batches: counts.batches,
            retried_batches: counts.retries,
            redelivered_records: counts.redelivered,
            duplicates_skipped: commits.duplicates,
            folded: commits.folded,
            transactions: commits.transactions,
            ledger_writes: commits.ledger_writes,
            mirrors: commits.mirrors,
            write_units: commits.write_units,
            write_units_a_record: commits.write_units as f64 / counts.read.max(1) as f64,
        }
    }
}
