//! `afterwrite verify`: compares what is derived with the items, as a job.

pub(crate) mod deployed;
pub(crate) mod output;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use afterwrite::clock::SystemClock;
use afterwrite::{Error, ErrorKind, Result};
use afterwrite_operations::TenantFilter;
use afterwrite_operations::verify::{
    DEFAULT_TOLERANCE, DatasetCoverage, FindingPlace, ThreeWayCheck, VerifyArguments, VerifyFinding,
    VerifyReport, recheck_findings, recheck_rows,
};
use clap::Args;

use self::deployed::{
    StoredArguments, VerifyEnd, create_job, dataset_bucket, dataset_judge, print_end, read_findings, run_job,
};
use crate::arguments::pair;
use crate::backfill::tenant;
use crate::deployment::{Deployment, DeploymentArguments};

/// The arguments of `afterwrite verify`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  afterwrite verify\n  afterwrite verify --sample 0.01 --report drift.jsonl --json\n  afterwrite verify --only admin_id=42\n  afterwrite verify --bucket my-bucket\n  afterwrite verify --recheck drift.jsonl\n\nRun it on a schedule with --sample and an alarm on exit code 1. The application may go on writing: a difference that a change in flight may explain is never reported as drift. With a bucket, the rows of datasets are compared with the items; that needs the heartbeat. A verification is a job: `afterwrite jobs` pauses and resumes it.\n\nExit codes: 0 no drift, 1 drift was found or the job was paused, 2 wrong usage or configuration, 3 the command could not finish."
)]
pub struct VerifyCommand {
    #[command(flatten)]
    deployment: DeploymentArguments,
    /// The share of items and rollups to judge, more than 0 and at most 1. The tables are read completely, but only so many items are read again.
    #[arg(long, value_name = "SHARE", default_value_t = 1.0, value_parser = share)]
    sample: f64,
    /// Judge only one tenant: a variable of keys, an attribute or an output of a lookup, and its value.
    #[arg(long, value_name = "NAME=VALUE", value_parser = tenant)]
    only: Option<TenantFilter>,
    /// Compare a counter of the application with a measure and a recount of the items.
    #[arg(long, value_name = "ATTRIBUTE=ROLLUP.MEASURE", value_parser = three_way)]
    three_way: Option<ThreeWayCheck>,
    /// The longest time that a record is in flight, in seconds: a difference of an item must be older than this.
    #[arg(long, value_name = "SECONDS", default_value_t = DEFAULT_TOLERANCE.as_secs())]
    tolerance: u64,
    /// Judge the findings of this file again, and nothing else.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["sample", "only", "three_way"])]
    recheck: Option<PathBuf>,
    /// Write the findings to this file, one a line, for --recheck and `afterwrite repair`.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// The bucket of the datasets; default: AFTERWRITE_BUCKET. Without a bucket, datasets are not compared.
    #[arg(long, value_name = "NAME", conflicts_with = "without_datasets")]
    bucket: Option<String>,
    /// Do not compare datasets with items.
    #[arg(long)]
    without_datasets: bool,
    /// The segments of each table that are read in parallel.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    segments: u32,
    /// The most items that are read in a second.
    #[arg(long, value_name = "ITEMS", value_parser = clap::value_parser!(u64).range(1..))]
    rate: Option<u64>,
    /// The most parts of the work at once.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=256))]
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
        let end = match &self.recheck {
            Some(file) => VerifyEnd::Done(Box::pin(self.recheck(&deployment, file)).await?),
            None => {
                self.report.as_deref().map_or(Ok(()), remove_report)?;
                Box::pin(self.verify(&deployment)).await?
            }
        };
        print_end(&end, self.report.as_deref(), self.json)
    }
}

/// Removes the report of an earlier run, so that no repair takes it for this one's if this one fails.
fn remove_report(file: &Path) -> Result<()> {
    match std::fs::remove_file(file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::new(ErrorKind::Configuration, "the report of an earlier run cannot be replaced")
                .with("file", file.display().to_string())
                .caused_by(error))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

impl VerifyCommand {
    /// Verifies as a job; returns the state of a job that was paused.
    async fn verify(&self, deployment: &Deployment) -> Result<VerifyEnd> {
        if let Some(check) = &self.three_way {
            check.check(&deployment.config.model)?;
        }
        let bucket = dataset_bucket(self.bucket.as_ref());
        let coverage = match (deployment.config.model.datasets.is_empty(), self.without_datasets, &bucket) {
            (true, ..) => DatasetCoverage::NoDatasets,
            (false, true, _) => DatasetCoverage::Excluded,
            (false, false, None) => DatasetCoverage::NoBucket,
            (false, false, Some(_)) => DatasetCoverage::Compared,
        };
        let arguments = VerifyArguments {
            segments: self.segments,
            sample: self.sample,
            only: self.only.clone(),
            three_way: self.three_way.clone(),
            tolerance_seconds: self.tolerance,
            datasets: coverage,
            bucket: bucket.filter(|_| coverage == DatasetCoverage::Compared),
        };
        let report = self.report.as_ref().map(|file| file.display().to_string());
        let stored = StoredArguments { arguments, report };
        let job = create_job(deployment, &stored, self.rate).await?;
        Box::pin(run_job(deployment, job, &stored.arguments, usize::from(self.workers))).await
    }

    async fn recheck(&self, deployment: &Deployment, file: &Path) -> Result<VerifyReport> {
        let findings = read_findings(file)?;
        let tolerance = Duration::from_secs(self.tolerance);
        let mut found = recheck_findings(
            &deployment.config.model,
            &deployment.config.table_names,
            &deployment.state_table,
            Arc::clone(&deployment.tables),
            &SystemClock,
            tolerance,
            &findings,
        )
        .await?;
        let of_datasets: Vec<VerifyFinding> =
            findings.iter().filter(|finding| finding.place == FindingPlace::Dataset).cloned().collect();
        let mut coverage = DatasetCoverage::NoDatasets;
        if !of_datasets.is_empty() {
            let bucket = dataset_bucket(self.bucket.as_ref()).ok_or_else(|| {
                Error::new(
                    ErrorKind::Configuration,
                    "the file has findings about datasets, and no bucket is set",
                )
                .hint("Set AFTERWRITE_BUCKET or pass --bucket")
            })?;
            let tables = Arc::clone(&deployment.tables);
            let judge = dataset_judge(deployment, &bucket, tables, tolerance).await?;
            found.extend(Box::pin(recheck_rows(&judge, &of_datasets)).await?);
            coverage = DatasetCoverage::Compared;
        }
        let items = u64::try_from(findings.len()).unwrap_or(u64::MAX);
        Ok(VerifyReport::new(found, &[("items".to_owned(), items)].into(), coverage))
    }
}

fn three_way(written: &str) -> std::result::Result<ThreeWayCheck, String> {
    let (attribute, measure) = pair(written)?;
    let (rollup, measure) = measure.split_once('.').ok_or("write ATTRIBUTE=ROLLUP.MEASURE")?;
    Ok(ThreeWayCheck { attribute, rollup: rollup.to_owned(), measure: measure.to_owned() })
}

fn share(written: &str) -> std::result::Result<f64, String> {
    let share = written.parse().ok().filter(|share| *share > 0.0 && *share <= 1.0);
    share.ok_or_else(|| "write a number above 0 and up to 1, such as 0.01".to_owned())
}
