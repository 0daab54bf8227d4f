//! The log of a repair.

use serde::Serialize;

use crate::backfill::{REVIVED, VANISHED};
use crate::jobs::JobTotals;
use crate::verify::{FindingLife, VerifyFinding};

/// The outcome of one repair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RepairOutcome {
    /// It was written.
    Repaired,
    /// It would be written: this is a dry run.
    WouldBeRepaired,
    /// It is right by now.
    AlreadyRight,
    /// It changed while it was repaired: verify again.
    Changed,
    /// It could not be written.
    Failed,
}

/// A line of the log of a repair.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RepairLogEntry {
    /// The finding, with the values as they were.
    pub finding: VerifyFinding,
    /// The outcome.
    pub outcome: RepairOutcome,
    /// The write, for people.
    pub action: String,
}

/// A write of a repair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RepairWrite {
    /// The ledger entry of an item, and what it counts.
    Item,
    /// The measures of a rollup.
    Measures,
    /// A row of an item in the log of a dataset.
    Row,
    /// Rows by which a row without an item leaves the current rows.
    Removal,
}

impl RepairWrite {
    /// The write in words, after it was made.
    fn done(self) -> &'static str {
        match self {
            Self::Item => "the item was reconciled with its table",
            Self::Measures => "the measures were set to the sum of the ledger",
            Self::Row => {
                "a SNAPSHOT row of the item was added to the log; the next compaction derives the current row"
            }
            Self::Removal => {
                "a SNAPSHOT row and a REMOVE row were added to the log; the next compaction removes the current row"
            }
        }
    }

    /// The write in words, in a dry run.
    fn planned(self) -> &'static str {
        match self {
            Self::Item => "the item would be reconciled with its table",
            Self::Measures => "the measures would be set to the sum of the ledger",
            Self::Row => {
                "a SNAPSHOT row of the item would be added to the log; the next compaction would derive the current row"
            }
            Self::Removal => {
                "a SNAPSHOT row and a REMOVE row would be added to the log; the next compaction would remove the current row"
            }
        }
    }
}

impl RepairLogEntry {
    /// The line of a write; in a dry run, of a write that would be made.
    pub(super) fn written(finding: VerifyFinding, write: RepairWrite, is_dry_run: bool) -> Self {
        let (outcome, action) = if is_dry_run {
            (RepairOutcome::WouldBeRepaired, write.planned())
        } else {
            (RepairOutcome::Repaired, write.done())
        };
        Self { finding, outcome, action: action.to_owned() }
    }
}

/// How many findings had each outcome, and how many repairs ended or began a life of an item that only the archive can confirm.
#[must_use]
pub fn repair_totals(log: &[RepairLogEntry]) -> JobTotals {
    let mut totals = JobTotals::new();
    for entry in log {
        let name = match entry.outcome {
            RepairOutcome::Repaired => "repaired",
            RepairOutcome::WouldBeRepaired => "would_be_repaired",
            RepairOutcome::AlreadyRight => "already_right",
            RepairOutcome::Changed => "changed",
            RepairOutcome::Failed => "failed",
        };
        *totals.entry(name.to_owned()).or_default() += 1;
        let life = entry.finding.life.filter(|_| entry.outcome == RepairOutcome::Repaired);
        if let Some(life) = life {
            let name = match life {
                FindingLife::Vanished => VANISHED,
                FindingLife::Revived => REVIVED,
            };
            *totals.entry(name.to_owned()).or_default() += 1;
        }
    }
    totals
}
