//! The log of a repair.

use serde::Serialize;

use crate::jobs::JobTotals;
use crate::verify::VerifyFinding;

/// The outcome of one repair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RepairOutcome {
    /// It was written.
    Repaired,
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

/// How many findings had each outcome.
#[must_use]
pub fn repair_totals(log: &[RepairLogEntry]) -> JobTotals {
    let mut totals = JobTotals::new();
    for entry in log {
        let name = match entry.outcome {
            RepairOutcome::Repaired => "repaired",
            RepairOutcome::AlreadyRight => "already_right",
            RepairOutcome::Changed => "changed",
            RepairOutcome::Failed => "failed",
        };
        *totals.entry(name.to_owned()).or_default() += 1;
    }
    totals
}
