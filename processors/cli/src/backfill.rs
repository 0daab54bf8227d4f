//! `afterwrite backfill`: counts the items that the tables already have and fills datasets with them, while the application writes.

use std::path::PathBuf;
use std::sync::Arc;

use afterwrite_datasets::export::ArchiveExporter;
use afterwrite_ledger::RememberedLookups;
use afterwrite_ledger::state::job_list;
use afterwrite_ledger::tables::Tables as _;
use afterwrite_model::clock::SystemClock;
use afterwrite_model::record::Timestamp;
use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_operations::backfill::{
    BackfillArguments, BackfillJob, BackfillTask, BackfillTotal, DatasetFill, DatasetFilling, ExportFolder,
    ExportSource, TableExport, dataset_units, plan_backfill, plan_datasets,
};
use afterwrite_operations::jobs::{JobKind, JobPlan, JobReport, JobState, WorkUnit, require_recovery};
use afterwrite_operations::{EmptiedTables, TenantFilter};
use afterwrite_services::config::{EnvironmentSettings, FunctionConfig, s3_client};
use afterwrite_services::dynamodb::DynamoDb;
use afterwrite_services::s3::S3Bucket;
use clap::Args;

use crate::bulk::{self, BulkOptions};
use crate::deployment::{Deployment, DeploymentArguments, PlannedArguments, RunnableJob};
use crate::job_output::{JobOptions, event_note, level_notes, print_report};
use crate::print::tell;
use crate::reconciled_lives::{report_dropped, report_lives};

/// The arguments of `afterwrite backfill`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  afterwrite backfill --only admin_id=42\n  afterwrite backfill --yes --rate 500 --segments 16\n  afterwrite backfill --export s3://b/AWSDynamoDB/01A --mapping-since 2026-02-01\n  afterwrite backfill --datasets-only --bucket my-bucket\n  afterwrite backfill --bulk --export s3://b --into n --mapping-since 2026-02-01\n\nDeploy the functions with the new model first. Items that the ledger has already are skipped, so the command can be repeated at any time, and after a change of the model it writes only what changes. --bulk is for tables too large for transactions: it writes nothing but remembered lookups to the deployed state table, and imports a new one. With a bucket, the datasets get a SNAPSHOT row of every item; each job writes them again. Before the plan, up to 500 items of each of eight segments of the state table are read, and the generations of the backfills that `afterwrite jobs list` shows as done. A model that is older than the ledger is refused. So is another source table than the ledger follows: one that the earlier backfills have not read, or that lacks the items of all its entries, or of most of them if nothing shows that the ledger follows it. Then AFTERWRITE_TABLES is wrong, or lacks the name of the table that was replaced, or --accept-lives is needed.\n\nExit codes: 0 every item is counted and exported, and every mirror is written, 1 items could not be counted, mirrors could not be written, --only selected no item, items vanished or were restored so that the archive must be consulted, contributions to expired rollups are missing in the levels above, or the job was paused, 2 wrong usage or configuration, 3 the command could not finish."
)]
pub struct BackfillCommand {
    /// The segments of each table that are read in parallel.
    #[arg(help_heading = "Items", long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    segments: u32,
    /// Fill only one tenant: a variable of keys, an attribute or an output of a lookup, named as in the model, and its value.
    #[arg(help_heading = "Items", long, value_name = "NAME=VALUE")]
    only: Option<TenantFilter>,
    /// Reconcile items that the ledger has already, too. Also refreshes every mirror.
    #[arg(help_heading = "Items", long)]
    all: bool,
    /// Look up again, and replace remembered lookups by the results. Implies --all.
    #[arg(help_heading = "Items", long)]
    reattribute: bool,
    /// Only refresh the mirrors on the application's items, after a switch to another state table.
    #[arg(help_heading = "Items", long, conflicts_with_all = ["reattribute", "drop", "datasets_only"])]
    mirrors: bool,
    /// Subtract contributions to aggregates that the model no longer has.
    #[arg(help_heading = "Items", long)]
    drop: bool,
    /// Accept that the items that an earlier run named as vanished or restored were deleted or written by the application: they are not named
    /// any more. Also accept a table that lacks items that the ledger counts, or that the ledger does not seem to follow.
    #[arg(help_heading = "Items", long, conflicts_with_all = ["only", "mirrors", "datasets_only"])]
    accept_lives: bool,
    /// Read the items of one table from a full export, a folder or s3://bucket/prefix; its last part is the export's id. With --bulk,
    /// once for each table of the model.
    #[arg(help_heading = "Table export", long, value_name = "PLACE", requires = "mapping_since")]
    export: Vec<String>,
    /// The table of the export, as the model names it; default: the table that the export's manifest names.
    #[arg(help_heading = "Table export", long, value_name = "TABLE", requires = "export")]
    export_table: Option<String>,
    /// The time from which the functions, all with this model, have read the stream of that table without a gap: RFC 3339, or a day.
    #[arg(help_heading = "Table export", long, value_name = "TIME", requires = "export", value_parser = time)]
    mapping_since: Option<Timestamp>,
    /// The bucket of the datasets; default: AFTERWRITE_BUCKET. Without a bucket, datasets are not filled.
    #[arg(help_heading = "Datasets", long, value_name = "NAME", conflicts_with = "without_datasets")]
    bucket: Option<String>,
    /// Fill the datasets, and count nothing.
    #[arg(help_heading = "Datasets", long, conflicts_with_all = ["without_datasets", "all", "reattribute", "drop", "export"])]
    datasets_only: bool,
    /// Do not fill datasets.
    #[arg(help_heading = "Datasets", long)]
    without_datasets: bool,
    #[command(flatten)]
    bulk: BulkOptions,
    #[command(flatten)]
    deployment: DeploymentArguments,
    #[command(flatten)]
    options: JobOptions,
}

impl BackfillCommand {
    /// A backfill that reconciles every item of the environment's deployment, without a question.
    pub(crate) fn of_all_items(without_recovery: bool, json: bool) -> Self {
        Self {
            deployment: DeploymentArguments::default(),
            options: JobOptions { yes: true, without_recovery, rate: None, workers: 8, json },
            segments: 8,
            only: None,
            all: true,
            reattribute: false,
            mirrors: false,
            drop: false,
            accept_lives: false,
            export: Vec::new(),
            export_table: None,
            mapping_since: None,
            bucket: None,
            datasets_only: false,
            without_datasets: false,
            bulk: BulkOptions::default(),
        }
    }

    /// Plans, requests a confirmation, and runs the backfill; returns whether every item is counted, only items that exist or expired
    /// are, and every mirror is written.
    ///
    /// # Errors
    /// A setting that is missing or wrong; the user declined; a step failed.
    pub async fn run(&self) -> Result<bool> {
        let deployment = self.deployment.connect().await?;
        if let (true, Some(since)) = (self.bulk.bulk, self.mapping_since) {
            return Box::pin(self.bulk.run(&deployment, &self.export, since, &self.options)).await;
        }
        let emptied = if self.accept_lives { EmptiedTables::Accepted } else { EmptiedTables::Refused };
        let notes = Box::pin(deployment.check_ledger(emptied)).await?;
        Ok(Box::pin(self.run_on(&deployment, notes)).await?.is_right())
    }

    /// Runs the backfill of the environment's deployment; returns whether every item is counted.
    ///
    /// # Errors
    /// As [`BackfillCommand::run`].
    pub(crate) async fn recover(&self) -> Result<bool> {
        let deployment = self.deployment.connect().await?;
        // The consumer follows the table by its stream, and a table that was created again has none of its former items.
        let notes = Box::pin(deployment.check_ledger(EmptiedTables::Accepted)).await?;
        Ok(Box::pin(self.run_on(&deployment, notes)).await?.is_complete)
    }

    async fn run_on(&self, deployment: &Deployment, notes: Vec<String>) -> Result<BackfillEnd> {
        let bucket = self.bucket.clone().or_else(|| EnvironmentSettings::from_env().bucket);
        let datasets = self.filling(deployment, bucket.is_some())?;
        if datasets != DatasetFilling::Only {
            let tables = deployment.patient_tables();
            require_recovery(&tables, &deployment.state_table, self.options.without_recovery).await?;
        }
        let (export, source) = self.export(deployment).await?;
        let arguments = BackfillArguments {
            segments: self.segments,
            only: self.only.clone(),
            all: self.all,
            reattribute: self.reattribute,
            drop: self.drop,
            mirrors: self.mirrors,
            accept_lives: self.accept_lives,
            planned_at: server_time(deployment).await?.epoch_seconds(),
            export: source,
            levels_only: false,
            datasets,
            bucket: bucket.filter(|_| datasets != DatasetFilling::Skipped),
        };
        let mut plan = Box::pin(plan(deployment, &arguments)).await?;
        plan.notes.extend(self.unfilled_note(datasets, deployment));
        if datasets != DatasetFilling::Only {
            plan.notes.extend(notes);
            plan.notes.extend(event_note(&deployment.config.model));
            plan.notes.extend(level_notes(&deployment.config.model, self.only.is_some()));
        }
        self.options.confirm(&plan)?;
        let counting = counting(deployment, arguments.clone(), export).await?;
        let units = counting.iter().flat_map(BackfillTask::units);
        let units: Vec<WorkUnit> = units.chain(dataset_units(&deployment.config.model, &arguments)).collect();
        let job = deployment.create_job(&arguments, units, (plan, self.options.rate)).await?;
        let filling = filling(deployment, &arguments, &job.id).await?;
        let task = BackfillJob { counting, filling };
        let run = (usize::from(self.options.workers), self.options.json);
        run_task(deployment, &job, &task, arguments.only.as_ref(), run).await
    }

    /// The note of a plan that fills no datasets because nothing names their bucket.
    fn unfilled_note(&self, datasets: DatasetFilling, deployment: &Deployment) -> Option<String> {
        let is_intended =
            self.without_datasets || self.mirrors || deployment.config.model.datasets.is_empty();
        (datasets == DatasetFilling::Skipped && !is_intended).then(|| {
            "datasets are not filled: no bucket is set; set AFTERWRITE_BUCKET or pass --bucket".to_owned()
        })
    }

    /// Whether datasets are filled.
    fn filling(&self, deployment: &Deployment, has_bucket: bool) -> Result<DatasetFilling> {
        let has_datasets = !deployment.config.model.datasets.is_empty();
        if self.datasets_only && !(has_bucket && has_datasets) {
            let problem =
                if has_datasets { "the datasets have no bucket" } else { "the model has no datasets" };
            return Err(Error::new(ErrorKind::Configuration, problem)
                .hint("Set AFTERWRITE_BUCKET or pass --bucket, with a model that has datasets"));
        }
        Ok(if self.datasets_only {
            DatasetFilling::Only
        } else if self.without_datasets || self.mirrors || !has_bucket || !has_datasets {
            DatasetFilling::Skipped
        } else {
            DatasetFilling::Included
        })
    }

    async fn export(&self, deployment: &Deployment) -> Result<(Option<TableExport>, Option<ExportSource>)> {
        let (location, since) = match (self.export.as_slice(), self.mapping_since) {
            ([], _) | (_, None) => return Ok((None, None)),
            ([location], Some(since)) => (location, since),
            (_, Some(_)) => {
                return Err(Error::new(ErrorKind::Configuration, "several exports are named")
                    .hint("Name one export, or use --bulk for exports of all tables"));
            }
        };
        let location = absolute_place(location)?;
        let export = open_export(&location).await?;
        let FunctionConfig { model, table_names, .. } = &deployment.config;
        let named = (self.export_table.as_deref(), &**model, table_names.as_slice());
        let source = ExportSource::of(&export, &location, since, named)?;
        Ok((Some(export), Some(source)))
    }
}

/// Continues a backfill in this process; returns whether every item is counted.
///
/// # Errors
/// As [`BackfillCommand::run`].
pub async fn resume(deployment: &Deployment, job: &JobState, workers: usize, as_json: bool) -> Result<bool> {
    if job.arguments.get("bulk").is_some() {
        return Box::pin(bulk::resume(deployment, job, workers, as_json)).await;
    }
    let (arguments, job) = deployment.resumed_job::<BackfillArguments>(job).await?;
    let export = match &arguments.export {
        Some(source) => Some(open_export(&source.location).await?),
        None => None,
    };
    let task = DeployedBackfill {
        counting: counting(deployment, arguments.clone(), export).await?,
        filling: filling(deployment, &arguments, &job.id).await?,
    };
    let only = arguments.only.as_ref();
    Ok(run_task(deployment, &job, &task, only, (workers, as_json)).await?.is_right())
}

impl PlannedArguments for BackfillArguments {
    const KIND: JobKind = JobKind::Backfill;
}

type DeployedBackfill = BackfillJob<S3Bucket, Arc<DynamoDb>, SystemClock>;

/// The plan of counting and of filling datasets.
async fn plan(deployment: &Deployment, arguments: &BackfillArguments) -> Result<JobPlan> {
    let names = &deployment.config.table_names;
    let mut plan = if arguments.datasets == DatasetFilling::Only {
        JobPlan::default()
    } else {
        plan_backfill(deployment.context(), arguments).await?
    };
    plan_datasets(&deployment.config.model, names, &deployment.patient_tables(), arguments, &mut plan)
        .await?;
    Ok(plan)
}

/// The part of a backfill that counts, if it counts.
async fn counting(
    deployment: &Deployment,
    arguments: BackfillArguments,
    export: Option<TableExport>,
) -> Result<Option<BackfillTask<Arc<DynamoDb>, SystemClock>>> {
    if arguments.datasets == DatasetFilling::Only {
        return Ok(None);
    }
    let task = BackfillTask::new(deployment.context(), arguments, export);
    task.await.map(Some)
}

/// The part of a backfill that fills datasets, if it does.
async fn filling(
    deployment: &Deployment,
    arguments: &BackfillArguments,
    job: &str,
) -> Result<Option<DatasetFill<S3Bucket, Arc<DynamoDb>, SystemClock>>> {
    let Some(bucket) = arguments.bucket.as_deref() else { return Ok(None) };
    let model = Arc::clone(&deployment.config.model);
    let state_table = Arc::clone(&deployment.state_table);
    let remembered = RememberedLookups::new(Arc::clone(&model), state_table, Arc::clone(&deployment.tables));
    let bucket = S3Bucket::retrying(s3_client().await?, Arc::from(bucket));
    let names = deployment.config.table_names.clone();
    let exporter = ArchiveExporter::new(model, names, bucket, Some(remembered), SystemClock);
    Ok(Some(DatasetFill::new(exporter, Arc::clone(&deployment.tables), arguments.clone(), job)))
}

/// The end of a backfill.
#[derive(Clone, Copy, Debug)]
struct BackfillEnd {
    /// Whether every item is counted.
    is_complete: bool,
    /// Whether items may be counted wrongly in a way that only the archive shows.
    needs_archive: bool,
    /// Whether every mirror was written.
    shows_mirrors: bool,
}

impl BackfillEnd {
    fn is_right(self) -> bool {
        self.is_complete && !self.needs_archive && self.shows_mirrors
    }
}

async fn run_task(
    deployment: &Deployment,
    job: &RunnableJob,
    task: &DeployedBackfill,
    only: Option<&TenantFilter>,
    (workers, as_json): (usize, bool),
) -> Result<BackfillEnd> {
    let mut report = JobReport::of(&deployment.run_job(job, task, workers).await?);
    if let Some(counting) = &task.counting {
        report.totals.subtract_all(&Box::pin(counting.recorded_lives()).await?);
    }
    let is_done = print_report(&report, as_json)?;
    let needs_archive =
        !(Box::pin(report_lives(deployment, &report.totals)).await? & report_dropped(&report.totals));
    report_without_item_key(&report);
    for mirror in task.counting.iter().flat_map(BackfillTask::unwritable_mirrors) {
        tell(&mirror);
    }
    let is_complete =
        is_done && has_selection(&report, only) && report.totals.number(BackfillTotal::Failed) == 0;
    let shows_mirrors = report.totals.number(BackfillTotal::UnwritableMirrors) == 0;
    Ok(BackfillEnd { is_complete, needs_archive, shows_mirrors })
}

/// Reports the entries whose contributions only a generation that still has their table can subtract.
fn report_without_item_key(report: &JobReport) {
    let entries = report.totals.number(BackfillTotal::FailedWithoutItemKey);
    if entries > 0 {
        tell(&format!(
            "{entries} ledger entries count into aggregates that the model no longer has, and do not show their items, because the model has no table for them: run `backfill --drop` with a generation that still has the table, or one rollup as a source, and without the aggregates"
        ));
    }
}

/// Reports an `--only` that no item belongs to; returns whether there was an item, or all were meant.
fn has_selection(report: &JobReport, only: Option<&TenantFilter>) -> bool {
    let Some(tenant) = only.filter(|_| report.progress.items == 0) else { return true };
    tell(&format!("nothing was counted: no item belongs to {tenant}; check the name and the value"));
    false
}

/// DynamoDB's time.
async fn server_time(deployment: &Deployment) -> Result<Timestamp> {
    let key = job_list::key(&deployment.state_table);
    Ok(deployment.patient_tables().read(&[key]).await?.server_time)
}

/// The absolute path of a local folder: a job may be resumed in another folder.
fn absolute_place(location: &str) -> Result<String> {
    if ExportFolder::bucket_and_prefix(location).is_some() {
        return Ok(location.to_owned());
    }
    let absolute = std::path::absolute(location).map_err(|error| {
        Error::new(ErrorKind::Configuration, "the folder of the export cannot be found")
            .with("folder", location)
            .caused_by(error)
    })?;
    Ok(absolute.display().to_string())
}

async fn open_export(location: &str) -> Result<TableExport> {
    let folder = match ExportFolder::bucket_and_prefix(location) {
        Some((bucket, prefix)) => {
            let bucket = S3Bucket::retrying(s3_client().await?, Arc::from(bucket));
            ExportFolder::Bucket(bucket, prefix.to_owned())
        }
        None => ExportFolder::Local(PathBuf::from(location)),
    };
    TableExport::open(folder).await.map(|(export, _)| export)
}

fn time(written: &str) -> std::result::Result<Timestamp, String> {
    Timestamp::parse(written).ok_or_else(|| "write a time such as 2026-02-06T14:30:00Z, or a day".to_owned())
}
