//! The write stage: writes the plans of a round, entries without additions as single writes, all others in transactions.

use afterwrite_model::clock::Clock as _;
use afterwrite_model::effect::{Write, WriteAction, WriteCondition};
use afterwrite_model::{Error, ErrorKind, Result};
use futures::future::join3;

use super::batch::{BatchContext, LedgerBatch};
use super::core::facts::KnownEntry;
use super::core::pack::{PackableItem, TransactionBatch, pack};
use super::core::plan::ItemPlan;
use super::core::{LedgerCore, LedgerItem};
use super::outcome::{OutcomeStage, RenderedTransaction, WritePurpose, users};
use super::policy::MOST_ROUND_REJECTIONS;
use super::requests::send_all;
use super::state::entry::{LedgerEntry, mark_action};
use super::state::marker::ExpiryMarker;
use super::state::rollup::rollup_write;
use super::waves::waves;
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
        // A transaction that hangs delays those that follow it in its wave or share a rollup with it.
        transactions.sort_by_key(|transaction| most_delays(batch, transaction));
        // Offers that were tried and are not remembered wait until all items are finished.
        let offers = batch.lookups.take_untried_offers();
        let (waves, results, offers) = join3(
            self.write_waves(batch, transactions),
            self.send_entries(&entries),
            self.context.lookups.attempt_all(offers),
        )
        .await;
        self.context.lookups.note_attempts(offers, &mut batch.lookups)?;
        let is_refused = self.outcomes().apply_entries(batch, entries, results)?;
        Ok(waves? | is_refused | self.context.requests.is_over())
    }

    fn outcomes(&self) -> OutcomeStage<'_> {
        OutcomeStage { context: self.context }
    }

    /// Sends transactions. Those that share a rollup follow one another; all others overlap. Returns whether the next round must
    /// wait.
    async fn write_waves(
        &self,
        batch: &mut LedgerBatch<'_>,
        transactions: Vec<TransactionBatch>,
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
    async fn write_wave(&self, batch: &mut LedgerBatch<'_>, wave: Vec<TransactionBatch>) -> Result<bool> {
        let mut must_wait = false;
        let mut rendered = Vec::with_capacity(wave.len());
        for transaction in wave {
            if transaction.items.iter().any(|index| batch.item(*index).state.planned().is_none()) {
                // An earlier wave showed that one of its items cannot be written. The next round packs the others.
                continue;
            }
            if batch.lacks_rollup(&transaction) {
                must_wait = true;
                continue;
            }
            match self.render(batch, transaction) {
                Ok(transaction) => rendered.push(transaction),
                Err(UnwritableTransaction { items, error }) => {
                    batch.bisect(&items, &error, self.context.step());
                }
            }
        }
        let requests = rendered.iter().map(|transaction| self.context.requests.transact(&transaction.writes));
        let results = send_all(requests).await;
        let mut refused = Vec::new();
        for (transaction, result) in rendered.into_iter().zip(results) {
            must_wait |= self.outcomes().apply(batch, transaction, result, &mut refused)?;
        }
        if !refused.is_empty() {
            must_wait |= self.outcomes().isolate(batch, refused).await?;
        }
        Ok(must_wait)
    }

    /// The entries whose plan changes no rollup, each with its item, those first that were delayed least: single conditional writes, at
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
            KnownEntry::Absent => (WriteCondition::ItemAbsent, WriteAction::Put(planned.encode(targets))),
            KnownEntry::Readable(entry) => {
                (entry.unchanged(&self.context.core.keys), WriteAction::Put(planned.encode(targets)))
            }
        };
        let key = match item.facts.entry_key.take() {
            Some(key) => key,
            None => LedgerEntry::key(&self.context.core.keys, &self.context.core.model, item.facts.source)?,
        };
        Ok(Write { key, condition, action })
    }

    /// The writes of a transaction. If one of its rollups cannot be written, the items that need it are returned.
    fn render<'r>(
        &self,
        batch: &mut LedgerBatch<'r>,
        transaction: TransactionBatch,
    ) -> Result<RenderedTransaction<'r>, UnwritableTransaction> {
        let TransactionBatch { items, rollups, newest, defect, .. } = transaction;
        let unwritable = |error| UnwritableTransaction { items: items.clone(), error };
        if let Some(error) = defect {
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
                    return Err(UnwritableTransaction { items: users(batch, &items, id), error });
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

/// The items that need a transaction now. Parked records that are delivered again follow all others, so that they delay
/// and cancel none of them.
fn packable_items<'b>(batch: &'b LedgerBatch<'_>) -> impl Iterator<Item = PackableItem<'b>> {
    let needing = || batch.items.iter().enumerate().filter_map(|(index, item)| packable_item(index, item));
    let has_first_tries = needing().any(|packable| !batch.item(packable.item).peers.is_retry);
    needing().filter(move |packable| !(has_first_tries && batch.item(packable.item).peers.is_retry))
}

fn packable_item<'b>(index: usize, item: &'b LedgerItem<'_>) -> Option<PackableItem<'b>> {
    let plan = item.state.planned().filter(|plan| !plan.is_entry_only())?;
    Some(PackableItem { item: index, plan, group: item.peers.group })
}

/// How often the transactions of one of these items failed as a whole, or conflicted because of it.
fn most_delays(batch: &LedgerBatch<'_>, transaction: &TransactionBatch) -> Option<u32> {
    transaction.items.iter().map(|index| batch.item(*index).peers.delays).max()
}

fn without_plan() -> Error {
    Error::new(ErrorKind::State, "a transaction has an item without a plan; this is a defect of Afterwrite")
}
