//! The steps of a verification.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use afterwrite_ledger::StateItem;
use afterwrite_ledger::tables::{ScanPage, ScanRequest, TableScan, Tables};
use afterwrite_model::Result;
use afterwrite_model::clock::Clock;
use afterwrite_model::effect::ItemKey;
use afterwrite_model::entity::SourceKey;
use afterwrite_model::projection::RollupTargets;
use afterwrite_model::record::{Item, Timestamp};
use afterwrite_model::table::{Entity, Model};

use super::arguments::{DatasetCoverage, VerifyArguments};
use super::entry_count::{EntryCount, counted_by};
use super::finding::{RollupPlace, VerifyFinding};
use super::items::ItemJudge;
use super::journal::{ENTRY_ITEMS, StoredSuspect, VerifyEntry, restored_suspects};
use super::sums::{
    FirstPause, JudgedRollups, LedgerSums, READ_PAUSE, add_entry, entry_of, judge_sums, note_revision,
};
use super::suspects::{SuspectItem, Tolerance, judge_first, judge_until};
use super::three_way::{ThreeWayComparison, ThreeWayCounts};
use super::units::{PAGE_ITEMS, VerifyPart, VerifyTotal, parts, set_back_units};
use super::unjudged::RunKnowledge;
use crate::DeploymentContext;
use crate::items::{IdentifiedItem, identified, identify, read_page, segment_request, source_keys};
use crate::jobs::{
    AcquiredJob, JobJournal, JobTask, JobTotals, JobWait, StepOutcome, UnitMeanings, WorkUnit, count,
};
use crate::lives::LifeTotal;

/// Compares what is derived with the items.
#[derive(Debug)]
pub struct VerifyTask<T, C> {
    judge: ItemJudge<T>,
    context: DeploymentContext<T, C>,
    arguments: VerifyArguments,
    tolerance: Tolerance,
    parts: UnitMeanings<VerifyPart>,
    state: Mutex<VerifyState>,
    three_way: Option<ThreeWayComparison>,
    ledger_pauses: [FirstPause; 2],
    /// Keeps what was found for a process that resumes the job; `None` if the job cannot be resumed.
    journal: Option<Arc<JobJournal<T, C>>>,
    /// When rechecks must end; `None` if they have the time that they need.
    until: Option<Timestamp>,
}

/// The results so far.
#[derive(Debug, Default)]
struct VerifyState {
    /// The sums of the first reading of the ledger, and of the second, of suspects only.
    sums: LedgerSums,
    suspect_sums: LedgerSums,
    /// Items that are judged again once the tolerance has passed.
    suspects: Vec<SuspectItem>,
    suspect_rollups: BTreeSet<RollupPlace>,
    findings: Vec<VerifyFinding>,
    /// Entities of which an item was found right.
    decided_entities: BTreeSet<Arc<str>>,
}

impl<T: Tables + TableScan + Clone, C: Clock + Clone> VerifyTask<T, C> {
    /// A verification of a deployment.
    #[must_use]
    pub fn new(context: DeploymentContext<T, C>, arguments: VerifyArguments) -> Self {
        Self {
            parts: UnitMeanings::new(parts(&context.model, &arguments)),
            judge: ItemJudge::new(&context),
            context,
            tolerance: Duration::from_secs(arguments.tolerance_seconds).into(),
            three_way: arguments.three_way.clone().map(ThreeWayComparison::new),
            arguments,
            state: Mutex::default(),
            ledger_pauses: Default::default(),
            journal: None,
            until: None,
        }
    }
}

impl<T: Tables + TableScan + Clone, C: Clock> VerifyTask<T, C> {
    /// Ends rechecks at this time: suspects that must wait longer are undecided.
    #[must_use]
    pub fn until(mut self, until: Timestamp) -> Self {
        self.until = Some(until);
        self
    }

    /// The number of suspects that the run did not judge before its deadline.
    pub(super) fn unjudged(&self, is_recheck_done: bool, are_rollups_done: bool) -> u64 {
        let state = self.lock();
        let items = if is_recheck_done { 0 } else { state.suspects.len() };
        let rollups = if are_rollups_done { 0 } else { state.suspect_rollups.len() };
        count(items + rollups)
    }

    /// Keeps what is found in the journal of the job.
    #[must_use]
    pub fn with_journal(mut self, journal: Arc<JobJournal<T, C>>) -> Self {
        self.journal = Some(journal);
        self
    }

    /// Goes on with what an earlier process has found, and sets back the units whose results are lost.
    pub(super) fn restore(&self, job: &mut AcquiredJob, entries: &[VerifyEntry]) {
        set_back_units(job, self.three_way.is_some());
        let restored = restored_suspects(entries, self.context.clock.now());
        *self.lock() = VerifyState {
            suspects: restored.items,
            suspect_rollups: restored.rollups,
            decided_entities: restored.decided_entities,
            ..VerifyState::default()
        };
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
        self.parts.units()
    }

    /// The findings so far, and what is known beside totals and findings.
    pub(super) fn found(&self, coverage: DatasetCoverage) -> (RunKnowledge<'_>, Vec<VerifyFinding>) {
        let VerifyState { findings, decided_entities, .. } = &*self.lock();
        let (model, decided_entities) = (self.model(), decided_entities.clone());
        (RunKnowledge { model, arguments: &self.arguments, coverage, decided_entities }, findings.clone())
    }

    fn lock(&self) -> MutexGuard<'_, VerifyState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn model(&self) -> &Arc<Model> {
        &self.judge.model
    }

    async fn page(
        &self,
        unit: &WorkUnit,
        table: &Arc<str>,
        segment: u32,
        is_consistent: bool,
    ) -> Result<(ScanPage, StepOutcome)> {
        let segment = (segment, self.arguments.segments);
        let request = segment_request(Arc::clone(table), segment, PAGE_ITEMS);
        read_page(&self.judge.tables, unit, ScanRequest { is_consistent, ..request }).await
    }

    /// Phase 0: the revisions of the rollups, before the ledger is read.
    async fn revisions(&self, unit: &WorkUnit, segment: u32) -> Result<StepOutcome> {
        let (page, outcome) = self.page(unit, &self.context.state_table, segment, false).await?;
        let mut state = self.lock();
        for item in &page.items {
            let place = match self.judge.state.classify(item) {
                StateItem::Rollup(partition, sort) => (partition.to_owned(), sort.to_owned()),
                StateItem::Entry(_, entry) => {
                    self.judge.state.check_generation(entry)?;
                    continue;
                }
                StateItem::ParkedExpiry | StateItem::Other => continue,
            };
            if let Some(three_way) = &self.three_way {
                three_way.note_revision(self.model(), &place, item);
            }
            if self.arguments.judges_rollup(self.model(), &place) {
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
        let [first, second] = &self.ledger_pauses;
        if is_second { second } else { first }.wait(&self.context.clock).await;
        let (page, outcome) = self.page(unit, &self.context.state_table, segment, true).await?;
        let mut targets = RollupTargets::of(self.model());
        let mut state = self.lock();
        let VerifyState { sums, suspect_sums, .. } = &mut *state;
        let sums = if is_second { suspect_sums } else { sums };
        for item in page.items.iter().filter_map(|item| entry_of(&self.judge.state, item)) {
            add_entry(&self.judge.state, item, &mut targets, sums, |place| {
                if is_second {
                    suspects.contains(place)
                } else {
                    self.arguments.judges_rollup(self.model(), place)
                }
            })?;
        }
        Ok(outcome)
    }

    /// Phase 2: the rollups after the ledger was read. Rollups that differ or change are suspected.
    async fn rollups(&self) -> Result<StepOutcome> {
        let judged = self.judge_rollups(|state| &mut state.sums).await?;
        let suspects: Vec<RollupPlace> = judged.differing.into_iter().map(|(place, _)| place).collect();
        let parts = suspects.chunks(ENTRY_ITEMS).map(|places| VerifyEntry::Rollups(places.to_vec()));
        self.note([VerifyEntry::FirstRollups].into_iter().chain(parts)).await?;
        let rollups = judged.confirmed + judged.expired + count(suspects.len());
        let totals = JobTotals::from([
            (VerifyTotal::Rollups, rollups),
            (VerifyTotal::RollupsConfirmed, judged.confirmed),
            (VerifyTotal::RollupsExpired, judged.expired),
        ]);
        let mut state = self.lock();
        (state.sums, state.suspect_rollups) = (LedgerSums::default(), suspects.into_iter().collect());
        Ok(StepOutcome { totals, ..StepOutcome::default() })
    }

    /// Phase 7: the suspected rollups after the ledger was read again; and the three-way comparison.
    async fn suspected_rollups(&self) -> Result<StepOutcome> {
        let (findings, mut totals) = self.compare_three_ways().await?;
        let judged = self.judge_rollups(|state| &mut state.suspect_sums).await?;
        totals.add(VerifyTotal::RollupsRechecked, judged.confirmed);
        totals.add(VerifyTotal::RollupsExpired, judged.expired);
        let mut state = self.lock();
        state.suspect_sums = LedgerSums::default();
        state.findings.extend(findings);
        state.findings.extend(judged.differing.into_iter().map(|(_, finding)| finding));
        Ok(StepOutcome { totals, ..StepOutcome::default() })
    }

    /// Compares sums of the ledger with the rollups as they are now. The sums stay in the state if a request fails: the step is repeated.
    async fn judge_rollups(&self, sums_of: fn(&mut VerifyState) -> &mut LedgerSums) -> Result<JudgedRollups> {
        self.context.clock.sleep(READ_PAUSE).await;
        let sums = std::mem::take(sums_of(&mut self.lock()));
        let judged = judge_sums(&self.context, &sums).await;
        *sums_of(&mut self.lock()) = sums;
        judged
    }

    /// Phase 3: the items of a source table, which are the items of the job.
    async fn items(&self, unit: &WorkUnit, table: usize, segment: u32) -> Result<StepOutcome> {
        let name = self.context.table_names.get(table).cloned().unwrap_or_default();
        let (page, mut outcome) = self.page(unit, &name, segment, false).await?;
        outcome.items = outcome.spent;
        outcome.totals.add_all(&JobTotals::from([(VerifyTotal::ItemsRead, outcome.items)]));
        let sources = source_keys(self.model(), table, &page.items);
        let items = identified(self.model(), &page.items, &sources);
        let recount = match &self.three_way {
            Some(three_way) => three_way.recount(&self.judge, &items).await?,
            None => ThreeWayCounts::default(),
        };
        let wanted = items.into_iter().filter(|item| self.arguments.judges_source(item.source)).collect();
        let wanted = self.of_tenant(wanted).await?;
        let keys: Vec<SourceKey<'_>> = wanted.iter().map(|item| item.source.clone()).collect();
        outcome.totals.add_all(&self.judge_keys(&keys).await?);
        // Last: a step that is repeated after an error must not count an item twice.
        if let Some(three_way) = &self.three_way {
            three_way.add(recount);
        }
        Ok(outcome)
    }

    /// Compares the application's counters with rollups and recounts.
    async fn compare_three_ways(&self) -> Result<(Vec<VerifyFinding>, JobTotals)> {
        let (mut findings, mut totals) = (Vec::new(), JobTotals::new());
        let Some(three_way) = &self.three_way else { return Ok((findings, totals)) };
        let is_judged = |place: &RollupPlace| self.arguments.judges_rollup(self.model(), place);
        for finding in three_way.compare(&self.judge, is_judged).await? {
            let is_decided = finding.as_ref().is_none_or(VerifyFinding::is_drift);
            totals.add(VerifyTotal::ThreeWay, 1);
            totals.add(VerifyTotal::ThreeWayDecided, u64::from(is_decided));
            findings.extend(finding);
        }
        Ok((findings, totals))
    }

    /// Phase 4: entries that count something although their items do not exist, or are not the tenant's any more.
    async fn entries(&self, unit: &WorkUnit, segment: u32) -> Result<StepOutcome> {
        let (now, state_table) = (self.context.clock.now(), &self.context.state_table);
        let (page, mut outcome) = self.page(unit, state_table, segment, false).await?;
        let (mut targets, mut sources) = (RollupTargets::of(self.model()), Vec::new());
        for item in &page.items {
            let found = LifeTotal::entry_of(&mut outcome.totals, self.judge.state.classify(item));
            let Some((source, entry)) = found else { continue };
            let entry = self.judge.state.decode_entry(entry, &mut targets);
            let readable = entry.as_ref().ok();
            let Some(source) = source else {
                outcome.totals.add(VerifyTotal::HashedEntries, 1);
                LifeTotal::note(&mut outcome.totals, (self.model(), None), readable, now);
                continue;
            };
            let is_judged = self.arguments.judges_entry(self.model(), &source, (readable, &targets));
            if self.arguments.judges_source(&source) {
                // A tombstone does not show whose item it was.
                let named = readable.filter(|entry| is_judged || entry.is_tombstone);
                LifeTotal::note(&mut outcome.totals, (self.model(), Some(&source)), named, now);
            }
            let counted = counted_by(self.model(), &source, entry)?;
            if counted != EntryCount::Nothing && is_judged {
                if counted == EntryCount::ByModel && !source.candidates(self.model()).any(Entity::is_used) {
                    outcome.totals.add(VerifyTotal::ForeignEntries, 1);
                }
                sources.push(source);
            }
        }
        let unseen = self.unseen(&sources).await?;
        outcome.totals.add_all(&self.judge_keys(&unseen).await?);
        Ok(outcome)
    }

    async fn of_tenant<'p>(&self, items: Vec<IdentifiedItem<'p>>) -> Result<Vec<IdentifiedItem<'p>>> {
        self.arguments.of_tenant((self.model(), &self.judge.projector), items).await
    }

    /// The sources that the reading of the source tables has not judged: their items do not exist, or are not the tenant's any more.
    async fn unseen(&self, sources: &[SourceKey<'static>]) -> Result<Vec<SourceKey<'static>>> {
        let keyed =
            sources.iter().filter_map(|source| Some((self.judge.state.source_item_key(source)?, source)));
        let (keys, sources): (Vec<ItemKey>, Vec<_>) = keyed.unzip();
        let items = self.judge.tables.read(&keys).await?.items;
        let read = || sources.iter().copied().zip(items.iter().map(Option::as_ref));
        if self.arguments.only.is_none() {
            return Ok(read().filter(|(_, item)| item.is_none()).map(|(source, _)| source.clone()).collect());
        }
        let existing = identify(self.model(), read(), Entity::is_used);
        let seen = self.of_tenant(existing).await?;
        let seen: BTreeSet<&SourceKey<'_>> = seen.iter().map(|item| item.source).collect();
        Ok(read().map(|(source, _)| source).filter(|source| !seen.contains(source)).cloned().collect())
    }

    async fn read_rollups(&self, places: &[RollupPlace]) -> Result<Vec<Option<Item>>> {
        let keys: Vec<ItemKey> =
            places.iter().map(|(partition, sort)| self.judge.state.key(partition, sort)).collect();
        Ok(self.judge.tables.read(&keys).await?.items)
    }

    async fn judge_keys(&self, sources: &[SourceKey<'_>]) -> Result<JobTotals> {
        let first = judge_first(&self.judge, sources, self.context.clock.now()).await?;
        for suspects in first.suspects.chunks(ENTRY_ITEMS) {
            self.note([VerifyEntry::Items(suspects.iter().map(StoredSuspect::from).collect())]).await?;
        }
        let mut decided = first.decided_entities;
        decided.retain(|entity| self.lock().decided_entities.insert(Arc::clone(entity)));
        if !decided.is_empty() {
            let decided = decided.iter().map(ToString::to_string).collect();
            self.note([VerifyEntry::Decided(decided)]).await?;
        }
        self.lock().suspects.extend(first.suspects);
        Ok(VerifyTotal::judged((count(sources.len()), first.confirmed), first.parts))
    }

    /// Phase 5: suspected items; and the revisions of suspected rollups, before the ledger is read again.
    async fn recheck(&self) -> Result<StepOutcome> {
        // A step that is repeated after an error judges all of them again.
        let suspects = self.lock().suspects.clone();
        let (clock, tolerance) = (&self.context.clock, &self.tolerance);
        let known = judge_until(&self.judge, clock, suspects, tolerance, self.until).await?;
        let places: Vec<RollupPlace> = self.lock().suspect_rollups.iter().cloned().collect();
        let rollups = self.read_rollups(&places).await?;
        let mut state = self.lock();
        state.findings.extend(known.findings);
        state.decided_entities.extend(known.decided_entities);
        state.suspect_sums = LedgerSums::default();
        for (place, item) in places.into_iter().zip(rollups) {
            note_revision(&mut state.suspect_sums, place, &item.unwrap_or_default());
        }
        let totals = VerifyTotal::rechecked(known.confirmed, known.parts);
        Ok(StepOutcome { totals, ..StepOutcome::default() })
    }
}

impl<T: Tables + TableScan + Clone, C: Clock> JobTask for VerifyTask<T, C> {
    async fn step(&self, unit: &WorkUnit) -> Result<StepOutcome> {
        match *self.parts.find(unit)? {
            VerifyPart::Revisions { segment } => self.revisions(unit, segment).await,
            VerifyPart::Ledger { segment } => self.ledger(unit, segment, false).await,
            VerifyPart::Rollups => self.rollups().await,
            VerifyPart::Items { table, segment } => Box::pin(self.items(unit, table, segment)).await,
            VerifyPart::Entries { segment } => Box::pin(self.entries(unit, segment)).await,
            VerifyPart::Recheck => Box::pin(self.recheck()).await,
            VerifyPart::SuspectedLedger { segment } => self.ledger(unit, segment, true).await,
            VerifyPart::SuspectedRollups => self.suspected_rollups().await,
        }
    }

    fn waiting(&self) -> Option<JobWait> {
        self.tolerance.waits.current()
    }
}
