//! The steps of a verification.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use afterwrite_ledger::StateItem;
use afterwrite_ledger::tables::{ScanPage, ScanRequest, TableScan, Tables, item_bytes};
use afterwrite_model::Result;
use afterwrite_model::clock::Clock;
use afterwrite_model::entity::SourceKey;
use afterwrite_model::projection::RollupTargets;
use afterwrite_model::record::{AttributeValue, Image, Timestamp};
use afterwrite_model::table::{Entity, Model};

use super::coverage::DatasetCoverage;
use super::finding::VerifyFinding;
use super::items::ItemJudge;
use super::journal::{ENTRY_ITEMS, StoredSuspect, VerifyEntry, restored_state};
use super::place::RollupPlace;
use super::recheck::{SETTLE, SettlePause};
use super::state::VerifyState;
use super::sums::{
    EntryCount, JudgedRollups, LedgerSums, READ_ROLLUPS, add_entry, counted_by, entry_of, judge_sums,
    note_revision,
};
use super::suspects::{Tolerance, judge_first, judge_suspects, out_of_time};
use super::three_way::count_comparison;
use super::unjudged::{FOREIGN_ENTRIES, RunKnowledge};
use super::{VerifyArguments, VerifyPart, parts, unknown_unit};
use crate::DeploymentContext;
use crate::cursor::{decode_cursor, encode_cursor};
use crate::items::{IdentifiedItem, identified, source_keys};
use crate::jobs::{JobJournal, JobTask, JobTotals, JobWait, StepOutcome, UnitMeanings, WorkUnit};
use crate::projector::RememberedOutputs;

/// The items of a page.
const PAGE_ITEMS: u32 = 500;

/// Compares what is derived with the items.
#[derive(Debug)]
pub struct VerifyTask<T, C> {
    judge: ItemJudge<T>,
    context: DeploymentContext<T, C>,
    arguments: VerifyArguments,
    tolerance: Tolerance,
    parts: UnitMeanings<VerifyPart>,
    state: Mutex<VerifyState>,
    ledger_pauses: [SettlePause; 2],
    /// Keeps what was found for a process that resumes the job; `None` if the job cannot be resumed.
    journal: Option<Arc<JobJournal<T, C>>>,
    /// When rechecks must end; `None` if they have the time that they need.
    until: Option<Timestamp>,
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
        *self.lock() = restored_state(entries, self.context.clock.now());
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

    /// Its knowledge beside totals and findings.
    pub(super) fn knowledge(&self, coverage: DatasetCoverage) -> RunKnowledge<'_> {
        let decided_entities = self.lock().decided_entities.clone();
        RunKnowledge { model: self.model(), arguments: &self.arguments, coverage, decided_entities }
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
        let outcome = StepOutcome {
            cursor: page.next.as_ref().map(encode_cursor),
            spent: u64::try_from(page.items.len()).unwrap_or(u64::MAX),
            bytes: u64::try_from(page.items.iter().map(item_bytes).sum::<usize>()).unwrap_or(u64::MAX),
            totals: JobTotals::from([("read_units".to_owned(), page.read_units)]),
            ..StepOutcome::default()
        };
        Ok((page, outcome))
    }

    /// Phase 0: the revisions of the rollups, before the ledger is read.
    async fn revisions(&self, unit: &WorkUnit, segment: u32) -> Result<StepOutcome> {
        let (page, outcome) = self.page(unit, &self.context.state_table, segment, false).await?;
        let mut state = self.lock();
        for item in &page.items {
            let (partition, sort) = match self.judge.state.classify(item) {
                StateItem::Rollup(partition, sort) => (partition, sort),
                StateItem::Entry(_, entry) => {
                    self.judge.state.check_generation(entry)?;
                    continue;
                }
                StateItem::Other => continue,
            };
            let place = (partition.to_owned(), sort.to_owned());
            if let Some(check) = &self.arguments.three_way
                && check.is_counted(self.model(), &place)
                && let Some(rev) = item.get("rev").and_then(AttributeValue::as_number)
            {
                state.three_way.revisions.insert(place.clone(), rev.to_string());
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
        let rollups = judged.confirmed + judged.expired + u64::try_from(suspects.len()).unwrap_or(u64::MAX);
        let totals = [
            ("rollups", rollups),
            ("rollups_confirmed", judged.confirmed),
            ("rollups_expired", judged.expired),
        ];
        let mut state = self.lock();
        (state.sums, state.suspect_rollups) = (LedgerSums::default(), suspects.into_iter().collect());
        Ok(counted(totals))
    }

    /// Phase 7: the suspected rollups after the ledger was read again; and the three-way comparison.
    async fn suspected_rollups(&self) -> Result<StepOutcome> {
        let (findings, compared) = self.compare_three_ways().await?;
        let judged = self.judge_rollups(|state| &mut state.suspect_sums).await?;
        let mut outcome =
            counted([("rollups_rechecked", judged.confirmed), ("rollups_expired", judged.expired)]);
        outcome.totals.extend(compared);
        let mut state = self.lock();
        state.suspect_sums = LedgerSums::default();
        state.findings.extend(findings);
        state.findings.extend(judged.differing.into_iter().map(|(_, finding)| finding));
        Ok(outcome)
    }

    /// Compares sums of the ledger with the rollups as they are now. The sums stay in the state if a request fails: the step is repeated.
    async fn judge_rollups(&self, sums_of: fn(&mut VerifyState) -> &mut LedgerSums) -> Result<JudgedRollups> {
        self.context.clock.sleep(SETTLE).await;
        let sums = std::mem::take(sums_of(&mut self.lock()));
        let judged = judge_sums(&self.context, &self.judge.state, &sums).await;
        *sums_of(&mut self.lock()) = sums;
        judged
    }

    /// Phase 3: the items of a source table, which are the items of the job.
    async fn items(&self, unit: &WorkUnit, table: usize, segment: u32) -> Result<StepOutcome> {
        let name = self.context.table_names.get(table).cloned().unwrap_or_default();
        let (page, mut outcome) = self.page(unit, &name, segment, false).await?;
        outcome.items = outcome.spent;
        outcome.totals.insert("items_read".to_owned(), outcome.items);
        let sources = source_keys(self.model(), table, &page.items);
        let wanted = identified(self.model(), &page.items, &sources);
        let mut images: Vec<_> = Vec::new();
        if self.is_three_way() {
            images.extend(wanted.iter().map(|item| (item, item.image(self.model()))));
        }
        let outputs = self.judge.projector.remembered(&images).await?;
        let judged =
            wanted.iter().filter(|item| self.arguments.judges_source(item.source)).cloned().collect();
        let judged = self.arguments.of_tenant(&self.judge, judged).await?;
        let keys: Vec<SourceKey<'_>> = judged.iter().map(|item| item.source.clone()).collect();
        outcome.totals.extend(self.judge_keys(&keys).await?);
        // Last: a step that is repeated after an error must not count an item twice.
        self.recount(&images, &outputs);
        Ok(outcome)
    }

    /// Adds items to the three-way comparison.
    fn recount(&self, items: &[(&IdentifiedItem<'_>, Image<'static>)], outputs: &RememberedOutputs) {
        let Some(check) = &self.arguments.three_way else { return };
        let mut targets = RollupTargets::of(self.model());
        let mut state = self.lock();
        for (item, image) in items {
            // An item that cannot be counted is a finding of its own.
            let projection = self.judge.projector.project(item, image, None, outputs, &mut targets);
            let contributions = projection.map(|projection| projection.contributions).unwrap_or_default();
            state.three_way.add(check, self.model(), item, &contributions, &targets);
        }
    }

    /// Compares the application's counters with rollups and recounts.
    async fn compare_three_ways(&self) -> Result<(Vec<VerifyFinding>, JobTotals)> {
        let (mut findings, mut totals) = (Vec::new(), JobTotals::new());
        let Some(check) = &self.arguments.three_way else { return Ok((findings, totals)) };
        let mut places = self.lock().three_way.places();
        places.retain(|place| self.arguments.judges_rollup(self.model(), place));
        for places in places.chunks(READ_ROLLUPS) {
            let keys: Vec<_> =
                places.iter().map(|(partition, sort)| self.judge.state.key(partition, sort)).collect();
            let rollups = self.judge.tables.read(&keys).await?.items;
            let state = self.lock();
            for (place, rollup) in places.iter().zip(rollups) {
                for finding in state.three_way.judge(check, place, rollup.as_ref()) {
                    count_comparison(&mut totals, finding.as_ref());
                    findings.extend(finding);
                }
            }
        }
        Ok((findings, totals))
    }

    /// Phase 4: entries that count something although their items do not exist, or are not the tenant's any more.
    async fn entries(&self, unit: &WorkUnit, segment: u32) -> Result<StepOutcome> {
        let (page, mut outcome) = self.page(unit, &self.context.state_table, segment, false).await?;
        let mut targets = RollupTargets::of(self.model());
        let mut sources: Vec<SourceKey<'static>> = Vec::new();
        for item in &page.items {
            let StateItem::Entry(source, entry) = self.judge.state.classify(item) else { continue };
            let Some(source) = source else {
                *outcome.totals.entry("hashed_entries".to_owned()).or_default() += 1;
                continue;
            };
            let entry = self.judge.state.decode_entry(entry, &mut targets);
            let counting = (entry.as_ref().ok(), &targets);
            let is_judged = self.arguments.judges_entry(self.model(), &source, counting);
            let counted = counted_by(self.model(), entry)?;
            if counted != EntryCount::Nothing && is_judged {
                if counted == EntryCount::ByModel && !source.candidates(self.model()).any(Entity::is_used) {
                    *outcome.totals.entry(FOREIGN_ENTRIES.to_owned()).or_default() += 1;
                }
                sources.push(source);
            }
        }
        let unseen = self.arguments.unseen(&self.judge, sources).await?;
        outcome.totals.extend(self.judge_keys(&unseen).await?);
        Ok(outcome)
    }

    async fn judge_keys(&self, sources: &[SourceKey<'_>]) -> Result<JobTotals> {
        let first = judge_first(&self.judge, sources, self.context.clock.now()).await?;
        for suspects in first.suspects.chunks(ENTRY_ITEMS) {
            self.note([VerifyEntry::Items(suspects.iter().map(StoredSuspect::from).collect())]).await?;
        }
        let decided = self.lock().decide(&first.decided_entities);
        if !decided.is_empty() {
            self.note([VerifyEntry::Decided(decided)]).await?;
        }
        self.lock().suspects.extend(first.suspects);
        let items = u64::try_from(sources.len()).unwrap_or(u64::MAX);
        let mut totals = first.parts.totals(false);
        totals.extend([("items".to_owned(), items), ("items_confirmed".to_owned(), first.confirmed)]);
        Ok(totals)
    }

    /// Phase 5: suspected items; and the revisions of suspected rollups, before the ledger is read again.
    async fn recheck(&self) -> Result<StepOutcome> {
        // A step that is repeated after an error judges all of them again.
        let mut suspects = self.lock().suspects.clone();
        let mut results = VerifyState::default();
        let mut items_confirmed = 0;
        while !suspects.is_empty() {
            let ripe_at = suspects.iter().map(|suspect| suspect.seen_at.plus(self.tolerance.duration)).max();
            if self.until.is_some_and(|until| ripe_at.is_some_and(|ripe_at| ripe_at >= until)) {
                results.findings.extend(suspects.iter().map(|suspect| out_of_time(&self.judge, suspect)));
                break;
            }
            let judged =
                judge_suspects(&self.judge, &self.context.clock, suspects, &self.tolerance, &mut results)
                    .await?;
            items_confirmed += judged.1;
            suspects = judged.0;
        }
        let places: Vec<RollupPlace> = self.lock().suspect_rollups.iter().cloned().collect();
        let keys: Vec<_> =
            places.iter().map(|(partition, sort)| self.judge.state.key(partition, sort)).collect();
        let rollups = self.judge.tables.read(&keys).await?.items;
        let mut state = self.lock();
        state.findings.extend(results.findings);
        state.decided_entities.extend(results.decided_entities);
        state.suspect_sums = LedgerSums::default();
        for (place, item) in places.into_iter().zip(rollups) {
            note_revision(&mut state.suspect_sums, place, &item.unwrap_or_default());
        }
        let mut totals = results.rechecked_parts.totals(true);
        totals.insert("items_rechecked".to_owned(), items_confirmed);
        Ok(StepOutcome { totals, ..StepOutcome::default() })
    }
}

fn counted<const N: usize>(totals: [(&str, u64); N]) -> StepOutcome {
    let totals = totals.into_iter().map(|(name, number)| (name.to_owned(), number)).collect();
    StepOutcome { totals, ..StepOutcome::default() }
}

impl<T: Tables + TableScan + Clone, C: Clock> JobTask for VerifyTask<T, C> {
    async fn step(&self, unit: &WorkUnit) -> Result<StepOutcome> {
        match self.parts.find(unit).copied() {
            Some(VerifyPart::Revisions { segment }) => self.revisions(unit, segment).await,
            Some(VerifyPart::Ledger { segment }) => self.ledger(unit, segment, false).await,
            Some(VerifyPart::Rollups) => self.rollups().await,
            Some(VerifyPart::Items { table, segment }) => Box::pin(self.items(unit, table, segment)).await,
            Some(VerifyPart::Entries { segment }) => Box::pin(self.entries(unit, segment)).await,
            Some(VerifyPart::Recheck) => Box::pin(self.recheck()).await,
            Some(VerifyPart::SuspectedLedger { segment }) => self.ledger(unit, segment, true).await,
            Some(VerifyPart::SuspectedRollups) => self.suspected_rollups().await,
            None => Err(unknown_unit(unit)),
        }
    }

    fn waiting(&self) -> Option<JobWait> {
        self.tolerance.waits.current()
    }
}
