//! Packing: plans → transactions. Pure.
//!
//! A transaction holds whole items (an entry, its markers and all its rollups) and names each rollup once, however many
//! items add to it. So items that share rollups belong together: sorted by their rollups, neighbours share the most.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::plan::Plan;
use crate::projection::{Extreme, TargetId, Targets};
use crate::record::{Decimal, Timestamp};
use crate::sink::{MAX_TRANSACTION_ACTIONS, MAX_TRANSACTION_BYTES};

/// What is added to one rollup by one transaction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RollupUpdate {
    /// By how much each measure changes; a sum that cancels out stays, so that `rev` grows.
    pub measures: Vec<(Arc<str>, Decimal)>,
    /// What is settled of it.
    pub settled: Vec<(Arc<str>, Decimal)>,
    /// What `max` and `min` have to see.
    pub extremes: Vec<Extreme>,
}

/// Items that are committed together, and what they add to the rollups.
#[derive(Clone, Debug, Default)]
pub struct Parcel {
    /// The items: indexes of the plans that were packed.
    pub items: Vec<usize>,
    /// The rollups.
    pub rollups: BTreeMap<TargetId, RollupUpdate>,
    /// The newest time of the records that are counted.
    pub newest: Option<Timestamp>,
    own_actions: usize,
    own_bytes: usize,
}

/// A sum went beyond what DynamoDB's numbers hold; the item that made it so must go alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overflow;

/// An item and its plan, as they are packed.
#[derive(Clone, Copy, Debug)]
pub struct Packable<'p> {
    /// The caller's number for the item.
    pub item: usize,
    /// Its plan.
    pub plan: &'p Plan,
    /// Whether it must have a transaction of its own.
    pub alone: bool,
}

/// Packs plans into as few transactions, with as few rollup writes, as sorting them by their rollups allows.
#[must_use]
pub fn pack(mut plans: Vec<Packable<'_>>, targets: &Targets) -> Vec<Parcel> {
    plans.sort_by_cached_key(|packable| affinity(packable.plan, targets));
    let (alone, together): (Vec<_>, Vec<_>) = plans.into_iter().partition(|packable| packable.alone);
    let mut parcels = Vec::new();
    let mut open = Parcel::default();
    for packable in together {
        if !open.has_room_for(packable.plan, targets) && !open.items.is_empty() {
            parcels.push(std::mem::take(&mut open));
        }
        if open.add(packable, targets).is_err() {
            parcels.push(std::mem::take(&mut open));
            let mut own = Parcel::default();
            // What overflows even alone is refused by the service, which then says so of this item.
            let _ = own.add(packable, targets);
            parcels.push(own);
        }
    }
    if !open.items.is_empty() {
        parcels.push(open);
    }
    for packable in alone {
        let mut own = Parcel::default();
        let _ = own.add(packable, targets);
        parcels.push(own);
    }
    parcels
}

/// Items with equal beginnings of this list share rollups.
fn affinity(plan: &Plan, targets: &Targets) -> Vec<(Box<str>, Box<str>, Option<u32>)> {
    let key = |id: TargetId| {
        let target = targets.get(id);
        (target.partition.clone(), target.sort.clone(), target.shard)
    };
    plan.touched().map(key).collect()
}

/// DynamoDB counts the items as they are stored; what is not known of a rollup is assumed, generously.
const ROLLUP_BYTES: usize = 4 * 1024;
const ENTRY_BYTES: usize = 512;
const MARKER_BYTES: usize = 512;

fn entry_bytes(plan: &Plan, targets: &Targets) -> usize {
    let share_bytes = |share: &crate::projection::Share| {
        let measures: usize = share.measures.iter().map(|(name, _)| name.len() + 48).sum();
        let keys: usize = share.targets.iter().map(|id| target_bytes(*id, targets)).sum();
        share.aggregate.len() + measures + keys
    };
    let shares: usize = plan.entry.current.shares.iter().map(share_bytes).sum();
    let left: usize = plan.entry.left.iter().map(|id| target_bytes(*id, targets)).sum();
    ENTRY_BYTES + shares + left + plan.markers.len() * MARKER_BYTES
}

fn target_bytes(id: TargetId, targets: &Targets) -> usize {
    let target = targets.get(id);
    target.partition.len() + target.sort.len() + target.rollup.len() + 32
}

impl Parcel {
    fn has_room_for(&self, plan: &Plan, targets: &Targets) -> bool {
        let mut new: Vec<TargetId> =
            plan.touched().filter(|target| !self.rollups.contains_key(target)).collect();
        new.sort_unstable();
        new.dedup();
        let rollups = self.rollups.len() + new.len();
        self.own_actions + plan.own_actions() + rollups <= MAX_TRANSACTION_ACTIONS
            && self.own_bytes + entry_bytes(plan, targets) + rollups * ROLLUP_BYTES <= MAX_TRANSACTION_BYTES
    }

    fn add(&mut self, packable: Packable<'_>, targets: &Targets) -> Result<(), Overflow> {
        let Packable { item, plan, .. } = packable;
        let mut sums = Vec::new();
        for delta in &plan.deltas {
            for target in &delta.targets {
                sums.push((*target, delta));
            }
        }
        if sums.iter().any(|(target, delta)| !self.can_add(*target, &delta.measures)) {
            return Err(Overflow);
        }
        for (target, delta) in sums {
            let update = self.rollups.entry(target).or_default();
            add_all(&mut update.measures, &delta.measures);
            if delta.settled {
                add_all(&mut update.settled, &delta.measures);
            }
        }
        for extreme in &plan.extremes {
            self.rollups.entry(extreme.target).or_default().extremes.push(extreme.clone());
        }
        self.items.push(item);
        self.newest = self.newest.max(plan.newest);
        self.own_bytes += entry_bytes(plan, targets);
        self.own_actions += plan.own_actions();
        Ok(())
    }

    fn can_add(&self, target: TargetId, measures: &[(Arc<str>, Decimal)]) -> bool {
        let Some(update) = self.rollups.get(&target) else { return true };
        let fits = |known: &[(Arc<str>, Decimal)], name: &Arc<str>, number: &Decimal| {
            known.iter().find(|(other, _)| other == name).is_none_or(|(_, sum)| sum.plus(number).is_ok())
        };
        measures
            .iter()
            .all(|(name, number)| fits(&update.measures, name, number) && fits(&update.settled, name, number))
    }
}

fn add_all(sums: &mut Vec<(Arc<str>, Decimal)>, measures: &[(Arc<str>, Decimal)]) {
    for (name, number) in measures {
        match sums.iter_mut().find(|(known, _)| known == name) {
            Some((_, sum)) => {
                // `can_add` has seen that it fits.
                if let Ok(total) = sum.plus(number) {
                    *sum = total;
                }
            }
            None => sums.push((Arc::clone(name), number.clone())),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::commit::Entry;
    use crate::commit::plan::Delta;
    use crate::projection::{Contributions, Keep};
    use crate::record::Position;

    /// Rollups by number, amounts, markers, the rollup of an extreme, whether it goes alone.
    type Written = (BTreeSet<u16>, i64, usize, Option<u16>, bool);

    fn plan((rollups, amount, markers, extreme, _): &Written, targets: &mut Targets) -> Plan {
        let mut intern =
            |number: &u16| targets.intern(&Arc::from("r"), (&format!("P{number}"), "S"), None, None);
        let measures = vec![(Arc::from("n"), Decimal::from(*amount))];
        let touched = rollups.iter().map(&mut intern).collect();
        let extreme = extreme.as_ref().map(|number| Extreme {
            target: intern(number),
            measure: Arc::from("top"),
            keep: Keep::Largest,
            value: Decimal::from(*amount).into(),
        });
        let position = Position::start_of("label");
        Plan {
            entry: Entry {
                position: position.clone(),
                rev: 1,
                generation: 1,
                current: Contributions::default(),
                left: Vec::new(),
                as_of: None,
                expires_at: None,
            },
            markers: vec![position; *markers],
            deltas: vec![Delta { targets: touched, measures, settled: *amount % 2 == 0 }],
            extremes: extreme.into_iter().collect(),
            shown: Vec::new(),
            newest: None,
        }
    }

    fn written() -> impl Strategy<Value = Written> {
        let rollups = proptest::collection::btree_set(0..60_u16, 1..30);
        (rollups, -9..9_i64, 0..4_usize, proptest::option::of(0..60_u16), proptest::bool::weighted(0.05))
    }

    proptest! {
        #[test]
        fn no_limit_is_broken_and_nothing_is_lost(written in vec(written(), 0..150)) {
            let mut targets = Targets::default();
            let plans: Vec<Plan> = written.iter().map(|written| plan(written, &mut targets)).collect();
            let packables = plans.iter().zip(&written).enumerate();
            let packables = packables.map(|(item, (plan, written))| Packable { item, plan, alone: written.4 });
            let parcels = pack(packables.collect(), &targets);

            let mut seen = vec![0; plans.len()];
            for parcel in &parcels {
                let own: usize = parcel.items.iter().map(|item| plans[*item].own_actions()).sum();
                prop_assert!(own + parcel.rollups.len() <= MAX_TRANSACTION_ACTIONS);
                let mut touched = BTreeSet::new();
                let mut sums = BTreeMap::new();
                let mut settled = BTreeMap::new();
                for item in &parcel.items {
                    seen[*item] += 1;
                    prop_assert!(!written[*item].4 || parcel.items.len() == 1, "who goes alone is alone");
                    touched.extend(plans[*item].touched());
                    for target in &plans[*item].deltas[0].targets {
                        *sums.entry(*target).or_insert(0) += written[*item].1;
                        if written[*item].1 % 2 == 0 {
                            *settled.entry(*target).or_insert(0) += written[*item].1;
                        }
                    }
                }
                prop_assert_eq!(touched, parcel.rollups.keys().copied().collect::<BTreeSet<_>>());
                for (target, update) in &parcel.rollups {
                    let total = |sums: &[(Arc<str>, Decimal)]| sums.first().and_then(|(_, sum)| sum.to_i64()).unwrap_or(0);
                    prop_assert_eq!(total(&update.measures), sums.get(target).copied().unwrap_or(0));
                    prop_assert_eq!(total(&update.settled), settled.get(target).copied().unwrap_or(0));
                }
            }
            prop_assert!(seen.iter().all(|times| *times == 1), "each item once");
        }
    }

    #[test]
    fn items_that_share_rollups_share_a_transaction() {
        let mut targets = Targets::default();
        let pair = |first: u16| -> Written { ([first, first + 1].into(), 1, 0, None, false) };
        // Two groups, delivered alternately; together they need more than one transaction.
        let plans: Vec<Plan> =
            (0..160).map(|item| plan(&pair(if item % 2 == 0 { 0 } else { 40 }), &mut targets)).collect();
        let packables = plans.iter().enumerate().map(|(item, plan)| Packable { item, plan, alone: false });
        let parcels = pack(packables.collect(), &targets);
        let rollup_writes: usize = parcels.iter().map(|parcel| parcel.rollups.len()).sum();
        assert_eq!((parcels.len(), rollup_writes), (2, 6));
    }
}
