//! A7: leases go by DynamoDB's time, whatever the clocks of the machines show.

use std::time::Duration;

use afterwrite_operations::jobs::{JobBasis, JobControl, JobReport, JobStatus};

use super::store::{NOW, new_job, store, tables};

const MINUTES: Duration = Duration::from_secs(120);

#[tokio::test]
async fn a7_a_machine_whose_clock_is_ahead_does_not_take_over_a_running_job() {
    let tables = tables();
    for owner_clock in [NOW, NOW.minus(MINUTES), NOW.plus(MINUTES)] {
        tables.set_time(NOW);
        let owner = store(&tables, owner_clock);
        let id = owner.create(new_job(1)).await.unwrap().id;
        owner.acquire(&id, &JobBasis::default()).await.unwrap();
        for clock in [NOW, NOW.minus(MINUTES), NOW.plus(MINUTES)] {
            // Names of processes are made of their time: two processes never have the same.
            let other = store(&tables, clock.plus(Duration::from_millis(1)));
            let refused = other.acquire(&id, &JobBasis::default()).await.unwrap_err().to_string();
            assert!(refused.contains("another process runs the job"), "{refused}");
            let report = JobReport::of(&other.load(&id).await.unwrap());
            assert!(report.next_steps[0].starts_with("afterwrite jobs pause"), "{:?}", report.next_steps);
        }
    }
}

#[tokio::test]
async fn a7_a_killed_job_is_resumed_a_minute_of_dynamodb_later_by_any_machine() {
    let tables = tables();
    for (clock, number) in [(NOW.minus(MINUTES), 1), (NOW.plus(MINUTES), 2)] {
        tables.set_time(NOW);
        let owner = store(&tables, NOW.plus(MINUTES));
        let id = owner.create(new_job(number)).await.unwrap().id;
        owner.acquire(&id, &JobBasis::default()).await.unwrap();
        tables.set_time(NOW.plus(Duration::from_secs(61)));
        let other = store(&tables, clock);
        let steps = JobReport::of(&other.load(&id).await.unwrap()).next_steps;
        assert!(steps[0].starts_with("afterwrite jobs resume"), "{steps:?}");
        let acquired = other.acquire(&id, &JobBasis::default()).await.unwrap();
        assert_eq!(acquired.state.status, JobStatus::Running);
    }
}

#[tokio::test]
async fn a7_a_killed_job_that_is_paused_names_the_time_from_which_it_can_be_resumed() {
    let tables = tables();
    let store = store(&tables, NOW.plus(MINUTES));
    let id = store.create(new_job(1)).await.unwrap().id;
    store.acquire(&id, &JobBasis::default()).await.unwrap();
    let report = JobReport::of(&store.load(&id).await.unwrap());
    assert_eq!(report.resumable_from, None, "it runs");
    let paused = JobReport::of(&store.control(&id, JobControl::Pause).await.unwrap());
    assert_eq!(paused.resumable_from.as_deref(), Some("2026-02-02T02:41:00Z"));
    assert!(!paused.next_steps.iter().any(|step| step.contains("resume")), "{:?}", paused.next_steps);
    tables.set_time(NOW.plus(Duration::from_secs(61)));
    let ended = JobReport::of(&store.load(&id).await.unwrap());
    assert_eq!(ended.resumable_from, None);
    assert!(ended.next_steps[0].starts_with("afterwrite jobs resume"), "{:?}", ended.next_steps);
}
