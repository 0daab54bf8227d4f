//! A look at the deployed ledger before a job is planned: whether a newer model has written the ledger, and whether the deployed tables have the
//! items that the ledger counts.
//!
//! The look is bounded, so it proves nothing if it finds nothing. An entry keeps the generation of the model that wrote it last, and an item
//! whose contributions stay as they are is not written again. So the generations of the backfills that are done count, too.

use std::sync::Arc;

use afterwrite_ledger::tables::{MAX_READ_KEYS, TableScan, Tables};
use afterwrite_ledger::{StateItem, StateItems};
use afterwrite_model::clock::Clock;
use afterwrite_model::effect::ItemKey;
use afterwrite_model::entity::SourceKey;
use afterwrite_model::projection::RollupTargets;
use afterwrite_model::record::Item;
use afterwrite_model::table::Model;
use afterwrite_model::{Error, ErrorKind, Result};
use futures::future::try_join_all;

use crate::DeploymentContext;
use crate::items::segment_request;
use crate::jobs::{JobKind, JobStatus, JobStore, ListedJob};

/// The segments of the state table of which the first page is read.
const SEGMENTS: u32 = 8;
/// The items of a page.
const PAGE_ITEMS: u32 = 500;
/// The entries of a table that are enough to tell that it is another table: so many items seldom end at once.
const TELLING_ENTRIES: usize = 20;

/// Source tables that have none of the items that the ledger counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmptiedTables {
    /// They are other tables than the functions read.
    Refused,
    /// The application has deleted the items, or the job does not subtract what it does not find.
    Accepted,
}

/// Some entries of the deployed ledger, none of which a newer model has written.
#[derive(Debug)]
pub struct LedgerSample {
    state: StateItems,
    items: Vec<Item>,
}

impl LedgerSample {
    /// Reads up to 500 items of each of eight segments of the state table, and the jobs that `afterwrite jobs list` shows.
    ///
    /// # Errors
    /// [`Configuration`](ErrorKind::Configuration) if a newer model has written one of the entries, or a backfill with a newer
    /// generation of the model is done; as [`TableScan::scan`].
    pub async fn read<T, C>(context: &DeploymentContext<T, C>) -> Result<Self>
    where
        T: Tables + TableScan + Clone,
        C: Clock + Clone,
    {
        let state = context.state_items();
        context.check_backfills(&state).await?;
        let pages = (0..SEGMENTS).map(|segment| async move {
            let request = segment_request(Arc::clone(&context.state_table), (segment, SEGMENTS), PAGE_ITEMS);
            context.tables.scan(&request).await
        });
        let pages = try_join_all(pages).await?;
        let items: Vec<Item> = pages.into_iter().flat_map(|page| page.items).collect();
        for item in &items {
            if let StateItem::Entry(_, entry) = state.classify(item) {
                state.check_generation(entry)?;
            }
        }
        Ok(Self { state, items })
    }

    /// Refuses a source table of which at least 20 entries count something and that lacks the items of all of them: a backfill would subtract
    /// everything that the ledger counts.
    ///
    /// # Errors
    /// [`Configuration`](ErrorKind::Configuration) with the table; as [`Tables::read`].
    pub async fn require_items<T: Tables, C>(&self, context: &DeploymentContext<T, C>) -> Result<()> {
        let DeploymentContext { model, table_names, tables, .. } = context;
        let counted = self.counted(model);
        for (index, table) in model.application_tables() {
            let of_table = counted.iter().filter(|source| source.table == index);
            let keys: Vec<ItemKey> =
                of_table.filter_map(|source| self.state.source_item_key(source)).collect();
            if keys.len() >= TELLING_ENTRIES && !has_any(tables, &keys).await? {
                let deployed = table_names.get(index).map_or("", |name| &**name);
                return Err(without_items((&table.name, deployed), keys.len()));
            }
        }
        Ok(())
    }

    /// The items that the entries count.
    fn counted(&self, model: &Arc<Model>) -> Vec<SourceKey<'static>> {
        let mut targets = RollupTargets::of(model);
        let mut counted = Vec::new();
        for item in &self.items {
            // An entry that cannot be read is reported by the ledger.
            if let StateItem::Entry(Some(source), entry) = self.state.classify(item)
                && let Ok(entry) = self.state.decode_entry(entry, &mut targets)
                && !entry.contributions.by_aggregate.is_empty()
            {
                counted.push(source);
            }
        }
        counted
    }
}

/// Whether a table has an item with one of these keys.
async fn has_any(tables: &impl Tables, keys: &[ItemKey]) -> Result<bool> {
    for keys in keys.chunks(MAX_READ_KEYS) {
        if tables.read(keys).await?.items.iter().any(Option::is_some) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn without_items((table, deployed): (&str, &str), entries: usize) -> Error {
    Error::new(ErrorKind::Configuration, "a source table has none of the items that the ledger counts")
        .with("table", table)
        .with("deployed table", deployed)
        .with("entries looked at", entries.to_string())
        .hint("Set AFTERWRITE_TABLES, or --tables, to the table that the functions read. If the application has deleted all of these items, `afterwrite backfill --accept-lives --yes` subtracts them")
}

impl<T: Tables + Clone, C: Clock + Clone> DeploymentContext<T, C> {
    /// Refuses a model that is older than that of a backfill that is done. A bulk backfill has counted into another table.
    async fn check_backfills(&self, state: &StateItems) -> Result<()> {
        let Self { model, state_table, tables, clock, .. } = self.clone();
        for job in JobStore::new(tables, clock, state_table).list().await? {
            let ListedJob::Readable(job) = job else { continue };
            let is_done = (job.kind, job.status) == (JobKind::Backfill, JobStatus::Done);
            let has_counted = is_done && job.arguments.get("bulk").is_none();
            let basis = job.basis.filter(|basis| has_counted && *basis.model.name == *model.name);
            basis.map_or(Ok(()), |basis| state.check_is_known(basis.model.generation))?;
        }
        Ok(())
    }
}
