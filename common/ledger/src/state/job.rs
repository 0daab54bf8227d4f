//! A job: its status, the lease of the process that runs it, and JSON that the ledger does not read.
//!
//! | `version` | form of a job |
//! |---|---|
//! | absent | the first form: `progress` has the units themselves, and nothing states what the job runs on. It is shown, paused and stopped, and not resumed |
//! | 2 | `work` has the units in numbers, and `basis` what the job runs on; the units are in [items of their own](super::units) |

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use afterwrite_model::effect::{AttributeChange, ItemKey, WriteCondition};
use afterwrite_model::record::{AttributePath, AttributeValue, Item, Timestamp};
use afterwrite_model::{Error, ErrorKind, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{UPDATED_AT, item_of_type, number_value, set, time_value, unsorted_key};

/// The beginning of the partition keys of jobs, of their list and of their units.
pub const JOB_PREFIX: &str = "AFTERWRITE#JOB#";
pub(super) const JOB_TYPE: &str = "JOB";

/// The stored form that this version writes.
const CURRENT_VERSION: u64 = 2;

const VERSION: &str = "version";
const ID: &str = "id";
const STATUS: &str = "status";
const RATE: &str = "rate";
const LEASE_OWNER: &str = "lease_owner";
const LEASE_UNTIL: &str = "lease_until";
const CREATED_AT: &str = "created_at";
const STARTED_AT: &str = "started_at";
const FAILURE: &str = "failure";

/// The name of the job's kind.
pub const KIND: &str = "kind";
/// The arguments, as JSON.
pub const ARGUMENTS: &str = "arguments";
/// The basis that the job was planned for, as JSON.
pub const BASIS: &str = "basis";
/// The units, as JSON, in the first form.
pub const FIRST_PROGRESS: &str = "progress";
/// The estimate, as JSON.
pub const PLAN: &str = "plan";
/// The counters, as JSON.
pub const TOTALS: &str = "totals";
/// The wait of all steps, as JSON.
pub const WAITING: &str = "waiting";
/// The units in numbers, as JSON.
pub const WORK: &str = "work";
const JSON: [&str; 7] = [ARGUMENTS, BASIS, FIRST_PROGRESS, PLAN, TOTALS, WAITING, WORK];

/// The status of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobStatus {
    /// Created, never started.
    Planned,
    /// A process runs it, or was killed while it did.
    Running,
    /// An operator paused it.
    Paused,
    /// An operator stopped it for good.
    Stopped,
    /// Every unit is done.
    Done,
    /// A step failed. The job can be resumed at the last saved cursors.
    Failed,
}

impl JobStatus {
    /// The name in items and results.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Planned => "planned",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Stopped => "stopped",
            Self::Done => "done",
            Self::Failed => "failed",
        }
    }

    /// Whether a process may start or continue the job, once no other process has its lease.
    #[must_use]
    pub fn can_run(self) -> bool {
        match self {
            Self::Planned | Self::Running | Self::Paused | Self::Failed => true,
            Self::Stopped | Self::Done => false,
        }
    }
}

/// The right of one process to run a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobLease {
    /// A random name of the process.
    pub owner: String,
    /// When the lease ends unless it is renewed, by DynamoDB's time.
    pub until: Timestamp,
    /// Whether it had ended when the job was read, by DynamoDB's time: its process was killed, or cannot reach the table.
    pub has_ended: bool,
}

/// A job as it is stored.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredJob {
    /// Its id, unique within the state table.
    pub id: String,
    /// The name of its kind.
    pub kind: String,
    /// Its status.
    pub status: JobStatus,
    /// The most items a second; `None` for no limit.
    pub rate: Option<u64>,
    /// The process that runs it.
    pub lease: Option<JobLease>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was started first.
    pub started_at: Option<Timestamp>,
    /// When its state was saved last.
    pub updated_at: Timestamp,
    /// Why it failed, without contents of items.
    pub failure: Option<String>,
    /// Its other attributes, as JSON.
    pub json: BTreeMap<&'static str, AttributeValue<'static>>,
}

impl StoredJob {
    /// The item to store, without its key.
    #[must_use]
    pub fn encode(self) -> Item {
        let text = AttributeValue::text;
        let mut item = item_of_type(JOB_TYPE);
        let (owner, until) = self.lease.map(|lease| (lease.owner, lease.until)).unzip();
        let attributes = [
            (VERSION, Some(number_value(CURRENT_VERSION))),
            (ID, Some(text(self.id))),
            (KIND, Some(text(self.kind))),
            (STATUS, Some(self.status.name().into())),
            (RATE, self.rate.map(number_value)),
            (LEASE_OWNER, owner.map(text)),
            (LEASE_UNTIL, until.map(time_value)),
            (CREATED_AT, Some(time_value(self.created_at))),
            (STARTED_AT, self.started_at.map(time_value)),
            (UPDATED_AT, Some(time_value(self.updated_at))),
            (FAILURE, self.failure.map(text)),
        ];
        let present = attributes.into_iter().filter_map(|(name, value)| Some((name, value?)));
        item.extend(present.chain(self.json).map(|(name, value)| (Cow::Borrowed(name), value)));
        item
    }

    /// The job in an item that was read at this time of DynamoDB.
    ///
    /// # Errors
    /// [`ErrorKind::State`] if the item is not a job, or has a later form.
    pub fn decode(item: &Item, now: Timestamp) -> Result<Self> {
        let text = |name: &str| item.get(name).and_then(AttributeValue::as_text);
        let integer = |name: &str| item.get(name).and_then(AttributeValue::as_number)?.to_i64();
        let number = |name: &str| integer(name).and_then(|number| u64::try_from(number).ok());
        let time = |name: &str| integer(name).map(Timestamp::from_epoch_ms);
        check_version(number(VERSION).unwrap_or(1))?;
        let required = |name: &'static str| text(name).ok_or_else(|| unreadable(name));
        let lease = text(LEASE_OWNER).zip(time(LEASE_UNTIL));
        let json = JSON.into_iter().filter_map(|name| Some((name, item.get(name)?.clone())));
        Ok(Self {
            id: required(ID)?.to_owned(),
            kind: required(KIND)?.to_owned(),
            status: named(STATUS, required(STATUS)?)?,
            rate: number(RATE),
            lease: lease.map(|(owner, until)| JobLease {
                owner: owner.into(),
                until,
                has_ended: until < now,
            }),
            created_at: time(CREATED_AT).ok_or_else(|| unreadable(CREATED_AT))?,
            started_at: time(STARTED_AT),
            updated_at: time(UPDATED_AT).ok_or_else(|| unreadable(UPDATED_AT))?,
            failure: text(FAILURE).map(str::to_owned),
            json: json.collect(),
        })
    }

    /// The value of an attribute with JSON.
    ///
    /// # Errors
    /// [`ErrorKind::State`] if the attribute is missing or of another type.
    pub fn parsed<T: DeserializeOwned>(&self, name: &'static str) -> Result<T> {
        parsed(name, self.json.get(name).and_then(AttributeValue::as_text))
    }
}

fn check_version(version: u64) -> Result<()> {
    if version <= CURRENT_VERSION {
        return Ok(());
    }
    Err(Error::new(ErrorKind::State, "a later version of afterwrite created the job")
        .with("stored form", version.to_string())
        .with("readable forms", format!("1 to {CURRENT_VERSION}"))
        .hint("Use that version for this job"))
}

/// The key of a job.
#[must_use]
pub fn key(state_table: &Arc<str>, id: &str) -> ItemKey {
    unsorted_key(state_table, JOB_PREFIX, id)
}

/// The job is neither done nor stopped.
#[must_use]
pub fn has_not_ended() -> WriteCondition {
    WriteCondition::All(vec![differs_from(JobStatus::Done), differs_from(JobStatus::Stopped)])
}

/// The job has not ended, and no step of it has failed. A failed job stays failed until a process continues it.
#[must_use]
pub fn can_be_paused() -> WriteCondition {
    WriteCondition::All(vec![has_not_ended(), differs_from(JobStatus::Failed)])
}

/// No other process has the lease at this time of DynamoDB, and the job still has the status that was read.
#[must_use]
pub fn is_free_for(lease: &JobLease, now: Timestamp, read: JobStatus) -> WriteCondition {
    let is_free = WriteCondition::Any(vec![
        WriteCondition::Absent(AttributePath::from(LEASE_OWNER)),
        WriteCondition::Less(AttributePath::from(LEASE_UNTIL), time_value(now)),
    ]);
    // The response to an earlier attempt may have been lost.
    WriteCondition::Any(vec![WriteCondition::All(vec![is_free, has_status(read)]), is_owned_by(lease)])
}

/// This process has the lease.
#[must_use]
pub fn is_owned_by(lease: &JobLease) -> WriteCondition {
    WriteCondition::Equals(AttributePath::from(LEASE_OWNER), AttributeValue::text(lease.owner.clone()))
}

/// This process has the lease, and no operator has paused or stopped the job.
#[must_use]
pub fn is_run_by(lease: &JobLease) -> WriteCondition {
    WriteCondition::All(vec![is_owned_by(lease), has_status(JobStatus::Running)])
}

fn has_status(status: JobStatus) -> WriteCondition {
    WriteCondition::Equals(AttributePath::from(STATUS), AttributeValue::text(status.name()))
}

fn differs_from(status: JobStatus) -> WriteCondition {
    WriteCondition::Differs(AttributePath::from(STATUS), AttributeValue::text(status.name()))
}

/// Sets the status.
#[must_use]
pub fn set_status(status: JobStatus) -> AttributeChange {
    set(STATUS, status.name().into())
}

/// Sets the most items a second.
#[must_use]
pub fn set_rate(rate: Option<u64>) -> AttributeChange {
    set_or_remove(RATE, rate.map(number_value))
}

/// Sets why the job failed.
#[must_use]
pub fn set_failure(failure: Option<&str>) -> AttributeChange {
    set_or_remove(FAILURE, failure.map(|failure| AttributeValue::text(failure.to_owned())))
}

/// Takes, renews or gives up the lease.
#[must_use]
pub fn set_lease(lease: Option<&JobLease>) -> [AttributeChange; 2] {
    let owner = lease.map(|lease| AttributeValue::text(lease.owner.clone()));
    let until = lease.map(|lease| time_value(lease.until));
    [set_or_remove(LEASE_OWNER, owner), set_or_remove(LEASE_UNTIL, until)]
}

/// Sets when the job was started first, and when its state is saved.
#[must_use]
pub fn set_started(started_at: Timestamp, updated_at: Timestamp) -> [AttributeChange; 2] {
    [set(STARTED_AT, time_value(started_at)), set(UPDATED_AT, time_value(updated_at))]
}

/// Sets how far the job is: attributes with JSON, and when its state is saved.
#[must_use]
pub fn set_progress<const N: usize>(
    progress: [(&'static str, Option<AttributeValue<'static>>); N],
    updated_at: Timestamp,
) -> Vec<AttributeChange> {
    let changes = progress.into_iter().map(|(name, value)| set_or_remove(name, value));
    changes.chain([set(UPDATED_AT, time_value(updated_at))]).collect()
}

/// A value as JSON text.
///
/// # Errors
/// [`ErrorKind::State`] if the value cannot be encoded.
pub fn json_value(value: &impl Serialize) -> Result<AttributeValue<'static>> {
    let json = serde_json::to_string(value).map_err(|error| {
        Error::new(ErrorKind::State, "the state of a job cannot be encoded").caused_by(error)
    })?;
    Ok(AttributeValue::text(json))
}

/// The value that has this name.
///
/// # Errors
/// [`ErrorKind::State`], with the attribute that has the name.
pub fn named<T: DeserializeOwned>(attribute: &'static str, name: &str) -> Result<T> {
    serde_json::from_value(name.into()).map_err(|error| unreadable(attribute).caused_by(error))
}

pub(super) fn parsed<T: DeserializeOwned>(attribute: &'static str, json: Option<&str>) -> Result<T> {
    let json = json.ok_or_else(|| unreadable(attribute))?;
    serde_json::from_str(json).map_err(|error| unreadable(attribute).caused_by(error))
}

fn set_or_remove(name: &str, value: Option<AttributeValue<'static>>) -> AttributeChange {
    let path = AttributePath::from(name);
    value.map_or(AttributeChange::Remove(path.clone()), |value| AttributeChange::Set(path, value))
}

fn unreadable(attribute: &'static str) -> Error {
    Error::new(ErrorKind::State, "a job in the state table cannot be read")
        .with("attribute", attribute)
        .hint("Use the version of afterwrite that created the job, or create the job again")
}

#[cfg(test)]
mod tests;
