//! Repair: writes what `verify` found to be wrong, under conditions, with a log.
//!
//! Nothing is written from a file of findings alone: each finding is judged again first.
//!
//! | place | repair | condition |
//! |---|---|---|
//! | ledger, mirror, extreme | the item is reconciled with its table | the entry's `rev`; for a copy the rollup's `rev` |
//! | rollup | its measures are set to the sum of the ledger and what is settled | the rollup's `rev` is the one at which it was judged |
//! | three-way | nothing: the counter is the application's | |
//! | dataset | rows are added to the log | the item is as it was judged: see `datasets` |
//!
//! Entries are repaired first: that changes the sums, and rollups are judged after it.

mod datasets;
mod drift;
mod log;
mod task;

pub use self::datasets::DatasetRepairer;
pub use self::drift::DriftRepairer;
pub use self::log::{RepairLogEntry, RepairOutcome, repair_totals};
pub use self::task::{RepairTask, repair_units};
