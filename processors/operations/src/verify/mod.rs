//! Verification: compares what is derived with the items, while the application goes on writing.
//!
//! ```text
//! phase 0   revisions   the `rev` of each rollup                         ─┐
//! phase 1   ledger      the sum of all entries, by rollup                 │ Σ ledger + settled = rollups: `sums`
//! phase 2   rollups     read again: confirmed, suspected or undecided    ─┘
//! phase 3   items       entry = C(item), mirrors, extremes               ─┐
//! phase 4   entries     entries whose items do not exist                  │ `items`, `suspects`
//! phase 5   recheck     suspected items, once the tolerance has passed   ─┘
//! phase 6   ledger      again, for suspected rollups only
//! phase 7   rollups     judged for good
//! phase 8 … 11          rows of datasets = items, if a bucket is set: `datasets`
//! ```
//!
//! A finding is *drift* or *undecided*; there is no false alarm as long as no record is in flight for longer than the tolerance (by
//! default 5 minutes; the metric `IteratorAge` shows it). A lag beyond it can only turn a change in flight into a finding of an
//! item; rollups are judged without any assumption about time.
//!
//! A verification can be paused, and resumed after a kill: what is suspected is in the journal of its job. Sums, digests and findings are
//! in memory or in temporary files, so the phases that make them begin again (0 to 2, 8 to 10), and suspects are judged again.

mod arguments;
mod datasets;
mod entry_count;
mod finding;
mod finding_line;
mod item_rollups;
mod items;
mod job;
mod journal;
mod life;
mod report;
mod sample;
mod sums;
mod suspects;
mod task;
mod three_way;
mod units;
mod unjudged;

pub use self::arguments::{DEFAULT_TOLERANCE, DatasetCoverage, VerifyArguments, plan_verify};
pub use self::datasets::{DatasetCheck, DatasetJudge, ReadSides, recheck_rows};
pub(crate) use self::datasets::{JudgedRow, RowVerdicts, candidates_of, is_unknown_row};
pub use self::finding::{
    ExpectedValue, FindingPlace, FindingSubject, FindingVerdict, FoundItem, RollupPlace, RowDifference,
    RowLocation, UndecidedReason, VerifyFinding,
};
pub(crate) use self::finding::{check_generation, is_rollup};
pub use self::finding_line::{
    FindingsReport, ReportExtent, UNFINISHED_REPORT, finding_lines, parse_findings,
};
pub use self::job::{VerifyJob, verify_units};
pub use self::life::FindingLife;
pub use self::report::{VerifyReport, VerifySummary, drift_upper_bound};
pub use self::sample::KeySample;
pub(crate) use self::sums::{RollupReading, SumVerdict, expected_values, judge, may_be_settled, read_sums};
pub(crate) use self::suspects::recheck_items;
pub use self::suspects::{Tolerance, recheck_findings};
pub use self::task::VerifyTask;
pub use self::three_way::ThreeWayCheck;
pub use self::unjudged::{UnjudgedPart, VerifiedPart, unjudged_error};
