//! A plan: the new ledger entry of one item, and the additions to rollups that are written with it.
//!
//! In: the stored entry, and the records to count, settle and park ([`ItemWork`]). Out: an [`ItemPlan`]. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use afterwrite_model::projection::{
    Contribution, ExtremeValue, ImageProjection, ItemContributions, MeasureAmounts, RollupTargets, TargetId,
    TargetIds,
};
use afterwrite_model::record::{Position, Timestamp};
use afterwrite_model::table::Model;
use afterwrite_model::{Error, ErrorKind, Result};
use smallvec::SmallVec;

use super::amounts::add;
use super::decide::RecordIndexes;
use super::evaluate::{ItemWork, NewState};
use super::{DroppedAggregates, TombstoneHistory};
use crate::policy::{MARK_LIFETIME, TOMBSTONE_LIFETIME};
use crate::state::entry::LedgerEntry;
use crate::state::life::{LifeChange, kept_lives};
use crate::state::marker::ExpiryMarker;
use crate::state::rollup::are_storable;

/// The most bytes of an entry that name rollups which its item left. An item of DynamoDB has at most 400 KB, also if these texts are escaped.
const MOST_DEPARTED_BYTES: usize = 50_000;

/// An addition to each of some rollups.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RollupDelta {
    /// The rollups.
    pub(crate) targets: TargetIds,
    /// The change of each measure; a measure that stays is left out. Only a sum of zero of merged deltas is kept, so that `rev` grows.
    pub(crate) measures: MeasureAmounts,
    /// The settled part, which is also added to `settled_<measure>`.
    pub(crate) settled: MeasureAmounts,
}

impl RollupDelta {
    /// The addition that settles a contribution.
    fn settling(Contribution { targets, measures, .. }: Contribution) -> Self {
        Self { targets, settled: measures.clone(), measures }
    }

    /// Whether a measure is changed by more than zero.
    fn changes_measures(&self) -> bool {
        self.measures.iter().any(|(_, number)| !number.is_zero())
    }
}

/// A borrowed [`RollupDelta`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlannedAddition<'p> {
    /// The rollups.
    pub(crate) targets: &'p [TargetId],
    /// The change of each measure.
    pub(crate) measures: &'p MeasureAmounts,
    /// The settled part.
    pub(crate) settled: &'p MeasureAmounts,
}

/// The new entry of one item, and everything that is written in the same transaction.
#[derive(Clone, Debug)]
pub(crate) struct ItemPlan<'r> {
    /// The entry that replaces the one with the previous revision.
    pub(crate) entry: LedgerEntry<'r>,
    /// The markers of the expiries that are settled or parked.
    pub(crate) markers: Vec<ExpiryMarker<'r>>,
    /// The indexes of the entry's contributions that are added unchanged, because nothing was counted there before.
    pub(crate) new_contributions: SmallVec<[usize; 2]>,
    /// All other additions. No rollup occurs twice among these and the new contributions.
    pub(crate) deltas: Vec<RollupDelta>,
    /// The values that the rollups' `max` and `min` must take into account.
    pub(crate) extremes: Vec<ExtremeValue>,
    /// The indexes of the records that are counted or settled.
    pub(crate) records: RecordIndexes,
    /// The newest creation time of these records.
    pub(crate) newest: Option<Timestamp>,
    /// The number of times that an aggregate leaves out a state of the item.
    pub(crate) skipped: u64,
    /// The number of expired rollups that do not take their addition, which the levels above lack.
    pub(crate) lost: u64,
}

impl ItemPlan<'_> {
    /// The additions to rollups; no rollup occurs twice.
    pub(crate) fn additions(&self) -> impl Iterator<Item = PlannedAddition<'_>> {
        const NONE: &MeasureAmounts = &MeasureAmounts::new();
        let by_aggregate = &self.entry.current.by_aggregate;
        let new = self.new_contributions.iter().filter_map(|index| by_aggregate.get(*index));
        let new = new.map(|contribution| PlannedAddition {
            targets: &contribution.targets,
            measures: &contribution.measures,
            settled: NONE,
        });
        new.chain(self.deltas.iter().map(|delta| PlannedAddition {
            targets: &delta.targets,
            measures: &delta.measures,
            settled: &delta.settled,
        }))
    }

    /// Every rollup that is written, once.
    pub(crate) fn targets(&self) -> impl Iterator<Item = TargetId> {
        let added = self.additions().flat_map(|addition| addition.targets);
        let is_added = |target| self.additions().any(|addition| addition.targets.contains(&target));
        let is_first = move |(index, extreme): &(usize, &ExtremeValue)| {
            let mut earlier = self.extremes.iter().take(*index);
            !is_added(extreme.target) && !earlier.any(|other| other.target == extreme.target)
        };
        let extremes = self.extremes.iter().enumerate().filter(is_first);
        added.copied().chain(extremes.map(|(_, extreme)| extreme.target))
    }

    /// The rollups with a mirrored measure that changes.
    pub(crate) fn mirrored_targets(&self, targets: &RollupTargets) -> Vec<TargetId> {
        let added = self.additions().flat_map(|addition| {
            let is_mirrored = |target: &TargetId| targets.shows_any(*target, addition.measures);
            addition.targets.iter().copied().filter(is_mirrored)
        });
        let extremes = self.extremes.iter().filter(|extreme| targets.shows(extreme.target, &extreme.measure));
        added.chain(extremes.map(|extreme| extreme.target)).collect()
    }

    /// Turns the new contributions into deltas, so that they can be modified.
    fn make_deltas(&mut self) {
        let new = std::mem::take(&mut self.new_contributions);
        let new = new.into_iter().filter_map(|index| self.entry.current.by_aggregate.get(index));
        let new = new.map(|contribution| RollupDelta {
            targets: contribution.targets.clone(),
            measures: contribution.measures.clone(),
            settled: Vec::new(),
        });
        self.deltas.splice(..0, new);
    }

    /// The number of transaction actions for the entry and its markers.
    #[must_use]
    pub(crate) fn own_actions(&self) -> usize {
        1 + self.markers.len()
    }

    /// The rollups with a change that exceeds what DynamoDB stores, although both of its totals may not. It cannot be `ADD`ed: the new total
    /// is computed from the rollup as it was read, and written on its revision.
    pub(crate) fn exceeding(&self) -> impl Iterator<Item = TargetId> {
        let is_exceeding =
            |delta: &&RollupDelta| !are_storable(&delta.measures) || !are_storable(&delta.settled);
        self.deltas.iter().filter(is_exceeding).flat_map(|delta| delta.targets.iter().copied())
    }

    /// Whether only the entry is written, so that no transaction is needed.
    #[must_use]
    pub(crate) fn is_entry_only(&self) -> bool {
        self.markers.is_empty() && self.targets().next().is_none()
    }
}

/// The inputs that all plans of a batch share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ItemPlanner<'p> {
    /// The model.
    pub(crate) model: &'p Model,
    /// The batch's rollups.
    pub(crate) targets: &'p RollupTargets,
    /// The current time.
    pub(crate) now: Timestamp,
    /// The current time of DynamoDB, which deletes expired rollups.
    pub(crate) service_now: Timestamp,
    /// Whether the table may have had an expired rollup before.
    pub(crate) history: TombstoneHistory,
    /// The treatment of contributions to aggregates that the model no longer has.
    pub(crate) dropped: DroppedAggregates,
}

impl ItemPlanner<'_> {
    /// The plan that replaces `entry` by one with the state of `work`, or with its own state if the work has none, and that settles
    /// and parks the work's expiries and records. `departed` has the rollups that the item left earlier and whose mirrors may still be stale.
    ///
    /// # Errors
    /// [`ErrorKind::State`] if a newer model wrote the entry.
    pub(crate) fn plan<'r>(
        &self,
        entry: Option<&LedgerEntry<'r>>,
        departed: &[TargetId],
        work: ItemWork<'r>,
    ) -> Result<ItemPlan<'r>> {
        if let Some(entry) = entry
            && entry.generation > self.model.generation
        {
            return Err(newer_generation(entry.generation, self.model.generation));
        }
        let before = entry.map_or(const { &ItemContributions::NOTHING }, |entry| &entry.current);
        let ItemWork { state, settlements, behind, parked_expiries, start, records, newest, lives } = work;
        let projections = state.iter().map(|state| &state.projection);
        let projections = projections.chain(settlements.iter().map(|(_, projection)| projection));
        let skipped = projections.map(|projection| projection.skipped).sum();
        let may_be_known = is_read_again(entry, state.as_ref());
        let (mut entry, mut extremes) = self.next_entry(entry, state, start);
        let new_extremes = if may_be_known { 0 } else { extremes.len() };
        let lives = lives.unwrap_or(entry.unrecorded);
        let is_live = entry.expires_at.is_none();
        entry.unrecorded = if lives.is_empty() { lives } else { kept_lives(lives, is_live, self.now) };
        entry.behind = behind.or(entry.behind);
        entry.expires_at = self.entry_expiry(&entry);
        let (new_contributions, mut deltas) = difference(before, &entry.current);
        let mut markers = parked_expiries;
        for (position, ImageProjection { contributions, extremes: settled, .. }) in settlements {
            extremes.extend(settled);
            deltas.extend(contributions.by_aggregate.into_iter().map(RollupDelta::settling));
            markers.push(ExpiryMarker { position, parked: None });
        }
        entry.departed = self.departed_targets(departed, before, &entry.current);
        let lost = 0;
        let mut plan =
            ItemPlan { entry, markers, new_contributions, deltas, extremes, records, newest, skipped, lost };
        merge_deltas(&mut plan);
        self.drop_expired_targets(&mut plan, new_extremes);
        Ok(plan)
    }

    /// When an entry expires: a tombstone that a person must see is kept longer.
    fn entry_expiry(&self, entry: &LedgerEntry<'_>) -> Option<Timestamp> {
        let is_revived = entry.unrecorded.iter().any(|life| life.change == LifeChange::Revived);
        if entry.behind.is_some() || is_revived {
            let latest = self.now.plus(MARK_LIFETIME);
            entry.expires_at.map(|expires_at| expires_at.max(latest))
        } else if entry.has_counted() {
            entry.expires_at
        } else {
            // It only accompanies the marker of an expiry.
            Some(self.now.plus(TOMBSTONE_LIFETIME))
        }
    }

    /// The entry in its new state, and the values for `max` and `min`.
    fn next_entry<'r>(
        &self,
        entry: Option<&LedgerEntry<'r>>,
        state: Option<NewState<'r>>,
        start: Position<'r>,
    ) -> (LedgerEntry<'r>, Vec<ExtremeValue>) {
        let before = entry.map_or(const { &ItemContributions::NOTHING }, |entry| &entry.current);
        let is_counted_now = state.is_some() || entry.is_none();
        let mut next = entry.map_or_else(|| LedgerEntry::before(start), LedgerEntry::without_contributions);
        next.rev += 1;
        if is_counted_now {
            // An entry that keeps its state keeps the model that counted it: reconciling finds it by its generation.
            next.generation = self.model.generation;
            next.fingerprint = Arc::clone(self.model.fingerprint());
        }
        let mut extremes = Vec::new();
        if let Some(NewState { position, projection, is_deleted, as_of, unrecorded }) = state {
            next.current = projection.contributions;
            if !is_deleted && self.dropped == DroppedAggregates::Keep {
                // Contributions to aggregates that the model no longer has are kept. Those of a deleted item are
                // subtracted: once its tombstone is gone, nothing could subtract them.
                let is_known =
                    |name: &Arc<str>| self.model.aggregates.iter().any(|known| known.name == *name);
                let unknown = before.by_aggregate.iter().filter(|earlier| !is_known(&earlier.aggregate));
                next.current.by_aggregate.extend(unknown.cloned());
            }
            // The item's next change heals it, and so does counting the item itself: what its table has contains the
            // parked change, and records before that change, which may be redriven later, are older.
            let parked = next.behind.take_if(|behind| as_of.is_some() || behind.position <= position);
            next.position = parked.map_or(position.clone(), |parked| parked.position.max(position));
            next.as_of = next.as_of.max(as_of);
            next.expires_at = is_deleted.then(|| self.now.plus(TOMBSTONE_LIFETIME));
            next.unrecorded.extend(unrecorded);
            extremes = projection.extremes;
        } else {
            next.current = before.clone();
        }
        (next, extremes)
    }

    /// The mirrored rollups that the item does not contribute to, but did: before this plan, or `earlier`. The newest ones, if there are
    /// very many: the mirrors of the others stay stale only if this process crashes and none of the item's records is delivered again.
    fn departed_targets(
        &self,
        earlier: &[TargetId],
        before: &ItemContributions,
        after: &ItemContributions,
    ) -> Vec<TargetId> {
        let remains = |target: &TargetId| {
            after.by_aggregate.iter().any(|contribution| contribution.targets.contains(target))
        };
        let mut departed = earlier.to_vec();
        for target in self.targets.mirrored(before) {
            if !departed.contains(&target) {
                departed.push(target);
            }
        }
        departed.retain(|target| !remains(target));
        let mut bytes = 0;
        let newest = departed.iter().rev().take_while(|target| {
            bytes += self.targets.get(**target).entry_bytes();
            bytes <= MOST_DEPARTED_BYTES
        });
        departed.drain(..departed.len() - newest.count());
        departed
    }

    /// Drops additions to expired rollups: DynamoDB has deleted them or will, and an addition would restore a part of
    /// them. A table that is built from an archive gets the expired sources of the next level whole; in any other table, the next level lacks
    /// these additions. The first `new_extremes` extremes are additions, too.
    fn drop_expired_targets(&self, plan: &mut ItemPlan<'_>, new_extremes: usize) {
        let is_live = |target: TargetId| {
            let target = self.targets.get(target);
            let expires_later = target.expires_at.is_none_or(|at| at > self.service_now);
            expires_later || (self.history == TombstoneHistory::Complete && target.stays_counted(self.model))
        };
        if plan.targets().all(is_live) {
            return;
        }
        plan.make_deltas();
        let changes = plan.deltas.iter().filter(|delta| delta.changes_measures());
        let extremes = plan.extremes.iter().take(new_extremes).map(|extreme| extreme.target);
        let added = changes.flat_map(|delta| delta.targets.iter().copied()).chain(extremes);
        plan.lost = self.targets.missed_above(added.filter(|target| !is_live(*target)), self.service_now);
        for delta in &mut plan.deltas {
            delta.targets.retain(|target| is_live(*target));
        }
        plan.deltas.retain(|delta| !delta.targets.is_empty());
        plan.extremes.retain(|extreme| is_live(extreme.target));
    }
}

/// Whether an item is read again that the ledger has counted. Its entry does not show which extremes were counted.
fn is_read_again(entry: Option<&LedgerEntry<'_>>, state: Option<&NewState<'_>>) -> bool {
    entry.is_some() && state.is_some_and(|state| state.as_of.is_some())
}

/// The difference between two states of an item: the indexes of the contributions in `after` that have no counterpart
/// in `before`, and the deltas of all others. A counterpart has the same aggregate and the same rollups.
fn difference(
    before: &ItemContributions,
    after: &ItemContributions,
) -> (SmallVec<[usize; 2]>, Vec<RollupDelta>) {
    let (mut new, mut deltas) = (SmallVec::new(), Vec::new());
    for (index, contribution) in after.by_aggregate.iter().enumerate() {
        let Some(earlier) = counterpart(contribution, before) else {
            new.push(index);
            continue;
        };
        let mut measures = contribution.measures.clone();
        for (measure, number) in &earlier.measures {
            add(&mut measures, measure, &number.negated());
        }
        measures.retain(|(_, number)| !number.is_zero());
        deltas.push(RollupDelta { targets: contribution.targets.clone(), measures, settled: Vec::new() });
    }
    for earlier in before.by_aggregate.iter().filter(|earlier| counterpart(earlier, after).is_none()) {
        let negated = earlier.measures.iter().map(|(name, number)| (Arc::clone(name), number.negated()));
        let (targets, measures) = (earlier.targets.clone(), negated.collect());
        deltas.push(RollupDelta { targets, measures, settled: Vec::new() });
    }
    deltas.retain(|delta: &RollupDelta| !delta.measures.is_empty());
    (new, deltas)
}

fn counterpart<'c>(contribution: &Contribution, others: &'c ItemContributions) -> Option<&'c Contribution> {
    others
        .by_aggregate
        .iter()
        .find(|other| other.aggregate == contribution.aggregate && other.targets == contribution.targets)
}

/// Merges the additions of a plan so that no rollup occurs twice.
fn merge_deltas(plan: &mut ItemPlan<'_>) {
    let overlaps = |(index, addition): (usize, PlannedAddition<'_>)| {
        let mut others = plan.additions().skip(index + 1);
        others.any(|other| addition.targets.iter().any(|target| other.targets.contains(target)))
    };
    if !plan.additions().enumerate().any(overlaps) {
        return;
    }
    plan.make_deltas();
    let mut by_target: BTreeMap<TargetId, RollupDelta> = BTreeMap::new();
    for delta in &plan.deltas {
        for target in &delta.targets {
            let targets = TargetIds::from_slice(&[*target]);
            let empty = || RollupDelta { targets, measures: Vec::new(), settled: Vec::new() };
            let sum = by_target.entry(*target).or_insert_with(empty);
            for (sums, added) in [(&mut sum.measures, &delta.measures), (&mut sum.settled, &delta.settled)] {
                added.iter().for_each(|(name, number)| add(sums, name, number));
            }
        }
    }
    plan.deltas = by_target.into_values().collect();
}

fn newer_generation(entry: u64, model: u64) -> Error {
    Error::new(ErrorKind::State, "the item's ledger entry was written by a newer table model")
        .with("entry's generation", entry.to_string())
        .with("this function's generation", model.to_string())
        .hint("Deploy the newer model to every function; the record is redelivered until then")
}
