//! Jobs as tests create them: without arguments and a plan, on a basis that is always the same.

use afterwrite_ledger::tables::Tables;
use afterwrite_model::Result;
use afterwrite_model::clock::Clock as _;
use afterwrite_operations::jobs::{AcquiredJob, JobBasis, JobKind, JobPlan, JobStore, NewJob, WorkUnit};
use afterwrite_tests::clock::StillClock;

use super::world::OperationWorld;

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
