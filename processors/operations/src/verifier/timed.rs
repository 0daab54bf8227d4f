//! A verification within a time limit: its phases in groups, each with a share of the time.
//!
//! | group | phases | ends after | if time runs out |
//! |---|---|---|---|
//! | sums | 0–2 | 40 % | rollups are not judged |
//! | items | 3–4 | 65 % | the other segments are not read |
//! | rows | 8–10 | 100 % | keys are compared as far as both sides were read |
//! | rechecks | 5 and 11, then 6–7 | the deadline | suspects are undecided |
//!
//! The shares are of the time that is left when the rechecks have theirs: they wait for the tolerance. Segments are read in random order,
//! so that runs that are cut short check different parts.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::RangeInclusive;
use std::time::Duration;

use afterwrite_ledger::tables::{TableScan, Tables};
use afterwrite_model::clock::{Clock, within};
use afterwrite_model::record::Timestamp;
use afterwrite_model::retry::RetryPolicy;
use afterwrite_model::{Error, Result};
use afterwrite_services::Bucket;
use futures::future::join;
use futures::stream::{FuturesUnordered, StreamExt as _};
use serde::Serialize;

use crate::jobs::{JobTask as _, JobTotals, StepOutcome, WorkUnit, approximate, count};
use crate::verify::{ReadSides, VerifyJob, VerifyReport};

/// The steps at once.
const WORKERS: usize = 8;
/// The time of rechecks in addition to the tolerance.
const RECHECK_TIME: Duration = Duration::from_secs(60);
/// The end of each group, in percent of the time before rechecks.
const SUMS_END: u32 = 40;
const ITEMS_END: u32 = 65;

/// How much of the tables was read, from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct VerifiedShare {
    /// The state table, for the sums of the ledger: 1, or 0 if there was too little time.
    pub rollups: f64,
    /// The source tables, by segments, including the segments that earlier runs have read for the same sample.
    pub items: f64,
    /// The ledger, for entries without items, by segments, as those of items.
    pub entries: f64,
    /// The source tables, for rows of datasets, by segments.
    pub dataset_items: f64,
    /// The datasets, by datasets that were read to their end.
    pub dataset_rows: f64,
    /// Suspects that were not judged again.
    pub unjudged: u64,
}

/// The result of a run.
#[derive(Clone, Debug)]
pub struct TimedResult {
    /// The findings and their numbers.
    pub report: VerifyReport,
    /// How much of the tables was read.
    pub share: VerifiedShare,
    /// The units that are done.
    pub done: BTreeSet<String>,
}

/// A verification within a time limit.
#[derive(Debug)]
pub struct TimedVerification<'v, B, T, C> {
    /// The verification. Its judges end before the deadline, too.
    pub job: &'v VerifyJob<B, T, C>,
    /// The time and randomness.
    pub clock: &'v C,
    /// When everything must be done.
    pub deadline: Timestamp,
    /// The longest time that a record is in flight.
    pub tolerance: Duration,
}

/// The units of a run by phase, and the totals of their steps.
#[derive(Debug, Default)]
struct TimedRun {
    units: BTreeMap<u32, Vec<WorkUnit>>,
    totals: JobTotals,
}

impl TimedRun {
    /// The share of a phase's units that are done.
    fn share(&self, phase: u32) -> f64 {
        let units = self.units.get(&phase).map(Vec::as_slice).unwrap_or_default();
        let done = units.iter().filter(|unit| unit.is_done).count();
        let number = |units: usize| approximate(count(units));
        if units.is_empty() { 0.0 } else { number(done) / number(units.len()) }
    }

    fn is_done(&self, phase: u32) -> bool {
        self.units.get(&phase).is_some_and(|units| units.iter().all(|unit| unit.is_done))
    }

    fn apply(&mut self, mut unit: WorkUnit, outcome: StepOutcome) -> WorkUnit {
        unit.is_done = outcome.cursor.is_none();
        unit.cursor = outcome.cursor;
        self.totals.add_all(&outcome.totals);
        unit
    }
}

impl<B: Bucket, T: Tables + TableScan + Clone, C: Clock> TimedVerification<'_, B, T, C> {
    /// Verifies as much as there is time for. Units that are done already are not repeated, and count as read.
    ///
    /// # Errors
    /// As [`Tables`], [`TableScan`] and [`Bucket`], for errors that a retry does not help.
    pub async fn run(&self, units: Vec<WorkUnit>) -> Result<TimedResult> {
        let mut run = TimedRun::default();
        for unit in units {
            run.units.entry(unit.phase).or_default().push(unit);
        }
        let begun = self.clock.now();
        let before_rechecks = self.deadline.since(begun).saturating_sub(self.tolerance + RECHECK_TIME);
        let end = |percent: u32| begun.plus(before_rechecks * percent / 100);
        self.phases(&mut run, 0..=2, end(SUMS_END)).await?;
        self.phases(&mut run, 3..=3, end((SUMS_END + ITEMS_END) / 2)).await?;
        self.phases(&mut run, 4..=4, end(ITEMS_END)).await?;
        self.rows(&mut run, end(100)).await?;
        self.rechecks(&mut run).await?;
        let share = VerifiedShare {
            rollups: run.share(2),
            items: run.share(3),
            entries: run.share(4),
            dataset_items: run.share(8),
            dataset_rows: run.share(9),
            unjudged: self.job.unjudged(run.is_done(5), run.is_done(7), run.is_done(11)),
        };
        let done = run.units.into_values().flatten().filter(|unit| unit.is_done);
        let done = done.map(|unit| unit.name).collect();
        Ok(TimedResult { report: self.job.report(&run.totals), share, done })
    }

    /// Compares rows of datasets with items, as far as both were read.
    async fn rows(&self, run: &mut TimedRun, until: Timestamp) -> Result<()> {
        if !run.units.contains_key(&10) {
            return Ok(());
        }
        let half = self.clock.now().plus(until.since(self.clock.now()) / 2);
        self.phases(run, 8..=8, half).await?;
        self.phases(run, 9..=9, until).await?;
        self.job.limit_datasets(ReadSides { items: run.is_done(8), rows: run.is_done(9) });
        // The comparison reads temporary files only.
        self.phases(run, 10..=10, self.deadline).await
    }

    /// Judges suspects of items and of datasets, which wait for the same tolerance; then suspected rollups.
    async fn rechecks(&self, run: &mut TimedRun) -> Result<()> {
        let mut items = TimedRun { units: run.units.split_off(&5), totals: JobTotals::new() };
        let mut rows = TimedRun { units: items.units.split_off(&8), totals: JobTotals::new() };
        let (of_items, of_rows) = join(
            self.phases(&mut items, 5..=5, self.deadline),
            self.phases(&mut rows, 11..=11, self.deadline),
        )
        .await;
        of_items?;
        of_rows?;
        // Without sums there are no suspected rollups.
        if run.is_done(2) && items.is_done(5) {
            self.phases(&mut items, 6..=7, self.deadline).await?;
        }
        for part in [items, rows] {
            run.units.extend(part.units);
            run.totals.add_all(&part.totals);
        }
        Ok(())
    }

    /// Runs phases one after the other, until all is done or it is time; a phase that is not done ends the group.
    async fn phases(&self, run: &mut TimedRun, phases: RangeInclusive<u32>, until: Timestamp) -> Result<()> {
        for phase in phases {
            let Some(units) = run.units.remove(&phase) else { continue };
            let units = Box::pin(self.phase(run, self.shuffled(units), until)).await?;
            run.units.insert(phase, units);
            if !run.is_done(phase) {
                break;
            }
        }
        Ok(())
    }

    async fn phase(
        &self,
        run: &mut TimedRun,
        units: Vec<WorkUnit>,
        until: Timestamp,
    ) -> Result<Vec<WorkUnit>> {
        let (mut ended, waiting): (Vec<_>, Vec<_>) = units.into_iter().partition(|unit| unit.is_done);
        let mut waiting = VecDeque::from(waiting);
        let mut running = FuturesUnordered::new();
        loop {
            while running.len() < WORKERS && self.clock.now() < until {
                let Some(unit) = waiting.pop_front() else { break };
                running.push(async move {
                    let outcome = self.step(&unit, until).await;
                    (unit, outcome)
                });
            }
            let Some((unit, outcome)) = running.next().await else { break };
            match outcome {
                Some(Ok(outcome)) => {
                    let unit = run.apply(unit, outcome);
                    // A segment that has begun goes on before another one begins.
                    if unit.is_done { ended.push(unit) } else { waiting.push_front(unit) }
                }
                Some(Err(error)) => return Err(error),
                None => ended.push(unit),
            }
        }
        ended.extend(waiting);
        Ok(ended)
    }

    /// A step, repeated while its errors can be retried; `None` if it was not done in time.
    async fn step(&self, unit: &WorkUnit, until: Timestamp) -> Option<Result<StepOutcome>> {
        let mut attempt = 0;
        loop {
            let outcome: Result<StepOutcome, Error> =
                within(self.clock, until, Box::pin(self.job.step(unit))).await?;
            match outcome {
                Err(error) if error.is_retryable() => {
                    attempt += 1;
                    if !RetryPolicy::STANDARD.wait(attempt, until, self.clock).await {
                        return None;
                    }
                }
                outcome => return Some(outcome),
            }
        }
    }

    /// The units in random order.
    fn shuffled(&self, units: Vec<WorkUnit>) -> Vec<WorkUnit> {
        let mut keyed: Vec<(u32, WorkUnit)> =
            units.into_iter().map(|unit| (self.clock.permille(), unit)).collect();
        keyed.sort_by_key(|(random, _)| *random);
        keyed.into_iter().map(|(_, unit)| unit).collect()
    }
}
