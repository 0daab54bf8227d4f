//! Writes the plans of a round: entries without additions as single writes, all others in transactions.

use std::borrow::Cow;

use futures::stream::{StreamExt as _, iter};
use hashbrown::HashMap;

use super::batch::LedgerBatch;
use super::core::decide::{StoredMarker, TOMBSTONE_LIFETIME};
use super::core::entry::LedgerEntry;
use super::core::pack::{PackableItem, TransactionBatch, pack};
use super::core::plan::{ExpiryMarker, ItemPlan};
use super::core::rollup::{after_write, rollup_write};
use super::core::{ItemInput, LedgerItem, keys};
use super::driver::{LedgerDriver, computed_rollup};
use super::requests::CONCURRENCY;
use crate::clock::Clock;
use crate::effect::{Write, WriteAction, WriteCondition, WriteRefusal};
use crate::projection::TargetId;
use crate::record::{AttributePath, AttributeValue, Decimal, Item, Position};
use crate::sink::{Tables, TransactError, WriteError};
use crate::{Error, ErrorKind, Result};

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
    rejection: Option<Error>,
}

impl<T: Tables, C: Clock> LedgerDriver<'_, T, C> {
    /// Writes every plan. Returns whether a write was refused, so that the next round must wait.
    ///
    /// Transactions that share a rollup follow one another; all others overlap.
    pub(crate) async fn write(&self, batch: &mut LedgerBatch<'_>) -> Result<bool> {
        let mut is_refused = self.write_entries(batch).await?;
        let packable = |(item, state): (usize, _)| {
            let state: &LedgerItem<'_> = state;
            let plan = state.planned().filter(|plan| !plan.is_entry_only())?;
            Some(PackableItem { item, plan, group: state.group })
        };
        let transactions = pack(batch.items.iter().enumerate().filter_map(packable), &batch.targets);
        for wave in waves(transactions) {
            if self.requests.is_over() {
                return Ok(true);
            }
            let mut rendered = Vec::with_capacity(wave.len());
            for transaction in wave {
                if lacks_rollup(batch, &transaction) {
                    is_refused = true;
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
            let results: Vec<_> = iter(requests).buffered(CONCURRENCY).collect().await;
            for (transaction, result) in rendered.into_iter().zip(results) {
                is_refused |= self.apply(batch, transaction, result)?;
            }
        }
        Ok(is_refused)
    }

    /// Writes the entries whose plan changes no rollup: single conditional writes, at half the price of a transaction's.
    async fn write_entries(&self, batch: &mut LedgerBatch<'_>) -> Result<bool> {
        let (mut indexes, mut writes) = (Vec::new(), Vec::new());
        for index in 0..batch.items.len() {
            if batch.item(index).planned().is_some_and(ItemPlan::is_entry_only) {
                indexes.push(index);
                writes.push(self.entry_write(batch, index)?);
            }
        }
        let requests = writes.iter().map(|write| self.requests.write(write));
        let results: Vec<_> = iter(requests).buffered(CONCURRENCY).collect().await;
        let context = self.context();
        let mut is_refused = false;
        for (index, result) in indexes.into_iter().zip(results) {
            let input = match result {
                Ok(()) => ItemInput::Committed,
                Err(WriteError::Refused(refusal)) => {
                    is_refused = true;
                    match self.entry_refusal(refusal) {
                        Some(Ok(entry)) => ItemInput::Refused { entry: Some(entry), markers: Vec::new() },
                        Some(Err(error)) => ItemInput::Rejected(error),
                        None => continue,
                    }
                }
                Err(WriteError::Failed(error)) if error.is_retryable() => {
                    is_refused = true;
                    ItemInput::ResponseLost
                }
                Err(WriteError::Failed(error)) if error.kind() == ErrorKind::Configuration => {
                    return Err(error);
                }
                Err(WriteError::Failed(error)) => ItemInput::Rejected(error),
            };
            batch.step(index, input, context);
        }
        Ok(is_refused)
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
        let encoded = item.planned().ok_or_else(without_plan)?.entry.encode(targets);
        let condition = match &item.entry {
            None => WriteCondition::ItemAbsent,
            Some(entry) => self.unchanged(entry),
        };
        let key = match item.entry_key.take() {
            Some(key) => key,
            None => self.core.keys.entry(&self.core.model, item.source)?,
        };
        Ok(Write { key, condition, action: WriteAction::Put(encoded) })
    }

    /// Holds while the stored entry is the one that was read. A tombstone may be deleted while a write is in flight; the
    /// entry that follows begins at revision 1 again, but either does not expire or expires later.
    fn unchanged(&self, entry: &LedgerEntry<'_>) -> WriteCondition {
        let names = self.core.keys.names();
        let same_revision = WriteCondition::Equals(AttributePath::from(&names.rev), revision(entry.rev));
        let Some(expires_at) = entry.expires_at else { return same_revision };
        let expires_at = Decimal::from(expires_at.epoch_seconds()).into();
        let same_expiry = WriteCondition::Equals(AttributePath::from(&names.expires_at), expires_at);
        WriteCondition::All(vec![same_revision, same_expiry])
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
            for marker in item.planned().iter().flat_map(|plan| &plan.markers) {
                writes.push(self.marker_write(item, marker).map_err(unwritable)?);
                purposes.push(WritePurpose::Marker(*index, marker.position.clone()));
            }
        }
        let updated_at = newest.map(|newest| newest.to_string());
        for (id, update) in rollups {
            let target = batch.targets.get(id);
            let computed = batch
                .computed
                .get(&id)
                .and_then(|stored| Some((computed_rollup(&batch.targets, id)?, stored.as_ref())));
            match rollup_write(&self.core.keys, target, update, updated_at.as_deref(), computed) {
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
        let mut stored = keys::item_of_type("LEDGER");
        let key = self.core.keys.marker(&self.core.model, item.source, &marker.position)?;
        let condition = match marker.parked {
            Some(reason) => {
                let behind = [&marker.position.to_text(), " ", reason].concat();
                stored.insert(Cow::Borrowed(keys::BEHIND), AttributeValue::text(behind));
                WriteCondition::ItemAbsent
            }
            None => {
                let expires_at = self.requests.clock.now().plus(TOMBSTONE_LIFETIME).epoch_seconds();
                stored.insert(Cow::Borrowed(keys::EXPIRES_AT), Decimal::from(expires_at).into());
                // A parked expiry can be settled later. `behind` is never NULL, so every present value differs.
                let is_parked =
                    WriteCondition::Differs(AttributePath::from(keys::BEHIND), AttributeValue::Null);
                WriteCondition::Any(vec![WriteCondition::ItemAbsent, is_parked])
            }
        };
        Ok(Write { key, condition, action: WriteAction::Put(stored) })
    }

    /// Gives the items of a transaction its result. Returns whether it was refused.
    fn apply<'r>(
        &self,
        batch: &mut LedgerBatch<'r>,
        transaction: RenderedTransaction<'r>,
        result: Result<(), TransactError>,
    ) -> Result<bool> {
        let context = self.context();
        let RenderedTransaction { items, purposes, writes } = transaction;
        match result {
            Ok(()) => {
                self.requests.tally.transactions.add(1);
                for (purpose, write) in purposes.into_iter().zip(writes) {
                    if let WritePurpose::Rollup(id) = purpose
                        && let Some(stored) = batch.computed.remove(&id)
                    {
                        batch
                            .computed
                            .extend(after_write(stored, &write.action).map(|item| (id, Some(item))));
                    }
                }
                for index in items {
                    batch.step(index, ItemInput::Committed, context);
                }
                Ok(false)
            }
            Err(TransactError::Cancelled(reasons)) => {
                self.cancel(batch, &items, purposes, reasons);
                Ok(true)
            }
            Err(TransactError::Failed(error)) if error.is_retryable() => {
                // The transaction may have taken effect. The next round reads the entries again to find out.
                for purpose in purposes {
                    forget_rollup(batch, &purpose);
                }
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
    ) {
        let context = self.context();
        let mut refusals: HashMap<usize, ItemRefusal<'r>> = HashMap::new();
        for (purpose, refusal) in purposes.into_iter().zip(reasons) {
            let Some(refusal) = refusal else { continue };
            forget_rollup(batch, &purpose);
            match (purpose, refusal) {
                (WritePurpose::Entry(index), refusal) => match self.entry_refusal(refusal) {
                    Some(Ok(entry)) => refusals.entry(index).or_default().entry = Some(entry),
                    Some(Err(error)) => refusals.entry(index).or_default().rejection = Some(error),
                    None => {}
                },
                (WritePurpose::Marker(index, position), WriteRefusal::Condition(stored)) => {
                    self.requests.tally.conflicts.add(1);
                    let is_parked = stored.is_some_and(|stored| stored.contains_key(keys::BEHIND));
                    let markers = &mut refusals.entry(index).or_default().markers;
                    markers.push(StoredMarker { position, is_parked });
                }
                // A rollup's condition is on the `rev` that was read. The next round reads it again.
                (_, WriteRefusal::Conflict | WriteRefusal::Condition(_)) => {
                    self.requests.tally.conflicts.add(1);
                }
                (_, WriteRefusal::Throttled) => {}
                (WritePurpose::Marker(index, _), WriteRefusal::Invalid(reason)) => {
                    refusals.entry(index).or_default().rejection = Some(rejected_write(&reason));
                }
                (WritePurpose::Rollup(target), WriteRefusal::Invalid(reason)) => {
                    let users = users(batch, items, target);
                    batch.bisect(&users, &rejected_write(&reason), context);
                }
            }
        }
        for index in items {
            let Some(ItemRefusal { entry, markers, rejection }) = refusals.remove(index) else { continue };
            let input = match rejection {
                Some(error) => ItemInput::Rejected(error),
                None => ItemInput::Refused { entry, markers },
            };
            if batch.item(*index).planned().is_some() {
                batch.step(*index, input, context);
            }
        }
    }
}

/// A transaction that cannot be sent, because of one of these items.
struct UnwritableTransaction {
    items: Vec<usize>,
    error: Error,
}

/// Splits transactions into waves: those of one wave share no rollup.
fn waves(transactions: Vec<TransactionBatch>) -> Vec<Vec<TransactionBatch>> {
    let mut waves: Vec<Vec<TransactionBatch>> = Vec::new();
    let mut used: HashMap<TargetId, Vec<usize>> = HashMap::new();
    for transaction in transactions {
        let targets = || transaction.rollups.iter().map(|(target, _)| target);
        let is_taken =
            |wave: &usize| targets().any(|id| used.get(id).is_some_and(|used| used.contains(wave)));
        let wave = (0..).find(|wave| !is_taken(wave)).unwrap_or(waves.len());
        for target in targets() {
            used.entry(*target).or_default().push(wave);
        }
        match waves.get_mut(wave) {
            Some(others) => others.push(transaction),
            None => waves.push(vec![transaction]),
        }
    }
    waves
}

/// The items of a transaction that write a rollup.
fn users(batch: &LedgerBatch<'_>, items: &[usize], target: TargetId) -> Vec<usize> {
    let uses_target = |index: &&usize| {
        let plan = batch.item(**index).planned();
        plan.is_some_and(|plan| plan.targets().any(|used| used == target))
    };
    items.iter().filter(uses_target).copied().collect()
}

/// Whether a rollup with computed measures must be read again before the transaction can be sent.
fn lacks_rollup(batch: &LedgerBatch<'_>, transaction: &TransactionBatch) -> bool {
    let is_unread =
        |id: TargetId| !batch.computed.contains_key(&id) && computed_rollup(&batch.targets, id).is_some();
    transaction.rollups.iter().any(|(id, _)| is_unread(*id))
}

/// A rollup that may differ from what was read is read again.
fn forget_rollup(batch: &mut LedgerBatch<'_>, purpose: &WritePurpose<'_>) {
    if let WritePurpose::Rollup(id) = purpose {
        batch.computed.remove(id);
    }
}

fn rejected_write(reason: &str) -> Error {
    let message = format!("DynamoDB rejected the write of the item's contributions: {reason}");
    Error::new(ErrorKind::Rejected, message)
}

fn without_plan() -> Error {
    Error::new(ErrorKind::State, "a transaction has an item without a plan; this is a defect of Afterwrite")
}

fn revision(rev: u64) -> AttributeValue<'static> {
    Decimal::from(i64::try_from(rev).unwrap_or(i64::MAX)).into()
}
