//! Bulk backfill: a state table for tables that are too large to be counted by transactions.
//!
//! A transaction for each item of a table with 10^10 items would cost $12,000 and take a week. Here, workers count the data files of table
//! exports, each into a state table in its own memory, and `ImportTable` writes the results into a new table, which costs no write units.
//!
//! ```text
//! exports ─▶ plan ─▶ map: lookups ─▶ map: items ─▶ reduce ─▶ ImportTable ─▶ replay of the archive ─▶ verify ─▶ promote
//!                    a data file a step, no order   a partition a step      from before the exports
//! ```
//!
//! **Counted once, by the same code.** A map step runs [`Ledger::reconcile_exported`](afterwrite_ledger::Ledger) over its file. Each source
//! item is in exactly one data file, so its ledger entry is final. A rollup may get parts from every file; additions commute, so the reduce
//! step adds them ([`RollupMerger`](afterwrite_ledger::RollupMerger)), exactly.
//!
//! **Nothing is lost by a crash.** A step reads objects that exist before it starts, and writes objects whose keys and contents follow from
//! its request. It can be repeated at any time, on any machine. The deployed state table is changed in one way: lookups are remembered there, as by
//! the functions.
//!
//! **Changes during and after the exports** are in the archive, which is replayed from 15 minutes before the earliest export. An entry has
//! the time of its export as `as_of`, so that older records are skipped; deletions since are counted because the new table has every tombstone
//! since the export.
//!
//! **Revisions** of rollups begin at the time of the latest export in milliseconds, above every revision that a copy (mirror) can have from
//! another state table.

pub mod export;
mod layout;
mod lines;
mod map;
mod plan;
mod reduce;
pub mod request;
mod tables;
mod worker;

pub use self::layout::RunLayout;
pub use self::lines::visit_items;
pub use self::plan::{MAX_IMPORT_OBJECTS, RunRequests};
pub use self::worker::BulkWorker;
