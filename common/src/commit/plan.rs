//! The one write that brings an item's ledger entry up to date, and what it adds to which rollups.

use std::sync::Arc;

use super::decide::TOMBSTONE_LIFE;
use super::entry::Entry;
use crate::projection::{Contributions, Extreme, Projected, Share, TargetId, Targets};
use crate::record::{Decimal, Position, Timestamp};
use crate::{Error, ErrorKind, Result};

/// What is added to each of some rollups.
#[derive(Clone, Debug, PartialEq)]
pub struct Delta {
    /// The rollups.
    pub targets: Vec<TargetId>,
    /// By how much each measure changes; none by nought.
    pub measures: Vec<(Arc<str>, Decimal)>,
    /// Whether this is settled: added to `settled_<measure>` as well.
    pub settled: bool,
}

/// The new entry of one item, and all that is written with it in one step.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The entry that replaces the one with the revision before.
    pub entry: Entry,
    /// The expiries that are claimed with it.
    pub markers: Vec<Position<'static>>,
    /// What is added to the rollups.
    pub deltas: Vec<Delta>,
    /// What their `max` and `min` have to see.
    pub extremes: Vec<Extreme>,
    /// The rollups of which a mirrored measure changes.
    pub shown: Vec<TargetId>,
    /// The newest time of the records that are counted.
    pub newest: Option<Timestamp>,
}

impl Plan {
    /// Every rollup that is written, each as often as it is named.
    pub fn touched(&self) -> impl Iterator<Item = TargetId> {
        let added = self.deltas.iter().flat_map(|delta| &delta.targets);
        added.copied().chain(self.extremes.iter().map(|extreme| extreme.target))
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
pub struct Planner<'p> {
    /// The batch's rollups.
    pub targets: &'p Targets,
    /// The names of the model's aggregates: what others contributed is carried along untouched.
    pub aggregates: &'p dyn Fn(&str) -> bool,
    /// Whether a mirror shows this measure of this rollup.
    pub shows: &'p dyn Fn(TargetId, &str) -> bool,
    /// The model's generation.
    pub generation: u64,
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
            && entry.generation > self.generation
        {
            return Err(newer_generation(entry.generation, self.generation));
        }
        let nothing = Contributions::default();
        let before = entry.map_or(&nothing, |entry| &entry.current);
        let mut plan = Plan {
            entry: self.next_entry(entry, state.as_ref(), before),
            markers: Vec::with_capacity(settlements.len()),
            deltas: Vec::new(),
            extremes: state.map(|state| state.projected.extremes).unwrap_or_default(),
            shown: Vec::new(),
            newest,
        };
        plan.deltas = self.difference(before, &plan.entry.current)?;
        for (position, contributions) in settlements {
            let settled =
                |share: Share| Delta { targets: share.targets, measures: share.measures, settled: true };
            plan.deltas.extend(contributions.shares.into_iter().map(settled));
            plan.markers.push(position);
        }
        plan.entry.left = self.left_behind(before, &plan.entry.current);
        self.drop_expired(&mut plan);
        plan.shown = self.shown(&plan);
        Ok(plan)
    }

    fn next_entry(&self, entry: Option<&Entry>, state: Option<&NewState>, before: &Contributions) -> Entry {
        let mut next = entry.cloned().unwrap_or_else(|| Entry {
            position: Position::start_of(""),
            rev: 0,
            generation: self.generation,
            current: Contributions::default(),
            left: Vec::new(),
            as_of: None,
            expires_at: None,
        });
        next.rev += 1;
        next.generation = self.generation;
        if let Some(state) = state {
            next.position = state.position.clone();
            next.current = state.projected.contributions.clone();
            // Of an item that is gone nothing is carried: its tombstone will go too, and then nobody could subtract it any more.
            let carried =
                before.shares.iter().filter(|share| !state.gone && !(self.aggregates)(&share.aggregate));
            next.current.shares.extend(carried.cloned());
            next.expires_at = state.gone.then(|| self.now.plus(TOMBSTONE_LIFE));
            next.as_of = next.as_of.max(state.as_of);
        }
        next
    }

    fn difference(&self, before: &Contributions, after: &Contributions) -> Result<Vec<Delta>> {
        let mut deltas = Vec::with_capacity(after.shares.len());
        let counterpart = |share: &Share, others: &Contributions| {
            let same = |other: &&Share| other.aggregate == share.aggregate && other.targets == share.targets;
            others.shares.iter().find(same).map(|other| other.measures.clone()).unwrap_or_default()
        };
        for share in &after.shares {
            let measures = subtract(share.measures.clone(), counterpart(share, before))?;
            deltas.push(Delta { targets: share.targets.clone(), measures, settled: false });
        }
        for share in &before.shares {
            if counterpart(share, after).is_empty() {
                let measures = subtract(Vec::new(), share.measures.clone())?;
                deltas.push(Delta { targets: share.targets.clone(), measures, settled: false });
            }
        }
        deltas.retain(|delta| !delta.measures.is_empty());
        Ok(deltas)
    }

    fn left_behind(&self, before: &Contributions, after: &Contributions) -> Vec<TargetId> {
        let now_in = |target: TargetId| after.shares.iter().any(|share| share.targets.contains(&target));
        let left = |share: &Share, target: &TargetId| {
            !now_in(*target) && share.measures.iter().any(|(measure, _)| (self.shows)(*target, measure))
        };
        let of_share = |share: &Share| -> Vec<TargetId> {
            share.targets.iter().filter(|target| left(share, target)).copied().collect()
        };
        before.shares.iter().flat_map(of_share).collect()
    }

    fn shown(&self, plan: &Plan) -> Vec<TargetId> {
        let of_delta = |delta: &Delta| -> Vec<TargetId> {
            let is_shown =
                |target: &&TargetId| delta.measures.iter().any(|(name, _)| (self.shows)(**target, name));
            delta.targets.iter().filter(is_shown).copied().collect()
        };
        let of_extremes =
            plan.extremes.iter().filter(|extreme| (self.shows)(extreme.target, &extreme.measure));
        plan.deltas.iter().flat_map(of_delta).chain(of_extremes.map(|extreme| extreme.target)).collect()
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

/// `after − before`, without what is nought.
fn subtract(
    mut after: Vec<(Arc<str>, Decimal)>,
    before: Vec<(Arc<str>, Decimal)>,
) -> Result<Vec<(Arc<str>, Decimal)>> {
    for (measure, number) in before {
        match after.iter_mut().find(|(name, _)| *name == measure) {
            Some((_, value)) => {
                *value = value.minus(&number).map_err(|cause| {
                    Error::new(
                        ErrorKind::Record,
                        format!("measure `{measure}` changes by more than 38 digits can say"),
                    )
                    .caused_by(cause)
                })?;
            }
            None => after.push((measure, number.negated())),
        }
    }
    after.retain(|(_, number)| !number.is_zero());
    Ok(after)
}

fn newer_generation(theirs: u64, ours: u64) -> Error {
    Error::new(ErrorKind::State, "the item's ledger entry was written by a newer table model")
        .with("entry's generation", theirs.to_string())
        .with("this function's generation", ours.to_string())
        .remedy("Deploy the newer model to every function; the record comes again until then")
}
