//! A job ⇄ its item in the state table.

use std::borrow::Cow;

use afterwrite::commit::OperationItem;
use afterwrite::record::{AttributeValue, Decimal, Item, Timestamp};
use afterwrite::{Error, ErrorKind, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::state::{JobLease, JobState};

pub(super) const ID: &str = "id";
pub(super) const STATUS: &str = "status";
pub(super) const RATE: &str = "rate";
pub(super) const PROGRESS: &str = "progress";
pub(super) const TOTALS: &str = "totals";
pub(super) const LEASE_OWNER: &str = "lease_owner";
pub(super) const LEASE_UNTIL: &str = "lease_until";
pub(super) const STARTED_AT: &str = "started_at";
pub(super) const UPDATED_AT: &str = "updated_at";
pub(super) const FAILURE: &str = "failure";
const KIND: &str = "kind";
const ARGUMENTS: &str = "arguments";
const PLAN: &str = "plan";
const CREATED_AT: &str = "created_at";

/// The item of a job, without its key.
pub(super) fn encode(job: &JobState) -> Result<Item> {
    let mut item = OperationItem::Job.empty_item();
    let mut set =
        |name: &'static str, value: AttributeValue<'static>| item.insert(Cow::Borrowed(name), value);
    set(ID, AttributeValue::text(job.id.as_str()));
    set(KIND, AttributeValue::text(job.kind.name()));
    set(STATUS, AttributeValue::text(job.status.name()));
    set(ARGUMENTS, AttributeValue::text(job.arguments.to_string()));
    set(PLAN, json_value(&job.plan)?);
    set(PROGRESS, json_value(&job.units)?);
    set(TOTALS, json_value(&job.totals)?);
    set(CREATED_AT, time_value(job.created_at));
    set(UPDATED_AT, time_value(job.updated_at));
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
    Ok(item)
}

/// The job in an item.
///
/// # Errors
/// [`ErrorKind::State`] if the item is not a job.
pub(super) fn decode(item: &Item) -> Result<JobState> {
    let lease = match (text(item, LEASE_OWNER), time(item, LEASE_UNTIL)) {
        (Some(owner), Some(until)) => Some(JobLease { owner: owner.to_owned(), until }),
        _ => None,
    };
    let named = |name: &'static str| text(item, name).map(Value::from).ok_or_else(|| unreadable(name));
    Ok(JobState {
        id: text(item, ID).ok_or_else(|| unreadable(ID))?.to_owned(),
        kind: serde_json::from_value(named(KIND)?).map_err(|error| unreadable(KIND).caused_by(error))?,
        status: serde_json::from_value(named(STATUS)?)
            .map_err(|error| unreadable(STATUS).caused_by(error))?,
        arguments: parsed(item, ARGUMENTS)?,
        units: parsed(item, PROGRESS)?,
        totals: parsed(item, TOTALS)?,
        plan: parsed(item, PLAN)?,
        rate: number(item, RATE),
        lease,
        created_at: time(item, CREATED_AT).ok_or_else(|| unreadable(CREATED_AT))?,
        started_at: time(item, STARTED_AT),
        updated_at: time(item, UPDATED_AT).ok_or_else(|| unreadable(UPDATED_AT))?,
        failure: text(item, FAILURE).map(str::to_owned),
    })
}

/// A value as JSON text.
pub(super) fn json_value(value: &impl Serialize) -> Result<AttributeValue<'static>> {
    let json = serde_json::to_string(value).map_err(|error| {
        Error::new(ErrorKind::State, "the state of a job cannot be encoded").caused_by(error)
    })?;
    Ok(AttributeValue::text(json))
}

/// A time in epoch milliseconds.
pub(super) fn time_value(time: Timestamp) -> AttributeValue<'static> {
    Decimal::from(time.epoch_ms()).into()
}

/// A whole number.
pub(super) fn number_value(number: u64) -> AttributeValue<'static> {
    Decimal::from(i64::try_from(number).unwrap_or(i64::MAX)).into()
}

fn parsed<T: DeserializeOwned>(item: &Item, name: &'static str) -> Result<T> {
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
    use super::super::plan::JobPlan;
    use super::super::state::{JobKind, JobStatus, WorkUnit};
    use super::*;

    fn job() -> JobState {
        let unit =
            WorkUnit { cursor: Some(Value::from("x")), items: 5, bytes: 6, ..WorkUnit::new("main/0", 1) };
        JobState {
            id: "backfill-1".to_owned(),
            kind: JobKind::Backfill,
            arguments: serde_json::json!({ "only": { "a": "b" } }),
            status: JobStatus::Running,
            units: vec![unit, WorkUnit::new("main/1", 1)],
            rate: Some(100),
            totals: [("reconciled".to_owned(), 3)].into(),
            plan: JobPlan { items: 10, ..JobPlan::default() },
            lease: Some(JobLease { owner: "p".to_owned(), until: Timestamp::from_epoch_ms(61_500) }),
            created_at: Timestamp::from_epoch_ms(1),
            started_at: Some(Timestamp::from_epoch_ms(2)),
            updated_at: Timestamp::from_epoch_ms(3),
            failure: Some("a reason".to_owned()),
        }
    }

    #[test]
    fn decoding_an_encoded_job_returns_the_job() {
        let full = job();
        let empty = JobState { rate: None, lease: None, started_at: None, failure: None, ..job() };
        for job in [full, empty] {
            assert_eq!(decode(&encode(&job).unwrap()).unwrap(), job);
        }
    }

    #[test]
    fn every_attribute_that_is_needed_is_named_if_it_is_missing() {
        for name in [ID, KIND, STATUS, ARGUMENTS, PROGRESS, TOTALS, PLAN, CREATED_AT, UPDATED_AT] {
            let mut item = encode(&job()).unwrap();
            item.remove(name);
            let error = decode(&item).unwrap_err();
            assert!(error.kind() == ErrorKind::State && error.to_string().contains(name), "{error}");
        }
    }
}
