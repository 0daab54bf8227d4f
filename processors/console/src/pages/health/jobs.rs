//! The table of jobs.

use afterwrite_operations::jobs::{JobReport, JobState, JobStatus, ListedJob};

use crate::query::address;
use crate::table::{Cell, PageTable, Verdict};

/// The name of the table.
pub(super) const TABLE: &str = "jobs";

/// The newest jobs of the state table.
pub(super) fn table(jobs: &[ListedJob]) -> PageTable {
    let columns = ["job", "status", "progress", "created", "problem"];
    let if_empty =
        "There are no jobs. `afterwrite backfill`, `verify`, `repair`, `replay` and `redrive` create them.";
    let mut table = PageTable::new(TABLE, &columns, if_empty);
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
        shown_progress(&report),
        Cell::Time(job.created_at),
        job.failure.as_deref().map_or(Cell::Empty, Cell::text),
    ]
}

/// How far a job is, or until when it waits.
pub(super) fn shown_progress(report: &JobReport) -> Cell {
    match report.line_around_time() {
        Some((before, until, after)) => Cell::TextWithTime(before, until, after),
        None => Cell::text(report.line()),
    }
}

/// Whether a process has one of the jobs.
pub(super) fn has_any_process(jobs: &[ListedJob]) -> bool {
    jobs.iter().any(|job| match job {
        ListedJob::Readable(job) => job.has_process(),
        ListedJob::Unreadable { .. } => false,
    })
}

/// The status of a job. A running job whose process has not been heard of since its lease ended is not running.
pub(super) fn status(job: &JobState) -> Cell {
    let (verdict, text) = match job.status {
        JobStatus::Running if job.has_process() => (Verdict::Good, "running"),
        JobStatus::Running => (Verdict::Bad, "its process has ended"),
        JobStatus::Failed => (Verdict::Bad, "failed"),
        JobStatus::Paused if job.has_process() => {
            (Verdict::Warning, "paused; its process saves its progress and ends")
        }
        JobStatus::Paused => (Verdict::Warning, "paused"),
        JobStatus::Planned => (Verdict::Warning, "planned"),
        JobStatus::Done => (Verdict::Good, "done"),
        JobStatus::Stopped => (Verdict::Unknown, "stopped"),
    };
    Cell::Verdict(verdict, text.to_owned())
}

#[cfg(test)]
mod tests {
    use afterwrite_model::record::Timestamp;
    use afterwrite_operations::jobs::{JobKind, JobPlan, JobTotals, JobWait, WaitReason, WorkSummary};

    use super::*;

    /// A job that waits until 10:15 of the first day.
    fn waiting() -> JobState {
        let at = |minutes: i64| Timestamp::from_epoch_ms(minutes * 60_000);
        let waiting = JobWait { reason: WaitReason::Tolerance, until: at(615), differences: 2 };
        JobState {
            id: "verify-1".to_owned(),
            kind: JobKind::Verify,
            arguments: serde_json::Value::Null,
            basis: None,
            status: JobStatus::Running,
            work: WorkSummary::default(),
            rate: None,
            totals: JobTotals::default(),
            plan: JobPlan::default(),
            lease: None,
            created_at: at(600),
            started_at: Some(at(600)),
            updated_at: at(610),
            failure: None,
            waiting: Some(waiting),
        }
    }

    #[test]
    fn the_end_of_a_wait_is_a_time_that_the_page_writes_in_the_zone_of_its_reader() {
        let shown = shown_progress(&JobReport::of(&waiting()));
        let html = shown.markup().into_string();
        let time = r#"until <time datetime="1970-01-01T10:15:00Z""#;
        assert!(
            html.contains(time)
                && html.ends_with("</time>: 2 differences may be of changes in flight (--tolerance)"),
            "{html}"
        );
        assert!(shown.plain().contains("until 1970-01-01T10:15:00Z: 2 differences"), "{}", shown.plain());
    }
}
