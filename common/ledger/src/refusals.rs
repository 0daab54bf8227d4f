//! The refusals of writes: gives items the reason why DynamoDB refused their write, or why its response was lost. If DynamoDB rejects a
//! transaction, the stage finds the items that are the cause.
//!
//! ```text
//! a rollup's update is refused as invalid ──▶ read the rollup ──▶ which items of the batch can it not take?
//!                                                                  │ some: they are rejected, all at once
//!                                                                  └ none of this transaction: halves
//! a transaction is refused as a whole ─────────────────────────────────────────────────────▶ halves
//! ```

use std::collections::BTreeSet;

use afterwrite_model::effect::{Write, WriteRefusal};
use afterwrite_model::projection::TargetId;
use afterwrite_model::record::{Item, Position};
use afterwrite_model::{Error, ErrorKind, Result};
use hashbrown::HashMap;

use super::batch::{BatchContext, LedgerBatch};
use super::core::ItemInput;
use super::core::plan::ItemPlan;
use super::state::marker::{MarkerState, StoredMarker};
use super::state::rollup::{refuses, refuses_revision, rollup_key};
use crate::tables::{TransactError, WriteError};

/// The purpose of one write of a transaction.
#[derive(Clone, Debug)]
pub(crate) enum WritePurpose<'r> {
    Entry(usize),
    Marker(usize, Position<'r>),
    Rollup(TargetId),
}

/// A transaction: its items, its writes, and the purpose of each write. Cancellation reasons align with the writes.
pub(crate) struct RenderedTransaction<'r> {
    pub(crate) items: Vec<usize>,
    pub(crate) purposes: Vec<WritePurpose<'r>>,
    pub(crate) writes: Vec<Write>,
}

/// The reasons of a cancelled transaction that concern one of its items.
#[derive(Default)]
struct ItemRefusal<'r> {
    /// The entry as it is stored, if it differs from the known entry.
    entry: Option<Option<Item>>,
    markers: Vec<StoredMarker<'r>>,
    /// Whether an unreadable marker has been deleted meanwhile.
    is_marker_gone: bool,
    rejection: Option<Error>,
}

/// A rollup whose update DynamoDB refused as invalid.
#[derive(Debug)]
pub(crate) struct RefusedRollup {
    pub(crate) target: TargetId,
    /// The items of the refused transaction.
    pub(crate) items: Vec<usize>,
    /// DynamoDB's reason.
    pub(crate) reason: String,
}

/// Gives the items of one batch the reasons why their writes were refused.
pub(crate) struct RefusalStage<'l> {
    pub(crate) context: BatchContext<'l>,
}

impl RefusalStage<'_> {
    /// Gives the item of a single write the error of the write. Returns whether the next round must wait.
    pub(crate) fn apply_to_entry(
        &self,
        batch: &mut LedgerBatch<'_>,
        index: usize,
        error: WriteError,
    ) -> Result<bool> {
        let (input, must_wait) = match error {
            WriteError::Refused(refusal) => {
                let must_wait = !is_rejection(&refusal);
                let input = match self.entry_refusal(refusal) {
                    Some(Ok(entry)) => ItemInput::Refused { entry: Some(entry), markers: Vec::new() },
                    Some(Err(error)) => ItemInput::Rejected(error),
                    None => return Ok(must_wait),
                };
                (input, must_wait)
            }
            WriteError::Failed(error) if error.is_retryable() => {
                batch.note_delays([index]);
                (ItemInput::ResponseLost, true)
            }
            WriteError::Failed(error) if error.kind() == ErrorKind::Configuration => return Err(error),
            WriteError::Failed(error) => (ItemInput::Rejected(error), false),
        };
        batch.step(index, input, self.context.step_context());
        Ok(must_wait)
    }

    /// The reason of a refusal of an entry's write: the stored entry, or an error if it can never be written; `None` if the same
    /// write can succeed later.
    fn entry_refusal(&self, refusal: WriteRefusal) -> Option<Result<Option<Item>>> {
        match refusal {
            WriteRefusal::Condition(stored) => {
                self.context.requests.tally.conflicts.add(1);
                Some(Ok(stored))
            }
            WriteRefusal::Conflict => {
                self.context.requests.tally.conflicts.add(1);
                None
            }
            WriteRefusal::Throttled => None,
            WriteRefusal::Invalid(reason) => {
                let message = format!("DynamoDB rejected the item's ledger entry: {reason}");
                Some(Err(Error::new(ErrorKind::Rejected, message)))
            }
        }
    }

    /// Gives the items of a transaction its error, and adds the rollups that refused it. Returns whether the next round
    /// must wait.
    pub(crate) fn apply<'r>(
        &self,
        batch: &mut LedgerBatch<'r>,
        transaction: RenderedTransaction<'r>,
        error: TransactError,
        refused_rollups: &mut Vec<RefusedRollup>,
    ) -> Result<bool> {
        let context = self.context.step_context();
        let RenderedTransaction { items, purposes, .. } = transaction;
        match error {
            TransactError::Cancelled(reasons) => {
                let must_wait = reasons.iter().flatten().any(|refusal| !is_rejection(refusal));
                separate_delaying(batch, &items, purposes.iter().zip(&reasons));
                self.apply_cancellation(batch, &items, purposes, reasons, refused_rollups);
                Ok(must_wait)
            }
            TransactError::Failed(error) if error.is_retryable() => {
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
            TransactError::Failed(error) if error.kind() == ErrorKind::Configuration => Err(error),
            TransactError::Failed(error) => {
                batch.bisect(&items, &error, context);
                Ok(false)
            }
        }
    }

    /// Gives the items of a cancelled transaction the reasons. An item without a reason keeps its plan.
    fn apply_cancellation<'r>(
        &self,
        batch: &mut LedgerBatch<'r>,
        items: &[usize],
        purposes: Vec<WritePurpose<'r>>,
        reasons: Vec<Option<WriteRefusal>>,
        refused_rollups: &mut Vec<RefusedRollup>,
    ) {
        for purpose in
            purposes.iter().zip(&reasons).filter_map(|(purpose, reason)| reason.as_ref().map(|_| purpose))
        {
            forget_rollup(batch, purpose);
        }
        let mut refusals = self.refusals_by_item(items, purposes.into_iter().zip(reasons), refused_rollups);
        let context = self.context.step_context();
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

    /// The reasons of a cancelled transaction of these items, by item. Adds the rollups that refused it.
    fn refusals_by_item<'r>(
        &self,
        items: &[usize],
        reasons: impl Iterator<Item = (WritePurpose<'r>, Option<WriteRefusal>)>,
        refused_rollups: &mut Vec<RefusedRollup>,
    ) -> HashMap<usize, ItemRefusal<'r>> {
        let mut refusals: HashMap<usize, ItemRefusal<'r>> = HashMap::new();
        for (purpose, refusal) in reasons {
            let Some(refusal) = refusal else { continue };
            match (purpose, refusal) {
                (WritePurpose::Marker(..) | WritePurpose::Rollup(_), WriteRefusal::Throttled) => {}
                (WritePurpose::Entry(index), refusal) => match self.entry_refusal(refusal) {
                    Some(Ok(entry)) => refusals.entry(index).or_default().entry = Some(entry),
                    Some(Err(error)) => refusals.entry(index).or_default().rejection = Some(error),
                    None => {}
                },
                (WritePurpose::Marker(index, position), WriteRefusal::Condition(stored)) => {
                    self.context.requests.tally.conflicts.add(1);
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
                    self.context.requests.tally.conflicts.add(1);
                }
                (WritePurpose::Marker(index, _), WriteRefusal::Invalid(reason)) => {
                    refusals.entry(index).or_default().rejection = Some(rejected_write(&reason));
                }
                (WritePurpose::Rollup(target), WriteRefusal::Invalid(reason)) => {
                    refused_rollups.push(RefusedRollup { target, items: items.to_vec(), reason });
                }
            }
        }
        refusals
    }

    /// Rejects every item of the batch whose additions these rollups refuse as they are stored: a measure is not a number,
    /// or the sum exceeds DynamoDB's limits. If that does not explain a refusal, its items are isolated by halves. Returns whether a
    /// rollup could not be read: its items are written again in the next round, which must wait.
    pub(crate) async fn isolate(
        &self,
        batch: &mut LedgerBatch<'_>,
        refused_rollups: Vec<RefusedRollup>,
    ) -> Result<bool> {
        let keys = refused_rollups
            .iter()
            .filter_map(|rollup| rollup_key(&self.context.core.keys, batch.targets.get(rollup.target)));
        let keys: Vec<_> = keys.collect();
        if keys.len() != refused_rollups.len() {
            let message = "a rollup without a valid key was written; this is a defect of Afterwrite";
            return Err(Error::new(ErrorKind::State, message));
        }
        let stored = self.context.requests.read(&keys).await?.items;
        let context = self.context.step_context();
        let mut must_wait = false;
        for (RefusedRollup { target, items, reason }, stored) in refused_rollups.into_iter().zip(stored) {
            let error = rejected_write(&reason).with("rollup", batch.targets.get(target).name.as_ref());
            let Ok(stored) = stored else {
                must_wait = true;
                continue;
            };
            let stored = stored.unwrap_or_default();
            if !items.iter().any(|index| is_refused(batch, *index, target, &stored)) {
                batch.bisect(&items_writing(batch, &items, target), &error, context);
                continue;
            }
            batch.rejections += 1;
            for index in 0..batch.items.len() {
                if is_refused(batch, index, target, &stored) {
                    batch.step(index, ItemInput::Rejected(error.restated()), context);
                }
            }
        }
        Ok(must_wait)
    }
}

/// Separates the items that delay a cancelled transaction from its other items. An item delays it if its write is throttled, or if its
/// write conflicts, or meets another state than was read, for the second time.
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
            WritePurpose::Rollup(target) => concerned.extend(items_writing(batch, items, *target)),
        }
    }
    delaying.extend(batch.note_delays(conflicting));
    if delaying.len() < items.len() {
        batch.separate(&delaying);
    }
}

/// Whether the same write would be refused again.
fn is_rejection(refusal: &WriteRefusal) -> bool {
    match refusal {
        WriteRefusal::Invalid(_) => true,
        WriteRefusal::Condition(_) | WriteRefusal::Conflict | WriteRefusal::Throttled => false,
    }
}

/// A rollup that may differ from what was read is read again.
fn forget_rollup(batch: &mut LedgerBatch<'_>, purpose: &WritePurpose<'_>) {
    if let WritePurpose::Rollup(id) = purpose {
        batch.read_rollups.remove(id);
    }
}

/// Whether a rollup, as it is stored, cannot take what an item adds to it.
fn is_refused(batch: &LedgerBatch<'_>, index: usize, target: TargetId, stored: &Item) -> bool {
    batch.item(index).state.planned().is_some_and(|plan| refuses_plan(stored, plan, target))
}

fn refuses_plan(stored: &Item, plan: &ItemPlan<'_>, target: TargetId) -> bool {
    let mut additions = plan.additions().filter(|addition| addition.targets.contains(&target));
    plan.targets().any(|written| written == target)
        && (refuses_revision(stored)
            || additions.any(|addition| refuses(stored, addition.measures, addition.settled)))
}

/// The items of a transaction that write a rollup.
pub(crate) fn items_writing(batch: &LedgerBatch<'_>, items: &[usize], target: TargetId) -> Vec<usize> {
    let uses_target = |index: &&usize| {
        let plan = batch.item(**index).state.planned();
        plan.is_some_and(|plan| plan.targets().any(|used| used == target))
    };
    items.iter().filter(uses_target).copied().collect()
}

/// The error of items whose write DynamoDB rejected.
fn rejected_write(reason: &str) -> Error {
    let message = format!("DynamoDB rejected the write of the item's contributions: {reason}");
    Error::new(ErrorKind::Rejected, message)
}
