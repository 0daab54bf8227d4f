//! The job of a replay: its arguments, its plan, and the run in this process.

use std::sync::Arc;

use afterwrite_input::{InputContent, InputObject, RecordInput, TimeRange, UndoneChanges};
use afterwrite_ledger::TombstoneHistory;
use afterwrite_model::Result;
use afterwrite_model::clock::SystemClock;
use afterwrite_model::record::Timestamp;
use afterwrite_operations::backfill::{BackfillArguments, BackfillTask};
use afterwrite_operations::jobs::{JobJournal, JobKind, JobPlan, JobReport, JobState, JobTotals};
use afterwrite_operations::replay::{
    DeliveryTotal, InputSource, LookupCopy, NoTarget, RecordTarget, ReplayTask, ReplayTotals, StateOnlyTables,
};
use afterwrite_services::Bucket;
use afterwrite_services::dynamodb::DynamoDb;
use afterwrite_services::s3::S3Bucket;
use serde::{Deserialize, Serialize};

use super::export::export_archive;
use super::fresh::history;
use super::inputs::{StoredInputs, objects_of_stored, store_inputs};
use super::targets::{
    DeployedAggregator, aggregator, relay, rollups_of_state_table, sourceless_table, uncounted_rollups,
};
use super::undone::report_undone;
use crate::deployment::{Deployment, PlannedArguments, RunnableJob};
use crate::inputs::InputArguments;
use crate::job_output::{JobOptions, print_report};
use crate::print::tell;
use crate::reconciled_lives::{
    BACKFILL_LEVELS, report_dropped, report_old_expiries, report_uncounted_rollups,
};
use crate::replay_target::ReplayProjection;

/// The compressed size of a typical record of the archive.
const TYPICAL_BYTES: u64 = 150;
/// The inputs that the arguments of a job show.
const SHOWN_INPUTS: usize = 20;
/// Write units of a record in batches of 1,000, and read units.
const UNITS_PER_RECORD: u64 = 2;

/// The arguments of the job, as the state table keeps them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ReplayJob {
    /// The first inputs as they were written, for people. The journal of the job has all files and objects.
    inputs: Vec<String>,
    from_ms: Option<i64>,
    to_ms: Option<i64>,
    /// The changes that are left out.
    #[serde(default)]
    undone: Vec<UndoneChanges>,
    only: Vec<ReplayProjection>,
    into: Option<String>,
    /// Whether an input can be read only once.
    reads_stream: bool,
    /// The files and objects in the journal.
    stored: StoredInputs,
}

impl PlannedArguments for ReplayJob {
    const KIND: JobKind = JobKind::Replay;

    fn target_table(&self) -> Option<&str> {
        self.into.as_deref()
    }

    fn record_targets(&self) -> &[ReplayProjection] {
        &self.only
    }
}

impl ReplayJob {
    pub(super) fn new(
        inputs: &InputArguments,
        undone: Vec<UndoneChanges>,
        only: Vec<ReplayProjection>,
        into: Option<String>,
    ) -> Self {
        Self { undone, into, ..Self::of_inputs(&inputs.inputs, &inputs.range(), only) }
    }

    /// A replay over the deployment's state table.
    pub(crate) fn of_inputs(inputs: &[RecordInput], range: &TimeRange, only: Vec<ReplayProjection>) -> Self {
        Self {
            inputs: inputs.iter().take(SHOWN_INPUTS).map(ToString::to_string).collect(),
            from_ms: range.from.map(Timestamp::epoch_ms),
            to_ms: range.to.map(Timestamp::epoch_ms),
            undone: Vec::new(),
            only,
            into: None,
            reads_stream: false,
            stored: StoredInputs::default(),
        }
    }

    /// The estimate, from the sizes of the objects.
    pub(crate) fn plan<B: Bucket>(&self, source: &InputSource<B>) -> JobPlan {
        let bytes = source.bytes();
        let records = bytes / TYPICAL_BYTES;
        let counts = u64::from(self.only.contains(&ReplayProjection::Aggregate));
        let mut notes = vec![format!(
            "{} objects; records are estimated at {TYPICAL_BYTES} bytes each, compressed",
            source.objects.len()
        )];
        notes.extend(
            self.undone
                .iter()
                .map(|undone| format!("changes that a restore has undone are left out: {undone}")),
        );
        if self.into.is_none() {
            notes.push("records that are counted already cost a read each and no write".to_owned());
        }
        JobPlan {
            items: records,
            bytes,
            changes: records,
            read_units: records * counts,
            write_units: records * counts * UNITS_PER_RECORD,
            searched: source
                .range
                .searched()
                .map(|searched| format!("{} objects: {searched}", source.objects.len())),
            notes,
            ..JobPlan::default()
        }
    }

    /// Creates the job and runs it in this process; returns whether every record was processed.
    pub(crate) async fn start(
        &self,
        deployment: &Deployment,
        source: InputSource<S3Bucket>,
        plan: JobPlan,
        options: &JobOptions,
    ) -> Result<bool> {
        let InputSource { objects, range, undone } = source;
        let objects = objects.into_iter().map(InputObject::absolute).collect::<Result<Vec<_>>>()?;
        let inputs = objects.iter().map(InputObject::stored).collect::<Result<Vec<_>>>()?;
        let reads_stream = inputs.iter().any(|input| input.content == InputContent::Stream);
        if reads_stream {
            eprintln!(
                "afterwrite: this replay cannot be resumed, because standard input and pipes can be read once"
            );
        }
        let job = Self { reads_stream, stored: StoredInputs::of(&inputs)?, ..self.clone() };
        let task = Box::pin(job.task(deployment, InputSource { objects, range, undone })).await?;
        let task = task.of_stored(inputs.clone());
        let created = deployment.create_job(&job, task.units(), (plan, options.rate)).await?;
        store_inputs(&JobJournal::new(deployment.job_store(), &created.id), &inputs).await?;
        Box::pin(job.run(deployment, &created, &task, options.json)).await
    }

    async fn task(&self, deployment: &Deployment, source: InputSource<S3Bucket>) -> Result<DeployedReplay> {
        let relay = Box::pin(relay(deployment, &self.only)).await?;
        let counts = self.only.contains(&ReplayProjection::Aggregate);
        let (state_table, history) = match &self.into {
            Some(into) => (Arc::from(into.as_str()), history(deployment, into).await?),
            None => (Arc::clone(&deployment.state_table), TombstoneHistory::Expiring),
        };
        let tables = Arc::clone(&deployment.tables);
        let uncounted = match &self.into {
            Some(_) => rollups_of_state_table(deployment),
            None => uncounted_rollups(deployment).await?,
        };
        let counting = match &self.into {
            Some(into) => {
                let tables = StateOnlyTables::new(tables, into);
                let counted = (state_table, uncounted);
                CountingTarget::Fresh(Box::new(aggregator(deployment, counted, tables, history)?))
            }
            None if counts => {
                let counted = (state_table, uncounted);
                CountingTarget::Live(Box::new(aggregator(deployment, counted, tables, history)?))
            }
            None => CountingTarget::Nothing(NoTarget),
        };
        let task = ReplayTask::new(source, counting, relay, SystemClock);
        let task = task.without_rollups_of(sourceless_table(deployment));
        let Some(into) = &self.into else { return Ok(task) };
        let task = task.copying_lookups(LookupCopy {
            tables: Arc::clone(&deployment.tables),
            from: Arc::clone(&deployment.state_table),
            into: Arc::from(into.as_str()),
        });
        Ok(match levels(deployment, into).await? {
            Some(levels) => task.counting_levels(levels),
            None => task,
        })
    }
}

/// The backfill of the rollups of a fresh table that are sources, if the model has such rollups.
async fn levels(
    deployment: &Deployment,
    into: &str,
) -> Result<Option<BackfillTask<StateOnlyTables<Arc<DynamoDb>>, SystemClock>>> {
    let Some(source) = deployment.config.model.state_source() else { return Ok(None) };
    let tables = StateOnlyTables::new(Arc::clone(&deployment.tables), into);
    let mut context = deployment.context().with_tables(tables);
    context.state_table = Arc::from(into);
    if let Some(name) = context.table_names.get_mut(source) {
        *name = Arc::clone(&context.state_table);
    }
    let arguments = BackfillArguments { levels_only: true, ..BackfillArguments::default() };
    Box::pin(BackfillTask::new(context, arguments, None)).await.map(Some)
}

type DeployedReplay =
    ReplayTask<CountingTarget, Option<super::targets::DeployedRelay>, S3Bucket, Arc<DynamoDb>, SystemClock>;

/// Where records are counted.
pub(super) enum CountingTarget {
    /// Into the deployment's state table.
    Live(Box<DeployedAggregator<Arc<DynamoDb>>>),
    /// Into a fresh table.
    Fresh(Box<DeployedAggregator<StateOnlyTables<Arc<DynamoDb>>>>),
    /// Nowhere.
    Nothing(NoTarget),
}

impl RecordTarget for CountingTarget {
    async fn deliver(
        &self,
        event: &[u8],
        deadline: Timestamp,
    ) -> Result<afterwrite_operations::replay::TargetOutcome> {
        match self {
            Self::Live(target) => target.deliver(event, deadline).await,
            Self::Fresh(target) => target.deliver(event, deadline).await,
            Self::Nothing(target) => target.deliver(event, deadline).await,
        }
    }
}

/// Continues a job in this process.
///
/// # Errors
/// As [`super::ReplayArguments::run`]; an input that has changed since the job was planned, or that can be read only once.
pub(crate) async fn resume(deployment: &Deployment, job: &JobState, as_json: bool) -> Result<bool> {
    let (arguments, job) = deployment.resumed_job::<ReplayJob>(job).await?;
    let inputs = arguments.stored.read(&JobJournal::new(deployment.job_store(), &job.id)).await;
    let inputs = inputs.map_err(|error| error.with("job", job.id.as_str()))?;
    let objects = Box::pin(objects_of_stored(&inputs)).await;
    let objects = objects.map_err(|error| error.with("job", job.id.as_str()))?;
    let time = |ms: Option<i64>| ms.map(Timestamp::from_epoch_ms);
    let range = TimeRange { from: time(arguments.from_ms), to: time(arguments.to_ms) };
    let undone = arguments.undone.clone();
    let task = Box::pin(arguments.task(deployment, InputSource { objects, range, undone })).await?;
    let task = task.of_stored(inputs);
    Box::pin(arguments.run(deployment, &job, &task, as_json)).await
}

impl ReplayJob {
    /// Runs the job, and exports its objects if `export` is one of its targets.
    async fn run(
        &self,
        deployment: &Deployment,
        job: &RunnableJob,
        task: &DeployedReplay,
        as_json: bool,
    ) -> Result<bool> {
        // One worker: most records of an item are then delivered in their order.
        let done = deployment.run_job(job, task, 1).await;
        let ReplayTotals { failed, parked, rejected } = task.report();
        for (title, reasons) in [("not processed", failed), ("parked", parked), ("rejected", rejected)] {
            for reason in reasons {
                tell(&format!("{title}: {reason}"));
            }
        }
        let done = done?;
        let mut report = JobReport::of(&done);
        // A fresh table has its levels counted from its own rollups.
        let has_levels = self.into.is_some() || report_uncounted_rollups(&done.totals);
        if !has_levels {
            report.next_steps.push(BACKFILL_LEVELS.to_owned());
        }
        let is_done = print_report(&report, as_json)?;
        report_undone(&self.undone, &done.totals);
        let are_counted = report_old_expiries(&done.totals) & report_dropped(&done.totals);
        let is_complete = are_counted && is_done && has_levels && all_processed(&done.totals);
        if is_done && self.only.contains(&ReplayProjection::Export) {
            return Ok(Box::pin(export_archive(deployment, task.objects(), as_json)).await? && is_complete);
        }
        Ok(is_complete)
    }
}

/// Whether every record and text of a replay was processed, except records of rollups: of a preview as of the replay itself.
pub(super) fn all_processed(totals: &JobTotals) -> bool {
    let left = [DeliveryTotal::Failed, DeliveryTotal::Unprocessable, DeliveryTotal::Rejected];
    left.into_iter().all(|total| totals.number(total) == 0)
}
