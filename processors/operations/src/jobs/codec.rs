//! A job ⇄ its item in the state table; the changes of that item and the conditions on them.
//!
//! | `version` | form |
//! |---|---|
//! | absent | the first form: `progress` has the units themselves, and nothing states what the job runs on. It is shown, paused and stopped, and not resumed |
//! | 2 | `work` has the units in numbers, and `basis` what the job runs on; the units are in [items of their own](super::units) |

use std::borrow::Cow;

use afterwrite_ledger::OperationItem;
use afterwrite_model::effect::{AttributeChange, WriteCondition};
use afterwrite_model::record::{AttributePath, AttributeValue, Decimal, Item, Timestamp};
use afterwrite_model::{Error, ErrorKind, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::state::{JobLease, JobState, JobStatus};
use super::wait::JobWait;
use super::work::{WorkSummary, WorkUnit};

/// The stored form that this version writes.
const CURRENT_VERSION: u64 = 2;

pub(super) const ID: &str = "id";
pub(super) const STATUS: &str = "status";
pub(super) const RATE: &str = "rate";
pub(super) const WORK: &str = "work";
pub(super) const TOTALS: &str = "totals";
pub(super) const LEASE_OWNER: &str = "lease_owner";
pub(super) const LEASE_UNTIL: &str = "lease_until";
pub(super) const STARTED_AT: &str = "started_at";
pub(super) const UPDATED_AT: &str = "updated_at";
pub(super) const FAILURE: &str = "failure";
const VERSION: &str = "version";
/// The units, in the first form.
const FIRST_PROGRESS: &str = "progress";
const BASIS: &str = "basis";
pub(super) const WAITING: &str = "waiting";
const KIND: &str = "kind";
const ARGUMENTS: &str = "arguments";
const PLAN: &str = "plan";
const CREATED_AT: &str = "created_at";

/// The item of a job, without its key.
pub(super) fn encode(job: &JobState) -> Result<Item> {
    let mut item = OperationItem::Job.empty_item();
    let mut set =
        |name: &'static str, value: AttributeValue<'static>| item.insert(Cow::Borrowed(name), value);
    set(VERSION, number_value(CURRENT_VERSION));
    set(ID, AttributeValue::text(job.id.as_str()));
    set(KIND, AttributeValue::text(job.kind.name()));
    set(STATUS, AttributeValue::text(job.status.name()));
    set(ARGUMENTS, AttributeValue::text(job.arguments.to_string()));
    set(PLAN, json_value(&job.plan)?);
    set(WORK, json_value(&job.work)?);
    set(TOTALS, json_value(&job.totals)?);
    set(CREATED_AT, time_value(job.created_at));
    set(UPDATED_AT, time_value(job.updated_at));
    if let Some(basis) = &job.basis {
        set(BASIS, json_value(basis)?);
    }
    if let Some(rate) = job.rate {
        set(RATE, number_value(rate));
    }
    if let Some(started_at) = job.started_at {
        set(STARTED_AT, time_value(started_at));
    }
    if let Some(lease) = &job.lease {
        set(LEASE_OWNER, AttributeValue::text(lease.owner.as_str()));
        set(LEASE_UNTIL, time_value(lease.until));
    }
    if let Some(failure) = &job.failure {
        set(FAILURE, AttributeValue::text(failure.as_str()));
    }
    if let Some(wait) = &job.waiting {
        set(WAITING, wait_value(wait)?);
    }
    Ok(item)
}

/// The job in an item that was read at this time of DynamoDB.
///
/// # Errors
/// [`ErrorKind::State`] if the item is not a job, or has a later form.
pub(super) fn decode(item: &Item, now: Timestamp) -> Result<JobState> {
    let lease = match (text(item, LEASE_OWNER), time(item, LEASE_UNTIL)) {
        (Some(owner), Some(until)) => {
            Some(JobLease { owner: owner.to_owned(), until, has_ended: until < now })
        }
        _ => None,
    };
    let version = number(item, VERSION).unwrap_or(1);
    if version > CURRENT_VERSION {
        return Err(Error::new(ErrorKind::State, "a later version of afterwrite created the job")
            .with("stored form", version.to_string())
            .with("readable forms", format!("1 to {CURRENT_VERSION}"))
            .hint("Use that version for this job"));
    }
    let (work, basis) = if version == 1 {
        let units: Vec<WorkUnit> = parsed(item, FIRST_PROGRESS)?;
        (WorkSummary::of(units.iter()), None)
    } else {
        (parsed(item, WORK)?, Some(parsed(item, BASIS)?))
    };
    let named = |name: &'static str| text(item, name).map(Value::from).ok_or_else(|| unreadable(name));
    Ok(JobState {
        id: text(item, ID).ok_or_else(|| unreadable(ID))?.to_owned(),
        kind: serde_json::from_value(named(KIND)?).map_err(|error| unreadable(KIND).caused_by(error))?,
        status: serde_json::from_value(named(STATUS)?)
            .map_err(|error| unreadable(STATUS).caused_by(error))?,
        arguments: parsed(item, ARGUMENTS)?,
        work,
        basis,
        totals: parsed(item, TOTALS)?,
        plan: parsed(item, PLAN)?,
        rate: number(item, RATE),
        lease,
        created_at: time(item, CREATED_AT).ok_or_else(|| unreadable(CREATED_AT))?,
        started_at: time(item, STARTED_AT),
        updated_at: time(item, UPDATED_AT).ok_or_else(|| unreadable(UPDATED_AT))?,
        failure: text(item, FAILURE).map(str::to_owned),
        waiting: wait(item),
    })
}

/// Sets an attribute.
pub(super) fn set(name: &str, value: AttributeValue<'static>) -> AttributeChange {
    AttributeChange::Set(AttributePath::from(name), value)
}

/// The job has another status.
pub(super) fn differs(status: JobStatus) -> WriteCondition {
    WriteCondition::Differs(AttributePath::from(STATUS), AttributeValue::text(status.name()))
}

/// No operator has paused or stopped the job.
pub(super) fn is_running() -> WriteCondition {
    let running = AttributeValue::text(JobStatus::Running.name());
    WriteCondition::Equals(AttributePath::from(STATUS), running)
}

/// This process has the lease.
pub(super) fn owned_by(lease: &JobLease) -> WriteCondition {
    WriteCondition::Equals(AttributePath::from(LEASE_OWNER), AttributeValue::text(lease.owner.as_str()))
}

/// Renews a lease.
pub(super) fn lease_changes(lease: &JobLease) -> Vec<AttributeChange> {
    vec![
        set(LEASE_OWNER, AttributeValue::text(lease.owner.as_str())),
        set(LEASE_UNTIL, time_value(lease.until)),
    ]
}

/// Saves how far a job is.
pub(super) fn progress_changes(job: &JobState) -> Result<Vec<AttributeChange>> {
    let waiting = AttributePath::from(WAITING);
    Ok(vec![
        match &job.waiting {
            Some(wait) => AttributeChange::Set(waiting, wait_value(wait)?),
            None => AttributeChange::Remove(waiting),
        },
        set(WORK, json_value(&job.work)?),
        set(TOTALS, json_value(&job.totals)?),
        set(UPDATED_AT, time_value(job.updated_at)),
    ])
}

/// A value as JSON text.
pub(super) fn json_value(value: &impl Serialize) -> Result<AttributeValue<'static>> {
    let json = serde_json::to_string(value).map_err(|error| {
        Error::new(ErrorKind::State, "the state of a job cannot be encoded").caused_by(error)
    })?;
    Ok(AttributeValue::text(json))
}

/// A wait: its reason, and when it ends.
pub(super) fn wait_value(wait: &JobWait) -> Result<AttributeValue<'static>> {
    json_value(&(wait.reason, wait.until.epoch_ms()))
}

/// The wait of a job. It is absent if only a later version knows its reason.
fn wait(item: &Item) -> Option<JobWait> {
    let (reason, until) = serde_json::from_str(text(item, WAITING)?).ok()?;
    Some(JobWait { reason, until: Timestamp::from_epoch_ms(until) })
}

/// A time in epoch milliseconds.
pub(super) fn time_value(time: Timestamp) -> AttributeValue<'static> {
    Decimal::from(time.epoch_ms()).into()
}

/// A time in epoch seconds, as DynamoDB expects the time at which an item expires.
pub(super) fn time_in_seconds(time: Timestamp) -> AttributeValue<'static> {
    Decimal::from(time.epoch_seconds()).into()
}

/// A whole number.
pub(super) fn number_value(number: u64) -> AttributeValue<'static> {
    Decimal::from(i64::try_from(number).unwrap_or(i64::MAX)).into()
}

/// The value in an attribute with JSON.
pub(super) fn parsed<T: DeserializeOwned>(item: &Item, name: &'static str) -> Result<T> {
    let json = text(item, name).ok_or_else(|| unreadable(name))?;
    serde_json::from_str(json).map_err(|error| unreadable(name).caused_by(error))
}

fn text<'i>(item: &'i Item, name: &str) -> Option<&'i str> {
    item.get(name).and_then(AttributeValue::as_text)
}

fn number(item: &Item, name: &str) -> Option<u64> {
    item.get(name).and_then(AttributeValue::as_number)?.to_i64().and_then(|number| u64::try_from(number).ok())
}

fn time(item: &Item, name: &str) -> Option<Timestamp> {
    item.get(name).and_then(AttributeValue::as_number)?.to_i64().map(Timestamp::from_epoch_ms)
}

fn unreadable(attribute: &'static str) -> Error {
    Error::new(ErrorKind::State, "a job in the state table cannot be read")
        .with("attribute", attribute)
        .hint("Use the version of afterwrite that created the job, or create the job again")
}

#[cfg(test)]
mod tests {
    use super::super::basis::JobBasis;
    use super::super::plan::JobPlan;
    use super::super::state::JobKind;
    use super::super::wait::WaitReason;
    use super::*;

    const NOW: Timestamp = Timestamp::from_epoch_ms(60_000);

    fn job() -> JobState {
        JobState {
            id: "backfill-1".to_owned(),
            kind: JobKind::Backfill,
            arguments: serde_json::json!({ "only": { "a": "b" } }),
            basis: Some(JobBasis::default()),
            status: JobStatus::Running,
            work: WorkSummary { units: 2, units_done: 1, items: 5, bytes: 6 },
            rate: Some(100),
            totals: [("reconciled", 3)].into(),
            plan: JobPlan { items: 10, ..JobPlan::default() },
            lease: Some(JobLease {
                owner: "p".to_owned(),
                until: Timestamp::from_epoch_ms(61_500),
                has_ended: false,
            }),
            created_at: Timestamp::from_epoch_ms(1),
            started_at: Some(Timestamp::from_epoch_ms(2)),
            updated_at: Timestamp::from_epoch_ms(3),
            failure: Some("a reason".to_owned()),
            waiting: Some(JobWait { reason: WaitReason::Tolerance, until: Timestamp::from_epoch_ms(9_000) }),
        }
    }

    #[test]
    fn decoding_an_encoded_job_returns_the_job() {
        let full = job();
        let empty =
            JobState { rate: None, lease: None, started_at: None, failure: None, waiting: None, ..job() };
        for job in [full, empty] {
            assert_eq!(decode(&encode(&job).unwrap(), NOW).unwrap(), job);
        }
        let later = decode(&encode(&job()).unwrap(), Timestamp::from_epoch_ms(62_000)).unwrap();
        assert!(later.lease.unwrap().has_ended);
    }

    #[test]
    fn every_attribute_that_is_needed_is_named_if_it_is_missing() {
        for name in [ID, KIND, STATUS, ARGUMENTS, WORK, BASIS, TOTALS, PLAN, CREATED_AT, UPDATED_AT] {
            let mut item = encode(&job()).unwrap();
            item.remove(name);
            let error = decode(&item, NOW).unwrap_err();
            assert!(error.kind() == ErrorKind::State && error.to_string().contains(name), "{error}");
        }
    }

    #[test]
    fn the_first_form_is_read_and_a_later_one_is_named() {
        let mut first = encode(&job()).unwrap();
        for name in [VERSION, WORK, BASIS] {
            first.remove(name);
        }
        let units = r#"[{"name":"a","phase":0,"is_done":true,"items":5,"bytes":6},{"name":"b","phase":1}]"#;
        first.insert(Cow::Borrowed(FIRST_PROGRESS), AttributeValue::text(units));
        assert_eq!(decode(&first, NOW).unwrap(), JobState { basis: None, ..job() });
        let mut later = encode(&job()).unwrap();
        later.insert(Cow::Borrowed(VERSION), number_value(3));
        let error = decode(&later, NOW).unwrap_err().to_string();
        assert!(error.contains("later version") && error.contains("stored form: 3"), "{error}");
    }
}
