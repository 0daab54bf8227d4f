//! Three counts of the same: the application's own attribute, the rollup, and a recount of the items.
//!
//! The recount adds up `C(item)` of every item that exists; what time to live has settled is added to it. It is made while the items
//! are read, so a rollup that changes in the meantime is undecided.

use std::collections::BTreeMap;

use afterwrite_model::projection::{ItemContributions, RollupTargets};
use afterwrite_model::record::{AttributeValue, Decimal, Item};
use afterwrite_model::table::{Model, Rollup};
use afterwrite_model::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use super::finding::{ExpectedValue, FindingPlace, VerifyFinding};
use super::place::RollupPlace;
use super::undecided::UndecidedCause;
use crate::items::IdentifiedItem;
use crate::jobs::JobTotals;

/// An application's counter and the measure that it should equal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreeWayCheck {
    /// The attribute of the application's items.
    pub attribute: String,
    /// The rollup, as the model names it.
    pub rollup: String,
    /// Its measure.
    pub measure: String,
}

/// The counts so far.
#[derive(Debug, Default)]
pub(crate) struct ThreeWayCounts {
    /// The revisions of the rollups before items are read; those that do not exist are missing.
    pub(crate) revisions: BTreeMap<RollupPlace, String>,
    recounts: BTreeMap<RollupPlace, Decimal>,
    /// The application's counters: the item's key and the value. Several items can show the count of one rollup.
    counters: BTreeMap<RollupPlace, Vec<(VerifyFinding, Decimal)>>,
}

impl ThreeWayCheck {
    /// Refuses a check that names no rollup of the model, or a sharded one.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`].
    pub fn check(&self, model: &Model) -> Result<()> {
        let problem = match self.rollup(model) {
            None => "the model has no such rollup",
            Some((_, rollup)) if rollup.shards > 1 => {
                "the rollup is sharded, so that no single item has its count"
            }
            Some(_) => return Ok(()),
        };
        Err(Error::new(ErrorKind::Configuration, problem)
            .with("rollup", self.rollup.as_str())
            .hint("Write ATTRIBUTE=ROLLUP.MEASURE; `afterwrite model show` lists rollups and measures"))
    }

    fn rollup<'m>(&self, model: &'m Model) -> Option<(usize, &'m Rollup)> {
        model.rollups.iter().enumerate().find(|(_, rollup)| *rollup.name == *self.rollup)
    }

    /// Whether a rollup with this key is counted.
    pub(crate) fn is_counted(&self, model: &Model, place: &RollupPlace) -> bool {
        self.rollup(model).is_some_and(|(_, rollup)| rollup.has_key(&place.0, &place.1))
    }
}

impl ThreeWayCounts {
    /// Adds an item: its contributions to the measure, and the counter that it shows.
    pub(crate) fn add(
        &mut self,
        check: &ThreeWayCheck,
        model: &Model,
        item: &IdentifiedItem<'_>,
        contributions: &ItemContributions,
        targets: &RollupTargets,
    ) {
        let Some((index, rollup)) = check.rollup(model) else { return };
        for contribution in &contributions.by_aggregate {
            let amounts = contribution.measures.iter().filter(|(name, _)| **name == *check.measure);
            for (_, number) in amounts {
                for target in contribution.targets.iter().map(|id| targets.get(*id)) {
                    if target.rollups.contains(&index) {
                        let place = (target.partition_key(), target.sort.to_string());
                        let sum = self.recounts.entry(place).or_insert(Decimal::ZERO);
                        *sum = sum.plus_unlimited(number);
                    }
                }
            }
        }
        let shown = item.item.get(check.attribute.as_str()).and_then(AttributeValue::as_number);
        if let Some((shown, place)) = shown.zip(place_of(rollup, model, item)) {
            let finding = VerifyFinding::of_source(FindingPlace::ThreeWay, model, item.source);
            self.counters.entry(place).or_default().push((finding, shown.clone()));
        }
    }

    /// The rollups that are compared.
    pub(crate) fn places(&self) -> Vec<RollupPlace> {
        self.counters.keys().cloned().collect()
    }

    /// Compares each counter of a rollup, which was read after the items, with the rollup and the recount; `None` where all are equal.
    pub(crate) fn judge(
        &self,
        check: &ThreeWayCheck,
        place: &RollupPlace,
        rollup: Option<&Item>,
    ) -> Vec<Option<VerifyFinding>> {
        let counters = self.counters.get(place).into_iter().flatten();
        counters.map(|counter| self.judge_counter(check, place, rollup, counter)).collect()
    }

    fn judge_counter(
        &self,
        check: &ThreeWayCheck,
        place: &RollupPlace,
        rollup: Option<&Item>,
        (finding, shown): &(VerifyFinding, Decimal),
    ) -> Option<VerifyFinding> {
        let number = |name: &str| rollup.and_then(|item| item.get(name)).and_then(AttributeValue::as_number);
        let counted = number(&check.measure).cloned().unwrap_or(Decimal::ZERO);
        let settled = number(&["settled_", &check.measure].concat()).cloned().unwrap_or(Decimal::ZERO);
        let recount = self.recounts.get(place).unwrap_or(&Decimal::ZERO).plus_unlimited(&settled);
        if *shown == recount && counted == recount {
            return None;
        }
        let mut finding = finding.clone();
        finding.rev = number("rev").map(ToString::to_string);
        for (name, found) in
            [(check.attribute.as_str(), shown), (&*format!("{}.{}", check.rollup, check.measure), &counted)]
        {
            let value = ExpectedValue { expected: Some(recount.to_string()), found: Some(found.to_string()) };
            finding.values.insert(name.to_owned(), value);
        }
        let is_steady = finding.rev.as_ref() == self.revisions.get(place);
        Some(match (is_steady, counted == recount) {
            (false, _) => {
                finding.undecided(UndecidedCause::changed("the rollup changed while the items were read"))
            }
            (true, true) => {
                finding.cause =
                    Some("rollup and recount agree: the application's counter is wrong".to_owned());
                finding
            }
            (true, false) => finding,
        })
    }
}

/// Counts a comparison in the totals of the job, with its finding, if there is one.
pub(super) fn count_comparison(totals: &mut JobTotals, finding: Option<&VerifyFinding>) {
    let is_decided = finding.is_none_or(|finding| finding.undecided.is_none());
    for name in ["three_way"].into_iter().chain(is_decided.then_some("three_way_decided")) {
        *totals.entry(name.to_owned()).or_default() += 1;
    }
}

/// The key of the rollup that an item's counter is about: each variable is one of the item's key, or an attribute.
fn place_of(rollup: &Rollup, model: &Model, item: &IdentifiedItem<'_>) -> Option<RollupPlace> {
    let identity = item.identity(model)?;
    let mut values = Vec::with_capacity(rollup.variables.len());
    for name in &rollup.variables {
        let variable = identity.entity.variables.iter().position(|known| known == name);
        let value = match variable {
            Some(index) => (*identity.variables.get(index)?).to_owned(),
            None => item.item.get(&**name)?.as_text()?.to_owned(),
        };
        values.push(value);
    }
    Some(rollup.key(&values))
}
