//! `afterwrite jobs`: shows and controls jobs, from any machine that reaches the state table.

use afterwrite::Result;
use afterwrite_operations::jobs::{JobControl, JobKind, JobReport, JobState};
use clap::{Args, Subcommand};

use crate::arguments::pair;
use crate::backfill;
use crate::deployment::DeploymentArguments;
use crate::job_output::print_report;
use crate::print::{align_right, json, new_table, print};
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
        after_help = "Examples:\n  afterwrite jobs show backfill-20260206T101500-042 --json\n\nExit codes: 0 success, 2 wrong usage or configuration, 3 the command could not finish."
    )]
    Show(JobArguments),
    /// Pause a job: the process that runs it saves its progress and ends within seconds.
    #[command(
        after_help = "Examples:\n  afterwrite jobs pause backfill-20260206T101500-042\n\nExit codes: 0 success, 2 wrong usage or configuration, 3 the command could not finish."
    )]
    Pause(JobArguments),
    /// Resume a job in this process: one that is paused, has failed, or whose process was killed.
    #[command(
        after_help = "Examples:\n  afterwrite jobs resume backfill-20260206T101500-042\n\nAfter a kill, a job can be resumed when its lease has ended, at most 60 seconds later.\n\nExit codes: 0 the job is done, 1 it found a problem or was paused, 2 wrong usage or configuration, 3 the command could not finish."
    )]
    Resume(ResumeArguments),
    /// Stop a job for good. Its finished work stays.
    #[command(
        after_help = "Examples:\n  afterwrite jobs stop backfill-20260206T101500-042\n\nExit codes: 0 success, 2 wrong usage or configuration, 3 the command could not finish."
    )]
    Stop(JobArguments),
    /// Set the rate of a job while it runs: rate=ITEMS a second, or rate=none.
    #[command(
        after_help = "Examples:\n  afterwrite jobs set backfill-20260206T101500-042 rate=100\n  afterwrite jobs set backfill-20260206T101500-042 rate=none\n\nExit codes: 0 success, 2 wrong usage or configuration, 3 the command could not finish."
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
                let reports: Vec<JobReport> = jobs.iter().map(JobReport::of).collect();
                print(&if arguments.json { json(&reports)? } else { list_table(&reports) })?;
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
    /// Continues the job in this process.
    async fn resume(&self) -> Result<bool> {
        let deployment = &self.job.deployment;
        let store = deployment.jobs().await?;
        let job = store.load(&self.job.id).await?;
        let as_json = self.job.json;
        match job.kind {
            JobKind::Backfill => {
                let deployment = Box::pin(deployment.connect()).await?;
                let job = store.acquire(&self.job.id).await?;
                Box::pin(backfill::resume(&deployment, job, usize::from(self.workers), as_json)).await
            }
            JobKind::Replay => {
                let deployment = Box::pin(deployment.connect()).await?;
                Box::pin(crate::replay::resume(&deployment, &job, as_json)).await
            }
            JobKind::Redrive => {
                let deployment = Box::pin(deployment.connect()).await?;
                Box::pin(crate::redrive::resume(&deployment, &job, as_json)).await
            }
            JobKind::Verify => {
                let deployment = Box::pin(deployment.connect()).await?;
                let job = store.acquire(&self.job.id).await?;
                Box::pin(verify::deployed::resume(&deployment, job, usize::from(self.workers), as_json)).await
            }
            JobKind::Repair => {
                let deployment = Box::pin(deployment.connect()).await?;
                let job = store.acquire(&self.job.id).await?;
                Box::pin(repair::resume(&deployment, job, usize::from(self.workers), as_json)).await
            }
        }
    }
}

fn rate_setting(written: &str) -> std::result::Result<JobControl, String> {
    const FORM: &str = "write rate=ITEMS, such as rate=100, or rate=none";
    match pair(written)? {
        (name, value) if name == "rate" && value == "none" => Ok(JobControl::SetRate(None)),
        (name, value) if name == "rate" => {
            let rate = value.parse().ok().filter(|rate: &u64| *rate > 0);
            rate.map(|rate| JobControl::SetRate(Some(rate))).ok_or_else(|| FORM.to_owned())
        }
        _ => Err(FORM.to_owned()),
    }
}

fn list_table(reports: &[JobReport]) -> String {
    if reports.is_empty() {
        return "There are no jobs.\n".to_owned();
    }
    let mut table = new_table(&["job", "status", "done", "items", "left", "created"]);
    for report in reports {
        table.add_row([
            report.id.clone(),
            report.status.to_owned(),
            format!("{:.0}%", report.progress.percent),
            report.progress.items.to_string(),
            report.progress.backlog.to_string(),
            report.created_at.clone(),
        ]);
    }
    align_right(&mut table, 2..5);
    format!("{table}\n")
}
