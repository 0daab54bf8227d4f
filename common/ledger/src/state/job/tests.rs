//! Tests of the stored job: the round trip, and the conditions of a lease.

use afterwrite_model::effect::condition::holds;
use afterwrite_model::effect::update::updated;
use proptest::option::of;
use proptest::prelude::*;

use super::*;

const NOW: Timestamp = Timestamp::from_epoch_ms(60_000);

fn time() -> impl Strategy<Value = Timestamp> {
    (0..4_000_000_000_000_i64).prop_map(Timestamp::from_epoch_ms)
}

fn lease() -> impl Strategy<Value = JobLease> {
    (".{1,12}", time()).prop_map(|(owner, until)| JobLease { owner, until, has_ended: until < NOW })
}

prop_compose! {
    fn job()(
        (id, kind) in (".{0,12}", ".{0,12}"), rate in of(0..u64::from(u32::MAX)), lease in of(lease()),
        (created_at, started_at, updated_at) in (time(), of(time()), time()), failure in of(".{0,12}"),
        json in proptest::collection::btree_map(proptest::sample::select(JSON.to_vec()), ".{0,12}", 0..7),
    ) -> StoredJob {
        let json = json.into_iter().map(|(name, text)| (name, AttributeValue::text(text))).collect();
        let status = JobStatus::Running;
        StoredJob { id, kind, status, rate, lease, created_at, started_at, updated_at, failure, json }
    }
}

proptest! {
    #[test]
    fn decoding_an_encoded_job_returns_the_job(job in job()) {
        prop_assert_eq!(StoredJob::decode(&job.clone().encode(), NOW).unwrap(), job);
    }

    #[test]
    fn a_lease_is_taken_after_its_end_only(job in job(), other in lease()) {
        let stored = job.clone().encode();
        let is_owner = job.lease.as_ref().is_some_and(|lease| lease.owner == other.owner);
        let is_free = is_owner || job.lease.is_none_or(|lease| lease.has_ended);
        prop_assert_eq!(holds(&is_free_for(&other, NOW, JobStatus::Running), Some(&stored)), is_free);
        prop_assert!(!holds(&is_free_for(&other, NOW, JobStatus::Paused), Some(&stored)) || is_owner);
        let taken = updated(stored, &set_lease(Some(&other))).unwrap();
        prop_assert!(holds(&is_run_by(&other), Some(&taken)) && holds(&has_not_ended(), Some(&taken)));
        let stopped = updated(taken, &[set_status(JobStatus::Stopped)]).unwrap();
        prop_assert!(!holds(&is_run_by(&other), Some(&stopped)) && !holds(&has_not_ended(), Some(&stopped)));
        prop_assert!(holds(&is_owned_by(&other), Some(&stopped)) && !holds(&has_not_ended(), None));
        let released = updated(stopped, &set_lease(None)).unwrap();
        prop_assert_eq!(StoredJob::decode(&released, NOW).unwrap().lease, None);
    }

    #[test]
    fn every_attribute_that_is_needed_is_named_if_it_is_missing(job in job()) {
        for name in [ID, KIND, STATUS, CREATED_AT, UPDATED_AT] {
            let mut item = job.clone().encode();
            item.remove(name);
            let error = StoredJob::decode(&item, NOW).unwrap_err();
            prop_assert!(error.kind() == ErrorKind::State && error.to_string().contains(name), "{error}");
        }
        let mut later = job.encode();
        later.insert(VERSION.into(), number_value(3));
        let error = StoredJob::decode(&later, NOW).unwrap_err().to_string();
        prop_assert!(error.contains("later version") && error.contains("stored form: 3"), "{error}");
    }
}
