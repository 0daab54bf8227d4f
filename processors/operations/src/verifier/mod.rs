//! The function `verifier`: a verification that ends before its deadline, on a schedule.
//!
//! ```text
//! schedule ─▶ request ─▶ timed: phases of the verification, each with its share of the time
//!                           ├─▶ reports/verify/<time>.json    what was checked, and how much of it
//!                           ├─▶ reports/verify/<time>.jsonl   the findings, for `afterwrite repair`
//!                           └─▶ metrics CheckedTargets, DriftedTargets, UndecidedTargets
//! ```
//!
//! The report states which share of the tables was read. A table that is too large for one run is checked by random segments.

pub mod function;
mod report;
mod request;
mod timed;

pub use self::report::{VerifierReport, report_keys};
pub use self::request::VerifierRequest;
pub use self::timed::{TimedVerification, VerifiedShare};
