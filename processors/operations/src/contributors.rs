//! The items that are counted into one rollup: found by reading the tables of the entities that can count into it, page by page, and computing
//! `C(item)` of each item. Nothing is written.

use std::collections::BTreeMap;
use std::sync::Arc;

use afterwrite_ledger::tables::{ScanRequest, TableScan, Tables};
use afterwrite_ledger::{StateItems, StoredEntry};
use afterwrite_model::Result;
use afterwrite_model::clock::Clock;
use afterwrite_model::entity::SourceKey;
use afterwrite_model::projection::{ImageProjection, RollupTargets, TargetId};
use afterwrite_model::record::{AttributeValue, Decimal, Image, Item};
use afterwrite_model::table::{Entity, Model, Rollup};

use crate::DeploymentContext;
use crate::items::{IdentifiedItem, identified_of, owned_key, source_keys};
use crate::projector::ItemProjector;

/// The contributors that are kept. Others count in the sums.
const KEPT_CONTRIBUTORS: usize = 1_000;

/// A search for the items that are counted into one rollup.
#[derive(Debug)]
pub struct ContributorSearch {
    partition: String,
    sort: String,
    /// The tables that are left to read, the current one first: indexes into [`Model::tables`].
    tables: Vec<usize>,
    /// The key after which the next page of the current table begins.
    after: Option<Item>,
    /// The rollups of the model that the key can be of: indexes into [`Model::rollups`].
    rollups: Vec<usize>,
    /// The knowledge so far.
    found: FoundContributors,
}

/// The contributors that a search has found.
#[derive(Clone, Debug, Default)]
pub struct FoundContributors {
    /// The items that were read, of any entity.
    pub items_read: u64,
    /// The number of contributors.
    pub count: u64,
    /// The first thousand contributors.
    pub contributors: Vec<Contributor>,
    /// The sum of their shares, by measure.
    pub sums: BTreeMap<Arc<str>, Decimal>,
    /// The items that could not be counted, whose shares are unknown.
    pub uncountable: u64,
    /// Why the first of these could not be counted.
    pub problem: Option<String>,
}

/// An item that is counted into a rollup.
#[derive(Clone, Debug)]
pub struct Contributor {
    /// The item.
    pub source: SourceKey<'static>,
    /// Its entity.
    pub entity: Arc<str>,
    /// Its share of each measure.
    pub shares: BTreeMap<Arc<str>, Decimal>,
    /// Its values for `max` and `min`.
    pub extremes: Vec<(Arc<str>, AttributeValue<'static>)>,
}

/// Whether the items of an entity can be counted into one of these rollups.
fn can_count(model: &Model, entity: &Entity, rollups: &[usize]) -> bool {
    let aggregates = entity.aggregates.iter().filter_map(|index| model.aggregates.get(*index));
    let mut destinations = aggregates.flat_map(|aggregate| &aggregate.into);
    destinations.any(|destination| rollups.contains(&destination.rollup))
}

impl ContributorSearch {
    /// A search for the contributors of the rollup that is stored under this key. It finds nothing if no rollup of the model has such a key.
    #[must_use]
    pub fn new(model: &Model, partition: &str, sort: &str) -> Self {
        let has_key = |(_, rollup): &(usize, &Rollup)| rollup.has_stored_key(partition, sort);
        let rollups: Vec<usize> =
            model.rollups.iter().enumerate().filter(has_key).map(|(index, _)| index).collect();
        let entities = model.entities.iter().filter(|entity| can_count(model, entity, &rollups));
        let mut tables: Vec<usize> = entities.map(|entity| entity.table).collect();
        tables.sort_unstable();
        tables.dedup();
        let (partition, sort) = (partition.to_owned(), sort.to_owned());
        Self { partition, sort, tables, after: None, rollups, found: FoundContributors::default() }
    }

    /// Whether all tables were read.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.tables.is_empty()
    }

    /// The contributors so far.
    #[must_use]
    pub fn found(&self) -> &FoundContributors {
        &self.found
    }

    /// Reads the next page, strongly consistent, of at most so many items; nothing if the search is complete.
    ///
    /// # Errors
    /// As [`TableScan::scan`] and [`Tables::read`]. The same page can be read again.
    pub async fn read_page<T: Tables + TableScan + Clone>(
        &mut self,
        context: &DeploymentContext<T, impl Clock + Clone>,
        page_items: u32,
    ) -> Result<()> {
        let Some(table) = self.tables.first().copied() else { return Ok(()) };
        let Some(name) = context.table_names.get(table) else {
            self.tables.remove(0);
            return Ok(());
        };
        let request = ScanRequest {
            is_consistent: true,
            page_items: Some(page_items),
            start_after: self.after.clone(),
            ..ScanRequest::whole(Arc::clone(name))
        };
        let page = context.tables.scan(&request).await?;
        self.add_items(context, table, &page.items).await?;
        self.found.items_read += u64::try_from(page.items.len()).unwrap_or(u64::MAX);
        self.after = page.next;
        if self.after.is_none() {
            self.tables.remove(0);
        }
        Ok(())
    }

    async fn add_items<T: Tables + Clone>(
        &mut self,
        context: &DeploymentContext<T, impl Clock + Clone>,
        table: usize,
        items: &[Item],
    ) -> Result<()> {
        let model = &context.model;
        let sources = source_keys(model, table, items);
        let items = identified_of(model, items, &sources, |entity| can_count(model, entity, &self.rollups));
        let images: Vec<(&IdentifiedItem<'_>, Image<'static>)> =
            items.iter().map(|item| (item, item.image(model))).collect();
        let projector = ItemProjector::new(context);
        let outputs = projector.remembered(&images).await?;
        let mut targets = RollupTargets::of(model);
        let entries = self.entries(context, &items, &mut targets).await?;
        for ((item, image), entry) in images.iter().zip(entries) {
            match projector.project(item, image, entry.as_ref(), &outputs, &mut targets) {
                Ok(projected) => self.add_projection((item, image), &projected, &targets),
                Err(error) => {
                    self.found.uncountable += 1;
                    self.found.problem.get_or_insert_with(|| error.to_string());
                }
            }
        }
        Ok(())
    }

    /// The ledger entries of items, which decide about the shards of sharded rollups.
    async fn entries<T: Tables>(
        &self,
        context: &DeploymentContext<T, impl Clone>,
        items: &[IdentifiedItem<'_>],
        targets: &mut RollupTargets,
    ) -> Result<Vec<Option<StoredEntry>>> {
        let mut rollups = self.rollups.iter().filter_map(|index| context.model.rollups.get(*index));
        if items.is_empty() || !rollups.any(|rollup| rollup.shards > 1) {
            return Ok(vec![None; items.len()]);
        }
        let state: StateItems = context.state_items();
        let keys = items.iter().map(|item| state.entry_key(item.source)).collect::<Result<Vec<_>>>()?;
        let stored = context.tables.read(&keys).await?.items;
        stored
            .into_iter()
            .map(|entry| entry.map(|entry| state.decode_entry(&entry, targets)).transpose())
            .collect()
    }

    fn add_projection(
        &mut self,
        (item, image): (&IdentifiedItem<'_>, &Image<'static>),
        projected: &ImageProjection,
        targets: &RollupTargets,
    ) {
        let is_this = |id: TargetId| {
            let target = targets.get(id);
            *target.sort == *self.sort && target.partition_key() == self.partition
        };
        let counted = projected.contributions.by_aggregate.iter();
        let mut counted = counted.filter(|share| share.targets.iter().any(|id| is_this(*id))).peekable();
        let extremes = projected.extremes.iter().filter(|extreme| is_this(extreme.target));
        let extremes: Vec<_> =
            extremes.map(|extreme| (Arc::clone(&extreme.measure), extreme.value.clone())).collect();
        if counted.peek().is_none() && extremes.is_empty() {
            return;
        }
        let mut shares = BTreeMap::<Arc<str>, Decimal>::new();
        for (measure, number) in counted.flat_map(|share| &share.measures) {
            add(&mut shares, measure, number);
            add(&mut self.found.sums, measure, number);
        }
        self.found.count += 1;
        if self.found.contributors.len() < KEPT_CONTRIBUTORS {
            let identity = item.candidates.in_state(image);
            let entity = identity.map(|identity| Arc::clone(&identity.entity.name)).unwrap_or_default();
            let source = owned_key(item.source);
            self.found.contributors.push(Contributor { source, entity, shares, extremes });
        }
    }
}

fn add(sums: &mut BTreeMap<Arc<str>, Decimal>, measure: &Arc<str>, number: &Decimal) {
    let sum = sums.entry(Arc::clone(measure)).or_insert(Decimal::ZERO);
    *sum = sum.plus_unlimited(number);
}
