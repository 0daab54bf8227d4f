//! A verification as one job: the ledger, rollups and mirrors, and datasets, if they are compared.

use std::collections::BTreeSet;
use std::sync::Arc;

use afterwrite_ledger::tables::{TableScan, Tables};
use afterwrite_model::Result;
use afterwrite_model::clock::Clock;
use afterwrite_model::table::Model;
use afterwrite_services::Bucket;

use super::VerifyArguments;
use super::coverage::DatasetCoverage;
use super::datasets::{DatasetCheck, ReadSides};
use super::finding::VerifyFinding;
use super::journal::{VerifyEntry, set_back_units};
use super::sample::KeySample;
use super::state::VerifySummary;
use super::task::VerifyTask;
use super::unjudged::{RunKnowledge, unjudged_recheck};
use crate::jobs::{AcquiredJob, JobJournal, JobTask, JobTotals, JobWait, StepOutcome, WorkUnit, later};

/// The parts of a verification.
#[derive(Debug)]
pub struct VerifyJob<B, T, C> {
    /// Judges the state table.
    state: VerifyTask<T, C>,
    /// Compares datasets with items; `None` if they are not compared.
    datasets: Option<DatasetCheck<B, T, C>>,
    coverage: DatasetCoverage,
    journal: Option<Arc<JobJournal<T, C>>>,
}

/// The result of a verification.
#[derive(Clone, Debug, PartialEq)]
pub struct VerifyReport {
    /// Its numbers.
    pub summary: VerifySummary,
    /// Its findings: drift first, then by place and key.
    pub findings: Vec<VerifyFinding>,
}

impl<B: Bucket, T: Tables + TableScan + Clone, C: Clock> VerifyJob<B, T, C> {
    /// A verification of which nothing is kept for another process. Without `datasets`, `coverage` states why.
    #[must_use]
    pub fn new(
        state: VerifyTask<T, C>,
        datasets: Option<DatasetCheck<B, T, C>>,
        coverage: DatasetCoverage,
    ) -> Self {
        Self { state, datasets, coverage, journal: None }
    }

    /// Keeps what is found in the journal of the job, so that another process can resume it.
    #[must_use]
    pub fn with_journal(self, journal: JobJournal<T, C>) -> Self {
        let journal = Arc::new(journal);
        Self {
            state: self.state.with_journal(Arc::clone(&journal)),
            datasets: self.datasets.map(|datasets| datasets.with_journal(Arc::clone(&journal))),
            journal: Some(journal),
            ..self
        }
    }

    /// Prepares the job for this process: restores what the journal has, and sets back the units whose results are lost.
    ///
    /// # Errors
    /// As [`JobJournal::read`].
    pub async fn restore(&self, job: &mut AcquiredJob) -> Result<()> {
        let Some(journal) = &self.journal else { return Ok(()) };
        let entries: Vec<VerifyEntry> = journal.read().await?;
        set_back_units(job, self.state.is_three_way());
        self.state.restore(&entries);
        if let Some(datasets) = &self.datasets {
            datasets.restore(&entries);
        }
        Ok(())
    }

    /// Restricts the comparison of datasets to what was read.
    pub(crate) fn limit_datasets(&self, sides: ReadSides) {
        if let Some(datasets) = &self.datasets {
            datasets.limit(sides);
        }
    }

    /// The suspects for which a run had no time: those of items, rollups and rows.
    pub(crate) fn unjudged(&self, items_done: bool, rollups_done: bool, rows_done: bool) -> u64 {
        let rows = self.datasets.as_ref().map_or(0, |datasets| datasets.unjudged(rows_done));
        self.state.unjudged(items_done, rollups_done) + rows
    }

    /// The result, once every unit is done. `totals` are those of the job.
    #[must_use]
    pub fn report(&self, totals: &JobTotals) -> VerifyReport {
        let mut findings = self.state.findings();
        findings.extend(self.datasets.iter().flat_map(DatasetCheck::findings));
        VerifyReport::new(&self.state.knowledge(self.coverage), totals, findings)
    }
}

impl VerifyReport {
    /// A report of these findings of a run.
    pub(crate) fn new(run: &RunKnowledge<'_>, totals: &JobTotals, mut findings: Vec<VerifyFinding>) -> Self {
        let sample = run.arguments.key_sample();
        for finding in &mut findings {
            finding.sample = Some(sample).filter(|sample| !sample.is_all());
            finding.generation = Some(run.model.generation);
        }
        findings.sort_by(|one, other| {
            (one.verdict, one.place, &one.table, &one.key, &one.row).cmp(&(
                other.verdict,
                other.place,
                &other.table,
                &other.key,
                &other.row,
            ))
        });
        findings.dedup();
        Self { summary: VerifySummary::of(run, totals, &findings), findings }
    }

    /// A report of findings that were judged again: `found` are those that are left of `given`.
    #[must_use]
    pub fn of_recheck(
        model: &Model,
        given: &[VerifyFinding],
        found: Vec<VerifyFinding>,
        coverage: DatasetCoverage,
    ) -> Self {
        let is_left = |finding: &&VerifyFinding| {
            found.iter().any(|left| (&left.table, &left.key) == (&finding.table, &finding.key))
        };
        let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        let (items, left) = (count(given.len()), count(given.iter().filter(is_left).count()));
        let totals =
            JobTotals::from([("items".to_owned(), items), ("items_confirmed".to_owned(), items - left)]);
        let KeySample { share, seed } = given.iter().find_map(|finding| finding.sample).unwrap_or_default();
        let arguments = VerifyArguments { sample: share, seed, ..VerifyArguments::default() };
        let run = RunKnowledge { model, arguments: &arguments, coverage, decided_entities: BTreeSet::new() };
        let mut report = Self::new(&run, &totals, found);
        report.summary.unjudged =
            unjudged_recheck(items - left, items, &report.findings).into_iter().collect();
        report
    }
}

impl<B: Bucket, T: Tables + TableScan + Clone, C: Clock> JobTask for VerifyJob<B, T, C> {
    async fn step(&self, unit: &WorkUnit) -> Result<StepOutcome> {
        match &self.datasets {
            Some(datasets) if datasets.has(unit) => datasets.step(unit).await,
            Some(_) | None => self.state.step(unit).await,
        }
    }

    fn waiting(&self) -> Option<JobWait> {
        later(self.state.waiting(), self.datasets.as_ref().and_then(DatasetCheck::waiting))
    }
}
