//! The deployment that a command works on: model, tables and clients, from the environment and the command line.

use std::sync::Arc;

use afterwrite_model::clock::SystemClock;
use afterwrite_model::table::Model;
use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_operations::jobs::{JobBasis, JobKind, JobPlan, JobState, JobStore, NewJob, WorkUnit};
use afterwrite_operations::{DeploymentContext, PatientTables};
use afterwrite_services::config::{EnvironmentSettings, FunctionConfig, dynamodb_client};
use afterwrite_services::dynamodb::DynamoDb;
use clap::Args;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::replay_target::{ReplayProjection, target_settings};

/// Names the deployment; without these options the variables of the functions count.
#[derive(Clone, Debug, Default, Args)]
pub struct DeploymentArguments {
    /// A built-in model's name or the path of a TOML file; default: AFTERWRITE_MODEL, else exambuddy.
    #[arg(help_heading = "Deployment", long)]
    pub model: Option<String>,
    /// The table of rollups and ledger; default: AFTERWRITE_STATE_TABLE.
    #[arg(help_heading = "Deployment", long, value_name = "TABLE")]
    pub state_table: Option<String>,
    /// Renames of source tables, `name in the model=deployed name`; of several names of a table, the first is written and the records of all
    /// are read. Default: AFTERWRITE_TABLES.
    #[arg(help_heading = "Deployment", long, value_name = "RENAMES")]
    pub tables: Option<String>,
}

/// A deployment.
#[derive(Debug)]
pub struct Deployment {
    /// The model and the deployed names of its tables.
    pub config: FunctionConfig,
    /// The state table.
    pub state_table: Arc<str>,
    /// DynamoDB.
    pub tables: Arc<DynamoDb>,
}

impl Deployment {
    /// The deployment as operations take it.
    pub(crate) fn context(&self) -> DeploymentContext<Arc<DynamoDb>, SystemClock> {
        DeploymentContext {
            model: Arc::clone(&self.config.model),
            table_names: self.config.table_names.clone(),
            state_table: Arc::clone(&self.state_table),
            tables: Arc::clone(&self.tables),
            clock: SystemClock,
        }
    }

    /// The jobs of the deployment.
    #[must_use]
    pub fn job_store(&self) -> JobStore<Arc<DynamoDb>, SystemClock> {
        JobStore::new(Arc::clone(&self.tables), SystemClock, Arc::clone(&self.state_table))
    }

    /// The tables, with reads that are repeated while they are throttled: for plans and checks, which no job repeats.
    pub(crate) fn patient_tables(&self) -> PatientTables<Arc<DynamoDb>, SystemClock> {
        PatientTables::new(Arc::clone(&self.tables), SystemClock)
    }

    /// The basis of a job with these arguments in this deployment.
    ///
    /// # Errors
    /// A table that does not exist or cannot be reached.
    pub(crate) async fn job_basis(&self, kind: JobKind, arguments: &Value) -> Result<JobBasis> {
        let target = match kind {
            JobKind::Replay => arguments.get("into").and_then(Value::as_str),
            // The import of a bulk backfill creates its table.
            JobKind::Backfill | JobKind::Verify | JobKind::Repair | JobKind::Redrive => None,
        };
        let FunctionConfig { model, table_names, .. } = &self.config;
        let tables = self.patient_tables();
        let basis = JobBasis::of(model, table_names, &self.state_table, target, arguments, &tables).await?;
        // Without targets of its own, a job works with what its arguments name.
        let only = match kind {
            JobKind::Replay | JobKind::Redrive => arguments.get("only"),
            JobKind::Backfill | JobKind::Verify | JobKind::Repair => None,
        };
        let only: Vec<ReplayProjection> =
            only.and_then(|only| serde_json::from_value(only.clone()).ok()).unwrap_or_default();
        Ok(basis.with_settings(target_settings(&EnvironmentSettings::from_env(), &only)))
    }

    /// Creates a job that runs on this deployment; returns it with the basis that acquires it.
    ///
    /// # Errors
    /// A table that cannot be reached.
    pub(crate) async fn create_job(
        &self,
        kind: JobKind,
        arguments: &impl Serialize,
        units: Vec<WorkUnit>,
        (plan, rate): (JobPlan, Option<u64>),
    ) -> Result<(JobState, JobBasis)> {
        let arguments = serde_json::to_value(arguments).map_err(|error| {
            Error::new(ErrorKind::State, "the arguments of the job cannot be stored").caused_by(error)
        })?;
        let basis = self.job_basis(kind, &arguments).await?;
        let new = NewJob { kind, arguments, basis: basis.clone(), units, plan, rate };
        Ok((self.job_store().create(new).await?, basis))
    }
}

/// The arguments of a stored job.
///
/// # Errors
/// [`ErrorKind::State`] if another version has written them.
pub(crate) fn stored_arguments<A: DeserializeOwned>(job: &JobState) -> Result<A> {
    serde_json::from_value(job.arguments.clone()).map_err(|error| {
        Error::new(ErrorKind::State, "the arguments of the job cannot be read")
            .with("job", job.id.as_str())
            .hint(job.plan_again())
            .caused_by(error)
    })
}

impl DeploymentArguments {
    /// Connects to the deployment.
    ///
    /// # Errors
    /// A setting that is missing or wrong; a model that does not load.
    pub async fn connect(&self) -> Result<Deployment> {
        let settings = self.settings();
        let config = FunctionConfig::resolve(&settings)?;
        let state_table = settings.required_state_table()?;
        Ok(Deployment { config, state_table, tables: Arc::new(connect().await?) })
    }

    /// The jobs of the deployment. The model is not needed.
    ///
    /// # Errors
    /// A setting that is missing.
    pub async fn jobs(&self) -> Result<JobStore<Arc<DynamoDb>, SystemClock>> {
        let state_table = self.settings().required_state_table()?;
        Ok(JobStore::new(Arc::new(connect().await?), SystemClock, state_table))
    }

    /// The settings of the environment, with those of these options.
    pub(crate) fn settings(&self) -> EnvironmentSettings {
        let mut settings = EnvironmentSettings::from_env();
        settings.model =
            self.model.clone().or(settings.model).or_else(|| Some(Model::DEFAULT_NAME.to_owned()));
        settings.state_table = self.state_table.clone().or(settings.state_table);
        settings.tables = self.tables.clone().or(settings.tables);
        settings
    }
}

async fn connect() -> Result<DynamoDb> {
    Ok(DynamoDb::new(Box::pin(dynamodb_client()).await?))
}
