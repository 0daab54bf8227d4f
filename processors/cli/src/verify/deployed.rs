//! Verifications of a deployment: the job, its judges, and its end.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use afterwrite::clock::SystemClock;
use afterwrite::config::{EnvironmentSettings, s3_client};
use afterwrite::sink::dynamodb::DynamoDb;
use afterwrite::sink::s3::S3Bucket;
use afterwrite::sink::{TableScan, Tables};
use afterwrite::{Error, ErrorKind, Result};
use afterwrite_operations::jobs::{JobJournal, JobKind, JobPlan, JobReport, JobRunner, JobState, JobStatus};
use afterwrite_operations::verify::{
    DatasetCheck, DatasetJudge, VerifyArguments, VerifyFinding, VerifyJob, VerifyReport, VerifySummary,
    VerifyTask, finding_lines, parse_findings, plan_verify, verify_units,
};
use serde::{Deserialize, Serialize};

use super::output::report_text;
use crate::deployment::Deployment;
use crate::job_output::{ProgressLine, print_report};
use crate::print::{json, print};

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
    /// Everything was judged.
    Done(VerifyReport),
    /// An operator paused or stopped it.
    Paused(Box<JobState>),
}

#[derive(Serialize)]
struct PrintedReport<'r> {
    #[serde(flatten)]
    summary: &'r VerifySummary,
    findings: &'r [VerifyFinding],
    next_steps: Vec<String>,
}

type DeployedVerify = VerifyJob<S3Bucket, Arc<DynamoDb>, SystemClock>;

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
    let names = (deployment.config.table_names.clone(), Arc::clone(&deployment.state_table));
    let model = Arc::clone(&deployment.config.model);
    Ok(DatasetJudge::new(model, names, objects, tables, SystemClock, tolerance))
}

/// Creates and acquires the job of a verification.
pub(super) async fn create_job(
    deployment: &Deployment,
    stored: &StoredArguments,
    rate: Option<u64>,
) -> Result<JobState> {
    let plan = plan(deployment, &stored.arguments).await?;
    let json = serde_json::to_value(stored).map_err(|error| {
        Error::new(ErrorKind::State, "the arguments of the job cannot be stored").caused_by(error)
    })?;
    let units = verify_units(&deployment.config.model, &stored.arguments);
    let store = deployment.job_store();
    let job = store.create(JobKind::Verify, json, units, plan, rate).await?;
    store.acquire(&job.id).await
}

async fn plan(deployment: &Deployment, arguments: &VerifyArguments) -> Result<JobPlan> {
    let (mut items, mut bytes) = (0, 0);
    for name in &deployment.config.table_names {
        let summary = deployment.tables.describe(name).await?;
        items += summary.items;
        bytes += summary.bytes;
    }
    let state = deployment.tables.describe(&deployment.state_table).await?;
    Ok(plan_verify((state.items, state.bytes), (items, bytes), arguments))
}

async fn task(deployment: &Deployment, arguments: &VerifyArguments, id: &str) -> Result<DeployedVerify> {
    let state = VerifyTask::new(
        Arc::clone(&deployment.config.model),
        deployment.config.table_names.clone(),
        Arc::clone(&deployment.state_table),
        Arc::clone(&deployment.tables),
        SystemClock,
        arguments.clone(),
    );
    let datasets = match &arguments.bucket {
        Some(bucket) => {
            let tolerance = Duration::from_secs(arguments.tolerance_seconds);
            let tables = Arc::clone(&deployment.tables);
            let judge = dataset_judge(deployment, bucket, tables, tolerance).await?;
            Some(DatasetCheck::new(judge, arguments.clone())?)
        }
        None => None,
    };
    let job = VerifyJob::new(state, datasets, arguments.datasets);
    Ok(job.with_journal(JobJournal::new(deployment.job_store(), id)))
}

/// Runs a job that was acquired, or continues it.
pub(super) async fn run_job(
    deployment: &Deployment,
    mut job: JobState,
    arguments: &VerifyArguments,
    workers: usize,
) -> Result<VerifyEnd> {
    let task = task(deployment, arguments, &job.id).await?;
    task.restore(&mut job).await?;
    let (store, progress) = (deployment.job_store(), ProgressLine::new());
    let done = Box::pin(JobRunner { store: &store, observer: &progress, workers }.run(job, &task)).await;
    progress.finish();
    let done = done?;
    Ok(match done.status {
        JobStatus::Done => VerifyEnd::Done(task.report(&done.totals)),
        JobStatus::Planned
        | JobStatus::Running
        | JobStatus::Paused
        | JobStatus::Stopped
        | JobStatus::Failed => VerifyEnd::Paused(Box::new(done)),
    })
}

/// Continues a verification in this process; returns whether nothing has drifted.
///
/// # Errors
/// As [`super::VerifyCommand::run`].
pub(crate) async fn resume(
    deployment: &Deployment,
    job: JobState,
    workers: usize,
    as_json: bool,
) -> Result<bool> {
    let stored: StoredArguments = serde_json::from_value(job.arguments.clone()).map_err(|error| {
        Error::new(ErrorKind::State, "the arguments of the job cannot be read").caused_by(error)
    })?;
    let end = Box::pin(run_job(deployment, job, &stored.arguments, workers)).await?;
    print_end(&end, stored.report.as_deref().map(Path::new), as_json)
}

/// Prints the result and writes the report; returns whether everything was judged and nothing has drifted.
pub(super) fn print_end(end: &VerifyEnd, file: Option<&Path>, as_json: bool) -> Result<bool> {
    let report = match end {
        VerifyEnd::Done(report) => report,
        VerifyEnd::Paused(job) => return print_report(&JobReport::of(job), as_json),
    };
    if let Some(file) = file {
        std::fs::write(file, finding_lines(&report.findings)).map_err(|error| {
            Error::new(ErrorKind::Configuration, "the report cannot be written")
                .with("file", file.display().to_string())
                .caused_by(error)
        })?;
    }
    print(&if as_json { json(&printed(report, file))? } else { report_text(report) })?;
    Ok(report.summary.drift == 0)
}

fn printed<'r>(report: &'r VerifyReport, file: Option<&Path>) -> PrintedReport<'r> {
    let file = file.map_or("FILE".to_owned(), |file| file.display().to_string());
    let next_steps = if report.summary.drift == 0 {
        Vec::new()
    } else {
        vec![format!("afterwrite verify --recheck {file}"), format!("afterwrite repair {file} --dry-run")]
    };
    PrintedReport { summary: &report.summary, findings: &report.findings, next_steps }
}

/// The findings of a file.
pub(crate) fn read_findings(file: &Path) -> Result<Vec<VerifyFinding>> {
    let text = std::fs::read_to_string(file).map_err(|error| {
        Error::new(ErrorKind::Configuration, "the findings cannot be read")
            .with("file", file.display().to_string())
            .caused_by(error)
    })?;
    parse_findings(&text)
}
