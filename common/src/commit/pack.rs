//! Packing: plans → transactions. Pure.
//!
//! A transaction holds whole items (an entry, its markers and all its rollups) and names each rollup once, however many
//! items add to it. So items that share rollups belong together: sorted by their rollups, neighbours share the most.

use std::sync::Arc;

use hashbrown::HashMap;
use smallvec::SmallVec;

use super::plan::{ItemPlan, PlannedAddition, add};
use crate::projection::{ExtremeValue, MeasureAmounts, RollupTargets, TargetId};
use crate::record::Timestamp;
use crate::sink::{MAX_TRANSACTION_ACTIONS, MAX_TRANSACTION_BYTES};

/// What is added to one rollup by one transaction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RollupUpdate {
    /// By how much each measure changes; a sum that cancels out stays, so that `rev` grows.
    pub measures: MeasureAmounts,
    /// What is settled of it.
    pub settled: MeasureAmounts,
    /// What `max` and `min` have to see.
    pub extremes: Vec<ExtremeValue>,
}

/// Items that are committed together, and what they add to the rollups.
#[derive(Clone, Debug, Default)]
pub struct TransactionBatch {
    /// The items, by the caller's numbers.
    pub items: Vec<usize>,
    /// The rollups, each once.
    pub rollups: Vec<(TargetId, RollupUpdate)>,
    /// Where in `rollups` each is.
    places: HashMap<TargetId, usize>,
    /// The newest time of the records that are counted.
    pub newest: Option<Timestamp>,
    own_actions: usize,
    own_bytes: usize,
    /// Some of its numbers are no integers, or large: sums must be tried before they are made.
    has_long_numbers: bool,
}

/// An item and its plan, as they are packed.
#[derive(Clone, Copy, Debug)]
pub struct PackableItem<'p> {
    /// The caller's number for the item.
    pub item: usize,
    /// Its plan.
    pub plan: &'p ItemPlan<'p>,
    /// Whether it must have a transaction of its own.
    pub alone: bool,
}

/// An item's plan with what packing asks of it again and again.
struct PackCandidate<'p> {
    packable: PackableItem<'p>,
    touched: SmallVec<[TargetId; 8]>,
    entry_bytes: usize,
}

/// Packs plans into as few transactions, with as few rollup writes, as sorting them by their rollups allows.
#[must_use]
pub fn pack<'p>(
    plans: impl Iterator<Item = PackableItem<'p>>,
    targets: &RollupTargets,
) -> Vec<TransactionBatch> {
    let measured = |packable: PackableItem<'p>| PackCandidate {
        packable,
        touched: packable.plan.touched().collect(),
        entry_bytes: entry_bytes(packable.plan, targets),
    };
    let (mut parcels, mut open) = (Vec::new(), TransactionBatch::default());
    let mut ordered: Vec<PackCandidate<'_>> = Vec::with_capacity(plans.size_hint().1.unwrap_or(0));
    ordered.extend(plans.map(measured));
    // Items with equal beginnings of their rollups share the most. Those that go alone go last.
    ordered.sort_by(|a, b| (a.packable.alone, &a.touched).cmp(&(b.packable.alone, &b.touched)));
    for measured in &ordered {
        if !open.items.is_empty() && (measured.packable.alone || !open.has_room_for(measured)) {
            parcels.push(std::mem::take(&mut open));
        }
        open.add(measured);
    }
    if !open.items.is_empty() {
        parcels.push(open);
    }
    parcels
}

/// DynamoDB counts the items as they are stored; what is not known of a rollup is assumed, generously.
const ROLLUP_BYTES: usize = 4 * 1024;
const ENTRY_BYTES: usize = 512;
const MARKER_BYTES: usize = 512;

fn entry_bytes(plan: &ItemPlan<'_>, targets: &RollupTargets) -> usize {
    let share_bytes = |share: &crate::projection::Contribution| {
        let measures: usize = share.measures.iter().map(|(name, _)| name.len() + 48).sum();
        let keys: usize = share.targets.iter().map(|id| target_bytes(*id, targets)).sum();
        share.aggregate.len() + measures + keys
    };
    let shares: usize = plan.entry.current.shares.iter().map(share_bytes).sum();
    let left: usize = plan.entry.left.iter().map(|id| target_bytes(*id, targets)).sum();
    ENTRY_BYTES + shares + left + plan.markers.len() * MARKER_BYTES
}

fn target_bytes(id: TargetId, targets: &RollupTargets) -> usize {
    let target = targets.get(id);
    target.partition.len() + target.sort.len() + target.name.len() + 32
}

impl TransactionBatch {
    fn has_room_for(&self, measured: &PackCandidate<'_>) -> bool {
        let PackCandidate { packable: PackableItem { plan, .. }, touched, entry_bytes } = measured;
        let new = touched.iter().filter(|target| !self.places.contains_key(*target)).count();
        let rollups = self.rollups.len() + new;
        self.own_actions + plan.own_actions() + rollups <= MAX_TRANSACTION_ACTIONS
            && self.own_bytes + entry_bytes + rollups * ROLLUP_BYTES <= MAX_TRANSACTION_BYTES
            && (!(self.has_long_numbers || has_long_numbers(plan))
                || plan.additions().all(|addition| self.can_add(&addition)))
    }

    /// Whether no sum goes beyond what DynamoDB's numbers hold.
    fn can_add(&self, addition: &PlannedAddition<'_>) -> bool {
        let fits = |sums: &MeasureAmounts, added: &MeasureAmounts| {
            added.iter().all(|(name, number)| {
                let sum = sums.iter().find(|(known, _)| known == name);
                sum.is_none_or(|(_, sum)| sum.plus(number).is_ok())
            })
        };
        addition.targets.iter().all(|target| {
            let place = self.places.get(target).and_then(|place| self.rollups.get(*place));
            place.is_none_or(|(_, update)| {
                fits(&update.measures, addition.measures) && fits(&update.settled, addition.settled)
            })
        })
    }

    fn update(&mut self, target: TargetId) -> Option<&mut RollupUpdate> {
        let place = *self.places.entry(target).or_insert(self.rollups.len());
        if place == self.rollups.len() {
            self.rollups.push((target, RollupUpdate::default()));
        }
        self.rollups.get_mut(place).map(|(_, update)| update)
    }

    /// Adds an item that there is room for; an empty parcel has room for any.
    fn add(&mut self, measured: &PackCandidate<'_>) {
        let PackCandidate { packable: PackableItem { item, plan, .. }, entry_bytes, .. } = measured;
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

/// Integers of 64 bits add up to less than 38 digits, however many fit into a transaction.
fn has_long_numbers(plan: &ItemPlan<'_>) -> bool {
    let is_long = |measures: &MeasureAmounts| measures.iter().any(|(_, number)| number.to_i64().is_none());
    plan.additions().any(|addition| is_long(addition.measures) || is_long(addition.settled))
}

fn add_all(sums: &mut MeasureAmounts, measures: &MeasureAmounts) {
    /// About as many measures as a rollup has: growing the list time and again costs more than the room.
    const TYPICAL: usize = 16;
    if sums.is_empty() && !measures.is_empty() {
        sums.reserve(measures.len().max(TYPICAL));
        sums.extend_from_slice(measures);
        return;
    }
    for (place, (name, number)) in measures.iter().enumerate() {
        // Items of one kind mostly add the same measures in the same order. `has_room_for` has seen that it fits.
        match sums.get_mut(place) {
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
    use crate::projection::{Contribution, ExtremeRule, ItemContributions, TargetIds, TargetKey};
    use crate::record::{Decimal, Position};
    use crate::table::Model;

    /// An item's plan, in short.
    #[derive(Clone, Debug)]
    struct PackedPlan {
        /// The rollups that it adds to, by number.
        rollups: BTreeSet<u16>,
        amount: i64,
        is_settled: bool,
        markers: usize,
        /// The rollup of an extreme.
        extreme: Option<u16>,
        /// About how large its entry is.
        entry_bytes: usize,
        alone: bool,
    }

    fn targets() -> RollupTargets {
        RollupTargets::of(&Arc::new(Model::load(Model::DEFAULT_NAME).unwrap()))
    }

    fn plan(written: &PackedPlan, targets: &mut RollupTargets) -> ItemPlan<'static> {
        let mut intern = |number: &u16| {
            let partition = format!("P{number}");
            targets.intern_stored("r", TargetKey { partition: &partition, sort: "S", shard: None }, None)
        };
        let measures = vec![(Arc::from("n"), Decimal::from(written.amount))];
        let touched = written.rollups.iter().map(&mut intern).collect();
        let extreme = written.extreme.as_ref().map(|number| ExtremeValue {
            target: intern(number),
            measure: Arc::from("top"),
            keep: ExtremeRule::Largest,
            value: Decimal::from(written.amount).into(),
        });
        let position = Position::start_of("label");
        let aggregate = Arc::from("a".repeat(written.entry_bytes));
        let share = Contribution { aggregate, targets: TargetIds::new(), measures: Vec::new() };
        let settled = if written.is_settled { measures.clone() } else { Vec::new() };
        ItemPlan {
            entry: LedgerEntry {
                position: position.clone(),
                rev: 1,
                generation: 1,
                current: ItemContributions { shares: [share].into() },
                left: Vec::new(),
                as_of: None,
                expires_at: None,
            },
            markers: vec![position; written.markers],
            fresh: SmallVec::new(),
            deltas: vec![RollupDelta { targets: touched, measures, settled }],
            extremes: extreme.into_iter().collect(),
            shown: Vec::new(),
            newest: None,
        }
    }

    fn written() -> impl Strategy<Value = PackedPlan> {
        let rollups = proptest::collection::btree_set(0..60_u16, 1..30);
        // DynamoDB's items have 400 KB at most: a dozen of those fill a transaction before its actions do.
        let entry_bytes = prop_oneof![9 => 0..900_usize, 1 => 300_000..390_000_usize];
        let rest = (-9..9_i64, any::<bool>(), 0..4_usize, proptest::option::of(0..60_u16), entry_bytes);
        (rollups, rest, proptest::bool::weighted(0.05)).prop_map(
            |(rollups, (amount, is_settled, markers, extreme, entry_bytes), alone)| PackedPlan {
                rollups,
                amount,
                is_settled,
                markers,
                extreme,
                entry_bytes,
                alone,
            },
        )
    }

    proptest! {
        #[test]
        fn no_limit_is_broken_and_nothing_is_lost(written in vec(written(), 0..150)) {
            let mut targets = targets();
            let plans: Vec<ItemPlan<'_>> = written.iter().map(|written| plan(written, &mut targets)).collect();
            let packables = plans.iter().zip(&written).enumerate();
            let packables = packables.map(|(item, (plan, written))| PackableItem { item, plan, alone: written.alone });
            let parcels = pack(packables, &targets);

            let mut seen = vec![0; plans.len()];
            for parcel in &parcels {
                let own: usize = parcel.items.iter().map(|item| plans[*item].own_actions()).sum();
                prop_assert!(own + parcel.rollups.len() <= MAX_TRANSACTION_ACTIONS);
                let bytes: usize = parcel.items.iter().map(|item| written[*item].entry_bytes).sum();
                prop_assert!(bytes + parcel.rollups.len() * ROLLUP_BYTES <= MAX_TRANSACTION_BYTES);
                let mut expected: BTreeMap<TargetId, (i64, i64, Vec<ExtremeValue>)> = BTreeMap::new();
                for item in &parcel.items {
                    seen[*item] += 1;
                    let (plan, written) = (&plans[*item], &written[*item]);
                    prop_assert!(!written.alone || parcel.items.len() == 1, "who goes alone is alone");
                    for target in &plan.deltas[0].targets {
                        let sums = expected.entry(*target).or_default();
                        sums.0 += written.amount;
                        sums.1 += if written.is_settled { written.amount } else { 0 };
                    }
                    for extreme in &plan.extremes {
                        expected.entry(extreme.target).or_default().2.push(extreme.clone());
                    }
                }
                let total = |sums: &MeasureAmounts| sums.first().and_then(|(_, sum)| sum.to_i64()).unwrap_or(0);
                let packed = parcel.rollups.iter().map(|(target, update)| {
                    (*target, (total(&update.measures), total(&update.settled), update.extremes.clone()))
                });
                prop_assert_eq!(packed.collect::<BTreeMap<_, _>>(), expected);
            }
            prop_assert!(seen.iter().all(|times| *times == 1), "each item once");
        }
    }

    fn small(rollups: impl IntoIterator<Item = u16>, amount: i64) -> PackedPlan {
        let rollups = rollups.into_iter().collect();
        let (is_settled, markers, extreme, entry_bytes, alone) = (false, 0, None, 0, false);
        PackedPlan { rollups, amount, is_settled, markers, extreme, entry_bytes, alone }
    }

    fn packed(plans: &[ItemPlan<'_>], targets: &RollupTargets) -> Vec<TransactionBatch> {
        let packables =
            plans.iter().enumerate().map(|(item, plan)| PackableItem { item, plan, alone: false });
        pack(packables, targets)
    }

    #[test]
    fn items_that_share_rollups_share_a_transaction() {
        let mut targets = targets();
        // Two groups, delivered alternately; together they need more than one transaction.
        let pair = |item| if item % 2 == 0 { [0, 1] } else { [40, 41] };
        let plans: Vec<ItemPlan<'_>> =
            (0..160).map(|item| plan(&small(pair(item), 1), &mut targets)).collect();
        let parcels = packed(&plans, &targets);
        let rollup_writes: usize = parcels.iter().map(|parcel| parcel.rollups.len()).sum();
        assert_eq!((parcels.len(), rollup_writes), (2, 6));
    }

    #[test]
    fn what_no_number_can_hold_together_goes_apart() {
        let mut targets = targets();
        let mut plans: Vec<ItemPlan<'_>> = (0..2).map(|_| plan(&small([0], 0), &mut targets)).collect();
        plans[0].deltas[0].measures[0].1 = "1E+30".parse().unwrap();
        plans[1].deltas[0].measures[0].1 = "1E-30".parse().unwrap();
        let parcels = packed(&plans, &targets);
        assert_eq!(parcels.iter().map(|parcel| parcel.items.len()).collect::<Vec<_>>(), [1, 1]);
    }
}
