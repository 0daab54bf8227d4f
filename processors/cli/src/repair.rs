//! `afterwrite repair`: writes what `verify` found to be wrong, as a job.

use std::path::PathBuf;
use std::time::Duration;

use afterwrite_ledger::tables::{TableScan, Tables};
use afterwrite_model::clock::SystemClock;
use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_operations::EmptiedTables;
use afterwrite_operations::jobs::{
    JobJournal, JobKind, JobPlan, JobReport, JobState, JobStatus, JobTask as _, require_recovery,
};
use afterwrite_operations::repair::{
    DriftRepairer, RepairLogEntry, RepairOutcome, RepairTask, repair_totals, repair_units,
};
use afterwrite_operations::verify::{DEFAULT_TOLERANCE, VerifyFinding};
use afterwrite_services::s3::S3Bucket;
use clap::Args;
use serde::{Deserialize, Serialize};

use crate::deployment::{Deployment, DeploymentArguments, PlannedArguments, RunnableJob};
use crate::job_output::{event_note, print_report, showing_waits};
use crate::print::{json, print, tell};
use crate::reconciled_lives::{report_dropped, report_lives};
use crate::verify::deployed::{dataset_bucket, dataset_judge, next_options};
use crate::verify::output::finding_text;
use crate::verify::report_file::read_findings;

/// The findings of an entry of the job's journal.
const ENTRY_FINDINGS: usize = 500;

/// The arguments of `afterwrite repair`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  afterwrite repair drift.jsonl --dry-run\n  afterwrite repair drift.jsonl --yes\n\nEach finding is judged again before anything is written, and every write depends on the revision that was judged. The log names each finding, its cause if known, and what was written. Rows of datasets are repaired in the log; the next compaction derives the current rows. A repair is a job: `afterwrite jobs` pauses and resumes it.\n\nExit codes: 0 everything is right, or would be after --dry-run; 1 findings are left, the archive must be consulted, contributions to expired rollups are missing in the levels above, or the job was paused, 2 wrong usage or configuration, 3 the command could not finish."
)]
pub struct RepairCommand {
    /// The findings: the file that `afterwrite verify --report` wrote.
    file: PathBuf,
    /// Show what would be written, and write nothing.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    deployment: DeploymentArguments,
    /// Write without a question. Without a terminal, nothing is written unless this is set.
    #[arg(help_heading = "Job", long)]
    yes: bool,
    /// Accept that the state table has no point-in-time recovery.
    #[arg(help_heading = "Job", long)]
    without_recovery: bool,
    /// The longest time that a record is in flight, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = DEFAULT_TOLERANCE.as_secs())]
    tolerance: u64,
    /// The bucket of the datasets; default: AFTERWRITE_BUCKET.
    #[arg(long, value_name = "NAME")]
    bucket: Option<String>,
    /// The most parts of the work at once.
    #[arg(help_heading = "Job", long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=256))]
    workers: u16,
    /// Print the log as JSON.
    #[arg(long)]
    json: bool,
}

/// The step after a repair that was resumed, if rollups are sources.
const LEVELS_AFTER_RESUME: &str = "the findings are right, but rollups that the earlier process of this repair has written may not be counted into the levels above: `afterwrite backfill` counts them";

/// The arguments of the job, as the state table keeps them.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct RepairJob {
    bucket: Option<String>,
    tolerance_seconds: u64,
}

impl PlannedArguments for RepairJob {
    const KIND: JobKind = JobKind::Repair;
}

type DeployedRepair<T> = RepairTask<S3Bucket, T, SystemClock>;

impl RepairCommand {
    /// Repairs the findings, and prints the log; returns whether everything is right.
    ///
    /// # Errors
    /// A setting that is missing or wrong; a table that cannot be read.
    pub async fn run(&self) -> Result<bool> {
        let findings = read_findings(&self.file)?;
        let deployment = self.deployment.connect().await?;
        // Items that another table lacks would be subtracted.
        let mut notes = Box::pin(deployment.check_ledger(EmptiedTables::Refused)).await?;
        notes.extend(event_note(&deployment.config.model));
        let arguments =
            RepairJob { bucket: dataset_bucket(self.bucket.as_ref()), tolerance_seconds: self.tolerance };
        if self.dry_run {
            let repairer = DriftRepairer::dry_run(deployment.context(), arguments.tolerance());
            let task = arguments.task(&deployment, repairer, "dry-run", &findings).await?;
            let log = showing_waits(|| task.waiting(), Box::pin(task.run())).await?;
            let is_right = print_log(&log, self.json)? & report_dropped(&task.totals());
            if !self.json {
                print(&self.dry_run_end(&notes))?;
            }
            return Ok(is_right);
        }
        let patient = deployment.patient_tables();
        require_recovery(&patient, &deployment.state_table, self.without_recovery).await?;
        if !self.yes {
            return Err(Error::new(ErrorKind::Configuration, "nothing was written")
                .hint("Look at the result of --dry-run, then pass --yes"));
        }
        let job = create_job(&deployment, &arguments, &findings, notes).await?;
        let repairer = DriftRepairer::new(deployment.context(), arguments.tolerance());
        let task = arguments.task(&deployment, repairer, &job.id, &findings).await?;
        let workers = usize::from(self.workers);
        Box::pin(run_job(&deployment, &job, &task, workers, self.json)).await
    }

    /// The text after a dry run: the notes of the plan, and the command that repairs.
    fn dry_run_end(&self, notes: &[String]) -> String {
        let options = next_options(self.tolerance, self.bucket.as_deref());
        let (notes, file) =
            (notes.iter().map(|note| format!("  - {note}\n")).collect::<String>(), self.file.display());
        format!("Dry run: nothing was written.\n{notes}\nNext:\n  afterwrite repair {file}{options} --yes\n")
    }
}

impl RepairJob {
    fn tolerance(&self) -> Duration {
        Duration::from_secs(self.tolerance_seconds)
    }

    async fn task<T: Tables + TableScan + Clone>(
        &self,
        deployment: &Deployment,
        repairer: DriftRepairer<T, SystemClock>,
        id: &str,
        findings: &[VerifyFinding],
    ) -> Result<DeployedRepair<T>> {
        let judge = match &self.bucket {
            Some(bucket) => {
                Some(dataset_judge(deployment, bucket, repairer.tables(), self.tolerance()).await?)
            }
            None => None,
        };
        Ok(RepairTask::new(repairer, judge, id, findings))
    }
}

/// Creates the job. Its journal has the findings without values, so that any process can resume it.
async fn create_job(
    deployment: &Deployment,
    arguments: &RepairJob,
    findings: &[VerifyFinding],
    notes: Vec<String>,
) -> Result<RunnableJob> {
    let number = u64::try_from(findings.len()).unwrap_or(u64::MAX);
    let plan = JobPlan { items: number, changes: number, notes, ..JobPlan::default() };
    let units = repair_units(findings);
    let job = deployment.create_job(arguments, units, (plan, None)).await?;
    let journal = JobJournal::new(deployment.job_store(), &job.id);
    for findings in findings.chunks(ENTRY_FINDINGS) {
        let stored: Vec<VerifyFinding> = findings.iter().map(VerifyFinding::without_values).collect();
        journal.append(&stored).await?;
    }
    Ok(job)
}

/// Continues a repair in this process; returns whether everything is right.
///
/// # Errors
/// As [`RepairCommand::run`].
pub(crate) async fn resume(
    deployment: &Deployment,
    stored: &JobState,
    workers: usize,
    as_json: bool,
) -> Result<bool> {
    let (arguments, job) = deployment.resumed_job::<RepairJob>(stored).await?;
    let journal = JobJournal::new(deployment.job_store(), &job.id);
    let findings: Vec<Vec<VerifyFinding>> = journal.read().await?;
    let findings = findings.concat();
    if usize::try_from(stored.plan.items).ok() != Some(findings.len()) {
        return Err(Error::new(ErrorKind::State, "the journal of the job does not have all of its findings")
            .with("job", job.id.as_str())
            .hint("The process was killed while it stored them: start the repair again"));
    }
    let repairer = DriftRepairer::new(deployment.context(), arguments.tolerance());
    let task = arguments.task(deployment, repairer, &job.id, &findings).await?;
    let is_right = Box::pin(run_job(deployment, &job, &task, workers, as_json)).await?;
    if is_right && deployment.config.model.highest_level() > 0 {
        // The rollups that an earlier process wrote are not known any more.
        tell(LEVELS_AFTER_RESUME);
        return Ok(false);
    }
    Ok(is_right)
}

async fn run_job<T: Tables + TableScan + Clone>(
    deployment: &Deployment,
    job: &RunnableJob,
    task: &DeployedRepair<T>,
    workers: usize,
    as_json: bool,
) -> Result<bool> {
    let done = deployment.run_job(job, task, workers).await?;
    if done.status != JobStatus::Done {
        return print_report(&JobReport::of(&done), as_json);
    }
    // An earlier process may have printed a part of the log; the totals include that part.
    let is_left = RepairOutcome::LEFT.into_iter().any(|outcome| done.totals.number(outcome) > 0);
    let is_repaired = print_log(&task.log(), as_json)? && !is_left;
    let are_counted = report_dropped(&done.totals);
    Ok(Box::pin(report_lives(deployment, &done.totals)).await? && are_counted && is_repaired)
}

/// Prints the log; returns whether everything in it is right.
fn print_log(log: &[RepairLogEntry], as_json: bool) -> Result<bool> {
    print(&if as_json { json(&log)? } else { log_text(log) })?;
    Ok(!log.iter().any(|entry| entry.outcome.is_left()))
}

fn log_text(log: &[RepairLogEntry]) -> String {
    let lines: String =
        log.iter().map(|entry| format!("{}    → {}\n", finding_text(&entry.finding), entry.action)).collect();
    let totals: Vec<String> = repair_totals(log)
        .iter()
        .map(|(name, number)| format!("{number} {}", name.replace('_', " ")))
        .collect();
    format!("{lines}\n{}\n", totals.join(", "))
}
