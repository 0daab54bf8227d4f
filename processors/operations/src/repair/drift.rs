//! Repair of what the state table and the application's items show.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use afterwrite_ledger::state::rollup_correction;
use afterwrite_ledger::tables::{TableScan, Tables, WriteError};
use afterwrite_ledger::{ItemRecords, SourceItem, StateItems, StoredEntry};
use afterwrite_model::clock::Clock;
use afterwrite_model::effect::WriteRefusal;
use afterwrite_model::entity::SourceKey;
use afterwrite_model::projection::RollupTargets;
use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_preview::tables::OverlayTables;

use super::log::{RepairLogEntry, RepairOutcome, RepairWrite};
use super::written::NotedWrites;
use crate::DeploymentContext;
use crate::dropped::UnreportedDrops;
use crate::jobs::{JobTotals, JobWait};
use crate::lives::read_entries;
use crate::verify::{
    FindingLife, FindingSubject, FoundItem, RollupPlace, RollupReading, SumVerdict, Tolerance, VerifyFinding,
    check_generation, expected_values, is_rollup, judge, may_be_settled, read_sums, recheck_items,
};

/// The time limit of a reconciliation.
const RECONCILE_TIME: Duration = Duration::from_secs(60);
/// The items that are reconciled at once.
const ITEMS_AT_ONCE: usize = 100;
/// The rollups that are judged at once.
const SOURCES_AT_ONCE: usize = 1_000;
const UNKNOWN_KEY: &str = "no entity or rollup of the model has this key: nothing was written";

/// Repairs findings.
#[derive(Debug)]
pub struct DriftRepairer<T, C> {
    context: DeploymentContext<NotedWrites<T>, C>,
    state: StateItems,
    tolerance: Tolerance,
    dropped: UnreportedDrops,
    is_dry_run: bool,
}

/// Whether other places of an item were not judged because of this finding.
fn hides_others(finding: &VerifyFinding) -> bool {
    match finding.subject {
        FindingSubject::Entry(..) | FindingSubject::UnreadableEntry(_) => true,
        FindingSubject::Rollup(_)
        | FindingSubject::Extreme(_)
        | FindingSubject::Mirror(_)
        | FindingSubject::ThreeWay(_)
        | FindingSubject::Row(..) => !finding.is_drift(),
    }
}

impl<T: Tables + TableScan + Clone, C: Clock + Clone> DriftRepairer<Arc<OverlayTables<T>>, C> {
    /// A dry run: writes to these tables stay in memory, and the log says what would be written.
    #[must_use]
    pub fn dry_run(context: DeploymentContext<T, C>, tolerance: Duration) -> Self {
        let overlay = Arc::new(OverlayTables::new(context.tables.clone()));
        Self { is_dry_run: true, ..Self::new(context.with_tables(overlay), tolerance) }
    }
}

impl<T: Tables + TableScan + Clone, C: Clock + Clone> DriftRepairer<T, C> {
    /// A repair that writes to these tables.
    #[must_use]
    pub fn new(context: DeploymentContext<T, C>, tolerance: Duration) -> Self {
        let tables = NotedWrites::new(context.tables.clone(), &context.state_table);
        let context = context.with_tables(tables);
        let (state, dropped) = (context.state_items(), UnreportedDrops::default());
        Self { state, context, tolerance: tolerance.into(), dropped, is_dry_run: false }
    }

    /// The tables that this repair writes to; in a dry run, the tables with the writes in memory.
    #[must_use]
    pub fn tables(&self) -> T {
        self.context.tables.base()
    }

    pub(super) fn is_dry_run(&self) -> bool {
        self.is_dry_run
    }

    /// The current wait of the repair.
    pub(super) fn waiting(&self) -> Option<JobWait> {
        self.tolerance.waits.current()
    }

    /// Adds the contributions that were dropped since the last call.
    pub(super) fn report_dropped(&self, totals: &mut JobTotals) {
        self.dropped.report(totals);
    }

    /// Judges findings about items again, and reconciles the items that have drifted. Returns a log with a line for each finding; findings
    /// about rollups and rows are ignored.
    ///
    /// # Errors
    /// As [`Tables::read`]; an error of a single repair is in the log.
    pub(super) async fn repair_items(&self, findings: &[VerifyFinding]) -> Result<Vec<RepairLogEntry>> {
        let model = &self.context.model;
        check_generation(model, findings)?;
        let (mut log, mut known, mut sources) = (Vec::new(), Vec::new(), BTreeSet::new());
        for finding in findings {
            match &finding.subject {
                FindingSubject::Entry(item, _)
                | FindingSubject::UnreadableEntry(item)
                | FindingSubject::Extreme(item)
                | FindingSubject::Mirror(item) => match item.source(model) {
                    Some(source) => {
                        known.push(finding);
                        sources.insert(source);
                    }
                    None => log.push(RepairLogEntry::failed(finding.clone(), UNKNOWN_KEY)),
                },
                FindingSubject::ThreeWay(_) => {
                    let reason = "the application's own counter is the application's to repair";
                    log.push(RepairLogEntry::failed(finding.clone(), reason));
                }
                FindingSubject::Rollup(_) | FindingSubject::Row(..) => {}
            }
        }
        let rechecked = recheck_items(&self.context, &self.tolerance, sources).await?;
        let without_drift: Vec<RepairLogEntry> =
            known.into_iter().filter_map(|finding| line_without_drift(finding, &rechecked)).collect();
        log.extend(self.with_open_lives(without_drift).await?);
        let drifted: Vec<_> = rechecked.into_iter().filter(VerifyFinding::is_drift).collect();
        let (expired, others): (Vec<_>, Vec<_>) =
            drifted.into_iter().partition(|finding| finding.subject.life() == Some(FindingLife::Expired));
        log.extend(
            expired.into_iter().map(|finding| RepairLogEntry::failed(finding, FindingLife::Expired.cause())),
        );
        log.extend(self.reconcile_items(others).await?);
        Ok(log)
    }

    /// Lines without the lives that a record has shown meanwhile. The entry of an item that a killed process of this repair has reconciled
    /// names its life.
    async fn with_open_lives(&self, mut log: Vec<RepairLogEntry>) -> Result<Vec<RepairLogEntry>> {
        let DeploymentContext { model, tables, clock, .. } = &self.context;
        let source = |entry: &RepairLogEntry| {
            entry.finding.subject.life()?;
            entry.finding.subject.item()?.source(model)
        };
        let sources: BTreeSet<SourceKey<'static>> = log.iter().filter_map(source).collect();
        let entries = read_entries((tables, &self.state), &sources, &mut RollupTargets::of(model)).await?;
        let now = clock.now();
        let is_open = |entry: &StoredEntry| entry.unrecorded.iter().any(|life| life.is_open(now));
        let named = sources.iter().zip(&entries).filter(|(_, entry)| entry.as_ref().is_some_and(is_open));
        let named: BTreeSet<&SourceKey<'_>> = named.map(|(source, _)| source).collect();
        for entry in &mut log {
            let is_over = source(entry).is_some_and(|source| !named.contains(&source));
            if let FindingSubject::Entry(_, life) = &mut entry.finding.subject {
                life.take_if(|_| is_over);
            }
        }
        Ok(log)
    }

    /// Reconciles items.
    async fn reconcile_items(&self, findings: Vec<VerifyFinding>) -> Result<Vec<RepairLogEntry>> {
        let mut log = Vec::with_capacity(findings.len());
        for findings in findings.chunks(ITEMS_AT_ONCE) {
            for table in 0..self.context.model.tables.len() {
                let keyed = findings.iter().filter_map(|finding| {
                    let source = finding.subject.item()?.source(&self.context.model)?;
                    Some((finding.clone(), source)).filter(|(_, source)| source.table == table)
                });
                let of_table: Vec<(VerifyFinding, SourceKey<'static>)> = keyed.collect();
                let sources: BTreeSet<SourceKey<'static>> =
                    of_table.iter().map(|(_, source)| source.clone()).collect();
                let failed = self.reconcile(table, &sources.into_iter().collect::<Vec<_>>()).await?;
                for (finding, source) in of_table {
                    let error = failed.iter().find(|(known, _)| *known == source).map(|(_, error)| error);
                    log.push(match error {
                        None => RepairLogEntry::written(finding, RepairWrite::Item, self.is_dry_run),
                        Some(error) => RepairLogEntry::failed(finding, error.to_string()),
                    });
                }
            }
        }
        Ok(log)
    }

    /// Reconciles items of one table; returns those that failed.
    async fn reconcile(
        &self,
        table: usize,
        sources: &[SourceKey<'static>],
    ) -> Result<Vec<(SourceKey<'static>, Error)>> {
        let Some(name) = self.context.table_names.get(table).filter(|_| !sources.is_empty()) else {
            return Ok(Vec::new());
        };
        let label = self.context.tables.describe(name).await?.stream_label.ok_or_else(|| {
            Error::new(ErrorKind::Configuration, "the table has no stream").with("table", &**name)
        })?;
        let ledger = self.context.ledger();
        let mut identified: Vec<_> =
            sources.iter().map(|source| (source, source.candidates(&self.context.model))).collect();
        identified.retain(|(_, candidates)| !candidates.is_empty());
        let items = identified.iter().map(|(source, candidates)| SourceItem {
            source,
            candidates,
            records: ItemRecords::new(),
        });
        let deadline = self.context.clock.now().plus(RECONCILE_TIME);
        let outcome = ledger.reconcile(items.collect(), &label, deadline).await?;
        self.dropped.add(&outcome.totals);
        // Items without records fail as index 0, and copies without an index: a failure is assigned by reconciling one by one.
        if outcome.failures.is_empty() && outcome.unwritable_mirrors.is_empty() {
            return Ok(Vec::new());
        }
        let mut failed = Vec::new();
        for (source, candidates) in &identified {
            let item = SourceItem { source, candidates, records: ItemRecords::new() };
            let deadline = self.context.clock.now().plus(RECONCILE_TIME);
            let outcome = ledger.reconcile(vec![item], &label, deadline).await?;
            self.dropped.add(&outcome.totals);
            let errors = outcome.failures.into_iter().map(|failure| failure.error);
            let errors = errors.chain(outcome.unwritable_mirrors);
            failed.extend(errors.map(|error| ((*source).clone(), error)));
        }
        Ok(failed)
    }

    /// Judges rollups, and sets the rollups that differ. Findings about items and rows are ignored.
    ///
    /// # Errors
    /// As [`DriftRepairer::repair_items`].
    pub(super) async fn repair_rollups(&self, findings: &[VerifyFinding]) -> Result<Vec<RepairLogEntry>> {
        let model = &self.context.model;
        check_generation(model, findings)?;
        let mut log = Vec::with_capacity(findings.len());
        let mut known: BTreeMap<RollupPlace, &VerifyFinding> = BTreeMap::new();
        for finding in findings {
            let place = match &finding.subject {
                FindingSubject::Rollup(place) => place,
                FindingSubject::Entry(..)
                | FindingSubject::UnreadableEntry(_)
                | FindingSubject::Extreme(_)
                | FindingSubject::Mirror(_)
                | FindingSubject::ThreeWay(_)
                | FindingSubject::Row(..) => continue,
            };
            if is_rollup(model, place) {
                known.entry(place.clone()).or_insert(finding);
            } else {
                log.push(RepairLogEntry::failed(finding.clone(), UNKNOWN_KEY));
            }
        }
        if known.is_empty() {
            return Ok(log);
        }
        let places = known.keys().cloned().collect();
        let mut shown: Vec<SourceKey<'static>> = Vec::new();
        for reading in read_sums(&self.context, &places).await? {
            let Some(before) = known.get(&reading.place) else { continue };
            let entry = self.repair_rollup(&reading, before).await?;
            // An attempt that failed may have set a rollup without its copies.
            if !matches!(entry.outcome, RepairOutcome::Changed | RepairOutcome::Failed) {
                shown.extend(self.mirroring_items(&reading.place));
            }
            log.push(entry);
        }
        log.extend(self.refresh_copies(shown).await?);
        Ok(log)
    }

    /// Judges a rollup, and sets it if it differs.
    async fn repair_rollup(&self, reading: &RollupReading, before: &VerifyFinding) -> Result<RepairLogEntry> {
        let DeploymentContext { model, clock, .. } = &self.context;
        let sum = (&reading.sum, reading.unreadable_entries);
        let right = || RepairLogEntry::unwritten(before.clone(), RepairOutcome::AlreadyRight);
        let entry = match judge(model, &reading.place, sum, reading.item.as_ref(), clock.now()) {
            SumVerdict::Differs(finding) => self.set_rollup(reading, finding).await?,
            SumVerdict::Undecided(finding) => RepairLogEntry::unwritten(finding, RepairOutcome::Changed),
            // A process of this repair that was killed may have set it.
            SumVerdict::Confirmed => right(),
            SumVerdict::Expired => return Ok(right()),
        };
        let was_absent = before.rev.is_none() && may_be_settled(model, &reading.place);
        Ok(if was_absent && !entry.outcome.is_left() { entry.without_settled() } else { entry })
    }

    /// Counts the rollups that were written through this repairer into the levels above, one level after the other, unless functions do; returns a line for each
    /// rollup that was counted or could not be. A rollup that is `left` as it was is not right, and is not counted.
    ///
    /// # Errors
    /// As [`DriftRepairer::repair_items`].
    pub(super) async fn repair_levels_above(
        &self,
        left: &BTreeSet<RollupPlace>,
    ) -> Result<Vec<RepairLogEntry>> {
        let mut log = Vec::new();
        loop {
            let sources: Vec<_> =
                self.context.tables.take_sources(&self.context.model, left).into_iter().collect();
            if sources.is_empty() {
                return Ok(log);
            }
            for sources in sources.chunks(SOURCES_AT_ONCE) {
                let sources = sources.iter().cloned().collect();
                let rechecked = recheck_items(&self.context, &self.tolerance, sources).await?;
                let (drifted, undecided): (Vec<_>, Vec<_>) =
                    rechecked.into_iter().partition(VerifyFinding::is_drift);
                let undecided = undecided.into_iter();
                log.extend(
                    undecided.map(|finding| RepairLogEntry::unwritten(finding, RepairOutcome::Changed)),
                );
                log.extend(self.reconcile_items(drifted).await?);
            }
        }
    }

    /// Refreshes the copies of repaired measures; returns a line for each item whose copy was not written.
    async fn refresh_copies(&self, shown: Vec<SourceKey<'static>>) -> Result<Vec<RepairLogEntry>> {
        let model = &self.context.model;
        let mut log = Vec::new();
        for table in 0..model.tables.len() {
            let of_table: Vec<_> = shown.iter().filter(|source| source.table == table).cloned().collect();
            let failed = self.reconcile(table, &of_table).await?;
            log.extend(failed.into_iter().map(|(source, error)| {
                let subject = FindingSubject::Mirror(FoundItem::of(model, &source));
                RepairLogEntry::failed(VerifyFinding::of(subject), error.to_string())
            }));
        }
        Ok(log)
    }

    /// Sets a rollup's sums and averages, unless it has changed since it was judged.
    async fn set_rollup(&self, reading: &RollupReading, finding: VerifyFinding) -> Result<RepairLogEntry> {
        let expected =
            expected_values(&self.context.model, &reading.place, &reading.sum, reading.item.as_ref());
        let values = finding.values.keys().map(|name| (name.as_str(), expected.get(name).cloned().flatten()));
        let key = self.state.key(&reading.place.0, &reading.place.1);
        let write = rollup_correction(key, reading.item.as_ref(), reading.sum.expires_at, values);
        match self.context.tables.write(&write).await {
            Ok(_) => Ok(RepairLogEntry::written(finding, RepairWrite::Measures, self.is_dry_run)),
            Err(WriteError::Refused(
                WriteRefusal::Condition(_) | WriteRefusal::Conflict | WriteRefusal::Throttled,
            )) => Ok(RepairLogEntry::unwritten(finding, RepairOutcome::Changed)),
            Err(WriteError::Refused(WriteRefusal::Invalid(reason))) => {
                Ok(RepairLogEntry::failed(finding, reason))
            }
            Err(WriteError::Failed(error)) => Err(error),
        }
    }

    /// The items that show copies of a rollup, as far as the rollup's key determines them.
    fn mirroring_items(&self, place: &RollupPlace) -> Vec<SourceKey<'static>> {
        let mirrors = self.context.model.mirrors.iter().filter_map(|mirror| {
            let rollup = self.context.model.rollups.get(mirror.from)?;
            let entity = self.context.model.entities.get(mirror.onto)?;
            let values = mirror.item_values(rollup, &place.0, &place.1)?;
            Some(SourceKey {
                table: entity.table,
                partition: entity.key.partition.render(&values).into(),
                sort: entity.key.sort.as_ref().map(|sort| sort.render(&values).into()),
            })
        });
        mirrors.collect()
    }
}

/// The line of a finding whose difference is gone, or cannot be decided, by the findings of the recheck; `None` if it is still drift.
fn line_without_drift(finding: &VerifyFinding, rechecked: &[VerifyFinding]) -> Option<RepairLogEntry> {
    if rechecked.iter().any(|other| other.is_drift() && finding.is_repeated_by(other)) {
        return None;
    }
    let mut of_item = rechecked.iter().filter(|other| other.subject.key() == finding.subject.key());
    let outcome =
        if of_item.any(hides_others) { RepairOutcome::Changed } else { RepairOutcome::AlreadyRight };
    Some(RepairLogEntry::unwritten(finding.clone(), outcome))
}
