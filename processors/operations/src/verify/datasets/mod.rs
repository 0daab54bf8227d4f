//! Current tables = base items: the rows of datasets are compared with the items of the tables.
//!
//! ```text
//! phase 8    dataset items   a digest of the rows that each item should have      ─┐ to temporary files,
//! phase 9    dataset rows    a digest of each current row                         ─┘ by a hash of the key: `spill`
//! phase 10   comparison      one temporary file after the other: keys whose digests differ are candidates
//! phase 11   recheck         candidates: item, tolerance, rows, item again: `judge`
//! ```
//!
//! The rows of a day are read from the table of current rows, or derived from the log if the day is pending.
//!
//! Memory: one of 256 temporary files at a time, about 200 bytes for each item and row in it; the candidates; and what a compaction
//! takes. A verification that is resumed after a kill begins with phase 8 again: the temporary files are gone.

mod judge;
mod keys;
mod look;
mod spill;
mod task;

pub use self::judge::recheck_rows;
pub(crate) use self::judge::{JudgedRow, RowVerdicts};
pub(crate) use self::keys::{RowCandidate, candidates_of, is_unknown_row};
pub use self::look::DatasetJudge;
pub(crate) use self::task::check_units;
pub use self::task::{DatasetCheck, ReadSides};
