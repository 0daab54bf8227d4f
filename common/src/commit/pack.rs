//! Packs plans into transactions. Pure.
//!
//! A transaction contains whole items (entry, markers and all rollups) and writes each rollup once, regardless of how
//! many items add to it. Items are sorted by their rollups, because neighbours then share the most rollups.

use std::sync::Arc;

use hashbrown::HashMap;
use smallvec::SmallVec;

use super::plan::{ItemPlan, PlannedAddition, add};
use crate::projection::{Contribution, ExtremeValue, MeasureAmounts, RollupTargets, TargetId};
use crate::record::Timestamp;
use crate::sink::{MAX_TRANSACTION_ACTIONS, MAX_TRANSACTION_BYTES};

/// The additions of one transaction to one rollup.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RollupUpdate {
    /// The change of each measure. A change of zero is kept, so that `rev` grows.
    pub measures: MeasureAmounts,
    /// The settled part.
    pub settled: MeasureAmounts,
    /// The values that `max` and `min` must take into account.
    pub extremes: Vec<ExtremeValue>,
}

/// The items of one transaction, and what they add to rollups.
#[derive(Clone, Debug, Default)]
pub struct TransactionBatch {
    /// The items, by the caller's indexes.
    pub items: Vec<usize>,
    /// The rollups; each occurs once.
    pub rollups: Vec<(TargetId, RollupUpdate)>,
    /// The index in `rollups` of each.
    indexes: HashMap<TargetId, usize>,
    /// The newest creation time of the records that are counted.
    pub newest: Option<Timestamp>,
    own_actions: usize,
    own_bytes: usize,
    /// Some numbers are not 64-bit integers, so that a sum may exceed DynamoDB's limits and must be checked first.
    has_long_numbers: bool,
}

/// An item to pack.
#[derive(Clone, Copy, Debug)]
pub struct PackableItem<'p> {
    /// The caller's index of the item.
    pub item: usize,
    /// The item's plan.
    pub plan: &'p ItemPlan<'p>,
    /// Whether the item must have a transaction of its own.
    pub is_isolated: bool,
}

/// An item's plan with the values that packing uses repeatedly.
struct PackCandidate<'p> {
    packable: PackableItem<'p>,
    targets: SmallVec<[TargetId; 8]>,
    entry_bytes: usize,
}

/// Packs plans into transactions, first fit in the order of their rollups.
#[must_use]
pub fn pack<'p>(
    plans: impl Iterator<Item = PackableItem<'p>>,
    targets: &RollupTargets,
) -> Vec<TransactionBatch> {
    let candidate = |packable: PackableItem<'p>| PackCandidate {
        packable,
        targets: packable.plan.targets().collect(),
        entry_bytes: entry_bytes(packable.plan, targets),
    };
    let (mut transactions, mut open) = (Vec::new(), TransactionBatch::default());
    let mut ordered: Vec<PackCandidate<'_>> = Vec::with_capacity(plans.size_hint().1.unwrap_or(0));
    ordered.extend(plans.map(candidate));
    // Items whose lists of rollups begin alike share the most. Isolated items are last.
    ordered.sort_by(|a, b| (a.packable.is_isolated, &a.targets).cmp(&(b.packable.is_isolated, &b.targets)));
    for candidate in &ordered {
        if !open.items.is_empty() && (candidate.packable.is_isolated || !open.has_room_for(candidate)) {
            transactions.push(std::mem::take(&mut open));
        }
        open.add(candidate);
    }
    if !open.items.is_empty() {
        transactions.push(open);
    }
    transactions
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
    fn has_room_for(&self, candidate: &PackCandidate<'_>) -> bool {
        let PackCandidate { packable: PackableItem { plan, .. }, targets, entry_bytes } = candidate;
        let new = targets.iter().filter(|target| !self.indexes.contains_key(*target)).count();
        let rollups = self.rollups.len() + new;
        self.own_actions + plan.own_actions() + rollups <= MAX_TRANSACTION_ACTIONS
            && self.own_bytes + entry_bytes + rollups * ROLLUP_BYTES <= MAX_TRANSACTION_BYTES
            && (!(self.has_long_numbers || has_long_numbers(plan))
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

    fn update(&mut self, target: TargetId) -> Option<&mut RollupUpdate> {
        let index = *self.indexes.entry(target).or_insert(self.rollups.len());
        if index == self.rollups.len() {
            self.rollups.push((target, RollupUpdate::default()));
        }
        self.rollups.get_mut(index).map(|(_, update)| update)
    }

    /// Adds an item for which there is room; an empty transaction has room for every item.
    fn add(&mut self, candidate: &PackCandidate<'_>) {
        let PackCandidate { packable: PackableItem { item, plan, .. }, entry_bytes, .. } = candidate;
        for PlannedAddition { targets, measures, settled } in plan.additions() {
            for target in targets {
                if let Some(update) = self.update(*target) {
                    add_all(&mut update.measures, measures);
                    add_all(&mut update.settled, settled);
                }
            }
        }
        for extreme in &plan.extremes {
            if let Some(update) = self.update(extreme.target) {
                update.extremes.push(extreme.clone());
            }
        }
        self.has_long_numbers |= has_long_numbers(plan);
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

fn sums_fit(sums: &MeasureAmounts, added: &MeasureAmounts) -> bool {
    added.iter().all(|(name, number)| {
        let sum = sums.iter().find(|(known, _)| known == name);
        sum.is_none_or(|(_, sum)| sum.plus(number).is_ok())
    })
}

fn add_all(sums: &mut MeasureAmounts, measures: &MeasureAmounts) {
    /// About the number of measures of a rollup: growing the list costs more than the memory.
    const TYPICAL_MEASURES: usize = 16;
    if sums.is_empty() && !measures.is_empty() {
        sums.reserve(measures.len().max(TYPICAL_MEASURES));
        sums.extend_from_slice(measures);
        return;
    }
    for (index, (name, number)) in measures.iter().enumerate() {
        // Items of one entity usually add the same measures in the same order. `has_room_for` has checked the sums.
        match sums.get_mut(index) {
            Some(sum) if Arc::ptr_eq(&sum.0, name) => {
                if let Ok(total) = sum.1.plus(number) {
                    sum.1 = total;
                }
            }
            Some(_) | None => {
                let _ = add(sums, name, number);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::commit::LedgerEntry;
    use crate::commit::plan::RollupDelta;
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
        is_isolated: bool,
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
                position: position.clone(),
                rev: 1,
                generation: 1,
                current: ItemContributions { by_aggregate: [contribution].into() },
                left: Vec::new(),
                as_of: None,
                expires_at: None,
            },
            markers: vec![position; outline.markers],
            new_contributions: SmallVec::new(),
            deltas: vec![RollupDelta { targets: touched, measures, settled }],
            extremes: extreme.into_iter().collect(),
            mirrored: Vec::new(),
            newest: None,
        }
    }

    fn outline() -> impl Strategy<Value = PackedPlan> {
        let rollups = proptest::collection::btree_set(0..60_u16, 1..30);
        // An item has at most 400 KB: a dozen of that size reach a transaction's byte limit before its action limit.
        let entry_bytes = prop_oneof![9 => 0..900_usize, 1 => 300_000..390_000_usize];
        let rest = (-9..9_i64, any::<bool>(), 0..4_usize, proptest::option::of(0..60_u16), entry_bytes);
        (rollups, rest, proptest::bool::weighted(0.05)).prop_map(
            |(rollups, (amount, is_settled, markers, extreme, entry_bytes), is_isolated)| PackedPlan {
                rollups,
                amount,
                is_settled,
                markers,
                extreme,
                entry_bytes,
                is_isolated,
            },
        )
    }

    proptest! {
        #[test]
        fn transactions_stay_within_limits_and_lose_nothing(outlines in vec(outline(), 0..150)) {
            let mut targets = targets();
            let plans: Vec<ItemPlan<'_>> = outlines.iter().map(|outline| plan(outline, &mut targets)).collect();
            let packables = plans.iter().zip(&outlines).enumerate();
            let packables = packables.map(|(item, (plan, outline))| PackableItem { item, plan, is_isolated: outline.is_isolated });
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
                    prop_assert!(!outline.is_isolated || transaction.items.len() == 1, "an isolated item shares its transaction");
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
        let (is_settled, markers, extreme, entry_bytes, is_isolated) = (false, 0, None, 0, false);
        PackedPlan { rollups, amount, is_settled, markers, extreme, entry_bytes, is_isolated }
    }

    fn packed(plans: &[ItemPlan<'_>], targets: &RollupTargets) -> Vec<TransactionBatch> {
        let packables =
            plans.iter().enumerate().map(|(item, plan)| PackableItem { item, plan, is_isolated: false });
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
        assert_eq!((transactions.len(), rollup_writes), (2, 6));
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
