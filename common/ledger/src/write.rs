//! The write stage: writes the plans of a round, entries without additions as single writes, all other plans in transactions. The
//! items whose writes took effect get `Written`; `refusals` gives all other items the reason.

use afterwrite_model::clock::Clock as _;
use afterwrite_model::effect::{Write, WriteAction, WriteCondition};
use afterwrite_model::projection::TargetId;
use afterwrite_model::{Error, ErrorKind, Result};
use futures::future::join3;
use hashbrown::HashMap;
use smallvec::SmallVec;

use super::batch::{BatchContext, LedgerBatch};
use super::core::facts::KnownEntry;
use super::core::lookups::LookupChoice;
use super::core::pack::{PackableItem, PackedTransaction, pack};
use super::core::plan::ItemPlan;
use super::core::{ItemInput, LedgerCore, LedgerItem};
use super::policy::{MOST_ROUND_REJECTIONS, WriteTurn};
use super::refusals::{RefusalStage, RenderedTransaction, WritePurpose, items_writing};
use super::requests::send_all;
use super::state::entry::{LedgerEntry, mark_action};
use super::state::marker::ExpiryMarker;
use super::state::rollup::{rollup_after_write, rollup_write};
use crate::tables::WriteError;

/// Writes the plans of one batch.
pub(crate) struct WriteStage<'l> {
    pub(crate) context: BatchContext<'l>,
}

impl WriteStage<'_> {
    /// Writes plans: transactions and, at the same time, single writes and the outputs of lookups that no item waits for. Returns
    /// whether the next round must wait: another writer or a throttle refused a write. After a rejection it need not.
    pub(crate) async fn write(&self, batch: &mut LedgerBatch<'_>) -> Result<bool> {
        let entries = self.render_entries(batch)?;
        let mut transactions = pack(packable_items(batch), &batch.targets);
        // A transaction that hangs delays the transactions that follow it in its wave or share a rollup with it.
        transactions.sort_by_key(|transaction| most_delays(batch, transaction));
        // Offers that were tried and are not remembered wait until all items are finished.
        let offers = batch.lookups.take(LookupChoice::UntriedOffers);
        let (waves, results, offers) = join3(
            self.write_waves(batch, transactions),
            self.send_entries(&entries),
            self.context.lookups.attempt_all(offers),
        )
        .await;
        self.context.lookups.note_attempts(offers, &mut batch.lookups)?;
        let is_refused = self.apply_entries(batch, entries, results)?;
        Ok(waves? | is_refused | self.context.requests.is_over())
    }

    fn refusal_stage(&self) -> RefusalStage<'_> {
        RefusalStage { context: self.context }
    }

    /// Sends transactions. Transactions that share a rollup follow one another; all other transactions overlap. Returns whether the next round must
    /// wait.
    async fn write_waves(
        &self,
        batch: &mut LedgerBatch<'_>,
        transactions: Vec<PackedTransaction>,
    ) -> Result<bool> {
        let mut must_wait = false;
        let most_rejections = batch.rejections + MOST_ROUND_REJECTIONS;
        for wave in waves(transactions) {
            if self.context.requests.is_over() {
                return Ok(true);
            }
            must_wait |= self.write_wave(batch, wave).await?;
            if batch.rejections >= most_rejections {
                break;
            }
        }
        Ok(must_wait)
    }

    /// Sends transactions that share no rollup. Returns whether the next round must wait.
    async fn write_wave(&self, batch: &mut LedgerBatch<'_>, wave: Vec<PackedTransaction>) -> Result<bool> {
        let mut must_wait = false;
        let mut rendered = Vec::with_capacity(wave.len());
        for transaction in wave {
            if transaction.items.iter().any(|index| batch.item(*index).state.planned().is_none()) {
                // An earlier wave showed that one of its items cannot be written. The next round packs the other items.
                continue;
            }
            if batch.lacks_rollup(&transaction) {
                must_wait = true;
                continue;
            }
            match self.render(batch, transaction) {
                Ok(transaction) => rendered.push(transaction),
                Err(UnwritableTransaction { items, error }) => {
                    batch.bisect(&items, &error, self.context.step_context());
                }
            }
        }
        let requests = rendered.iter().map(|transaction| self.context.requests.transact(&transaction.writes));
        let results = send_all(requests).await;
        let mut refused_rollups = Vec::new();
        for (transaction, result) in rendered.into_iter().zip(results) {
            match result {
                Ok(()) => self.note_written(batch, transaction),
                Err(error) => {
                    must_wait |=
                        self.refusal_stage().apply(batch, transaction, error, &mut refused_rollups)?
                }
            }
        }
        if !refused_rollups.is_empty() {
            must_wait |= self.refusal_stage().isolate(batch, refused_rollups).await?;
        }
        Ok(must_wait)
    }

    /// The entries whose plan changes no rollup, each with its item, the least delayed ones first: single conditional writes, at
    /// half the price of a transaction's.
    fn render_entries(&self, batch: &mut LedgerBatch<'_>) -> Result<Vec<(usize, Write)>> {
        let is_single =
            |index: &usize| batch.item(*index).state.planned().is_some_and(ItemPlan::is_entry_only);
        let mut indexes: Vec<usize> = (0..batch.items.len()).filter(is_single).collect();
        indexes.sort_by_key(|index| batch.item(*index).peers.delays);
        indexes.into_iter().map(|index| Ok((index, self.entry_write(batch, index)?))).collect()
    }

    async fn send_entries(&self, entries: &[(usize, Write)]) -> Vec<Option<Result<(), WriteError>>> {
        self.context
            .requests
            .send_some(entries.iter().map(|(_, write)| self.context.requests.write(write)))
            .await
    }

    /// Gives the items of single writes their results. Returns whether the next round must wait.
    fn apply_entries(
        &self,
        batch: &mut LedgerBatch<'_>,
        entries: Vec<(usize, Write)>,
        results: Vec<Option<Result<(), WriteError>>>,
    ) -> Result<bool> {
        let context = self.context.step_context();
        let mut must_wait = false;
        for ((index, _), result) in entries.into_iter().zip(results) {
            match result {
                Some(Ok(())) => batch.step(index, ItemInput::Written, context),
                Some(Err(error)) => must_wait |= self.refusal_stage().apply_to_entry(batch, index, error)?,
                None => {}
            }
        }
        Ok(must_wait)
    }

    /// Tells the items of a transaction that it took effect. Its rollups that were read are known after their writes, too.
    fn note_written(&self, batch: &mut LedgerBatch<'_>, transaction: RenderedTransaction<'_>) {
        let context = self.context.step_context();
        let RenderedTransaction { items, purposes, writes } = transaction;
        self.context.requests.tally.transactions.add(1);
        for (purpose, write) in purposes.into_iter().zip(writes) {
            if let WritePurpose::Rollup(id) = purpose
                && let Some(stored) = batch.read_rollups.remove(&id)
            {
                let stored = rollup_after_write(stored, &write.action);
                batch.read_rollups.extend(stored.map(|item| (id, Some(item))));
            }
        }
        for index in items {
            batch.step(index, ItemInput::Written, context);
        }
    }

    /// The write of an item's planned entry.
    fn entry_write(&self, batch: &mut LedgerBatch<'_>, index: usize) -> Result<Write> {
        let LedgerBatch { items, targets, .. } = batch;
        let item = items.get_mut(index).ok_or_else(without_plan)?;
        let planned = &item.state.planned().ok_or_else(without_plan)?.entry;
        let (condition, action) = match &item.facts.entry {
            KnownEntry::Unreadable(unreadable) => {
                let behind = planned.behind.as_ref().ok_or_else(without_plan)?;
                (unreadable.unchanged(), mark_action(behind))
            }
            KnownEntry::Unread => return Err(without_plan()),
            KnownEntry::Absent => (WriteCondition::ItemAbsent, WriteAction::Put(planned.encode(targets))),
            KnownEntry::Readable(entry) => {
                (entry.unchanged(&self.context.core.keys), WriteAction::Put(planned.encode(targets)))
            }
        };
        let (LedgerCore { keys, model, .. }, source) = (self.context.core, item.facts.source);
        let key = item.facts.entry_key.take_or_make(|| LedgerEntry::key(keys, model, source))?;
        Ok(Write { key, condition, action })
    }

    /// The writes of a transaction. If one of its rollups cannot be written, the items that need it are returned.
    fn render<'r>(
        &self,
        batch: &mut LedgerBatch<'r>,
        transaction: PackedTransaction,
    ) -> Result<RenderedTransaction<'r>, UnwritableTransaction> {
        let PackedTransaction { items, rollups, newest, invalid_sum, .. } = transaction;
        let unwritable = |error| UnwritableTransaction { items: items.clone(), error };
        if let Some(error) = invalid_sum {
            return Err(unwritable(error));
        }
        let capacity = items.len() + rollups.len();
        let (mut purposes, mut writes) = (Vec::with_capacity(capacity), Vec::with_capacity(capacity));
        for index in &items {
            writes.push(self.entry_write(batch, *index).map_err(unwritable)?);
            purposes.push(WritePurpose::Entry(*index));
            let item = batch.item(*index);
            for marker in item.state.planned().iter().flat_map(|plan| &plan.markers) {
                writes.push(self.marker_write(item, marker).map_err(unwritable)?);
                purposes.push(WritePurpose::Marker(*index, marker.position.clone()));
            }
        }
        let updated_at = newest.map(|newest| newest.to_string());
        for (id, update) in rollups {
            let (target, read) = (batch.targets.get(id), batch.read_rollup(id, &update));
            match rollup_write(&self.context.core.keys, target, update, updated_at.as_deref(), read) {
                Ok(None) => {}
                Ok(Some(write)) => {
                    purposes.push(WritePurpose::Rollup(id));
                    writes.push(write);
                }
                Err(error) => {
                    return Err(UnwritableTransaction { items: items_writing(batch, &items, id), error });
                }
            }
        }
        Ok(RenderedTransaction { items, purposes, writes })
    }

    fn marker_write(&self, item: &LedgerItem<'_>, marker: &ExpiryMarker<'_>) -> Result<Write> {
        let LedgerCore { keys, model, .. } = self.context.core;
        let key = ExpiryMarker::key(keys, model, item.facts.source, &marker.position)?;
        Ok(marker.write(
            key,
            item.facts.unreadable_marker(&marker.position),
            self.context.requests.clock.now(),
        ))
    }
}

/// A transaction that cannot be sent, because of one of these items.
struct UnwritableTransaction {
    items: Vec<usize>,
    error: Error,
}

/// The items that need a transaction now. Parked records that are delivered again follow all other records, so that they delay
/// and cancel no other record.
fn packable_items<'b>(batch: &'b LedgerBatch<'_>) -> impl Iterator<Item = PackableItem<'b>> {
    let needing = || batch.items.iter().enumerate().filter_map(|(index, item)| packable_item(index, item));
    let turn = |packable: &PackableItem<'_>| batch.item(packable.item).peers.turn;
    let has_first = needing().any(|packable| turn(&packable) == WriteTurn::First);
    needing().filter(move |packable| !has_first || turn(packable) == WriteTurn::First)
}

fn packable_item<'b>(index: usize, item: &'b LedgerItem<'_>) -> Option<PackableItem<'b>> {
    let plan = item.state.planned().filter(|plan| !plan.is_entry_only())?;
    Some(PackableItem { item: index, plan, group: item.peers.group })
}

/// How often the transactions of one of these items failed as a whole, or conflicted because of it.
fn most_delays(batch: &LedgerBatch<'_>, transaction: &PackedTransaction) -> Option<u32> {
    transaction.items.iter().map(|index| batch.item(*index).peers.delays).max()
}

fn without_plan() -> Error {
    Error::new(ErrorKind::State, "a transaction has an item without a plan; this is a defect of Afterwrite")
}

/// Splits transactions into waves. Each transaction joins the first wave in which no other one writes its rollups.
fn waves(transactions: Vec<PackedTransaction>) -> Vec<Vec<PackedTransaction>> {
    let mut waves: Vec<Vec<PackedTransaction>> = Vec::new();
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
    fn transactions(outlines: &[BTreeSet<u16>]) -> Vec<PackedTransaction> {
        let mut targets = RollupTargets::of(&Arc::new(Model::load(Model::DEFAULT_NAME).unwrap()));
        let mut intern = |number: &u16| {
            let partition = format!("P{number}");
            let key = TargetKey { partition: &partition, sort: "S", shard: None };
            (targets.intern_stored("r", key, None), RollupUpdate::default())
        };
        let with_rollups = |(index, numbers): (usize, &BTreeSet<u16>)| {
            let mut transaction = PackedTransaction::default();
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
