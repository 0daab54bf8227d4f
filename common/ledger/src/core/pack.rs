//! Packs plans into transactions. Pure.
//!
//! A transaction contains whole items (entry, markers and all rollups) and writes each rollup once, regardless of how
//! many items add to it. Items that rollups connect stay in one transaction if it has room for them, because transactions that
//! share a rollup follow one another: plans that share a rollup, directly or through other plans, are of one connected part. Among these, items are sorted by their rollups, because neighbours then share the most.

use std::sync::Arc;

use afterwrite_model::projection::{Contribution, MeasureAmounts, RollupTargets, TargetId};
use afterwrite_model::record::{Decimal, Timestamp};
use afterwrite_model::{Error, ErrorKind, Result};
use hashbrown::HashMap;
use smallvec::SmallVec;

use super::amounts::amount_of;
use super::plan::{ItemPlan, PlannedAddition};
use crate::policy::PeerGroup;
use crate::state::rollup::RollupUpdate;
use crate::tables::{MAX_TRANSACTION_ACTIONS, MAX_TRANSACTION_BYTES};

/// The items of one transaction, and what they add to rollups.
#[derive(Debug, Default)]
pub(crate) struct PackedTransaction {
    /// The items, by the caller's indexes.
    pub(crate) items: Vec<usize>,
    /// The rollups; each occurs once.
    pub(crate) rollups: Vec<(TargetId, RollupUpdate)>,
    /// The index in `rollups` of each.
    indexes: HashMap<TargetId, usize>,
    /// The newest creation time of the records that are counted.
    pub(crate) newest: Option<Timestamp>,
    /// The room that its items take, without the rollups.
    own_actions: usize,
    own_bytes: usize,
    /// Why the transaction must not be sent: a sum that could not be formed.
    pub(crate) invalid_sum: Option<Error>,
    /// Some numbers are not 64-bit integers, so that a sum may exceed DynamoDB's limits and must be checked first.
    has_long_numbers: bool,
}

/// An item to pack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PackableItem<'p> {
    /// The caller's index of the item.
    pub(crate) item: usize,
    /// The item's plan.
    pub(crate) plan: &'p ItemPlan<'p>,
    /// The items that may share its transaction.
    pub(crate) group: PeerGroup,
}

/// An item's plan with the values that packing uses repeatedly.
struct PackCandidate<'p> {
    packable: PackableItem<'p>,
    targets: SmallVec<[TargetId; 8]>,
    entry_bytes: usize,
    has_long_numbers: bool,
    /// The magnitude of its numbers. Sums of numbers of different magnitudes can exceed 38 digits.
    magnitude: i64,
    connected: ConnectedPlan,
}

impl PackCandidate<'_> {
    fn order(&self) -> (PeerGroup, usize, i64, &[TargetId]) {
        (self.packable.group, self.connected.part, self.magnitude, &self.targets)
    }

    fn is_of_same_part(&self, other: &Self) -> bool {
        (self.packable.group, self.connected.part) == (other.packable.group, other.connected.part)
    }
}

/// The room that plans need in a transaction.
#[derive(Clone, Copy, Debug, Default)]
struct NeededRoom {
    own_actions: usize,
    own_bytes: usize,
    rollups: usize,
}

impl NeededRoom {
    /// The room for all plans of a connected part.
    fn of(part: &[PackCandidate<'_>]) -> Self {
        part.iter().fold(Self::default(), |room, candidate| {
            room.plus(Self {
                own_actions: candidate.packable.plan.own_actions(),
                own_bytes: candidate.entry_bytes,
                rollups: candidate.connected.new_rollups,
            })
        })
    }

    fn plus(self, other: Self) -> Self {
        Self {
            own_actions: self.own_actions + other.own_actions,
            own_bytes: self.own_bytes + other.own_bytes,
            rollups: self.rollups + other.rollups,
        }
    }

    /// Whether one transaction has this room.
    fn fits(self) -> bool {
        self.own_actions + self.rollups <= MAX_TRANSACTION_ACTIONS
            && self.own_bytes + self.rollups * ROLLUP_BYTES <= MAX_TRANSACTION_BYTES
    }
}

/// Packs plans into transactions: connected parts one after the other, each first fit in the order of its rollups.
#[must_use]
pub(crate) fn pack<'p>(
    plans: impl Iterator<Item = PackableItem<'p>>,
    targets: &RollupTargets,
) -> Vec<PackedTransaction> {
    let (mut transactions, mut open) = (Vec::new(), PackedTransaction::default());
    let mut group = PeerGroup::All;
    for part in ordered(plans, targets).chunk_by(PackCandidate::is_of_same_part) {
        let needed = NeededRoom::of(part);
        let would_be_cut = needed.fits() && !open.taken().plus(needed).fits();
        let part_group = part.first().map(|first| first.packable.group).unwrap_or_default();
        if std::mem::replace(&mut group, part_group) != part_group || would_be_cut {
            close(&mut open, &mut transactions);
        }
        for candidate in part {
            if !open.has_room_for(candidate) {
                close(&mut open, &mut transactions);
            }
            open.add(candidate);
        }
    }
    close(&mut open, &mut transactions);
    transactions
}

/// The plans in the order of packing.
fn ordered<'p>(
    plans: impl Iterator<Item = PackableItem<'p>>,
    targets: &RollupTargets,
) -> Vec<PackCandidate<'p>> {
    let candidate = |packable: PackableItem<'p>| {
        let has_long_numbers = has_long_numbers(packable.plan);
        PackCandidate {
            packable,
            targets: packable.plan.targets().collect(),
            entry_bytes: entry_bytes(packable.plan, targets),
            has_long_numbers,
            magnitude: if has_long_numbers { magnitude(packable.plan) } else { 0 },
            connected: ConnectedPlan { part: 0, new_rollups: 0 },
        }
    };
    let mut ordered: Vec<PackCandidate<'_>> = Vec::with_capacity(plans.size_hint().1.unwrap_or(0));
    ordered.extend(plans.map(candidate));
    let parts = connected_parts(ordered.iter().map(|candidate| &*candidate.targets), targets);
    for (candidate, connected) in ordered.iter_mut().zip(parts) {
        candidate.connected = connected;
    }
    // Items whose lists of rollups begin alike share the most.
    ordered.sort_by(|a, b| a.order().cmp(&b.order()));
    ordered
}

/// Ends a transaction: the next item begins another one.
fn close(open: &mut PackedTransaction, transactions: &mut Vec<PackedTransaction>) {
    if !open.items.is_empty() {
        transactions.push(std::mem::take(open));
    }
}

/// DynamoDB counts the bytes of the stored items. These are generous estimates of the unknown parts.
const ROLLUP_BYTES: usize = 4 * 1024;
const ENTRY_BYTES: usize = 512;
const MARKER_BYTES: usize = 512;

fn entry_bytes(plan: &ItemPlan<'_>, targets: &RollupTargets) -> usize {
    let target_bytes = |ids: &[TargetId]| ids.iter().map(|id| targets.get(*id).entry_bytes()).sum::<usize>();
    let contribution_bytes = |contribution: &Contribution| {
        let measures: usize = contribution.measures.iter().map(|(name, _)| name.len() + 48).sum();
        contribution.aggregate.len() + measures + target_bytes(&contribution.targets)
    };
    let current: usize = plan.entry.current.by_aggregate.iter().map(contribution_bytes).sum();
    ENTRY_BYTES + current + target_bytes(&plan.entry.departed) + plan.markers.len() * MARKER_BYTES
}

impl PackedTransaction {
    fn taken(&self) -> NeededRoom {
        let Self { own_actions, own_bytes, .. } = *self;
        NeededRoom { own_actions, own_bytes, rollups: self.rollups.len() }
    }

    fn has_room_for(&self, candidate: &PackCandidate<'_>) -> bool {
        let PackCandidate { packable: PackableItem { plan, .. }, targets, entry_bytes, .. } = candidate;
        let rollups = targets.iter().filter(|target| !self.indexes.contains_key(*target)).count();
        let needed = NeededRoom { own_actions: plan.own_actions(), own_bytes: *entry_bytes, rollups };
        self.taken().plus(needed).fits()
            && (!(self.has_long_numbers || candidate.has_long_numbers)
                || plan.additions().all(|addition| self.can_add(&addition)))
    }

    /// Whether no sum exceeds DynamoDB's limits on numbers.
    fn can_add(&self, addition: &PlannedAddition<'_>) -> bool {
        addition.targets.iter().all(|target| {
            let known = self.indexes.get(target).and_then(|index| self.rollups.get(*index));
            known.is_none_or(|(_, update)| {
                sums_fit(&update.measures, addition.measures) && sums_fit(&update.settled, addition.settled)
            })
        })
    }

    fn update(&mut self, target: TargetId) -> &mut RollupUpdate {
        let index = *self.indexes.entry(target).or_insert(self.rollups.len());
        if index == self.rollups.len() {
            self.rollups.push((target, RollupUpdate::default()));
        }
        #[expect(clippy::indexing_slicing, reason = "`indexes` has the indexes of `rollups` alone")]
        &mut self.rollups[index].1
    }

    /// Adds an item for which there is room; an empty transaction has room for every item.
    fn add(&mut self, candidate: &PackCandidate<'_>) {
        let PackCandidate { packable: PackableItem { item, plan, .. }, entry_bytes, .. } = candidate;
        for PlannedAddition { targets, measures, settled } in plan.additions() {
            for target in targets {
                let update = self.update(*target);
                let sums = add_all(&mut update.measures, measures);
                let sums = sums.and_then(|()| add_all(&mut update.settled, settled));
                self.invalid_sum = self.invalid_sum.take().or(sums.err());
            }
        }
        for extreme in &plan.extremes {
            self.update(extreme.target).extremes.push(extreme.clone());
        }
        self.has_long_numbers |= candidate.has_long_numbers;
        self.items.push(*item);
        self.newest = self.newest.max(plan.newest);
        self.own_bytes += entry_bytes;
        self.own_actions += plan.own_actions();
    }
}

/// Sums of 64-bit integers stay below 38 digits, regardless of how many fit into a transaction.
fn has_long_numbers(plan: &ItemPlan<'_>) -> bool {
    let is_long = |measures: &MeasureAmounts| measures.iter().any(|(_, number)| number.to_i64().is_none());
    plan.additions().any(|addition| is_long(addition.measures) || is_long(addition.settled))
}

/// The position of the last digit of a plan's most extreme number, in steps of 16 digits. Integers of 64 bits and usual
/// fractions have 0, so that they are packed by their rollups alone.
///
/// A change that is too long to be added is the first if it leaves a smaller number, and the last otherwise: next to the longer number, the
/// rollup may have no room for other changes.
fn magnitude(plan: &ItemPlan<'_>) -> i64 {
    if let Some(shrinks) = shrinks(plan) {
        return if shrinks { i64::MIN } else { i64::MAX };
    }
    let numbers = plan.additions().flat_map(|addition| addition.measures.iter().chain(addition.settled));
    let steps = numbers.map(|(_, number)| number.fraction_digits() / 16);
    steps.max_by_key(|steps| steps.abs()).unwrap_or(0)
}

/// Whether a change that is too long to be added leaves a smaller number; `None` if the plan has no such change.
fn shrinks(plan: &ItemPlan<'_>) -> Option<bool> {
    let absolute = |number: &Decimal| if number.sign().is_lt() { number.negated() } else { number.clone() };
    plan.deltas.iter().find_map(|delta| {
        let (name, change) = delta.measures.iter().find(|(_, change)| !change.is_storable())?;
        let contributions = plan.entry.current.by_aggregate.iter();
        let here =
            contributions.filter(|now| now.targets.iter().any(|target| delta.targets.contains(target)));
        let number = here.flat_map(|now| &now.measures).find(|(measure, _)| measure == name);
        Some(number.is_none_or(|(_, number)| absolute(number) < absolute(change)))
    })
}

fn sums_fit(sums: &MeasureAmounts, added: &MeasureAmounts) -> bool {
    added.iter().all(|(name, number)| {
        let sum = sums.iter().find(|(known, _)| known == name);
        sum.is_none_or(|(_, sum)| sum.plus(number).is_ok())
    })
}

fn add_all(sums: &mut MeasureAmounts, measures: &MeasureAmounts) -> Result<()> {
    /// About the number of measures of a rollup: growing the list costs more than the memory.
    const TYPICAL_MEASURES: usize = 16;
    if sums.is_empty() && !measures.is_empty() {
        sums.reserve(measures.len().max(TYPICAL_MEASURES));
        sums.extend_from_slice(measures);
        return Ok(());
    }
    for (index, (name, number)) in measures.iter().enumerate() {
        // Items of one entity usually add the same measures in the same order. `has_room_for` has checked the sums.
        match sums.get_mut(index) {
            Some(sum) if Arc::ptr_eq(&sum.0, name) => sum.1 = plus(name, &sum.1, number)?,
            Some(_) | None => match amount_of(sums, name) {
                None => sums.push((Arc::clone(name), number.clone())),
                Some(sum) => *sum = plus(name, sum, number)?,
            },
        }
    }
    Ok(())
}

/// The sum of two changes of a measure.
///
/// # Errors
/// [`ErrorKind::Record`] if it exceeds 38 digits.
fn plus(name: &str, sum: &Decimal, number: &Decimal) -> Result<Decimal> {
    sum.plus(number).map_err(|cause| {
        let message = format!("the change of measure `{name}` exceeds 38 digits");
        Error::new(ErrorKind::Record, message).caused_by(cause)
    })
}

/// The place of a plan among the connected parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ConnectedPlan {
    /// The number of its part: the index of the part's first plan.
    part: usize,
    /// How many of its rollups no earlier plan writes.
    new_rollups: usize,
}

/// The place of each plan, by the rollups that it writes; `targets` has all rollups of the batch.
fn connected_parts<'t>(
    plans: impl Iterator<Item = &'t [TargetId]>,
    targets: &RollupTargets,
) -> Vec<ConnectedPlan> {
    let mut parts = Parts(Vec::with_capacity(plans.size_hint().0));
    let mut new_rollups = Vec::with_capacity(plans.size_hint().0);
    // For each rollup, the first plan that writes it.
    let mut writers: Vec<Option<usize>> = vec![None; targets.count()];
    for (plan, written) in plans.enumerate() {
        parts.0.push(plan);
        let mut new = 0;
        for target in written {
            let Some(writer) = writers.get_mut(target.index()) else { continue };
            new += usize::from(writer.is_none());
            parts.join(*writer.get_or_insert(plan), plan);
        }
        new_rollups.push(new);
    }
    let plans = new_rollups.into_iter().enumerate();
    plans.map(|(plan, new_rollups)| ConnectedPlan { part: parts.first(plan), new_rollups }).collect()
}

/// For each plan, an earlier plan of its part, or itself if it is the first.
struct Parts(Vec<usize>);

impl Parts {
    /// The first plan of a plan's part. Shortens the way to it.
    fn first(&mut self, plan: usize) -> usize {
        let mut plan = plan;
        loop {
            let earlier = self.earlier(plan);
            if earlier == plan {
                return plan;
            }
            let first = self.earlier(earlier);
            if let Some(known) = self.0.get_mut(plan) {
                *known = first;
            }
            plan = first;
        }
    }

    fn earlier(&self, plan: usize) -> usize {
        self.0.get(plan).copied().unwrap_or(plan)
    }

    fn join(&mut self, one: usize, other: usize) {
        let (one, other) = (self.first(one), self.first(other));
        if let Some(earlier) = self.0.get_mut(one.max(other)) {
            *earlier = one.min(other);
        }
    }
}

#[cfg(test)]
mod tests;
