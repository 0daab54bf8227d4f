//! Phase 2 of a backfill: entries whose item does not exist, and entries of items that no entity of the model has. `ranks` has the rollups.
//!
//! Every item that exists and matches an entity has been counted before this phase. An entry without an item remains where the record of a
//! deletion was lost, or where a changed model was never applied to it. An entry without an entity remains where the entity left the model,
//! its key changed, or nothing counts the entity any more: such an item contributes nothing to the aggregates of the model, and with
//! `--drop` nothing to others.

use std::collections::BTreeSet;
use std::sync::Arc;

use afterwrite_ledger::tables::{TableScan, Tables};
use afterwrite_ledger::{StateItem, StoredEntry};
use afterwrite_model::clock::Clock;
use afterwrite_model::effect::ItemKey;
use afterwrite_model::entity::SourceKey;
use afterwrite_model::projection::RollupTargets;
use afterwrite_model::record::Item;
use afterwrite_model::table::Entity;
use afterwrite_model::{ErrorKind, Result};

use super::ranks::RollupRanker;
use super::task::BackfillTask;
use super::{BackfillTotal, level_of};
use crate::DeploymentContext;
use crate::items::{IdentifiedItem, identify, owned_key, read_page, segment_request};
use crate::jobs::{JobTotals, StepOutcome, WorkUnit, count};
use crate::lives::LifeTotal;
use crate::projector::has_aggregate;

/// The items of a page. Entries are small.
const PAGE_ENTRIES: u32 = 500;

/// An entry of a page: its item's key, the entry unless it cannot be read, and the entry as it is stored.
type FoundEntry<'p> = (SourceKey<'static>, Option<StoredEntry>, &'p Item);

impl<T: Tables + TableScan + Clone, C: Clock> BackfillTask<T, C> {
    /// A page of a segment of the state table: the entries of items of one level. Entries without the key of an item are of level 0.
    pub(super) async fn ledger_segment(
        &self,
        unit: &WorkUnit,
        segment: u32,
        level: u32,
    ) -> Result<StepOutcome> {
        let segment = (segment, self.arguments.segments);
        let request = segment_request(Arc::clone(&self.context.state_table), segment, PAGE_ENTRIES);
        let (page, read) = read_page(&self.context.tables, unit, request).await?;
        let mut outcome = StepOutcome { bytes: read.bytes, cursor: read.cursor, ..StepOutcome::default() };
        outcome.totals.add(BackfillTotal::ReadUnits, page.read_units);
        let mut targets = RollupTargets::of(&self.context.model);
        let entries = self.entries((&page.items, level), &mut targets, &mut outcome).await?;
        // An entry is no item of the application: the items that exist were processed by earlier phases.
        outcome.spent = count(entries.len());
        let orphaned = self.reconcile_orphans(&entries, &mut outcome).await?;
        self.lives.note_orphans(&orphaned, &mut targets, &mut outcome.totals).await?;
        for (source, entry, item) in entries.iter().filter(|(source, ..)| !orphaned.contains(source)) {
            if let Some(entry) = entry {
                self.note_life((source, item), entry, &mut outcome.totals).await?;
            }
        }
        let only = self.arguments.only.as_ref();
        let DeploymentContext { model, tables, .. } = &self.context;
        RollupRanker { model, tables, state: &self.state, only }.rank(&page.items, &mut outcome).await?;
        Ok(outcome)
    }

    /// The entries of a page that may have to be reconciled. The lives of the others are counted.
    async fn entries<'p>(
        &self,
        (items, level): (&'p [Item], u32),
        targets: &mut RollupTargets,
        outcome: &mut StepOutcome,
    ) -> Result<Vec<FoundEntry<'p>>> {
        let mut entries = Vec::new();
        for item in items {
            let item_kind = self.state.classify(item);
            if level > 0 && matches!(item_kind, StateItem::ParkedExpiry) {
                // Level 0 has counted it.
                continue;
            }
            let found = LifeTotal::entry_of(&mut outcome.totals, item_kind);
            let Some((source, stored)) = found else { continue };
            let of_level =
                source.as_ref().map_or(0, |source| level_of(&source.candidates(&self.context.model)));
            if of_level != level {
                continue;
            }
            let entry = match self.state.decode_entry(stored, targets) {
                Ok(entry) => Some(entry),
                Err(error) if error.kind() == ErrorKind::Unreadable => None,
                Err(error) => return Err(error),
            };
            match (source, entry) {
                (None, entry) => {
                    self.note_without_item_key(entry.as_ref(), outcome);
                    if let Some(entry) = entry {
                        self.lives.note((None, item), &entry, &mut outcome.totals).await?;
                    }
                }
                // A tombstone does not show whose item it was.
                (Some(source), Some(entry)) if entry.is_tombstone => {
                    self.note_life((&source, item), &entry, &mut outcome.totals).await?;
                }
                (Some(source), entry) if self.is_of_tenant(&source, (entry.as_ref(), targets)) => {
                    entries.push((source, entry, item));
                }
                (Some(_), _) => {}
            }
        }
        Ok(entries)
    }

    /// Counts the lives that an entry names, and an entry of a later stream. No earlier phase counts lives.
    async fn note_life(
        &self,
        (source, item): (&SourceKey<'_>, &Item),
        entry: &StoredEntry,
        totals: &mut JobTotals,
    ) -> Result<()> {
        self.lives.note((Some(source), item), entry, totals).await?;
        if !source.candidates(&self.context.model).is_empty() {
            let label = self.labels.get(source.table).map_or("", String::as_str);
            LifeTotal::note_stream(totals, entry, label);
        }
        Ok(())
    }

    /// Reconciles entries whose items do not exist, entries that contribute although no counted entity has such an item, entries that
    /// contribute to dropped aggregates, and entries that contribute to the tenant although the item is another tenant's now; returns their
    /// items. An entry is `None` if it cannot be read; the ledger reports it.
    async fn reconcile_orphans(
        &self,
        entries: &[FoundEntry<'_>],
        outcome: &mut StepOutcome,
    ) -> Result<BTreeSet<SourceKey<'static>>> {
        let keyed: Vec<_> = entries
            .iter()
            .filter_map(|(source, entry, _)| Some((source, entry, self.state.source_item_key(source)?)))
            .collect();
        let keys: Vec<ItemKey> = keyed.iter().map(|(_, _, key)| key.clone()).collect();
        let found = self.context.tables.read(&keys).await?.items;
        let empty = Item::new();
        let moved = self.moved(keyed.iter().map(|(source, ..)| *source).zip(&found)).await?;
        let orphaned = keyed.iter().zip(&found).filter_map(|((source, entry, _), item)| {
            let candidates = source.candidates(&self.context.model);
            let is_wrong = |entry: &StoredEntry| {
                self.has_dropped(entry) || (!candidates.any(Entity::is_used) && self.has_known(entry))
            };
            let must_reconcile = item.is_none() && !candidates.is_empty();
            let is_orphaned =
                must_reconcile || entry.as_ref().is_some_and(is_wrong) || moved.contains(*source);
            is_orphaned.then_some(IdentifiedItem { source, candidates, item: &empty })
        });
        let orphaned: Vec<IdentifiedItem<'_>> = orphaned.collect();
        outcome.totals.add(BackfillTotal::Orphans, count(orphaned.len()));
        for table in 0..self.context.model.tables.len() {
            let of_table: Vec<_> =
                orphaned.iter().filter(|item| item.source.table == table).cloned().collect();
            self.reconcile(table, &of_table, None, &mut outcome.totals).await?;
        }
        Ok(orphaned.iter().map(|item| owned_key(item.source)).collect())
    }

    /// The existing items that are not the tenant's, although their entries contribute to the tenant's rollups.
    async fn moved<'p>(
        &'p self,
        items: impl Iterator<Item = (&'p SourceKey<'static>, &'p Option<Item>)>,
    ) -> Result<BTreeSet<SourceKey<'static>>> {
        if self.arguments.only.is_none() {
            return Ok(BTreeSet::new());
        }
        let existing =
            identify(&self.context.model, items.map(|(source, item)| (source, item.as_ref())), |_| true);
        let kept = self.of_tenant(existing.clone()).await?;
        let kept: BTreeSet<&SourceKey<'_>> = kept.iter().map(|item| item.source).collect();
        let moved = existing.iter().filter(|item| !kept.contains(item.source));
        Ok(moved.map(|item| owned_key(item.source)).collect())
    }

    /// Counts an entry whose key does not show its item: it cannot be reconciled.
    fn note_without_item_key(&self, entry: Option<&StoredEntry>, outcome: &mut StepOutcome) {
        outcome.totals.add(BackfillTotal::EntriesWithHashedKeys, 1);
        let is_kept = u64::from(entry.is_some_and(|entry| self.has_dropped(entry)));
        outcome.totals.add(BackfillTotal::Failed, is_kept);
        outcome.totals.add(BackfillTotal::FailedWithoutItemKey, is_kept);
    }

    /// Whether an entry contributes to an aggregate of the model.
    fn has_known(&self, entry: &StoredEntry) -> bool {
        entry
            .contributions
            .by_aggregate
            .iter()
            .any(|contribution| has_aggregate(&self.context.model, contribution))
    }

    /// Whether an entry is the tenant's, whose item may not exist: its key shows it, or it counts into a rollup of the tenant.
    fn is_of_tenant(
        &self,
        source: &SourceKey<'_>,
        (entry, targets): (Option<&StoredEntry>, &RollupTargets),
    ) -> bool {
        self.arguments
            .only
            .as_ref()
            .is_none_or(|tenant| tenant.has_entry(&self.context.model, source, (entry, targets)))
    }
}
