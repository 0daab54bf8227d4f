//! A verification as one job: the ledger, rollups and mirrors, and datasets, if they are compared.

use std::sync::Arc;

use afterwrite_ledger::tables::{TableScan, Tables};
use afterwrite_model::Result;
use afterwrite_model::clock::Clock;
use afterwrite_model::table::Model;
use afterwrite_services::Bucket;

use super::arguments::{DatasetCoverage, VerifyArguments};
use super::datasets::{DatasetCheck, ReadSides, check_units};
use super::journal::VerifyEntry;
use super::report::VerifyReport;
use super::task::VerifyTask;
use super::units::parts;
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

    /// Restricts the comparison of datasets to what was read.
    pub(crate) fn limit_datasets(&self, sides: ReadSides) {
        if let Some(datasets) = &self.datasets {
            datasets.limit(sides);
        }
    }

    /// The number of suspects (items, rollups and rows) that the run did not judge before its deadline.
    pub(crate) fn unjudged(&self, items_done: bool, rollups_done: bool, rows_done: bool) -> u64 {
        let rows = self.datasets.as_ref().map_or(0, |datasets| datasets.unjudged(rows_done));
        self.state.unjudged(items_done, rollups_done) + rows
    }

    /// The result, once every unit is done. `totals` are those of the job.
    #[must_use]
    pub fn report(&self, totals: &JobTotals) -> VerifyReport {
        let (run, mut findings) = self.state.found(self.coverage);
        findings.extend(self.datasets.iter().flat_map(DatasetCheck::findings));
        VerifyReport::new(&run, totals, findings)
    }
}

/// The units of a verification with these arguments.
#[must_use]
pub fn verify_units(model: &Arc<Model>, arguments: &VerifyArguments) -> Vec<WorkUnit> {
    let mut units: Vec<WorkUnit> = parts(model, arguments).into_iter().map(|(unit, _)| unit).collect();
    if arguments.datasets == DatasetCoverage::Compared {
        units.extend(check_units(model, arguments));
    }
    units
}

impl<B: Bucket, T: Tables + TableScan + Clone, C: Clock> JobTask for VerifyJob<B, T, C> {
    async fn step(&self, unit: &WorkUnit) -> Result<StepOutcome> {
        match &self.datasets {
            Some(datasets) if datasets.has(unit) => datasets.step(unit).await,
            Some(_) | None => self.state.step(unit).await,
        }
    }

    /// Restores what the journal has, and sets back the units whose results are lost.
    async fn restore(&self, job: &mut AcquiredJob) -> Result<()> {
        let Some(journal) = &self.journal else { return Ok(()) };
        let entries: Vec<VerifyEntry> = journal.read().await?;
        self.state.restore(job, &entries);
        if let Some(datasets) = &self.datasets {
            datasets.restore(&entries);
        }
        Ok(())
    }

    fn waiting(&self) -> Option<JobWait> {
        later(self.state.waiting(), self.datasets.as_ref().and_then(DatasetCheck::waiting))
    }
}
