//! The state of a job.

use std::collections::BTreeMap;

use afterwrite::record::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::plan::JobPlan;

/// Counters of a job by name: `reconciled`, `skipped`, `failed`, …
pub type JobTotals = BTreeMap<String, u64>;

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

/// The status of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobStatus {
    /// Created, never started.
    Planned,
    /// A process runs it, or was killed while it did.
    Running,
    /// An operator paused it.
    Paused,
    /// An operator stopped it for good.
    Stopped,
    /// Every unit is done.
    Done,
    /// A step failed. The job can be resumed at the last saved cursors.
    Failed,
}

impl JobStatus {
    /// The name in items and results.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Planned => "planned",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Stopped => "stopped",
            Self::Done => "done",
            Self::Failed => "failed",
        }
    }

    /// Whether a process may start or continue the job, once no other process has its lease.
    #[must_use]
    pub fn can_run(self) -> bool {
        match self {
            Self::Planned | Self::Running | Self::Paused | Self::Failed => true,
            Self::Stopped | Self::Done => false,
        }
    }
}

/// A part of a job's work that proceeds by itself: a segment of a table, an object of an archive.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkUnit {
    /// Its name, unique within the job.
    pub name: String,
    /// The phase that it belongs to; phases run one after another, the lowest first.
    pub phase: u32,
    /// Where the next step begins; `None` at the beginning. Only the job's task reads it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<Value>,
    /// Whether all of it is done.
    #[serde(default)]
    pub is_done: bool,
    /// The items that were processed.
    #[serde(default)]
    pub items: u64,
    /// Their size in bytes.
    #[serde(default)]
    pub bytes: u64,
}

impl WorkUnit {
    /// A unit that has not begun.
    #[must_use]
    pub fn new(name: impl Into<String>, phase: u32) -> Self {
        Self { name: name.into(), phase, ..Self::default() }
    }
}

/// The right of one process to run a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobLease {
    /// A random name of the process.
    pub owner: String,
    /// When the lease ends unless it is renewed.
    pub until: Timestamp,
}

/// A job.
#[derive(Clone, Debug, PartialEq)]
pub struct JobState {
    /// Its id, unique within the state table.
    pub id: String,
    /// Its kind.
    pub kind: JobKind,
    /// Its arguments, as its kind defines them.
    pub arguments: Value,
    /// Its status.
    pub status: JobStatus,
    /// Its work.
    pub units: Vec<WorkUnit>,
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
}

impl JobState {
    /// The lowest phase with work left; `None` if everything is done.
    #[must_use]
    pub fn current_phase(&self) -> Option<u32> {
        self.units.iter().filter(|unit| !unit.is_done).map(|unit| unit.phase).min()
    }

    /// Adds to a total.
    pub fn add_total(&mut self, name: &str, number: u64) {
        match self.totals.get_mut(name) {
            Some(total) => *total += number,
            None => {
                self.totals.insert(name.to_owned(), number);
            }
        }
    }
}
