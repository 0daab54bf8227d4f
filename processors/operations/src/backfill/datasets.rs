//! Phase 3 of a backfill: the items of entities with datasets become `SNAPSHOT` rows of the datasets' logs.
//!
//! It reads the tables a second time, in chunks that are much larger than the pages of the phases before: each chunk adds a file for
//! every day that its items lie in, and a version of the log. It follows the other phases because the rows have the outputs of
//! remembered lookups, and those are remembered there.
//!
//! A snapshot wins only over rows of the stream that are more than 15 minutes older than its reading, so it does not matter that the
//! application writes meanwhile, nor in which order rows of the stream and of the backfill arrive.

use std::sync::Arc;
use std::time::Duration;

use afterwrite_datasets::export::ArchiveExporter;
use afterwrite_datasets::export::snapshot::{ReadItem, TableReading};
use afterwrite_ledger::tables::{ScanRequest, TableScan, Tables, item_bytes};
use afterwrite_model::Result;
use afterwrite_model::clock::Clock;
use afterwrite_model::record::Item;
use afterwrite_model::table::{Entity, Model};
use afterwrite_services::Bucket;

use super::stream_labels::required_label;
use super::{BackfillArguments, BackfillPhase, BackfillTotal, DatasetFilling, unit};
use crate::cursor::{decode_cursor, encode_cursor};
use crate::items::{IdentifiedItem, identified_of, source_keys};
use crate::jobs::{JobTask, StepOutcome, UnitMeanings, WorkUnit, count};
use crate::tenant::items_of_tenant;

/// A chunk ends with the page in which it has so many items, or so many bytes.
pub(super) const CHUNK_ITEMS: usize = 10_000;
const CHUNK_BYTES: usize = 16 * 1024 * 1024;
/// The time limit of a chunk's commits.
const CHUNK_TIME: Duration = Duration::from_secs(120);

/// Fills datasets with the items that the tables have.
#[derive(Debug)]
pub struct DatasetFill<B, T, C> {
    exporter: ArchiveExporter<B, T, C>,
    tables: T,
    arguments: BackfillArguments,
    source: String,
    chunk_items: usize,
    parts: UnitMeanings<(usize, u32)>,
}

impl<B: Bucket, T: Tables + TableScan, C: Clock> DatasetFill<B, T, C> {
    /// Fills the datasets of an exporter with the items of its model's tables. `job` is the id of the job: every job writes files of its
    /// own.
    #[must_use]
    pub fn new(
        exporter: ArchiveExporter<B, T, C>,
        tables: T,
        arguments: BackfillArguments,
        job: &str,
    ) -> Self {
        Self {
            parts: UnitMeanings::new(dataset_parts(exporter.model(), &arguments)),
            exporter,
            tables,
            arguments,
            source: format!("backfill/{job}"),
            chunk_items: CHUNK_ITEMS,
        }
    }

    /// Ends chunks after so many items; the default is 10,000.
    #[must_use]
    pub fn with_chunk_items(mut self, items: usize) -> Self {
        self.chunk_items = items.max(1);
        self
    }

    /// The units of the job.
    #[must_use]
    pub fn units(&self) -> Vec<WorkUnit> {
        self.parts.units()
    }

    /// Whether a unit is one of these.
    pub(super) fn has(&self, unit: &WorkUnit) -> bool {
        self.parts.has(unit)
    }

    /// A chunk of a segment of a source table.
    async fn segment(&self, unit: &WorkUnit, table: usize, segment: u32) -> Result<StepOutcome> {
        let name = self.exporter.tables().get(table).cloned().unwrap_or_default();
        // The server's time before the first page: a reading that is dated too early wins over less.
        let summary = self.tables.describe(&name).await?;
        let label = required_label(summary.stream_label, &name)?;
        let (items, mut outcome) = self.chunk(unit, name, segment).await?;
        let model = self.exporter.model();
        let sources = source_keys(model, table, &items);
        let wanted = identified_of(model, &items, &sources, Entity::has_datasets);
        let (only, remembered) = (self.arguments.only.as_ref(), self.exporter.remembered());
        let wanted = items_of_tenant(only, model, remembered, wanted).await?;
        let read =
            wanted.iter().map(|item| ReadItem { candidates: item.candidates.clone(), item: item.item });
        let source = format!("{}/{}", self.source, unit.name);
        let reading = TableReading { source: &source, stream_label: &label, read_at: summary.described_at };
        let deadline = self.exporter.clock().now().plus(CHUNK_TIME);
        let added = self.exporter.add_snapshot(&reading, &read.collect::<Vec<_>>(), deadline).await?;
        let first_seen =
            |item: &&IdentifiedItem<'_>| self.arguments.datasets.is_first_to_see(&item.candidates);
        outcome.items = count(wanted.iter().filter(first_seen).count());
        outcome.spent = count(wanted.len());
        outcome.totals.add(BackfillTotal::DatasetRows, count(added.rows));
        outcome.totals.add(BackfillTotal::DatasetFiles, count(added.files));
        outcome.totals.add(BackfillTotal::DatasetFilesThere, count(added.existing_files));
        outcome.totals.add(BackfillTotal::RescuedRows, count(added.rescued));
        outcome.totals.add(BackfillTotal::UndatedRows, count(added.undated));
        Ok(outcome)
    }

    /// Reads the pages of a chunk.
    async fn chunk(
        &self,
        unit: &WorkUnit,
        table: Arc<str>,
        segment: u32,
    ) -> Result<(Vec<Item>, StepOutcome)> {
        let mut request = ScanRequest {
            segment,
            segments: self.arguments.segments.max(1),
            start_after: decode_cursor(unit.cursor.as_ref())?,
            ..ScanRequest::whole(table)
        };
        let (mut items, mut bytes, mut read_units) = (Vec::new(), 0, 0);
        loop {
            let page = match self.tables.scan(&request).await {
                Ok(page) => page,
                // A throttled table: the chunk ends here, and the next step begins with the page that is missing.
                Err(error) if error.is_retryable() && !items.is_empty() => break,
                Err(error) => return Err(error),
            };
            bytes += page.items.iter().map(item_bytes).sum::<usize>();
            read_units += page.read_units;
            items.extend(page.items);
            request.start_after = page.next;
            if request.start_after.is_none() || items.len() >= self.chunk_items || bytes >= CHUNK_BYTES {
                break;
            }
        }
        let mut outcome = StepOutcome {
            cursor: request.start_after.as_ref().map(encode_cursor),
            bytes: count(bytes),
            ..StepOutcome::default()
        };
        outcome.totals.add(BackfillTotal::ReadUnits, read_units);
        Ok((items, outcome))
    }
}

impl<B: Bucket, T: Tables + TableScan, C: Clock> JobTask for DatasetFill<B, T, C> {
    async fn step(&self, unit: &WorkUnit) -> Result<StepOutcome> {
        let (table, segment) = *self.parts.find(unit)?;
        Box::pin(self.segment(unit, table, segment)).await
    }
}

/// The units that fill datasets, with their tables and segments.
fn dataset_parts(model: &Model, arguments: &BackfillArguments) -> Vec<(WorkUnit, (usize, u32))> {
    if arguments.datasets == DatasetFilling::Skipped {
        return Vec::new();
    }
    let segments = arguments.segments.max(1);
    let phase = BackfillPhase::Datasets(model.highest_level());
    let mut parts = Vec::new();
    for table in dataset_tables(model) {
        let name = model.tables.get(table).map_or("", |table| &table.name);
        parts.extend(
            (0..segments).map(|segment| {
                (unit(format!("datasets {name} {segment}/{segments}"), phase), (table, segment))
            }),
        );
    }
    parts
}

/// The units of a job that fill datasets; none if it skips them.
#[must_use]
pub fn dataset_units(model: &Model, arguments: &BackfillArguments) -> Vec<WorkUnit> {
    dataset_parts(model, arguments).into_iter().map(|(unit, ..)| unit).collect()
}

/// The tables with items that are rows of datasets: indexes into [`Model::tables`].
pub(crate) fn dataset_tables(model: &Model) -> Vec<usize> {
    let is_read =
        |table: &usize| model.entities.iter().any(|entity| entity.table == *table && entity.has_datasets());
    (0..model.tables.len()).filter(is_read).collect()
}
