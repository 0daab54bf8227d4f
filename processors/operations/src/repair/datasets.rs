//! Repair of datasets: rows are added to the dataset's log, and the next compaction derives the current rows from them.
//!
//! | difference | rows that are added | condition |
//! |---|---|---|
//! | an item without its row, or with a row that differs | `SNAPSHOT`: the item as it is now | the item exists |
//! | a row without its item | `SNAPSHOT` and `REMOVE` in the row's day | the item does not exist, or belongs to another day |
//!
//! A snapshot does not win over rows of the stream that are less than 15 minutes older. If the dataset's log has such a row of the item, the
//! repair waits until it is old enough.

use std::time::Duration;

use afterwrite_datasets::export::removal::ForeignRow;
use afterwrite_datasets::export::snapshot::{ReadItem, TableReading};
use afterwrite_datasets::schema::SNAPSHOT_LAG;
use afterwrite_ledger::tables::{TableScan, Tables};
use afterwrite_model::clock::Clock;
use afterwrite_model::entity::SourceKey;
use afterwrite_model::record::{Item, Timestamp};
use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_services::Bucket;

use super::log::{RepairLogEntry, RepairOutcome, RepairWrite};
use crate::jobs::WaitReason;
use crate::verify::{
    DatasetJudge, JudgedRow, RowDifference, RowVerdicts, VerifyFinding, candidates_of, check_generation,
    is_unknown_row,
};

/// The time limit of the commits.
const COMMIT_TIME: Duration = Duration::from_secs(120);
/// The rows that are repaired at once.
const ROWS_AT_ONCE: usize = 500;

/// Repairs rows of datasets.
#[derive(Debug)]
pub struct DatasetRepairer<'r, B, T, C> {
    judge: &'r DatasetJudge<B, T, C>,
    source: String,
    is_dry_run: bool,
}

/// A row and its item before the repair.
struct RepairedRow<'r> {
    judged: &'r JudgedRow,
    source: SourceKey<'static>,
    item: Option<Item>,
}

impl<'r, B: Bucket, T: Tables + TableScan, C: Clock> DatasetRepairer<'r, B, T, C> {
    /// A repair of what this judge finds. `id` distinguishes the files of this repair from those of others. A dry run writes nothing.
    #[must_use]
    pub fn new(judge: &'r DatasetJudge<B, T, C>, id: &str, is_dry_run: bool) -> Self {
        Self { judge, source: format!("repair/{id}"), is_dry_run }
    }

    /// Judges findings about datasets again and repairs the findings that are still drift. Returns the repair log, with a line
    /// for each difference; other findings are ignored.
    ///
    /// # Errors
    /// As [`Tables::read`] and [`Bucket`].
    pub async fn repair(&self, findings: &[VerifyFinding]) -> Result<Vec<RepairLogEntry>> {
        let of_datasets = findings.iter().filter(|finding| finding.subject.row().is_some());
        let of_datasets: Vec<&VerifyFinding> = of_datasets.collect();
        check_generation(self.judge.model(), of_datasets.iter().copied())?;
        let candidates = candidates_of(self.judge.model(), of_datasets.iter().copied());
        let verdicts = Box::pin(self.judge.judge(candidates)).await?;
        let (unknown, known): (Vec<_>, Vec<_>) =
            of_datasets.into_iter().partition(|finding| is_unknown_row(self.judge.model(), finding));
        let mut log = not_repaired(&known, &verdicts);
        log.extend(unknown.into_iter().map(|finding| {
            let reason = "the model has no such dataset, or no entity of the row: nothing was written";
            RepairLogEntry::failed(finding.clone(), reason)
        }));
        for rows in verdicts.drifted.chunks(ROWS_AT_ONCE) {
            log.extend(Box::pin(self.repair_rows(rows)).await?);
        }
        Ok(log)
    }

    async fn repair_rows(&self, rows: &[JudgedRow]) -> Result<Vec<RepairLogEntry>> {
        let clock = self.judge.exporter.clock();
        let now = clock.now();
        let mut log = Vec::with_capacity(rows.len());
        let (mut wait, mut repairable) = (Duration::ZERO, Vec::with_capacity(rows.len()));
        for row in rows {
            let replaceable_at = replaceable_at(row).map_or(now, |at| at.max(now));
            if replaceable_at.since(now) > SNAPSHOT_LAG + COMMIT_TIME {
                let action = "the newest row is dated in the future, so that no snapshot replaces it: remove it with the program that wrote it";
                log.push(RepairLogEntry::failed(row.finding.clone(), action));
            } else if !row.key.is_known() || !self.has_identity(row) {
                let action =
                    "the row's key is of no item of the model: remove the row with the program that wrote it";
                log.push(RepairLogEntry::failed(row.finding.clone(), action));
            } else {
                wait = wait.max(replaceable_at.since(now));
                repairable.push(row);
            }
        }
        if !self.is_dry_run && !wait.is_zero() {
            self.judge.waits().sleep(clock, WaitReason::SnapshotOrder, wait, 0).await;
        }
        for table in 0..self.judge.model().tables.len() {
            let of_table: Vec<&JudgedRow> =
                repairable.iter().copied().filter(|row| row.key.source().table == table).collect();
            if !of_table.is_empty() {
                log.extend(Box::pin(self.repair_table(table, &of_table)).await?);
            }
        }
        Ok(log)
    }

    fn has_identity(&self, row: &JudgedRow) -> bool {
        let source = row.key.source();
        let candidates = source.candidates(self.judge.model());
        candidates.any(|entity| entity.datasets.contains(&row.key.dataset))
    }

    /// Repairs rows of the items of one table.
    async fn repair_table(&self, table: usize, rows: &[&JudgedRow]) -> Result<Vec<RepairLogEntry>> {
        let judge = self.judge;
        let name = judge.exporter.tables().get(table).cloned().unwrap_or_default();
        let described = judge.tables.describe(&name).await?;
        let label = described.stream_label.ok_or_else(|| {
            Error::new(ErrorKind::Configuration, "the table has no stream").with("table", &*name)
        })?;
        let reading =
            TableReading { source: &self.source, stream_label: &label, read_at: described.described_at };
        let sources: Vec<_> = rows.iter().map(|row| row.key.source()).collect();
        let keys: Vec<_> = sources
            .iter()
            .map(|source| judge.state.source_item_key(source))
            .collect::<Option<_>>()
            .ok_or_else(|| {
                Error::new(ErrorKind::Configuration, "a key does not match the key schema of its table")
            })?;
        let items = judge.tables.read(&keys).await?.items;
        let rows = rows.iter().zip(sources).zip(items);
        let rows: Vec<RepairedRow<'_>> =
            rows.map(|((judged, source), item)| RepairedRow { judged, source, item }).collect();
        let mut log = Box::pin(self.add_items(&reading, &rows)).await?;
        log.extend(Box::pin(self.end_rows(&reading, &rows)).await?);
        Ok(log)
    }

    /// Adds a snapshot of each item whose row is missing or differs.
    async fn add_items(
        &self,
        reading: &TableReading<'_>,
        rows: &[RepairedRow<'_>],
    ) -> Result<Vec<RepairLogEntry>> {
        let of_items = rows.iter().filter(|row| match row.difference() {
            Some(RowDifference::Missing | RowDifference::Different) => true,
            Some(RowDifference::Foreign) | None => false,
        });
        let (present, gone): (Vec<_>, Vec<_>) = of_items.partition(|row| row.item.is_some());
        let model = self.judge.model();
        let mut items: Vec<ReadItem<'_>> = Vec::with_capacity(present.len());
        for row in &present {
            let candidates = row.source.candidates(model);
            items.extend(row.item.as_ref().map(|item| ReadItem { candidates, item }));
        }
        if !self.is_dry_run && !items.is_empty() {
            let deadline = self.judge.exporter.clock().now().plus(COMMIT_TIME);
            Box::pin(self.judge.exporter.add_snapshot(reading, &items, deadline)).await?;
        }
        let repaired = present.iter().map(|row| self.written(row.judged, RepairWrite::Row));
        let deleted = gone.iter().map(|row| changed(row.judged, "nothing was written: the item was deleted"));
        Ok(repaired.chain(deleted).collect())
    }

    /// Ends rows that belong to no item, if that is still so.
    async fn end_rows(
        &self,
        reading: &TableReading<'_>,
        rows: &[RepairedRow<'_>],
    ) -> Result<Vec<RepairLogEntry>> {
        let foreign = rows.iter().filter(|row| row.difference() == Some(RowDifference::Foreign));
        let foreign: Vec<&RepairedRow<'_>> = foreign.collect();
        let mut ended = Vec::with_capacity(foreign.len());
        let mut log = Vec::with_capacity(foreign.len());
        for row in &foreign {
            if self.belongs(row).await? {
                log.push(changed(row.judged, "nothing was written: the item exists by now"));
                continue;
            }
            log.push(self.written(row.judged, RepairWrite::Removal));
            let dataset = row.judged.key.dataset;
            let candidates = row.source.candidates(self.judge.model());
            let identity = candidates.iter().find(|identity| identity.entity.datasets.contains(&dataset));
            ended.extend(identity.cloned().map(|identity| ForeignRow {
                identity,
                dataset,
                day: row.judged.day.clone(),
            }));
        }
        if !self.is_dry_run && !ended.is_empty() {
            let deadline = self.judge.exporter.clock().now().plus(COMMIT_TIME);
            Box::pin(self.judge.exporter.add_removals(reading, &ended, deadline)).await?;
        }
        Ok(log)
    }

    fn written(&self, row: &JudgedRow, write: RepairWrite) -> RepairLogEntry {
        RepairLogEntry::written(row.finding.clone(), write, self.is_dry_run)
    }

    /// Whether the item exists and belongs to the day of the row.
    async fn belongs(&self, row: &RepairedRow<'_>) -> Result<bool> {
        let Some(item) = &row.item else { return Ok(false) };
        let candidates = row.source.candidates(self.judge.model());
        let expected = self.judge.exporter.expected_rows(&[ReadItem { candidates, item }]).await?;
        let of_dataset = expected.iter().filter(|rows| rows.dataset == row.judged.key.dataset);
        Ok(of_dataset.flat_map(|rows| &rows.days).any(|day| *day == row.judged.day))
    }
}

impl RepairedRow<'_> {
    fn difference(&self) -> Option<RowDifference> {
        self.judged.finding.subject.row().map(|row| row.difference)
    }
}

/// When a snapshot wins over the newest row that the dataset's log has; `None` if it does not have to.
fn replaceable_at(row: &JudgedRow) -> Option<Timestamp> {
    let changed_at = row.changed_at.filter(|_| !row.is_derivable)?;
    Some(Timestamp::from_epoch_ms(changed_at).plus(SNAPSHOT_LAG + Duration::from_secs(1)))
}

/// The line of a row that changed before it could be repaired.
fn changed(row: &JudgedRow, action: &str) -> RepairLogEntry {
    RepairLogEntry {
        finding: row.finding.clone(),
        outcome: RepairOutcome::Changed,
        action: action.to_owned(),
    }
}

/// The lines of findings that are right by now, or cannot be decided.
fn not_repaired(findings: &[&VerifyFinding], verdicts: &RowVerdicts) -> Vec<RepairLogEntry> {
    let is_same = |one: &VerifyFinding, other: &VerifyFinding| {
        let dataset = |finding: &VerifyFinding| finding.subject.row().map(|row| row.dataset.clone());
        one.subject.key() == other.subject.key() && dataset(one) == dataset(other)
    };
    let others =
        findings.iter().filter(|finding| !verdicts.drifted.iter().any(|row| is_same(&row.finding, finding)));
    let line = |finding: &&&VerifyFinding| {
        let is_open = verdicts.undecided.iter().any(|other| is_same(other, finding));
        let outcome = if is_open { RepairOutcome::Changed } else { RepairOutcome::AlreadyRight };
        RepairLogEntry::unwritten((**finding).clone(), outcome)
    };
    others.map(|finding| line(&finding)).collect()
}
