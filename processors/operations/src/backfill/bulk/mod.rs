//! A bulk backfill as a job: the steps of [`afterwrite_bulk`], and the import of their results into a new state table.
//!
//! ```text
//! phase 0   lookups   a step for each data file: items that others look up
//! phase 1   items     a step for each data file: all other items
//! phase 2   reduce    a step for each partition of the rollups
//! phase 3   import    ImportTable; then time to live and point-in-time recovery
//! ```
//!
//! A unit is a lane of steps, so that the state of the job stays small: lane `l` of `n` has the steps `l`, `l + n`, `l + 2n`, …

mod import;
mod plan;
mod task;

use afterwrite_bulk::request::PlanRequest;
use serde::{Deserialize, Serialize};

pub use self::import::{ImportTotal, TableImporter};
pub use self::plan::plan_bulk;
pub use self::task::{BulkTask, StepInvoker, bulk_units};

/// The phases of a bulk backfill.
const LOOKUPS: u32 = 0;
const ITEMS: u32 = 1;
const REDUCE: u32 = 2;
const IMPORT: u32 = 3;

/// The most units of a phase: as many steps can run at once.
const MAX_LANES: u32 = 64;

/// The arguments of a bulk backfill, as its job keeps them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BulkArguments {
    /// The bucket of the exports and of the run.
    pub bucket: String,
    /// The plan of the run.
    pub bulk: PlanRequest,
    /// The new state table.
    pub into: String,
    /// The steps of each phase: lookups, items, reduce.
    pub requests: [u32; 3],
    /// The earliest point in time that an export shows, in epoch milliseconds.
    pub earliest_ms: i64,
    /// Whether the new table is left without point-in-time recovery.
    #[serde(default)]
    pub without_recovery: bool,
}
