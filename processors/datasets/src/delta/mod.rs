//! Delta tables: Parquet files and a log of commits, in one folder of the bucket.
//!
//! ```text
//! <table>/_delta_log/00000000000000000007.json                 version 7: the files that it adds and removes     commit
//! <table>/_delta_log/00000000000000000100.checkpoint.parquet   the state of the table at version 100             checkpoint
//! <table>/_delta_log/_last_checkpoint                          where a reader begins
//! <table>/dt=<day>/<name>.parquet                              the files
//!
//! snapshot ──▶ what to change (the caller) ──▶ commit: version + 1, put if absent ──▶ Committed
//!    ▲                                                                          └──▶ Conflict: another writer was faster
//!    └──────────────────────────── table: read the new commits, decide again ◀─────────┘
//! ```
//!
//! The tables follow the [Delta protocol](https://github.com/delta-io/delta/blob/master/PROTOCOL.md) at reader version 1 and writer
//! version 2, without table features: every engine that reads Delta Lake reads them. They are partitioned by `dt`, a text.
//!
//! # Rules that a writer keeps
//!
//! - A version is written once (`If-None-Match: *`), by a writer that has read every version before it. Its decision is then based
//!   on the newest state. A lost race changes nothing, and the writer decides again.
//! - A commit contains an id that no other commit has. A writer that missed the response finds out whether the stored commit is its own.
//! - A file that is added is in the bucket, complete, and is never written again.
//! - A file that is removed stays in the bucket until a vacuum finds that it was removed before the retention. Until then the log
//!   remembers its removal (a *tombstone*), also in checkpoints.
//! - The log's old commits are removed only before a checkpoint that is older than [`LOG_RETENTION`], so a reader may take that long.

mod action;
mod change;
mod checkpoint;
mod json_arrow;
mod log_files;
mod schema;
mod snapshot;
mod statistics;
mod table;
mod vacuum;

pub use self::change::{CommitAttempt, TableChange};
pub use self::snapshot::{DataFile, TableSnapshot};
pub use self::statistics::FileStatistics;
pub use self::table::DeltaTable;
pub use self::vacuum::{LOG_RETENTION, ORPHAN_AGE, VacuumTotals};

/// The partition column.
pub const PARTITION: &str = "dt";

/// How long superseded files stay if nothing else is configured.
pub const RETENTION: std::time::Duration = std::time::Duration::from_secs(7 * 24 * 60 * 60);

#[cfg(test)]
mod tests;
