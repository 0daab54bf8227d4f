//! The output of every job: its plan, the question before it begins, its progress, its report.

use std::future::Future;
use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use afterwrite_model::clock::{Clock as _, SystemClock};
use afterwrite_model::harmless::harmless;
use afterwrite_model::record::Timestamp;
use afterwrite_model::table::Model;
use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_operations::jobs::{
    JobObserver, JobPlan, JobReport, JobStatus, JobWait, UnitPrices, WaitReason,
};
use clap::Args;
use futures::future::{Either, select};

use crate::print::{align_right, json, new_table, print};

/// The options that all jobs share.
#[derive(Clone, Debug, Args)]
pub struct JobOptions {
    /// Start without a question. Without a terminal, nothing is started unless this is set.
    #[arg(help_heading = "Job", long)]
    pub yes: bool,
    /// Accept that the state table has no point-in-time recovery.
    #[arg(help_heading = "Job", long)]
    pub without_recovery: bool,
    /// The most items a second; `afterwrite jobs set` changes it while the job runs.
    #[arg(help_heading = "Job", long, value_name = "ITEMS", value_parser = clap::value_parser!(u64).range(1..))]
    pub rate: Option<u64>,
    /// The most parts of the work at once.
    #[arg(help_heading = "Job", long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub workers: u16,
    /// Print JSON: the plan if nothing is started, else the report.
    #[arg(help_heading = "Job", long)]
    pub json: bool,
}

impl JobOptions {
    /// Shows the plan, and returns if the job may start.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] if the user declines, or there is no terminal and no `--yes`.
    pub fn confirm(&self, plan: &JobPlan) -> Result<()> {
        if self.yes {
            return Ok(());
        }
        let is_terminal = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
        if !is_terminal {
            print(&if self.json { json(plan)? } else { plan_table(plan, self.rate) })?;
            return Err(Error::new(ErrorKind::Configuration, "nothing was started: this is the plan")
                .hint("Pass --yes to start the job without a terminal"));
        }
        let mut terminal = std::io::stderr().lock();
        let shown = write!(terminal, "{}\nStart? [y/N] ", plan_table(plan, self.rate));
        let mut reply = String::new();
        let is_read = shown
            .and_then(|()| terminal.flush())
            .and_then(|()| std::io::stdin().lock().read_line(&mut reply));
        match is_read {
            Ok(_) if matches!(reply.trim(), "y" | "Y" | "yes") => Ok(()),
            Ok(_) => Err(Error::new(ErrorKind::Configuration, "nothing was started")),
            Err(error) => {
                Err(Error::new(ErrorKind::Configuration, "the terminal cannot be read").caused_by(error))
            }
        }
    }
}

/// A plan for people.
#[must_use]
pub fn plan_table(plan: &JobPlan, rate: Option<u64>) -> String {
    let costs = plan.costs(UnitPrices::ON_DEMAND, rate);
    let time = costs.seconds.map_or_else(
        || "as fast as the tables allow".to_owned(),
        |seconds| format!("{seconds} s at {} items/s", rate.unwrap_or(0)),
    );
    let mut table = new_table(&[]);
    for (name, value) in [
        ("items to read", plan.items.to_string()),
        ("items to change", plan.changes.to_string()),
        ("read units", plan.read_units.to_string()),
        ("write units", plan.write_units.to_string()),
        ("PUT requests", plan.put_requests.to_string()),
        ("bytes to import", plan.import_bytes.to_string()),
        ("price, on demand", format!("${:.4}", costs.dollars)),
        ("time", time),
        (
            "storage of the state table",
            format!("{} bytes, ${:.4} a month", plan.storage_bytes, costs.storage_dollars_a_month),
        ),
    ] {
        table.add_row([name.to_owned(), value]);
    }
    align_right(&mut table, 1..2);
    let searched = plan.searched.iter().map(|searched| format!("searched: {searched}"));
    let notes: String =
        searched.chain(plan.notes.iter().cloned()).map(|note| format!("  - {note}\n")).collect();
    format!("{table}\n{notes}")
}

/// The note of a job that writes rollups with event rules: a rollup that comes to meet a rule's condition has an event, whatever wrote it.
pub(crate) fn event_note(model: &Model) -> Option<String> {
    let rules =
        model.entities.iter().filter(|entity| entity.rollup.is_some()).flat_map(|entity| &entity.events);
    let names: Vec<&str> = rules.filter_map(|rule| Some(&*model.events.get(*rule)?.name)).collect();
    (!names.is_empty()).then(|| {
        format!(
            "rollups have event rules ({}): each rollup that this job takes over a rule's threshold sends an event; to send none, let no function host `notify` meanwhile",
            names.join(", ")
        )
    })
}

/// The notes of a backfill about rollups of rollups that it does not count.
pub(crate) fn level_notes(model: &Model, is_of_tenant: bool) -> Vec<String> {
    let sources = || model.entities.iter().filter(|entity| entity.rollup.is_some() && entity.is_used());
    let expiring = sources().filter(|entity| entity.keeps_what_expired() && entity.ttl.is_some());
    let names: Vec<&str> = expiring.map(|entity| &*entity.name).collect();
    let mut notes = Vec::new();
    if !names.is_empty() {
        notes.push(format!(
            "rollups that have expired are not counted, neither here nor in the next level: {}; `afterwrite replay --into` counts them from an archive",
            names.join(", ")
        ));
    }
    if is_of_tenant && sources().next().is_some() {
        notes.push(
            "rollups whose keys do not have the tenant are counted, but not into the next level; the functions count them there, or a backfill without --only"
                .to_owned(),
        );
    }
    notes
}

/// How often a line of progress is told where there is no terminal.
pub(crate) const TOLD_EVERY: Duration = Duration::from_secs(30);

/// The progress of work on standard error: one line on a terminal, which each second replaces; elsewhere a line when a wait begins, and every
/// 30 seconds, so that work which takes less is quiet in a pipe.
#[derive(Debug)]
struct ProgressPace {
    is_terminal: bool,
    /// When a line was told last, or the work began.
    told: Timestamp,
    /// The reason of the wait that goes on.
    wait: Option<WaitReason>,
}

impl ProgressPace {
    fn new(is_terminal: bool, now: Timestamp) -> Self {
        Self { is_terminal, told: now, wait: None }
    }

    /// The line for standard error if the progress is to be shown now; `wait` is the reason of the wait that goes on.
    fn shown(&mut self, line: &str, wait: Option<WaitReason>, now: Timestamp) -> Option<String> {
        if self.is_terminal {
            // Clears the rest of a longer line before.
            return Some(format!("\r{line}\u{1b}[K"));
        }
        let before = std::mem::replace(&mut self.wait, wait);
        let begins = wait.is_some() && wait != before;
        if !begins && now.since(self.told) < TOLD_EVERY {
            return None;
        }
        self.told = now;
        Some(format!("afterwrite: {line}\n"))
    }
}

/// Shows the progress of a job.
#[derive(Debug)]
pub struct ProgressLine(Mutex<ProgressPace>);

impl ProgressLine {
    /// The progress of a job that begins.
    #[must_use]
    pub fn begin() -> Self {
        Self(Mutex::new(ProgressPace::new(std::io::stderr().is_terminal(), SystemClock.now())))
    }

    /// Ends the line.
    pub fn finish(&self) {
        if self.pace().is_terminal {
            eprintln!();
        }
    }

    fn pace(&self) -> MutexGuard<'_, ProgressPace> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl JobObserver for ProgressLine {
    fn observe(&self, report: &JobReport) {
        let line = harmless(&format!("{}: {}", report.id, report.line())).into_owned();
        let wait = report.waiting.as_ref().map(|wait| wait.reason);
        if let Some(shown) = self.pace().shown(&line, wait, SystemClock.now()) {
            eprint!("{shown}");
        }
    }
}

/// Runs work that is not a job, and shows its waits.
pub async fn showing_waits<F: Future>(waiting: impl Fn() -> Option<JobWait>, work: F) -> F::Output {
    let mut pace = ProgressPace::new(std::io::stderr().is_terminal(), SystemClock.now());
    let mut work = pin!(work);
    let mut is_shown = false;
    loop {
        match select(work.as_mut(), pin!(SystemClock.sleep(Duration::from_secs(1)))).await {
            Either::Left((output, _)) => {
                if is_shown && pace.is_terminal {
                    eprintln!();
                }
                return output;
            }
            Either::Right(((), _)) => {
                let Some(wait) = waiting() else {
                    pace.wait = None;
                    continue;
                };
                if let Some(shown) = pace.shown(&wait.line(), Some(wait.reason), SystemClock.now()) {
                    eprint!("{shown}");
                    is_shown = true;
                }
            }
        }
    }
}

/// Prints a job's report; returns whether the job is done.
///
/// # Errors
/// Standard output cannot be written.
pub fn print_report(report: &JobReport, as_json: bool) -> Result<bool> {
    print(&if as_json { json(report)? } else { report_table(report) })?;
    Ok(report.status == JobStatus::Done.name())
}

/// A report for people.
#[must_use]
pub fn report_table(report: &JobReport) -> String {
    let mut table = new_table(&[]);
    table.add_row(["job".to_owned(), report.id.clone()]);
    table.add_row(["status".to_owned(), report.status.to_owned()]);
    table.add_row(["progress".to_owned(), report.line()]);
    for (name, number) in report.totals.iter() {
        table.add_row([name.replace('_', " "), number.to_string()]);
    }
    if let Some(searched) = &report.plan.searched {
        table.add_row(["searched".to_owned(), searched.clone()]);
    }
    if let Some(from) = &report.resumable_from {
        table.add_row(["can be resumed from, at the latest".to_owned(), from.clone()]);
    }
    if let Some(failure) = &report.failure {
        table.add_row(["failure".to_owned(), failure.clone()]);
    }
    format!("{table}\n{}", steps_text(&report.next_steps))
}

/// The commands that make sense now, one a line.
pub(crate) fn steps_text(steps: &[String]) -> String {
    let lines: String = steps.iter().map(|step| format!("  {step}\n")).collect();
    if lines.is_empty() { lines } else { format!("\nNext:\n{lines}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_has_a_line_when_a_wait_begins_and_every_thirty_seconds() {
        let at = |seconds: i64| Timestamp::from_epoch_ms(seconds * 1000);
        let mut pace = ProgressPace::new(false, at(0));
        let mut told = |seconds, wait| pace.shown("n%", wait, at(seconds)).is_some();
        assert_eq!(
            [told(1, None), told(29, None), told(30, None), told(31, None)],
            [false, false, true, false]
        );
        let wait = Some(WaitReason::Tolerance);
        assert_eq!([told(32, wait), told(33, wait), told(62, wait)], [true, false, true], "the first wait");
        assert_eq!([told(63, None), told(64, wait), told(93, None)], [false, true, false], "another wait");
    }

    #[test]
    fn a_terminal_has_one_line_that_is_replaced() {
        let mut pace = ProgressPace::new(true, Timestamp::from_epoch_ms(0));
        let shown = pace.shown("5%", None, Timestamp::from_epoch_ms(0));
        assert_eq!(shown.as_deref(), Some("\r5%\u{1b}[K"));
    }
}
