//! A repair as a job.
//!
//! ```text
//! phase 0   items      ledger entries, mirrors, extremes: parts of the findings      datasets   rows: parts of the findings
//! phase 1   rollups    whose sums the entries determine
//! phase 2   levels     ledger entries of rollups that are sources: a rollup is mended before it is counted again
//! phase 3   above      the levels above every rollup that this repair has written
//! ```
//!
//! The findings are kept with the job, without values, so that any process can resume it. Every step judges its findings again, so a step
//! that is repeated after a kill finds them right.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use afterwrite_ledger::tables::{TableScan, Tables};
use afterwrite_model::Result;
use afterwrite_model::clock::Clock;
use afterwrite_model::table::STATE_TABLE;
use afterwrite_services::Bucket;

use super::datasets::DatasetRepairer;
use super::drift::DriftRepairer;
use super::log::{RepairLogEntry, RepairOutcome, repair_totals};
use crate::jobs::{JobTask, JobTotals, JobWait, StepOutcome, UnitMeanings, WorkUnit, count, later};
use crate::verify::{DatasetJudge, FindingSubject, RollupPlace, VerifyFinding};

/// The findings of a unit.
const UNIT_FINDINGS: usize = 1_000;

/// The part of a repair that a unit stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RepairPart {
    Items { part: usize },
    Datasets { part: usize },
    Rollups,
    Levels { part: usize },
    Above,
}

/// Repairs findings.
#[derive(Debug)]
pub struct RepairTask<B, T, C> {
    repairer: DriftRepairer<T, C>,
    /// The datasets; `None` if no bucket is configured.
    datasets: Option<DatasetJudge<B, T, C>>,
    /// Distinguishes the files of this repair from those of others.
    id: String,
    findings: SortedFindings,
    parts: UnitMeanings<RepairPart>,
    log: Mutex<Vec<RepairLogEntry>>,
    totals: Mutex<JobTotals>,
}

/// Findings by what repairs them, or states in the log why nothing does.
#[derive(Debug, Default)]
struct SortedFindings {
    items: Vec<VerifyFinding>,
    datasets: Vec<VerifyFinding>,
    rollups: Vec<VerifyFinding>,
    /// Of items of rollups.
    levels: Vec<VerifyFinding>,
}

impl SortedFindings {
    fn new(findings: &[VerifyFinding]) -> Self {
        let mut sorted = Self::default();
        for finding in findings {
            let list = match &finding.subject {
                FindingSubject::Entry(item, ..) | FindingSubject::UnreadableEntry(item)
                    if item.table == STATE_TABLE =>
                {
                    &mut sorted.levels
                }
                FindingSubject::Entry(..)
                | FindingSubject::UnreadableEntry(_)
                | FindingSubject::Mirror(_)
                | FindingSubject::Extreme(_)
                | FindingSubject::ThreeWay(_) => &mut sorted.items,
                FindingSubject::Row(..) => &mut sorted.datasets,
                FindingSubject::Rollup(_) => &mut sorted.rollups,
            };
            list.push(finding.clone());
        }
        sorted
    }

    fn parts(&self) -> Vec<(WorkUnit, RepairPart)> {
        let mut parts = Vec::new();
        let mut add = |name: &str, phase: u32, findings: &[VerifyFinding], of: fn(usize) -> RepairPart| {
            let count = findings.len().div_ceil(UNIT_FINDINGS);
            let unit = |part| (WorkUnit::new(format!("{name} {part}/{count}"), phase), of(part));
            parts.extend((0..count).map(unit));
        };
        add("items", 0, &self.items, |part| RepairPart::Items { part });
        add("datasets", 0, &self.datasets, |part| RepairPart::Datasets { part });
        add("levels", 2, &self.levels, |part| RepairPart::Levels { part });
        if !self.rollups.is_empty() {
            parts.push((WorkUnit::new("rollups", 1), RepairPart::Rollups));
        }
        if !(self.items.is_empty() && self.rollups.is_empty() && self.levels.is_empty()) {
            parts.push((WorkUnit::new("levels above", 3), RepairPart::Above));
        }
        parts.sort_by_key(|(unit, _)| unit.phase);
        parts
    }
}

/// The units of a repair of these findings.
#[must_use]
pub fn repair_units(findings: &[VerifyFinding]) -> Vec<WorkUnit> {
    SortedFindings::new(findings).parts().into_iter().map(|(unit, _)| unit).collect()
}

impl<B: Bucket, T: Tables + TableScan + Clone, C: Clock + Clone> RepairTask<B, T, C> {
    /// A repair of these findings, by the job with this id. A dry run of the repairer writes nothing to datasets, either.
    #[must_use]
    pub fn new(
        repairer: DriftRepairer<T, C>,
        datasets: Option<DatasetJudge<B, T, C>>,
        id: &str,
        findings: &[VerifyFinding],
    ) -> Self {
        let findings = SortedFindings::new(findings);
        Self {
            repairer,
            datasets,
            id: id.to_owned(),
            parts: UnitMeanings::new(findings.parts()),
            findings,
            log: Mutex::default(),
            totals: Mutex::default(),
        }
    }

    /// The log of the steps of this process.
    #[must_use]
    pub fn log(&self) -> Vec<RepairLogEntry> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The totals of the steps of this process.
    #[must_use]
    pub fn totals(&self) -> JobTotals {
        self.totals.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Does everything at once, without a job; returns the log.
    ///
    /// # Errors
    /// As [`JobTask::step`].
    pub async fn run(&self) -> Result<Vec<RepairLogEntry>> {
        for (unit, _) in self.parts.iter() {
            Box::pin(self.step(unit)).await?;
        }
        Ok(self.log())
    }

    /// The rollups that this process found wrong and did not set.
    fn left_rollups(&self) -> BTreeSet<RollupPlace> {
        let left = self.log().into_iter().filter_map(|entry| match (entry.outcome, entry.finding.subject) {
            (RepairOutcome::Changed | RepairOutcome::Failed, FindingSubject::Rollup(place)) => Some(place),
            _ => None,
        });
        left.collect()
    }

    async fn repair_datasets(&self, findings: &[VerifyFinding]) -> Result<Vec<RepairLogEntry>> {
        match &self.datasets {
            Some(judge) => {
                let repairer = DatasetRepairer::new(judge, &self.id, self.repairer.is_dry_run());
                Box::pin(repairer.repair(findings)).await
            }
            None => {
                let action = "nothing was written: no bucket is set; set AFTERWRITE_BUCKET or pass --bucket";
                let failed = findings.iter().map(|finding| RepairLogEntry::failed(finding.clone(), action));
                Ok(failed.collect())
            }
        }
    }
}

impl<B: Bucket, T: Tables + TableScan + Clone, C: Clock + Clone> JobTask for RepairTask<B, T, C> {
    async fn step(&self, unit: &WorkUnit) -> Result<StepOutcome> {
        let of_part = |findings: &[VerifyFinding], part: usize| {
            findings.chunks(UNIT_FINDINGS).nth(part).unwrap_or_default().to_vec()
        };
        let log = match *self.parts.find(unit)? {
            RepairPart::Items { part } => {
                Box::pin(self.repairer.repair_items(&of_part(&self.findings.items, part))).await?
            }
            RepairPart::Datasets { part } => {
                Box::pin(self.repair_datasets(&of_part(&self.findings.datasets, part))).await?
            }
            RepairPart::Levels { part } => {
                Box::pin(self.repairer.repair_items(&of_part(&self.findings.levels, part))).await?
            }
            RepairPart::Rollups => Box::pin(self.repairer.repair_rollups(&self.findings.rollups)).await?,
            RepairPart::Above => Box::pin(self.repairer.repair_levels_above(&self.left_rollups())).await?,
        };
        let items = count(log.len());
        let mut totals = repair_totals(&log);
        self.repairer.report_dropped(&mut totals);
        self.totals.lock().unwrap_or_else(PoisonError::into_inner).add_all(&totals);
        self.log.lock().unwrap_or_else(PoisonError::into_inner).extend(log);
        Ok(StepOutcome { items, spent: items, totals, ..StepOutcome::default() })
    }

    fn waiting(&self) -> Option<JobWait> {
        let datasets = self.datasets.as_ref().and_then(|judge| judge.waits().current());
        later(self.repairer.waiting(), datasets)
    }
}
