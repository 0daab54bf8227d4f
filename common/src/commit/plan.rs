//! The one write that brings an item's ledger entry up to date, and what it adds to which rollups.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::decide::TOMBSTONE_LIFE;
use smallvec::SmallVec;

use super::entry::LedgerEntry;
use crate::projection::{
    Contribution, ExtremeValue, ImageProjection, ItemContributions, MeasureAmounts, RollupTargets, TargetId,
    TargetIds,
};
use crate::record::{Decimal, Position, Timestamp};
use crate::table::Model;
use crate::{Error, ErrorKind, Result};

/// What is added to each of some rollups.
#[derive(Clone, Debug, PartialEq)]
pub struct RollupDelta {
    /// The rollups.
    pub targets: TargetIds,
    /// By how much each measure changes. Sums that cancel out stay, so that `rev` grows.
    pub measures: MeasureAmounts,
    /// How much of it is settled: added to `settled_<measure>` as well.
    pub settled: MeasureAmounts,
}

/// What is added to each of some rollups, as a plan holds it.
#[derive(Clone, Copy, Debug)]
pub struct PlannedAddition<'p> {
    /// The rollups.
    pub targets: &'p [TargetId],
    /// By how much each measure changes.
    pub measures: &'p MeasureAmounts,
    /// How much of it is settled.
    pub settled: &'p MeasureAmounts,
}

/// The new entry of one item, and all that is written with it in one step.
#[derive(Clone, Debug)]
pub struct ItemPlan<'r> {
    /// The entry that replaces the one with the revision before.
    pub entry: LedgerEntry<'r>,
    /// The expiries that are claimed with it.
    pub markers: Vec<Position<'r>>,
    /// The shares of the entry that are added as they stand, because nothing of them was counted before: indexes.
    pub fresh: SmallVec<[usize; 2]>,
    /// What else is added to the rollups; no rollup is in two of these and the fresh shares.
    pub deltas: Vec<RollupDelta>,
    /// What their `max` and `min` have to see.
    pub extremes: Vec<ExtremeValue>,
    /// The rollups of which a mirrored measure changes.
    pub shown: Vec<TargetId>,
    /// The newest time of the records that are counted.
    pub newest: Option<Timestamp>,
}

impl ItemPlan<'_> {
    /// What is added to the rollups; no rollup is in two of them.
    pub fn additions(&self) -> impl Iterator<Item = PlannedAddition<'_>> {
        const NONE: &MeasureAmounts = &MeasureAmounts::new();
        let fresh = self.fresh.iter().filter_map(|index| self.entry.current.shares.get(*index));
        let fresh = fresh.map(|share| PlannedAddition {
            targets: &share.targets,
            measures: &share.measures,
            settled: NONE,
        });
        fresh.chain(self.deltas.iter().map(|delta| PlannedAddition {
            targets: &delta.targets,
            measures: &delta.measures,
            settled: &delta.settled,
        }))
    }

    /// Every rollup that is written, each once.
    pub fn touched(&self) -> impl Iterator<Item = TargetId> {
        let added = self.additions().flat_map(|addition| addition.targets);
        let is_added = |target| self.additions().any(|addition| addition.targets.contains(&target));
        let is_first = move |(index, extreme): &(usize, &ExtremeValue)| {
            let mut earlier = self.extremes.iter().take(*index);
            !is_added(extreme.target) && !earlier.any(|other| other.target == extreme.target)
        };
        let seen = self.extremes.iter().enumerate().filter(is_first);
        added.copied().chain(seen.map(|(_, extreme)| extreme.target))
    }

    /// Turns the fresh shares into deltas, for those who change what is added.
    fn make_deltas(&mut self) {
        let fresh = std::mem::take(&mut self.fresh);
        let fresh = fresh.into_iter().filter_map(|index| self.entry.current.shares.get(index));
        let fresh = fresh.map(|share| RollupDelta {
            targets: share.targets.clone(),
            measures: share.measures.clone(),
            settled: Vec::new(),
        });
        self.deltas.splice(..0, fresh);
    }

    /// How many actions of a transaction the entry and its markers take.
    #[must_use]
    pub fn own_actions(&self) -> usize {
        1 + self.markers.len()
    }

    /// Whether nothing but the entry is written, so that no transaction is needed.
    #[must_use]
    pub fn is_entry_alone(&self) -> bool {
        self.markers.is_empty() && self.touched().next().is_none()
    }
}

/// The state that a plan brings the entry to.
#[derive(Debug)]
pub struct NewState<'r> {
    /// Where the item stands now.
    pub position: Position<'r>,
    /// What it contributes there; nothing if it is gone.
    pub projected: ImageProjection,
    /// Whether the item is gone.
    pub gone: bool,
    /// When it was reconciled, if it was.
    pub as_of: Option<Timestamp>,
}

/// What a plan is made of.
#[derive(Clone, Copy, Debug)]
pub struct ItemPlanner<'p> {
    /// The model.
    pub model: &'p Model,
    /// The batch's rollups.
    pub targets: &'p RollupTargets,
    /// The time now.
    pub now: Timestamp,
}

impl ItemPlanner<'_> {
    /// The plan that brings `entry` to `state` (or leaves its state, if there is none) and settles `settlements`.
    ///
    /// # Errors
    /// [`ErrorKind::State`] if a newer model wrote the entry; [`ErrorKind::Record`] if a difference has more than 38 digits.
    pub fn plan<'r>(
        &self,
        entry: Option<&LedgerEntry<'r>>,
        state: Option<NewState<'r>>,
        settlements: Vec<(Position<'r>, ItemContributions)>,
        newest: Option<Timestamp>,
    ) -> Result<ItemPlan<'r>> {
        if let Some(entry) = entry
            && entry.generation > self.model.generation
        {
            return Err(newer_generation(entry.generation, self.model.generation));
        }
        let before = entry.map_or(const { &ItemContributions::NOTHING }, |entry| &entry.current);
        let (mut entry, extremes) = self.next_entry(entry, state, before);
        let (fresh, mut deltas) = difference(before, &entry.current)?;
        let mut markers = Vec::with_capacity(settlements.len());
        for (position, contributions) in settlements {
            deltas.extend(contributions.shares.into_iter().map(
                |Contribution { targets, measures, .. }| RollupDelta {
                    targets,
                    settled: measures.clone(),
                    measures,
                },
            ));
            markers.push(position);
        }
        entry.left = self.left_behind(before, &entry.current);
        let mut plan = ItemPlan { entry, markers, fresh, deltas, extremes, shown: Vec::new(), newest };
        each_rollup_once(&mut plan)?;
        self.drop_expired(&mut plan);
        plan.shown = self.shown(&plan);
        Ok(plan)
    }

    /// The entry in its new state, and what `max` and `min` have to see on the way there.
    fn next_entry<'r>(
        &self,
        entry: Option<&LedgerEntry<'r>>,
        state: Option<NewState<'r>>,
        before: &ItemContributions,
    ) -> (LedgerEntry<'r>, Vec<ExtremeValue>) {
        let (rev, generation) = (entry.map_or(0, |entry| entry.rev) + 1, self.model.generation);
        let as_of = entry.and_then(|entry| entry.as_of);
        let Some(NewState { position, projected, gone, as_of: observed }) = state else {
            let unchanged = LedgerEntry {
                position: entry.map_or_else(|| Position::start_of(""), |entry| entry.position.clone()),
                rev,
                generation,
                current: before.clone(),
                left: Vec::new(),
                as_of,
                expires_at: entry.and_then(|entry| entry.expires_at),
            };
            return (unchanged, Vec::new());
        };
        let mut current = projected.contributions;
        if !gone {
            // Of an item that is gone nothing is carried: its tombstone will go too, and then nobody could subtract it any more.
            let is_known = |share: &Contribution| {
                self.model.aggregates.iter().any(|known| known.name == share.aggregate)
            };
            current.shares.extend(before.shares.iter().filter(|share| !is_known(share)).cloned());
        }
        let expires_at = gone.then(|| self.now.plus(TOMBSTONE_LIFE));
        let as_of = as_of.max(observed);
        (
            LedgerEntry { position, rev, generation, current, left: Vec::new(), as_of, expires_at },
            projected.extremes,
        )
    }

    fn left_behind(&self, before: &ItemContributions, after: &ItemContributions) -> Vec<TargetId> {
        let now_in = |target: TargetId| after.shares.iter().any(|share| share.targets.contains(&target));
        let mut left = Vec::new();
        for share in &before.shares {
            let gone = share.targets.iter().copied().filter(|target| !now_in(*target));
            left.extend(gone.filter(|target| self.targets.shows_any(*target, &share.measures)));
        }
        left
    }

    fn shown(&self, plan: &ItemPlan<'_>) -> Vec<TargetId> {
        let mut shown = Vec::new();
        for PlannedAddition { targets, measures, .. } in plan.additions() {
            shown.extend(targets.iter().copied().filter(|target| self.targets.shows_any(*target, measures)));
        }
        let extremes =
            plan.extremes.iter().filter(|extreme| self.targets.shows(extreme.target, &extreme.measure));
        shown.extend(extremes.map(|extreme| extreme.target));
        shown
    }

    /// A rollup that has expired is gone or going: adding to it would bring back a part of it.
    fn drop_expired(&self, plan: &mut ItemPlan<'_>) {
        let lives = |target: TargetId| self.targets.get(target).expires_at.is_none_or(|at| at > self.now);
        if plan.touched().all(lives) {
            return;
        }
        plan.make_deltas();
        for delta in &mut plan.deltas {
            delta.targets.retain(|target| lives(*target));
        }
        plan.deltas.retain(|delta| !delta.targets.is_empty());
        plan.extremes.retain(|extreme| lives(extreme.target));
    }
}

/// What brings the rollups from one state of an item to the next: for each aggregate, and for what it counts into the same rollups
/// in both states, the difference; and the shares that are new as they stand.
fn difference(
    before: &ItemContributions,
    after: &ItemContributions,
) -> Result<(SmallVec<[usize; 2]>, Vec<RollupDelta>)> {
    let counterpart = |share: &Contribution, others: &ItemContributions| -> Option<usize> {
        let same =
            |other: &Contribution| other.aggregate == share.aggregate && other.targets == share.targets;
        others.shares.iter().position(same)
    };
    let (mut fresh, mut deltas) = (SmallVec::new(), Vec::new());
    for (index, share) in after.shares.iter().enumerate() {
        let Some(earlier) = counterpart(share, before).and_then(|index| before.shares.get(index)) else {
            fresh.push(index);
            continue;
        };
        let mut measures = share.measures.clone();
        for (measure, number) in &earlier.measures {
            add(&mut measures, measure, &number.negated())?;
        }
        measures.retain(|(_, number)| !number.is_zero());
        deltas.push(RollupDelta { targets: share.targets.clone(), measures, settled: Vec::new() });
    }
    for share in before.shares.iter().filter(|share| counterpart(share, after).is_none()) {
        let negated = share.measures.iter().map(|(name, number)| (Arc::clone(name), number.negated()));
        let (targets, measures) = (share.targets.clone(), negated.collect());
        deltas.push(RollupDelta { targets, measures, settled: Vec::new() });
    }
    deltas.retain(|delta: &RollupDelta| !delta.measures.is_empty());
    Ok((fresh, deltas))
}

/// The same additions, with no rollup in two of them.
fn each_rollup_once(plan: &mut ItemPlan<'_>) -> Result<()> {
    let overlaps = |(index, addition): (usize, PlannedAddition<'_>)| {
        let mut others = plan.additions().skip(index + 1);
        others.any(|other| addition.targets.iter().any(|target| other.targets.contains(target)))
    };
    if !plan.additions().enumerate().any(overlaps) {
        return Ok(());
    }
    plan.make_deltas();
    let mut by_target: BTreeMap<TargetId, RollupDelta> = BTreeMap::new();
    for delta in &plan.deltas {
        for target in &delta.targets {
            let targets = TargetIds::from_slice(&[*target]);
            let empty = || RollupDelta { targets, measures: Vec::new(), settled: Vec::new() };
            let sum = by_target.entry(*target).or_insert_with(empty);
            for (name, number) in &delta.measures {
                add(&mut sum.measures, name, number)?;
            }
            for (name, number) in &delta.settled {
                add(&mut sum.settled, name, number)?;
            }
        }
    }
    plan.deltas = by_target.into_values().collect();
    Ok(())
}

/// Adds to a measure.
///
/// # Errors
/// [`ErrorKind::Record`] if the sum is beyond 38 digits; then nothing was added.
pub(super) fn add(sums: &mut MeasureAmounts, name: &Arc<str>, number: &Decimal) -> Result<()> {
    // Nearly all names are the model's own, and are told by where they are.
    let same = sums.iter().position(|(known, _)| Arc::ptr_eq(known, name));
    let place = same.or_else(|| sums.iter().position(|(known, _)| known == name));
    match place.and_then(|place| sums.get_mut(place)) {
        None => sums.push((Arc::clone(name), number.clone())),
        Some((_, sum)) => {
            *sum = sum.plus(number).map_err(|cause| {
                Error::new(
                    ErrorKind::Record,
                    format!("measure `{name}` changes by more than 38 digits can say"),
                )
                .caused_by(cause)
            })?;
        }
    }
    Ok(())
}

fn newer_generation(theirs: u64, ours: u64) -> Error {
    Error::new(ErrorKind::State, "the item's ledger entry was written by a newer table model")
        .with("entry's generation", theirs.to_string())
        .with("this function's generation", ours.to_string())
        .hint("Deploy the newer model to every function; the record comes again until then")
}
