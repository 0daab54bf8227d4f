//! The deployment that a command works on: model, tables and clients, from the environment and the command line.

use std::sync::Arc;

use afterwrite::Result;
use afterwrite::clock::SystemClock;
use afterwrite::config::{EnvironmentSettings, FunctionConfig, dynamodb_client};
use afterwrite::sink::dynamodb::DynamoDb;
use afterwrite::table::Model;
use afterwrite_operations::jobs::JobStore;
use clap::Args;

/// Names the deployment; without these options the variables of the functions count.
#[derive(Clone, Debug, Default, Args)]
pub struct DeploymentArguments {
    /// A built-in model's name or the path of a TOML file; default: AFTERWRITE_MODEL, else exambuddy.
    #[arg(long)]
    pub model: Option<String>,
    /// The table of rollups and ledger; default: AFTERWRITE_STATE_TABLE.
    #[arg(long, value_name = "TABLE")]
    pub state_table: Option<String>,
    /// Renames of source tables, `name in the model=deployed name`; default: AFTERWRITE_TABLES.
    #[arg(long, value_name = "RENAMES")]
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
    /// The jobs of the deployment.
    #[must_use]
    pub fn job_store(&self) -> JobStore<Arc<DynamoDb>, SystemClock> {
        JobStore::new(Arc::clone(&self.tables), SystemClock, Arc::clone(&self.state_table))
    }
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
