//! Three counts of the same: the application's own attribute, the rollup, and a recount of the items.
//!
//! The recount adds up `C(item)` of every item that exists; what time to live has settled is added to it. It is made while the items
//! are read, so a rollup that changes in the meantime is undecided.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use afterwrite_ledger::state::{REV, settled_name};
use afterwrite_ledger::tables::Tables;
use afterwrite_model::projection::{ItemContributions, RollupTargets};
use afterwrite_model::record::{AttributeValue, Decimal, Item};
use afterwrite_model::table::{Model, Rollup};
use afterwrite_model::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use super::finding::{ExpectedValue, FindingSubject, FoundItem, RollupPlace, UndecidedCause, VerifyFinding};
use super::items::ItemJudge;
use crate::items::IdentifiedItem;

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

/// The rollups that are read at once.
const READ_ROLLUPS: usize = 500;

/// A comparison in progress.
#[derive(Debug)]
pub(super) struct ThreeWayComparison {
    check: ThreeWayCheck,
    counts: Mutex<ThreeWayCounts>,
}

/// The counts so far, or of a page of items.
#[derive(Debug, Default)]
pub(super) struct ThreeWayCounts {
    /// The revisions of the rollups before items are read; those that do not exist are missing.
    revisions: BTreeMap<RollupPlace, String>,
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
    fn is_counted(&self, model: &Model, place: &RollupPlace) -> bool {
        self.rollup(model).is_some_and(|(_, rollup)| rollup.has_key(&place.0, &place.1))
    }
}

impl ThreeWayComparison {
    pub(super) fn new(check: ThreeWayCheck) -> Self {
        Self { check, counts: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, ThreeWayCounts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the revision of a rollup, before items are read.
    pub(super) fn note_revision(&self, model: &Model, place: &RollupPlace, rollup: &Item) {
        let rev = rollup.get(REV).and_then(AttributeValue::as_number);
        if let Some(rev) = rev.filter(|_| self.check.is_counted(model, place)) {
            self.lock().revisions.insert(place.clone(), rev.to_string());
        }
    }

    /// The counts of the items of a page, which are not part of the comparison yet.
    pub(super) async fn recount<T: Tables>(
        &self,
        judge: &ItemJudge<T>,
        items: &[IdentifiedItem<'_>],
    ) -> Result<ThreeWayCounts> {
        let images: Vec<_> = items.iter().map(|item| (item, item.image(&judge.model))).collect();
        let outputs = judge.projector.remembered(&images).await?;
        let mut targets = RollupTargets::of(&judge.model);
        let mut counts = ThreeWayCounts::default();
        for (item, image) in &images {
            // An item that cannot be counted is a finding of its own.
            let projection = judge.projector.project(item, image, None, &outputs, &mut targets);
            let contributions = projection.map(|projection| projection.contributions).unwrap_or_default();
            counts.add(&self.check, &judge.model, item, &contributions, &targets);
        }
        Ok(counts)
    }

    /// Adds the counts of a page.
    pub(super) fn add(&self, page: ThreeWayCounts) {
        let mut counts = self.lock();
        for (place, number) in page.recounts {
            let sum = counts.recounts.entry(place).or_insert(Decimal::ZERO);
            *sum = sum.plus_unlimited(&number);
        }
        for (place, counters) in page.counters {
            counts.counters.entry(place).or_default().extend(counters);
        }
    }

    /// Compares each counter with its rollup and the recount; `None` where all three are equal.
    pub(super) async fn compare<T: Tables>(
        &self,
        judge: &ItemJudge<T>,
        is_judged: impl Fn(&RollupPlace) -> bool,
    ) -> Result<Vec<Option<VerifyFinding>>> {
        let mut places: Vec<RollupPlace> = self.lock().counters.keys().cloned().collect();
        places.retain(is_judged);
        let mut findings = Vec::new();
        for places in places.chunks(READ_ROLLUPS) {
            let keys: Vec<_> =
                places.iter().map(|(partition, sort)| judge.state.key(partition, sort)).collect();
            let rollups = judge.tables.read(&keys).await?.items;
            let counts = self.lock();
            for (place, rollup) in places.iter().zip(rollups) {
                findings.extend(counts.judge(&self.check, place, rollup.as_ref()));
            }
        }
        Ok(findings)
    }
}

impl ThreeWayCounts {
    /// Adds an item: its contributions to the measure, and the counter that it shows.
    fn add(
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
            let finding = VerifyFinding::of(FindingSubject::ThreeWay(FoundItem::of(model, item.source)));
            self.counters.entry(place).or_default().push((finding, shown.clone()));
        }
    }

    /// Compares each counter of a rollup, which was read after the items, with the rollup and the recount; `None` where all are equal.
    fn judge(
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
        let settled = number(&settled_name(&check.measure)).cloned().unwrap_or(Decimal::ZERO);
        let recount = self.recounts.get(place).unwrap_or(&Decimal::ZERO).plus_unlimited(&settled);
        if *shown == recount && counted == recount {
            return None;
        }
        let mut finding = finding.clone();
        finding.rev = number(REV).map(ToString::to_string);
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

/// The key of the rollup that an item's counter is about: each variable is one of the item's key, or an attribute.
fn place_of(rollup: &Rollup, model: &Model, item: &IdentifiedItem<'_>) -> Option<RollupPlace> {
    let identity = item.identity(model)?;
    let mut values = Vec::with_capacity(rollup.variables.len());
    for name in &rollup.variables {
        let variable = identity.entity.variables.iter().position(|known| known == name);
        let value = match variable {
            Some(index) => identity.variables.get(index)?.to_string(),
            None => item.item.get(&**name)?.as_text()?.to_owned(),
        };
        values.push(value);
    }
    Some(rollup.key(&values))
}
