//! The knowledge of a verification in progress.

use std::collections::BTreeSet;
use std::sync::Arc;

use afterwrite_model::entity::SourceKey;
use afterwrite_model::record::Timestamp;
use serde::Serialize;

use super::bound::drift_upper_bound;
use super::coverage::DatasetCoverage;
use super::finding::{FindingPlace, FindingVerdict, VerifyFinding};
use super::place::RollupPlace;
use super::sample::KeySample;
use super::sums::LedgerSums;
use super::three_way::ThreeWayCounts;
use super::unjudged::{JudgedParts, RunKnowledge, UnjudgedPart, unjudged_parts};
use crate::jobs::JobTotals;

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
    pub(crate) sums: LedgerSums,
    pub(crate) suspect_sums: LedgerSums,
    /// Items that are judged again once the tolerance has passed.
    pub(crate) suspects: Vec<SuspectItem>,
    pub(crate) suspect_rollups: BTreeSet<RollupPlace>,
    pub(crate) findings: Vec<VerifyFinding>,
    pub(crate) three_way: ThreeWayCounts,
    /// The judged parts of suspects.
    pub(crate) rechecked_parts: JudgedParts,
    /// Entities of which an item was found right.
    pub(crate) decided_entities: BTreeSet<Arc<str>>,
}

/// The numbers of a verification.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct VerifySummary {
    /// The items, rollups and rows that were judged.
    #[serde(flatten)]
    pub sample: KeySample,
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
    /// Whether datasets were compared with items.
    pub datasets: DatasetCoverage,
    /// Items and rows of datasets that were compared, an item and its row as one.
    pub dataset_keys: u64,
    /// Those that are equal.
    pub dataset_keys_confirmed: u64,
    /// Those that differ and were not judged, because there are too many.
    pub dataset_keys_unjudged: u64,
    /// Findings that are wrong.
    pub drift: u64,
    /// Findings that could not be decided.
    pub undecided: u64,
    /// The upper bound of the share of wrong items, at 95 % confidence. Items of one partition are sampled independently.
    pub drift_upper_bound: f64,
    /// The parts that judged nothing. A verification with one did not finish.
    pub unjudged: Vec<UnjudgedPart>,
}

impl VerifySummary {
    /// The summary of a job with these totals that found this.
    pub(crate) fn of(run: &RunKnowledge<'_>, totals: &JobTotals, findings: &[VerifyFinding]) -> Self {
        let total = |name: &str| totals.get(name).copied().unwrap_or(0);
        let count = |verdict: FindingVerdict| {
            let of_verdict = findings.iter().filter(|finding| finding.verdict == verdict);
            u64::try_from(of_verdict.count()).unwrap_or(u64::MAX)
        };
        let wrong_items: BTreeSet<_> = findings
            .iter()
            .filter(|finding| finding.verdict == FindingVerdict::Drift && finding.table.is_some())
            .map(|finding| (&finding.table, &finding.key))
            .collect();
        let wrong = u64::try_from(wrong_items.len()).unwrap_or(u64::MAX);
        Self {
            sample: run.arguments.key_sample(),
            unjudged: unjudged_parts(run, totals, findings),
            items_confirmed: total("items_confirmed") + total("items_rechecked"),
            items: total("items"),
            rollups_confirmed: total("rollups_confirmed") + total("rollups_rechecked"),
            rollups: total("rollups"),
            rollups_expired: total("rollups_expired"),
            hashed_entries: total("hashed_entries"),
            datasets: run.coverage,
            dataset_keys: total("dataset_keys"),
            dataset_keys_confirmed: total("dataset_keys_confirmed") + total("dataset_keys_rechecked"),
            dataset_keys_unjudged: total("dataset_keys_unjudged"),
            drift: count(FindingVerdict::Drift),
            undecided: count(FindingVerdict::Undecided) + total("dataset_keys_unjudged"),
            drift_upper_bound: drift_upper_bound(wrong, total("items").max(total("dataset_keys"))),
        }
    }
}

impl VerifyState {
    /// Notes entities of which an item was found right; returns the entities that were not known.
    pub(crate) fn decide(&mut self, entities: &BTreeSet<Arc<str>>) -> Vec<String> {
        let new: Vec<Arc<str>> = entities.difference(&self.decided_entities).cloned().collect();
        let names = new.iter().map(ToString::to_string).collect();
        self.decided_entities.extend(new);
        names
    }

    /// Notes a finding.
    pub(crate) fn find(&mut self, finding: VerifyFinding) {
        self.findings.push(finding);
    }
}
