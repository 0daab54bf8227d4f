//! The table of jobs.

use afterwrite_operations::jobs::{JobReport, JobState, JobStatus, ListedJob};

use crate::query::address;
use crate::table::{Cell, PageTable, Verdict};

/// The newest jobs of the state table.
pub(super) fn table(jobs: &[ListedJob]) -> PageTable {
    let columns = ["job", "status", "progress", "created", "problem"];
    let if_empty =
        "There are no jobs. `afterwrite backfill`, `verify`, `repair`, `replay` and `redrive` create them.";
    let mut table = PageTable::new("jobs", &columns, if_empty);
    table.rows.extend(jobs.iter().map(|job| match job {
        ListedJob::Readable(job) => readable(job),
        ListedJob::Unreadable { id, error } => vec![
            Cell::code(id.as_str()),
            Cell::Verdict(Verdict::Unknown, "unreadable".to_owned()),
            Cell::Empty,
            Cell::Empty,
            Cell::text(error.report()),
        ],
    }));
    table
}

fn readable(job: &JobState) -> Vec<Cell> {
    let report = JobReport::of(job);
    vec![
        Cell::link(job.id.as_str(), address("/health/job", [("id", job.id.as_str())])),
        status(job),
        Cell::text(report.line()),
        Cell::Time(job.created_at),
        job.failure.as_deref().map_or(Cell::Empty, Cell::text),
    ]
}

/// Whether a process runs one of the jobs.
pub(super) fn is_any_running(jobs: &[ListedJob]) -> bool {
    jobs.iter().any(|job| match job {
        ListedJob::Readable(job) => is_running(job),
        ListedJob::Unreadable { .. } => false,
    })
}

/// Whether a process runs the job.
pub(super) fn is_running(job: &JobState) -> bool {
    job.status == JobStatus::Running && is_alive(job)
}

fn is_alive(job: &JobState) -> bool {
    job.lease.as_ref().is_some_and(|lease| !lease.has_ended)
}

/// The status of a job. A running job whose process has not been heard of since its lease ended is not running.
pub(super) fn status(job: &JobState) -> Cell {
    let (verdict, text) = match job.status {
        JobStatus::Running if is_alive(job) => (Verdict::Good, "running"),
        JobStatus::Running => (Verdict::Bad, "its process has ended"),
        JobStatus::Failed => (Verdict::Bad, "failed"),
        JobStatus::Paused => (Verdict::Warning, "paused"),
        JobStatus::Planned => (Verdict::Warning, "planned"),
        JobStatus::Done => (Verdict::Good, "done"),
        JobStatus::Stopped => (Verdict::Unknown, "stopped"),
    };
    Cell::Verdict(verdict, text.to_owned())
}
