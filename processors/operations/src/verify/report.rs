//! The result of a verification: its findings in order, and its numbers.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use afterwrite_model::Result;
use afterwrite_model::table::Model;
use serde::Serialize;

use super::arguments::{DatasetCoverage, VerifyArguments};
use super::finding::VerifyFinding;
use super::sample::KeySample;
use super::units::VerifyTotal;
use super::unjudged::{RunKnowledge, UnjudgedPart, unjudged_error, unjudged_parts, unjudged_recheck};
use crate::jobs::{JobTotals, approximate, count};
use crate::lives::LifeTotal;

/// The result of a verification.
#[derive(Clone, Debug, PartialEq)]
pub struct VerifyReport {
    /// Its numbers.
    pub summary: VerifySummary,
    /// Its findings: drift first, then by place and key.
    pub findings: Vec<VerifyFinding>,
}

impl VerifyReport {
    /// A report of these findings of a run.
    pub(crate) fn new(run: &RunKnowledge<'_>, totals: &JobTotals, mut findings: Vec<VerifyFinding>) -> Self {
        let sample = run.arguments.key_sample();
        for finding in &mut findings {
            finding.sample = Some(sample).filter(|sample| !sample.is_all());
            finding.generation = Some(run.model.generation);
        }
        findings.sort_by(in_order);
        findings.dedup();
        Self { summary: VerifySummary::of(run, totals, &findings), findings }
    }

    /// A report of findings that were judged again: `found` has the differences of `given` that still exist.
    #[must_use]
    pub fn of_recheck(
        model: &Model,
        given: &[VerifyFinding],
        found: Vec<VerifyFinding>,
        coverage: DatasetCoverage,
    ) -> Self {
        let is_left = |given: &&VerifyFinding| found.iter().any(|found| given.is_repeated_by(found));
        let (items, left) = (count(given.len()), count(given.iter().filter(is_left).count()));
        let totals =
            JobTotals::from([(VerifyTotal::Items, items), (VerifyTotal::ItemsConfirmed, items - left)]);
        let KeySample { share, seed } = given.iter().find_map(|finding| finding.sample).unwrap_or_default();
        let arguments = VerifyArguments { sample: share, seed, ..VerifyArguments::default() };
        let run = RunKnowledge { model, arguments: &arguments, coverage, decided_entities: BTreeSet::new() };
        let mut report = Self::new(&run, &totals, found);
        report.summary.unjudged =
            unjudged_recheck(items - left, items, &report.findings).into_iter().collect();
        report
    }
}

/// The order of findings in a report.
fn in_order(one: &VerifyFinding, other: &VerifyFinding) -> Ordering {
    let verdicts = other.is_drift().cmp(&one.is_drift());
    let (one, other) = (&one.subject, &other.subject);
    verdicts
        .then_with(|| one.place().cmp(&other.place()))
        .then_with(|| (one.key(), one.row()).cmp(&(other.key(), other.row())))
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
    /// Compared items and rows that are equal.
    pub dataset_keys_confirmed: u64,
    /// Compared items and rows that differ and were not judged, because there are too many.
    pub dataset_keys_unjudged: u64,
    /// Findings of stored values that are wrong.
    pub drift: u64,
    /// Findings that could not be decided.
    pub undecided: u64,
    /// Of these, findings with a cause that does not end by itself.
    pub undecided_until_mended: u64,
    /// Lives of items that ended or began without a record, expiries that are not settled, and entries of a table that the model does not have:
    /// no repair mends their totals.
    pub unrecorded_lives: u64,
    /// The upper bound of the share of wrong items, at 95 % confidence. Items of one partition are sampled independently.
    pub drift_upper_bound: f64,
    /// The parts that judged nothing. A verification with one did not finish.
    pub unjudged: Vec<UnjudgedPart>,
}

impl VerifySummary {
    /// The summary of a job with these totals that found this.
    pub(crate) fn of(run: &RunKnowledge<'_>, totals: &JobTotals, findings: &[VerifyFinding]) -> Self {
        let total = |total: VerifyTotal| totals.number(total);
        let drifted = findings.iter().filter(|finding| finding.is_drift());
        let wrong_items: BTreeSet<_> = drifted.clone().filter_map(|finding| finding.subject.item()).collect();
        let (wrong, drift) = (count(wrong_items.len()), count(drifted.count()));
        Self {
            sample: run.arguments.key_sample(),
            unjudged: unjudged_parts(run, totals, findings),
            items_confirmed: total(VerifyTotal::ItemsConfirmed) + total(VerifyTotal::ItemsRechecked),
            items: total(VerifyTotal::Items),
            rollups_confirmed: total(VerifyTotal::RollupsConfirmed) + total(VerifyTotal::RollupsRechecked),
            rollups: total(VerifyTotal::Rollups),
            rollups_expired: total(VerifyTotal::RollupsExpired),
            hashed_entries: total(VerifyTotal::HashedEntries),
            datasets: run.coverage,
            dataset_keys: total(VerifyTotal::DatasetKeys),
            dataset_keys_confirmed: total(VerifyTotal::DatasetKeysConfirmed)
                + total(VerifyTotal::DatasetKeysRechecked),
            dataset_keys_unjudged: total(VerifyTotal::DatasetKeysUnjudged),
            drift,
            undecided: count(findings.len()) - drift + total(VerifyTotal::DatasetKeysUnjudged),
            undecided_until_mended: count(findings.iter().filter(|finding| finding.needs_remedy()).count()),
            unrecorded_lives: totals.number(LifeTotal::Vanished)
                + totals.number(LifeTotal::Revived)
                + totals.number(LifeTotal::OfUnknownTable)
                + totals.number(LifeTotal::ParkedExpiries),
            drift_upper_bound: drift_upper_bound(
                wrong,
                total(VerifyTotal::Items).max(total(VerifyTotal::DatasetKeys)),
            ),
        }
    }

    /// The findings that somebody has to mend: drift, and findings that stay undecided until then.
    #[must_use]
    pub fn findings_to_mend(&self) -> u64 {
        self.drift + self.undecided_until_mended
    }

    /// Whether the findings leave nothing to mend.
    ///
    /// # Errors
    /// [`State`](afterwrite_model::ErrorKind::State) if nothing is wrong, but nothing could be judged of a part.
    pub fn is_right(&self) -> Result<bool> {
        match (self.drift, self.unjudged.as_slice()) {
            (0, []) => Ok(self.findings_to_mend() == 0),
            (0, unjudged) => Err(unjudged_error(unjudged)),
            (1.., _) => Ok(false),
        }
    }
}

/// The upper bound of the share of drifted items, at 95 % confidence, after `drifted` of `checked` were: the rule of three if none
/// was, else Wilson's bound.
#[must_use]
pub fn drift_upper_bound(drifted: u64, checked: u64) -> f64 {
    const Z: f64 = 1.644_853_626_951_472_2;
    if checked == 0 {
        return 1.0;
    }
    let n = approximate(checked);
    if drifted == 0 {
        return (3.0 / n).min(1.0);
    }
    let share = approximate(drifted) / n;
    let centre = share + Z * Z / (2.0 * n);
    let spread = Z * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).sqrt();
    ((centre + spread) / (1.0 + Z * Z / n)).min(1.0)
}

#[cfg(test)]
mod tests {
    use afterwrite_model::Error;

    use super::super::finding::FindingVerdict;
    use super::super::finding_line::parse_findings;
    use super::*;

    const MODEL: &str = r#"
name = "shop"
generation = 1
tables.Shop.key = ["PK", "SK"]
entities.order.key = { PK = "ORDER#{order}", SK = "ORDER" }
"#;

    /// Two places of one item were found: its ledger entry is right again, and its mirror cannot be decided.
    #[test]
    fn a_place_that_is_right_again_is_confirmed_beside_another_place_of_its_item() -> Result<(), Error> {
        let line = |place: &str| {
            format!(
                r#"{{"place":"{place}","verdict":"drift","table":"Shop","key":["ORDER#1","ORDER"],"values":{{}}}}"#
            )
        };
        let given = parse_findings(&format!("{}\n{}", line("ledger"), line("mirror")))?.findings;
        let mut found = parse_findings(&line("mirror"))?.findings;
        found.iter_mut().for_each(|finding| finding.verdict = FindingVerdict::Undecided(None));
        let model = Model::parse(MODEL, "shop.toml").expect("a model");
        let report = VerifyReport::of_recheck(&model, &given, found, DatasetCoverage::Compared);
        let VerifySummary { items, items_confirmed, undecided, unjudged, .. } = report.summary;
        assert_eq!((items, items_confirmed, undecided), (2, 1, 1));
        assert_eq!(unjudged, [], "one place was decided");
        Ok(())
    }

    #[test]
    fn the_bounds_are_those_of_the_tables() {
        for (drifted, checked, bound) in
            [(0, 0, 1.0), (0, 1, 1.0), (0, 300, 0.01), (1, 100, 0.0431), (50, 100, 0.5812), (100, 100, 1.0)]
        {
            let found = drift_upper_bound(drifted, checked);
            assert!((found - bound).abs() < 0.0005, "{drifted} of {checked}: {found}");
        }
    }
}
