//! The steps of a bulk backfill, in this process or wherever the invoker runs them.

use std::future::Future;

use afterwrite_bulk::RunRequests;
use afterwrite_bulk::request::{BulkRequest, BulkResponse};
use afterwrite_model::clock::Clock;
use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_services::Bucket;
use serde_json::Value;

use super::import::TableImporter;
use super::{BulkArguments, IMPORT, ITEMS, LOOKUPS, MAX_LANES, REDUCE};
use crate::jobs::{JobTask, StepOutcome, UnitMeanings, WorkUnit, unknown_unit};

/// Runs a step: the handler itself, or a Lambda function with the same handler.
pub trait StepInvoker: Sync {
    /// Carries out a request.
    ///
    /// # Errors
    /// As [`BulkWorker::handle`](afterwrite_bulk::BulkWorker::handle).
    fn invoke(&self, request: &BulkRequest) -> impl Future<Output = Result<BulkResponse>>;
}

/// The part of a bulk backfill that a unit stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BulkPart {
    /// The steps of a phase from the first one on, with this distance.
    Lane { phase: u32, first: u32, distance: u32 },
    /// The import.
    Import,
}

/// A bulk backfill.
#[derive(Debug)]
pub struct BulkTask<I, C> {
    invoker: I,
    importer: TableImporter<C>,
    requests: RunRequests,
    parts: UnitMeanings<BulkPart>,
}

impl<I: StepInvoker, C: Clock> BulkTask<I, C> {
    /// The bulk backfill with these arguments, whose run is planned in `bucket`.
    ///
    /// # Errors
    /// As [`RunRequests::read`]; [`ErrorKind::Configuration`] if the bucket has another run than the job was planned with.
    pub async fn new(
        invoker: I,
        importer: TableImporter<C>,
        bucket: &impl Bucket,
        arguments: &BulkArguments,
    ) -> Result<Self> {
        let run = &arguments.bulk.run;
        let requests = RunRequests {
            lookups: RunRequests::read(bucket, run, "lookups").await?,
            items: RunRequests::read(bucket, run, "items").await?,
            reduce: RunRequests::read(bucket, run, "reduce").await?,
        };
        let count = |requests: &[BulkRequest]| u32::try_from(requests.len()).unwrap_or(u32::MAX);
        if requests.phases().map(|(_, requests)| count(requests)) != arguments.requests {
            return Err(Error::new(
                ErrorKind::Configuration,
                "the folder of the run has other steps than the job was planned with",
            )
            .with("folder", run.as_str())
            .hint("Start another bulk backfill with a --run-folder of its own"));
        }
        Ok(Self { invoker, importer, requests, parts: UnitMeanings::new(parts(arguments.requests)) })
    }

    async fn lane(&self, unit: &WorkUnit, phase: u32, first: u32, distance: u32) -> Result<StepOutcome> {
        let requests = match phase {
            LOOKUPS => &self.requests.lookups,
            ITEMS => &self.requests.items,
            _ => &self.requests.reduce,
        };
        let cursor = unit.cursor.as_ref().and_then(Value::as_u64).unwrap_or(u64::from(first));
        let index = usize::try_from(cursor).unwrap_or(usize::MAX);
        let request = requests.get(index).ok_or_else(|| unknown_unit(unit))?;
        let mut totals = match self.invoker.invoke(request).await? {
            BulkResponse::Counted { totals } => totals,
            BulkResponse::Planned(_) => {
                return Err(Error::new(
                    ErrorKind::State,
                    "the worker returned the response to another request",
                ));
            }
        };
        let next = cursor + u64::from(distance);
        let is_last = usize::try_from(next).map_or(true, |next| next >= requests.len());
        // A data file is read once for each pass: its items are the progress of the second one, and are counted there.
        let items = if phase == ITEMS { totals.get("items").copied().unwrap_or(0) } else { 0 };
        if phase == LOOKUPS {
            totals.remove("items");
        }
        Ok(StepOutcome {
            cursor: (!is_last).then(|| next.into()),
            items,
            bytes: 0,
            spent: items,
            totals: totals.into(),
        })
    }
}

impl<I: StepInvoker, C: Clock> JobTask for BulkTask<I, C> {
    async fn step(&self, unit: &WorkUnit) -> Result<StepOutcome> {
        match *self.parts.find(unit)? {
            BulkPart::Lane { phase, first, distance } => {
                Box::pin(self.lane(unit, phase, first, distance)).await
            }
            BulkPart::Import => Box::pin(self.importer.step(unit)).await,
        }
    }
}

/// The units of a job with so many steps in each phase.
#[must_use]
pub fn bulk_units(requests: [u32; 3]) -> Vec<WorkUnit> {
    parts(requests).into_iter().map(|(unit, _)| unit).collect()
}

fn parts(requests: [u32; 3]) -> Vec<(WorkUnit, BulkPart)> {
    let mut parts = Vec::new();
    for (phase, name, steps) in [LOOKUPS, ITEMS, REDUCE]
        .into_iter()
        .zip(["lookups", "items", "reduce"])
        .zip(requests)
        .map(|((phase, name), steps)| (phase, name, steps))
    {
        let distance = steps.min(MAX_LANES);
        parts.extend((0..distance).map(|first| {
            let unit = WorkUnit::new(format!("{name} {first}/{distance}"), phase);
            (unit, BulkPart::Lane { phase, first, distance })
        }));
    }
    parts.push((WorkUnit::new("import", IMPORT), BulkPart::Import));
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lanes_of_a_phase_have_every_step_once() {
        let units = parts([0, 130, 3]);
        assert_eq!(units.len(), 64 + 3 + 1);
        let mut steps = Vec::new();
        for (_, part) in &units {
            if let BulkPart::Lane { phase: ITEMS, first, distance } = part {
                steps.extend((*first..130).step_by(usize::try_from(*distance).unwrap()));
            }
        }
        steps.sort_unstable();
        assert_eq!(steps, (0..130).collect::<Vec<_>>());
    }
}
