//! The report of a verification in the bucket.

use afterwrite_model::record::Timestamp;
use afterwrite_model::{Error, ErrorKind};
use serde::Serialize;

use super::rotation::RotationReport;
use super::timed::VerifiedShare;
use crate::verify::{VerifiedPart, VerifyReport, VerifySummary, unjudged_error};

/// The prefix of reports in the bucket.
const PREFIX: &str = "reports/verify/";

/// The report of one invocation, and its response.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct VerifierReport {
    /// The shares of the tables that were read.
    pub read: VerifiedShare,
    /// Rollups, items and rows that were judged.
    pub checked_targets: u64,
    /// Findings that are wrong or stay undecided until their cause is mended, and lives without a record.
    pub drifted_targets: u64,
    /// Findings that could not be decided, and suspects for which no time was left.
    pub undecided_targets: u64,
    /// The numbers, with the sample.
    #[serde(flatten)]
    pub summary: VerifySummary,
    /// The object with the findings, one a line; `None` if there are none, or no bucket.
    pub findings: Option<String>,
    /// How much of the tables this and earlier runs have judged, and since when.
    pub rotation: RotationReport,
}

impl VerifierReport {
    /// A report of what was found.
    #[must_use]
    pub fn new(found: &VerifyReport, read: VerifiedShare, rotation: RotationReport) -> Self {
        let summary = found.summary.clone();
        Self {
            checked_targets: summary.rollups + summary.items + summary.dataset_keys,
            drifted_targets: summary.findings_to_mend() + summary.unrecorded_lives,
            undecided_targets: summary.undecided + read.unjudged,
            read,
            summary,
            findings: None,
            rotation,
        }
    }

    /// The error of a run that looked at something and could decide nothing of it, or that had no time to look at anything.
    #[must_use]
    pub fn failure(&self) -> Option<Error> {
        let VerifiedShare { rollups, items, entries, dataset_items, dataset_rows, .. } = self.read;
        if [rollups, items, entries, dataset_items, dataset_rows].iter().all(|share| *share <= 0.0) {
            let problem = "the verification did not finish: no segment of a table was read in time";
            return Some(Error::new(ErrorKind::State, problem).hint(
                "Raise the timeout of the function; if its requests are throttled, raise the capacity of the tables",
            ));
        }
        let VerifySummary { items, rollups, dataset_keys, unjudged, .. } = &self.summary;
        let looked = [
            (*items, VerifiedPart::Items),
            (*rollups, VerifiedPart::Rollups),
            (*dataset_keys, VerifiedPart::Datasets),
        ];
        let mut looked = looked.into_iter().filter(|(number, _)| *number > 0).peekable();
        let is_failed = looked.peek().is_some()
            && looked.all(|(_, part)| unjudged.iter().any(|unjudged| unjudged.part == part));
        is_failed.then(|| unjudged_error(unjudged))
    }
}

/// The keys of the report and of the findings of an invocation that began at this time.
#[must_use]
pub fn report_keys(begun: Timestamp) -> (String, String) {
    (format!("{PREFIX}{begun}.json"), format!("{PREFIX}{begun}.jsonl"))
}
