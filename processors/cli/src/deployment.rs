//! The deployment that a command works on: model, tables and clients, from the environment and the command line.

use std::sync::Arc;

use afterwrite_model::clock::SystemClock;
use afterwrite_model::table::Model;
use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_operations::jobs::{
    JobBasis, JobKind, JobPlan, JobRunner, JobState, JobStore, JobTask, NewJob, WorkUnit,
};
use afterwrite_operations::{DeploymentContext, EmptiedTables, LedgerSample, PatientTables};
use afterwrite_services::config::{EnvironmentSettings, FunctionConfig, dynamodb_client};
use afterwrite_services::dynamodb::DynamoDb;
use clap::Args;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::job_output::ProgressLine;
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

    /// The tables, with reads that are repeated while they are throttled: for plans and checks, which no job repeats, and for verifications.
    pub(crate) fn patient_tables(&self) -> PatientTables<Arc<DynamoDb>, SystemClock> {
        PatientTables::new(Arc::clone(&self.tables), SystemClock)
    }

    /// The deployment with such tables.
    pub(crate) fn planned_context(
        &self,
    ) -> DeploymentContext<PatientTables<Arc<DynamoDb>, SystemClock>, SystemClock> {
        self.context().with_tables(self.patient_tables())
    }

    /// Looks at the ledger before a job is planned; returns notes for the plan.
    ///
    /// # Errors
    /// As [`LedgerSample::read`] and [`LedgerSample::check_tables`].
    pub(crate) async fn check_ledger(&self, emptied: EmptiedTables) -> Result<Vec<String>> {
        let context = self.planned_context();
        let sample = LedgerSample::read(&context).await?;
        match emptied {
            EmptiedTables::Refused => sample.check_tables(&context).await,
            EmptiedTables::Accepted => Ok(Vec::new()),
        }
    }

    /// The basis of a job of this deployment. `stored` are its arguments as the state table keeps them.
    async fn basis<A: PlannedArguments>(&self, arguments: &A, stored: &Value) -> Result<JobBasis> {
        let basis = JobBasis::of(&self.planned_context(), arguments.target_table(), stored).await?;
        let settings = target_settings(&EnvironmentSettings::from_env(), arguments.record_targets());
        Ok(basis.with_settings(settings))
    }

    /// Creates a job that runs on this deployment.
    ///
    /// # Errors
    /// A table that cannot be reached.
    pub(crate) async fn create_job<A: PlannedArguments>(
        &self,
        arguments: &A,
        units: Vec<WorkUnit>,
        (plan, rate): (JobPlan, Option<u64>),
    ) -> Result<RunnableJob> {
        let stored = serde_json::to_value(arguments).map_err(|error| {
            Error::new(ErrorKind::State, "the arguments of the job cannot be stored").caused_by(error)
        })?;
        let basis = self.basis(arguments, &stored).await?;
        let new = NewJob { kind: A::KIND, arguments: stored, basis: basis.clone(), units, plan, rate };
        Ok(RunnableJob { id: self.job_store().create(new).await?.id, basis })
    }

    /// A stored job that this process continues, with its arguments.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] if the job was planned for something else than this deployment; [`ErrorKind::State`] if another version
    /// has written the arguments.
    pub(crate) async fn resumed_job<A: PlannedArguments>(&self, job: &JobState) -> Result<(A, RunnableJob)> {
        if job.basis.is_none() {
            job.check_basis(&JobBasis::default())?;
        }
        let arguments: A = serde_json::from_value(job.arguments.clone()).map_err(|error| {
            Error::new(ErrorKind::State, "the arguments of the job cannot be read")
                .with("job", job.id.as_str())
                .hint(job.plan_again())
                .caused_by(error)
        })?;
        let basis = self.basis(&arguments, &job.arguments).await?;
        job.check_basis(&basis)?;
        Ok((arguments, RunnableJob { id: job.id.clone(), basis }))
    }

    /// Runs a job in this process, with a line of progress; returns its last state.
    ///
    /// # Errors
    /// As [`JobStore::acquire`] and [`JobRunner::run`].
    pub(crate) async fn run_job(
        &self,
        RunnableJob { id, basis }: &RunnableJob,
        task: &impl JobTask,
        workers: usize,
    ) -> Result<JobState> {
        let (store, progress) = (self.job_store(), ProgressLine::begin());
        let mut job = store.acquire(id, basis).await?;
        task.restore(&mut job).await?;
        let done = Box::pin(JobRunner { store: &store, observer: &progress, workers }.run(job, task)).await;
        progress.finish();
        done
    }
}

/// The arguments that a job was planned with, as the state table keeps them.
pub(crate) trait PlannedArguments: Serialize + DeserializeOwned {
    /// The kind of the job.
    const KIND: JobKind;

    /// The table that the job writes in the place of the state table, if it has one.
    fn target_table(&self) -> Option<&str> {
        None
    }

    /// The targets to which the job delivers records.
    fn record_targets(&self) -> &[ReplayProjection] {
        &[]
    }
}

/// A job that this process may run.
#[derive(Debug)]
pub(crate) struct RunnableJob {
    /// Its id.
    pub(crate) id: String,
    /// The basis that it is acquired with.
    basis: JobBasis,
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

    /// The settings of the environment; a setting that an option names has the option's value.
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
