//! What the demo shows: the most telling rollups, what it cost, and the verdict. As tables, or as JSON.

use std::fmt;
use std::time::Duration;

use comfy_table::Table;
use serde::Serialize;

use super::Demo;
use super::archive::{Archived, InvalidatedByRule};
use super::chart::Chart;
use super::lake::Lake;
use super::subject::Subject;
use super::verdict::Verdict;
use crate::local::progress::{Progress, Skipped};
use crate::print::{align_right, new_table};

/// How many differences are printed; JSON has them all.
const DIFFERENCES_SHOWN: usize = 20;
/// What stands for a value that is not there.
const NOTHING: &str = "nothing";

/// All results of a demo.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Whether every number is right, no record was given up, and every change is archived.
    right: bool,
    model: &'static str,
    #[serde(skip)]
    about: &'static str,
    seed: u64,
    /// How much was played, and of what.
    size: u64,
    unit: &'static str,
    /// From the start of the server until every record was counted and the recount had been made once.
    seconds: f64,
    charts: Vec<Chart>,
    cost: Cost,
    archive: Archived,
    cache_keys: Vec<InvalidatedByRule>,
    datasets: Lake,
    /// The old records that were delivered once more in the end.
    delivered_again: u64,
    /// The verdict before those, and the one after them.
    verdicts: [Verdict; 2],
    skipped: Vec<Skipped>,
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
    pub(super) progress: [&'a Progress; 3],
    pub(super) counted: Duration,
}

/// What counting cost, until all was counted.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Cost {
    items_written: u64,
    records: u64,
    batches: u64,
    retried_batches: u64,
    redelivered_records: u64,
    duplicates_skipped: u64,
    folded: u64,
    transactions: u64,
    ledger_writes: u64,
    mirrors: u64,
    write_units: u64,
    write_units_a_record: f64,
}

impl Cost {
    pub(super) fn new(items_written: u64, subject: &Subject, progress: &Progress) -> Self {
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

    fn lines(&self) -> [(&'static str, String); 11] {
        [
            ("items written by the application", self.items_written.to_string()),
            ("records", self.records.to_string()),
            ("batches", self.batches.to_string()),
            ("  of them retried", self.retried_batches.to_string()),
            ("records delivered twice on purpose", self.redelivered_records.to_string()),
            ("duplicates skipped", self.duplicates_skipped.to_string()),
            ("records folded into a newer one", self.folded.to_string()),
            ("transactions", self.transactions.to_string()),
            ("mirrors refreshed", self.mirrors.to_string()),
            ("write units", self.write_units.to_string()),
            ("write units a record", format!("{:.2}", self.write_units_a_record)),
        ]
    }
}

impl Report {
    pub(super) fn new(played: Played<'_>) -> Self {
        let Played { demo, subject, progress, .. } = played;
        let mut skipped: Vec<Skipped> = progress.iter().flat_map(|progress| progress.skipped()).collect();
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

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { model, about, seed, size, unit, .. } = self;
        writeln!(f, "{about}: {size} {unit} (model {model}, seed {seed}).\n")?;
        self.charts.iter().try_for_each(|chart| writeln!(f, "{chart}\n"))?;
        writeln!(f, "What it cost:\n{}\n", cost_table(&self.cost))?;
        for skipped in &self.skipped {
            writeln!(f, "Given up: record {}: {}", skipped.sequence_number, skipped.reason)?;
        }
        writeln!(
            f,
            "Cache keys invalidated, by rule (each once a batch):\n{}\n",
            cache_table(&self.cache_keys)
        )?;
        writeln!(f, "{}\n", self.archive)?;
        writeln!(f, "{}\n", self.datasets)?;
        let [first, last] = &self.verdicts;
        writeln!(f, "After {:.1} s: {first}", self.seconds)?;
        write!(f, "After {} old records came once more: {last}", self.delivered_again)
    }
}

impl fmt::Display for Archived {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { objects, bytes, lines, changes, expected, billed_units } = self;
        let verdict = if self.is_whole() { "holds" } else { "DOES NOT HOLD" };
        write!(
            f,
            "The archive {verdict} all {expected} changes: {changes} of them in {lines} lines of {objects} objects \
             ({bytes} bytes packed; Firehose would bill {billed_units} records of 5 KB)."
        )
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "a recount of the base tables {} all {} values of {} rollups",
            if self.is_equal() { "confirms" } else { "DOES NOT CONFIRM" },
            self.values,
            self.rollups
        )?;
        match self.mirrored {
            0 => write!(f, "."),
            mirrored => write!(f, " and {mirrored} mirrored attributes."),
        }?;
        for difference in self.differences.iter().take(DIFFERENCES_SHOWN) {
            write!(
                f,
                "\n  {} {}: is {}, must be {}",
                difference.place,
                difference.attribute,
                difference.found.as_deref().unwrap_or(NOTHING),
                difference.expected.as_deref().unwrap_or(NOTHING)
            )?;
        }
        match self.differences.len().checked_sub(DIFFERENCES_SHOWN) {
            Some(more @ 1..) => write!(f, "\n  and {more} more (see --json)"),
            _ => Ok(()),
        }
    }
}

fn cost_table(cost: &Cost) -> Table {
    let mut table = new_table(&[]);
    for (name, value) in cost.lines() {
        table.add_row([name.to_owned(), value]);
    }
    align_right(&mut table, 1..2);
    table
}

fn cache_table(rules: &[InvalidatedByRule]) -> Table {
    let mut table = new_table(&["a change of", "makes stale", "keys"]);
    for rule in rules.iter().filter(|rule| !rule.keys.is_empty()) {
        table.add_row([rule.of.clone(), rule.keys.join(", "), rule.invalidated.to_string()]);
    }
    align_right(&mut table, 2..3);
    table
}
