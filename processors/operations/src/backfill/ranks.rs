//! Phase 2 of a backfill: rollups that lack the group of a rank, because the model has ranked them since they were written, or in another way.
//!
//! The scan of the state table returns every rollup, so a new rank costs one write for each, and no read. A rollup that is counted into
//! meanwhile gets the same group by that write.

use std::sync::Arc;

use afterwrite_ledger::state::rank_write;
use afterwrite_ledger::tables::{Tables, WriteError};
use afterwrite_ledger::{StateItem, StateItems};
use afterwrite_model::effect::WriteRefusal;
use afterwrite_model::record::Item;
use afterwrite_model::table::Model;
use afterwrite_model::{Error, ErrorKind, Result};
use futures::stream::{self, StreamExt as _, TryStreamExt as _};

use super::BackfillTotal;
use crate::jobs::{StepOutcome, count};
use crate::tenant::TenantFilter;

/// The writes that are open at once.
const WRITES_AT_ONCE: usize = 16;

/// Ranks the rollups of a state table, or of one tenant.
pub(super) struct RollupRanker<'b, T> {
    pub(super) model: &'b Arc<Model>,
    pub(super) tables: &'b T,
    pub(super) state: &'b StateItems,
    pub(super) only: Option<&'b TenantFilter>,
}

impl<T: Tables> RollupRanker<'_, T> {
    /// Sets the groups that rollups of a page lack.
    ///
    /// # Errors
    /// `Unavailable` if a rollup is being written or the table is throttled; as [`Tables::write`].
    pub(super) async fn rank(&self, items: &[Item], outcome: &mut StepOutcome) -> Result<()> {
        if !self.model.has_ranks() {
            return Ok(());
        }
        let ranked = stream::iter(items).map(|item| self.rank_item(item)).buffered(WRITES_AT_ONCE);
        let units: Vec<u64> = ranked.try_filter_map(async |units| Ok(units)).try_collect().await?;
        outcome.spent += count(units.len());
        outcome.totals.add(BackfillTotal::Ranked, count(units.len()));
        outcome.totals.add(BackfillTotal::WriteUnits, units.iter().sum());
        Ok(())
    }

    /// Sets the groups that a rollup lacks; returns the write units if it was written.
    async fn rank_item(&self, item: &Item) -> Result<Option<u64>> {
        let StateItem::Rollup(partition, sort) = self.state.classify(item) else { return Ok(None) };
        let is_owned = |tenant: &TenantFilter| {
            let mut rollups = self.model.rollups.iter();
            rollups.any(|rollup| tenant.owns_rollup(rollup, partition, sort))
        };
        if !self.only.is_none_or(is_owned) {
            return Ok(None);
        }
        let groups = self.model.rank_groups(partition, sort);
        let Some(write) = rank_write(self.state.key(partition, sort), item, groups) else { return Ok(None) };
        match self.tables.write(&write).await {
            Ok(consumed) => Ok(Some(consumed.write_units)),
            // TTL has deleted it.
            Err(WriteError::Refused(WriteRefusal::Condition(_))) => Ok(None),
            Err(WriteError::Refused(WriteRefusal::Conflict | WriteRefusal::Throttled)) => {
                let message = "a rollup is being written by others, or the table is throttled";
                Err(Error::new(ErrorKind::Unavailable, message))
            }
            Err(WriteError::Refused(WriteRefusal::Invalid(reason))) => {
                Err(Error::new(ErrorKind::Rejected, reason).with("PK", partition).with("SK", sort))
            }
            Err(WriteError::Failed(error)) => Err(error),
        }
    }
}
