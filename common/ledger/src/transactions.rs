//! Writes the plans of a round: entries without additions as single writes, all others in transactions.

use std::collections::BTreeSet;

use afterwrite_model::clock::Clock;
use afterwrite_model::effect::{Write, WriteAction, WriteCondition, WriteRefusal};
use afterwrite_model::projection::TargetId;
use afterwrite_model::record::{Item, Position};
use afterwrite_model::{Error, ErrorKind, Result};
use futures::future::join3;
use hashbrown::HashMap;

use super::batch::LedgerBatch;
use super::core::facts::KnownEntry;
use super::core::pack::{PackableItem, TransactionBatch, pack};
use super::core::plan::ItemPlan;
use super::core::{ItemInput, LedgerCore, LedgerItem};
use super::driver::LedgerDriver;
use super::isolation::{RefusedRollup, rejected_write, users};
use super::policy::MOST_ROUND_REJECTIONS;
use super::requests::send_all;
use super::state::entry::{LedgerEntry, mark_action};
use super::state::marker::{ExpiryMarker, MarkerState, StoredMarker};
use super::state::rollup::{after_write, rollup_write};
use super::waves::waves;
use crate::tables::{TransactError, WriteError};

/// The purpose of one write of a transaction.
#[derive(Clone, Debug)]
enum WritePurpose<'r> {
    Entry(usize),
    Marker(usize, Position<'r>),
    Rollup(TargetId),
}

/// A transaction: its items, its writes, and the purpose of each write. Cancellation reasons align with the writes.
struct RenderedTransaction<'r> {
    items: Vec<usize>,
    purposes: Vec<WritePurpose<'r>>,
    writes: Vec<Write>,
}

/// The reasons of a cancelled transaction that concern one of its items.
#[derive(Default)]
struct ItemRefusal<'r> {
    /// The entry as it is stored, if it differs from the one that was known.
    entry: Option<Option<Item>>,
    markers: Vec<StoredMarker<'r>>,
    /// Whether an unreadable marker has been deleted meanwhile.
    is_marker_gone: bool,
    rejection: Option<Error>,
}

impl LedgerDriver<'_> {
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
            self.lookups.attempt_all(offers),
        )
        .await;
        self.lookups.note_attempts(offers, &mut batch.lookups)?;
        let is_refused = self.apply_entries(batch, entries, results)?;
        Ok(waves? | is_refused | self.requests.is_over())
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
            if self.requests.is_over() {
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
                    batch.bisect(&items, &error, self.context());
                }
            }
        }
        let requests = rendered.iter().map(|transaction| self.requests.transact(&transaction.writes));
        let results = send_all(requests).await;
        let mut refused = Vec::new();
        for (transaction, result) in rendered.into_iter().zip(results) {
            must_wait |= self.apply(batch, transaction, result, &mut refused)?;
        }
        if !refused.is_empty() {
            must_wait |= self.isolate(batch, refused).await?;
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
        self.requests.send_some(entries.iter().map(|(_, write)| self.requests.write(write))).await
    }

    /// Gives the items of single writes their results. Returns whether the next round must wait.
    fn apply_entries(
        &self,
        batch: &mut LedgerBatch<'_>,
        entries: Vec<(usize, Write)>,
        results: Vec<Option<Result<(), WriteError>>>,
    ) -> Result<bool> {
        let context = self.context();
        let mut must_wait = false;
        for ((index, _), result) in entries.into_iter().zip(results) {
            let Some(result) = result else { continue };
            let input = match result {
                Ok(()) => ItemInput::Committed,
                Err(WriteError::Refused(refusal)) => {
                    must_wait |= !is_rejection(&refusal);
                    match self.entry_refusal(refusal) {
                        Some(Ok(entry)) => ItemInput::Refused { entry: Some(entry), markers: Vec::new() },
                        Some(Err(error)) => ItemInput::Rejected(error),
                        None => continue,
                    }
                }
                Err(WriteError::Failed(error)) if error.is_retryable() => {
                    must_wait = true;
                    batch.note_delays([index]);
                    ItemInput::ResponseLost
                }
                Err(WriteError::Failed(error)) if error.kind() == ErrorKind::Configuration => {
                    return Err(error);
                }
                Err(WriteError::Failed(error)) => ItemInput::Rejected(error),
            };
            batch.step(index, input, context);
        }
        Ok(must_wait)
    }

    /// The reason of a refusal of an entry's write: the stored entry, or an error if it can never be written; `None` if the same
    /// write can succeed later.
    fn entry_refusal(&self, refusal: WriteRefusal) -> Option<Result<Option<Item>>> {
        match refusal {
            WriteRefusal::Condition(stored) => {
                self.requests.tally.conflicts.add(1);
                Some(Ok(stored))
            }
            WriteRefusal::Conflict => {
                self.requests.tally.conflicts.add(1);
                None
            }
            WriteRefusal::Throttled => None,
            WriteRefusal::Invalid(reason) => {
                let message = format!("DynamoDB rejected the item's ledger entry: {reason}");
                Some(Err(Error::new(ErrorKind::Rejected, message)))
            }
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
            KnownEntry::Absent => (WriteCondition::ItemAbsent, WriteAction::Put(planned.encode(targets))),
            KnownEntry::Readable(entry) => {
                (entry.unchanged(&self.core.keys), WriteAction::Put(planned.encode(targets)))
            }
        };
        let key = match item.facts.entry_key.take() {
            Some(key) => key,
            None => LedgerEntry::key(&self.core.keys, &self.core.model, item.facts.source)?,
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
            match rollup_write(&self.core.keys, target, update, updated_at.as_deref(), read) {
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
        let LedgerCore { keys, model, .. } = self.core;
        let key = ExpiryMarker::key(keys, model, item.facts.source, &marker.position)?;
        Ok(marker.write(key, item.facts.unreadable_marker(&marker.position), self.requests.clock.now()))
    }

    /// Gives the items of a transaction its result, and adds the rollups that refused it. Returns whether the next round
    /// must wait.
    fn apply<'r>(
        &self,
        batch: &mut LedgerBatch<'r>,
        transaction: RenderedTransaction<'r>,
        result: Result<(), TransactError>,
        refused: &mut Vec<RefusedRollup>,
    ) -> Result<bool> {
        let context = self.context();
        let RenderedTransaction { items, purposes, writes } = transaction;
        match result {
            Ok(()) => {
                self.requests.tally.transactions.add(1);
                for (purpose, write) in purposes.into_iter().zip(writes) {
                    if let WritePurpose::Rollup(id) = purpose
                        && let Some(stored) = batch.read_rollups.remove(&id)
                    {
                        let stored = after_write(stored, &write.action);
                        batch.read_rollups.extend(stored.map(|item| (id, Some(item))));
                    }
                }
                for index in items {
                    batch.step(index, ItemInput::Committed, context);
                }
                Ok(false)
            }
            Err(TransactError::Cancelled(reasons)) => {
                let must_wait = reasons.iter().flatten().any(|refusal| !is_rejection(refusal));
                separate_delaying(batch, &items, purposes.iter().zip(&reasons));
                self.cancel(batch, &items, purposes, reasons, refused);
                Ok(must_wait)
            }
            Err(TransactError::Failed(error)) if error.is_retryable() => {
                // The transaction may have taken effect. The next round reads the entries again to find out.
                for purpose in purposes {
                    forget_rollup(batch, &purpose);
                }
                batch.note_failure(&items);
                for index in items {
                    batch.step(index, ItemInput::ResponseLost, context);
                }
                Ok(true)
            }
            Err(TransactError::Failed(error)) if error.kind() == ErrorKind::Configuration => Err(error),
            Err(TransactError::Failed(error)) => {
                batch.bisect(&items, &error, context);
                Ok(false)
            }
        }
    }

    /// Tells the items of a cancelled transaction why. An item that was not at fault keeps its plan.
    fn cancel<'r>(
        &self,
        batch: &mut LedgerBatch<'r>,
        items: &[usize],
        purposes: Vec<WritePurpose<'r>>,
        reasons: Vec<Option<WriteRefusal>>,
        refused: &mut Vec<RefusedRollup>,
    ) {
        let context = self.context();
        let mut refusals: HashMap<usize, ItemRefusal<'r>> = HashMap::new();
        for (purpose, refusal) in purposes.into_iter().zip(reasons) {
            let Some(refusal) = refusal else { continue };
            forget_rollup(batch, &purpose);
            match (purpose, refusal) {
                (WritePurpose::Marker(..) | WritePurpose::Rollup(_), WriteRefusal::Throttled) => {}
                (WritePurpose::Entry(index), refusal) => match self.entry_refusal(refusal) {
                    Some(Ok(entry)) => refusals.entry(index).or_default().entry = Some(entry),
                    Some(Err(error)) => refusals.entry(index).or_default().rejection = Some(error),
                    None => {}
                },
                (WritePurpose::Marker(index, position), WriteRefusal::Condition(stored)) => {
                    self.requests.tally.conflicts.add(1);
                    let refusal = refusals.entry(index).or_default();
                    match stored {
                        Some(stored) => {
                            let state = MarkerState::of(&stored, &position);
                            refusal.markers.push(StoredMarker { position, state });
                        }
                        None => refusal.is_marker_gone = true,
                    }
                }
                // A rollup's condition is on the `rev` that was read. The next round reads it again.
                (_, WriteRefusal::Conflict | WriteRefusal::Condition(_)) => {
                    self.requests.tally.conflicts.add(1);
                }
                (WritePurpose::Marker(index, _), WriteRefusal::Invalid(reason)) => {
                    refusals.entry(index).or_default().rejection = Some(rejected_write(&reason));
                }
                (WritePurpose::Rollup(target), WriteRefusal::Invalid(reason)) => {
                    refused.push(RefusedRollup { target, items: items.to_vec(), reason });
                }
            }
        }
        for index in items {
            let Some(refusal) = refusals.remove(index) else { continue };
            let ItemRefusal { entry, markers, is_marker_gone, rejection } = refusal;
            let input = match rejection {
                Some(error) => ItemInput::Rejected(error),
                None if is_marker_gone => ItemInput::ResponseLost,
                None => ItemInput::Refused { entry, markers },
            };
            if batch.item(*index).state.planned().is_some() {
                batch.step(*index, input, context);
            }
        }
    }
}

/// Separates the items that delay a cancelled transaction from the others: those whose write is throttled, and those whose write
/// conflicts, or meets another state than was read, for the second time.
fn separate_delaying<'p, 'r: 'p>(
    batch: &mut LedgerBatch<'r>,
    items: &[usize],
    refusals: impl Iterator<Item = (&'p WritePurpose<'r>, &'p Option<WriteRefusal>)>,
) {
    let (mut delaying, mut conflicting) = (BTreeSet::new(), BTreeSet::new());
    for (purpose, refusal) in refusals {
        let concerned = match refusal {
            Some(WriteRefusal::Throttled) => &mut delaying,
            Some(WriteRefusal::Conflict | WriteRefusal::Condition(_)) => &mut conflicting,
            Some(WriteRefusal::Invalid(_)) | None => continue,
        };
        match purpose {
            WritePurpose::Entry(index) | WritePurpose::Marker(index, _) => drop(concerned.insert(*index)),
            WritePurpose::Rollup(target) => concerned.extend(users(batch, items, *target)),
        }
    }
    delaying.extend(batch.note_delays(conflicting));
    if delaying.len() < items.len() {
        batch.separate(&delaying);
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

/// Whether the same write would be refused again.
fn is_rejection(refusal: &WriteRefusal) -> bool {
    match refusal {
        WriteRefusal::Invalid(_) => true,
        WriteRefusal::Condition(_) | WriteRefusal::Conflict | WriteRefusal::Throttled => false,
    }
}

/// How often the transactions of one of these items failed as a whole, or conflicted because of it.
fn most_delays(batch: &LedgerBatch<'_>, transaction: &TransactionBatch) -> Option<u32> {
    transaction.items.iter().map(|index| batch.item(*index).peers.delays).max()
}

/// A rollup that may differ from what was read is read again.
fn forget_rollup(batch: &mut LedgerBatch<'_>, purpose: &WritePurpose<'_>) {
    if let WritePurpose::Rollup(id) = purpose {
        batch.read_rollups.remove(id);
    }
}

fn without_plan() -> Error {
    Error::new(ErrorKind::State, "a transaction has an item without a plan; this is a defect of Afterwrite")
}
