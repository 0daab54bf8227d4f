//! The report of a verification in the bucket.

use afterwrite::record::Timestamp;
use serde::Serialize;

use super::timed::VerifiedShare;
use crate::verify::{FindingVerdict, VerifyReport, VerifySummary};

/// The prefix of reports in the bucket.
const PREFIX: &str = "reports/verify/";

/// The report of one invocation, and its response.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct VerifierReport {
    /// The share of items, rollups and rows that was judged of what was read.
    pub sample: f64,
    /// The shares of the tables that were read.
    pub read: VerifiedShare,
    /// Rollups, items and rows that were judged.
    pub checked_targets: u64,
    /// Findings that are wrong.
    pub drifted_targets: u64,
    /// Findings that could not be decided, and suspects for which no time was left.
    pub undecided_targets: u64,
    /// The numbers.
    #[serde(flatten)]
    pub summary: VerifySummary,
    /// The object with the findings, one a line; `None` if there are none, or no bucket.
    pub findings: Option<String>,
}

impl VerifierReport {
    /// A report of what was found.
    #[must_use]
    pub fn new(found: &VerifyReport, sample: f64, read: VerifiedShare) -> Self {
        let count = |verdict: FindingVerdict| {
            let of_verdict = found.findings.iter().filter(|finding| finding.verdict == verdict);
            u64::try_from(of_verdict.count()).unwrap_or(u64::MAX)
        };
        let summary = found.summary.clone();
        Self {
            sample,
            checked_targets: summary.rollups + summary.items + summary.dataset_keys,
            drifted_targets: count(FindingVerdict::Drift),
            undecided_targets: summary.undecided + read.unjudged,
            read,
            summary,
            findings: None,
        }
    }
}

/// The keys of the report and of the findings of an invocation that began at this time.
#[must_use]
pub fn report_keys(begun: Timestamp) -> (String, String) {
    (format!("{PREFIX}{begun}.json"), format!("{PREFIX}{begun}.jsonl"))
}
