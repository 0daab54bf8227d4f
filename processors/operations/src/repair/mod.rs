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
//! Entries are repaired first: that changes the sums, and rollups are judged after it. Last, every rollup that was written and that is a source is judged as an
//! item, and counted again into the level above if no function has done so: one level after the other, as a backfill does.

mod datasets;
mod drift;
mod log;
mod task;
mod written;

pub use self::datasets::DatasetRepairer;
pub use self::drift::DriftRepairer;
pub use self::log::{RepairLogEntry, RepairOutcome, repair_totals};
pub use self::task::{RepairTask, repair_units};
