//! Verifications of a deployment: the job, its judges, and its end.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use afterwrite_ledger::tables::{TableScan, Tables};
use afterwrite_model::Result;
use afterwrite_model::clock::SystemClock;
use afterwrite_operations::jobs::{
    JobJournal, JobKind, JobPlan, JobReport, JobState, JobStatus, JobStore, JobTotals,
};
use afterwrite_operations::verify::{
    DEFAULT_TOLERANCE, DatasetCheck, DatasetJudge, ThreeWayCheck, VerifyArguments, VerifyFinding, VerifyJob,
    VerifyReport, VerifySummary, VerifyTask, finding_lines, plan_verify, verify_units,
};
use afterwrite_operations::{PatientTables, TenantFilter};
use afterwrite_services::config::{EnvironmentSettings, s3_client};
use afterwrite_services::dynamodb::DynamoDb;
use afterwrite_services::s3::S3Bucket;
use serde::{Deserialize, Serialize};

use super::output::report_text;
use super::report_file::write_report;
use super::selection::VerifySelection;
use crate::deployment::{Deployment, PlannedArguments, RunnableJob};
use crate::job_output::{print_report, steps_text};
use crate::print::{json, print};
use crate::reconciled_lives::report_lives;

/// The arguments of the job, as the state table keeps them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct StoredArguments {
    #[serde(flatten)]
    pub(super) arguments: VerifyArguments,
    /// The file that the findings are written to.
    #[serde(default)]
    pub(super) report: Option<String>,
}

/// How a verification ended.
pub(super) enum VerifyEnd {
    /// Everything was judged; with the totals of the job.
    Done(VerifyReport, JobTotals),
    /// Its job did not end: an operator paused or stopped it, or it failed.
    Unfinished(Box<JobState>),
}

#[derive(Serialize)]
struct PrintedReport<'r> {
    #[serde(flatten)]
    summary: &'r VerifySummary,
    #[serde(skip_serializing_if = "Option::is_none")]
    only: Option<&'r TenantFilter>,
    #[serde(skip_serializing_if = "Option::is_none")]
    three_way: Option<&'r ThreeWayCheck>,
    findings: &'r [VerifyFinding],
    next_steps: Vec<String>,
}

type DeployedVerify = VerifyJob<S3Bucket, PatientTables<Arc<DynamoDb>, SystemClock>, SystemClock>;

/// The bucket of the datasets, if one is set.
pub(crate) fn dataset_bucket(option: Option<&String>) -> Option<String> {
    option.cloned().or_else(|| EnvironmentSettings::from_env().bucket)
}

/// A judge of the deployment's datasets in a bucket.
pub(crate) async fn dataset_judge<T: Tables + TableScan + Clone>(
    deployment: &Deployment,
    bucket: &str,
    tables: T,
    tolerance: Duration,
) -> Result<DatasetJudge<S3Bucket, T, SystemClock>> {
    let objects = S3Bucket::retrying(s3_client().await?, Arc::from(bucket));
    Ok(DatasetJudge::new(deployment.context().with_tables(tables), objects, tolerance))
}

impl PlannedArguments for StoredArguments {
    const KIND: JobKind = JobKind::Verify;
}

/// Creates the job of a verification.
pub(super) async fn create_job(
    deployment: &Deployment,
    stored: &StoredArguments,
    rate: Option<u64>,
) -> Result<RunnableJob> {
    let plan = plan(deployment, &stored.arguments).await?;
    let units = verify_units(&deployment.config.model, &stored.arguments);
    deployment.create_job(stored, units, (plan, rate)).await
}

async fn plan(deployment: &Deployment, arguments: &VerifyArguments) -> Result<JobPlan> {
    let (mut items, mut bytes, tables) = (0, 0, deployment.patient_tables());
    for name in &deployment.config.table_names {
        let summary = tables.describe(name).await?;
        items += summary.items;
        bytes += summary.bytes;
    }
    let state = tables.describe(&deployment.state_table).await?;
    Ok(plan_verify((state.items, state.bytes), (items, bytes), arguments))
}

/// The job of a verification. A step has many reads: each is repeated by itself, because a step as a whole may never succeed while many are throttled.
async fn task(deployment: &Deployment, arguments: &VerifyArguments, id: &str) -> Result<DeployedVerify> {
    let state = VerifyTask::new(deployment.planned_context(), arguments.clone());
    let datasets = match &arguments.bucket {
        Some(bucket) => {
            let tolerance = Duration::from_secs(arguments.tolerance_seconds);
            let judge = dataset_judge(deployment, bucket, deployment.patient_tables(), tolerance).await?;
            Some(DatasetCheck::new(judge, arguments.clone()))
        }
        None => None,
    };
    let job = VerifyJob::new(state, datasets, arguments.datasets);
    let store = JobStore::new(deployment.patient_tables(), SystemClock, Arc::clone(&deployment.state_table));
    Ok(job.with_journal(JobJournal::new(store, id)))
}

/// Runs a job, or continues it.
pub(super) async fn run_job(
    deployment: &Deployment,
    job: &RunnableJob,
    arguments: &VerifyArguments,
    workers: usize,
) -> Result<VerifyEnd> {
    let task = task(deployment, arguments, &job.id).await?;
    let done = deployment.run_job(job, &task, workers).await?;
    Ok(match done.status {
        JobStatus::Done => VerifyEnd::Done(task.report(&done.totals), done.totals),
        JobStatus::Planned
        | JobStatus::Running
        | JobStatus::Paused
        | JobStatus::Stopped
        | JobStatus::Failed => VerifyEnd::Unfinished(Box::new(done)),
    })
}

/// Continues a verification in this process; returns whether nothing has drifted.
///
/// # Errors
/// As [`super::VerifyCommand::run`].
pub(crate) async fn resume(
    deployment: &Deployment,
    job: &JobState,
    workers: usize,
    as_json: bool,
) -> Result<bool> {
    let (stored, job) = deployment.resumed_job::<StoredArguments>(job).await?;
    let end = Box::pin(run_job(deployment, &job, &stored.arguments, workers)).await?;
    let selection = VerifySelection::of(&stored.arguments);
    let options = next_options(stored.arguments.tolerance_seconds, None);
    let output = VerifyOutput {
        file: stored.report.as_deref().map(Path::new),
        selection: &selection,
        options: &options,
        as_json,
    };
    let is_right = report_end(&end, &output)?;
    Ok(end.report_lives(deployment).await? && is_right)
}

impl VerifyEnd {
    /// Reports items whose totals only the archive can confirm; returns whether there is none.
    pub(super) async fn report_lives(&self, deployment: &Deployment) -> Result<bool> {
        match self {
            Self::Done(_, totals) => Box::pin(report_lives(deployment, totals)).await,
            Self::Unfinished(_) => Ok(true),
        }
    }
}

/// Where the result of a verification goes, and the options that the next commands have.
pub(super) struct VerifyOutput<'o> {
    /// The file of the findings.
    pub(super) file: Option<&'o Path>,
    /// The selection that was judged.
    pub(super) selection: &'o VerifySelection,
    /// The options of the next commands, each after a space.
    pub(super) options: &'o str,
    /// Whether it is printed as JSON.
    pub(super) as_json: bool,
}

/// The options of the verification that a command about its findings repeats: all that differ from their default.
pub(crate) fn next_options(tolerance_seconds: u64, bucket: Option<&str>) -> String {
    let mut options = String::new();
    if tolerance_seconds != DEFAULT_TOLERANCE.as_secs() {
        options.push_str(&format!(" --tolerance {tolerance_seconds}"));
    }
    if let Some(bucket) = bucket {
        options.push_str(&format!(" --bucket {bucket}"));
    }
    options
}

/// Prints the result and writes the report; returns whether there is nothing to mend.
///
/// # Errors
/// The report cannot be written; as [`VerifySummary::is_right`].
pub(super) fn report_end(end: &VerifyEnd, output: &VerifyOutput<'_>) -> Result<bool> {
    let VerifyOutput { file, as_json, .. } = *output;
    let report = match end {
        VerifyEnd::Done(report, _) => report,
        VerifyEnd::Unfinished(job) => return print_report(&JobReport::of(job), as_json),
    };
    let written = file.map_or(Ok(()), |file| write_report(file, &finding_lines(&report.findings)));
    let printed = printed(report, output);
    print(&if as_json { json(&printed)? } else { report_text(report) + &steps_text(&printed.next_steps) })?;
    written?;
    report.summary.is_right()
}

fn printed<'r>(report: &'r VerifyReport, output: &VerifyOutput<'r>) -> PrintedReport<'r> {
    let VerifyOutput { file, selection, options, .. } = *output;
    let next_steps = match file.map(Path::display) {
        _ if report.summary.drift == 0 => Vec::new(),
        Some(file) => vec![
            format!("afterwrite verify --recheck {file}{options}"),
            format!("afterwrite repair {file}{options} --dry-run"),
        ],
        // Only a file keeps the findings for a repair.
        None => vec![
            format!("afterwrite verify --report drift.jsonl{options}"),
            format!("afterwrite repair drift.jsonl{options} --dry-run"),
        ],
    };
    PrintedReport {
        summary: &report.summary,
        only: selection.only.as_ref(),
        three_way: selection.three_way.as_ref(),
        findings: &report.findings,
        next_steps,
    }
}
