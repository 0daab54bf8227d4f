//! Given items and their rollups, expect these transactions.

use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

use afterwrite_model::projection::{ExtremeRule, ExtremeValue, ItemContributions, TargetIds, TargetKey};
use afterwrite_model::record::{Decimal, Position};
use afterwrite_model::table::{MixedTypes, Model};

use super::*;
use crate::core::decide::RecordIndexes;
use crate::core::plan::RollupDelta;
use crate::state::entry::LedgerEntry;
use crate::state::marker::ExpiryMarker;

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
    group: PeerGroup,
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
        rule: ExtremeRule::Largest(MixedTypes::Replaced),
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
        lost: 0,
    }
}

fn outline() -> impl Strategy<Value = PackedPlan> {
    let rollups = proptest::collection::btree_set(0..60_u16, 1..30);
    // An item has at most 400 KB: a dozen of that size reach a transaction's byte limit before its action limit.
    let entry_bytes = prop_oneof![9 => 0..900_usize, 1 => 300_000..390_000_usize];
    let rest = (-9..9_i64, any::<bool>(), 0..4_usize, proptest::option::of(0..60_u16), entry_bytes);
    (rollups, rest, prop_oneof![9 => Just(PeerGroup::All), 1 => (0..3_u32).prop_map(PeerGroup::numbered)])
        .prop_map(|(rollups, (amount, is_settled, markers, extreme, entry_bytes), group)| PackedPlan {
            rollups,
            amount,
            is_settled,
            markers,
            extreme,
            entry_bytes,
            group,
        })
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
            let own: usize = transaction.items.iter().map(|item| 1 + plans[*item].markers.len()).sum();
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
    let (is_settled, markers, extreme, entry_bytes, group) = (false, 0, None, 0, PeerGroup::All);
    PackedPlan { rollups, amount, is_settled, markers, extreme, entry_bytes, group }
}

fn packed(plans: &[ItemPlan<'_>], targets: &RollupTargets) -> Vec<PackedTransaction> {
    let packables =
        plans.iter().enumerate().map(|(item, plan)| PackableItem { item, plan, group: PeerGroup::All });
    pack(packables, targets)
}

/// The number of items of each transaction.
fn items_of(transactions: &[PackedTransaction]) -> Vec<usize> {
    transactions.iter().map(|transaction| transaction.items.len()).collect()
}

#[test]
fn items_that_share_rollups_share_a_transaction() {
    let mut targets = targets();
    // Two groups, delivered alternately; together they need more than one transaction.
    let pair = |item| if item % 2 == 0 { [0, 1] } else { [40, 41] };
    let plans: Vec<ItemPlan<'_>> = (0..160).map(|item| plan(&small(pair(item), 1), &mut targets)).collect();
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
    let plans: Vec<ItemPlan<'_>> = (0..4).map(|item| plan(&small(rollups(item), 1), &mut targets)).collect();
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
    assert_eq!(items_of(&packed(&plans, &targets)), [10, 10]);
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
        measures: (0..9).map(|measure| (Arc::from(format!("m{measure}").repeat(20)), Decimal::ONE)).collect(),
    };
    let departed: Vec<TargetId> = (4..8).map(&mut intern).collect();
    let mut plan = plan(&small([0], 1), &mut targets);
    plan.entry.current = ItemContributions { by_aggregate: [contribution].into() };
    plan.entry.departed = departed;
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
    assert_eq!(items_of(&packed(&plans, &targets)), [1, 1]);

    // One of the numbers is long, the other one is not.
    plans[0].deltas[0].measures[0].1 = "9".repeat(38).parse().unwrap();
    plans[1].deltas[0].measures[0].1 = "2".parse().unwrap();
    for order in [[0, 1], [1, 0]] {
        let ordered = order.map(|index: usize| plans[index].clone());
        assert_eq!(items_of(&packed(&ordered, &targets)), [1, 1]);
    }
}

#[test]
fn a_sum_that_exceeds_38_digits_within_one_plan_is_a_defect() {
    let mut targets = targets();
    let mut plan = plan(&small([0], 0), &mut targets);
    let mut second = plan.deltas[0].clone();
    plan.deltas[0].measures[0].1 = "1E+30".parse().unwrap();
    second.measures[0].1 = "1E-30".parse().unwrap();
    plan.deltas.push(second);
    let transactions = packed(&[plan], &targets);
    assert!(transactions[0].invalid_sum.is_some());
}

proptest! {
    #[test]
    fn plans_are_of_one_part_exactly_if_rollups_connect_them(outlines in vec(vec(0..40_u16, 0..4), 0..40)) {
        let mut targets = RollupTargets::of(&Arc::new(Model::load(Model::DEFAULT_NAME).unwrap()));
        let mut intern = |number: &u16| {
            let partition = format!("P{number}");
            targets.intern_stored("r", TargetKey { partition: &partition, sort: "S", shard: None }, None)
        };
        let plans: Vec<Vec<_>> = outlines.iter().map(|numbers| numbers.iter().map(&mut intern).collect()).collect();

        let connected = connected_parts(plans.iter().map(Vec::as_slice), &targets);
        let found: Vec<usize> = connected.iter().map(|plan| plan.part).collect();
        let distinct: BTreeSet<_> = plans.iter().flatten().collect();
        prop_assert_eq!(connected.iter().map(|plan| plan.new_rollups).sum::<usize>(), distinct.len());

        // Spread from each plan along shared rollups, until nothing new is reached.
        for (first, plan) in plans.iter().enumerate() {
            let (mut reached, mut rollups) = (BTreeSet::from([first]), BTreeSet::from_iter(plan));
            while let Some((next, plan)) = plans.iter().enumerate().find(|(index, plan)| {
                !reached.contains(index) && plan.iter().any(|target| rollups.contains(target))
            }) {
                reached.insert(next);
                rollups.extend(plan);
            }
            let of_part: BTreeSet<usize> = (0..plans.len()).filter(|index| found[*index] == found[first]).collect();
            prop_assert_eq!(reached.first(), Some(&found[first]), "a part has the number of its first plan");
            prop_assert_eq!(reached, of_part);
        }
    }
}
