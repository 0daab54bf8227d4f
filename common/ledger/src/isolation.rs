//! Isolation: finds the items that DynamoDB rejects among those that shared a transaction.
//!
//! ```text
//! a rollup's update is refused as invalid ──▶ read the rollup ──▶ which items of the batch can it not take?
//!                                                                  │ some: they are rejected, all at once
//!                                                                  └ none of this transaction: halves
//! a transaction is refused as a whole ─────────────────────────────────────────────────────▶ halves
//! ```

use afterwrite_model::projection::TargetId;
use afterwrite_model::record::Item;
use afterwrite_model::{Error, ErrorKind, Result};

use super::batch::LedgerBatch;
use super::core::ItemInput;
use super::core::plan::ItemPlan;
use super::driver::LedgerDriver;
use super::state::rollup::{refuses, refuses_revision, rollup_key};

/// A rollup whose update DynamoDB refused as invalid.
#[derive(Debug)]
pub(crate) struct RefusedRollup {
    pub(crate) target: TargetId,
    /// The items of the refused transaction.
    pub(crate) items: Vec<usize>,
    /// DynamoDB's reason.
    pub(crate) reason: String,
}

impl LedgerDriver<'_> {
    /// Rejects every item of the batch whose additions these rollups refuse as they are stored: a measure is not a number,
    /// or the sum exceeds DynamoDB's limits. If that does not explain a refusal, its items are isolated by halves. Returns whether a
    /// rollup could not be read: its items are written again in the next round, which must wait.
    pub(crate) async fn isolate(
        &self,
        batch: &mut LedgerBatch<'_>,
        refused: Vec<RefusedRollup>,
    ) -> Result<bool> {
        let keys =
            refused.iter().filter_map(|rollup| rollup_key(&self.core.keys, batch.targets.get(rollup.target)));
        let keys: Vec<_> = keys.collect();
        if keys.len() != refused.len() {
            let message = "a rollup without a valid key was written; this is a defect of Afterwrite";
            return Err(Error::new(ErrorKind::State, message));
        }
        let stored = self.requests.read(&keys).await?.items;
        let context = self.context();
        let mut must_wait = false;
        for (RefusedRollup { target, items, reason }, stored) in refused.into_iter().zip(stored) {
            let error = rejected_write(&reason).with("rollup", batch.targets.get(target).name.as_ref());
            let Ok(stored) = stored else {
                must_wait = true;
                continue;
            };
            let stored = stored.unwrap_or_default();
            if !items.iter().any(|index| is_refused(batch, *index, target, &stored)) {
                batch.bisect(&users(batch, &items, target), &error, context);
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
pub(crate) fn users(batch: &LedgerBatch<'_>, items: &[usize], target: TargetId) -> Vec<usize> {
    let uses_target = |index: &&usize| {
        let plan = batch.item(**index).state.planned();
        plan.is_some_and(|plan| plan.targets().any(|used| used == target))
    };
    items.iter().filter(uses_target).copied().collect()
}

/// The error of items whose write DynamoDB rejected.
pub(crate) fn rejected_write(reason: &str) -> Error {
    let message = format!("DynamoDB rejected the write of the item's contributions: {reason}");
    Error::new(ErrorKind::Rejected, message)
}
