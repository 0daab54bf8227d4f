//! Settings: the only place that reads the environment.
//!
//! [`EnvironmentSettings`] are the variables as they are written, [`FunctionConfig`] is what they come to.

mod archive;
mod caches;
mod projections;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, SdkConfig};
use aws_sdk_dynamodb::Client;

pub use self::archive::{ArchiveConfig, bucket, firehose_client, s3_client};
pub use self::caches::{cache, distribution};
use self::projections::PROJECTIONS;
pub use self::projections::Projection;
use crate::sink::http_client;
use crate::table::Model;
use crate::{Error, ErrorKind, Result};

const MODEL: &str = "AFTERWRITE_MODEL";
const TABLES: &str = "AFTERWRITE_TABLES";
const STATE_TABLE: &str = "AFTERWRITE_STATE_TABLE";

/// Afterwrite's variables, as they are written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EnvironmentSettings {
    /// `AFTERWRITE_MODEL`: a built-in model's name, or the path of a TOML file.
    pub model: Option<String>,
    /// `AFTERWRITE_TABLES`: `name in the model=name where it lives`, separated by commas.
    pub tables: Option<String>,
    /// `AFTERWRITE_STATE_TABLE`: the table of rollups and ledger.
    pub state_table: Option<String>,
    /// `AFTERWRITE_PROJECTIONS`: what the function hosts.
    pub projections: Option<String>,
    /// `AFTERWRITE_FIREHOSE_STREAM`: the delivery stream of the archive.
    pub firehose_stream: Option<String>,
    /// `AFTERWRITE_BUCKET`: the bucket of the archive.
    pub bucket: Option<String>,
    /// `AFTERWRITE_CACHE_URL`: the cache, `redis://` or `rediss://`.
    pub cache_url: Option<String>,
    /// `AFTERWRITE_CACHE_CLUSTER`: `true` if it is a cluster.
    pub cache_cluster: Option<String>,
    /// `AFTERWRITE_CLOUDFRONT_DISTRIBUTION`: the distribution's id.
    pub distribution: Option<String>,
}

impl EnvironmentSettings {
    /// Reads the environment. An empty variable counts as unset.
    #[must_use]
    pub fn from_env() -> Self {
        let read = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        Self {
            model: read(MODEL),
            tables: read(TABLES),
            state_table: read(STATE_TABLE),
            projections: read(PROJECTIONS),
            firehose_stream: read(archive::FIREHOSE_STREAM),
            bucket: read(archive::BUCKET),
            cache_url: read(caches::CACHE_URL),
            cache_cluster: read(caches::CACHE_CLUSTER),
            distribution: read(caches::DISTRIBUTION),
        }
    }
}

/// What the settings of any function come to.
#[derive(Clone, Debug)]
pub struct FunctionConfig {
    /// The table model.
    pub model: Arc<Model>,
    /// Where each of the model's tables lives, aligned with [`Model::tables`].
    pub table_names: Vec<Arc<str>>,
    /// What the function hosts.
    pub projections: BTreeSet<Projection>,
}

impl FunctionConfig {
    /// Resolves the settings of a function that hosts `default`, unless it is told otherwise.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] or [`ErrorKind::Model`], naming the variable and what it should hold.
    pub fn resolve(settings: &EnvironmentSettings, default: &[Projection]) -> Result<Self> {
        let projections = Projection::hosted(settings.projections.as_deref(), default)?;
        let model = Model::load(settings.model.as_deref().unwrap_or(Model::DEFAULT_NAME))?;
        let table_names = table_names(&model, settings.tables.as_deref().unwrap_or_default())?;
        Ok(Self { model: Arc::new(model), table_names, projections })
    }
}

/// The table of rollups and ledger.
///
/// # Errors
/// [`ErrorKind::Configuration`] if `AFTERWRITE_STATE_TABLE` is unset.
pub fn state_table(settings: &EnvironmentSettings) -> Result<Arc<str>> {
    let name = settings.state_table.as_deref().ok_or_else(|| {
        Error::new(ErrorKind::Configuration, format!("{STATE_TABLE} is not set"))
            .hint("Set it to the name of the table of rollups and ledger (keys `PK` and `SK`, both strings)")
    });
    name.map(Arc::from)
}

fn table_names(model: &Model, renames: &str) -> Result<Vec<Arc<str>>> {
    let mut lives_as = BTreeMap::new();
    for rename in renames.split(',').map(str::trim).filter(|rename| !rename.is_empty()) {
        let Some((name, real)) = rename.split_once('=').filter(|(_, real)| !real.is_empty()) else {
            return Err(Error::new(
                ErrorKind::Configuration,
                format!("{TABLES} holds `{rename}`, which is no rename"),
            )
            .hint("Write `name in the model=name where it lives`, separated by commas"));
        };
        if !model.tables.iter().any(|table| *table.name == *name) {
            let known: Vec<&str> = model.tables.iter().map(|table| table.name.as_ref()).collect();
            return Err(Error::new(
                ErrorKind::Configuration,
                format!("{TABLES} renames `{name}`, which the model does not have"),
            )
            .with("tables of the model", known.join(", ")));
        }
        lives_as.insert(name, real);
    }
    let name = |table: &crate::table::Table| {
        lives_as.get(table.name.as_ref()).map_or_else(|| Arc::clone(&table.name), |real| Arc::from(*real))
    };
    Ok(model.tables.iter().map(name).collect())
}

/// How long a connection may take, and how long a request: services answer within milliseconds, or something is broken. A connection
/// that died while the function was frozen must not hold a batch until Lambda kills it.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(1500);
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(5);

/// A DynamoDB client, configured as the AWS SDK configures itself: `AWS_REGION`, `AWS_ENDPOINT_URL`, credentials and so on.
///
/// # Errors
/// [`ErrorKind::Configuration`] if no region is set anywhere.
pub async fn dynamodb_client() -> Result<Client> {
    Ok(Client::new(&sdk_config().await?))
}

/// What all AWS clients of a process are configured by.
pub(crate) async fn sdk_config() -> Result<SdkConfig> {
    let timeouts = TimeoutConfig::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .operation_attempt_timeout(ATTEMPT_TIMEOUT)
        .build();
    let defaults =
        aws_config::defaults(BehaviorVersion::latest()).http_client(http_client()).timeout_config(timeouts);
    let sdk = Box::pin(defaults.load()).await;
    if sdk.region().is_none() {
        return Err(Error::new(ErrorKind::Configuration, "no AWS region is set")
            .hint("Set AWS_REGION to the region of the tables"));
    }
    Ok(sdk)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn renamed(tables: String) -> Result<FunctionConfig> {
        FunctionConfig::resolve(
            &EnvironmentSettings { tables: Some(tables), ..EnvironmentSettings::default() },
            &[],
        )
    }

    #[test]
    fn the_default_model_needs_nothing_set() {
        let config = FunctionConfig::resolve(&EnvironmentSettings::default(), &[]).expect("enough is set");
        assert_eq!(config.model.name.as_ref(), Model::DEFAULT_NAME);
        assert_eq!(config.table_names.len(), config.model.tables.len());
    }

    #[test]
    fn a_missing_state_table_is_named_by_its_variable() {
        let error = state_table(&EnvironmentSettings::default()).expect_err("nothing is set");
        assert_eq!(error.kind(), ErrorKind::Configuration);
        assert!(error.to_string().contains("AFTERWRITE_STATE_TABLE"), "{error}");
    }

    #[test]
    fn tables_live_under_other_names() {
        let model = Model::load(Model::DEFAULT_NAME).expect("the default model loads");
        let name = model.tables.first().map(|table| table.name.clone()).expect("it has a table");
        let config = renamed(format!("{name}=prod-exams"));
        assert_eq!(config.expect("a rename").table_names.first().map(AsRef::as_ref), Some("prod-exams"));
    }

    #[test]
    fn a_rename_of_no_table_and_a_rename_that_is_none_are_told() {
        for (tables, told) in [("Nothing=prod", "Nothing"), ("prod-exams", "prod-exams"), ("x=", "x=")] {
            let error = renamed(tables.to_owned()).expect_err("a wrong rename").to_string();
            assert!(error.contains("AFTERWRITE_TABLES") && error.contains(told), "{error}");
        }
    }
}
