//! Waves of transactions: those of one wave share no rollup, so that they do not conflict. Pure.

use afterwrite_model::projection::TargetId;
use hashbrown::HashMap;
use smallvec::SmallVec;

use super::core::pack::TransactionBatch;

/// Splits transactions into waves. Each transaction joins the first wave in which no other one writes its rollups.
pub(crate) fn waves(transactions: Vec<TransactionBatch>) -> Vec<Vec<TransactionBatch>> {
    let mut waves: Vec<Vec<TransactionBatch>> = Vec::new();
    let mut taken: HashMap<TargetId, TakenWaves> = HashMap::new();
    for transaction in transactions {
        let targets = || transaction.rollups.iter().map(|(target, _)| *target);
        let wave = first_free(&taken, targets);
        for target in targets() {
            taken.entry(target).or_default().take(wave);
        }
        match waves.get_mut(wave) {
            Some(others) => others.push(transaction),
            None => waves.push(vec![transaction]),
        }
    }
    waves
}

/// The waves in which a rollup is written: a set of bits.
#[derive(Debug, Default)]
struct TakenWaves {
    words: SmallVec<[u64; 1]>,
    /// The number of leading words without a free wave. A rollup of every transaction is searched from here, not from
    /// the first wave.
    full: usize,
}

impl TakenWaves {
    fn take(&mut self, wave: usize) {
        let (word, bit) = (wave / WORD_BITS, wave % WORD_BITS);
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        if let Some(bits) = self.words.get_mut(word) {
            *bits |= 1 << bit;
        }
        while self.words.get(self.full) == Some(&u64::MAX) {
            self.full += 1;
        }
    }
}

const WORD_BITS: usize = 64;

/// The first wave in which none of these rollups is written.
fn first_free<I: Iterator<Item = TargetId>>(
    taken: &HashMap<TargetId, TakenWaves>,
    targets: impl Fn() -> I,
) -> usize {
    let known = || targets().filter_map(|target| taken.get(&target));
    let mut word = known().map(|waves| waves.full).max().unwrap_or(0);
    loop {
        let bits = known().filter_map(|waves| waves.words.get(word)).fold(0, |all, bits| all | bits);
        if bits != u64::MAX {
            return word * WORD_BITS + bits.trailing_ones() as usize;
        }
        word += 1;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use afterwrite_model::projection::{RollupTargets, TargetKey};
    use afterwrite_model::table::Model;
    use proptest::collection::{btree_set, vec};
    use proptest::prelude::*;

    use super::*;
    use crate::state::rollup::RollupUpdate;

    /// Transactions by the numbers of the rollups that they write.
    fn transactions(outlines: &[BTreeSet<u16>]) -> Vec<TransactionBatch> {
        let mut targets = RollupTargets::of(&Arc::new(Model::load(Model::DEFAULT_NAME).unwrap()));
        let mut intern = |number: &u16| {
            let partition = format!("P{number}");
            let key = TargetKey { partition: &partition, sort: "S", shard: None };
            (targets.intern_stored("r", key, None), RollupUpdate::default())
        };
        let with_rollups = |(index, numbers): (usize, &BTreeSet<u16>)| {
            let mut transaction = TransactionBatch::default();
            transaction.items.push(index);
            transaction.rollups.extend(numbers.iter().map(&mut intern));
            transaction
        };
        outlines.iter().enumerate().map(with_rollups).collect()
    }

    proptest! {
        #[test]
        fn each_transaction_joins_the_first_wave_without_its_rollups(
            outlines in vec(btree_set(0..12_u16, 1..4), 0..200),
        ) {
            let mut expected: Vec<(BTreeSet<u16>, Vec<usize>)> = Vec::new();
            for (index, numbers) in outlines.iter().enumerate() {
                match expected.iter_mut().find(|(used, _)| used.is_disjoint(numbers)) {
                    Some((used, items)) => {
                        used.extend(numbers);
                        items.push(index);
                    }
                    None => expected.push((numbers.clone(), vec![index])),
                }
            }
            let waves = waves(transactions(&outlines));
            let found: Vec<Vec<usize>> =
                waves.iter().map(|wave| wave.iter().map(|transaction| transaction.items[0]).collect()).collect();
            prop_assert_eq!(found, expected.into_iter().map(|(_, items)| items).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_wave_is_free_only_if_no_rollup_of_a_transaction_takes_it() {
        let shared = (0..64).map(|wave| BTreeSet::from([wave % 2, 2]));
        let outlines: Vec<BTreeSet<u16>> = shared.chain([BTreeSet::from([0, 1])]).collect();
        // One rollup takes the even waves, another the odd ones.
        assert_eq!(waves(transactions(&outlines)).len(), 65);
    }

    #[test]
    fn a_rollup_of_every_transaction_is_not_searched_from_the_first_wave() {
        let shared: Vec<BTreeSet<u16>> = (0..20_000).map(|_| BTreeSet::from([0])).collect();
        assert_eq!(waves(transactions(&shared)).len(), shared.len());
        let mut taken = TakenWaves::default();
        (0..20_000).for_each(|wave| taken.take(wave));
        assert_eq!(taken.full, 20_000 / WORD_BITS);
    }
}
