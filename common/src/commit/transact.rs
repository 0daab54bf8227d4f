//! Writes the plans of a round: entries without additions as single writes, all others in transactions.
//!
//! The functions return whether a write was refused, so that the next round must wait.

use std::borrow::Cow;
use std::collections::BTreeMap;

use futures::stream::{StreamExt as _, iter};

use super::batch::{LedgerBatch, RenderedTransaction, WritePurpose};
use super::decide::TOMBSTONE_LIFETIME;
use super::item_state::LedgerItemState;
use super::pack::{PackableItem, TransactionBatch, pack};
use super::plan::ItemPlan;
use super::requests::CONCURRENCY;
use super::rollup::rollup_write;
use super::{InvocationContext, Ledger, keys};
use crate::clock::Clock;
use crate::effect::{ItemKey, Write, WriteAction, WriteCondition};
use crate::projection::{RollupTargets, TargetId};
use crate::record::{AttributePath, AttributeValue, Decimal, Item, Position};
use crate::sink::{Tables, TransactError, WriteError};
use crate::table::Rollup;
use crate::{ErrorKind, Result};

/// Rollups with computed measures, as they were read.
type ComputedRollups<'m> = BTreeMap<TargetId, (&'m Rollup, Option<Item>)>;

impl<T: Tables, C: Clock> Ledger<T, C> {
    pub(super) async fn write(
        &self,
        batch: &mut LedgerBatch<'_>,
        invocation: &InvocationContext,
    ) -> Result<bool> {
        let mut is_refused = self.write_entries(batch, invocation).await?;
        let packable = |(index, item): (usize, _)| {
            let LedgerItemState { plan, is_isolated, .. }: &LedgerItemState<'_> = item;
            let plan = plan.as_ref().filter(|plan| !plan.is_entry_only())?;
            Some(PackableItem { item: index, plan, is_isolated: *is_isolated })
        };
        let transactions = pack(batch.items.iter().enumerate().filter_map(packable), &batch.targets);
        for mut transaction in transactions {
            if self.clock.now() >= invocation.deadline {
                return Ok(true);
            }
            let Some(rendered) = self.render(batch, &mut transaction, invocation).await? else { continue };
            is_refused |= self.send(batch, &transaction, rendered, invocation).await?;
        }
        Ok(is_refused)
    }

    /// Writes the entries whose plan changes no rollup: single conditional writes, at half the price of a transaction's.
    async fn write_entries(
        &self,
        batch: &mut LedgerBatch<'_>,
        invocation: &InvocationContext,
    ) -> Result<bool> {
        let LedgerBatch { items, targets, .. } = batch;
        let is_entry_only =
            |item: &&mut LedgerItemState<'_>| item.plan.as_ref().is_some_and(ItemPlan::is_entry_only);
        let mut items: Vec<&mut LedgerItemState<'_>> = items.iter_mut().filter(is_entry_only).collect();
        let writes = items.iter_mut().filter_map(|item| self.entry_write(item, targets));
        let writes: Vec<Write> = writes.collect();
        let requests = writes.iter().map(|write| self.tables.write(write));
        let results: Vec<_> = iter(requests).buffered(CONCURRENCY).collect().await;
        let mut is_refused = false;
        for (item, result) in items.into_iter().zip(results) {
            match result {
                Ok(consumed) => {
                    invocation.tally.write_units.add(consumed.write_units);
                    item.apply_committed_plan(&invocation.tally);
                }
                Err(WriteError::Refused(refusal)) => {
                    is_refused = true;
                    item.refuse_entry(refusal, targets, &invocation.tally);
                }
                Err(WriteError::Failed(error)) if error.is_retryable() => {
                    is_refused = true;
                    item.forget_entry();
                }
                Err(WriteError::Failed(error)) if error.kind() == ErrorKind::Configuration => {
                    return Err(error);
                }
                Err(WriteError::Failed(error)) => item.fail(error),
            }
        }
        Ok(is_refused)
    }

    /// The write of an item's planned entry.
    fn entry_write(&self, item: &mut LedgerItemState<'_>, targets: &RollupTargets) -> Option<Write> {
        let encoded = item.plan.as_ref()?.entry.encode(targets);
        let condition = match &item.entry {
            None => WriteCondition::ItemAbsent,
            Some(entry) => {
                WriteCondition::Equals(AttributePath::from(&self.keys.names().rev), revision(entry.rev))
            }
        };
        let key = item.entry_key.take().unwrap_or_else(|| self.keys.entry(&self.model, item.source));
        Some(Write { key, condition, action: WriteAction::Put(encoded) })
    }

    /// The writes of a transaction; `None` if one of its rollups cannot be written, which isolates the items that need
    /// it.
    async fn render<'r>(
        &self,
        batch: &mut LedgerBatch<'r>,
        transaction: &mut TransactionBatch,
        invocation: &InvocationContext,
    ) -> Result<Option<RenderedTransaction<'r>>> {
        let computed = self.read_computed(batch, transaction, invocation).await?;
        let capacity = transaction.items.len() + transaction.rollups.len();
        let mut rendered = RenderedTransaction::with_capacity(capacity);
        for index in &transaction.items {
            let Some(item) = batch.items.get_mut(*index) else { continue };
            let Some(write) = self.entry_write(item, &batch.targets) else { continue };
            rendered.push(WritePurpose::Entry(*index), write);
            for position in item.plan.iter().flat_map(|plan| &plan.markers) {
                let write = self.marker_write(item, position);
                rendered.push(WritePurpose::Marker(*index, position.clone()), write);
            }
        }
        let updated_at = transaction.newest.map(|newest| newest.to_string());
        for (id, update) in std::mem::take(&mut transaction.rollups) {
            let target = batch.targets.get(id);
            let computed = computed.get(&id).map(|(rollup, stored)| (*rollup, stored.as_ref()));
            match rollup_write(&self.keys, target, update, updated_at.as_deref(), computed) {
                Ok(write) => rendered.push(WritePurpose::Rollup(id), write),
                Err(error) => {
                    batch.isolate_users(id, transaction, &error);
                    return Ok(None);
                }
            }
        }
        Ok(Some(rendered))
    }

    fn marker_write(&self, item: &LedgerItemState<'_>, position: &Position<'_>) -> Write {
        let mut marker = keys::item_of_type("LEDGER");
        let expires_at = self.clock.now().plus(TOMBSTONE_LIFETIME).epoch_seconds();
        marker.insert(Cow::Borrowed(keys::EXPIRES_AT), Decimal::from(expires_at).into());
        let key = self.keys.marker(&self.model, item.source, position);
        Write { key, condition: WriteCondition::ItemAbsent, action: WriteAction::Put(marker) }
    }

    /// Reads the rollups of a transaction that have computed measures.
    async fn read_computed(
        &self,
        batch: &LedgerBatch<'_>,
        transaction: &TransactionBatch,
        invocation: &InvocationContext,
    ) -> Result<ComputedRollups<'_>> {
        // Rollups with computed measures never overlap, so a target has at most one.
        let computed_rollup = |id: TargetId| {
            let mut rollups = batch.targets.get(id).rollups.iter();
            rollups.find_map(|index| self.model.rollups.get(*index).filter(|rollup| rollup.is_computed()))
        };
        let keyed = transaction.rollups.iter().filter_map(|(id, _)| {
            Some(((*id, computed_rollup(*id)?), self.keys.rollup(batch.targets.get(*id))?))
        });
        let (computed, keys): (Vec<(TargetId, &Rollup)>, Vec<ItemKey>) = keyed.unzip();
        let stored = self.read(&keys, invocation).await?.items;
        Ok(computed.into_iter().zip(stored).map(|((id, rollup), item)| (id, (rollup, item))).collect())
    }

    async fn send<'r>(
        &self,
        batch: &mut LedgerBatch<'r>,
        transaction: &TransactionBatch,
        rendered: RenderedTransaction<'r>,
        invocation: &InvocationContext,
    ) -> Result<bool> {
        let RenderedTransaction { purposes, writes } = rendered;
        match self.tables.transact(&writes).await {
            Ok(consumed) => {
                invocation.tally.transactions.add(1);
                invocation.tally.write_units.add(consumed.write_units);
                for index in &transaction.items {
                    if let Some(item) = batch.items.get_mut(*index) {
                        item.apply_committed_plan(&invocation.tally);
                    }
                }
                Ok(false)
            }
            Err(TransactError::Cancelled(reasons)) => {
                for (purpose, refusal) in purposes.into_iter().zip(reasons) {
                    if let Some(refusal) = refusal {
                        batch.refuse_write(purpose, refusal, transaction, &invocation.tally);
                    }
                }
                Ok(true)
            }
            Err(TransactError::Failed(error)) if error.is_retryable() => {
                // The transaction may have taken effect. The next round reads the entries again to find out.
                batch.forget_entries(transaction);
                Ok(true)
            }
            Err(TransactError::Failed(error)) if error.kind() == ErrorKind::Configuration => Err(error),
            Err(TransactError::Failed(error)) => {
                batch.isolate(&transaction.items, &error);
                Ok(false)
            }
        }
    }
}

fn revision(rev: u64) -> AttributeValue<'static> {
    Decimal::from(i64::try_from(rev).unwrap_or(i64::MAX)).into()
}
