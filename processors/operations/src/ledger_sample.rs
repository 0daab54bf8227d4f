//! A look at the deployed ledger before a job is planned: whether a newer model has written the ledger, and whether the ledger follows the deployed
//! tables: by the items that it counts, by the streams of its entries, and by the tables that earlier backfills have read.
//!
//! The look is bounded, so it proves nothing if it finds nothing. An entry keeps the generation of the model that wrote it last, and an item
//! whose contributions stay as they are is not written again. So the generations of the backfills that are done count, too.

use std::collections::BTreeSet;
use std::sync::Arc;

use afterwrite_ledger::tables::{MAX_READ_KEYS, TableScan, Tables};
use afterwrite_ledger::{StateItem, StateItems};
use afterwrite_model::clock::Clock;
use afterwrite_model::effect::ItemKey;
use afterwrite_model::entity::SourceKey;
use afterwrite_model::projection::RollupTargets;
use afterwrite_model::record::Item;
use afterwrite_model::table::{Model, Table};
use afterwrite_model::{Error, ErrorKind, Result};
use futures::future::try_join_all;

use crate::DeploymentContext;
use crate::items::segment_request;
use crate::jobs::{BasisTable, JobBasis, JobKind, JobStatus, JobStore, ListedJob};

/// The segments of the state table of which the first page is read.
const SEGMENTS: u32 = 8;
/// The items of a page.
const PAGE_ITEMS: u32 = 500;
/// The entries of a table that are enough to tell that it is another table: so many items seldom end at once.
const TELLING_ENTRIES: usize = 20;
/// The most entries of a table that are compared with its items.
const COMPARED_ENTRIES: usize = 400;

/// Source tables that the ledger does not seem to follow.
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
    /// The source tables of the backfills that are done.
    backfilled: Vec<BasisTable>,
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
        let backfilled = context.check_backfills(&state).await?;
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
        Ok(Self { state, items, backfilled })
    }

    /// Compares the source tables with the entries that count something; returns notes for the plan. A backfill of another table than the ledger
    /// follows would subtract everything that the ledger counts.
    ///
    /// # Errors
    /// [`Configuration`](ErrorKind::Configuration) with a table that is another one, as far as the entries and the earlier backfills show; as
    /// [`Tables::read`] and [`TableScan::describe`].
    pub async fn check_tables<T, C>(&self, context: &DeploymentContext<T, C>) -> Result<Vec<String>>
    where
        T: Tables + TableScan,
    {
        let counted = self.counted(&context.model);
        let mut notes = Vec::new();
        for (index, table) in context.model.application_tables() {
            let of_table: Vec<_> = counted.iter().filter(|entry| entry.source.table == index).collect();
            let Some(deployed) = context.table_names.get(index).filter(|_| !of_table.is_empty()) else {
                continue;
            };
            let compared = self.compare(context, (table, deployed), &of_table).await?;
            compared.check()?;
            notes.extend(compared.notes());
        }
        Ok(notes)
    }

    /// The entries that count something.
    fn counted(&self, model: &Arc<Model>) -> Vec<CountedEntry> {
        let mut targets = RollupTargets::of(model);
        let mut counted = Vec::new();
        for item in &self.items {
            // An entry that cannot be read is reported by the ledger.
            if let StateItem::Entry(Some(source), entry) = self.state.classify(item)
                && let Ok(entry) = self.state.decode_entry(entry, &mut targets)
                && !entry.contributions.by_aggregate.is_empty()
            {
                counted.push(CountedEntry { source, stream_label: entry.position.label().to_owned() });
            }
        }
        counted
    }

    async fn compare<'c, T: Tables + TableScan, C>(
        &self,
        context: &DeploymentContext<T, C>,
        (table, deployed): (&'c Table, &'c str),
        entries: &[&CountedEntry],
    ) -> Result<ComparedTable<'c>> {
        let summary = context.tables.describe(deployed).await?;
        let is_read = |entry: &&CountedEntry| summary.stream_label.as_ref() == Some(&entry.stream_label);
        let link = if entries.iter().any(is_read) {
            TableLink::Followed
        } else {
            let deployed = BasisTable { name: deployed.to_owned(), id: summary.id };
            TableLink::of(table, &deployed, &self.backfilled)
        };
        let compared = entries.iter().step_by(entries.len().div_ceil(COMPARED_ENTRIES));
        let keys: Vec<ItemKey> =
            compared.filter_map(|entry| self.state.source_item_key(&entry.source)).collect();
        let mut missing = 0;
        for keys in keys.chunks(MAX_READ_KEYS) {
            let items = context.tables.read(keys).await?.items;
            missing += items.iter().filter(|item| item.is_none()).count();
        }
        Ok(ComparedTable { table: &table.name, deployed, entries: keys.len(), missing, link })
    }
}

/// An entry that counts something.
#[derive(Debug)]
struct CountedEntry {
    source: SourceKey<'static>,
    /// The stream of the newest change that is counted.
    stream_label: String,
}

/// The evidence that the ledger follows a deployed table.
#[derive(Clone, Debug, PartialEq, Eq)]
enum TableLink {
    /// A change in the table's present stream is counted, or a backfill that is done has read the table.
    Followed,
    /// Nothing: for example, the table was restored or its stream was enabled again, and there was no backfill.
    Unknown,
    /// The backfills that are done have read these tables, and AFTERWRITE_TABLES names none of them.
    Other(String),
}

impl TableLink {
    /// The link by the tables that earlier backfills have read.
    fn of(table: &Table, deployed: &BasisTable, backfilled: &[BasisTable]) -> Self {
        if deployed.id.is_some() && backfilled.iter().any(|earlier| earlier.id == deployed.id) {
            return Self::Followed;
        }
        let names: BTreeSet<&str> = backfilled.iter().map(|earlier| earlier.name.as_str()).collect();
        let mut declared = table.former_names.iter().map(|name| &**name).chain([deployed.name.as_str()]);
        if names.is_empty() || declared.any(|name| names.contains(name)) {
            return Self::Unknown;
        }
        Self::Other(names.into_iter().collect::<Vec<_>>().join(", "))
    }
}

/// A source table, compared with the entries that count its items.
#[derive(Debug)]
struct ComparedTable<'c> {
    /// Its name in the model.
    table: &'c str,
    /// Its name in the account.
    deployed: &'c str,
    /// The entries that were compared.
    entries: usize,
    /// The entries whose items the table lacks.
    missing: usize,
    link: TableLink,
}

impl ComparedTable<'_> {
    /// Refuses another table than the ledger follows. So many items seldom end at once as [`TELLING_ENTRIES`], and more than half of all items
    /// only in a table that the ledger is known to follow.
    fn check(&self) -> Result<()> {
        let Self { entries, missing, .. } = *self;
        let is_telling = entries >= TELLING_ENTRIES;
        let problem = match &self.link {
            _ if is_telling && missing == entries => {
                "a source table has none of the items that the ledger counts"
            }
            TableLink::Unknown if is_telling && 2 * missing > entries => {
                "a source table lacks most of the items that the ledger counts, and nothing shows that the ledger follows this table"
            }
            TableLink::Other(_) => "the ledger follows another table",
            TableLink::Followed | TableLink::Unknown => return Ok(()),
        };
        let mut error = Error::new(ErrorKind::Configuration, problem)
            .with("table", self.table)
            .with("deployed table", self.deployed)
            .with("entries looked at", entries.to_string())
            .with("entries without an item", missing.to_string());
        if let TableLink::Other(earlier) = &self.link {
            error = error.with("tables of the earlier backfills", earlier.as_str());
        }
        let (table, deployed) = (self.table, self.deployed);
        Err(error.hint(format!("Set AFTERWRITE_TABLES, or --tables, to the table that the functions read. If {deployed} has replaced an earlier table, name that one, too: {table}={deployed},{table}=EARLIER. If the application has deleted the items that the table lacks, `afterwrite backfill --accept-lives --yes` subtracts them")))
    }

    /// The notes of the plan.
    fn notes(&self) -> Vec<String> {
        let Self { deployed, entries, missing, .. } = *self;
        let mut notes = Vec::new();
        if missing > 0 {
            notes.push(format!(
                "{missing} of {entries} sampled ledger entries have no item in {deployed}: what such entries count is subtracted"
            ));
        }
        if self.link == TableLink::Unknown && entries >= TELLING_ENTRIES {
            notes.push(format!(
                "no earlier backfill has read {deployed}, and none of the sampled ledger entries has counted a change of its present stream: check that the functions read this table"
            ));
        }
        notes
    }
}

impl<T: Tables + Clone, C: Clock + Clone> DeploymentContext<T, C> {
    /// Refuses a model that is older than that of a backfill that is done. A bulk backfill has counted into another table.
    ///
    /// Returns the source tables of the backfills that are done, of models with as many tables as this one.
    async fn check_backfills(&self, state: &StateItems) -> Result<Vec<BasisTable>> {
        let Self { model, table_names, state_table, tables, clock } = self.clone();
        let mut backfilled = Vec::new();
        for job in JobStore::new(tables, clock, state_table).list().await? {
            let ListedJob::Readable(job) = job else { continue };
            let is_done = (job.kind, job.status) == (JobKind::Backfill, JobStatus::Done);
            let has_counted = is_done && job.arguments.get("bulk").is_none();
            let basis = job.basis.filter(|basis| has_counted && *basis.model.name == *model.name);
            let Some(JobBasis { model: of_job, tables, .. }) = basis else { continue };
            state.check_is_known(of_job.generation)?;
            // A model with other tables has not read those that it does not know.
            if tables.len() == table_names.len() {
                backfilled.extend(tables);
            }
        }
        Ok(backfilled)
    }
}
