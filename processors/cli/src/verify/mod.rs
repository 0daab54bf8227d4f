//! `afterwrite verify`: compares derived data with the items, as a job.

pub(crate) mod deployed;
pub(crate) mod output;
pub(crate) mod report_file;
mod selection;

use std::path::PathBuf;
use std::time::Duration;

use afterwrite_model::clock::SystemClock;
use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_operations::verify::{
    DEFAULT_TOLERANCE, DatasetCoverage, KeySample, ThreeWayCheck, Tolerance, VerifyArguments, VerifyFinding,
    VerifyReport, recheck_findings, recheck_rows,
};
use afterwrite_operations::{TenantFilter, lives_of_findings};
use clap::Args;

use self::deployed::{
    StoredArguments, VerifyEnd, VerifyOutput, create_job, dataset_bucket, dataset_judge, next_options,
    report_end, run_job,
};
use self::report_file::{absolute, begin_report};
use self::selection::{RecheckFile, VerifySelection, read_recheck};
use crate::arguments::pair;
use crate::deployment::{Deployment, DeploymentArguments};
use crate::job_output::showing_waits;

/// The arguments of `afterwrite verify`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  afterwrite verify\n  afterwrite verify --sample 0.01 --report drift.jsonl --json\n  afterwrite verify --only admin_id=42\n  afterwrite verify --bucket my-bucket\n  afterwrite verify --recheck drift.jsonl\n  afterwrite verify --sample 0.01 --seed 1234567\n\nRun it on a schedule with --sample and an alarm on exit codes 1 and 3. The application may go on writing: a difference that a change in flight may explain is never reported as drift. With a bucket, the rows of datasets are compared with the items; that needs the heartbeat. A verification is a job: `afterwrite jobs` pauses and resumes it.\n\nExit codes: 0 no drift, 1 drift was found, a finding stays undecided until its cause is mended, items vanished or were restored so that the archive must be consulted, or the job was paused, 2 wrong usage or configuration, or the ledger is of a newer model, 3 the command could not finish, or nothing could be judged of a part, which is named with the cause."
)]
pub struct VerifyCommand {
    /// The share of items and rollups to judge, above 0 and at most 1; each run judges others. The tables are read completely, but only this share of the items is read again.
    #[arg(help_heading = "Scope", long, value_name = "SHARE", default_value_t = 1.0, value_parser = share)]
    sample: f64,
    /// The sample to judge: the seed in the report of an earlier run. Default: random.
    #[arg(help_heading = "Scope", long, value_name = "N", requires = "sample", conflicts_with = "recheck", value_parser = seed)]
    seed: Option<u32>,
    /// Judge only one tenant: a variable of keys, an attribute or an output of a lookup, named as in the model, and its value.
    #[arg(help_heading = "Scope", long, value_name = "NAME=VALUE")]
    only: Option<TenantFilter>,
    /// Compare a counter of the application with a measure and a recount of the items.
    #[arg(help_heading = "Scope", long, value_name = "ATTRIBUTE=ROLLUP.MEASURE", value_parser = three_way)]
    three_way: Option<ThreeWayCheck>,
    /// The longest time that a record is in flight, in seconds: a difference of an item must be older than this.
    #[arg(help_heading = "Scope", long, value_name = "SECONDS", default_value_t = DEFAULT_TOLERANCE.as_secs())]
    tolerance: u64,
    /// Judge only the findings of this file, again. If it is the JSON of a run (--json, or a report of `verifier`), judge the same sample again.
    #[arg(help_heading = "Scope", long, value_name = "FILE", conflicts_with_all = ["sample", "only", "three_way"])]
    recheck: Option<PathBuf>,
    /// Write the findings to this file, one a line, for --recheck and `afterwrite repair`.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// The bucket of the datasets; default: AFTERWRITE_BUCKET. Without a bucket, datasets are not compared.
    #[arg(help_heading = "Datasets", long, value_name = "NAME", conflicts_with = "without_datasets")]
    bucket: Option<String>,
    /// Do not compare datasets with items.
    #[arg(help_heading = "Datasets", long)]
    without_datasets: bool,
    #[command(flatten)]
    deployment: DeploymentArguments,
    /// The segments of each table that are read in parallel.
    #[arg(help_heading = "Job", long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    segments: u32,
    /// The most items that are read in a second.
    #[arg(help_heading = "Job", long, value_name = "ITEMS", value_parser = clap::value_parser!(u64).range(1..))]
    rate: Option<u64>,
    /// The most parts of the work at once.
    #[arg(help_heading = "Job", long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=256))]
    workers: u16,
    /// Print the summary and the findings as one JSON object.
    #[arg(long)]
    json: bool,
}

impl VerifyCommand {
    /// Verifies, and prints the result; returns whether nothing has drifted.
    ///
    /// # Errors
    /// A setting that is missing or wrong; a table that cannot be read.
    pub async fn run(&self) -> Result<bool> {
        let deployment = self.deployment.connect().await?;
        let selection = match self.recheck.as_deref().map(read_recheck).transpose()? {
            Some(RecheckFile::Findings(findings)) => {
                let report = Box::pin(self.recheck(&deployment, &findings)).await?;
                let lives = lives_of_findings(&deployment.context(), &findings).await?;
                let (end, selection) = (VerifyEnd::Done(report, lives), VerifySelection::default());
                let is_right = report_end(&end, &self.output(&selection, &self.next_options()))?;
                return Ok(end.report_lives(&deployment).await? && is_right);
            }
            Some(RecheckFile::Run(selection)) => selection,
            None => self.selection(),
        };
        self.report.as_deref().map_or(Ok(()), begin_report)?;
        let end = Box::pin(self.verify(&deployment, &selection)).await?;
        let is_right = report_end(&end, &self.output(&selection, &self.next_options()))?;
        Ok(end.report_lives(&deployment).await? && is_right)
    }
}

impl VerifyCommand {
    /// The options that the next commands have like this one.
    fn next_options(&self) -> String {
        next_options(self.tolerance, self.bucket.as_deref())
    }

    fn output<'o>(&'o self, selection: &'o VerifySelection, options: &'o str) -> VerifyOutput<'o> {
        VerifyOutput { file: self.report.as_deref(), selection, options, as_json: self.json }
    }

    /// The selection of the options.
    fn selection(&self) -> VerifySelection {
        let random = KeySample::random(self.sample, &SystemClock);
        VerifySelection {
            sample: KeySample { seed: self.seed.unwrap_or(random.seed), ..random },
            only: self.only.clone(),
            three_way: self.three_way.clone(),
        }
    }

    /// Verifies as a job; returns the state of a job that was paused.
    async fn verify(&self, deployment: &Deployment, selection: &VerifySelection) -> Result<VerifyEnd> {
        let VerifySelection { sample, only, three_way } = selection.clone();
        if let Some(check) = &three_way {
            check.check(&deployment.config.model)?;
        }
        let bucket = dataset_bucket(self.bucket.as_ref());
        let model = &deployment.config.model;
        let coverage = DatasetCoverage::of(model, self.without_datasets, bucket.is_some());
        let arguments = VerifyArguments {
            segments: self.segments,
            sample: sample.share,
            seed: sample.seed,
            only,
            three_way,
            tolerance_seconds: self.tolerance,
            datasets: coverage,
            bucket: bucket.filter(|_| coverage == DatasetCoverage::Compared),
        };
        let report = self.report.as_deref().map(absolute).transpose()?;
        let stored = StoredArguments { arguments, report };
        let job = create_job(deployment, &stored, self.rate).await?;
        let workers = usize::from(self.workers);
        Box::pin(run_job(deployment, &job, &stored.arguments, workers)).await
    }

    async fn recheck(&self, deployment: &Deployment, findings: &[VerifyFinding]) -> Result<VerifyReport> {
        let duration = Duration::from_secs(self.tolerance);
        let tolerance = Tolerance::from(duration);
        let waits = tolerance.waits.clone();
        let context = deployment.planned_context();
        let rechecked = recheck_findings(&context, tolerance, findings);
        let mut found = showing_waits(|| waits.current(), rechecked).await?;
        let of_datasets: Vec<VerifyFinding> =
            findings.iter().filter(|finding| finding.subject.row().is_some()).cloned().collect();
        let mut coverage = DatasetCoverage::NoDatasets;
        if !of_datasets.is_empty() {
            let bucket = dataset_bucket(self.bucket.as_ref()).ok_or_else(|| {
                Error::new(
                    ErrorKind::Configuration,
                    "the file has findings about datasets, and no bucket is set",
                )
                .hint("Set AFTERWRITE_BUCKET or pass --bucket")
            })?;
            let judge = dataset_judge(deployment, &bucket, deployment.patient_tables(), duration).await?;
            let rechecked = Box::pin(recheck_rows(&judge, &of_datasets));
            found.extend(showing_waits(|| judge.waits().current(), rechecked).await?);
            coverage = DatasetCoverage::Compared;
        }
        Ok(VerifyReport::of_recheck(&deployment.config.model, findings, found, coverage))
    }
}

fn three_way(written: &str) -> std::result::Result<ThreeWayCheck, String> {
    let (attribute, measure) = pair(written)?;
    let (rollup, measure) = measure.split_once('.').ok_or("write ATTRIBUTE=ROLLUP.MEASURE")?;
    Ok(ThreeWayCheck { attribute, rollup: rollup.to_owned(), measure: measure.to_owned() })
}

fn seed(written: &str) -> std::result::Result<u32, String> {
    written.parse().map_err(|_| "write the whole number that a report has as `seed`".to_owned())
}

fn share(written: &str) -> std::result::Result<f64, String> {
    let share = written.parse().ok().filter(|share| *share > 0.0 && *share <= 1.0);
    share.ok_or_else(|| "write a number above 0 and up to 1, such as 0.01".to_owned())
}
