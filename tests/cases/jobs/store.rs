//! A job store on tables in memory.

use std::sync::Arc;

use afterwrite_memory::{MemoryTables, TableDefinition};
use afterwrite_model::record::Timestamp;
use afterwrite_operations::jobs::{JobBasis, JobKind, JobPlan, JobStore, NewJob, WorkUnit};
use afterwrite_tests::clock::StillClock;

pub(super) const STATE: &str = "state";
/// The time of DynamoDB when a test begins.
pub(super) const NOW: Timestamp = Timestamp::from_epoch_ms(1_770_000_000_000);

pub(super) type Store = JobStore<Arc<MemoryTables>, StillClock>;

pub(super) fn tables() -> Arc<MemoryTables> {
    let tables = MemoryTables::new();
    tables.create_table(TableDefinition::new(STATE, "PK").sort("SK"));
    tables.set_time(NOW);
    Arc::new(tables)
}

/// A store on a machine with this time.
pub(super) fn store(tables: &Arc<MemoryTables>, now: Timestamp) -> Store {
    JobStore::new(Arc::clone(tables), StillClock::at(now), Arc::from(STATE))
}

pub(super) fn new_job(units: usize) -> NewJob {
    let units = (0..units).map(|index| WorkUnit::new(format!("file {index}/{units}"), 0)).collect();
    let (arguments, basis) = (serde_json::json!({}), JobBasis::default());
    NewJob { kind: JobKind::Backfill, arguments, basis, units, plan: JobPlan::default(), rate: None }
}
