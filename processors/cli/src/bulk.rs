//! `afterwrite backfill --bulk`: a new state table from table exports, for tables that are too large for transactions.

use std::sync::Arc;
use std::time::Duration;

use afterwrite_bulk::request::{
    BulkRequest, BulkResponse, PlanRequest, default_lookup_rate, default_partitions,
};
use afterwrite_bulk::{BulkWorker, RunLayout, RunRequests};
use afterwrite_ledger::StateItems;
use afterwrite_ledger::state::import::ImportTimes;
use afterwrite_model::clock::SystemClock;
use afterwrite_model::record::Timestamp;
use afterwrite_model::table::{Entity, Model};
use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_operations::EmptiedTables;
use afterwrite_operations::backfill::{
    BackfillTotal, BulkArguments, BulkTask, ExportFolder, ImportTotal, StepInvoker, TableImporter,
    bulk_units, plan_bulk,
};
use afterwrite_operations::jobs::{JobKind, JobReport, JobState, JobStatus, repeated};
use afterwrite_services::config::{dynamodb_client, s3_client};
use afterwrite_services::dynamodb::DynamoDb;
use afterwrite_services::s3::S3Bucket;
use clap::Args;

use crate::deployment::{Deployment, PlannedArguments, RunnableJob};
use crate::job_output::{JobOptions, print_report};
use crate::reconciled_lives::report_dropped;

/// How long the plan of the run is repeated while a service is throttled or unavailable.
const PLAN_TIME: Duration = Duration::from_secs(120);

/// The options of a bulk backfill.
#[derive(Clone, Debug, Args)]
pub(crate) struct BulkOptions {
    /// Count exports of all tables into a new state table, without transactions. For tables that are too large for transactions.
    #[arg(
        help_heading = "Bulk",
        long,
        requires_all = ["export", "into"],
        conflicts_with_all = ["only", "all", "mirrors", "reattribute", "drop", "datasets_only", "export_table", "segments"]
    )]
    pub(crate) bulk: bool,
    /// The new state table of --bulk; the import creates it.
    #[arg(help_heading = "Bulk", long, value_name = "TABLE", requires = "bulk")]
    into: Option<String>,
    /// The folder for the objects of --bulk in the bucket of the exports; default: bulk/ and the id of the first export.
    #[arg(help_heading = "Bulk", long, value_name = "FOLDER", requires = "bulk")]
    run_folder: Option<String>,
    /// The number of parts in which --bulk merges the rollups.
    #[arg(help_heading = "Bulk", long, value_name = "N", requires = "bulk", default_value_t = default_partitions(), value_parser = clap::value_parser!(u32).range(1..=256))]
    partitions: u32,
    /// The maximum of lookups a second of each worker of --bulk.
    #[arg(help_heading = "Bulk", long, value_name = "N", requires = "bulk", default_value_t = default_lookup_rate(), value_parser = clap::value_parser!(u32).range(1..))]
    lookup_rate: u32,
}

impl Default for BulkOptions {
    fn default() -> Self {
        Self {
            bulk: false,
            into: None,
            run_folder: None,
            partitions: default_partitions(),
            lookup_rate: default_lookup_rate(),
        }
    }
}

/// The import creates its table, so that it is no target of the basis.
impl PlannedArguments for BulkArguments {
    const KIND: JobKind = JobKind::Backfill;
}

type DeployedWorker = BulkWorker<S3Bucket, Arc<DynamoDb>, SystemClock>;

/// Runs each step on a thread of its own: counting keeps a processor busy.
struct ThreadInvoker(DeployedWorker);

impl StepInvoker for ThreadInvoker {
    async fn invoke(&self, request: &BulkRequest) -> Result<BulkResponse> {
        let (worker, request) = (self.0.clone(), request.clone());
        let runtime = tokio::runtime::Handle::current();
        let step = tokio::task::spawn_blocking(move || runtime.block_on(Box::pin(worker.handle(&request))));
        step.await.map_err(|error| {
            Error::new(
                ErrorKind::State,
                "a step of the bulk backfill ended unexpectedly; this is a defect of Afterwrite",
            )
            .caused_by(error)
        })?
    }
}

impl BulkOptions {
    /// Plans, requests a confirmation, and runs the bulk backfill; returns whether every item is counted.
    ///
    /// # Errors
    /// A setting that is missing or wrong; the user declined; a step failed.
    pub(crate) async fn run(
        &self,
        deployment: &Deployment,
        exports: &[String],
        mapping_since: Timestamp,
        options: &JobOptions,
    ) -> Result<bool> {
        let into = self.into.clone().unwrap_or_default();
        if *into == *deployment.state_table {
            return Err(Error::new(ErrorKind::Configuration, "--into names the deployed state table")
                .hint("Name a new table: the import creates it"));
        }
        let (bucket, bulk) = self.request(exports, mapping_since)?;
        let objects = S3Bucket::retrying(s3_client().await?, Arc::from(bucket.as_str()));
        Box::pin(deployment.check_ledger(EmptiedTables::Accepted)).await?;
        let planned = deployment.planned_context();
        let (plan, planned) = Box::pin(plan_bulk(objects.clone(), planned, &bulk)).await?;
        options.confirm(&plan)?;
        RunRequests::check_unused(&objects, &bulk.run).await?;
        let worker = worker(deployment, objects);
        let request = BulkRequest::Plan(bulk.clone());
        repeated(&SystemClock, PLAN_TIME, || Box::pin(worker.handle(&request))).await?;
        let without_recovery = options.without_recovery;
        let arguments = BulkArguments {
            bucket,
            bulk,
            into,
            requests: planned.requests,
            earliest_ms: planned.earliest_ms,
            without_recovery,
        };
        let units = bulk_units(planned.requests);
        let job = deployment.create_job(&arguments, units, (plan, options.rate)).await?;
        let workers = usize::from(options.workers);
        run_job(deployment, worker, &arguments, &job, workers, options.json).await
    }

    /// The bucket of the exports, and the request of the plan.
    fn request(&self, exports: &[String], mapping_since: Timestamp) -> Result<(String, PlanRequest)> {
        let mut buckets = Vec::new();
        let mut prefixes = Vec::new();
        for export in exports {
            let (bucket, prefix) = ExportFolder::bucket_and_prefix(export).ok_or_else(|| {
                Error::new(ErrorKind::Configuration, "a bulk backfill reads exports from a bucket")
                    .with("export", export.as_str())
                    .hint("Write s3://BUCKET/AWSDynamoDB/ID; ImportTable reads the results from the same bucket")
            })?;
            buckets.push(bucket.to_owned());
            prefixes.push(prefix.trim_end_matches('/').to_owned());
        }
        buckets.dedup();
        let [bucket] = buckets.as_slice() else {
            return Err(Error::new(ErrorKind::Configuration, "the exports are in several buckets")
                .hint("Export all tables into one bucket"));
        };
        let id = prefixes.first().and_then(|prefix| prefix.rsplit('/').next()).unwrap_or_default();
        let run = self.run_folder.clone().unwrap_or_else(|| format!("bulk/{id}"));
        let request = PlanRequest {
            run: run.trim_matches('/').to_owned(),
            exports: prefixes,
            mapping_since_ms: mapping_since.epoch_ms(),
            partitions: self.partitions,
            lookup_rate: self.lookup_rate,
        };
        Ok((bucket.clone(), request))
    }
}

/// Continues a bulk backfill in this process; returns whether every item is counted.
///
/// # Errors
/// As [`BulkOptions::run`].
pub(crate) async fn resume(
    deployment: &Deployment,
    job: &JobState,
    workers: usize,
    as_json: bool,
) -> Result<bool> {
    let (arguments, job) = deployment.resumed_job::<BulkArguments>(job).await?;
    let objects = S3Bucket::retrying(s3_client().await?, Arc::from(arguments.bucket.as_str()));
    let worker = worker(deployment, objects);
    run_job(deployment, worker, &arguments, &job, workers, as_json).await
}

async fn run_job(
    deployment: &Deployment,
    worker: DeployedWorker,
    arguments: &BulkArguments,
    job: &RunnableJob,
    workers: usize,
    as_json: bool,
) -> Result<bool> {
    let importer = TableImporter {
        client: Box::pin(dynamodb_client()).await?,
        clock: SystemClock,
        bucket: arguments.bucket.clone(),
        prefix: RunLayout(&arguments.bulk.run).import(),
        table: arguments.into.clone(),
        token: job.id.clone(),
        ranks: deployment.config.model.rank_indexes(),
        without_recovery: arguments.without_recovery,
    };
    let bucket = worker.bucket().clone();
    let task = BulkTask::new(ThreadInvoker(worker), importer, &bucket, arguments).await?;
    let job = deployment.run_job(job, &task, workers).await?;
    let mut report = JobReport::of(&job);
    // The last step of a run counts the items that it has written for the import.
    let is_imported = job.totals.number("import_items") == job.totals.number(ImportTotal::Items);
    if job.status == JobStatus::Done {
        report.next_steps = next_steps(arguments, deployment, is_imported);
    }
    let is_done = print_report(&report, as_json)?;
    Ok(report_dropped(&job.totals) && is_done && is_imported && job.totals.number(BackfillTotal::Failed) == 0)
}

fn next_steps(arguments: &BulkArguments, deployment: &Deployment, is_imported: bool) -> Vec<String> {
    let into = &arguments.into;
    if !is_imported {
        return vec![format!(
            "{into} has another number of items than were written: delete it, and start another run"
        )];
    }
    let from = replayed_from(arguments, &deployment.config.model);
    // The replay counts rollups of rollups, too.
    let has_levels = deployment.config.model.state_source().is_some();
    let mut steps: Vec<String> = has_levels.then(|| enable_stream(into)).into_iter().collect();
    steps.push(format!(
        "afterwrite replay s3://{}/archive/ {from}--into {into} --yes",
        archive_bucket(arguments)
    ));
    steps.push(format!("afterwrite verify --state-table {into} --sample 0.01"));
    steps.push(format!(
        "afterwrite state promote {into} --accept-differences (instead of {})",
        deployment.state_table
    ));
    steps
}

/// The option with the time from which the archive is replayed. Expiries of all times are settled by the replay, so a model that keeps what
/// expired needs the whole archive.
fn replayed_from(arguments: &BulkArguments, model: &Model) -> String {
    if model.entities.iter().any(Entity::keeps_what_expired) {
        return String::new();
    }
    let mapped = Timestamp::from_epoch_ms(arguments.bulk.mapping_since_ms);
    let exported = Timestamp::from_epoch_ms(arguments.earliest_ms).minus(StateItems::CLOCK_TOLERANCE);
    format!("--from {} ", mapped.min(exported))
}

/// The command that enables the stream of a state table.
pub(crate) fn enable_stream(table: &str) -> String {
    format!(
        "aws dynamodb update-table --table-name {table} --stream-specification StreamEnabled=true,StreamViewType=NEW_AND_OLD_IMAGES"
    )
}

/// The archive is usually in the bucket of the exports.
fn archive_bucket(arguments: &BulkArguments) -> String {
    afterwrite_services::config::EnvironmentSettings::from_env()
        .bucket
        .unwrap_or_else(|| arguments.bucket.clone())
}

fn worker(deployment: &Deployment, objects: S3Bucket) -> DeployedWorker {
    BulkWorker::new(
        objects,
        Arc::clone(&deployment.config.model),
        deployment.config.table_names.clone(),
        Arc::clone(&deployment.state_table),
        Arc::clone(&deployment.tables),
        SystemClock,
    )
}

/// Checks the range of a replay into a state table that was built from exports.
///
/// # Errors
/// [`ErrorKind::Configuration`] if the replay would begin too late, or tombstones may be gone.
pub(crate) fn check_import(times: ImportTimes, from: Option<Timestamp>, now: Timestamp) -> Result<()> {
    let earliest = Timestamp::from_epoch_ms(times.earliest_ms);
    if !StateItems::accepts_export(earliest, now) {
        return Err(Error::new(
            ErrorKind::Configuration,
            "the table was built from an export of more than 35 days ago",
        )
        .hint("Export the tables again, and build another table"));
    }
    let latest_begin = earliest.minus(StateItems::CLOCK_TOLERANCE);
    if from.is_some_and(|from| from > latest_begin) {
        return Err(Error::new(
            ErrorKind::Configuration,
            "the replay begins after the export that the table was built from, so that changes between the two would be lost",
        )
        .with("begin at the latest", latest_begin.to_string())
        .hint("Set --from to that time, or earlier"));
    }
    Ok(())
}
