//! The parts of a verification that judged nothing, although there was something to judge: such a verification did not finish.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use afterwrite_model::table::Model;
use afterwrite_model::{Error, ErrorKind};
use serde::Serialize;

use super::arguments::{DatasetCoverage, VerifyArguments};
use super::finding::{FindingPlace, FindingVerdict, UndecidedReason, VerifyFinding};
use super::suspects::entity_of;
use super::units::VerifyTotal;
use crate::jobs::{JobTotals, count};

/// The part of a verification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum VerifiedPart {
    /// All of it.
    Everything,
    /// Ledger entries and their items.
    Items,
    /// The items of one entity.
    Entity,
    /// Copies of rollups on items.
    Mirrors,
    /// `max` and `min`.
    Extremes,
    /// Sums of the ledger and their rollups.
    Rollups,
    /// The application's own counters.
    ThreeWay,
    /// Rows of datasets.
    Datasets,
}

impl VerifiedPart {
    /// The part in words.
    #[must_use]
    pub fn described(self) -> &'static str {
        match self {
            Self::Everything => "anything",
            Self::Items => "items",
            Self::Entity => "items of an entity",
            Self::Mirrors => "mirrors",
            Self::Extremes => "`max` and `min`",
            Self::Rollups => "rollups",
            Self::ThreeWay => "the application's counters",
            Self::Datasets => "rows of datasets",
        }
    }
}

/// A part that judged nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnjudgedPart {
    /// The part.
    pub part: VerifiedPart,
    /// The entity, for a part that is one entity's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entity: Option<String>,
    /// How much of it was looked at.
    pub looked_at: u64,
    /// Why nothing could be judged.
    pub cause: String,
}

impl UnjudgedPart {
    fn new(part: VerifiedPart, looked_at: u64, cause: impl Into<String>) -> Self {
        Self { part, entity: None, looked_at, cause: cause.into() }
    }

    /// One line: `items (20 looked at: the item cannot be counted)`.
    #[must_use]
    pub fn line(&self) -> String {
        let part = match &self.entity {
            Some(entity) => format!("items of entity `{entity}`"),
            None => self.part.described().to_owned(),
        };
        match self.looked_at {
            0 => format!("{part}: {}", self.cause),
            looked_at => format!("{part} ({looked_at} looked at): {}", self.cause),
        }
    }
}

/// The error of a verification with such parts.
#[must_use]
pub fn unjudged_error(parts: &[UnjudgedPart]) -> Error {
    let lines: Vec<String> = parts.iter().map(UnjudgedPart::line).collect();
    let message = format!("the verification did not finish: it could not judge {}", lines.join("; "));
    Error::new(ErrorKind::State, message)
}

/// The knowledge of a run beside its totals and findings.
#[derive(Clone, Debug)]
pub(crate) struct RunKnowledge<'r> {
    pub(crate) model: &'r Model,
    pub(crate) arguments: &'r VerifyArguments,
    /// Whether datasets were compared with items.
    pub(crate) coverage: DatasetCoverage,
    /// Entities of which an item was found right.
    pub(crate) decided_entities: BTreeSet<Arc<str>>,
}

/// The parts that judged nothing.
pub(crate) fn unjudged_parts(
    run: &RunKnowledge<'_>,
    totals: &JobTotals,
    findings: &[VerifyFinding],
) -> Vec<UnjudgedPart> {
    if sum(
        totals,
        &[VerifyTotal::Items, VerifyTotal::Rollups, VerifyTotal::DatasetKeys, VerifyTotal::ThreeWay],
    ) == 0
    {
        let cause = nothing_cause(run, totals.number(VerifyTotal::ItemsRead));
        return vec![UnjudgedPart::new(VerifiedPart::Everything, 0, cause)];
    }
    let judged = JudgedFindings { findings };
    let mut parts = unjudged_items(run, totals, &judged);
    for (part, place, all, decided) in [
        (
            VerifiedPart::Rollups,
            FindingPlace::Rollup,
            VerifyTotal::Rollups,
            &[VerifyTotal::RollupsConfirmed, VerifyTotal::RollupsRechecked, VerifyTotal::RollupsExpired][..],
        ),
        (
            VerifiedPart::Datasets,
            FindingPlace::Dataset,
            VerifyTotal::DatasetKeys,
            &[VerifyTotal::DatasetKeysConfirmed, VerifyTotal::DatasetKeysRechecked][..],
        ),
    ] {
        let is_place = |other: FindingPlace| other == place;
        let looked_at = totals.number(all);
        if looked_at > 0 && sum(totals, decided) == 0 && !judged.has_drift(is_place) {
            parts.push(UnjudgedPart::new(part, looked_at, judged.cause(is_place)));
        }
    }
    let compared = [VerifyTotal::ThreeWay, VerifyTotal::ThreeWayDecided].map(|total| totals.number(total));
    parts.extend(unjudged_three_way(run, compared, &judged));
    parts
}

/// The sum of counters.
fn sum(totals: &JobTotals, counters: &[VerifyTotal]) -> u64 {
    counters.iter().map(|total| totals.number(*total)).sum()
}

/// The items, or the parts of items, that were not judged.
fn unjudged_items(
    run: &RunKnowledge<'_>,
    totals: &JobTotals,
    judged: &JudgedFindings<'_>,
) -> Vec<UnjudgedPart> {
    let items = totals.number(VerifyTotal::Items);
    let are_decided = sum(totals, &[VerifyTotal::ItemsConfirmed, VerifyTotal::ItemsRechecked]) > 0
        || judged.has_drift(FindingPlace::is_of_item);
    if items > 0 && !are_decided {
        return vec![UnjudgedPart::new(VerifiedPart::Items, items, judged.cause(FindingPlace::is_of_item))];
    }
    let mut parts = judged.unjudged_entities(run);
    let foreign = totals.number(VerifyTotal::ForeignEntries);
    if foreign > 0 {
        let cause = "these ledger entries count, and the model has no entity for their items: use the model that the functions have (--model, AFTERWRITE_MODEL). If the functions have this model, run `afterwrite backfill`";
        parts.push(UnjudgedPart::new(VerifiedPart::Items, foreign, cause));
    }
    for (part, place, all, decided) in [
        (
            VerifiedPart::Mirrors,
            FindingPlace::Mirror,
            VerifyTotal::Mirrors,
            [VerifyTotal::MirrorsJudged, VerifyTotal::MirrorsRechecked],
        ),
        (
            VerifiedPart::Extremes,
            FindingPlace::Extreme,
            VerifyTotal::Extremes,
            [VerifyTotal::ExtremesJudged, VerifyTotal::ExtremesRechecked],
        ),
    ] {
        let looked_at = totals.number(all);
        if looked_at > 0 && sum(totals, &decided) == 0 && !judged.has_drift(|other| other == place) {
            parts.push(UnjudgedPart::new(part, looked_at, judged.cause(FindingPlace::is_of_item)));
        }
    }
    parts
}

/// Everything, if none of the findings that were judged again could be decided.
pub(crate) fn unjudged_recheck(decided: u64, given: u64, left: &[VerifyFinding]) -> Option<UnjudgedPart> {
    let judged = JudgedFindings { findings: left };
    let is_unjudged = given > 0 && decided == 0 && !judged.has_drift(|_| true);
    is_unjudged.then(|| UnjudgedPart::new(VerifiedPart::Everything, given, judged.cause(|_| true)))
}

/// The comparison with the application's counters, if it judged nothing.
fn unjudged_three_way(
    run: &RunKnowledge<'_>,
    [compared, decided]: [u64; 2],
    judged: &JudgedFindings<'_>,
) -> Option<UnjudgedPart> {
    let check = run.arguments.three_way.as_ref()?;
    let is_place = |place: FindingPlace| place == FindingPlace::ThreeWay;
    if decided > 0 || judged.has_drift(is_place) {
        return None;
    }
    let cause = match compared {
        0 => format!(
            "no item that was judged shows the number `{}` of a rollup `{}`; check the names, and `--sample` and `--only`",
            check.attribute, check.rollup
        ),
        _ => judged.cause(is_place),
    };
    Some(UnjudgedPart::new(VerifiedPart::ThreeWay, compared, cause))
}

/// Why nothing was looked at although so many items were read.
fn nothing_cause(run: &RunKnowledge<'_>, items_read: u64) -> String {
    let VerifyArguments { only, .. } = run.arguments;
    let sample = run.arguments.key_sample();
    match (only, items_read) {
        (Some(tenant), _) => {
            format!("no item and no rollup belongs to {tenant}; check the name and the value")
        }
        (None, 0) => {
            "the tables have no items and the ledger has no entries; check AFTERWRITE_TABLES and AFTERWRITE_STATE_TABLE".to_owned()
        }
        (None, read) if sample.is_all() => {
            format!("the model counts none of the {read} items that were read; check the model and AFTERWRITE_TABLES")
        }
        (None, read) => format!("the sample has none of the {read} items that were read; choose a larger --sample"),
    }
}

/// The findings of a run.
struct JudgedFindings<'f> {
    findings: &'f [VerifyFinding],
}

impl JudgedFindings<'_> {
    fn has_drift(&self, is_place: impl Fn(FindingPlace) -> bool) -> bool {
        let mut findings = self.findings.iter();
        findings.any(|finding| finding.is_drift() && is_place(finding.place()))
    }

    /// The most frequent cause of undecided findings.
    fn cause(&self, is_place: impl Fn(FindingPlace) -> bool) -> String {
        let undecided =
            self.findings.iter().filter(|finding| !finding.is_drift() && is_place(finding.place()));
        most_frequent(undecided.filter_map(|finding| finding.cause.as_deref()))
    }

    /// The entities all of whose items are undecided because of lookups.
    fn unjudged_entities(&self, run: &RunKnowledge<'_>) -> Vec<UnjudgedPart> {
        let mut undecided: BTreeMap<Arc<str>, Vec<&VerifyFinding>> = BTreeMap::new();
        let mut decided = run.decided_entities.clone();
        for finding in self.findings.iter().filter(|finding| finding.place().is_of_item()) {
            let source = finding.subject.item().and_then(|item| item.source(run.model));
            let Some(entity) = source.and_then(|source| entity_of(run.model, &source)) else { continue };
            let is_of_lookup = match finding.verdict {
                FindingVerdict::Drift => false,
                FindingVerdict::Undecided(reason) => reason.is_some_and(UndecidedReason::is_of_lookup),
            };
            if is_of_lookup {
                undecided.entry(entity).or_default().push(finding);
            } else {
                decided.insert(entity);
            }
        }
        undecided.retain(|entity, _| !decided.contains(entity));
        let parts = undecided.into_iter().map(|(entity, findings)| UnjudgedPart {
            part: VerifiedPart::Entity,
            entity: Some(entity.to_string()),
            looked_at: count(findings.len()),
            cause: most_frequent(findings.iter().filter_map(|finding| finding.cause.as_deref())),
        });
        parts.collect()
    }
}

fn most_frequent<'c>(causes: impl Iterator<Item = &'c str>) -> String {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    causes.for_each(|cause| *counts.entry(cause).or_default() += 1);
    let most = counts.into_iter().max_by_key(|(_, count)| *count);
    most.map_or("the items that it depends on are undecided", |(cause, _)| cause).to_owned()
}
