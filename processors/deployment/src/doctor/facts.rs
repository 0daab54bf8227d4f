//! The properties of a deployment, as requests that only read return them.

use std::collections::BTreeMap;
use std::time::Duration;

use afterwrite_model::record::Timestamp;
use afterwrite_model::{Error, ErrorKind, Result};
use serde::Deserialize;

/// The prefix of the verifier's reports in the bucket.
pub const REPORTS: &str = "reports/verify/";

/// The prefix under which Lambda writes failed records.
pub const FAILED_RECORDS: &str = "aws/lambda/";

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
    /// It could not be read, for this reason.
    NotRead(String),
}

impl<T> Looked<T> {
    /// The part, if it was found.
    pub fn found(&self) -> Option<&T> {
        match self {
            Self::Found(part) => Some(part),
            Self::Missing | Self::NotAllowed(_) | Self::NotNamed(_) | Self::NotRead(_) => None,
        }
    }
}

/// Everything that was looked at.
#[derive(Clone, Debug)]
pub struct DeploymentFacts {
    /// The tables whose streams are read, aligned with the model's: the source tables, and the state table if rollups are sources.
    pub tables: Vec<(String, Looked<TableFacts>)>,
    /// The state table.
    pub state_table: (String, Looked<TableFacts>),
    /// The event source mappings of each table's stream, aligned with the tables.
    pub mappings: Vec<Looked<Vec<MappingFacts>>>,
    /// The functions that these mappings name, by name.
    pub functions: BTreeMap<String, Looked<FunctionFacts>>,
    /// The bucket of archive and datasets.
    pub bucket: Looked<BucketFacts>,
    /// The queue between the bucket and the exporter.
    pub queue: Looked<QueueFacts>,
    /// The queues of stale paths that functions name, by their URLs.
    pub path_queues: BTreeMap<String, Looked<QueueFacts>>,
    /// The targets of events that functions or this process name, by the variable and the ARN.
    pub event_targets: BTreeMap<(String, String), Looked<EventTargetFacts>>,
    /// The variables of event targets in the environment of this process.
    pub own_event_settings: BTreeMap<String, String>,
    /// Requests that change nothing, sent with the caller's own permissions.
    pub dry_calls: Vec<DryCall>,
    /// Ages.
    pub freshness: FreshnessFacts,
    /// The newest verification.
    pub drift: DriftFacts,
    /// The buckets of failed records that mappings name, by name.
    pub failures: BTreeMap<String, Looked<FailureFacts>>,
    /// The parked items of the state table. `Missing`: it has no index that lists them.
    pub parked: Looked<ParkedFacts>,
    /// The time since the deployment's tables and mappings were created or changed, if it is known. A part that a new
    /// deployment does not have yet is not missing.
    pub unchanged_for: Option<Duration>,
}

/// The parked items of a state table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ParkedFacts {
    /// The items that were counted.
    pub items: u64,
    /// Whether there are more: the index was not read to its end.
    pub has_more: bool,
}

impl ParkedFacts {
    /// The number in words: `3`, or `30000 or more`.
    #[must_use]
    pub fn number_text(&self) -> String {
        or_more(self.items, self.has_more)
    }
}

/// A number that may be larger, in words: `3`, or `3 or more`.
#[must_use]
pub fn or_more(number: u64, has_more: bool) -> String {
    format!("{number}{}", if has_more { " or more" } else { "" })
}

/// A bus, a queue or a topic of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventTargetFacts {
    /// Whether it keeps the order of an item's events.
    pub is_fifo: bool,
}

/// A bucket of failed records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FailureFacts {
    /// The number of objects by the id of the mapping that wrote them.
    pub objects: BTreeMap<String, u64>,
    /// Whether there are more objects, which were not counted.
    pub has_more: bool,
    /// The time since the oldest of them was written.
    pub oldest: Duration,
}

/// A verification, by its report.
#[derive(Clone, Debug, PartialEq)]
pub enum DriftFacts {
    /// The number of differences in a file of `afterwrite verify --report FILE`.
    File(u64),
    /// The newest report of the verifier in the bucket.
    Bucket(Looked<DriftReport>),
}

/// A report of the verifier.
#[derive(Clone, Debug, PartialEq)]
pub struct DriftReport {
    /// The time since it was written.
    pub age: Duration,
    /// Its numbers.
    pub counts: DriftCounts,
}

/// The numbers of a report that are judged.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct DriftCounts {
    /// The share of items, rollups and rows that was judged.
    pub sample: f64,
    /// Rollups, items and rows that were judged.
    pub checked_targets: u64,
    /// Those that are wrong.
    pub drifted_targets: u64,
    /// Those that could not be decided.
    pub undecided_targets: u64,
    /// The object with the findings.
    pub findings: Option<String>,
}

impl DriftCounts {
    /// The numbers of a report in the bucket, `reports/verify/<time>.json`.
    ///
    /// # Errors
    /// `State` if the object is not a report.
    pub fn parse(key: &str, json: &[u8]) -> Result<Self> {
        serde_json::from_slice(json).map_err(|error| {
            Error::new(ErrorKind::State, "an object is not a report of the verifier")
                .with("object", key)
                .caused_by(error)
        })
    }
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
    /// The replicas of a global table in other regions.
    pub replicas: usize,
    /// The TTL attribute, if TTL is enabled.
    pub ttl: Option<Looked<String>>,
    /// Whether it can be restored to a point in time; `None` if that may not be looked at.
    pub is_recoverable: Option<bool>,
    /// When it was created.
    pub created: Option<Timestamp>,
}

/// A global secondary index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexFacts {
    /// Its name.
    pub name: String,
    /// Its key attributes, the attributes of the partition key first.
    pub keys: Vec<String>,
    /// How many of them are the partition key.
    pub in_partition: usize,
    /// Their types (`S`, `N`, `B`).
    pub types: Vec<String>,
    /// The attributes that it copies; `None` for all.
    pub copies: Option<Vec<String>>,
}

/// An event source mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappingFacts {
    /// Its id.
    pub id: String,
    /// The function: `<name>`, or `<name>:<alias>`.
    pub function: String,
    /// `Enabled`, `Disabled`, …
    pub state: String,
    /// When it was created, or changed last.
    pub modified: Option<Timestamp>,
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
    /// The filter patterns. If a key encrypts them, reading them needs permissions of its own.
    pub filters: Looked<Vec<String>>,
}

/// A function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FunctionFacts {
    /// The variables `AFTERWRITE_…` of its environment.
    pub environment: BTreeMap<String, String>,
    /// The seconds after which an invocation ends.
    pub timeout: u64,
    /// Its log group, if Lambda names it.
    pub log_group: Option<String>,
}

impl MappingFacts {
    /// The bucket of its failed records; `None` without one.
    #[must_use]
    pub fn failure_bucket(&self) -> Option<&str> {
        self.on_failure.as_deref()?.split_once(":s3:::").map(|(_, bucket)| bucket)
    }
}

/// The bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BucketFacts {
    /// Its name.
    pub name: String,
    /// Its notifications to queues: the queue's ARN and the prefix. `None` if they may not be looked at.
    pub notifications: Option<Vec<(String, String)>>,
    /// The objects under `archive/`; `None` if it may not be listed.
    pub archive: Option<ArchiveFacts>,
}

/// The layout of an archive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArchiveFacts {
    /// The newest hour, such as `archive/dt=2026-02-06/hh=10/`; `None` for an empty archive.
    pub newest: Option<String>,
    /// Prefixes and objects that are not of the layout `archive/dt=<day>/hh=<hour>/`: some of them.
    pub foreign: Vec<String>,
}

/// A queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueFacts {
    /// Its ARN.
    pub arn: String,
    /// The seconds for which a received message is hidden.
    pub visibility: u64,
    /// Messages in that queue; `None` without one.
    pub dead_letters: Option<Looked<u64>>,
    /// Messages that wait.
    pub waiting: u64,
    /// The function that receives its messages; `None` without a mapping.
    pub consumer: Option<Looked<QueueConsumer>>,
}

/// The function that receives a queue's messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueConsumer {
    /// Its name.
    pub function: String,
    /// The seconds after which an invocation ends.
    pub timeout: u64,
    /// The state of the mapping: `Enabled`, `Disabled`, …
    pub state: String,
    /// Whether single messages of a batch can be returned as failed.
    pub reports_item_failures: bool,
}

/// A request that changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DryCall {
    /// The permission that it needs.
    pub permission: &'static str,
    /// The table, the index, or the prefix of the bucket.
    pub subject: String,
    /// Whether it was allowed.
    pub is_allowed: bool,
}

/// Ages of the derived data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FreshnessFacts {
    /// The heartbeat of each table that has one.
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

/// An age in words, in the largest unit of which there are at least two: `119 s`, `3 min`, `47 h`, `8 days`.
#[must_use]
pub fn age_text(age: Duration) -> String {
    match age.as_secs() {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7_200 => format!("{} min", seconds / 60),
        seconds @ 7_200..172_800 => format!("{} h", seconds / 3_600),
        seconds => format!("{} days", seconds / 86_400),
    }
}

/// A wait in words, rounded up: `1 min`, `35 min`, `26 h`.
pub(crate) fn wait_text(wait: Duration) -> String {
    match wait.as_secs().div_ceil(60) {
        minutes @ 0..120 => format!("{minutes} min"),
        minutes => format!("{} h", minutes.div_ceil(60)),
    }
}

/// A number of things: `1 record`, `2 records`, `3 batches`.
pub fn count_text(number: impl TryInto<u64>, noun: &str) -> String {
    match number.try_into().unwrap_or(u64::MAX) {
        1 => format!("1 {noun}"),
        number if noun.ends_with("ch") => format!("{number} {noun}es"),
        number => format!("{number} {noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_has_the_largest_unit_of_which_there_are_two() {
        let ages = [0, 119, 120, 7_199, 7_200, 172_799, 172_800].map(Duration::from_secs).map(age_text);
        assert_eq!(ages, ["0 s", "119 s", "2 min", "119 min", "2 h", "47 h", "2 days"]);
    }

    #[test]
    fn a_wait_is_never_shown_shorter_than_it_is() {
        let waits = [1, 60, 61, 7_140, 7_141, 93_240].map(Duration::from_secs).map(wait_text);
        assert_eq!(waits, ["1 min", "1 min", "2 min", "119 min", "2 h", "26 h"]);
    }

    #[test]
    fn a_number_of_things_is_singular_for_one() {
        let texts =
            [(1, "record"), (2, "record"), (3, "batch")].map(|(number, noun)| count_text(number, noun));
        assert_eq!(texts, ["1 record", "2 records", "3 batches"]);
    }
}
