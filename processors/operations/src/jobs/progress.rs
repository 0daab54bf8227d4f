//! The progress of a job, for people and machines.

use afterwrite_model::record::Timestamp;
use serde::Serialize;
use serde_json::Value;

use super::basis::JobBasis;
use super::next::NextStep;
use super::plan::{JobCosts, JobPlan, UnitPrices, approximate};
use super::state::{JobState, JobStatus};
use super::totals::JobTotals;
use super::wait::{JobWait, WaitReason};
use super::work::WorkSummary;

/// How far a job is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct JobProgress {
    /// The items that were processed.
    pub items: u64,
    /// Their size in bytes.
    pub bytes: u64,
    /// The units that are done.
    pub units_done: usize,
    /// All units.
    pub units: usize,
    /// The processed share, from 0 to 100; of bytes if the plan has them, else of items.
    pub percent: f64,
    /// The items that are left by the plan.
    pub backlog: u64,
    /// Items a second, since the job was started or resumed in this process.
    pub rate: f64,
}

/// A wait of a job, for people and machines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WaitReport {
    /// The reason of the wait.
    pub reason: WaitReason,
    /// When the wait ends.
    pub until: String,
    #[serde(skip)]
    wait: JobWait,
}

impl WaitReport {
    fn of(wait: &JobWait) -> Self {
        Self { reason: wait.reason, until: wait.until.to_string(), wait: *wait }
    }
}

/// A job with its progress, its estimated end and what can be done next.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct JobReport {
    /// Its id.
    pub id: String,
    /// The name of its kind.
    pub kind: &'static str,
    /// The name of its status.
    pub status: &'static str,
    /// Its arguments.
    pub arguments: Value,
    /// The basis that it was planned for, and is resumed on; absent for a job of an earlier version, which is not resumed.
    pub basis: Option<JobBasis>,
    /// How far it is.
    pub progress: JobProgress,
    /// The seconds until it is done; absent if unknown.
    pub eta: Option<u64>,
    /// The most items a second.
    pub rate_limit: Option<u64>,
    /// Counters of its work.
    pub totals: JobTotals,
    /// The estimate before the start.
    pub plan: JobPlan,
    /// The price of the plan.
    pub costs: JobCosts,
    /// When it was created.
    pub created_at: String,
    /// When it was started first.
    pub started_at: Option<String>,
    /// When its state was saved last.
    pub updated_at: String,
    /// Until when a process holds it.
    pub lease_until: Option<String>,
    /// From when a paused job can be resumed at the latest, while a process still holds it.
    pub resumable_from: Option<String>,
    /// Why it failed.
    pub failure: Option<String>,
    /// Its wait.
    pub waiting: Option<WaitReport>,
    /// Commands that make sense now.
    pub next_steps: Vec<String>,
    /// Whether it can never run again.
    #[serde(skip)]
    has_ended: bool,
}

/// The beginning of a measured time.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProgressOrigin {
    pub(super) at: Timestamp,
    pub(super) items: u64,
    pub(super) bytes: u64,
}

impl ProgressOrigin {
    /// The state of a job at a time.
    pub(super) fn of(job: &JobState, at: Timestamp) -> Self {
        Self { at, items: job.work.items, bytes: job.work.bytes }
    }
}

impl JobReport {
    /// The report of a stored job. Rates are those since it was started.
    #[must_use]
    pub fn of(job: &JobState) -> Self {
        let origin = ProgressOrigin { at: job.started_at.unwrap_or(job.created_at), items: 0, bytes: 0 };
        Self::since(job, origin, job.updated_at)
    }

    /// The report of a running job.
    pub(super) fn since(job: &JobState, origin: ProgressOrigin, now: Timestamp) -> Self {
        let (progress, eta) = progress(job, origin, now);
        Self {
            id: job.id.clone(),
            kind: job.kind.name(),
            status: job.status.name(),
            arguments: job.arguments.clone(),
            basis: job.basis.clone(),
            progress,
            eta,
            rate_limit: job.rate,
            totals: job.totals.clone(),
            plan: job.plan.clone(),
            costs: job.plan.costs(UnitPrices::ON_DEMAND, job.rate),
            created_at: job.created_at.to_string(),
            started_at: job.started_at.map(|at| at.to_string()),
            updated_at: job.updated_at.to_string(),
            lease_until: job.lease.as_ref().map(|lease| lease.until.to_string()),
            resumable_from: job.resumable_from().map(|from| from.to_string()),
            failure: job.failure.clone(),
            waiting: running_wait(job).map(|wait| WaitReport::of(&wait)),
            next_steps: NextStep::all_of(job).into_iter().map(|step| step.command(job)).collect(),
            has_ended: !job.status.can_run(),
        }
    }

    /// One line: `42% 1234 items, 120/s, 1766 left, ETA 15 s`, without an ETA once it has ended, or `99%, waits for the tolerance until 10:15:00Z`.
    #[must_use]
    pub fn line(&self) -> String {
        if let Some(WaitReport { wait, .. }) = &self.waiting {
            return format!("{}{}", self.before_wait(), wait.line());
        }
        let JobProgress { items, percent, rate, backlog, .. } = self.progress;
        let line = format!("{percent:.0}% {items} items, {rate:.0}/s, {backlog} left");
        if self.has_ended {
            return line;
        }
        let eta = self.eta.map_or_else(|| "unknown".to_owned(), duration_text);
        format!("{line}, ETA {eta}")
    }

    /// The line of a job that waits, around the time at which its wait ends: the text before it, the time, and the text after it.
    #[must_use]
    pub fn line_around_time(&self) -> Option<(String, Timestamp, String)> {
        let wait = self.waiting.as_ref()?.wait;
        let (before, after) = wait.around_time();
        Some((format!("{}{before}", self.before_wait()), wait.until, after))
    }

    fn before_wait(&self) -> String {
        format!("{:.0}%, ", self.progress.percent)
    }
}

/// The wait of a job that a process runs.
fn running_wait(job: &JobState) -> Option<JobWait> {
    job.waiting.filter(|_| job.status == JobStatus::Running)
}

/// Seconds as `15 s`, `3 min 20 s`, `2 h 5 min`.
fn duration_text(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3600.. => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

fn progress(job: &JobState, origin: ProgressOrigin, now: Timestamp) -> (JobProgress, Option<u64>) {
    let WorkSummary { units, units_done, items, bytes } = job.work;
    let is_done = units_done == units;
    let (done, all, since) = if job.plan.bytes > 0 {
        (bytes, job.plan.bytes, origin.bytes)
    } else {
        (items, job.plan.items, origin.items)
    };
    let share = if is_done { 1.0 } else { (approximate(done) / approximate(all.max(1))).min(0.99) };
    let seconds = approximate(u64::try_from(now.since(origin.at).as_millis()).unwrap_or(0)) / 1000.0;
    let speed = if seconds > 0.0 { approximate(done.saturating_sub(since)) / seconds } else { 0.0 };
    let rate = if seconds > 0.0 { approximate(items.saturating_sub(origin.items)) / seconds } else { 0.0 };
    let left = approximate(all.saturating_sub(done));
    let eta = match job.status {
        JobStatus::Running if is_done => Some(0),
        JobStatus::Running if speed > 0.0 => Some(whole(left / speed)),
        JobStatus::Running
        | JobStatus::Planned
        | JobStatus::Paused
        | JobStatus::Stopped
        | JobStatus::Done
        | JobStatus::Failed => None,
    };
    let backlog = if is_done { 0 } else { job.plan.items.saturating_sub(items) };
    let progress = JobProgress {
        items,
        bytes,
        units_done,
        units,
        percent: (share * 1000.0).round() / 10.0,
        backlog,
        rate: (rate * 10.0).round() / 10.0,
    };
    (progress, eta)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a number of seconds, rounded up"
)]
fn whole(seconds: f64) -> u64 {
    seconds.ceil() as u64
}
