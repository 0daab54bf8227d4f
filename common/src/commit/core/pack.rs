//! Packs plans into transactions. Pure.
//!
//! A transaction contains whole items (entry, markers and all rollups) and writes each rollup once, regardless of how
//! many items add to it. Items that rollups connect stay in one transaction if it has room for them, because transactions that
//! share a rollup follow one another. Among these, items are sorted by their rollups, because neighbours then share the most.

use std::cmp::Reverse;
use std::sync::Arc;

use hashbrown::HashMap;
use smallvec::SmallVec;

use super::connected::{ConnectedPlan, connected_parts};
use super::plan::{ItemPlan, PlannedAddition, add, plus};
use crate::projection::{Contribution, ExtremeValue, MeasureAmounts, RollupTargets, TargetId};
use crate::record::Timestamp;
use crate::sink::{MAX_TRANSACTION_ACTIONS, MAX_TRANSACTION_BYTES};
use crate::{Error, Result};

/// The additions of one transaction to one rollup.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RollupUpdate {
    /// The change of each measure. A change of zero is kept, so that `rev` grows.
    pub(crate) measures: MeasureAmounts,
    /// The settled part.
    pub(crate) settled: MeasureAmounts,
    /// The values that `max` and `min` must take into account.
    pub(crate) extremes: Vec<ExtremeValue>,
}

/// The items of one transaction, and what they add to rollups.
#[derive(Debug, Default)]
pub(crate) struct TransactionBatch {
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
    pub(crate) defect: Option<Error>,
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
    /// The items that may share its transaction, if not all may: those with the same number.
    pub(crate) group: Option<u32>,
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
    /// Items without a group are first, then the newest group: isolating one cause ends before the next begins.
    fn order(&self) -> (Option<Reverse<u32>>, usize, i64, &[TargetId]) {
        (self.packable.group.map(Reverse), self.connected.part, self.magnitude, &self.targets)
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
) -> Vec<TransactionBatch> {
    let (mut transactions, mut open) = (Vec::new(), TransactionBatch::default());
    let mut group = None;
    for part in ordered(plans, targets).chunk_by(PackCandidate::is_of_same_part) {
        let needed = NeededRoom::of(part);
        let would_be_cut = needed.fits() && !open.taken().plus(needed).fits();
        let part_group = part.first().and_then(|first| first.packable.group);
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
fn close(open: &mut TransactionBatch, transactions: &mut Vec<TransactionBatch>) {
    if !open.items.is_empty() {
        transactions.push(std::mem::take(open));
    }
}

/// DynamoDB counts the bytes of the stored items. These are generous estimates of the unknown parts.
const ROLLUP_BYTES: usize = 4 * 1024;
const ENTRY_BYTES: usize = 512;
const MARKER_BYTES: usize = 512;

fn entry_bytes(plan: &ItemPlan<'_>, targets: &RollupTargets) -> usize {
    let target_bytes = |ids: &[TargetId]| ids.iter().map(|id| target_bytes(*id, targets)).sum::<usize>();
    let contribution_bytes = |contribution: &Contribution| {
        let measures: usize = contribution.measures.iter().map(|(name, _)| name.len() + 48).sum();
        contribution.aggregate.len() + measures + target_bytes(&contribution.targets)
    };
    let current: usize = plan.entry.current.by_aggregate.iter().map(contribution_bytes).sum();
    ENTRY_BYTES + current + target_bytes(&plan.entry.left) + plan.markers.len() * MARKER_BYTES
}

fn target_bytes(id: TargetId, targets: &RollupTargets) -> usize {
    let target = targets.get(id);
    target.partition.len() + target.sort.len() + target.name.len() + 32
}

impl TransactionBatch {
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
                self.defect = self.defect.take().or(sums.err());
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
fn magnitude(plan: &ItemPlan<'_>) -> i64 {
    let numbers = plan.additions().flat_map(|addition| addition.measures.iter().chain(addition.settled));
    let steps = numbers.map(|(_, number)| number.fraction_digits() / 16);
    steps.max_by_key(|steps| steps.abs()).unwrap_or(0)
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
            Some(_) | None => add(sums, name, number)?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::commit::core::decide::RecordIndexes;
    use crate::commit::core::entry::LedgerEntry;
    use crate::commit::core::plan::{ExpiryMarker, RollupDelta};
    use crate::projection::{ExtremeRule, ItemContributions, TargetIds, TargetKey};
    use crate::record::{Decimal, Position};
    use crate::table::Model;

    /// The outline of an item's plan.
    #[derive(Clone, Debug)]
    struct PackedPlan {
        /// The numbers of the rollups that it adds to.
        rollups: BTreeSet<u16>,
        amount: i64,
        is_settled: bool,
        markers: usize,
        /// The number of the rollup that it has an extreme for.
        extreme: Option<u16>,
        /// The approximate size of its entry.
        entry_bytes: usize,
        group: Option<u32>,
    }

    fn targets() -> RollupTargets {
        RollupTargets::of(&Arc::new(Model::load(Model::DEFAULT_NAME).unwrap()))
    }

    fn plan(outline: &PackedPlan, targets: &mut RollupTargets) -> ItemPlan<'static> {
        let mut intern = |number: &u16| {
            let partition = format!("P{number}");
            targets.intern_stored("r", TargetKey { partition: &partition, sort: "S", shard: None }, None)
        };
        let measures = vec![(Arc::from("n"), Decimal::from(outline.amount))];
        let touched = outline.rollups.iter().map(&mut intern).collect();
        let extreme = outline.extreme.as_ref().map(|number| ExtremeValue {
            target: intern(number),
            measure: Arc::from("top"),
            rule: ExtremeRule::Largest,
            value: Decimal::from(outline.amount).into(),
        });
        let position = Position::start_of("label");
        let aggregate = Arc::from("a".repeat(outline.entry_bytes));
        let contribution = Contribution { aggregate, targets: TargetIds::new(), measures: Vec::new() };
        let settled = if outline.is_settled { measures.clone() } else { Vec::new() };
        ItemPlan {
            entry: LedgerEntry {
                current: ItemContributions { by_aggregate: [contribution].into() },
                ..LedgerEntry::before(position.clone())
            },
            markers: vec![ExpiryMarker { position, parked: None }; outline.markers],
            new_contributions: SmallVec::new(),
            deltas: vec![RollupDelta { targets: touched, measures, settled }],
            extremes: extreme.into_iter().collect(),
            records: RecordIndexes::new(),
            newest: None,
            skipped: 0,
        }
    }

    fn outline() -> impl Strategy<Value = PackedPlan> {
        let rollups = proptest::collection::btree_set(0..60_u16, 1..30);
        // An item has at most 400 KB: a dozen of that size reach a transaction's byte limit before its action limit.
        let entry_bytes = prop_oneof![9 => 0..900_usize, 1 => 300_000..390_000_usize];
        let rest = (-9..9_i64, any::<bool>(), 0..4_usize, proptest::option::of(0..60_u16), entry_bytes);
        (rollups, rest, prop_oneof![9 => Just(None), 1 => (0..3_u32).prop_map(Some)]).prop_map(
            |(rollups, (amount, is_settled, markers, extreme, entry_bytes), group)| PackedPlan {
                rollups,
                amount,
                is_settled,
                markers,
                extreme,
                entry_bytes,
                group,
            },
        )
    }

    proptest! {
        #[test]
        fn transactions_stay_within_limits_and_lose_nothing(outlines in vec(outline(), 0..150)) {
            let mut targets = targets();
            let plans: Vec<ItemPlan<'_>> = outlines.iter().map(|outline| plan(outline, &mut targets)).collect();
            let packables = plans.iter().zip(&outlines).enumerate();
            let packables = packables.map(|(item, (plan, outline))| PackableItem { item, plan, group: outline.group });
            let transactions = pack(packables, &targets);

            let mut seen = vec![0; plans.len()];
            for transaction in &transactions {
                let own: usize = transaction.items.iter().map(|item| plans[*item].own_actions()).sum();
                prop_assert!(own + transaction.rollups.len() <= MAX_TRANSACTION_ACTIONS);
                let bytes: usize = transaction.items.iter().map(|item| outlines[*item].entry_bytes).sum();
                prop_assert!(bytes + transaction.rollups.len() * ROLLUP_BYTES <= MAX_TRANSACTION_BYTES);
                let mut expected: BTreeMap<TargetId, (i64, i64, Vec<ExtremeValue>)> = BTreeMap::new();
                for item in &transaction.items {
                    seen[*item] += 1;
                    let (plan, outline) = (&plans[*item], &outlines[*item]);
                    prop_assert_eq!(outline.group, outlines[transaction.items[0]].group, "groups share a transaction");
                    for target in &plan.deltas[0].targets {
                        let sums = expected.entry(*target).or_default();
                        sums.0 += outline.amount;
                        sums.1 += if outline.is_settled { outline.amount } else { 0 };
                    }
                    for extreme in &plan.extremes {
                        expected.entry(extreme.target).or_default().2.push(extreme.clone());
                    }
                }
                let total = |sums: &MeasureAmounts| sums.first().and_then(|(_, sum)| sum.to_i64()).unwrap_or(0);
                let packed = transaction.rollups.iter().map(|(target, update)| {
                    (*target, (total(&update.measures), total(&update.settled), update.extremes.clone()))
                });
                prop_assert_eq!(packed.collect::<BTreeMap<_, _>>(), expected);
            }
            prop_assert!(seen.iter().all(|times| *times == 1), "an item is packed twice or never");
        }
    }

    fn small(rollups: impl IntoIterator<Item = u16>, amount: i64) -> PackedPlan {
        let rollups = rollups.into_iter().collect();
        let (is_settled, markers, extreme, entry_bytes, group) = (false, 0, None, 0, None);
        PackedPlan { rollups, amount, is_settled, markers, extreme, entry_bytes, group }
    }

    fn packed(plans: &[ItemPlan<'_>], targets: &RollupTargets) -> Vec<TransactionBatch> {
        let packables = plans.iter().enumerate().map(|(item, plan)| PackableItem { item, plan, group: None });
        pack(packables, targets)
    }

    #[test]
    fn items_that_share_rollups_share_a_transaction() {
        let mut targets = targets();
        // Two groups, delivered alternately; together they need more than one transaction.
        let pair = |item| if item % 2 == 0 { [0, 1] } else { [40, 41] };
        let plans: Vec<ItemPlan<'_>> =
            (0..160).map(|item| plan(&small(pair(item), 1), &mut targets)).collect();
        let transactions = packed(&plans, &targets);
        let rollup_writes: usize = transactions.iter().map(|transaction| transaction.rollups.len()).sum();
        assert_eq!((transactions.len(), rollup_writes), (2, 4));
    }

    #[test]
    fn a_part_that_one_transaction_has_room_for_is_not_cut() {
        let mut targets = targets();
        // Three parts of 45 actions, delivered alternately: two have room in one transaction, three would cut the last.
        let rollups = |item: u16| [item % 3, 10 + item % 12];
        let plans: Vec<ItemPlan<'_>> =
            (0..120).map(|item| plan(&small(rollups(item), 1), &mut targets)).collect();
        let transactions = packed(&plans, &targets);
        let rollup_writes: usize = transactions.iter().map(|transaction| transaction.rollups.len()).sum();
        assert_eq!((transactions.len(), rollup_writes), (2, 15), "each rollup is in one transaction");
    }

    #[test]
    fn a_part_that_no_transaction_has_room_for_is_cut() {
        let mut targets = targets();
        // All share a rollup; the other 39 of each are its own.
        let rollups = |item: u16| std::iter::once(0).chain(item * 39 + 1..item * 39 + 40);
        let plans: Vec<ItemPlan<'_>> =
            (0..4).map(|item| plan(&small(rollups(item), 1), &mut targets)).collect();
        let transactions = packed(&plans, &targets);
        let sizes: Vec<_> = transactions.iter().map(|each| (each.items.len(), each.rollups.len())).collect();
        assert_eq!(sizes, [(2, 79), (2, 79)]);
    }

    #[test]
    fn large_entries_share_a_transaction_up_to_its_limit() {
        let mut targets = targets();
        let plans: Vec<ItemPlan<'_>> = (0..20)
            .map(|item| plan(&PackedPlan { entry_bytes: 390_000, ..small([item], 1) }, &mut targets))
            .collect();
        let transactions = packed(&plans, &targets);
        let items: Vec<_> = transactions.iter().map(|transaction| transaction.items.len()).collect();
        assert_eq!(items, [10, 10]);
    }

    #[test]
    fn no_entry_is_larger_than_its_estimate() {
        let mut targets = targets();
        let mut intern = |number: usize| {
            let (partition, sort) = (format!("{}{number}", "p".repeat(900)), "s".repeat(900));
            targets.intern_stored("r", TargetKey { partition: &partition, sort: &sort, shard: None }, None)
        };
        let contribution = Contribution {
            aggregate: Arc::from("aggregate".repeat(20)),
            targets: (0..4).map(&mut intern).collect(),
            measures: (0..9)
                .map(|measure| (Arc::from(format!("m{measure}").repeat(20)), Decimal::ONE))
                .collect(),
        };
        let left: Vec<TargetId> = (4..8).map(&mut intern).collect();
        let mut plan = plan(&small([0], 1), &mut targets);
        plan.entry.current = ItemContributions { by_aggregate: [contribution].into() };
        plan.entry.left = left;
        let stored = plan.entry.encode(&targets);
        let bytes: usize = stored.values().filter_map(|value| value.as_text()).map(str::len).sum();
        let estimate = entry_bytes(&plan, &targets);
        assert!((bytes..bytes + 2_000).contains(&estimate), "{estimate} for {bytes}");
    }

    #[test]
    fn plans_whose_sum_exceeds_38_digits_get_separate_transactions() {
        let mut targets = targets();
        let mut plans: Vec<ItemPlan<'_>> = (0..2).map(|_| plan(&small([0], 0), &mut targets)).collect();
        plans[0].deltas[0].measures[0].1 = "1E+30".parse().unwrap();
        plans[1].deltas[0].measures[0].1 = "1E-30".parse().unwrap();
        let transactions = packed(&plans, &targets);
        assert_eq!(
            transactions.iter().map(|transaction| transaction.items.len()).collect::<Vec<_>>(),
            [1, 1]
        );
    }
}
