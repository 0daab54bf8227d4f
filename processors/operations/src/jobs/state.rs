//! The state of a job, and whether a process may continue it.

pub use afterwrite_ledger::state::job::{JobLease, JobStatus};
use afterwrite_model::record::Timestamp;
use afterwrite_model::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::basis::JobBasis;
use super::plan::JobPlan;
use super::totals::JobTotals;
use super::wait::JobWait;
use super::work::{WorkSummary, WorkUnit};

/// The argument of a job that reads standard input or a pipe.
const READS_STREAM: &str = "reads_stream";

/// The kinds of jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobKind {
    /// Counts the items that a table already has.
    Backfill,
    /// Compares what is derived with the items.
    Verify,
    /// Repairs what `verify` found.
    Repair,
    /// Processes recorded changes again.
    Replay,
    /// Processes records again that could not be counted.
    Redrive,
}

impl JobKind {
    /// The name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Backfill => "backfill",
            Self::Verify => "verify",
            Self::Repair => "repair",
            Self::Replay => "replay",
            Self::Redrive => "redrive",
        }
    }
}

/// A job to create.
#[derive(Clone, Debug)]
pub struct NewJob {
    /// Its kind.
    pub kind: JobKind,
    /// Its arguments, as its kind defines them.
    pub arguments: Value,
    /// Its basis.
    pub basis: JobBasis,
    /// Its work.
    pub units: Vec<WorkUnit>,
    /// The estimate.
    pub plan: JobPlan,
    /// The most items a second; `None` for no limit.
    pub rate: Option<u64>,
}

/// A job, without its units: see [`AcquiredJob`](super::AcquiredJob).
#[derive(Clone, Debug, PartialEq)]
pub struct JobState {
    /// Its id, unique within the state table.
    pub id: String,
    /// Its kind.
    pub kind: JobKind,
    /// Its arguments, as its kind defines them.
    pub arguments: Value,
    /// Its basis; `None` if an earlier version created it. It continues on nothing else.
    pub basis: Option<JobBasis>,
    /// Its status.
    pub status: JobStatus,
    /// Its work in numbers.
    pub work: WorkSummary,
    /// The most items a second; `None` for no limit.
    pub rate: Option<u64>,
    /// Counters of its work so far.
    pub totals: JobTotals,
    /// The estimate that was made before it was started.
    pub plan: JobPlan,
    /// The process that runs it.
    pub lease: Option<JobLease>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was started first.
    pub started_at: Option<Timestamp>,
    /// When its state was saved last.
    pub updated_at: Timestamp,
    /// Why it failed, without contents of items.
    pub failure: Option<String>,
    /// The wait of all its steps, when its state was saved last.
    pub waiting: Option<JobWait>,
}

impl JobState {
    /// Refuses to continue a job that has ended.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] if the job is done or stopped.
    pub fn check_can_run(&self) -> Result<()> {
        if self.status.can_run() {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Configuration, format!("the job is {}", self.status.name()))
            .with("job", self.id.as_str())
            .hint("Create a new job with the same arguments"))
    }

    /// Whether a process has the job: it runs the job, or saves its progress and ends. The lease of a killed process ends, because
    /// nobody renews the lease.
    #[must_use]
    pub fn has_process(&self) -> bool {
        self.lease.as_ref().is_some_and(|lease| !lease.has_ended)
    }

    /// The time from which a paused job can be resumed at the latest: the end of the lease of a process that saves its progress, or was killed.
    #[must_use]
    pub fn resumable_from(&self) -> Option<Timestamp> {
        let is_ending = self.status == JobStatus::Paused && self.has_process() && self.can_be_continued();
        self.lease.as_ref().filter(|_| is_ending).map(|lease| lease.until)
    }

    /// Whether the last process of the job ended before it had saved its last steps: it was killed, or a step failed. A process that is
    /// paused gives up its lease once everything is saved; `jobs pause` alone, after a kill, leaves the lease.
    pub(super) fn has_unsaved_end(&self) -> bool {
        self.status == JobStatus::Failed || self.lease.as_ref().is_some_and(|lease| lease.has_ended)
    }

    /// Whether another process can continue the job: its basis is known, and its input can be read again.
    #[must_use]
    pub fn can_be_continued(&self) -> bool {
        self.basis.is_some() && !self.reads_stream()
    }

    /// Whether the job reads standard input or a pipe, which no other process can continue.
    #[must_use]
    pub fn reads_stream(&self) -> bool {
        self.arguments.get(READS_STREAM).and_then(Value::as_bool).unwrap_or(false)
    }

    /// Refuses to continue the job on anything but what it was planned for.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] with the difference.
    pub fn check_basis(&self, now: &JobBasis) -> Result<()> {
        let Some(planned) = &self.basis else {
            return Err(Error::new(
                ErrorKind::Configuration,
                "the job was created by an earlier version, which did not store what the job runs on",
            )
            .with("job", self.id.as_str())
            .hint(self.plan_again()));
        };
        let Some((words, before, present)) = planned.difference(now) else { return Ok(()) };
        Err(Error::new(ErrorKind::Configuration, format!("the job was planned for {words}"))
            .with("job", self.id.as_str())
            .with("planned for", before)
            .with("now", present)
            .hint(self.plan_again()))
    }

    /// How to plan the job again.
    #[must_use]
    pub fn plan_again(&self) -> String {
        let id = &self.id;
        if self.reads_stream() {
            return format!(
                "The job reads standard input or a pipe, which can be read once. Write the records to a file, and replay that file with the other arguments that `afterwrite jobs show {id} --json` prints: records that are counted already are skipped. Then end this job: `afterwrite jobs stop {id}`"
            );
        }
        let again = match self.kind {
            JobKind::Backfill => "items that are counted already are skipped",
            JobKind::Replay | JobKind::Redrive => "records that are counted already are skipped",
            JobKind::Verify | JobKind::Repair => "everything is judged again",
        };
        format!(
            "Plan it again: run `afterwrite {}` with the arguments that `afterwrite jobs show {id} --json` prints; {again}. Then end this job: `afterwrite jobs stop {id}`",
            self.kind.name()
        )
    }
}
