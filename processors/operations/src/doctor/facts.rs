//! The properties of a deployment, as requests that only read return them.

use std::collections::BTreeMap;
use std::time::Duration;

/// The result of a look at a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Looked<T> {
    /// The part.
    Found(T),
    /// It does not exist.
    Missing,
    /// The caller lacks this permission.
    NotAllowed(&'static str),
    /// No setting names it; this one would.
    NotNamed(&'static str),
}

impl<T> Looked<T> {
    /// The part, if it was found.
    pub fn found(&self) -> Option<&T> {
        match self {
            Self::Found(part) => Some(part),
            Self::Missing | Self::NotAllowed(_) | Self::NotNamed(_) => None,
        }
    }
}

/// Everything that was looked at.
#[derive(Clone, Debug)]
pub struct DeploymentFacts {
    /// The source tables, aligned with the model's.
    pub tables: Vec<(String, Looked<TableFacts>)>,
    /// The state table.
    pub state_table: (String, Looked<TableFacts>),
    /// The event source mappings of each source table's stream, aligned with the tables.
    pub mappings: Vec<Looked<Vec<MappingFacts>>>,
    /// The functions that these mappings name, by name.
    pub functions: BTreeMap<String, Looked<FunctionFacts>>,
    /// The bucket of archive and datasets.
    pub bucket: Looked<BucketFacts>,
    /// The queue between the bucket and the exporter.
    pub queue: Looked<QueueFacts>,
    /// Requests that change nothing, sent with the caller's own permissions.
    pub dry_calls: Vec<DryCall>,
    /// Ages.
    pub freshness: FreshnessFacts,
    /// The differences in a report of `verify`, if one is named.
    pub drift: Option<u64>,
}

/// A table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableFacts {
    /// Its key attributes, each with its type (`S`, `N`, `B`).
    pub key: Vec<(String, String)>,
    /// The view type of its stream, if it has one.
    pub stream_view: Option<String>,
    /// Its global secondary indexes.
    pub indexes: Vec<IndexFacts>,
    /// The replicas of a global table, this region aside.
    pub replicas: usize,
    /// The TTL attribute, if TTL is enabled.
    pub ttl: Option<Looked<String>>,
    /// Whether it can be restored to a point in time; `None` if that may not be looked at.
    pub is_recoverable: Option<bool>,
}

/// A global secondary index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexFacts {
    /// Its name.
    pub name: String,
    /// Its key attributes.
    pub keys: Vec<String>,
    /// The attributes that it copies; `None` for all.
    pub copies: Option<Vec<String>>,
}

/// An event source mapping.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MappingFacts {
    /// Its id.
    pub id: String,
    /// The function's name.
    pub function: String,
    /// `Enabled`, `Disabled`, …
    pub state: String,
    /// The result of the last run of Lambda's poller, if it was not `OK`.
    pub problem: Option<String>,
    /// `TRIM_HORIZON` or `LATEST`.
    pub starting_position: String,
    /// Whether single records of a batch can be returned as failed.
    pub reports_item_failures: bool,
    /// Whether a failed batch is cut in two.
    pub bisects: bool,
    /// The most attempts; `None` without a bound.
    pub retries: Option<u64>,
    /// The age at which a record is given up, in seconds; `None` without a bound.
    pub record_age: Option<u64>,
    /// The ARN of the on-failure destination.
    pub on_failure: Option<String>,
    /// The filter patterns.
    pub filters: Vec<String>,
}

/// A function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FunctionFacts {
    /// The variables `AFTERWRITE_…` of its environment.
    pub environment: BTreeMap<String, String>,
    /// The seconds after which an invocation ends.
    pub timeout: u64,
}

/// The bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BucketFacts {
    /// Its name.
    pub name: String,
    /// Its notifications to queues: the queue's ARN and the prefix. `None` if they may not be looked at.
    pub notifications: Option<Vec<(String, String)>>,
    /// Whether it has an object under `archive/`; `None` if it may not be listed.
    pub is_archived_to: Option<bool>,
}

/// A queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueFacts {
    /// Its ARN.
    pub arn: String,
    /// The seconds for which a received message is hidden.
    pub visibility: u64,
    /// Whether messages end in a dead-letter queue.
    pub has_dead_letters: bool,
    /// Messages in that queue, if it may be looked at.
    pub dead_letters: Option<u64>,
    /// Messages that wait.
    pub waiting: u64,
    /// The function that receives its messages, with its timeout in seconds; `None` without a mapping.
    pub consumer: Option<Looked<(String, u64)>>,
}

/// A request that changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DryCall {
    /// The permission that it needs.
    pub permission: &'static str,
    /// The table.
    pub subject: String,
    /// Whether it was allowed.
    pub is_allowed: bool,
}

/// Ages of what is derived.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FreshnessFacts {
    /// The heartbeat of each source table that has one.
    pub heartbeats: Vec<(String, LookedAge)>,
    /// The current rows of each dataset.
    pub datasets: Vec<(String, LookedAge)>,
}

/// The age of a heartbeat, or of a dataset's current rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LookedAge {
    /// As it was read.
    Known(Duration),
    /// There is no heartbeat, or there are no rows.
    Never,
    /// It could not be read, for this reason.
    NotRead(String),
}
