//! The knowledge of a verification in progress.

use std::collections::{BTreeMap, BTreeSet};

use afterwrite::entity::SourceKey;
use afterwrite::record::Timestamp;
use serde::Serialize;

use super::bound::drift_upper_bound;
use super::finding::{FindingPlace, FindingVerdict, VerifyFinding};
use super::sums::{RollupPlace, RollupSum};
use super::three_way::ThreeWayCounts;

/// A difference that may be explained by a change in flight.
#[derive(Clone, Debug)]
pub(crate) struct SuspectItem {
    /// The source item.
    pub(crate) source: SourceKey<'static>,
    /// The place that differs.
    pub(crate) place: FindingPlace,
    /// The revision of the entry, or of the rollup of a mirror or extreme, when it was seen; `None` if there was none.
    pub(crate) rev: Option<String>,
    /// When it was seen with this revision first.
    pub(crate) seen_at: Timestamp,
    /// How often it was looked at again with another revision.
    pub(crate) rounds: u32,
}

/// The results so far.
#[derive(Debug, Default)]
pub(crate) struct VerifyState {
    /// The sums of the first reading of the ledger, and of the second, of suspects only.
    pub(crate) sums: BTreeMap<RollupPlace, RollupSum>,
    pub(crate) suspect_sums: BTreeMap<RollupPlace, RollupSum>,
    /// Items that are judged again once the tolerance has passed.
    pub(crate) suspects: Vec<SuspectItem>,
    pub(crate) suspect_rollups: BTreeSet<RollupPlace>,
    pub(crate) findings: Vec<VerifyFinding>,
    pub(crate) three_way: ThreeWayCounts,
    pub(crate) summary: VerifySummary,
}

/// The numbers of a verification.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct VerifySummary {
    /// Items whose entry equals what they contribute, and whose copies and extremes are right.
    pub items_confirmed: u64,
    /// Items that were looked at.
    pub items: u64,
    /// Rollups that equal the sum of the ledger.
    pub rollups_confirmed: u64,
    /// Rollups that were judged.
    pub rollups: u64,
    /// Rollups that have expired and are not judged.
    pub rollups_expired: u64,
    /// Entries whose keys are hashed, so that their items are not known.
    pub hashed_entries: u64,
    /// Findings that are wrong.
    pub drift: u64,
    /// Findings that could not be decided.
    pub undecided: u64,
    /// The upper bound of the share of wrong items, at 95 % confidence. Items of one partition are sampled independently.
    pub drift_upper_bound: f64,
}

impl VerifyState {
    /// Notes a finding.
    pub(crate) fn find(&mut self, finding: VerifyFinding) {
        self.findings.push(finding);
    }

    /// The summary of everything found.
    pub(crate) fn summarize(&self) -> VerifySummary {
        let count = |verdict: FindingVerdict| {
            let of_verdict = self.findings.iter().filter(|finding| finding.verdict == verdict);
            u64::try_from(of_verdict.count()).unwrap_or(u64::MAX)
        };
        let wrong_items: BTreeSet<_> = self
            .findings
            .iter()
            .filter(|finding| finding.verdict == FindingVerdict::Drift && finding.table.is_some())
            .map(|finding| (&finding.table, &finding.key))
            .collect();
        let wrong = u64::try_from(wrong_items.len()).unwrap_or(u64::MAX);
        VerifySummary {
            drift: count(FindingVerdict::Drift),
            undecided: count(FindingVerdict::Undecided),
            drift_upper_bound: drift_upper_bound(wrong, self.summary.items),
            ..self.summary.clone()
        }
    }
}
