//! The state of a job ⇄ the job as it is stored.

use std::collections::BTreeMap;

use afterwrite_ledger::state::job::{
    ARGUMENTS, BASIS, FIRST_PROGRESS, KIND, PLAN, StoredJob, TOTALS, WAITING, WORK, json_value, named,
    set_progress,
};
use afterwrite_model::Result;
use afterwrite_model::effect::AttributeChange;
use afterwrite_model::record::{AttributeValue, Item, Timestamp};

use super::state::JobState;
use super::wait::JobWait;
use super::work::{WorkSummary, WorkUnit};

/// The item of a job, without its key.
pub(super) fn encode(job: &JobState) -> Result<Item> {
    let mut json = BTreeMap::from([
        (ARGUMENTS, json_value(&job.arguments)?),
        (PLAN, json_value(&job.plan)?),
        (WORK, json_value(&job.work)?),
        (TOTALS, json_value(&job.totals)?),
    ]);
    if let Some(basis) = &job.basis {
        json.insert(BASIS, json_value(basis)?);
    }
    json.extend(wait_value(job)?.map(|wait| (WAITING, wait)));
    let stored = StoredJob {
        id: job.id.clone(),
        kind: job.kind.name().to_owned(),
        status: job.status,
        rate: job.rate,
        lease: job.lease.clone(),
        created_at: job.created_at,
        started_at: job.started_at,
        updated_at: job.updated_at,
        failure: job.failure.clone(),
        json,
    };
    Ok(stored.encode())
}

/// The job in an item that was read at this time of DynamoDB.
///
/// # Errors
/// [`State`](afterwrite_model::ErrorKind::State) if the item is not a job, or has a later form.
pub(super) fn decode(item: &Item, now: Timestamp) -> Result<JobState> {
    let stored = StoredJob::decode(item, now)?;
    let (work, basis) = if stored.json.contains_key(FIRST_PROGRESS) {
        let units: Vec<WorkUnit> = stored.parsed(FIRST_PROGRESS)?;
        (WorkSummary::of(units.iter()), None)
    } else {
        (stored.parsed(WORK)?, Some(stored.parsed(BASIS)?))
    };
    // The wait is absent if only a later version knows its reason.
    let wait = stored.parsed(WAITING).ok();
    Ok(JobState {
        kind: named(KIND, &stored.kind)?,
        arguments: stored.parsed(ARGUMENTS)?,
        basis,
        work,
        totals: stored.parsed(TOTALS)?,
        plan: stored.parsed(PLAN)?,
        waiting: wait.map(|(reason, until)| JobWait {
            reason,
            until: Timestamp::from_epoch_ms(until),
            differences: 0,
        }),
        id: stored.id,
        status: stored.status,
        rate: stored.rate,
        lease: stored.lease,
        created_at: stored.created_at,
        started_at: stored.started_at,
        updated_at: stored.updated_at,
        failure: stored.failure,
    })
}

/// Saves how far a job is.
pub(super) fn progress_changes(job: &JobState) -> Result<Vec<AttributeChange>> {
    let (work, totals) = (json_value(&job.work)?, json_value(&job.totals)?);
    let progress = [(WAITING, wait_value(job)?), (WORK, Some(work)), (TOTALS, Some(totals))];
    Ok(set_progress(progress, job.updated_at))
}

/// The wait of a job: its reason, and when it ends.
fn wait_value(job: &JobState) -> Result<Option<AttributeValue<'static>>> {
    job.waiting.map(|wait| json_value(&(wait.reason, wait.until.epoch_ms()))).transpose()
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use afterwrite_model::ErrorKind;

    use super::super::basis::JobBasis;
    use super::super::plan::JobPlan;
    use super::super::state::{JobKind, JobLease, JobStatus};
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
            waiting: Some(JobWait {
                reason: WaitReason::Tolerance,
                until: Timestamp::from_epoch_ms(9_000),
                differences: 0,
            }),
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
        for name in [ARGUMENTS, WORK, BASIS, TOTALS, PLAN] {
            let mut item = encode(&job()).unwrap();
            item.remove(name);
            let error = decode(&item, NOW).unwrap_err();
            assert!(error.kind() == ErrorKind::State && error.to_string().contains(name), "{error}");
        }
    }

    #[test]
    fn the_first_form_is_read() {
        let mut first = encode(&job()).unwrap();
        for name in ["version", WORK, BASIS] {
            first.remove(name);
        }
        let units = r#"[{"name":"a","phase":0,"is_done":true,"items":5,"bytes":6},{"name":"b","phase":1}]"#;
        first.insert(Cow::Borrowed(FIRST_PROGRESS), AttributeValue::text(units));
        assert_eq!(decode(&first, NOW).unwrap(), JobState { basis: None, ..job() });
    }
}
