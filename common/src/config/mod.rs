//! Settings: the only place that reads the environment.
//!
//! [`Settings`] are the variables as they are written, [`Config`] is what they come to.

use std::collections::BTreeMap;
use std::sync::Arc;

use aws_config::BehaviorVersion;
use aws_sdk_dynamodb::Client;

use crate::sink::cloudfront::CloudFront;
use crate::sink::http_client;
use crate::sink::redis::{Redis, Topology};
use crate::table::Model;
use crate::{Error, ErrorKind, Result};

const MODEL: &str = "AFTERWRITE_MODEL";
const TABLES: &str = "AFTERWRITE_TABLES";
const STATE_TABLE: &str = "AFTERWRITE_STATE_TABLE";
const PROJECTIONS: &str = "AFTERWRITE_PROJECTIONS";
const CACHE_URL: &str = "AFTERWRITE_CACHE_URL";
const CACHE_CLUSTER: &str = "AFTERWRITE_CACHE_CLUSTER";
const DISTRIBUTION: &str = "AFTERWRITE_CLOUDFRONT_DISTRIBUTION";
/// What a function can host; more will follow.
const KNOWN_PROJECTIONS: &[&str] = &["aggregate"];

/// Afterwrite's variables, as they are written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// `AFTERWRITE_MODEL`: a built-in model's name, or the path of a TOML file.
    pub model: Option<String>,
    /// `AFTERWRITE_TABLES`: `name in the model=name where it lives`, separated by commas.
    pub tables: Option<String>,
    /// `AFTERWRITE_STATE_TABLE`: the table of rollups and ledger.
    pub state_table: Option<String>,
    /// `AFTERWRITE_PROJECTIONS`: what the function hosts.
    pub projections: Option<String>,
    /// `AFTERWRITE_CACHE_URL`: the cache, `redis://` or `rediss://`.
    pub cache_url: Option<String>,
    /// `AFTERWRITE_CACHE_CLUSTER`: `true` if it is a cluster.
    pub cache_cluster: Option<String>,
    /// `AFTERWRITE_CLOUDFRONT_DISTRIBUTION`: the distribution's id.
    pub distribution: Option<String>,
}

impl Settings {
    /// Reads the environment. An empty variable counts as unset.
    #[must_use]
    pub fn from_env() -> Self {
        let read = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        Self {
            model: read(MODEL),
            tables: read(TABLES),
            state_table: read(STATE_TABLE),
            projections: read(PROJECTIONS),
            cache_url: read(CACHE_URL),
            cache_cluster: read(CACHE_CLUSTER),
            distribution: read(DISTRIBUTION),
        }
    }
}

/// What the settings come to.
#[derive(Clone, Debug)]
pub struct Config {
    /// The table model.
    pub model: Arc<Model>,
    /// Where each of the model's tables lives, aligned with [`Model::tables`].
    pub table_names: Vec<Arc<str>>,
    /// The table of rollups and ledger.
    pub state_table: Arc<str>,
}

impl Config {
    /// Resolves the settings of a function that aggregates.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] or [`ErrorKind::Model`], naming the variable and what it should hold.
    pub fn resolve(settings: &Settings) -> Result<Self> {
        check_projections(settings.projections.as_deref())?;
        let model = Model::load(settings.model.as_deref().unwrap_or(Model::DEFAULT_NAME))?;
        let state_table = settings.state_table.as_deref().ok_or_else(|| {
            Error::new(ErrorKind::Configuration, format!("{STATE_TABLE} is not set")).remedy(
                "Set it to the name of the table of rollups and ledger (keys `PK` and `SK`, both strings)",
            )
        })?;
        let table_names = table_names(&model, settings.tables.as_deref().unwrap_or_default())?;
        Ok(Self { model: Arc::new(model), table_names, state_table: Arc::from(state_table) })
    }
}

/// What the settings of cache invalidation come to; nothing is connected yet. Where a setting is unset, nothing is invalidated there.
///
/// # Errors
/// [`ErrorKind::Configuration`], naming the variable and what it should hold.
pub fn cache(settings: &Settings) -> Result<Option<Redis>> {
    let topology = match settings.cache_cluster.as_deref() {
        None | Some("false") => Topology::Single,
        Some("true") => Topology::Cluster,
        Some(_) => {
            return Err(Error::new(
                ErrorKind::Configuration,
                format!("{CACHE_CLUSTER} is neither `true` nor `false`"),
            )
            .remedy(
                "Set it to `true` if the cache is a cluster (ElastiCache Serverless is), else leave it out",
            ));
        }
    };
    let Some(url) = settings.cache_url.as_deref() else { return Ok(None) };
    // The address may hold a password, so no error repeats it.
    let redis = Redis::new(url, topology, None).map_err(|error| {
        Error::new(ErrorKind::Configuration, format!("{CACHE_URL} is no address of a cache"))
            .remedy("Write redis://host:6379, or rediss://host:6379 for TLS; user:password@ may stand before the host")
            .caused_by(error)
    })?;
    Ok(Some(redis))
}

/// The CloudFront distribution whose paths are invalidated, if one is set; configured as the AWS SDK configures itself.
pub async fn distribution(settings: &Settings) -> Option<CloudFront> {
    let id = settings.distribution.as_deref()?;
    let sdk =
        Box::pin(aws_config::defaults(BehaviorVersion::latest()).http_client(http_client()).load()).await;
    Some(CloudFront::new(aws_sdk_cloudfront::Client::new(&sdk), id))
}

fn check_projections(projections: Option<&str>) -> Result<()> {
    let mut unknown =
        projections.unwrap_or_default().split(',').map(str::trim).filter(|name| !name.is_empty());
    match unknown.find(|name| !KNOWN_PROJECTIONS.contains(name)) {
        None => Ok(()),
        Some(name) => Err(Error::new(
            ErrorKind::Configuration,
            format!("{PROJECTIONS} names `{name}`, which this function cannot host"),
        )
        .remedy(format!("Known projections: {}", KNOWN_PROJECTIONS.join(", ")))),
    }
}

fn table_names(model: &Model, renames: &str) -> Result<Vec<Arc<str>>> {
    let mut lives_as = BTreeMap::new();
    for rename in renames.split(',').map(str::trim).filter(|rename| !rename.is_empty()) {
        let Some((name, real)) = rename.split_once('=').filter(|(_, real)| !real.is_empty()) else {
            return Err(Error::new(
                ErrorKind::Configuration,
                format!("{TABLES} holds `{rename}`, which is no rename"),
            )
            .remedy("Write `name in the model=name where it lives`, separated by commas"));
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

/// A DynamoDB client, configured as the AWS SDK configures itself: `AWS_REGION`, `AWS_ENDPOINT_URL`, credentials and so on.
///
/// # Errors
/// [`ErrorKind::Configuration`] if no region is set anywhere.
pub async fn dynamodb_client() -> Result<Client> {
    let sdk =
        Box::pin(aws_config::defaults(BehaviorVersion::latest()).http_client(http_client()).load()).await;
    if sdk.region().is_none() {
        return Err(Error::new(ErrorKind::Configuration, "no AWS region is set")
            .remedy("Set AWS_REGION to the region of the tables"));
    }
    Ok(Client::new(&sdk))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        Settings { state_table: Some("state".to_owned()), ..Settings::default() }
    }

    #[test]
    fn the_default_model_needs_a_state_table_only() {
        let config = Config::resolve(&settings()).expect("enough is set");
        assert_eq!(config.model.name.as_ref(), Model::DEFAULT_NAME);
        assert_eq!(config.table_names.len(), config.model.tables.len());
    }

    #[test]
    fn a_missing_state_table_is_named_by_its_variable() {
        let error = Config::resolve(&Settings::default()).expect_err("nothing is set");
        assert_eq!(error.kind(), ErrorKind::Configuration);
        assert!(error.to_string().contains("AFTERWRITE_STATE_TABLE"), "{error}");
    }

    #[test]
    fn tables_live_under_other_names() {
        let model = Model::load(Model::DEFAULT_NAME).expect("the default model loads");
        let name = model.tables.first().map(|table| table.name.clone()).expect("it has a table");
        let config = Config::resolve(&Settings { tables: Some(format!("{name}=prod-exams")), ..settings() });
        assert_eq!(config.expect("a rename").table_names.first().map(AsRef::as_ref), Some("prod-exams"));
    }

    #[test]
    fn a_rename_of_no_table_and_a_rename_that_is_none_are_told() {
        for (tables, told) in [("Nothing=prod", "Nothing"), ("prod-exams", "prod-exams"), ("x=", "x=")] {
            let error = Config::resolve(&Settings { tables: Some(tables.to_owned()), ..settings() });
            let error = error.expect_err("a wrong rename").to_string();
            assert!(error.contains("AFTERWRITE_TABLES") && error.contains(told), "{error}");
        }
    }

    #[test]
    fn a_projection_that_cannot_be_hosted_is_told() {
        let error =
            Config::resolve(&Settings { projections: Some("aggregate, teleport".to_owned()), ..settings() });
        let error = error.expect_err("an unknown projection").to_string();
        assert!(error.contains("AFTERWRITE_PROJECTIONS") && error.contains("teleport"), "{error}");
    }

    #[test]
    fn a_cache_is_optional_and_its_address_is_never_repeated() {
        assert!(cache(&Settings::default()).expect("unset").is_none());
        let with = |url: &str, cluster: Option<&str>| {
            let (cache_url, cache_cluster) = (Some(url.to_owned()), cluster.map(str::to_owned));
            cache(&Settings { cache_url, cache_cluster, ..Settings::default() })
        };
        for url in ["redis://127.0.0.1:6379", "rediss://user:secret@cache.example:6379"] {
            assert!(with(url, Some("true")).expect("an address").is_some());
        }
        for url in ["http://user:secret@cache.example", "secret", "redis://user:secret@"] {
            let error = with(url, None).expect_err("no address").to_string();
            assert!(error.contains("AFTERWRITE_CACHE_URL") && !error.contains("secret"), "{error}");
        }
        let error = with("redis://127.0.0.1", Some("yes")).expect_err("neither").to_string();
        assert!(error.contains("AFTERWRITE_CACHE_CLUSTER"), "{error}");
    }
}
