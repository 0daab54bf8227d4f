//! `afterwrite jobs`: shows and controls jobs, from any machine that reaches the state table.

use afterwrite_model::Result;
use afterwrite_operations::jobs::{JobControl, JobKind, JobReport, JobState, ListedJob, ProcessTotal};
use clap::{Args, Subcommand};
use serde::Serialize;
use serde_json::Value;

use crate::arguments::pair;
use crate::backfill;
use crate::deployment::{Deployment, DeploymentArguments};
use crate::job_output::print_report;
use crate::print::{align_right, json, new_table, print, tell};
use crate::{repair, verify};

/// The commands of `afterwrite jobs`.
#[derive(Debug, Subcommand)]
pub enum JobsCommand {
    /// List the newest jobs of the state table.
    #[command(
        after_help = "Examples:\n  afterwrite jobs list\n  afterwrite jobs list --json\n\nExit codes: 0 success, 2 wrong usage or configuration, 3 the command could not finish."
    )]
    List(JobListArguments),
    /// Show a job: its plan, progress, totals and what can be done next.
    #[command(
        after_help = "Examples:\n  afterwrite jobs show backfill-20260206T101500-042713958 --json\n\nExit codes: 0 success, 2 wrong usage or configuration, 3 the command could not finish."
    )]
    Show(JobArguments),
    /// Pause a job: the process that runs it saves its progress and ends within seconds.
    #[command(
        after_help = "Examples:\n  afterwrite jobs pause backfill-20260206T101500-042713958\n\nExit codes: 0 success, 2 wrong usage or configuration, 3 the command could not finish."
    )]
    Pause(JobArguments),
    /// Resume a job that is paused, has failed, or whose process was killed, in this process.
    #[command(
        after_help = "Examples:\n  afterwrite jobs resume backfill-20260206T101500-042713958\n\nAfter a kill, a job can be resumed when its lease has ended, about a minute later. A job is resumed only on the basis that it was planned for: the same model, tables, state table and arguments, and inputs with the same content. A replay of standard input cannot be resumed.\n\nExit codes: 0 the job is done, 1 it found a problem or was paused, 2 wrong usage or configuration, 3 the command could not finish."
    )]
    Resume(ResumeArguments),
    /// Stop a job for good. Its finished work stays.
    #[command(
        after_help = "Examples:\n  afterwrite jobs stop backfill-20260206T101500-042713958\n\nExit codes: 0 success, 2 wrong usage or configuration, 3 the command could not finish."
    )]
    Stop(JobArguments),
    /// Set the rate of a job while it runs: rate=ITEMS a second, or rate=none.
    #[command(
        after_help = "Examples:\n  afterwrite jobs set backfill-20260206T101500-042713958 rate=100\n  afterwrite jobs set backfill-20260206T101500-042713958 rate=none\n\nExit codes: 0 success, 2 wrong usage or configuration, 3 the command could not finish."
    )]
    Set(SetArguments),
}

/// The arguments of `afterwrite jobs list`.
#[derive(Debug, Args)]
pub struct JobListArguments {
    #[command(flatten)]
    deployment: DeploymentArguments,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// The arguments of the commands on one job.
#[derive(Debug, Args)]
pub struct JobArguments {
    /// The job's id.
    id: String,
    #[command(flatten)]
    deployment: DeploymentArguments,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// The arguments of `afterwrite jobs resume`.
#[derive(Debug, Args)]
pub struct ResumeArguments {
    #[command(flatten)]
    job: JobArguments,
    /// The most parts of the work at once.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=256))]
    workers: u16,
}

/// The arguments of `afterwrite jobs set`.
#[derive(Debug, Args)]
pub struct SetArguments {
    #[command(flatten)]
    job: JobArguments,
    /// The setting: `rate=ITEMS` a second, or `rate=none`.
    #[arg(value_name = "NAME=VALUE", value_parser = rate_setting)]
    setting: JobControl,
}

impl JobsCommand {
    /// Runs the command; returns `true`, or whether a resumed job is done.
    ///
    /// # Errors
    /// A setting that is missing or wrong; an unknown job; a table that cannot be reached.
    pub async fn run(&self) -> Result<bool> {
        match self {
            Self::List(arguments) => {
                let jobs = arguments.deployment.jobs().await?.list().await?;
                let jobs: Vec<JobLine> = jobs.into_iter().map(JobLine::from).collect();
                print(&if arguments.json { json(&jobs)? } else { list_table(&jobs) })?;
            }
            Self::Show(arguments) => {
                let job = arguments.deployment.jobs().await?.load(&arguments.id).await?;
                arguments.show(&job)?;
            }
            Self::Pause(arguments) => arguments.control(JobControl::Pause).await?,
            Self::Stop(arguments) => arguments.control(JobControl::Stop).await?,
            Self::Set(arguments) => arguments.job.control(arguments.setting).await?,
            Self::Resume(arguments) => return Box::pin(arguments.resume()).await,
        }
        Ok(true)
    }
}

impl JobArguments {
    async fn control(&self, control: JobControl) -> Result<()> {
        let job = self.deployment.jobs().await?.control(&self.id, control).await?;
        self.show(&job)
    }

    fn show(&self, job: &JobState) -> Result<()> {
        print_report(&JobReport::of(job), self.json).map(drop)
    }
}

impl ResumeArguments {
    /// Continues the job in this process, on the basis that it was planned for.
    async fn resume(&self) -> Result<bool> {
        let jobs = self.job.deployment.jobs().await?;
        let job = jobs.load(&self.job.id).await?;
        job.check_can_run()?;
        let deployment = Box::pin(self.job.deployment.connect()).await?;
        let (job, workers, as_json) = (&job, usize::from(self.workers), self.job.json);
        let is_right = match job.kind {
            JobKind::Backfill => Box::pin(backfill::resume(&deployment, job, workers, as_json)).await?,
            JobKind::Replay => Box::pin(crate::replay::resume(&deployment, job, as_json)).await?,
            JobKind::Redrive => Box::pin(crate::redrive::resume(&deployment, job, as_json)).await?,
            JobKind::Verify => Box::pin(verify::deployed::resume(&deployment, job, workers, as_json)).await?,
            JobKind::Repair => Box::pin(repair::resume(&deployment, job, workers, as_json)).await?,
        };
        let may_have_dropped = may_have_dropped(&deployment, &jobs.load(&job.id).await?);
        if may_have_dropped {
            tell(DROPPED_BEFORE);
        }
        Ok(is_right && !may_have_dropped)
    }
}

/// After a job that was continued in another process, if sources expire.
const DROPPED_BEFORE: &str = "an earlier process of this job ended before it saved its last steps: the totals lack contributions to expired rollups that these steps dropped. If sources had expired by then, the levels above lack such contributions: follow \"Rebuilding a state table\" in docs/OPERATE.md";

/// Whether a process of the job may have dropped contributions that the totals lack. Steps that are repeated do not find them again.
fn may_have_dropped(deployment: &Deployment, job: &JobState) -> bool {
    let drops = match job.kind {
        JobKind::Verify => false,
        // A new state table takes contributions to expired sources.
        JobKind::Replay => job.arguments.get("into").is_none_or(Value::is_null),
        // The steps of a bulk backfill find everything again.
        JobKind::Backfill => job.arguments.get("bulk").is_none(),
        JobKind::Redrive | JobKind::Repair => true,
    };
    let has_unsaved_end = job.totals.number(ProcessTotal::EndedUnsaved) > 0;
    drops && has_unsaved_end && deployment.config.model.has_expiring_sources()
}

/// A job in the list.
#[derive(Serialize)]
#[serde(untagged)]
enum JobLine {
    Readable(Box<JobReport>),
    Unreadable(UnreadableJob),
}

/// A job that this version cannot read.
#[derive(Serialize)]
struct UnreadableJob {
    id: String,
    status: &'static str,
    /// Why it cannot be read.
    failure: String,
}

impl From<ListedJob> for JobLine {
    fn from(listed: ListedJob) -> Self {
        match listed {
            ListedJob::Readable(job) => Self::Readable(Box::new(JobReport::of(&job))),
            ListedJob::Unreadable { id, error } => {
                Self::Unreadable(UnreadableJob { id, status: "unreadable", failure: error.report() })
            }
        }
    }
}

fn rate_setting(written: &str) -> std::result::Result<JobControl, String> {
    const FORM: &str = "write rate=ITEMS, such as rate=100, or rate=none";
    match pair(written)? {
        (name, value) if name == "rate" => JobControl::of_rate_text(&value).ok_or_else(|| FORM.to_owned()),
        _ => Err(FORM.to_owned()),
    }
}

fn list_table(jobs: &[JobLine]) -> String {
    if jobs.is_empty() {
        return "There are no jobs.\n".to_owned();
    }
    let mut table = new_table(&["job", "status", "done", "items", "left", "created"]);
    let mut unreadable = String::new();
    for job in jobs {
        table.add_row(match job {
            JobLine::Readable(report) => [
                report.id.clone(),
                report.status.to_owned(),
                format!("{:.0}%", report.progress.percent),
                report.progress.items.to_string(),
                report.progress.backlog.to_string(),
                report.created_at.clone(),
            ],
            JobLine::Unreadable(job) => {
                unreadable.push_str(&format!("\n{}: {}\n", job.id, job.failure));
                let [done, items, left, created] = ["", "", "", ""].map(str::to_owned);
                [job.id.clone(), job.status.to_owned(), done, items, left, created]
            }
        });
    }
    align_right(&mut table, 2..5);
    format!("{table}\n{unreadable}")
}
