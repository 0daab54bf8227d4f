//! The steps of a verification.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use afterwrite::clock::Clock;
use afterwrite::commit::{StateItem, StateItems};
use afterwrite::entity::SourceKey;
use afterwrite::projection::RollupTargets;
use afterwrite::record::{AttributeValue, Timestamp};
use afterwrite::sink::{ScanPage, ScanRequest, TableScan, Tables, item_bytes};
use afterwrite::table::Model;
use afterwrite::{ErrorKind, Result};

use super::finding::VerifyFinding;
use super::items::ItemJudge;
use super::journal::{ENTRY_ITEMS, StoredSuspect, VerifyEntry, restored_state};
use super::place::RollupPlace;
use super::recheck::SETTLE;
use super::sample::is_sampled;
use super::state::VerifyState;
use super::sums::{LedgerSums, SumVerdict, add_entry, entry_of, judge, note_revision};
use super::suspects::{judge_first, judge_suspects, out_of_time};
use super::{VerifyArguments, VerifyPart, parts, unknown_unit};
use crate::cursor::{decode_cursor, encode_cursor};
use crate::items::{IdentifiedItem, identified, source_keys};
use crate::jobs::{JobJournal, JobTask, JobTotals, StepOutcome, WorkUnit};
use crate::projector::ItemProjector;
use crate::tenant::TenantMatch;

/// The items of a page.
const PAGE_ITEMS: u32 = 500;
/// The rollups that are read at once.
const READ_ROLLUPS: usize = 500;

/// Compares what is derived with the items.
#[derive(Debug)]
pub struct VerifyTask<T, C> {
    judge: ItemJudge<T>,
    clock: C,
    table_names: Vec<Arc<str>>,
    state_table: Arc<str>,
    arguments: VerifyArguments,
    parts: Vec<(WorkUnit, VerifyPart)>,
    state: Mutex<VerifyState>,
    /// Keeps what was found for a process that resumes the job; `None` if the job cannot be resumed.
    journal: Option<Arc<JobJournal<T, C>>>,
    /// When rechecks must end; `None` if they have the time that they need.
    until: Option<Timestamp>,
}

impl<T: Tables + TableScan + Clone, C: Clock> VerifyTask<T, C> {
    /// A verification of these tables.
    #[must_use]
    pub fn new(
        model: Arc<Model>,
        table_names: Vec<Arc<str>>,
        state_table: Arc<str>,
        tables: T,
        clock: C,
        arguments: VerifyArguments,
    ) -> Self {
        let projector = ItemProjector::new(Arc::clone(&model), Arc::clone(&state_table), tables.clone());
        let state = StateItems::new(Arc::clone(&model), table_names.clone(), Arc::clone(&state_table));
        Self {
            parts: parts(&model, &arguments),
            judge: ItemJudge { model, tables, state, projector },
            clock,
            table_names,
            state_table,
            arguments,
            state: Mutex::default(),
            journal: None,
            until: None,
        }
    }

    /// Ends rechecks at this time: suspects that must wait longer are undecided.
    #[must_use]
    pub fn until(mut self, until: Timestamp) -> Self {
        self.until = Some(until);
        self
    }

    /// The suspects for which a run had no time.
    pub(super) fn unjudged(&self, is_recheck_done: bool, are_rollups_done: bool) -> u64 {
        let state = self.lock();
        let items = if is_recheck_done { 0 } else { state.suspects.len() };
        let rollups = if are_rollups_done { 0 } else { state.suspect_rollups.len() };
        u64::try_from(items + rollups).unwrap_or(u64::MAX)
    }

    /// Keeps what is found in the journal of the job.
    #[must_use]
    pub fn with_journal(mut self, journal: Arc<JobJournal<T, C>>) -> Self {
        self.journal = Some(journal);
        self
    }

    pub(super) fn is_three_way(&self) -> bool {
        self.arguments.three_way.is_some()
    }

    /// Goes on with what an earlier process has found.
    pub(super) fn restore(&self, entries: &[VerifyEntry]) {
        *self.lock() = restored_state(entries);
    }

    async fn note(&self, entries: impl IntoIterator<Item = VerifyEntry>) -> Result<()> {
        if let Some(journal) = &self.journal {
            for entry in entries {
                journal.append(&entry).await?;
            }
        }
        Ok(())
    }

    /// The units of the job.
    #[must_use]
    pub fn units(&self) -> Vec<WorkUnit> {
        self.parts.iter().map(|(unit, _)| unit.clone()).collect()
    }

    /// The findings so far.
    pub(super) fn findings(&self) -> Vec<VerifyFinding> {
        self.lock().findings.clone()
    }

    fn lock(&self) -> MutexGuard<'_, VerifyState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn model(&self) -> &Arc<Model> {
        &self.judge.model
    }

    /// Whether a rollup is judged.
    fn judges_rollup(&self, place: &RollupPlace) -> bool {
        let is_sampled = is_sampled(&[&place.0, &place.1], self.arguments.sample);
        is_sampled
            && self.arguments.only.as_ref().is_none_or(|tenant| {
                let rollups = &self.model().rollups;
                rollups.iter().any(|rollup| tenant.owns_rollup(rollup, &place.0, &place.1))
            })
    }

    async fn page(
        &self,
        unit: &WorkUnit,
        table: &Arc<str>,
        segment: u32,
        is_consistent: bool,
    ) -> Result<(ScanPage, StepOutcome)> {
        let request = ScanRequest {
            table: Arc::clone(table),
            segment,
            segments: self.arguments.segments.max(1),
            is_consistent,
            page_items: Some(PAGE_ITEMS),
            start_after: decode_cursor(unit.cursor.as_ref())?,
        };
        let page = self.judge.tables.scan(&request).await?;
        let items = u64::try_from(page.items.len()).unwrap_or(u64::MAX);
        let outcome = StepOutcome {
            cursor: page.next.as_ref().map(encode_cursor),
            items,
            spent: items,
            bytes: u64::try_from(page.items.iter().map(item_bytes).sum::<usize>()).unwrap_or(u64::MAX),
            totals: JobTotals::from([("read_units".to_owned(), page.read_units)]),
        };
        Ok((page, outcome))
    }

    /// Phase 0: the revisions of the rollups, before the ledger is read.
    async fn revisions(&self, unit: &WorkUnit, segment: u32) -> Result<StepOutcome> {
        let (page, outcome) = self.page(unit, &self.state_table, segment, false).await?;
        let mut state = self.lock();
        for item in &page.items {
            let StateItem::Rollup(partition, sort) = self.judge.state.classify(item) else { continue };
            let place = (partition.to_owned(), sort.to_owned());
            if let Some(check) = &self.arguments.three_way
                && check.is_counted(self.model(), &place)
                && let Some(rev) = item.get("rev").and_then(AttributeValue::as_number)
            {
                state.three_way.revisions.insert(place.clone(), rev.to_string());
            }
            if self.judges_rollup(&place) {
                note_revision(&mut state.sums, place, item);
            }
        }
        Ok(outcome)
    }

    /// Phases 1 and 6: the sums of the ledger.
    async fn ledger(&self, unit: &WorkUnit, segment: u32, is_second: bool) -> Result<StepOutcome> {
        let suspects = self.lock().suspect_rollups.clone();
        if is_second && suspects.is_empty() {
            return Ok(StepOutcome::default());
        }
        if unit.cursor.is_none() {
            self.clock.sleep(SETTLE).await;
        }
        let (page, outcome) = self.page(unit, &self.state_table, segment, true).await?;
        let mut targets = RollupTargets::of(self.model());
        let mut state = self.lock();
        let VerifyState { sums, suspect_sums, .. } = &mut *state;
        let sums = if is_second { suspect_sums } else { sums };
        for item in page.items.iter().filter_map(|item| entry_of(&self.judge.state, item)) {
            add_entry(&self.judge.state, item, &mut targets, sums, |place| {
                if is_second { suspects.contains(place) } else { self.judges_rollup(place) }
            })?;
        }
        Ok(outcome)
    }

    /// Phases 2 and 7: the rollups after the ledger was read. The first time, those that differ are suspected.
    async fn rollups(&self, is_second: bool) -> Result<StepOutcome> {
        self.clock.sleep(SETTLE).await;
        let sums = {
            let mut state = self.lock();
            std::mem::take(if is_second { &mut state.suspect_sums } else { &mut state.sums })
        };
        let places: Vec<RollupPlace> = sums.rollups.keys().cloned().collect();
        let mut suspects = BTreeSet::new();
        let mut totals = JobTotals::new();
        let mut count = |name: &str| *totals.entry(name.to_owned()).or_default() += 1;
        for places in places.chunks(READ_ROLLUPS) {
            let keys: Vec<_> =
                places.iter().map(|(partition, sort)| self.judge.state.key(partition, sort)).collect();
            let items = self.judge.tables.read(&keys).await?.items;
            let mut state = self.lock();
            for (place, item) in places.iter().zip(items) {
                let Some(sum) = sums.rollups.get(place) else { continue };
                let sum = (sum, sums.unreadable_entries);
                let verdict = judge(self.model(), place, sum, item.as_ref(), self.clock.now());
                if !is_second {
                    count("rollups");
                }
                match verdict {
                    SumVerdict::Confirmed if is_second => count("rollups_rechecked"),
                    SumVerdict::Confirmed => count("rollups_confirmed"),
                    SumVerdict::Expired => count("rollups_expired"),
                    // One that changed is given a second chance as well.
                    SumVerdict::Differs(_) | SumVerdict::Changed(_) if !is_second => {
                        suspects.insert(place.clone());
                    }
                    SumVerdict::Differs(finding) | SumVerdict::Changed(finding) => state.find(finding),
                }
            }
        }
        if !is_second {
            let all: Vec<RollupPlace> = suspects.iter().cloned().collect();
            self.lock().suspect_rollups = suspects;
            let parts = all.chunks(ENTRY_ITEMS).map(|places| VerifyEntry::Rollups(places.to_vec()));
            self.note([VerifyEntry::FirstRollups].into_iter().chain(parts)).await?;
        }
        Ok(StepOutcome { totals, ..StepOutcome::default() })
    }

    /// Phase 3: the items of a source table.
    async fn items(&self, unit: &WorkUnit, table: usize, segment: u32) -> Result<StepOutcome> {
        let name = self.table_names.get(table).cloned().unwrap_or_default();
        let (page, mut outcome) = self.page(unit, &name, segment, false).await?;
        let sources = source_keys(self.model(), table, &page.items);
        let mut wanted = identified(self.model(), &page.items, &sources);
        self.recount(&wanted).await?;
        wanted.retain(|item| self.judges_source(item.source));
        let wanted = self.of_tenant(wanted).await?;
        let keys: Vec<SourceKey<'_>> = wanted.iter().map(|item| item.source.clone()).collect();
        outcome.totals.extend(self.judge_keys(&keys).await?);
        Ok(outcome)
    }

    /// Adds items to the three-way comparison.
    async fn recount(&self, items: &[IdentifiedItem<'_>]) -> Result<()> {
        let Some(check) = &self.arguments.three_way else { return Ok(()) };
        let images: Vec<_> = items.iter().map(|item| (item, item.image(self.model()))).collect();
        let outputs = self.judge.projector.remembered(&images).await?;
        let mut targets = RollupTargets::of(self.model());
        let mut state = self.lock();
        for (item, image) in &images {
            // An item that cannot be counted is a finding of its own.
            let projection = self.judge.projector.project(item, image, None, &outputs, &mut targets);
            let contributions = projection.map(|projection| projection.contributions).unwrap_or_default();
            state.three_way.add(check, self.model(), item, &contributions, &targets);
        }
        Ok(())
    }

    /// Compares the application's counters with rollups and recounts.
    async fn compare_three_ways(&self) -> Result<()> {
        let Some(check) = &self.arguments.three_way else { return Ok(()) };
        let mut places = self.lock().three_way.places();
        places.retain(|place| self.judges_rollup(place));
        for places in places.chunks(READ_ROLLUPS) {
            let keys: Vec<_> =
                places.iter().map(|(partition, sort)| self.judge.state.key(partition, sort)).collect();
            let rollups = self.judge.tables.read(&keys).await?.items;
            let mut state = self.lock();
            for (place, rollup) in places.iter().zip(rollups) {
                let finding = state.three_way.judge(check, place, rollup.as_ref());
                state.findings.extend(finding);
            }
        }
        Ok(())
    }

    /// Phase 4: entries that count something although their items do not exist.
    async fn entries(&self, unit: &WorkUnit, segment: u32) -> Result<StepOutcome> {
        let (page, mut outcome) = self.page(unit, &self.state_table, segment, false).await?;
        let mut targets = RollupTargets::of(self.model());
        let mut sources: Vec<SourceKey<'static>> = Vec::new();
        for item in &page.items {
            let StateItem::Entry(source, entry) = self.judge.state.classify(item) else { continue };
            let Some(source) = source else {
                *outcome.totals.entry("hashed_entries".to_owned()).or_default() += 1;
                continue;
            };
            let counts = match self.judge.state.decode_entry(entry, &mut targets) {
                Ok(entry) => !entry.contributions.by_aggregate.is_empty(),
                // Its contributions are unknown; judging its item reports it.
                Err(error) if error.kind() == ErrorKind::Unreadable => true,
                Err(error) => return Err(error),
            };
            if counts && self.judges_source(&source) && self.is_of_tenant(&source) {
                sources.push(source);
            }
        }
        let keyed = sources
            .into_iter()
            .filter_map(|source| Some((self.judge.state.source_item_key(&source)?, source)));
        let (keys, sources): (Vec<_>, Vec<_>) = keyed.unzip();
        let items = self.judge.tables.read(&keys).await?.items;
        let gone = sources.into_iter().zip(items).filter(|(_, item)| item.is_none());
        let gone: Vec<_> = gone.map(|(source, _)| source).collect();
        outcome.totals.extend(self.judge_keys(&gone).await?);
        Ok(outcome)
    }

    async fn judge_keys(&self, sources: &[SourceKey<'_>]) -> Result<JobTotals> {
        let (confirmed, suspects) = judge_first(&self.judge, sources, self.clock.now()).await?;
        for suspects in suspects.chunks(ENTRY_ITEMS) {
            self.note([VerifyEntry::Items(suspects.iter().map(StoredSuspect::from).collect())]).await?;
        }
        self.lock().suspects.extend(suspects);
        let items = u64::try_from(sources.len()).unwrap_or(u64::MAX);
        Ok([("items".to_owned(), items), ("items_confirmed".to_owned(), confirmed)].into())
    }

    /// Phase 5: suspected items; and the revisions of suspected rollups, before the ledger is read again.
    async fn recheck(&self) -> Result<StepOutcome> {
        let tolerance = Duration::from_secs(self.arguments.tolerance_seconds);
        // A step that is repeated after an error judges all of them again.
        let mut suspects = self.lock().suspects.clone();
        let mut results = VerifyState::default();
        let mut items_confirmed = 0;
        while !suspects.is_empty() {
            let ripe_at = suspects.iter().map(|suspect| suspect.seen_at.plus(tolerance)).max();
            if self.until.is_some_and(|until| ripe_at.is_some_and(|ripe_at| ripe_at >= until)) {
                results.findings.extend(suspects.iter().map(|suspect| out_of_time(&self.judge, suspect)));
                break;
            }
            let judged = judge_suspects(&self.judge, &self.clock, suspects, tolerance, &mut results).await?;
            items_confirmed += judged.1;
            suspects = judged.0;
        }
        let places: Vec<RollupPlace> = self.lock().suspect_rollups.iter().cloned().collect();
        let keys: Vec<_> =
            places.iter().map(|(partition, sort)| self.judge.state.key(partition, sort)).collect();
        let rollups = self.judge.tables.read(&keys).await?.items;
        let mut state = self.lock();
        state.findings.extend(results.findings);
        state.suspect_sums = LedgerSums::default();
        for (place, item) in places.into_iter().zip(rollups) {
            note_revision(&mut state.suspect_sums, place, &item.unwrap_or_default());
        }
        let totals = [("items_rechecked".to_owned(), items_confirmed)].into();
        Ok(StepOutcome { totals, ..StepOutcome::default() })
    }

    fn judges_source(&self, source: &SourceKey<'_>) -> bool {
        is_sampled(&[&source.partition, source.sort.as_deref().unwrap_or("-")], self.arguments.sample)
    }

    /// The items of the tenant. A lookup that is not remembered belongs to no tenant yet.
    async fn of_tenant<'p>(&self, items: Vec<IdentifiedItem<'p>>) -> Result<Vec<IdentifiedItem<'p>>> {
        let Some(tenant) = &self.arguments.only else { return Ok(items) };
        let matches: Vec<TenantMatch> = items.iter().map(|item| tenant.matches(self.model(), item)).collect();
        let keys = matches.iter().filter_map(|known| match known {
            TenantMatch::Lookup(key, _) => Some(key.clone()),
            TenantMatch::Inside | TenantMatch::Outside => None,
        });
        let outputs = self.judge.projector.read(keys.collect()).await?;
        let inside = items.into_iter().zip(matches).filter(|(_, known)| match known {
            TenantMatch::Inside => true,
            TenantMatch::Outside => false,
            TenantMatch::Lookup(key, output) => afterwrite::projection::KnownLookups::outputs(&outputs, key)
                .is_some_and(|outputs| tenant.has_output(outputs, *output)),
        });
        Ok(inside.map(|(item, _)| item).collect())
    }

    fn is_of_tenant(&self, source: &SourceKey<'_>) -> bool {
        let Some(tenant) = &self.arguments.only else { return true };
        tenant.matches_key(&source.candidates(self.model()))
    }
}

impl<T: Tables + TableScan + Clone, C: Clock> JobTask for VerifyTask<T, C> {
    async fn step(&self, unit: &WorkUnit) -> Result<StepOutcome> {
        let part = self.parts.iter().find(|(known, _)| known.name == unit.name).map(|(_, part)| *part);
        match part {
            Some(VerifyPart::Revisions { segment }) => self.revisions(unit, segment).await,
            Some(VerifyPart::Ledger { segment }) => self.ledger(unit, segment, false).await,
            Some(VerifyPart::Rollups) => self.rollups(false).await,
            Some(VerifyPart::Items { table, segment }) => Box::pin(self.items(unit, table, segment)).await,
            Some(VerifyPart::Entries { segment }) => Box::pin(self.entries(unit, segment)).await,
            Some(VerifyPart::Recheck) => Box::pin(self.recheck()).await,
            Some(VerifyPart::SuspectedLedger { segment }) => self.ledger(unit, segment, true).await,
            Some(VerifyPart::SuspectedRollups) => {
                self.compare_three_ways().await?;
                self.rollups(true).await
            }
            None => Err(unknown_unit(unit)),
        }
    }
}
