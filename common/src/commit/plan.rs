//! The one write that brings an item's ledger entry up to date, and what it adds to which rollups.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::decide::TOMBSTONE_LIFE;
use super::entry::Entry;
use crate::projection::{Contributions, Extreme, Projected, Share, TargetId, Targets};
use crate::record::{Decimal, Position, Timestamp};
use crate::table::Model;
use crate::{Error, ErrorKind, Result};

/// Numbers by measure.
pub type Measures = Vec<(Arc<str>, Decimal)>;

/// What is added to each of some rollups.
#[derive(Clone, Debug, PartialEq)]
pub struct Delta {
    /// The rollups.
    pub targets: Vec<TargetId>,
    /// By how much each measure changes. Sums that cancel out stay, so that `rev` grows.
    pub measures: Measures,
    /// How much of it is settled: added to `settled_<measure>` as well.
    pub settled: Measures,
}

/// The new entry of one item, and all that is written with it in one step.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The entry that replaces the one with the revision before.
    pub entry: Entry,
    /// The expiries that are claimed with it.
    pub markers: Vec<Position<'static>>,
    /// What is added to the rollups; no rollup is in two of them.
    pub deltas: Vec<Delta>,
    /// What their `max` and `min` have to see.
    pub extremes: Vec<Extreme>,
    /// The rollups of which a mirrored measure changes.
    pub shown: Vec<TargetId>,
    /// The newest time of the records that are counted.
    pub newest: Option<Timestamp>,
}

impl Plan {
    /// Every rollup that is written, each once.
    pub fn touched(&self) -> impl Iterator<Item = TargetId> {
        let added = self.deltas.iter().flat_map(|delta| &delta.targets);
        let is_added = |target| self.deltas.iter().any(|delta| delta.targets.contains(&target));
        let is_first = move |(index, extreme): &(usize, &Extreme)| {
            let mut earlier = self.extremes.iter().take(*index);
            !is_added(extreme.target) && !earlier.any(|other| other.target == extreme.target)
        };
        let seen = self.extremes.iter().enumerate().filter(is_first);
        added.copied().chain(seen.map(|(_, extreme)| extreme.target))
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
pub struct NewState {
    /// Where the item stands now.
    pub position: Position<'static>,
    /// What it contributes there; nothing if it is gone.
    pub projected: Projected,
    /// Whether the item is gone.
    pub gone: bool,
    /// When it was reconciled, if it was.
    pub as_of: Option<Timestamp>,
}

/// What a plan is made of.
#[derive(Clone, Copy, Debug)]
pub struct Planner<'p> {
    /// The model.
    pub model: &'p Model,
    /// The batch's rollups.
    pub targets: &'p Targets,
    /// The time now.
    pub now: Timestamp,
}

impl Planner<'_> {
    /// The plan that brings `entry` to `state` (or leaves its state, if there is none) and settles `settlements`.
    ///
    /// # Errors
    /// [`ErrorKind::State`] if a newer model wrote the entry; [`ErrorKind::Record`] if a difference has more than 38 digits.
    pub fn plan(
        &self,
        entry: Option<&Entry>,
        state: Option<NewState>,
        settlements: Vec<(Position<'static>, Contributions)>,
        newest: Option<Timestamp>,
    ) -> Result<Plan> {
        if let Some(entry) = entry
            && entry.generation > self.model.generation
        {
            return Err(newer_generation(entry.generation, self.model.generation));
        }
        let nothing = Contributions::default();
        let before = entry.map_or(&nothing, |entry| &entry.current);
        let (mut entry, extremes) = self.next_entry(entry, state, before);
        let mut deltas = difference(before, &entry.current)?;
        let mut markers = Vec::with_capacity(settlements.len());
        for (position, contributions) in settlements {
            deltas.extend(contributions.shares.into_iter().map(|Share { targets, measures, .. }| Delta {
                targets,
                settled: measures.clone(),
                measures,
            }));
            markers.push(position);
        }
        entry.left = self.left_behind(before, &entry.current);
        let deltas = each_rollup_once(deltas)?;
        let mut plan = Plan { entry, markers, deltas, extremes, shown: Vec::new(), newest };
        self.drop_expired(&mut plan);
        plan.shown = self.shown(&plan);
        Ok(plan)
    }

    /// The entry in its new state, and what `max` and `min` have to see on the way there.
    fn next_entry(
        &self,
        entry: Option<&Entry>,
        state: Option<NewState>,
        before: &Contributions,
    ) -> (Entry, Vec<Extreme>) {
        let (rev, generation) = (entry.map_or(0, |entry| entry.rev) + 1, self.model.generation);
        let as_of = entry.and_then(|entry| entry.as_of);
        let Some(NewState { position, projected, gone, as_of: observed }) = state else {
            let unchanged = Entry {
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
            let is_known =
                |share: &Share| self.model.aggregates.iter().any(|known| known.name == share.aggregate);
            current.shares.extend(before.shares.iter().filter(|share| !is_known(share)).cloned());
        }
        let expires_at = gone.then(|| self.now.plus(TOMBSTONE_LIFE));
        let as_of = as_of.max(observed);
        (
            Entry { position, rev, generation, current, left: Vec::new(), as_of, expires_at },
            projected.extremes,
        )
    }

    fn left_behind(&self, before: &Contributions, after: &Contributions) -> Vec<TargetId> {
        let now_in = |target: TargetId| after.shares.iter().any(|share| share.targets.contains(&target));
        let mut left = Vec::new();
        for share in &before.shares {
            let gone = share.targets.iter().copied().filter(|target| !now_in(*target));
            left.extend(gone.filter(|target| self.shows(*target, &share.measures)));
        }
        left
    }

    fn shown(&self, plan: &Plan) -> Vec<TargetId> {
        let mut shown = Vec::new();
        for delta in &plan.deltas {
            shown.extend(delta.targets.iter().copied().filter(|target| self.shows(*target, &delta.measures)));
        }
        let extremes =
            plan.extremes.iter().filter(|extreme| self.targets.shows(extreme.target, &extreme.measure));
        shown.extend(extremes.map(|extreme| extreme.target));
        shown
    }

    fn shows(&self, target: TargetId, measures: &Measures) -> bool {
        measures.iter().any(|(name, _)| self.targets.shows(target, name))
    }

    /// A rollup that has expired is gone or going: adding to it would bring back a part of it.
    fn drop_expired(&self, plan: &mut Plan) {
        let lives = |target: TargetId| self.targets.get(target).expires_at.is_none_or(|at| at > self.now);
        for delta in &mut plan.deltas {
            delta.targets.retain(|target| lives(*target));
        }
        plan.deltas.retain(|delta| !delta.targets.is_empty());
        plan.extremes.retain(|extreme| lives(extreme.target));
    }
}

/// What brings the rollups from one state of an item to the next: for each aggregate, and for what it counts into the same rollups
/// in both states, the difference.
fn difference(before: &Contributions, after: &Contributions) -> Result<Vec<Delta>> {
    let counterpart = |share: &Share, others: &Contributions| -> Option<usize> {
        let same = |other: &Share| other.aggregate == share.aggregate && other.targets == share.targets;
        others.shares.iter().position(same)
    };
    let mut deltas = Vec::with_capacity(after.shares.len());
    for share in &after.shares {
        let earlier = counterpart(share, before).and_then(|index| before.shares.get(index));
        let mut measures = share.measures.clone();
        for (measure, number) in earlier.into_iter().flat_map(|earlier| &earlier.measures) {
            add(&mut measures, measure, &number.negated())?;
        }
        measures.retain(|(_, number)| !number.is_zero());
        deltas.push(Delta { targets: share.targets.clone(), measures, settled: Vec::new() });
    }
    for share in before.shares.iter().filter(|share| counterpart(share, after).is_none()) {
        let negated = share.measures.iter().map(|(name, number)| (Arc::clone(name), number.negated()));
        let (targets, measures) = (share.targets.clone(), negated.collect());
        deltas.push(Delta { targets, measures, settled: Vec::new() });
    }
    deltas.retain(|delta| !delta.measures.is_empty());
    Ok(deltas)
}

/// The same additions, with no rollup in two of them.
fn each_rollup_once(deltas: Vec<Delta>) -> Result<Vec<Delta>> {
    let is_in =
        |target: &TargetId, others: &[Delta]| others.iter().any(|delta| delta.targets.contains(target));
    let overlap = deltas.iter().enumerate().any(|(index, delta)| {
        let others = deltas.get(index + 1..).unwrap_or_default();
        delta.targets.iter().any(|target| is_in(target, others))
    });
    if !overlap {
        return Ok(deltas);
    }
    let mut by_target: BTreeMap<TargetId, Delta> = BTreeMap::new();
    for delta in deltas {
        for target in &delta.targets {
            let empty = || Delta { targets: vec![*target], measures: Vec::new(), settled: Vec::new() };
            let sum = by_target.entry(*target).or_insert_with(empty);
            for (name, number) in &delta.measures {
                add(&mut sum.measures, name, number)?;
            }
            for (name, number) in &delta.settled {
                add(&mut sum.settled, name, number)?;
            }
        }
    }
    Ok(by_target.into_values().collect())
}

/// Adds to a measure.
///
/// # Errors
/// [`ErrorKind::Record`] if the sum is beyond 38 digits; then nothing was added.
pub(super) fn add(sums: &mut Measures, name: &Arc<str>, number: &Decimal) -> Result<()> {
    match sums.iter_mut().find(|(known, _)| Arc::ptr_eq(known, name) || known == name) {
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
        .remedy("Deploy the newer model to every function; the record comes again until then")
}
