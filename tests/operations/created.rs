//! Jobs as tests create them: without arguments and a plan, on a basis that is always the same.

use std::sync::Arc;

use afterwrite_ledger::tables::Tables;
use afterwrite_model::Result;
use afterwrite_model::clock::Clock as _;
use afterwrite_operations::jobs::{
    AcquiredJob, JobBasis, JobKind, JobPlan, JobRunner, JobState, JobStatus, JobStore, JobTask, NewJob,
    SilentObserver, WorkUnit,
};
use afterwrite_tests::clock::StillClock;

use super::world::{OperationWorld, STATE};

/// A job with these units.
pub(crate) fn new_job(kind: JobKind, units: Vec<WorkUnit>) -> NewJob {
    let (arguments, basis) = (serde_json::json!({}), JobBasis::default());
    NewJob { kind, arguments, basis, units, plan: JobPlan::default(), rate: None }
}

/// Acquires a job of a world, when the time of its tables is that of its clock.
pub(crate) async fn acquire<T: Tables>(
    world: &OperationWorld,
    store: &JobStore<T, &'static StillClock>,
    id: &str,
) -> Result<AcquiredJob> {
    world.tables.set_time(world.clock.now());
    store.acquire(id, &JobBasis::default()).await
}

/// Runs a job to its end.
pub(super) async fn run(
    world: &OperationWorld,
    kind: JobKind,
    units: Vec<WorkUnit>,
    task: &impl JobTask,
) -> JobState {
    let store = JobStore::new(Arc::clone(&world.tables), world.clock, Arc::from(STATE));
    let job = store.create(new_job(kind, units)).await.unwrap();
    let job = acquire(world, &store, &job.id).await.unwrap();
    let runner = JobRunner { store: &store, observer: &SilentObserver, workers: 3 };
    let done = runner.run(job, task).await.unwrap();
    assert_eq!(done.status, JobStatus::Done);
    done
}
