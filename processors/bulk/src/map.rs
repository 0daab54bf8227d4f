//! The map step: one data file of an export, counted by the ledger into a state table in memory.
//!
//! ```text
//! data file ─▶ items of the pass ─▶ Ledger::reconcile_exported ─┬▶ ledger entries ─▶ import/…
//!                                        ▲                      └▶ parts of rollups ─▶ partial/<partition>/…
//!                                        └── lookups: deployed tables
//! ```
//!
//! **Memory**: the compressed data file, 1,000 items, 100,000 parts of rollups, 100,000 lookups, and an output file of up to 32 MiB.
//!
//! **Twice equals once**: the position and the time of the entries come from the request, so the same request writes the same objects. It
//! writes nothing else but lookups, and what was remembered first stays.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use afterwrite_ledger::tables::Tables;
use afterwrite_ledger::{CommitOutcome, ExportedImage, ItemRecords, Ledger, SourceItem};
use afterwrite_model::clock::Clock;
use afterwrite_model::entity::{ItemCandidates, SourceKey};
use afterwrite_model::projection::{LookupKey, RollupTargets, SearchedLookups, awaits_lookup, lookup_keys};
use afterwrite_model::record::{Image, Item, Timestamp};
use afterwrite_model::table::{Entity, Model};
use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_services::Bucket;

use crate::export::{ExportedLines, read_object};
use crate::layout::{RunLayout, key_hash, partition_of};
use crate::lines::ItemWriter;
use crate::request::{BulkTotals, MapPass, MapRequest};
use crate::tables::CountingTables;

/// The items that are counted together.
const PAGE_ITEMS: usize = 1_000;
/// The most parts of rollups in memory; then they are written, and begin at zero again.
const MAX_ROLLUPS: usize = 100_000;
/// The most lookups in memory.
const MAX_LOOKUPS: usize = 100_000;
/// An output file ends when it has reached this size.
const MAX_PACKED_BYTES: usize = 32 * 1024 * 1024;
/// The time limit of a page, without the time that the rate of lookups takes. Only lookups send requests.
const PAGE_TIME: Duration = Duration::from_secs(120);
/// The requests of an item of a page at most: a lookup that finds nothing is searched three times, each time in the state table and in the
/// source table or its index.
const LOOKUP_REQUESTS: usize = 6;

/// A map step in progress.
pub(crate) struct MapStep<'s, B, T, C> {
    bucket: &'s B,
    request: &'s MapRequest,
    model: Arc<Model>,
    table: usize,
    ledger: Ledger<Arc<CountingTables<T, C>>, C>,
    tables: Arc<CountingTables<T, C>>,
    clock: C,
    /// Lookups that found no item: before its items are counted, each is searched once.
    searched: SearchedLookups,
    entries: ItemWriter,
    entry_files: u32,
    partials: BTreeMap<u32, ItemWriter>,
    totals: BulkTotals,
}

/// An item of a page with its image.
struct ExportedItem<'p> {
    source: &'p SourceKey<'p>,
    candidates: ItemCandidates<'p, 'p>,
    image: Image<'static>,
}

/// The deployment that a step counts for.
pub(crate) struct MapTarget<'s, T, C> {
    pub(crate) model: &'s Arc<Model>,
    pub(crate) table_names: &'s [Arc<str>],
    pub(crate) state_table: &'s Arc<str>,
    pub(crate) deployed: T,
    pub(crate) clock: C,
}

impl<'s, B: Bucket, T: Tables, C: Clock + Clone> MapStep<'s, B, T, C> {
    pub(crate) fn new(bucket: &'s B, request: &'s MapRequest, target: MapTarget<'s, T, C>) -> Result<Self> {
        let MapTarget { model, table_names, state_table, deployed, clock } = target;
        let table = model.tables.iter().position(|table| *table.name == *request.table).ok_or_else(|| {
            Error::new(ErrorKind::Configuration, "the request names a table that the model does not have")
                .with("table", request.table.as_str())
        })?;
        let tables = Arc::new(CountingTables::new(
            deployed,
            clock.clone(),
            Arc::clone(state_table),
            request.lookup_rate,
        ));
        let ledger = Ledger::new(
            Arc::clone(model),
            table_names.to_vec(),
            Arc::clone(state_table),
            Arc::clone(&tables),
            clock.clone(),
        );
        Ok(Self {
            bucket,
            request,
            model: Arc::clone(model),
            table,
            ledger,
            tables,
            clock,
            searched: SearchedLookups::default(),
            entries: ItemWriter::default(),
            entry_files: 0,
            partials: BTreeMap::new(),
            totals: BulkTotals::new(),
        })
    }

    /// Counts the file, and writes the results.
    pub(crate) async fn run(mut self) -> Result<BulkTotals> {
        let mut lines = self.open().await?;
        while self.next_page(&mut lines).await? > 0 {
            for entry in self.tables.take_entries() {
                self.entries.push(&entry)?;
            }
            if self.entries.packed_bytes() >= MAX_PACKED_BYTES {
                self.write_entries().await?;
            }
            if self.tables.rollup_count() >= MAX_ROLLUPS {
                self.keep_rollups()?;
            }
            if self.tables.lookup_count() >= MAX_LOOKUPS {
                self.keep_lookups()?;
            }
        }
        self.keep_rollups()?;
        self.keep_lookups()?;
        self.write_entries().await?;
        for (partition, partial) in std::mem::take(&mut self.partials) {
            let key = RunLayout(&self.request.run).partial(partition, self.request.pass, self.request.index);
            self.bucket.put(&key, partial.finish()?).await?;
            self.add("partial_files", 1);
        }
        Ok(self.totals)
    }

    /// Counts the first items of the file and writes nothing; returns the counters, with the size of the results.
    pub(crate) async fn sample(mut self, items: u64) -> Result<BulkTotals> {
        let mut lines = self.open().await?;
        let mut bytes = 0;
        while self.totals.get("items").is_none_or(|counted| *counted < items) {
            if self.next_page(&mut lines).await? == 0 {
                break;
            }
            for entry in self.tables.take_entries() {
                self.entries.push(&entry)?;
            }
        }
        bytes += self.entries.bytes();
        let mut rollups = ItemWriter::default();
        for rollup in self.tables.take_rollups().into_values().chain(self.tables.take_lookups().into_values())
        {
            rollups.push(&rollup)?;
        }
        bytes += rollups.bytes();
        self.add("sampled_rollups", rollups.items());
        self.add("sampled_bytes", bytes);
        Ok(self.totals)
    }

    async fn open(&self) -> Result<ExportedLines> {
        let file = &self.request.file;
        file.open(read_object(self.bucket, &file.data_file_s3_key).await?)
    }

    /// Counts the next items of the pass; returns how many lines were read.
    async fn next_page(&mut self, lines: &mut ExportedLines) -> Result<usize> {
        let mut items = Vec::with_capacity(PAGE_ITEMS);
        let is_read = |name: &str| self.model.attributes.id(name).is_some();
        while items.len() < PAGE_ITEMS {
            let Some(item) = lines.next_item((&self.model, self.table), is_read)? else { break };
            items.push(item);
        }
        self.count(&items).await?;
        self.add("items", u64::try_from(items.len()).unwrap_or(u64::MAX));
        Ok(items.len())
    }

    /// Counts the items of a page that belong to the pass.
    async fn count(&mut self, items: &[Item]) -> Result<()> {
        let model = Arc::clone(&self.model);
        let sources: Vec<_> = items.iter().map(|item| SourceKey::of_item(&model, self.table, item)).collect();
        let is_looked_up = match self.request.pass {
            MapPass::Lookups => true,
            MapPass::Items => false,
        };
        let wanted = items.iter().zip(&sources).filter_map(|(item, source)| {
            let source = source.as_ref()?;
            let candidates = source.candidates(&model);
            let image = Image::from_item(item, &model.attributes);
            let entity = candidates.in_state(&image)?.entity;
            let is_wanted = is_counted(entity) && entity.offers.is_empty() != is_looked_up;
            is_wanted.then_some(ExportedItem { source, candidates, image })
        });
        let wanted = self.with_lookups(wanted.collect()).await?;
        if wanted.is_empty() {
            return Ok(());
        }
        let at = self.request.exported_at();
        let exported = wanted.iter().map(|item| {
            let source =
                SourceItem { source: item.source, candidates: &item.candidates, records: ItemRecords::new() };
            (source, ExportedImage { image: item.image.clone(), at })
        });
        let deadline = self.deadline();
        let reconciled =
            self.ledger.reconcile_exported(exported.collect(), &self.request.stream_label, deadline);
        let outcome = Box::pin(reconciled).await?;
        self.add_outcome(&outcome)
    }

    /// The items that can be decided: no lookup through an index finds nothing. The other items are reported: the looked-up item was deleted
    /// before anything remembered it.
    async fn with_lookups<'p>(&mut self, items: Vec<ExportedItem<'p>>) -> Result<Vec<ExportedItem<'p>>> {
        let needed = items.iter().flat_map(|item| {
            // The ledger reports an item whose keys cannot be made.
            lookup_keys(&self.model, &item.candidates, &item.image).unwrap_or_default()
        });
        let wanted: BTreeSet<_> = needed.map(LookupKey::into_owned).collect();
        let wanted: Vec<_> = wanted.into_iter().filter(|key| !self.searched.has(key)).collect();
        let found = Box::pin(self.ledger.look_up(&wanted, self.deadline())).await?;
        wanted.into_iter().zip(found).for_each(|(key, outputs)| self.searched.note(key, outputs));
        let mut targets = RollupTargets::of(&self.model);
        let (without, with): (Vec<_>, Vec<_>) = items.into_iter().partition(|item| {
            let identity = (item.source, &item.candidates);
            awaits_lookup(&self.model, identity, &item.image, &self.searched, &mut targets)
        });
        self.searched.forget_found();
        let without = u64::try_from(without.len()).unwrap_or(u64::MAX);
        self.add("failed", without);
        self.add("failed_lookups", without);
        Ok(with)
    }

    /// When the requests for a page end.
    fn deadline(&self) -> Timestamp {
        let requests = u32::try_from(PAGE_ITEMS * LOOKUP_REQUESTS).unwrap_or(u32::MAX);
        let waiting = Duration::from_secs(1) * requests / self.request.lookup_rate.max(1);
        self.clock.now().plus(PAGE_TIME + waiting)
    }

    fn add_outcome(&mut self, outcome: &CommitOutcome) -> Result<()> {
        let mut failures = outcome.failures.iter().map(|failure| &failure.error);
        // An item that cannot be counted is reported; anything else is an error of the step, which is repeated.
        if let Some(error) = failures.find(|error| !error.kind().concerns_item()) {
            return Err(error.restated());
        }
        self.add("reconciled", outcome.totals.reconciled);
        self.add("dropped_contributions", outcome.totals.dropped_contributions);
        self.add("failed", u64::try_from(outcome.failures.len()).unwrap_or(0));
        for failure in &outcome.failures {
            self.add(&format!("failed_{}", failure.error.kind().name()), 1);
        }
        Ok(())
    }

    /// Moves parts of rollups to the files of their partitions.
    fn keep_rollups(&mut self) -> Result<()> {
        for ((partition, sort), rollup) in self.tables.take_rollups() {
            self.keep(&partition, &sort, &rollup)?;
            self.add("partial_rollups", 1);
        }
        Ok(())
    }

    /// Moves lookups to the files of their partitions, in the pass that counts the looked-up items. All other remembered lookups are
    /// copied from the deployed state table when the archive is replayed.
    fn keep_lookups(&mut self) -> Result<()> {
        let lookups = self.tables.take_lookups();
        match self.request.pass {
            MapPass::Items => return Ok(()),
            MapPass::Lookups => {}
        }
        for ((partition, sort), lookup) in lookups {
            self.keep(&partition, &sort, &lookup)?;
            self.add("lookups", 1);
        }
        Ok(())
    }

    fn keep(&mut self, partition: &str, sort: &str, item: &Item) -> Result<()> {
        let partition = partition_of(key_hash(partition, sort), self.request.partitions);
        self.partials.entry(partition).or_default().push(item)
    }

    async fn write_entries(&mut self) -> Result<()> {
        let entries = std::mem::take(&mut self.entries);
        if entries.items() == 0 {
            return Ok(());
        }
        self.add("entries", entries.items());
        self.add("import_items", entries.items());
        self.add("import_bytes", entries.bytes());
        let key =
            RunLayout(&self.request.run).entries(self.request.pass, self.request.index, self.entry_files);
        self.entry_files += 1;
        self.bucket.put(&key, entries.finish()?).await?;
        self.add("import_files", 1);
        Ok(())
    }

    fn add(&mut self, name: &str, number: u64) {
        if number > 0 {
            *self.totals.entry(name.to_owned()).or_default() += number;
        }
    }
}

/// Whether anything is derived in the state table from such an item.
pub(crate) fn is_counted(entity: &Entity) -> bool {
    !entity.aggregates.is_empty() || !entity.offers.is_empty() || !entity.mirrors.is_empty()
}
