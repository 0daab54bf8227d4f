//! Runs a job: starts steps, limits their rate, saves cursors, obeys operators.
//!
//! ```text
//!            ┌──────────── free worker, and the rate allows it ◀───────────────┐
//!            ▼                                                                 │
//!   idle unit of the current phase ──▶ JobTask::step ──▶ cursor, totals ───────┤
//!                                           │ error that can be retried: again │
//!                                           ▼                                  │
//!                                  failed: steps in flight end, state is saved │
//!   each second: report, read status and rate ─ paused or stopped: the same,   │
//!                                               without steps that only wait   │
//!   every five seconds: save cursors, renew the lease ─────────────────────────┘
//! ```

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use afterwrite_ledger::tables::Tables;
use afterwrite_model::clock::Clock;
use afterwrite_model::record::Timestamp;
use afterwrite_model::{Error, Result};
use futures::future::{Either, select};
use futures::stream::{FuturesUnordered, StreamExt as _};

use super::progress::{JobReport, ProgressOrigin};
use super::rate::RateLimiter;
use super::requests::repeated;
use super::state::{JobState, JobStatus};
use super::store::JobStore;
use super::totals::JobTotals;
use super::units::{AcquiredJob, JobUnits, StoredPart, UnitQueue};
use super::wait::JobWait;
use super::work::{StepOutcome, WorkUnit};

/// The time between two reports and two readings of status and rate.
const TICK: Duration = Duration::from_secs(1);
/// The time between two saves: what a resumed job repeats at most.
const SAVE_TIME: Duration = Duration::from_secs(5);
/// How long the errors of a step are retried.
pub(crate) const STEP_TIME: Duration = Duration::from_secs(120);

/// The work of one kind of job.
pub trait JobTask: Sync {
    /// Does a small part of a unit, beginning at its cursor. It must be idempotent: after a kill it runs again. A step whose error
    /// can be retried is repeated for up to two minutes.
    fn step(&self, unit: &WorkUnit) -> impl Future<Output = Result<StepOutcome>>;

    /// Prepares the task and its units for this process, once it has the lease: restores what an earlier process has found.
    fn restore(&self, _job: &mut AcquiredJob) -> impl Future<Output = Result<()>> {
        async { Ok(()) }
    }

    /// The wait of the steps; `None` if none of them waits longer than for a request.
    fn waiting(&self) -> Option<JobWait> {
        None
    }

    /// Whether the step that runs only waits: if an operator pauses or stops the job, the step is dropped where it is. If several steps run, none is dropped.
    fn only_waits(&self) -> bool {
        self.waiting().is_some()
    }
}

/// Sees the progress of a running job.
pub trait JobObserver: Sync {
    /// Called about once a second, and at the end.
    fn observe(&self, report: &JobReport);
}

/// Ignores the progress.
#[derive(Clone, Copy, Debug, Default)]
pub struct SilentObserver;

impl JobObserver for SilentObserver {
    fn observe(&self, _: &JobReport) {}
}

/// Runs the jobs of a store.
#[derive(Debug)]
pub struct JobRunner<'r, T, C, O> {
    /// The store.
    pub store: &'r JobStore<T, C>,
    /// Sees the progress.
    pub observer: &'r O,
    /// The most steps at once.
    pub workers: usize,
}

/// Why no more steps are started.
enum RunEnd {
    /// Every unit is done.
    Done,
    /// A step failed.
    Failed(Error),
    /// An operator paused or stopped the job.
    Requested(JobStatus),
    /// Another process has the lease.
    LostLease,
}

/// A job while it runs.
struct JobRun {
    job: JobState,
    units: JobUnits,
    /// The units that are not done, without those of which a step runs.
    queue: UnitQueue,
    limiter: RateLimiter,
    origin: ProgressOrigin,
    next_tick: Timestamp,
    next_save: Timestamp,
}

/// A step of a unit that begins.
struct BegunStep {
    /// The unit, by its index.
    index: usize,
    unit: WorkUnit,
    /// The charge of the rate limiter.
    charged: u64,
}

/// The end of a step of a unit.
struct EndedStep {
    index: usize,
    charged: u64,
    /// The result; `None` if the step is to be repeated, and the run ends before: an operator has paused or stopped the job, or another step has failed.
    outcome: Option<Result<StepOutcome>>,
}

/// The state to exchange with the store.
struct Exchange {
    job: JobState,
    /// The parts to save; `None` until the next save is due.
    parts: Option<Vec<StoredPart>>,
}

impl JobRun {
    fn new(AcquiredJob { state, units }: AcquiredJob, now: Timestamp) -> Self {
        Self {
            limiter: RateLimiter::new(state.rate, now),
            origin: ProgressOrigin::of(&state, now),
            queue: UnitQueue::of(&units),
            next_tick: now.plus(TICK),
            next_save: now.plus(SAVE_TIME),
            job: state,
            units,
        }
    }

    /// Begins a step of the next unit of the current phase that no step runs of, if the workers and the rate allow it beside so many.
    fn begin_step(&mut self, running: usize, workers: usize, now: Timestamp) -> Option<BegunStep> {
        if running >= workers.max(1) || !self.limiter.allows(running, now) {
            return None;
        }
        let index = self.queue.take()?;
        let unit = self.units.get(index)?.clone();
        Some(BegunStep { index, unit, charged: self.limiter.begin(now) })
    }

    /// Takes the result of a step; an error ends the run.
    fn finish(
        &mut self,
        EndedStep { index, charged, outcome }: EndedStep,
        now: Timestamp,
        end: &mut Option<RunEnd>,
    ) {
        let Some(phase) = self.units.get(index).map(|unit| unit.phase) else { return };
        match outcome {
            Some(Ok(outcome)) => {
                self.limiter.end(outcome.spent, charged, now);
                self.apply(index, &outcome);
                self.queue.put_back(index, phase, outcome.cursor.is_none());
            }
            Some(Err(error)) => {
                self.queue.put_back(index, phase, false);
                *end = Some(RunEnd::Failed(error));
            }
            None => self.queue.put_back(index, phase, false),
        }
    }

    fn apply(&mut self, index: usize, outcome: &StepOutcome) {
        self.units.apply(index, outcome);
        let work = &mut self.job.work;
        work.units_done += usize::from(outcome.cursor.is_none());
        work.items += outcome.items;
        work.bytes += outcome.bytes;
        self.job.totals.add_all(&outcome.totals);
    }

    /// The state to exchange with the store.
    fn begin_tick(&mut self, now: Timestamp) -> Result<Exchange> {
        self.next_tick = now.plus(TICK);
        let mut parts = None;
        if now >= self.next_save {
            self.next_save = now.plus(SAVE_TIME);
            parts = Some(self.units.take_changed(now)?);
        }
        Ok(Exchange { job: self.job.clone(), parts })
    }

    /// Takes the lease and the rate of the exchanged state. Steps may have changed the others meanwhile.
    fn end_tick(&mut self, exchanged: JobState, now: Timestamp) {
        self.job.lease = exchanged.lease;
        self.job.updated_at = exchanged.updated_at;
        self.job.rate = exchanged.rate;
        self.limiter.set_rate(exchanged.rate, now);
    }
}

impl<T: Tables, C: Clock, O: JobObserver> JobRunner<'_, T, C, O> {
    /// Runs a job that [`JobStore::acquire`] returned, until it is done, fails, or an operator pauses or stops it. Returns its
    /// last state.
    ///
    /// # Errors
    /// The error of the step that failed, once the job's state is saved; [`Configuration`](afterwrite_model::ErrorKind::Configuration)
    /// if another process has taken over the job.
    pub async fn run(&self, job: AcquiredJob, task: &impl JobTask) -> Result<JobState> {
        let mut run = JobRun::new(job, self.store.clock().now());
        let end = self.steps(&mut run, task).await?;
        let mut failure = None;
        run.job.waiting = None;
        run.job.status = match end {
            RunEnd::Done => JobStatus::Done,
            RunEnd::Requested(status) => status,
            RunEnd::Failed(error) => {
                run.job.failure = Some(error.to_string());
                failure = Some(error);
                JobStatus::Failed
            }
            RunEnd::LostLease => return Err(lost_lease(&run.job)),
        };
        let parts = run.units.take_changed(self.store.clock().now())?;
        if !self.store.release(&mut run.job, &parts).await? && failure.is_none() {
            return Err(lost_lease(&run.job));
        }
        self.observer.observe(&JobReport::since(&run.job, run.origin, self.store.clock().now()));
        failure.map_or(Ok(run.job), Err)
    }

    async fn steps(&self, run: &mut JobRun, task: &impl JobTask) -> Result<RunEnd> {
        let clock = self.store.clock();
        let (is_ending, mut end) = (AtomicBool::new(false), None);
        let mut running = FuturesUnordered::new();
        loop {
            let now = clock.now();
            while end.is_none()
                && let Some(begun) = run.begin_step(running.len(), self.workers, now)
            {
                running.push(self.step(task, begun, &is_ending));
            }
            if running.is_empty() {
                let is_done = run.queue.is_done();
                if let Some(end) = end.take().or_else(|| is_done.then_some(RunEnd::Done)) {
                    return Ok(end);
                }
                // The rate holds the next step.
                let free_at = run.limiter.free_at().min(run.next_tick);
                clock.sleep(free_at.since(now).max(Duration::from_millis(1))).await;
            } else if let Either::Left((Some(step), _)) =
                select(running.next(), pin!(clock.until(run.next_tick))).await
            {
                run.finish(step, clock.now(), &mut end);
            }
            if clock.now() >= run.next_tick {
                match self.tick(run, task, &mut running, &mut end).await? {
                    Some(RunEnd::LostLease) => return Ok(RunEnd::LostLease),
                    Some(requested) if end.is_none() => end = Some(requested),
                    Some(_) | None => {}
                }
                is_ending.store(end.is_some(), Ordering::Relaxed);
                // A wait may last for minutes, or for ever: the process that resumes the job repeats the step.
                if let Some(RunEnd::Requested(status)) = end
                    && running.len() == 1
                    && task.only_waits()
                {
                    return Ok(RunEnd::Requested(status));
                }
            }
        }
    }

    /// Reports, exchanges the state with the store, and takes the steps that have ended meanwhile. Returns why the run must end, if it must.
    async fn tick(
        &self,
        run: &mut JobRun,
        task: &impl JobTask,
        running: &mut FuturesUnordered<impl Future<Output = EndedStep>>,
        end: &mut Option<RunEnd>,
    ) -> Result<Option<RunEnd>> {
        run.job.waiting = task.waiting();
        let clock = self.store.clock();
        self.observer.observe(&JobReport::since(&run.job, run.origin, clock.now()));
        let Exchange { mut job, parts } = run.begin_tick(clock.now())?;
        let exchange = self.exchange(&mut job, parts.as_deref());
        let (requested, ended) = while_polling(exchange, running).await;
        for step in ended {
            run.finish(step, clock.now(), end);
        }
        run.end_tick(job, clock.now());
        let requested = requested?;
        if requested.is_some() {
            // The state may not have been saved.
            run.units.mark_changed(parts.iter().flatten());
        }
        Ok(requested)
    }

    /// One step, repeated while its errors can be retried, but not once the run is to end: the process that resumes the job repeats the
    /// step.
    async fn step(&self, task: &impl JobTask, begun: BegunStep, is_ending: &AtomicBool) -> EndedStep {
        let BegunStep { index, unit, charged } = &begun;
        let mut has_failed = false;
        let attempt = || {
            let gives_up = std::mem::replace(&mut has_failed, true) && is_ending.load(Ordering::Relaxed);
            async move { if gives_up { Ok(None) } else { Box::pin(task.step(unit)).await.map(Some) } }
        };
        let outcome = repeated(self.store.clock(), STEP_TIME, attempt).await.transpose();
        EndedStep { index: *index, charged: *charged, outcome }
    }

    /// Reads the stored status and rate, and saves the state if there is something to save. `job` takes the renewed lease and the rate. Returns
    /// why the run must end, if it must.
    async fn exchange(&self, job: &mut JobState, parts: Option<&[StoredPart]>) -> Result<Option<RunEnd>> {
        let (mut stored, now) = self.store.reload(job).await?;
        if let Some(parts) = parts
            && !self.store.save(job, parts, now).await?
        {
            stored = self.store.reload(job).await?.0;
        }
        let owner = |job: &JobState| job.lease.as_ref().map(|lease| lease.owner.clone());
        if owner(&stored) != owner(job) {
            return Ok(Some(RunEnd::LostLease));
        }
        job.rate = stored.rate;
        Ok((stored.status != JobStatus::Running).then_some(RunEnd::Requested(stored.status)))
    }
}

/// Runs the steps of units one after the other, without a job; returns their counters. Calls `progress` after each step.
///
/// # Errors
/// As [`JobTask::step`].
pub(crate) async fn run_units(
    task: &impl JobTask,
    units: Vec<WorkUnit>,
    mut progress: impl FnMut(&JobTotals),
) -> Result<JobTotals> {
    let mut totals = JobTotals::new();
    for mut unit in units {
        while !unit.is_done {
            let outcome = Box::pin(task.step(&unit)).await?;
            (unit.is_done, unit.cursor) = (outcome.cursor.is_none(), outcome.cursor);
            totals.add_all(&outcome.totals);
            progress(&totals);
        }
    }
    Ok(totals)
}

/// Awaits requests while steps go on; returns the steps that have ended meanwhile, too.
///
/// A step that is not polled may hold a permit to send requests, or be the next to get one: requests that wait for that permit would
/// never be sent.
async fn while_polling<R: Future, S: Future>(
    requests: R,
    steps: &mut FuturesUnordered<S>,
) -> (R::Output, Vec<S::Output>) {
    let mut requests = pin!(requests);
    let mut ended = Vec::new();
    while !steps.is_empty() {
        match select(requests.as_mut(), steps.next()).await {
            Either::Left((output, _)) => return (output, ended),
            Either::Right((step, _)) => ended.extend(step),
        }
    }
    (requests.await, ended)
}

fn lost_lease(job: &JobState) -> Error {
    Error::new(
        afterwrite_model::ErrorKind::Configuration,
        "another process has taken over the job, because this one did not renew its lease in time",
    )
    .with("job", job.id.as_str())
    .hint("The other process goes on with it; `afterwrite jobs show` shows its progress")
}
