//! Changes of a job's item, and the conditions on them.

use afterwrite_model::Result;
use afterwrite_model::effect::{AttributeChange, WriteCondition};
use afterwrite_model::record::{AttributePath, AttributeValue};

use super::codec;
use super::state::{JobLease, JobState, JobStatus};

/// Sets an attribute.
pub(super) fn set(name: &str, value: AttributeValue<'static>) -> AttributeChange {
    AttributeChange::Set(AttributePath::from(name), value)
}

/// The job has another status.
pub(super) fn differs(status: JobStatus) -> WriteCondition {
    WriteCondition::Differs(AttributePath::from(codec::STATUS), AttributeValue::text(status.name()))
}

/// No operator has paused or stopped the job.
pub(super) fn is_running() -> WriteCondition {
    let running = AttributeValue::text(JobStatus::Running.name());
    WriteCondition::Equals(AttributePath::from(codec::STATUS), running)
}

/// This process has the lease.
pub(super) fn owned_by(lease: &JobLease) -> WriteCondition {
    WriteCondition::Equals(
        AttributePath::from(codec::LEASE_OWNER),
        AttributeValue::text(lease.owner.as_str()),
    )
}

/// Renews a lease.
pub(super) fn lease_changes(lease: &JobLease) -> Vec<AttributeChange> {
    vec![
        set(codec::LEASE_OWNER, AttributeValue::text(lease.owner.as_str())),
        set(codec::LEASE_UNTIL, codec::time_value(lease.until)),
    ]
}

/// Saves how far a job is.
pub(super) fn progress_changes(job: &JobState) -> Result<Vec<AttributeChange>> {
    let waiting = AttributePath::from(codec::WAITING);
    Ok(vec![
        match &job.waiting {
            Some(wait) => AttributeChange::Set(waiting, codec::wait_value(wait)?),
            None => AttributeChange::Remove(waiting),
        },
        set(codec::WORK, codec::json_value(&job.work)?),
        set(codec::TOTALS, codec::json_value(&job.totals)?),
        set(codec::UPDATED_AT, codec::time_value(job.updated_at)),
    ])
}
