//! The function `verifier`: a verification that ends before its deadline, on a schedule.
//!
//! ```text
//! schedule ─▶ request ─▶ timed: phases of the verification, each with its share of the time
//!                           ├─▶ reports/verify/<time>.json    what was checked, and how much of it
//!                           ├─▶ reports/verify/<time>.jsonl   the findings, for `afterwrite repair`
//!                           └─▶ metrics CheckedTargets, DriftedTargets, UndecidedTargets
//! ```
//!
//! Each run judges the sample that follows the last one (`rotation`), so that 1/share runs judge everything. The report states which share
//! of the tables was read, and how much of them was judged since when. A table that is too large for one run is read by several, in random
//! segments.

pub mod function;
mod report;
mod request;
mod rotation;
mod timed;

pub use self::report::{VerifierReport, report_keys};
pub use self::request::VerifierRequest;
pub use self::rotation::{JudgedShares, RotationReport, RotationStore, RoundReport, SampleRotation};
pub use self::timed::{TimedResult, TimedVerification, VerifiedShare};
