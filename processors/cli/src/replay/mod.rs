//! `afterwrite replay`: delivers recorded changes again, as a job.

mod dry_run;
mod export;
mod fresh;
mod inputs;
mod job;
mod targets;
mod undone;

use afterwrite_input::UndoneChanges;
use afterwrite_model::table::Model;
use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_operations::EmptiedTables;
use afterwrite_operations::jobs::require_recovery;
use afterwrite_operations::replay::InputSource;
use clap::Args;

use self::export::export_archive;
use self::fresh::{check_fresh, check_stream};
pub(crate) use self::job::ReplayJob;
pub(crate) use self::job::resume;
pub(crate) use self::targets::{
    DeployedAggregator, DeployedRelay, aggregator, ledger, relay, uncounted_rollups,
};
use self::undone::check_undone;
use crate::deployment::{Deployment, DeploymentArguments};
use crate::inputs::InputArguments;
use crate::job_output::{JobOptions, event_note};
use crate::print::tell;
use crate::replay_target::ReplayProjection;

/// The arguments of `afterwrite replay`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  afterwrite replay s3://my-bucket/archive/ --from 2026-02-06 --dry-run\n  afterwrite replay s3://my-bucket/archive/ --from 2026-02-06 --yes\n  afterwrite replay s3://my-bucket/archive/ --into new-state --yes\n  afterwrite replay recording.jsonl --only aggregate,invalidate --yes\n\nRecords that are counted are skipped, so a replay over a live state table changes nothing. Records of more than 35 days ago are not applied to an item without a ledger entry: the item is reconciled with its table. --into builds a fresh, empty state table from the whole archive, with rollups of rollups last, or continues one that `backfill --bulk` has built, and refuses a model that is older than the deployed ledger, as `backfill` does; `afterwrite state diff` compares it, and `afterwrite state promote` switches to it.\n\nExit codes: 0 every record was processed, or would be with --dry-run; 1 there was no record to process, some records or texts were not processed, expiries were too old to be settled, contributions to expired rollups are missing in the levels above, or the job was paused, 2 wrong usage or configuration, 3 the job failed."
)]
pub struct ReplayArguments {
    #[command(flatten)]
    inputs: InputArguments,
    /// Leave out the changes of TABLE, by its deployed name, from FROM on or until TO: a restored table does not have them. Can be repeated.
    #[arg(long, value_name = "TABLE=FROM[..TO]")]
    undone: Vec<UndoneChanges>,
    /// The targets of the records. `archive` writes their lines into the delivery stream again.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "aggregate")]
    only: Vec<ReplayProjection>,
    /// Show which items would change, and write nothing.
    #[arg(long, conflicts_with = "into")]
    dry_run: bool,
    /// Count into this fresh state table. Remembered lookups are copied first; mirrors are not written.
    #[arg(long, value_name = "TABLE")]
    into: Option<String>,
    #[command(flatten)]
    deployment: DeploymentArguments,
    #[command(flatten)]
    options: JobOptions,
}

impl ReplayArguments {
    /// Replays the records; returns whether all were processed.
    ///
    /// # Errors
    /// A setting that is missing or wrong, an input that cannot be read, the error of the job.
    pub async fn run(&self) -> Result<bool> {
        self.check()?;
        let deployment = Box::pin(self.deployment.connect()).await?;
        self.check_deployment(&deployment).await?;
        let objects = Box::pin(self.inputs.objects()).await?;
        if objects.is_empty() {
            let inputs: Vec<String> = self.inputs.inputs.iter().map(ToString::to_string).collect();
            tell(&format!(
                "no file or object can have records of this range; check the name, --from and --to: {}",
                inputs.join(", ")
            ));
            return Ok(false);
        }
        if let Some(searched) =
            self.inputs.range().searched().filter(|_| self.only.contains(&ReplayProjection::Export))
        {
            tell(&format!("searched: {} objects: {searched}", objects.len()));
        }
        if self.only == [ReplayProjection::Export] {
            return Box::pin(export_archive(&deployment, &objects, self.options.json)).await;
        }
        let source = InputSource { objects, range: self.inputs.range(), undone: self.undone.clone() };
        if self.dry_run {
            return Box::pin(dry_run::run(&deployment, source, self.options.json)).await;
        }
        let job = ReplayJob::new(&self.inputs, self.undone.clone(), self.only.clone(), self.into.clone());
        let mut plan = job.plan(&source);
        let is_counting = self.only.contains(&ReplayProjection::Aggregate);
        plan.notes.extend(self.notes(&deployment.config.model, is_counting));
        self.options.confirm(&plan)?;
        if let Some(into) = &self.into {
            check_stream(&deployment, into).await?;
            check_fresh(&deployment, into, &self.inputs.range()).await?;
        } else if is_counting {
            let tables = deployment.patient_tables();
            require_recovery(&tables, &deployment.state_table, self.options.without_recovery).await?;
        }
        Box::pin(job.start(&deployment, source, plan, &self.options)).await
    }

    /// Checks the tables of the changes that are left out, and looks at the deployed ledger if another table is to take its place.
    async fn check_deployment(&self, deployment: &Deployment) -> Result<()> {
        check_undone(&self.undone, &deployment.config)?;
        if self.into.is_none() {
            return Ok(());
        }
        Box::pin(deployment.check_ledger(EmptiedTables::Accepted)).await.map(drop)
    }

    /// The notes of the plan about rollups.
    fn notes(&self, model: &Model, is_counting: bool) -> Vec<String> {
        let has_levels = self.into.is_some() && model.state_source().is_some();
        let levels = has_levels.then(|| "then rollups of rollups are counted, level by level".to_owned());
        let events = event_note(model).filter(|_| is_counting);
        levels.into_iter().chain(events).collect()
    }

    fn check(&self) -> Result<()> {
        if self.inputs.inputs.is_empty() {
            return wrong("the command names no input", "Name files, folders, s3://BUCKET/PREFIX or -");
        }
        self.check_targets()
    }

    /// Checks that the targets fit the other options.
    ///
    /// # Errors
    /// `Configuration` if a dry run, or a replay into another table, names targets that it does not have.
    pub(crate) fn check_targets(&self) -> Result<()> {
        let is_aggregate_only = self.only == [ReplayProjection::Aggregate];
        if self.dry_run && !is_aggregate_only {
            return wrong(
                "a dry run shows items only",
                "Leave out --only, or use `afterwrite tail --file` for keys, paths and rows",
            );
        }
        if !self.undone.is_empty() && self.only.contains(&ReplayProjection::Export) {
            return wrong(
                "an export reads whole objects, so it cannot leave out changes",
                "Leave out --undone or `export`: rows of changes that a restore has undone are found by `afterwrite verify`",
            );
        }
        if self.into.is_some() && !is_aggregate_only {
            return wrong("--into takes rollups and ledger only", "Leave out --only");
        }
        Ok(())
    }
}

fn wrong(message: &'static str, hint: &'static str) -> Result<()> {
    Err(Error::new(ErrorKind::Configuration, message).hint(hint))
}
