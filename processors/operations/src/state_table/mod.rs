//! State tables side by side: how they differ, and how a deployment switches from one to the other.
//!
//! A state table cannot be renamed. A deployment switches by the functions' variable `AFTERWRITE_STATE_TABLE`:
//!
//! ```text
//! replay --into NEW ─▶ diff OLD NEW ─▶ promote NEW: the same lookups, checked ─▶ the functions' variable ─▶ replay once more
//! ```
//!
//! Between the end of the replay and the switch, the functions count into the old table. A second replay, into the table that is now the
//! deployment's, counts these records: what is counted already is skipped.

mod diff;

pub use self::diff::{DifferenceKind, StateDiff, StateDiffTotals, StateDifference};
