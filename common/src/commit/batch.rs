//! The items of a batch, and what they learn from refused writes.

use std::collections::BTreeSet;

use super::item_state::LedgerItemState;
use super::lookup::LookupResults;
use super::pack::TransactionBatch;
use super::tally::CommitTally;
use crate::effect::{Write, WriteRefusal};
use crate::projection::{RollupTargets, TargetId};
use crate::record::Position;
use crate::{Error, ErrorKind};

/// A batch in progress.
pub(super) struct LedgerBatch<'r> {
    pub(super) items: Vec<LedgerItemState<'r>>,
    pub(super) targets: RollupTargets,
    pub(super) lookups: LookupResults,
}

/// The purpose of one write of a transaction.
#[derive(Clone, Debug)]
pub(super) enum WritePurpose<'r> {
    Entry(usize),
    Marker(usize, Position<'r>),
    Rollup(TargetId),
}

/// The writes of a transaction, and the purpose of each. Cancellation reasons align with both.
pub(super) struct RenderedTransaction<'r> {
    pub(super) purposes: Vec<WritePurpose<'r>>,
    pub(super) writes: Vec<Write>,
}

impl<'r> RenderedTransaction<'r> {
    pub(super) fn with_capacity(capacity: usize) -> Self {
        Self { purposes: Vec::with_capacity(capacity), writes: Vec::with_capacity(capacity) }
    }

    pub(super) fn push(&mut self, purpose: WritePurpose<'r>, write: Write) {
        self.purposes.push(purpose);
        self.writes.push(write);
    }
}

impl<'r> LedgerBatch<'r> {
    pub(super) fn pending_items(&mut self) -> impl Iterator<Item = &mut LedgerItemState<'r>> {
        self.items.iter_mut().filter(|item| item.is_pending())
    }

    /// Marks the entries of a transaction's items as unknown, because its response is unknown.
    pub(super) fn forget_entries(&mut self, transaction: &TransactionBatch) {
        for index in &transaction.items {
            if let Some(item) = self.items.get_mut(*index) {
                item.forget_entry();
            }
        }
    }

    /// Fails items that are counted but whose mirrors could not be refreshed.
    pub(super) fn fail_items(&mut self, indexes: &BTreeSet<usize>, error: &Error) {
        for index in indexes {
            if let Some(item) = self.items.get_mut(*index) {
                item.fail(error.restated());
            }
        }
    }

    /// Fails every pending item because the deadline is reached.
    pub(super) fn give_up(&mut self) {
        for item in self.pending_items() {
            let error = item.lookup_delay.take().unwrap_or_else(|| {
                Error::new(ErrorKind::Conflict, "the deadline passed before the item could be committed")
            });
            item.fail(error);
        }
    }

    pub(super) fn fail_pending(&mut self, error: &Error) {
        for item in self.pending_items() {
            item.fail(error.restated());
        }
    }

    /// Handles the refusal of one write of a transaction.
    pub(super) fn refuse_write(
        &mut self,
        purpose: WritePurpose<'r>,
        refusal: WriteRefusal,
        transaction: &TransactionBatch,
        tally: &CommitTally,
    ) {
        match (purpose, refusal) {
            (WritePurpose::Entry(index), refusal) => {
                let Self { items, targets, .. } = self;
                if let Some(item) = items.get_mut(index) {
                    item.refuse_entry(refusal, targets, tally);
                }
            }
            (WritePurpose::Marker(index, position), WriteRefusal::Condition(_)) => {
                tally.conflicts.add(1);
                if let Some(item) = self.items.get_mut(index) {
                    item.settled_markers.push(position);
                }
            }
            // A rollup's condition is on the `rev` that was read. The next round reads it again.
            (_, WriteRefusal::Conflict | WriteRefusal::Condition(_)) => tally.conflicts.add(1),
            (_, WriteRefusal::Throttled) => {}
            (WritePurpose::Marker(index, _), WriteRefusal::Invalid(reason)) => {
                self.isolate(&[index], &rejected_write(&reason));
            }
            (WritePurpose::Rollup(target), WriteRefusal::Invalid(reason)) => {
                self.isolate_users(target, transaction, &rejected_write(&reason));
            }
        }
    }

    /// Isolates the items of a transaction that use a rollup which cannot be written: alone, the cause fails.
    pub(super) fn isolate_users(&mut self, target: TargetId, transaction: &TransactionBatch, error: &Error) {
        let uses_target = |index: &usize| {
            let plan = self.items.get(*index).and_then(|item| item.plan.as_ref());
            plan.is_some_and(|plan| plan.targets().any(|used| used == target))
        };
        let users: Vec<usize> = transaction.items.iter().copied().filter(uses_target).collect();
        self.isolate(&users, error);
    }

    /// Gives each of these items, one of which is invalid, a transaction of its own; an item that had one already fails.
    pub(super) fn isolate(&mut self, indexes: &[usize], error: &Error) {
        for index in indexes {
            let Some(item) = self.items.get_mut(*index) else { continue };
            if indexes.len() == 1 || item.is_isolated {
                item.fail(error.restated());
            } else {
                item.is_isolated = true;
            }
        }
    }
}

fn rejected_write(reason: &str) -> Error {
    Error::new(
        ErrorKind::Rejected,
        format!("DynamoDB rejected the write of the item's contributions: {reason}"),
    )
}
