//! The steps of a backfill: a page of items, reconciled where the ledger lacks them.

use std::sync::Arc;
use std::time::Duration;

use afterwrite_ledger::tables::{TableScan, Tables, item_bytes};
use afterwrite_ledger::{ExportedImage, ItemRecords, Ledger, SourceItem, StateItems, StoredEntry};
use afterwrite_model::clock::Clock;
use afterwrite_model::projection::{
    LookupKey, RollupTargets, SearchedLookups, awaits_lookup, lookup_keys, offered_outputs,
};
use afterwrite_model::record::{Item, Timestamp};
use afterwrite_model::{Error, ErrorKind, Result};

use super::export::{ExportSource, TableExport};
use super::lives::BackfillLives;
use super::outcomes::ReconcileOutcomes;
use super::stream_labels::stream_labels;
use super::{BackfillArguments, BackfillPart, BackfillTotal, SegmentItems, level_of, parts};
use crate::DeploymentContext;
use crate::items::{IdentifiedItem, identified, read_page, segment_request, source_keys};
use crate::jobs::{
    JobTotals, LACKING_OUTPUT, STEP_TIME, StepOutcome, UnitMeanings, WorkUnit, count, repeated,
};
use crate::projector::{ItemProjector, contribute_equally, has_aggregate};

/// The items of a page: what one reconciliation can pack well.
pub(super) const PAGE_ITEMS: u32 = 200;
/// The time limit of a page.
const PAGE_TIME: Duration = Duration::from_secs(60);

/// Counts what a table already has.
#[derive(Debug)]
pub struct BackfillTask<T, C> {
    pub(super) context: DeploymentContext<T, C>,
    pub(super) ledger: Ledger<T, C>,
    pub(super) state: StateItems,
    pub(super) projector: ItemProjector<T>,
    pub(super) arguments: BackfillArguments,
    pub(super) parts: UnitMeanings<BackfillPart>,
    pub(super) labels: Vec<String>,
    files: Option<TableExport>,
    pub(super) outcomes: ReconcileOutcomes,
    pub(super) lives: BackfillLives<T, C>,
}

impl<T: Tables + TableScan + Clone, C: Clock + Clone> BackfillTask<T, C> {
    /// A backfill of a deployment. `files` are the files of the export in the arguments, if there is one.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] if a source table has no stream, or the export cannot be used.
    pub async fn new(
        context: DeploymentContext<T, C>,
        arguments: BackfillArguments,
        files: Option<TableExport>,
    ) -> Result<Self> {
        let DeploymentContext { model, table_names, tables, clock, .. } = &context;
        let labels = stream_labels(&context, &arguments).await?;
        if let (Some(export), Some(files)) = (&arguments.export, &files) {
            export.check(model, table_names, files, clock.now())?;
            let origin = || export.check_origin((&**model, table_names.as_slice()), files, tables);
            repeated(clock, STEP_TIME, origin).await?;
        }
        Ok(Self {
            ledger: arguments.ledger(&context),
            state: context.state_items(),
            projector: ItemProjector::new(&context),
            parts: UnitMeanings::new(parts(model, &arguments, files.as_ref().map_or(0, TableExport::count))),
            lives: BackfillLives::new(&context, &arguments),
            context,
            arguments,
            labels,
            files,
            outcomes: ReconcileOutcomes::default(),
        })
    }
}

impl<T: Tables + TableScan + Clone, C: Clock> BackfillTask<T, C> {
    /// The units of the job.
    #[must_use]
    pub fn units(&self) -> Vec<WorkUnit> {
        self.parts.units()
    }

    /// Whether a unit is of this task.
    pub(crate) fn has(&self, unit: &WorkUnit) -> bool {
        self.parts.has(unit)
    }

    /// The first mirrors that this process could not write, each with its item and the reason.
    pub fn unwritable_mirrors(&self) -> Vec<String> {
        self.outcomes.unwritable_mirrors()
    }

    /// The lives that this process has counted and that have ended by their records since. Waits a short time for these records.
    ///
    /// # Errors
    /// As [`Tables::read`].
    pub async fn recorded_lives(&self) -> Result<JobTotals> {
        self.lives.recorded().await
    }

    /// The units of a sample: so many segments of each table.
    pub(super) fn sampled_units(&self, sampled: u32) -> Vec<WorkUnit> {
        let all = self.arguments.segments.max(1);
        let units = self.parts.iter().filter(|(_, part)| part.is_sampled(all, sampled));
        units.map(|(unit, _)| unit.clone()).collect()
    }

    /// A page of a segment of a source table.
    pub(super) async fn segment(
        &self,
        unit: &WorkUnit,
        table: usize,
        segment: u32,
        items: SegmentItems,
    ) -> Result<StepOutcome> {
        let segment = (segment, self.arguments.segments);
        let request = segment_request(self.table_name(table)?, segment, PAGE_ITEMS);
        let (page, read) = read_page(&self.context.tables, unit, request).await?;
        let mut outcome = self.count(table, &page.items, items, None).await?;
        outcome.cursor = read.cursor;
        outcome.totals.add(BackfillTotal::ReadUnits, page.read_units);
        Ok(outcome)
    }

    /// Lines of a file of an export.
    pub(super) async fn file(
        &self,
        unit: &WorkUnit,
        index: usize,
        export: &ExportSource,
    ) -> Result<StepOutcome> {
        let begin = unit.cursor.as_ref().and_then(serde_json::Value::as_u64).unwrap_or(0);
        let limit = usize::try_from(PAGE_ITEMS).unwrap_or(usize::MAX);
        let files = self.files.as_ref().ok_or_else(|| missing_table(&export.table))?;
        let table = self.context.model.tables.iter().position(|table| *table.name == *export.table);
        let table = table.ok_or_else(|| missing_table(&export.table))?;
        let lines = files.items((&self.context.model, table), (index, begin), limit).await?;
        let mut outcome =
            self.count(table, &lines, SegmentItems::Level(0), Some(export.exported_at())).await?;
        let reached = begin + u64::try_from(lines.len()).unwrap_or(0);
        outcome.cursor = (lines.len() == limit).then(|| reached.into());
        Ok(outcome)
    }

    /// Counts the items of a page that the ledger lacks.
    async fn count(
        &self,
        table: usize,
        items: &[Item],
        counted: SegmentItems,
        exported_at: Option<Timestamp>,
    ) -> Result<StepOutcome> {
        let sources = source_keys(&self.context.model, table, items);
        let mut wanted = identified(&self.context.model, items, &sources);
        // With an export, looked-up items are counted in phase 0 from the table.
        wanted.retain(|item| counted.include(&item.candidates));
        wanted.retain(|item| {
            !self.arguments.mirrors || item.candidates.any(|entity| !entity.mirrors.is_empty())
        });
        let wanted = self.of_tenant(wanted).await?;
        let mut outcome = StepOutcome {
            items: count(wanted.len()),
            bytes: count(items.iter().map(item_bytes).sum()),
            spent: count(wanted.len()),
            ..StepOutcome::default()
        };
        if counted == SegmentItems::LookedUp && self.arguments.reattribute {
            let replaced = self.reattribute(&wanted).await?;
            outcome.totals.add(BackfillTotal::LookupsReplaced, replaced);
        }
        let lacking = self.lacking(&wanted, &mut outcome.totals).await?;
        outcome.totals.add(BackfillTotal::Skipped, count(wanted.len() - lacking.len()));
        // An item offers outputs to lookups only through the ledger, so lookups come first: see the phases.
        self.reconcile(table, &lacking, exported_at, &mut outcome.totals).await?;
        Ok(outcome)
    }

    /// The items of the tenant; all items if no tenant is selected.
    pub(super) async fn of_tenant<'p>(
        &self,
        items: Vec<IdentifiedItem<'p>>,
    ) -> Result<Vec<IdentifiedItem<'p>>> {
        let Some(tenant) = &self.arguments.only else { return Ok(items) };
        let items = tenant.items(&self.context.model, items);
        let keys = items.lookups();
        let found = self.ledger.look_up(&keys, self.deadline()).await?;
        Ok(items.inside_by(tenant, (&keys, &found), false))
    }

    /// The items that the ledger lacks, or has counted otherwise.
    async fn lacking<'p>(
        &self,
        items: &[IdentifiedItem<'p>],
        totals: &mut JobTotals,
    ) -> Result<Vec<IdentifiedItem<'p>>> {
        if self.arguments.all || self.arguments.reattribute || self.arguments.mirrors {
            return Ok(items.to_vec());
        }
        let keys = items.iter().map(|item| self.state.entry_key(item.source)).collect::<Result<Vec<_>>>()?;
        let stored = self.context.tables.read(&keys).await?.items;
        let mut targets = RollupTargets::of(&self.context.model);
        let mut lacking = Vec::new();
        let mut compared = Vec::new();
        for (item, stored) in items.iter().zip(stored) {
            let entry = stored.map(|stored| self.state.decode_entry(&stored, &mut targets)).transpose();
            let generation =
                entry.as_ref().ok().and_then(|entry| entry.as_ref()).map(|entry| entry.generation);
            let is_earlier = generation.is_some_and(|generation| generation < self.context.model.generation);
            totals.add(BackfillTotal::EntriesOfEarlierModels, u64::from(is_earlier));
            match entry {
                Ok(Some(entry)) if self.is_comparable(item, &entry) => compared.push((item, entry)),
                // Nothing is counted of an item of no entity, and nothing was.
                Ok(None) if item.identity(&self.context.model).is_none() => {}
                Err(error) if error.kind() != ErrorKind::Unreadable => return Err(error),
                // An unreadable entry is reported by the ledger.
                Ok(_) | Err(_) => lacking.push(item.clone()),
            }
        }
        let images: Vec<_> =
            compared.iter().map(|(item, _)| (*item, item.image(&self.context.model))).collect();
        let outputs = self.projector.remembered(&images).await?;
        for ((item, image), (_, entry)) in images.iter().zip(&compared) {
            let projection = self.projector.project(item, image, Some(entry), &outputs, &mut targets);
            let is_equal = projection.is_ok_and(|projection| {
                contribute_equally(&self.context.model, &projection.contributions, &entry.contributions)
            });
            if !is_equal {
                lacking.push((*item).clone());
            }
        }
        Ok(lacking)
    }

    /// Whether the contributions of an entry show that the item needs nothing, if they equal those that the current model would count.
    ///
    /// The model of an entry alone does not show it: a function with an older model, which does not know the item, may have acknowledged
    /// a later record. `max` and `min` are not in entries, so an entry of another model does not show them, and no entry of a rollup: its
    /// changes are recorded nowhere while the state table has no stream.
    fn is_comparable(&self, item: &IdentifiedItem<'_>, entry: &StoredEntry) -> bool {
        let aggregates = item.candidates.iter().flat_map(|identity| &identity.entity.aggregates);
        let mut measures = aggregates
            .filter_map(|index| self.context.model.aggregates.get(*index))
            .flat_map(|aggregate| &aggregate.measures);
        let is_of_this_model = entry.fingerprint == *self.context.model.fingerprint();
        entry.parked.is_none()
            && !self.has_dropped(entry)
            && (is_of_this_model && level_of(&item.candidates) == 0
                || !measures.any(|measure| measure.kind.function().is_extreme()))
    }

    /// Whether an entry contributes to an aggregate that the model no longer has, and should not.
    pub(super) fn has_dropped(&self, entry: &StoredEntry) -> bool {
        let mut contributions = entry.contributions.by_aggregate.iter();
        self.arguments.drop
            && contributions.any(|contribution| !has_aggregate(&self.context.model, contribution))
    }

    /// Replaces the remembered outputs of lookups by those that these items show.
    async fn reattribute(&self, items: &[IdentifiedItem<'_>]) -> Result<u64> {
        let remembered = self.context.remembered();
        let mut replaced = 0;
        for item in items {
            let image = item.image(&self.context.model);
            for (key, outputs) in offered_outputs(&self.context.model, &item.candidates, &image) {
                replaced += u64::from(remembered.replace(&key.into_owned(), &outputs).await?);
            }
        }
        Ok(replaced)
    }

    /// Reconciles items of one table.
    pub(super) async fn reconcile(
        &self,
        table: usize,
        items: &[IdentifiedItem<'_>],
        exported_at: Option<Timestamp>,
        totals: &mut JobTotals,
    ) -> Result<()> {
        let items = self.with_lookups(items, totals).await?;
        if items.is_empty() {
            return Ok(());
        }
        let label = self.labels.get(table).map_or("", String::as_str);
        let sources = items.iter().map(|item| SourceItem {
            source: item.source,
            candidates: &item.candidates,
            records: ItemRecords::new(),
        });
        let outcome = match exported_at {
            None => self.ledger.reconcile(sources.collect(), label, self.deadline()).await?,
            Some(at) => {
                let images =
                    items.iter().map(|item| ExportedImage { image: item.image(&self.context.model), at });
                self.ledger.reconcile_exported(sources.zip(images).collect(), label, self.deadline()).await?
            }
        };
        self.outcomes.add(totals, outcome)
    }

    /// The items that can be decided: no lookup through an index, which may lag, finds nothing. The other items are reported; a second
    /// backfill counts them once the looked-up item is in the index.
    async fn with_lookups<'p>(
        &self,
        items: &[IdentifiedItem<'p>],
        totals: &mut JobTotals,
    ) -> Result<Vec<IdentifiedItem<'p>>> {
        let images: Vec<_> = items.iter().map(|item| (item, item.image(&self.context.model))).collect();
        let needed = images.iter().flat_map(|(item, image)| {
            // The ledger reports an item whose keys cannot be made.
            lookup_keys(&self.context.model, &item.candidates, image).unwrap_or_default()
        });
        let mut wanted: Vec<LookupKey<'static>> = needed.map(LookupKey::into_owned).collect();
        wanted.sort();
        wanted.dedup();
        let searched = self.searched(wanted, totals).await?;
        let mut targets = RollupTargets::of(&self.context.model);
        let (without, with): (Vec<_>, Vec<_>) = images.into_iter().partition(|(item, image)| {
            let identity = (item.source, &item.candidates);
            awaits_lookup(&self.context.model, identity, image, &searched, &mut targets)
        });
        totals.add(BackfillTotal::Failed, count(without.len()));
        totals.add(BackfillTotal::FailedLookups, count(without.len()));
        Ok(with.into_iter().map(|(item, _)| item.clone()).collect())
    }

    /// The results of lookups. A lookup that an earlier model has remembered without an output of this model has failed; `totals` counts such
    /// lookups. The remembered results are read by themselves only if the ledger reports such a lookup.
    async fn searched(
        &self,
        mut wanted: Vec<LookupKey<'static>>,
        totals: &mut JobTotals,
    ) -> Result<SearchedLookups> {
        let mut searched = SearchedLookups::default();
        let found = match self.ledger.look_up(&wanted, self.deadline()).await {
            Err(error) if error.kind() == ErrorKind::State => {
                let lacking = self.projector.read(wanted.clone()).await?.lacking();
                if lacking.is_empty() {
                    return Err(error);
                }
                totals.add(LACKING_OUTPUT, count(lacking.len()));
                wanted.retain(|key| !lacking.contains_key(key));
                lacking.into_iter().for_each(|(key, error)| searched.note_failure(key, error));
                self.ledger.look_up(&wanted, self.deadline()).await?
            }
            found => found?,
        };
        wanted.into_iter().zip(found).for_each(|(key, outputs)| searched.note(key, outputs));
        Ok(searched)
    }

    pub(super) fn deadline(&self) -> Timestamp {
        self.ledger.clock().now().plus(PAGE_TIME)
    }

    fn table_name(&self, table: usize) -> Result<Arc<str>> {
        self.context.table_names.get(table).cloned().ok_or_else(|| missing_table(&table.to_string()))
    }
}

fn missing_table(table: &str) -> Error {
    Error::new(ErrorKind::Configuration, "the model has no such table").with("table", table)
}
