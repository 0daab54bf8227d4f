//! The function as Lambda runs it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use afterwrite_lambda::{
    HandledInvocation, Invocation, LambdaFunction, MetricsLabels, MetricsLine, response_json,
};
use afterwrite_ledger::tables::TableScan as _;
use afterwrite_model::clock::{Clock as _, SystemClock};
use afterwrite_model::record::Timestamp;
use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_services::ObjectStore as _;
use afterwrite_services::config::{EnvironmentSettings, FunctionConfig};
use afterwrite_services::dynamodb::DynamoDb;
use afterwrite_services::s3::S3Bucket;
use serde_json::Value;

use super::report::{VerifierReport, report_keys};
use super::request::VerifierRequest;
use super::rotation::{RotationStore, SampleRotation};
use super::timed::TimedVerification;
use crate::DeploymentContext;
use crate::jobs::JobBasis;
use crate::verify::{
    DatasetCheck, DatasetCoverage, DatasetJudge, KeySample, VerifyArguments, VerifyJob, VerifyReport,
    VerifyTask, finding_lines, verify_units,
};

const FUNCTION: &str = "verifier";
/// Time for the report.
const REPORT_TIME: Duration = Duration::from_secs(10);
/// Rechecks end so long before everything must: what they have found is reported.
const RECHECK_END: Duration = Duration::from_secs(15);
/// The bytes of a segment. A run that is cut short has read whole segments.
const SEGMENT_BYTES: u64 = 32 * 1024 * 1024;
const SEGMENTS: std::ops::RangeInclusive<u64> = 8..=2_000;

type FunctionTables = Arc<DynamoDb>;

/// The function `verifier`.
#[derive(Debug)]
pub struct VerifierFunction {
    config: FunctionConfig,
    state_table: Arc<str>,
    tables: FunctionTables,
    /// The bucket of datasets and reports, if it is configured.
    bucket: Option<S3Bucket>,
    rotations: RotationStore<S3Bucket>,
    labels: MetricsLabels,
}

impl VerifierFunction {
    /// Creates the function.
    ///
    /// # Errors
    /// A missing or wrong setting, named by its variable.
    pub async fn start(settings: EnvironmentSettings) -> Result<Self> {
        let config = FunctionConfig::resolve(&settings)?;
        let bucket = match &settings.bucket {
            Some(_) => Some(S3Bucket::retrying(settings.s3_client().await?, settings.required_bucket()?)),
            None => None,
        };
        Ok(Self {
            labels: MetricsLabels::new(&settings, FUNCTION, &config.model)?,
            state_table: settings.required_state_table()?,
            tables: Arc::new(DynamoDb::retrying(Box::pin(settings.dynamodb_client()).await?)),
            rotations: RotationStore::new(bucket.clone()),
            bucket,
            config,
        })
    }

    /// Verifies until the deadline.
    async fn verify(&self, request: VerifierRequest, deadline: Timestamp) -> Result<VerifierReport> {
        let begun = SystemClock.now();
        let basis = JobBasis::of(&self.context(), None, &Value::Null).await?;
        let mut rotation = self.rotations.load(SampleRotation::new(&basis, &SystemClock)?).await?;
        let arguments = self.arguments(request, &rotation).await?;
        let mut units = verify_units(&self.config.model, &arguments);
        rotation.mark_read(request.sample, &mut units);
        let end = deadline.minus(REPORT_TIME);
        let job = self.job(&arguments, end.minus(RECHECK_END))?;
        let tolerance = Duration::from_secs(request.tolerance_seconds);
        let timed = TimedVerification { job: &job, clock: &SystemClock, deadline: end, tolerance };
        let result = Box::pin(timed.run(units.clone())).await?;
        let sample = (arguments.key_sample(), arguments.segments);
        rotation.note(sample, &units, &result, (begun, SystemClock.now()));
        let mut report = VerifierReport::new(&result.report, result.share, rotation.report());
        self.write(&mut report, &result.report, begun).await?;
        self.rotations.save(&rotation).await?;
        Ok(report)
    }

    /// Writes the report and the findings into the bucket, if there is one.
    async fn write(&self, report: &mut VerifierReport, found: &VerifyReport, begun: Timestamp) -> Result<()> {
        let Some(bucket) = &self.bucket else { return Ok(()) };
        let (summary, findings) = report_keys(begun);
        if !found.findings.is_empty() {
            bucket.put(&findings, finding_lines(&found.findings).into_bytes()).await?;
            report.findings = Some(findings);
        }
        let json = serde_json::to_vec_pretty(&report)
            .map_err(|error| Error::new(ErrorKind::State, "the report cannot be written").caused_by(error))?;
        bucket.put(&summary, json).await
    }

    async fn arguments(
        &self,
        request: VerifierRequest,
        rotation: &SampleRotation,
    ) -> Result<VerifyArguments> {
        let mut bytes = self.tables.describe(&self.state_table).await?.bytes;
        for name in &self.config.table_names {
            bytes = bytes.max(self.tables.describe(name).await?.bytes);
        }
        let segments = (bytes / SEGMENT_BYTES).clamp(*SEGMENTS.start(), *SEGMENTS.end());
        let datasets = DatasetCoverage::of(&self.config.model, !request.datasets, self.bucket.is_some());
        let segments = u32::try_from(segments).unwrap_or(u32::MAX);
        let KeySample { share, seed } = rotation.sample(request.sample);
        Ok(VerifyArguments {
            segments: rotation.segments(share, segments),
            sample: share,
            seed,
            tolerance_seconds: request.tolerance_seconds,
            datasets,
            ..VerifyArguments::default()
        })
    }

    fn context(&self) -> DeploymentContext<FunctionTables, SystemClock> {
        DeploymentContext {
            model: Arc::clone(&self.config.model),
            table_names: self.config.table_names.clone(),
            state_table: Arc::clone(&self.state_table),
            tables: Arc::clone(&self.tables),
            clock: SystemClock,
        }
    }

    fn job(
        &self,
        arguments: &VerifyArguments,
        end: Timestamp,
    ) -> Result<VerifyJob<S3Bucket, FunctionTables, SystemClock>> {
        let context = self.context();
        let state = VerifyTask::new(context.clone(), arguments.clone());
        let datasets = match &self.bucket {
            Some(bucket) if arguments.datasets == DatasetCoverage::Compared => {
                let tolerance = Duration::from_secs(arguments.tolerance_seconds);
                let judge = DatasetJudge::new(context, bucket.clone(), tolerance);
                Some(DatasetCheck::new(judge.until(end), arguments.clone()))
            }
            Some(_) | None => None,
        };
        Ok(VerifyJob::new(state.until(end), datasets, arguments.datasets))
    }
}

impl LambdaFunction for VerifierFunction {
    fn handle(&self, invocation: Invocation) -> HandledInvocation<'_> {
        Box::pin(async move { response_json(&self.respond(invocation).await?) })
    }
}

impl VerifierFunction {
    async fn respond(&self, invocation: Invocation) -> Result<VerifierReport> {
        let started = Instant::now();
        let request = VerifierRequest::read(invocation.payload())?;
        let report = Box::pin(self.verify(request, invocation.deadline())).await?;
        metrics(&report).print(&self.labels, started);
        report.failure().map_or(Ok(report), Err)
    }
}

fn metrics(report: &VerifierReport) -> MetricsLine {
    let mut line = MetricsLine::default();
    line.count("checked_targets", report.checked_targets);
    line.count("drifted_targets", report.drifted_targets);
    line.count("undecided_targets", report.undecided_targets);
    line
}
