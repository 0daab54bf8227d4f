//! Repair of what the state table and the application's items show.

use std::collections::BTreeSet;
use std::time::Duration;

use afterwrite_ledger::tables::{TableScan, Tables, WriteError};
use afterwrite_ledger::{ItemRecords, SourceItem, StateItems};
use afterwrite_model::clock::Clock;
use afterwrite_model::effect::{AttributeChange, Write, WriteAction, WriteCondition, WriteRefusal};
use afterwrite_model::entity::SourceKey;
use afterwrite_model::record::{AttributePath, AttributeValue, Decimal};
use afterwrite_model::{Error, ErrorKind, Result};

use super::log::{RepairLogEntry, RepairOutcome, RepairWrite};
use crate::DeploymentContext;
use crate::jobs::JobWait;
use crate::verify::{
    FindingPlace, FindingVerdict, RollupPlace, RollupReading, SumVerdict, Tolerance, VerifyFinding,
    check_generation, expected_values, judge, read_sums, recheck_findings,
};

/// The time limit of a reconciliation.
const RECONCILE_TIME: Duration = Duration::from_secs(60);
/// The items that are reconciled at once.
const ITEMS_AT_ONCE: usize = 100;

/// Repairs findings.
#[derive(Debug)]
pub struct DriftRepairer<T, C> {
    context: DeploymentContext<T, C>,
    state: StateItems,
    tolerance: Tolerance,
    is_dry_run: bool,
}

/// Whether other places of an item were not judged because of this finding.
fn hides_others(finding: &VerifyFinding) -> bool {
    match finding.place {
        FindingPlace::Ledger | FindingPlace::UnreadableEntry => true,
        FindingPlace::Rollup
        | FindingPlace::Extreme
        | FindingPlace::Mirror
        | FindingPlace::ThreeWay
        | FindingPlace::Dataset => finding.verdict == FindingVerdict::Undecided,
    }
}

impl<T: Tables + TableScan + Clone, C: Clock + Clone> DriftRepairer<T, C> {
    /// A repair of these tables. A dry run uses tables whose writes stay in memory.
    #[must_use]
    pub fn new(context: DeploymentContext<T, C>, tolerance: Duration) -> Self {
        Self { state: context.state_items(), context, tolerance: tolerance.into(), is_dry_run: false }
    }

    /// The log says what would be written.
    #[must_use]
    pub fn dry(mut self) -> Self {
        self.is_dry_run = true;
        self
    }

    /// The current wait of the repair.
    pub(super) fn waiting(&self) -> Option<JobWait> {
        self.tolerance.waits.current()
    }

    /// Judges findings again and repairs those that are still drift. Returns a log with a line for each finding; findings about datasets
    /// are ignored, see [`super::DatasetRepairer`].
    ///
    /// # Errors
    /// As [`Tables::read`]; an error of a single repair is in the log.
    pub async fn repair(&self, findings: &[VerifyFinding]) -> Result<Vec<RepairLogEntry>> {
        check_generation(&self.context.model, findings)?;
        let of_state = findings.iter().filter(|finding| finding.place != FindingPlace::Dataset);
        let (of_application, of_derived): (Vec<_>, Vec<_>) =
            of_state.cloned().partition(|finding| finding.place == FindingPlace::ThreeWay);
        let (of_items, others): (Vec<_>, Vec<_>) =
            of_derived.into_iter().partition(|finding| finding.source(&self.context.model).is_some());
        let (of_rollups, of_others): (Vec<_>, Vec<_>) =
            others.into_iter().partition(|finding| finding.rollup(&self.context.model).is_some());
        let now = recheck_findings(&self.context, self.tolerance.clone(), &of_items).await?;
        let mut log = self.already_right(&of_items, &now);
        log.extend(of_application.into_iter().map(|finding| RepairLogEntry {
            finding,
            outcome: RepairOutcome::Failed,
            action: "the application's own counter is the application's to repair".to_owned(),
        }));
        log.extend(of_others.into_iter().map(|finding| RepairLogEntry {
            finding,
            outcome: RepairOutcome::Failed,
            action: "no entity or rollup of the model has this key: nothing was written".to_owned(),
        }));
        let drifted: Vec<_> =
            now.into_iter().filter(|finding| finding.verdict == FindingVerdict::Drift).collect();
        log.extend(self.repair_items(drifted).await?);
        log.extend(self.repair_rollups(&of_rollups).await?);
        Ok(log)
    }

    /// The lines of findings that are right by now, or cannot be decided.
    fn already_right(&self, before: &[VerifyFinding], now: &[VerifyFinding]) -> Vec<RepairLogEntry> {
        let is_drift = |finding: &&VerifyFinding| {
            now.iter().any(|other| other.verdict == FindingVerdict::Drift && finding.is_repeated_by(other))
        };
        let others = before.iter().filter(|finding| !is_drift(finding));
        others
            .map(|finding| {
                let is_open = now.iter().any(|other| finding.has_item_of(other) && hides_others(other));
                RepairLogEntry {
                    finding: finding.clone(),
                    outcome: if is_open { RepairOutcome::Changed } else { RepairOutcome::AlreadyRight },
                    action: "nothing was written".to_owned(),
                }
            })
            .collect()
    }

    /// Reconciles items.
    async fn repair_items(&self, findings: Vec<VerifyFinding>) -> Result<Vec<RepairLogEntry>> {
        let mut log = Vec::with_capacity(findings.len());
        for findings in findings.chunks(ITEMS_AT_ONCE) {
            for table in 0..self.context.model.tables.len() {
                let of_table: Vec<(VerifyFinding, SourceKey<'static>)> = findings
                    .iter()
                    .filter_map(|finding| Some((finding.clone(), finding.source(&self.context.model)?)))
                    .filter(|(_, source)| source.table == table)
                    .collect();
                let sources: BTreeSet<SourceKey<'static>> =
                    of_table.iter().map(|(_, source)| source.clone()).collect();
                let failed = self.reconcile(table, &sources.into_iter().collect::<Vec<_>>()).await?;
                for (finding, source) in of_table {
                    let error = failed.iter().find(|(known, _)| *known == source).map(|(_, error)| error);
                    log.push(match error {
                        None => RepairLogEntry::written(finding, RepairWrite::Item, self.is_dry_run),
                        Some(error) => RepairLogEntry {
                            finding,
                            outcome: RepairOutcome::Failed,
                            action: error.to_string(),
                        },
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
        // Items without records fail as index 0, and copies without an index: a failure is assigned by reconciling one by one.
        if outcome.failures.is_empty() && outcome.unwritable_mirrors.is_empty() {
            return Ok(Vec::new());
        }
        let mut failed = Vec::new();
        for (source, candidates) in &identified {
            let item = SourceItem { source, candidates, records: ItemRecords::new() };
            let deadline = self.context.clock.now().plus(RECONCILE_TIME);
            let outcome = ledger.reconcile(vec![item], &label, deadline).await?;
            let errors = outcome.failures.into_iter().map(|failure| failure.error);
            let errors = errors.chain(outcome.unwritable_mirrors);
            failed.extend(errors.map(|error| ((*source).clone(), error)));
        }
        Ok(failed)
    }

    /// Judges rollups, and sets those that differ.
    async fn repair_rollups(&self, findings: &[VerifyFinding]) -> Result<Vec<RepairLogEntry>> {
        let DeploymentContext { model, clock, .. } = &self.context;
        let places: BTreeSet<RollupPlace> =
            findings.iter().filter_map(|finding| finding.rollup(model)).collect();
        if places.is_empty() {
            return Ok(Vec::new());
        }
        let readings = read_sums(&self.context, &places).await?;
        let mut log = Vec::with_capacity(readings.len());
        let mut shown: Vec<SourceKey<'static>> = Vec::new();
        for reading in readings {
            let before =
                findings.iter().find(|finding| finding.rollup(model).as_ref() == Some(&reading.place));
            let sum = (&reading.sum, reading.unreadable_entries);
            let verdict = judge(model, &reading.place, sum, reading.item.as_ref(), clock.now());
            log.push(match (verdict, before) {
                (SumVerdict::Differs(finding), _) => {
                    let entry = self.set_rollup(&reading, finding).await?;
                    if matches!(entry.outcome, RepairOutcome::Repaired | RepairOutcome::WouldBeRepaired) {
                        shown.extend(self.mirroring_items(&reading.place));
                    }
                    entry
                }
                (SumVerdict::Changed(finding), _) => RepairLogEntry {
                    finding,
                    outcome: RepairOutcome::Changed,
                    action: "nothing was written".to_owned(),
                },
                (SumVerdict::Confirmed | SumVerdict::Expired, Some(before)) => RepairLogEntry {
                    finding: before.clone(),
                    outcome: RepairOutcome::AlreadyRight,
                    action: "nothing was written".to_owned(),
                },
                (SumVerdict::Confirmed | SumVerdict::Expired, None) => continue,
            });
        }
        log.extend(self.refresh_copies(shown).await?);
        Ok(log)
    }

    /// Refreshes the copies of repaired measures; returns a line for each item whose copy was not written.
    async fn refresh_copies(&self, shown: Vec<SourceKey<'static>>) -> Result<Vec<RepairLogEntry>> {
        let model = &self.context.model;
        let mut log = Vec::new();
        for table in 0..model.tables.len() {
            let of_table: Vec<_> = shown.iter().filter(|source| source.table == table).cloned().collect();
            let failed = self.reconcile(table, &of_table).await?;
            log.extend(failed.into_iter().map(|(source, error)| RepairLogEntry {
                finding: VerifyFinding::of_source(FindingPlace::Mirror, model, &source),
                outcome: RepairOutcome::Failed,
                action: error.to_string(),
            }));
        }
        Ok(log)
    }

    /// Sets a rollup's sums and averages, unless it has changed since it was judged.
    async fn set_rollup(&self, reading: &RollupReading, finding: VerifyFinding) -> Result<RepairLogEntry> {
        let expected =
            expected_values(&self.context.model, &reading.place, &reading.sum, reading.item.as_ref());
        let mut changes = vec![
            AttributeChange::Set(AttributePath::from("EntityType"), "ROLLUP".into()),
            AttributeChange::Add(AttributePath::from("rev"), Decimal::ONE),
        ];
        if let Some(expires_at) = reading.sum.expires_at {
            let value = Decimal::from(expires_at.epoch_seconds()).into();
            changes.push(AttributeChange::Set(AttributePath::from("expires_at"), value));
        }
        for name in finding.values.keys() {
            let path = AttributePath::from(name.as_str());
            let value = expected.get(name).cloned().flatten().and_then(|text| text.parse::<Decimal>().ok());
            changes.push(match value {
                Some(number) => AttributeChange::Set(path, AttributeValue::N(number)),
                None => AttributeChange::Remove(path),
            });
        }
        let condition = match (&reading.item, &reading.sum.rev) {
            (_, Some(rev)) => {
                WriteCondition::Equals(AttributePath::from("rev"), AttributeValue::N(rev.clone()))
            }
            (Some(_), None) => WriteCondition::All(vec![
                WriteCondition::ItemExists,
                WriteCondition::Absent(AttributePath::from("rev")),
            ]),
            (None, None) => WriteCondition::ItemAbsent,
        };
        let key = self.state.key(&reading.place.0, &reading.place.1);
        let write = Write { key, condition, action: WriteAction::Update(changes) };
        let (outcome, action) = match self.context.tables.write(&write).await {
            Ok(_) => return Ok(RepairLogEntry::written(finding, RepairWrite::Measures, self.is_dry_run)),
            Err(WriteError::Refused(
                WriteRefusal::Condition(_) | WriteRefusal::Conflict | WriteRefusal::Throttled,
            )) => (RepairOutcome::Changed, "nothing was written".to_owned()),
            Err(WriteError::Refused(WriteRefusal::Invalid(reason))) => (RepairOutcome::Failed, reason),
            Err(WriteError::Failed(error)) => return Err(error),
        };
        Ok(RepairLogEntry { finding, outcome, action })
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
