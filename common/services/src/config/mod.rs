//! Settings: the only place that reads the environment.
//!
//! [`EnvironmentSettings`] holds the variables as text. [`FunctionConfig`] and the methods resolve them; an error names the variable and what to
//! set it to.

mod cache;
mod clients;
mod events;
mod paths;
mod projections;
mod tables;

use std::collections::BTreeMap;
use std::sync::Arc;

use afterwrite_ledger::PoisonPolicy;
use afterwrite_model::table::{Model, nearest_name};
use afterwrite_model::{Error, ErrorKind, Result};

pub use self::clients::{
    EmbeddedEndpoints, dynamodb_client, dynamodb_client_of, firehose_client, s3_client, sdk_config,
};
use self::events::EVENTS_TO;
pub use self::events::event_setting;
pub use self::projections::ProjectionKind;
use self::tables::{check_name, deployed_names};

const PREFIX: &str = "AFTERWRITE_";
const MODEL: &str = "AFTERWRITE_MODEL";
const TABLES: &str = "AFTERWRITE_TABLES";
const STATE_TABLE: &str = "AFTERWRITE_STATE_TABLE";
const PROJECTIONS: &str = "AFTERWRITE_PROJECTIONS";
const FIREHOSE_STREAM: &str = "AFTERWRITE_FIREHOSE_STREAM";
const BUCKET: &str = "AFTERWRITE_BUCKET";
const CACHE_URL: &str = "AFTERWRITE_CACHE_URL";
const CACHE_SECRET: &str = "AFTERWRITE_CACHE_SECRET";
const CACHE_CLUSTER: &str = "AFTERWRITE_CACHE_CLUSTER";
const DISTRIBUTION: &str = "AFTERWRITE_CLOUDFRONT_DISTRIBUTION";
const CDN_QUEUE: &str = "AFTERWRITE_CDN_QUEUE";
const EVENTS: &str = "AFTERWRITE_EVENTS";
const ON_POISON: &str = "AFTERWRITE_ON_POISON";
const LOG_KEYS: &str = "AFTERWRITE_LOG_KEYS";
const METRICS: &str = "AFTERWRITE_METRICS";
const METRICS_NAMESPACE: &str = "POWERTOOLS_METRICS_NAMESPACE";
const METRICS_SERVICE: &str = "POWERTOOLS_SERVICE_NAME";

/// The environment variables whose names and values are text.
fn environment() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}

/// The environment variables as text. An empty variable counts as unset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EnvironmentSettings {
    /// `AFTERWRITE_MODEL`: a built-in model's name, or the path of a TOML file.
    pub model: Option<String>,
    /// `AFTERWRITE_TABLES`: `name in the model=deployed name`, separated by commas. A table may have several names: the first is its current
    /// one, and change records that name the others are read.
    pub tables: Option<String>,
    /// `AFTERWRITE_STATE_TABLE`: the table of rollups and ledger.
    pub state_table: Option<String>,
    /// `AFTERWRITE_PROJECTIONS`: the projections that the function hosts.
    pub projections: Option<String>,
    /// `AFTERWRITE_FIREHOSE_STREAM`: the delivery stream of the archive.
    pub firehose_stream: Option<String>,
    /// `AFTERWRITE_BUCKET`: the bucket of the archive and the datasets.
    pub bucket: Option<String>,
    /// `AFTERWRITE_CACHE_URL`: the cache, `redis://` or `rediss://`.
    pub cache_url: Option<String>,
    /// `AFTERWRITE_CACHE_SECRET`: the ARN of a secret in Secrets Manager whose text is the cache's address.
    pub cache_secret: Option<String>,
    /// `AFTERWRITE_CACHE_CLUSTER`: `true` if it is a cluster.
    pub cache_cluster: Option<String>,
    /// `AFTERWRITE_CLOUDFRONT_DISTRIBUTION`: the distribution's id.
    pub distribution: Option<String>,
    /// `AFTERWRITE_CDN_QUEUE`: the URL of the queue of stale paths.
    pub cdn_queue: Option<String>,
    /// `AFTERWRITE_EVENTS`: the ARN of the bus, queue or topic that takes events.
    pub events: Option<String>,
    /// `AFTERWRITE_EVENTS_<TO>`, by the variable's name: the ARN of the target that rules with this `to` name.
    pub events_to: BTreeMap<String, String>,
    /// `AFTERWRITE_ON_POISON`: `park` or `fail`.
    pub on_poison: Option<String>,
    /// `AFTERWRITE_LOG_KEYS`: `true` if logs may have the keys of items.
    pub log_keys: Option<String>,
    /// `AFTERWRITE_METRICS`: `all`, or `essential` for the metrics that report lost data.
    pub metrics: Option<String>,
    /// `POWERTOOLS_METRICS_NAMESPACE`: the namespace of the metrics.
    pub metrics_namespace: Option<String>,
    /// `POWERTOOLS_SERVICE_NAME`: the metrics' dimension `service`.
    pub metrics_service: Option<String>,
    /// `AWS_REGION` of a deployed function: `AWS_LAMBDA_FUNCTION_NAME` is set, and no `AWS_ENDPOINT_URL…`, because emulators
    /// name streams in regions of their own.
    pub region: Option<String>,
    /// `AWS_LAMBDA_RUNTIME_API`: the host and port of the Runtime API. Lambda sets it.
    pub runtime_api: Option<String>,
    /// The embedded servers that take the place of AWS. The environment never sets them.
    pub embedded: Option<EmbeddedEndpoints>,
    /// Whether functions of this process print no metrics. The environment never sets it.
    pub hides_metrics: bool,
    /// One warning for each variable that begins with `AFTERWRITE_` and is not one of these.
    pub warnings: Vec<String>,
}

impl EnvironmentSettings {
    /// Reads the environment.
    #[must_use]
    pub fn from_env() -> Self {
        Self::from_variables(environment())
    }

    fn from_variables(variables: impl Iterator<Item = (String, String)>) -> Self {
        let mut unread: BTreeMap<String, String> = variables.collect();
        let region = deployed_region(&unread);
        let events_to = unread.extract_if(EVENTS_TO.to_owned().., |name, _| name.starts_with(EVENTS_TO));
        let events_to = events_to.filter(|(_, value)| !value.is_empty()).collect();
        let mut known = Vec::new();
        let mut take = |name: &'static str| {
            known.push(name);
            unread.remove(name).filter(|value| !value.is_empty())
        };
        let settings = Self {
            model: take(MODEL),
            tables: take(TABLES),
            state_table: take(STATE_TABLE),
            projections: take(PROJECTIONS),
            firehose_stream: take(FIREHOSE_STREAM),
            bucket: take(BUCKET),
            cache_url: take(CACHE_URL),
            cache_secret: take(CACHE_SECRET),
            cache_cluster: take(CACHE_CLUSTER),
            distribution: take(DISTRIBUTION),
            cdn_queue: take(CDN_QUEUE),
            events: take(EVENTS),
            events_to,
            on_poison: take(ON_POISON),
            log_keys: take(LOG_KEYS),
            metrics: take(METRICS),
            metrics_namespace: take(METRICS_NAMESPACE),
            metrics_service: take(METRICS_SERVICE),
            region,
            runtime_api: take("AWS_LAMBDA_RUNTIME_API"),
            embedded: None,
            hides_metrics: false,
            warnings: Vec::new(),
        };
        let unknown = unread.keys().filter(|name| name.starts_with(PREFIX));
        Self { warnings: unknown.map(|name| unknown_variable(name, &known)).collect(), ..settings }
    }

    /// The table of rollups and ledger.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] if `AFTERWRITE_STATE_TABLE` is unset.
    pub fn required_state_table(&self) -> Result<Arc<str>> {
        let hint = "Set it to the name of the table of rollups and ledger (keys `PK` and `SK`, both strings)";
        required(self.state_table.as_deref(), STATE_TABLE, hint).map(Arc::from)
    }

    /// The delivery stream of the archive.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] if `AFTERWRITE_FIREHOSE_STREAM` is unset.
    pub fn required_firehose_stream(&self) -> Result<Arc<str>> {
        let hint = "Set it to the name of the Firehose delivery stream that writes the archive";
        required(self.firehose_stream.as_deref(), FIREHOSE_STREAM, hint).map(Arc::from)
    }

    /// The bucket of the archive and the datasets.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] if `AFTERWRITE_BUCKET` is unset.
    pub fn required_bucket(&self) -> Result<Arc<str>> {
        let hint = "Set it to the name of the bucket that the delivery stream writes to";
        required(self.bucket.as_deref(), BUCKET, hint).map(Arc::from)
    }

    /// The handling of records that can never be counted as they are.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] if `AFTERWRITE_ON_POISON` is not valid.
    pub fn poison_policy(&self) -> Result<PoisonPolicy> {
        match self.on_poison.as_deref() {
            None | Some("park") => Ok(PoisonPolicy::Park),
            Some("fail") => Ok(PoisonPolicy::Fail),
            Some(_) => Err(invalid(format!("{ON_POISON} is neither `park` nor `fail`")).hint(
                "Set it to `park` to mark the item and go on, or to `fail` to have the record delivered again",
            )),
        }
    }

    /// Whether logs may have the keys of items.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] if `AFTERWRITE_LOG_KEYS` is not valid.
    pub fn names_keys(&self) -> Result<bool> {
        boolean(self.log_keys.as_deref(), LOG_KEYS, "Set it to `true` if logs may have the keys of items")
    }

    /// Whether only the metrics that report lost data are emitted.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] if `AFTERWRITE_METRICS` is not valid.
    pub fn emits_essential_metrics(&self) -> Result<bool> {
        match self.metrics.as_deref() {
            None | Some("all") => Ok(false),
            Some("essential") => Ok(true),
            Some(_) => Err(invalid(format!("{METRICS} is neither `all` nor `essential`"))
                .hint("Set it to `essential` to emit only the metrics that report lost data, or remove it")),
        }
    }
}

/// The settings that all functions resolve.
#[derive(Clone, Debug)]
pub struct FunctionConfig {
    /// The table model.
    pub model: Arc<Model>,
    /// The deployed name of each of [`Model::tables`], in the same order.
    pub table_names: Vec<Arc<str>>,
}

impl FunctionConfig {
    /// Loads the model and resolves the names of its tables. A function has no default model: a forgotten variable must not count a table
    /// by another table's model.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] or [`ErrorKind::Model`].
    pub fn resolve(settings: &EnvironmentSettings) -> Result<Self> {
        let mut model = Model::load(required(
            settings.model.as_deref(),
            MODEL,
            &format!("Set it to the path of a model file, or to a built-in model: {}", built_in_models()),
        )?)?;
        let renames = settings.tables.as_deref().unwrap_or_default();
        let table_names = deployed_names(&mut model, renames, settings.state_table.as_deref())?;
        let is_source = |name: &&str| {
            let table = model.table_deployed_as(&table_names, name);
            table.is_some_and(|table| Some(table) != model.state_source())
        };
        if let Some(state) = settings.state_table.as_deref().filter(is_source) {
            let hint = "Give the rollups and the ledger a table of their own, and set AFTERWRITE_STATE_TABLE to its name";
            return Err(invalid(format!("`{state}` is both the state table and a source table")).hint(hint));
        }
        Ok(Self { model: Arc::new(model), table_names })
    }

    /// Checks that DynamoDB can create the source tables: a table without a rename has the model's name, which no other command needs to be valid.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] with the first name that no table can have.
    pub fn check_table_names(&self) -> Result<()> {
        let mut names = self.model.application_tables().filter_map(|(index, _)| self.table_names.get(index));
        names.try_for_each(|name| check_name(name, "the model names a table"))
    }
}

fn built_in_models() -> String {
    Model::built_in_names().collect::<Vec<_>>().join(", ")
}

/// The region of a function on AWS itself; `None` anywhere else.
fn deployed_region(variables: &BTreeMap<String, String>) -> Option<String> {
    let set = |name: &str| variables.get(name).filter(|value| !value.is_empty());
    let has_endpoint =
        variables.iter().any(|(name, value)| name.starts_with("AWS_ENDPOINT_URL") && !value.is_empty());
    set("AWS_LAMBDA_FUNCTION_NAME").and(set("AWS_REGION")).filter(|_| !has_endpoint).cloned()
}

fn boolean(value: Option<&str>, variable: &str, hint: &'static str) -> Result<bool> {
    match value {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(_) => Err(invalid(format!("{variable} is neither `true` nor `false`")).hint(hint)),
    }
}

fn required<'v>(value: Option<&'v str>, variable: &str, hint: &str) -> Result<&'v str> {
    value.ok_or_else(|| invalid(format!("{variable} is not set")).hint(hint))
}

fn invalid(message: String) -> Error {
    Error::new(ErrorKind::Configuration, message)
}

/// The warning for a variable that nothing reads. Names are compared without their common prefix, which would hide most differences.
fn unknown_variable(name: &str, known: &[&str]) -> String {
    let known_suffixes = known.iter().filter_map(|known| known.strip_prefix(PREFIX));
    match nearest_name(name.strip_prefix(PREFIX).unwrap_or(name), known_suffixes) {
        Some(nearest) => {
            format!("{name} is not a setting of Afterwrite and is ignored; did you mean {PREFIX}{nearest}?")
        }
        None => format!("{name} is not a setting of Afterwrite and is ignored"),
    }
}

#[cfg(test)]
mod tests;
