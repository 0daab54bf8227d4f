//! Jobs: long work on deployed tables that can be watched, paused, resumed after a kill, and throttled from any machine.
//!
//! A job is an item of the state table (`PK` = `AFTERWRITE#JOB#<id>`): its kind, arguments, [what it runs on](JobBasis), status, rate, totals, and
//! the lease of the process that runs it. Its work units, with a cursor each, are [items of their own](JobUnits).
//!
//! ```text
//!              JobStore::create            JobStore::acquire                 every unit is done
//!   JobPlan ───────────────────▶ Planned ───────────────────▶ Running ───────────────────────────▶ Done
//!                                   │     ▲                    │ │ │ a step failed
//!                                   │     │   `jobs pause`     │ │ └─────────────▶ Failed ─┐
//!                                   │     │ ┌──────────────────┘ │ `jobs stop`             │ acquire
//!                                   │     │ ▼                    ▼                         │
//!                                   │   Paused ─────────────▶ Stopped ◀── any of these     └──▶ Running
//!                                   └──────────────────────────▶
//! ```
//!
//! # Writing a new kind of job
//!
//! 1. Add a variant to [`JobKind`]; the compiler names the places that must know it.
//! 2. Divide the work into [`WorkUnit`]s (segments of a table, objects of an archive), in phases if some must be done before
//!    others: the units of a phase run concurrently, and a phase starts when the one before it is done.
//! 3. Implement [`JobTask::step`]: do a small part of a unit, seconds at most, beginning at its cursor, and return the next cursor.
//!    **A step must be idempotent:** after a kill, the steps since the last saved cursor run again.
//! 4. Estimate the costs as a [`JobPlan`]. A job that writes calls [`require_recovery`] first.
//! 5. [`JobBasis::of`] its arguments, [`JobStore::create`], [`JobStore::acquire`], and [`JobRunner::run`] with the task. The runner limits the rate, renews the
//!    lease, saves cursors, obeys `jobs pause|stop|set` within a second, repeats steps whose errors can be retried, and reports
//!    progress to a [`JobObserver`] each second.
//!
//! ```
//! use afterwrite_model::Result;
//! use afterwrite_operations::jobs::{JobTask, StepOutcome, WorkUnit};
//!
//! /// Counts to 10 in each unit.
//! struct CountToTen;
//!
//! impl JobTask for CountToTen {
//!     async fn step(&self, unit: &WorkUnit) -> Result<StepOutcome> {
//!         let reached = unit.cursor.as_ref().and_then(serde_json::Value::as_u64).unwrap_or(0) + 1;
//!         let cursor = (reached < 10).then(|| reached.into());
//!         Ok(StepOutcome { cursor, items: 1, spent: 1, ..StepOutcome::default() })
//!     }
//! }
//! ```
//!
//! # Why two processes never run one job
//!
//! The lease names its owner and an end, a time of DynamoDB. Every save of the owner renews it, on condition that it still is the owner. Another
//! process acquires it only after its end, by a conditional write. An owner that could not renew the lease stops at the end of
//! its current steps; these may overlap with the new owner's, which is harmless, because steps are idempotent.

mod basis;
mod codec;
mod control;
mod journal;
mod next;
mod plan;
mod progress;
mod rate;
mod requests;
mod runner;
mod state;
mod store;
mod totals;
mod units;
mod wait;
mod work;

pub use self::basis::{BasisModel, BasisTable, JobBasis, text_digest};
pub use self::control::JobControl;
pub use self::journal::JobJournal;
pub(crate) use self::next::LACKING_OUTPUT;
pub use self::next::NextStep;
pub use self::plan::{JobCosts, JobPlan, UnitPrices, approximate, require_recovery};
pub use self::progress::{JobProgress, JobReport, WaitReport};
pub use self::rate::RateLimiter;
pub use self::requests::{RepeatedRequest, repeated, repeated_request};
pub use self::runner::{JobObserver, JobRunner, JobTask, SilentObserver};
pub(crate) use self::runner::{STEP_TIME, run_units};
pub use self::state::{JobKind, JobLease, JobState, JobStatus, NewJob};
pub use self::store::{JobStore, ListedJob, ProcessTotal};
pub use self::totals::{JobTotal, JobTotals};
pub(crate) use self::totals::{count, job_totals};
pub use self::units::{AcquiredJob, JobUnits};
pub(crate) use self::wait::later;
pub use self::wait::{JobWait, WaitBoard, WaitReason};
pub use self::work::{StepOutcome, WorkSummary, WorkUnit};
pub(crate) use self::work::{UnitMeanings, unknown_unit};
