//! The log of a repair.

use std::borrow::Cow;

use serde::Serialize;

use crate::jobs::{JobTotal, JobTotals};
use crate::lives::LifeTotal;
use crate::verify::{FindingLife, VerifyFinding};

/// The outcome of one repair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RepairOutcome {
    /// It was written.
    Repaired,
    /// It would be written: this is a dry run.
    WouldBeRepaired,
    /// The rollup did not exist. It has the sum of the ledger, which lacks what TTL may have settled.
    WithoutSettled,
    /// It is right by now.
    AlreadyRight,
    /// It changed while it was repaired, or it could not be decided: verify again.
    Changed,
    /// It could not be written.
    Failed,
}

/// Each outcome is a counter of the job.
impl JobTotal for RepairOutcome {
    fn name(&self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Self::Repaired => "repaired",
            Self::WouldBeRepaired => "would_be_repaired",
            Self::WithoutSettled => "without_settled",
            Self::AlreadyRight => "already_right",
            Self::Changed => "changed",
            Self::Failed => "failed",
        })
    }
}

impl RepairOutcome {
    /// The outcomes after which a person has to look at the finding again.
    pub const LEFT: [Self; 3] = [Self::WithoutSettled, Self::Changed, Self::Failed];

    /// Whether a person has to look at the finding again.
    #[must_use]
    pub fn is_left(self) -> bool {
        Self::LEFT.contains(&self)
    }

    /// Whether the repair wrote it, or found it written.
    #[must_use]
    pub(crate) fn is_written(self) -> bool {
        match self {
            Self::Repaired | Self::WithoutSettled | Self::AlreadyRight => true,
            Self::WouldBeRepaired | Self::Changed | Self::Failed => false,
        }
    }
}

/// The part of a rollup that no ledger entry has.
const WITHOUT_SETTLED: &str = "which lacks what TTL settled before the rollup was deleted: if items of it expired, follow \"expiries-too-old\" in docs/RUNBOOK.md";

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

    /// The line of a rollup that did not exist, and has the sum of the ledger now; in a dry run, would have it.
    pub(super) fn without_settled(self) -> Self {
        let has_sum = self.outcome == RepairOutcome::AlreadyRight;
        let action = if has_sum { "the rollup has the sum of the ledger" } else { self.action.as_str() };
        let action = format!("{action}, {WITHOUT_SETTLED}");
        Self { outcome: RepairOutcome::WithoutSettled, action, ..self }
    }

    /// The line of a finding that cannot be repaired, with the reason.
    pub(super) fn failed(finding: VerifyFinding, reason: impl Into<String>) -> Self {
        Self { finding, outcome: RepairOutcome::Failed, action: reason.into() }
    }

    /// The line of a finding for which there was nothing to write.
    pub(super) fn unwritten(finding: VerifyFinding, outcome: RepairOutcome) -> Self {
        Self { finding, outcome, action: "nothing was written".to_owned() }
    }
}

/// How many findings had each outcome, and how many items live or do not since a repair, which only the archive can confirm: also of
/// findings that an earlier process of the repair has written.
#[must_use]
pub fn repair_totals(log: &[RepairLogEntry]) -> JobTotals {
    let mut totals = JobTotals::new();
    for entry in log {
        totals.add(entry.outcome, 1);
        match entry.finding.subject.life().filter(|_| entry.outcome.is_written()) {
            Some(FindingLife::Vanished) => totals.add(LifeTotal::Vanished, 1),
            Some(FindingLife::Revived) => totals.add(LifeTotal::Revived, 1),
            // A repair writes nothing for an expired rollup.
            Some(FindingLife::Expired) | None => {}
        }
    }
    totals
}
