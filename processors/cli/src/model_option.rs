//! The model that a command works on, and the settings of the environment that go with it.

use std::sync::Arc;

use afterwrite_ledger::RememberedLookups;
use afterwrite_model::Result;
use afterwrite_model::table::Model;
use afterwrite_services::config::{EnvironmentSettings, FunctionConfig, dynamodb_client};
use afterwrite_services::dynamodb::DynamoDb;
use clap::Args;

/// The model of a command.
#[derive(Debug, Args)]
pub(crate) struct ModelOption {
    /// A built-in model's name or the path of a TOML file; default: AFTERWRITE_MODEL, else exambuddy.
    #[arg(long)]
    model: Option<String>,
}

impl ModelOption {
    /// The environment's settings, with this model.
    pub(crate) fn settings(&self) -> EnvironmentSettings {
        let mut settings = EnvironmentSettings::from_env();
        let default = || Some(Model::DEFAULT_NAME.to_owned());
        settings.model = self.model.clone().or(settings.model).or_else(default);
        settings
    }

    /// The model and the deployed names of its tables.
    pub(crate) fn config(&self) -> Result<FunctionConfig> {
        FunctionConfig::resolve(&self.settings())
    }
}

/// The lookups that the environment's state table remembers; `None` if no state table is set.
pub(crate) async fn remembered_lookups(
    settings: &EnvironmentSettings,
    model: &Arc<Model>,
) -> Result<Option<RememberedLookups<DynamoDb>>> {
    if settings.state_table.is_none() {
        return Ok(None);
    }
    let tables = DynamoDb::retrying(Box::pin(dynamodb_client()).await?);
    Ok(Some(RememberedLookups::new(Arc::clone(model), settings.required_state_table()?, tables)))
}
