//! `afterwrite redrive`: records that Lambda gave up and items that are parked are processed again, as a job.

use std::str::FromStr as _;
use std::sync::Arc;
use std::time::Duration;

use afterwrite_input::RecordInput;
use afterwrite_ledger::tables::{TableScan as _, Tables};
use afterwrite_ledger::{StateItems, TombstoneHistory};
use afterwrite_model::clock::SystemClock;
use afterwrite_model::harmless::harmless;
use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_operations::jobs::{
    JobKind, JobPlan, JobReport, JobState, JobTotals, repeated, require_recovery,
};
use afterwrite_operations::redrive::{
    ObjectRedrive, ParkedItem, ParkedRedrive, RedriveReport, RedriveTask, RedriveTotal, SettledObjects,
    parked_by_index, parked_by_scan,
};
use afterwrite_preview::tables::{ItemDifference, OverlayTables};
use afterwrite_services::config::{EnvironmentSettings, dynamodb_client, s3_client};
use afterwrite_services::dynamodb::DynamoDb;
use afterwrite_services::s3::{NamedBy, S3Bucket};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

use crate::deployment::{Deployment, DeploymentArguments, PlannedArguments, RunnableJob};
use crate::item_table::{difference_text, without_secrets};
use crate::job_output::{JobOptions, print_report};
use crate::print::{json, print};
use crate::reconciled_lives::{report_dropped, report_lives, report_old_expiries, report_uncounted_rollups};
use crate::replay::{DeployedAggregator, DeployedRelay, aggregator, ledger, relay, uncounted_rollups};
use crate::replay_target::ReplayProjection;

/// Records of an on-failure object, for the estimate: the recommended batch.
const RECORDS_PER_OBJECT: u64 = 1_000;

/// How long the list of parked items is requested while the table is throttled.
const LIST_TIME: Duration = Duration::from_secs(120);

/// The arguments of `afterwrite redrive`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  afterwrite redrive --dry-run\n  afterwrite redrive --yes\n  afterwrite redrive s3://my-failures/aws/lambda/ --parked --yes\n\nObjects are the events that Lambda wrote to an on-failure destination in S3. Those whose records are all processed move to redriven/; the others stay, and the reason is printed. Parked items are found in the index `parked` of the state table, or by a scan, and are counted as their tables have them now. Both are processed in the order of their age.\n\nExit codes: 0 everything was processed, 1 something stays, expiries were too old to be settled, contributions to expired rollups are missing in the levels above, or the job was paused, 2 wrong usage or configuration, 3 the job failed."
)]
pub struct RedriveArguments {
    /// The objects: s3://BUCKET/PREFIX. Without it, only parked items are processed.
    #[arg(value_name = "OBJECTS")]
    objects: Option<RecordInput>,
    /// Process parked items, too.
    #[arg(long)]
    parked: bool,
    /// The targets of the objects' records: `aggregate`, `invalidate`, `archive`, `notify`. Default: `aggregate`, and each other target whose
    /// settings the environment has.
    #[arg(long, value_parser = failed_target(), value_delimiter = ',')]
    only: Vec<ReplayProjection>,
    /// Delete processed objects; default: move them to redriven/.
    #[arg(long)]
    delete: bool,
    /// Show what would change, and write nothing.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    deployment: DeploymentArguments,
    #[command(flatten)]
    options: JobOptions,
}

/// Reads a target of failed records.
fn failed_target() -> impl TypedValueParser<Value = ReplayProjection> {
    let targets = ReplayProjection::value_variants().iter().filter(|target| target.takes_failed_records());
    let names = PossibleValuesParser::new(targets.filter_map(ValueEnum::to_possible_value));
    names.try_map(|name| ReplayProjection::from_str(&name, false))
}

/// The arguments of the job, as the state table keeps them.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct RedriveJob {
    objects: Option<String>,
    parked: bool,
    only: Vec<ReplayProjection>,
    delete: bool,
}

impl PlannedArguments for RedriveJob {
    const KIND: JobKind = JobKind::Redrive;

    fn record_targets(&self) -> &[ReplayProjection] {
        &self.only
    }
}

type Redrive<T> = RedriveTask<Option<DeployedAggregator<T>>, Option<DeployedRelay>, S3Bucket, T, SystemClock>;

impl RedriveArguments {
    /// Processes objects and parked items; returns whether nothing stays.
    ///
    /// # Errors
    /// A setting that is missing or wrong, a bucket or table that cannot be reached, the error of the job.
    pub async fn run(&self) -> Result<bool> {
        let deployment = Box::pin(self.deployment.connect()).await?;
        let events = &deployment.config.model.events;
        let mut only = self.only.clone();
        if only.is_empty() {
            only = ReplayProjection::configured(&EnvironmentSettings::from_env(), !events.is_empty());
        }
        let job = RedriveJob {
            objects: self.objects.as_ref().map(ToString::to_string),
            parked: self.parked || self.objects.is_none(),
            only,
            delete: self.delete,
        };
        if self.dry_run {
            return Box::pin(self.dry_run(&deployment, &job)).await;
        }
        let task = Box::pin(job.task(&deployment, Arc::clone(&deployment.tables), job.settled())).await?;
        let (objects, parked) = task.count().await?;
        let plan = plan(objects, parked, &job.only);
        self.options.confirm(&plan)?;
        let tables = deployment.patient_tables();
        require_recovery(&tables, &deployment.state_table, self.options.without_recovery).await?;
        let job = deployment.create_job(&job, task.units(), (plan, self.options.rate)).await?;
        Box::pin(run(&deployment, &job, &task, self.options.json)).await
    }

    async fn dry_run(&self, deployment: &Deployment, job: &RedriveJob) -> Result<bool> {
        let tables = Arc::new(OverlayTables::new(Arc::clone(&deployment.tables)));
        let job = RedriveJob { only: vec![ReplayProjection::Aggregate], ..job.clone() };
        let task = Box::pin(job.task(deployment, Arc::clone(&tables), SettledObjects::Keep)).await?;
        let totals = Box::pin(task.run()).await?;
        let items = without_secrets(deployment, tables.differences());
        let are_settled = report_old_expiries(&totals)
            & report_dropped(&totals)
            & Box::pin(report_lives(deployment, &totals)).await?;
        let report = DryRedrive { totals, items, staying: task.report() };
        print(&if self.options.json { json(&report)? } else { report.text() })?;
        Ok(are_settled && report.staying == RedriveReport::default())
    }
}

/// The result of a dry run.
#[derive(Serialize)]
struct DryRedrive {
    totals: JobTotals,
    items: Vec<ItemDifference>,
    #[serde(flatten)]
    staying: RedriveReport,
}

impl DryRedrive {
    fn text(&self) -> String {
        let mut text = String::new();
        if !self.items.is_empty() {
            text.push_str(&format!("{}\n\n", difference_text(&self.items)));
        }
        text.push_str(&format!("{} items would change.\n", self.items.len()));
        for (name, number) in self.totals.iter() {
            text.push_str(&format!("{}: {number}\n", name.replace('_', " ")));
        }
        text.push_str(&staying_text(&self.staying));
        text
    }
}

fn staying_text(report: &RedriveReport) -> String {
    let objects =
        report.staying_objects.iter().map(|object| format!("stays: {}: {}", object.key, object.reason));
    let parked = report.staying_parked.iter().map(|parked| {
        format!("stays parked: {} {}: {}", parked.item.partition, parked.item.sort, parked.reason)
    });
    objects.chain(parked).map(|line| format!("{}\n", harmless(&line))).collect()
}

impl RedriveJob {
    fn settled(&self) -> SettledObjects {
        if self.delete { SettledObjects::Delete } else { SettledObjects::Move }
    }

    async fn task<T: Tables + Clone>(
        &self,
        deployment: &Deployment,
        tables: T,
        settled: SettledObjects,
    ) -> Result<Redrive<T>> {
        let objects = match &self.objects {
            Some(objects) => {
                let counts = self.only.contains(&ReplayProjection::Aggregate);
                let state = (Arc::clone(&deployment.state_table), uncounted_rollups(deployment).await?);
                let counting = aggregator(deployment, state, tables.clone(), TombstoneHistory::Expiring)?;
                let (bucket, prefix) = bucket_and_prefix(objects)?;
                let client = Box::pin(s3_client()).await?;
                let name: Arc<str> = Arc::from(bucket);
                let bucket = S3Bucket::retrying(client, Arc::clone(&name));
                Some(ObjectRedrive {
                    aggregator: counts.then_some(counting),
                    relay: Box::pin(relay(deployment, &self.only)).await?,
                    bucket: Arc::new(bucket.named_by(NamedBy::FailuresArgument)),
                    name,
                    prefix,
                    settled,
                    clock: SystemClock,
                })
            }
            None => None,
        };
        let parked = if self.parked { Some(Box::pin(parked(deployment, tables)).await?) } else { None };
        Ok(RedriveTask::new(objects, parked))
    }
}

/// The parked items of the deployment, and how they are reconciled.
async fn parked<T: Tables>(
    deployment: &Deployment,
    tables: T,
) -> Result<(ParkedRedrive<T, SystemClock>, Vec<ParkedItem>)> {
    let (client, patient) = (Box::pin(dynamodb_client()).await?, deployment.patient_tables());
    let listed = || Box::pin(parked_by_index(&client, &deployment.state_table));
    let items = match repeated(&SystemClock, LIST_TIME, listed).await? {
        Some(items) => items,
        None => parked_by_scan(&patient, &deployment.state_table).await?,
    };
    let mut stream_labels = Vec::new();
    for name in &deployment.config.table_names {
        stream_labels.push(patient.describe(name).await?.stream_label.unwrap_or_default());
    }
    let (model, state) = (Arc::clone(&deployment.config.model), Arc::clone(&deployment.state_table));
    let entries = StateItems::new(model, deployment.config.table_names.clone(), Arc::clone(&state));
    let ledger = ledger(deployment, state, tables, TombstoneHistory::Expiring)?;
    Ok((ParkedRedrive { ledger, entries, stream_labels }, items))
}

fn bucket_and_prefix(objects: &str) -> Result<(String, String)> {
    match RecordInput::from_str(objects) {
        Ok(RecordInput::Prefix { bucket, prefix }) => Ok((bucket, prefix)),
        Ok(RecordInput::StandardInput | RecordInput::Path(_)) | Err(_) => {
            Err(Error::new(ErrorKind::Configuration, "the objects are not in a bucket")
                .with("objects", objects)
                .hint("Name s3://BUCKET/PREFIX; `afterwrite replay` reads local files"))
        }
    }
}

fn plan(objects: usize, parked: usize, only: &[ReplayProjection]) -> JobPlan {
    let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
    let records = count(objects) * RECORDS_PER_OBJECT + count(parked);
    let mut notes = vec![format!(
        "{objects} objects of at most {RECORDS_PER_OBJECT} records each, and {parked} parked items"
    )];
    if objects > 0 {
        notes.push(format!(
            "The records of the objects go to {}. Objects of a function that hosts another target, too, would lose it: name all of its targets with --only",
            ReplayProjection::names(only)
        ));
    }
    JobPlan {
        items: count(objects) + count(parked),
        changes: records,
        read_units: records,
        write_units: 2 * records,
        searched: None,
        notes,
        ..JobPlan::default()
    }
}

/// Continues a job in this process.
///
/// # Errors
/// As [`RedriveArguments::run`].
pub(crate) async fn resume(deployment: &Deployment, job: &JobState, as_json: bool) -> Result<bool> {
    let (arguments, job) = deployment.resumed_job::<RedriveJob>(job).await?;
    let task =
        Box::pin(arguments.task(deployment, Arc::clone(&deployment.tables), arguments.settled())).await?;
    Box::pin(run(deployment, &job, &task, as_json)).await
}

async fn run(
    deployment: &Deployment,
    job: &RunnableJob,
    task: &Redrive<Arc<DynamoDb>>,
    as_json: bool,
) -> Result<bool> {
    let done = deployment.run_job(job, task, 1).await;
    eprint!("{}", staying_text(&task.report()));
    let done = done?;
    let is_done = print_report(&JobReport::of(&done), as_json)?;
    let staying = [RedriveTotal::ObjectsFailed, RedriveTotal::StillParked];
    let is_nothing_left = staying.into_iter().all(|total| done.totals.number(total) == 0);
    let are_settled = report_old_expiries(&done.totals)
        & report_dropped(&done.totals)
        & report_uncounted_rollups(&done.totals)
        & Box::pin(report_lives(deployment, &done.totals)).await?;
    Ok(is_done && are_settled && is_nothing_left)
}
