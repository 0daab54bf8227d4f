//! The steps of a verification.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use afterwrite::clock::Clock;
use afterwrite::commit::{StateItem, StateItems};
use afterwrite::entity::SourceKey;
use afterwrite::projection::RollupTargets;
use afterwrite::record::AttributeValue;
use afterwrite::sink::{ScanPage, ScanRequest, TableScan, Tables, item_bytes};
use afterwrite::table::Model;
use afterwrite::{Error, ErrorKind, Result};

use super::finding::VerifyFinding;
use super::items::ItemJudge;
use super::recheck::SETTLE;
use super::state::{VerifyState, VerifySummary};
use super::sums::{RollupPlace, SumVerdict, add_entry, entry_of, judge, note_revision, without_shard};
use super::suspects::{judge_first, judge_suspects};
use super::{VerifyArguments, VerifyPart, parts};
use crate::cursor::{decode_cursor, encode_cursor};
use crate::items::{IdentifiedItem, identified, source_keys};
use crate::jobs::{JobTask, JobTotals, StepOutcome, WorkUnit};
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
}

/// The result of a verification.
#[derive(Clone, Debug, PartialEq)]
pub struct VerifyReport {
    /// Its numbers.
    pub summary: VerifySummary,
    /// Its findings: drift first, then by place and key.
    pub findings: Vec<VerifyFinding>,
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
        }
    }

    /// The units of the job.
    #[must_use]
    pub fn units(&self) -> Vec<WorkUnit> {
        self.parts.iter().map(|(unit, _)| unit.clone()).collect()
    }

    /// The result, once every unit is done.
    #[must_use]
    pub fn report(&self) -> VerifyReport {
        let state = self.lock();
        let mut findings = state.findings.clone();
        findings.sort_by(|one, other| {
            (one.verdict, one.place, &one.table, &one.key).cmp(&(
                other.verdict,
                other.place,
                &other.table,
                &other.key,
            ))
        });
        findings.dedup();
        VerifyReport { summary: state.summarize(), findings }
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
                rollups.iter().any(|rollup| {
                    let partition = if rollup.shards > 1 { without_shard(&place.0) } else { &place.0 };
                    tenant.owns_rollup(rollup, partition, &place.1)
                })
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
        let places: Vec<RollupPlace> = sums.keys().cloned().collect();
        let mut suspects = BTreeSet::new();
        for places in places.chunks(READ_ROLLUPS) {
            let keys: Vec<_> =
                places.iter().map(|(partition, sort)| self.judge.state.key(partition, sort)).collect();
            let items = self.judge.tables.read(&keys).await?.items;
            let mut state = self.lock();
            for (place, item) in places.iter().zip(items) {
                let Some(sum) = sums.get(place) else { continue };
                let verdict = judge(self.model(), place, sum, item.as_ref(), self.clock.now());
                state.summary.rollups += u64::from(!is_second);
                match verdict {
                    SumVerdict::Confirmed => state.summary.rollups_confirmed += 1,
                    SumVerdict::Expired => state.summary.rollups_expired += 1,
                    // One that changed is given a second chance as well.
                    SumVerdict::Differs(_) | SumVerdict::Changed(_) if !is_second => {
                        suspects.insert(place.clone());
                    }
                    SumVerdict::Differs(finding) | SumVerdict::Changed(finding) => state.find(finding),
                }
            }
        }
        self.lock().suspect_rollups = suspects;
        Ok(StepOutcome::default())
    }

    /// Phase 3: the items of a source table.
    async fn items(&self, unit: &WorkUnit, table: usize, segment: u32) -> Result<StepOutcome> {
        let name = self.table_names.get(table).cloned().unwrap_or_default();
        let (page, outcome) = self.page(unit, &name, segment, false).await?;
        let sources = source_keys(self.model(), table, &page.items);
        let mut wanted = identified(self.model(), &page.items, &sources);
        self.recount(&wanted).await?;
        wanted.retain(|item| self.judges_source(item.source));
        let wanted = self.of_tenant(wanted).await?;
        let keys: Vec<SourceKey<'_>> = wanted.iter().map(|item| item.source.clone()).collect();
        self.judge_keys(&keys).await?;
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
        let places = self.lock().three_way.places();
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
        let (page, outcome) = self.page(unit, &self.state_table, segment, false).await?;
        let mut targets = RollupTargets::of(self.model());
        let mut sources: Vec<SourceKey<'static>> = Vec::new();
        for item in &page.items {
            let StateItem::Entry(source, entry) = self.judge.state.classify(item) else { continue };
            let Some(source) = source else {
                self.lock().summary.hashed_entries += 1;
                continue;
            };
            let entry = self.judge.state.decode_entry(entry, &mut targets)?;
            let counts = !entry.contributions.by_aggregate.is_empty();
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
        self.judge_keys(&gone).await?;
        Ok(outcome)
    }

    async fn judge_keys(&self, sources: &[SourceKey<'_>]) -> Result<()> {
        let (confirmed, suspects) = judge_first(&self.judge, sources, self.clock.now()).await?;
        let mut state = self.lock();
        state.summary.items += u64::try_from(sources.len()).unwrap_or(u64::MAX);
        state.summary.items_confirmed += confirmed;
        state.suspects.extend(suspects);
        Ok(())
    }

    /// Phase 5: suspected items; and the revisions of suspected rollups, before the ledger is read again.
    async fn recheck(&self) -> Result<StepOutcome> {
        let tolerance = Duration::from_secs(self.arguments.tolerance_seconds);
        let mut suspects = std::mem::take(&mut self.lock().suspects);
        let mut results = VerifyState::default();
        while !suspects.is_empty() {
            suspects = judge_suspects(&self.judge, &self.clock, suspects, tolerance, &mut results).await?;
        }
        let places: Vec<RollupPlace> = self.lock().suspect_rollups.iter().cloned().collect();
        let keys: Vec<_> =
            places.iter().map(|(partition, sort)| self.judge.state.key(partition, sort)).collect();
        let rollups = self.judge.tables.read(&keys).await?.items;
        let mut state = self.lock();
        state.findings.extend(results.findings);
        state.summary.items_confirmed += results.summary.items_confirmed;
        state.suspect_sums.clear();
        for (place, item) in places.into_iter().zip(rollups) {
            note_revision(&mut state.suspect_sums, place, &item.unwrap_or_default());
        }
        Ok(StepOutcome::default())
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
        let identity = source.identify(self.model());
        identity.is_some_and(|identity| tenant.matches_key(&identity.entity.variables, &identity.variables))
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
            None => {
                Err(Error::new(ErrorKind::Configuration, "the job has a unit that its arguments do not name")
                    .with("unit", unit.name.as_str())
                    .hint("Start the verification again"))
            }
        }
    }
}

/// Whether a key is in a sample of this share (FNV-1a). The same key is always in it or never.
fn is_sampled(texts: &[&str], share: f64) -> bool {
    let bytes = texts.iter().flat_map(|text| text.bytes().chain(std::iter::once(0)));
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    // The highest bits are the best mixed ones.
    crate::jobs::approximate(hash >> 32) < share * 4_294_967_296.0
}
