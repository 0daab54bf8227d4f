//! Looking at items and rows: the state of some keys at one moment.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use afterwrite_datasets::compact::CompactionOptions;
use afterwrite_datasets::compact::reading::{DatasetReader, DatasetVersions, RowOrigin};
use afterwrite_datasets::export::ArchiveExporter;
use afterwrite_datasets::export::snapshot::ReadItem;
use afterwrite_datasets::row_values::{DatasetRows, RowDigest};
use afterwrite_ledger::StateItems;
use afterwrite_ledger::tables::{TableScan, Tables};
use afterwrite_model::Result;
use afterwrite_model::clock::Clock;
use afterwrite_model::record::{Item, Timestamp};
use afterwrite_model::table::Model;
use afterwrite_services::Bucket;

use super::keys::{DatasetKey, RowCandidate};
use crate::DeploymentContext;
use crate::jobs::WaitBoard;

/// Judges rows of datasets.
#[derive(Debug)]
pub struct DatasetJudge<B, T, C> {
    pub(crate) exporter: ArchiveExporter<B, T, C>,
    pub(crate) reader: DatasetReader<B>,
    pub(crate) tables: T,
    pub(crate) state: StateItems,
    pub(super) tolerance: Duration,
    pub(crate) waits: WaitBoard,
    /// When judgements must end; `None` if they have the time that they need.
    pub(super) until: Option<Timestamp>,
}

impl<B: Bucket + Clone, T: Tables + TableScan + Clone, C: Clock + Clone> DatasetJudge<B, T, C> {
    /// A judge of a deployment's datasets in a bucket. `tolerance` is the longest time that a change is on its way to the log.
    #[must_use]
    pub fn new(context: DeploymentContext<T, C>, bucket: B, tolerance: Duration) -> Self {
        let (state, remembered) = (context.state_items(), context.remembered());
        let DeploymentContext { model, table_names, tables, clock, .. } = context;
        Self {
            reader: DatasetReader::new(Arc::clone(&model), bucket.clone(), CompactionOptions::default()),
            exporter: ArchiveExporter::new(model, table_names, bucket, Some(remembered), clock),
            tables,
            state,
            tolerance,
            waits: WaitBoard::default(),
            until: None,
        }
    }

    /// Ends judgements at this time: candidates that must wait longer are undecided.
    #[must_use]
    pub fn until(mut self, until: Timestamp) -> Self {
        self.until = Some(until);
        self
    }
}

impl<B: Bucket, T: Tables, C: Clock> DatasetJudge<B, T, C> {
    /// The waits of the judgements.
    #[must_use]
    pub fn waits(&self) -> &WaitBoard {
        &self.waits
    }

    /// The model.
    #[must_use]
    pub fn model(&self) -> &Arc<Model> {
        self.exporter.model()
    }
}

/// The row that an item should have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ExpectedRow {
    pub(super) day: String,
    pub(super) digest: RowDigest,
    pub(super) values: BTreeMap<String, String>,
}

/// An item at one moment.
#[derive(Clone, Debug)]
pub(super) struct ItemLook {
    /// The service's time, not after the item was read.
    pub(super) at: Timestamp,
    /// Its row; `None` if the item does not exist.
    pub(super) expected: Option<ExpectedRow>,
}

/// A row of a dataset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FoundRow {
    pub(super) digest: RowDigest,
    pub(super) values: BTreeMap<String, String>,
}

/// The rows of one item in one day.
#[derive(Clone, Debug, Default)]
pub(super) struct FoundRows {
    /// In the table of current rows; `None` if the day is pending.
    pub(super) current: Option<Vec<FoundRow>>,
    /// The newest row of the log, if the item exists by it.
    pub(super) log: Option<FoundRow>,
    /// When the newest change was made that the log has, in milliseconds since 1970.
    pub(super) changed_at: Option<i64>,
}

/// The rows of some items, by key and day.
pub(super) type FoundByDay = HashMap<(DatasetKey, String), FoundRows>;

impl<B: Bucket, T: Tables + TableScan, C: Clock> DatasetJudge<B, T, C> {
    /// Reads the items of some keys, strongly consistent.
    pub(super) async fn look_at_items(&self, keys: &[&DatasetKey]) -> Result<Vec<ItemLook>> {
        let model = self.exporter.model();
        let at = self.service_time(keys).await?;
        let sources: Vec<_> = keys.iter().map(|key| key.source()).collect();
        let item_keys: Vec<_> = sources.iter().map(|source| self.state.source_item_key(source)).collect();
        let known: Vec<_> = item_keys.iter().flatten().cloned().collect();
        let mut read = self.tables.read(&known).await?.items.into_iter();
        let items: Vec<Option<Item>> =
            item_keys.iter().map(|key| key.as_ref().and_then(|_| read.next().flatten())).collect();
        let mut present = Vec::new();
        let mut places = Vec::new();
        for (index, ((key, source), item)) in keys.iter().zip(&sources).zip(&items).enumerate() {
            let candidates = source.candidates(model);
            let has_rows = candidates.any(|entity| entity.datasets.contains(&key.dataset));
            if let Some(item) = item.as_ref().filter(|_| has_rows) {
                present.push(ReadItem { candidates, item });
                places.push(index);
            }
        }
        let mut looks: Vec<ItemLook> = keys.iter().map(|_| ItemLook { at, expected: None }).collect();
        for expected in self.exporter.expected_rows(&present).await? {
            let rows = self.exporter.values_of(&expected)?;
            for (row, (item, day)) in expected.items.iter().zip(&expected.days).enumerate() {
                let place = places.get(*item).copied().unwrap_or(usize::MAX);
                let is_wanted = keys.get(place).is_some_and(|key| key.dataset == expected.dataset);
                if let Some(look) = looks.get_mut(place).filter(|_| is_wanted) {
                    let found = found_row(&rows, row);
                    look.expected =
                        Some(ExpectedRow { day: day.clone(), digest: found.digest, values: found.values });
                }
            }
        }
        Ok(looks)
    }

    /// Refuses items that a newer model has counted: their rows may have columns that this model does not know.
    pub(super) async fn check_generations(&self, keys: &[&DatasetKey]) -> Result<()> {
        let known = keys.iter().filter(|key| key.is_known());
        let entries = known.map(|key| self.state.entry_key(&key.source())).collect::<Result<Vec<_>>>()?;
        let entries = self.tables.read(&entries).await?.items;
        entries.iter().flatten().try_for_each(|entry| self.state.check_generation(entry))
    }

    /// The service's time before the items are read.
    async fn service_time(&self, keys: &[&DatasetKey]) -> Result<Timestamp> {
        let table = keys.first().map_or(0, |key| key.source().table);
        match self.exporter.tables().get(table) {
            Some(name) => Ok(self.tables.describe(name).await?.described_at),
            None => Ok(self.exporter.clock().now()),
        }
    }

    /// Reads the rows of candidates: their days in the log, and in the table of current rows unless a day is pending.
    pub(super) async fn look_at_rows(&self, candidates: &[&RowCandidate]) -> Result<FoundByDay> {
        let mut found = FoundByDay::new();
        let mut by_day: BTreeMap<(usize, &str), HashSet<&DatasetKey>> = BTreeMap::new();
        for candidate in candidates {
            for day in &candidate.days {
                by_day.entry((candidate.key.dataset, day)).or_default().insert(&candidate.key);
            }
        }
        let datasets: BTreeSet<usize> = by_day.keys().map(|(dataset, _)| *dataset).collect();
        let mut versions: BTreeMap<usize, DatasetVersions> = BTreeMap::new();
        for dataset in datasets {
            versions.insert(dataset, self.reader.versions(dataset).await?);
        }
        for ((dataset, day), keys) in by_day {
            let Some(versions) = versions.get(&dataset) else { continue };
            let is_pending = versions.is_pending(day);
            for key in &keys {
                let current = (!is_pending).then(Vec::new);
                let rows = FoundRows { current, ..FoundRows::default() };
                found.insert(((*key).clone(), day.to_owned()), rows);
            }
            let origins = [Some(RowOrigin::Log), (!is_pending).then_some(RowOrigin::Current)];
            for origin in origins.into_iter().flatten() {
                Box::pin(self.rows_of_day(dataset, versions, (day, origin), &keys, &mut found)).await?;
            }
        }
        Ok(found)
    }

    async fn rows_of_day(
        &self,
        dataset: usize,
        versions: &DatasetVersions,
        (day, origin): (&str, RowOrigin),
        keys: &HashSet<&DatasetKey>,
        found: &mut FoundByDay,
    ) -> Result<()> {
        let model = self.exporter.model();
        let is_wanted = |rows: &DatasetRows<'_>, row: usize| {
            keys.contains(&DatasetKey::of_row(model, dataset, rows, row))
        };
        let note = |rows: &DatasetRows<'_>, row: usize| {
            let key = DatasetKey::of_row(model, dataset, rows, row);
            if let Some(found) = found.get_mut(&(key, day.to_owned())) {
                note_row(found, rows, row, origin);
            }
            Ok(())
        };
        Box::pin(self.reader.read(dataset, versions, (day, origin), is_wanted, note)).await
    }
}

fn note_row(found: &mut FoundRows, rows: &DatasetRows<'_>, row: usize, origin: RowOrigin) {
    let live = rows.is_live(row).then(|| found_row(rows, row));
    match origin {
        RowOrigin::Log => {
            found.changed_at = found.changed_at.max(rows.changed_at(row));
            found.log = live.or(found.log.take());
        }
        RowOrigin::Current => {
            if let Some(current) = &mut found.current {
                current.extend(live);
            }
        }
    }
}

fn found_row(rows: &DatasetRows<'_>, row: usize) -> FoundRow {
    FoundRow { digest: rows.digest(row), values: rows.values(row).into_iter().collect() }
}
