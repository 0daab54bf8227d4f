//! The steps of the comparison of datasets with items.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use afterwrite_datasets::export::snapshot::ReadItem;
use afterwrite_datasets::row_values::DatasetRows;
use afterwrite_ledger::tables::{TableScan, Tables};
use afterwrite_model::Result;
use afterwrite_model::clock::Clock;
use afterwrite_model::table::{Entity, Model};
use afterwrite_services::Bucket;
use serde_json::Value;

use super::keys::{DatasetKey, RowCandidate};
use super::look::DatasetJudge;
use super::spill::{DigestSpill, FILES, RowSide, SeenRow};
use crate::backfill::dataset_tables;
use crate::items::{identified_of, read_page, segment_request, source_keys};
use crate::jobs::{JobJournal, JobTask, JobTotals, JobWait, StepOutcome, UnitMeanings, WorkUnit, count};
use crate::tenant::items_of_tenant;
use crate::verify::arguments::VerifyArguments;
use crate::verify::finding::VerifyFinding;
use crate::verify::journal::{ENTRY_ITEMS, VerifyEntry, restored_rows};
use crate::verify::units::VerifyTotal;

/// The items of a page.
const PAGE_ITEMS: u32 = 500;
/// The candidates that are judged; more are counted only.
const MAX_CANDIDATES: usize = 200_000;

const ITEMS: u32 = 8;
const ROWS: u32 = 9;
const COMPARISON: u32 = 10;
const RECHECK: u32 = 11;

/// Compares datasets with items.
#[derive(Debug)]
pub struct DatasetCheck<B, T, C> {
    judge: DatasetJudge<B, T, C>,
    arguments: VerifyArguments,
    parts: UnitMeanings<CheckPart>,
    spill: DigestSpill,
    state: Mutex<CheckState>,
    /// Keeps the candidates for a process that resumes the job; `None` if the job cannot be resumed.
    journal: Option<Arc<JobJournal<T, C>>>,
}

/// The part of the work that a unit stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CheckPart {
    Items { table: usize, segment: u32 },
    Rows { dataset: usize },
    Comparison,
    Recheck,
}

/// Which side was read completely. Keys that are on one side only are judged if the other side is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadSides {
    /// The items.
    pub items: bool,
    /// The rows.
    pub rows: bool,
}

impl Default for ReadSides {
    fn default() -> Self {
        Self { items: true, rows: true }
    }
}

#[derive(Debug, Default)]
struct CheckState {
    sides: ReadSides,
    candidates: Vec<RowCandidate>,
    findings: Vec<VerifyFinding>,
}

impl<B: Bucket, T: Tables + TableScan, C: Clock> DatasetCheck<B, T, C> {
    /// A comparison by this judge.
    #[must_use]
    pub fn new(judge: DatasetJudge<B, T, C>, arguments: VerifyArguments) -> Self {
        Self {
            parts: UnitMeanings::new(check_parts(judge.model(), &arguments)),
            judge,
            arguments,
            spill: DigestSpill::new(),
            state: Mutex::default(),
            journal: None,
        }
    }

    /// Keeps candidates in the journal of the job.
    #[must_use]
    pub fn with_journal(mut self, journal: Arc<JobJournal<T, C>>) -> Self {
        self.journal = Some(journal);
        self
    }

    /// Goes on with the candidates that an earlier process has found.
    pub(crate) fn restore(&self, entries: &[VerifyEntry]) {
        self.lock().candidates = restored_rows(entries);
    }

    /// The units of the job.
    #[must_use]
    pub fn units(&self) -> Vec<WorkUnit> {
        self.parts.units()
    }

    /// The findings so far.
    pub(crate) fn findings(&self) -> Vec<VerifyFinding> {
        self.lock().findings.clone()
    }

    /// Restricts the comparison to what was read.
    pub(crate) fn limit(&self, sides: ReadSides) {
        self.lock().sides = sides;
    }

    /// The number of candidates that the run did not judge before its deadline.
    pub(crate) fn unjudged(&self, is_recheck_done: bool) -> u64 {
        if is_recheck_done { 0 } else { count(self.lock().candidates.len()) }
    }

    fn lock(&self) -> MutexGuard<'_, CheckState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a unit is one of these.
    pub(crate) fn has(&self, unit: &WorkUnit) -> bool {
        self.parts.has(unit)
    }

    /// A page of a source table.
    async fn items(&self, unit: &WorkUnit, table: usize, segment: u32) -> Result<StepOutcome> {
        let model = self.judge.model();
        let name = self.judge.exporter.tables().get(table).cloned().unwrap_or_default();
        let request = segment_request(name, (segment, self.arguments.segments), PAGE_ITEMS);
        let (page, outcome) = read_page(&self.judge.tables, unit, request).await?;
        let sources = source_keys(model, table, &page.items);
        let mut wanted = identified_of(model, &page.items, &sources, Entity::has_datasets);
        wanted.retain(|item| self.is_sampled(&DatasetKey::of_item(0, item.source)));
        let remembered = self.judge.exporter.remembered();
        let wanted = items_of_tenant(self.arguments.only.as_ref(), model, remembered, wanted).await?;
        let read: Vec<ReadItem<'_>> = wanted
            .iter()
            .map(|item| ReadItem { candidates: item.candidates.clone(), item: item.item })
            .collect();
        for expected in self.judge.exporter.expected_rows(&read).await? {
            let rows = self.judge.exporter.values_of(&expected)?;
            for (row, (item, day)) in expected.items.iter().zip(&expected.days).enumerate() {
                let Some(item) = wanted.get(*item) else { continue };
                let key = DatasetKey::of_item(expected.dataset, item.source);
                let seen = SeenRow { side: RowSide::Item, day: day.clone(), digest: rows.digest(row) };
                self.spill.add(&key, &seen)?;
            }
        }
        Ok(outcome)
    }

    fn is_sampled(&self, key: &DatasetKey) -> bool {
        self.arguments.key_sample().has(&key.sampled_texts())
    }

    /// The rows of a day; the cursor is the last day that was read.
    async fn rows(&self, unit: &WorkUnit, dataset: usize) -> Result<StepOutcome> {
        let versions = self.judge.reader.versions(dataset).await?;
        let before = unit.cursor.as_ref().and_then(Value::as_str);
        let days = versions.days().into_iter().filter(|day| before.is_none_or(|before| &**day < before));
        let days: Vec<String> = days.collect();
        let Some(day) = days.first() else { return Ok(StepOutcome::default()) };
        let model = self.judge.model();
        let mut read = 0;
        let is_wanted = |rows: &DatasetRows<'_>, row: usize| {
            self.is_sampled(&DatasetKey::of_row(model, dataset, rows, row))
        };
        let add = |rows: &DatasetRows<'_>, row: usize| {
            if rows.is_live(row) {
                read += 1;
                let key = DatasetKey::of_row(model, dataset, rows, row);
                let (side, digest) = (self.side(rows, row), rows.digest(row));
                self.spill.add(&key, &SeenRow { side, day: day.clone(), digest })?;
            }
            Ok(())
        };
        let place = (day.as_str(), versions.newest_origin(day));
        Box::pin(self.judge.reader.read(dataset, &versions, place, is_wanted, add)).await?;
        Ok(StepOutcome {
            cursor: (days.len() > 1).then(|| Value::from(day.as_str())),
            spent: read,
            totals: JobTotals::from([(VerifyTotal::DatasetRows, read)]),
            ..StepOutcome::default()
        })
    }

    /// A row that is not surely the tenant's counts only if its item is.
    fn side(&self, rows: &DatasetRows<'_>, row: usize) -> RowSide {
        match &self.arguments.only {
            Some(tenant) if rows.value_of(tenant.variable.as_str(), row).as_ref() != Some(&tenant.value) => {
                RowSide::Unassigned
            }
            Some(_) | None => RowSide::Dataset,
        }
    }

    /// Compares the keys of one temporary file; the cursor is the number of the next.
    async fn compare(&self, unit: &WorkUnit) -> Result<StepOutcome> {
        let index = unit.cursor.as_ref().and_then(Value::as_u64).unwrap_or(0);
        let seen = self.spill.read(usize::try_from(index).unwrap_or(FILES))?;
        let sides = self.lock().sides;
        let compared = compare_keys(seen, sides);
        let next = index + 1;
        let (unjudged, all) = {
            let mut state = self.lock();
            if index == 0 {
                state.candidates.clear();
            }
            let room = MAX_CANDIDATES.saturating_sub(state.candidates.len());
            state.candidates.extend(compared.candidates.iter().take(room).cloned());
            let is_last = next == count(FILES);
            let all = if is_last { state.candidates.clone() } else { Vec::new() };
            (compared.candidates.len().saturating_sub(room), all)
        };
        if let Some(journal) = self.journal.as_ref().filter(|_| next == count(FILES)) {
            journal.append(&VerifyEntry::FirstRows).await?;
            for candidates in all.chunks(ENTRY_ITEMS) {
                journal.append(&VerifyEntry::Rows(candidates.to_vec())).await?;
            }
        }
        Ok(StepOutcome {
            cursor: (next < count(FILES)).then(|| next.into()),
            totals: JobTotals::from([
                (VerifyTotal::DatasetKeys, compared.keys),
                (VerifyTotal::DatasetKeysConfirmed, compared.confirmed),
                (VerifyTotal::DatasetKeysUnjudged, count(unjudged)),
            ]),
            ..StepOutcome::default()
        })
    }

    /// Judges the candidates.
    async fn recheck(&self) -> Result<StepOutcome> {
        let mut candidates = self.lock().candidates.clone();
        candidates.sort_by(|one, other| (&one.days, &one.key).cmp(&(&other.days, &other.key)));
        let verdicts = Box::pin(self.judge.judge(candidates)).await?;
        let mut state = self.lock();
        state.findings = verdicts.drifted.into_iter().map(|row| row.finding).collect();
        state.findings.extend(verdicts.undecided);
        let totals = JobTotals::from([(VerifyTotal::DatasetKeysRechecked, verdicts.confirmed)]);
        Ok(StepOutcome { totals, ..StepOutcome::default() })
    }
}

impl<B: Bucket, T: Tables + TableScan, C: Clock> JobTask for DatasetCheck<B, T, C> {
    async fn step(&self, unit: &WorkUnit) -> Result<StepOutcome> {
        match *self.parts.find(unit)? {
            CheckPart::Items { table, segment } => Box::pin(self.items(unit, table, segment)).await,
            CheckPart::Rows { dataset } => Box::pin(self.rows(unit, dataset)).await,
            CheckPart::Comparison => Box::pin(self.compare(unit)).await,
            CheckPart::Recheck => Box::pin(self.recheck()).await,
        }
    }

    fn waiting(&self) -> Option<JobWait> {
        self.judge.waits().current()
    }
}

/// The comparison of some keys.
#[derive(Debug, Default)]
struct ComparedKeys {
    keys: u64,
    confirmed: u64,
    candidates: Vec<RowCandidate>,
}

fn compare_keys(seen: HashMap<DatasetKey, Vec<SeenRow>>, sides: ReadSides) -> ComparedKeys {
    let mut compared = ComparedKeys::default();
    for (key, rows) in seen {
        let on = |side: RowSide| rows.iter().filter(move |row| row.side == side);
        let items: Vec<&SeenRow> = on(RowSide::Item).collect();
        let stored: Vec<&SeenRow> = on(RowSide::Dataset).chain(on(RowSide::Unassigned)).collect();
        if items.is_empty() && on(RowSide::Dataset).next().is_none() {
            continue;
        }
        if (!sides.items && items.is_empty()) || (!sides.rows && stored.is_empty()) {
            continue;
        }
        compared.keys += 1;
        if let ([item], [row]) = (items.as_slice(), stored.as_slice())
            && item.day == row.day
            && item.digest.accepts(&row.digest)
        {
            compared.confirmed += 1;
            continue;
        }
        let days: BTreeSet<String> = rows.iter().map(|row| row.day.clone()).collect();
        compared.candidates.push(RowCandidate { key, days });
    }
    compared
}

/// The units of the comparison.
pub(crate) fn check_units(model: &Arc<Model>, arguments: &VerifyArguments) -> Vec<WorkUnit> {
    check_parts(model, arguments).into_iter().map(|(unit, _)| unit).collect()
}

/// The units of the comparison, with the parts that they stand for.
fn check_parts(model: &Arc<Model>, arguments: &VerifyArguments) -> Vec<(WorkUnit, CheckPart)> {
    let segments = arguments.segments.max(1);
    let mut parts = Vec::new();
    for table in dataset_tables(model) {
        let name = model.tables.get(table).map_or("", |table| &table.name);
        for segment in 0..segments {
            let unit = WorkUnit::new(format!("dataset items {name} {segment}/{segments}"), ITEMS);
            parts.push((unit, CheckPart::Items { table, segment }));
        }
    }
    for (dataset, known) in model.datasets.iter().enumerate() {
        let unit = WorkUnit::new(format!("dataset rows {}", known.name), ROWS);
        parts.push((unit, CheckPart::Rows { dataset }));
    }
    parts.push((WorkUnit::new("dataset comparison", COMPARISON), CheckPart::Comparison));
    parts.push((WorkUnit::new("dataset recheck", RECHECK), CheckPart::Recheck));
    parts
}
