//! A backfill as one job: what counts, and what fills datasets. Either may be absent.

use afterwrite_ledger::tables::{TableScan, Tables};
use afterwrite_model::Result;
use afterwrite_model::clock::Clock;
use afterwrite_services::Bucket;

use super::BackfillPart;
use super::datasets::DatasetFill;
use super::task::BackfillTask;
use crate::jobs::{JobTask, StepOutcome, WorkUnit, unknown_unit};

/// The parts of a backfill.
#[derive(Debug)]
pub struct BackfillJob<B, T, C> {
    /// Counts the items; `None` if only datasets are filled.
    pub counting: Option<BackfillTask<T, C>>,
    /// Fills datasets; `None` if they are skipped.
    pub filling: Option<DatasetFill<B, T, C>>,
}

impl<B: Bucket, T: Tables + TableScan + Clone, C: Clock> BackfillJob<B, T, C> {
    /// The units of the job.
    #[must_use]
    pub fn units(&self) -> Vec<WorkUnit> {
        let counting = self.counting.iter().flat_map(BackfillTask::units);
        counting.chain(self.filling.iter().flat_map(DatasetFill::units)).collect()
    }
}

impl<B: Bucket, T: Tables + TableScan + Clone, C: Clock> JobTask for BackfillJob<B, T, C> {
    async fn step(&self, unit: &WorkUnit) -> Result<StepOutcome> {
        match (&self.counting, &self.filling) {
            (_, Some(filling)) if filling.has(unit) => filling.step(unit).await,
            (Some(counting), _) => counting.step(unit).await,
            (None, _) => Err(unknown_unit(unit)),
        }
    }
}

impl<T: Tables + TableScan + Clone, C: Clock> JobTask for BackfillTask<T, C> {
    async fn step(&self, unit: &WorkUnit) -> Result<StepOutcome> {
        let mut outcome = match (self.parts.find(unit)?, &self.arguments.export) {
            (BackfillPart::Segment { table, segment, items }, _) => {
                Box::pin(self.segment(unit, *table, *segment, *items)).await?
            }
            (BackfillPart::File { index }, Some(export)) => Box::pin(self.file(unit, *index, export)).await?,
            (BackfillPart::Ledger { segment, level }, _) => {
                Box::pin(self.ledger_segment(unit, *segment, *level)).await?
            }
            (BackfillPart::File { .. }, None) => return Err(unknown_unit(unit)),
        };
        self.outcomes.report_dropped(&mut outcome.totals);
        Ok(outcome)
    }
}
