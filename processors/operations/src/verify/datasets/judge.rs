//! The judgement of candidates: which differences are drift.
//!
//! ```text
//! first look   the item, strongly consistent, at time t
//! tolerance    longer than a change is on its way to the log
//! rows         of the log; and of the table of current rows, unless the day is pending
//! second look  the item
//! ```
//!
//! A difference between the item and the newest row of the log is drift if
//!
//! - the item is the same at both looks, and
//! - a heartbeat that was written after t has been exported, so the log has every change up to t, and
//! - the newest row of the log is from before t: no change since t has reached the log.
//!
//! Then that row is the item's newest row at t, and the item had another state at t. No change in flight explains it. If a
//! condition does not hold, the candidate is looked at again, a few times; then it is undecided.
//!
//! If the day is not pending, the current rows were derived from the very rows of the log that were read. A difference between the two is
//! drift without further conditions.

use std::collections::BTreeMap;
use std::time::Duration;

use afterwrite_ledger::tables::{TableScan, Tables};
use afterwrite_model::Result;
use afterwrite_model::clock::Clock;
use afterwrite_model::record::Timestamp;
use afterwrite_services::Bucket;

use super::keys::{DatasetKey, RowCandidate, candidates_of, is_unknown_row};
use super::look::{DatasetJudge, FoundByDay, FoundRow, FoundRows, ItemLook};
use crate::jobs::{WaitReason, count};
use crate::verify::finding::{
    ExpectedValue, FindingSubject, FoundItem, RowDifference, RowLocation, UndecidedCause, UndecidedReason,
    VerifyFinding, check_generation,
};

/// How often a candidate is looked at whose item keeps changing, or whose log is not complete yet.
const ROUNDS: u32 = 5;
/// The candidates that are judged at once.
const JUDGED_KEYS: usize = 2_000;
/// Times of records are approximate, and clocks differ by less.
const TIME_MARGIN: Duration = Duration::from_secs(60);

/// A row that differs.
#[derive(Clone, Debug)]
pub(crate) struct JudgedRow {
    pub(crate) key: DatasetKey,
    pub(crate) day: String,
    pub(crate) finding: VerifyFinding,
    /// When the newest change was made that the log has of the item in that day, in milliseconds since 1970.
    pub(crate) changed_at: Option<i64>,
    /// Whether only the table of current rows differs: deriving it again is enough.
    pub(crate) is_derivable: bool,
}

/// The judgement of candidates.
#[derive(Debug, Default)]
pub(crate) struct RowVerdicts {
    /// Candidates that are right.
    pub(crate) confirmed: u64,
    /// Rows that differ.
    pub(crate) drifted: Vec<JudgedRow>,
    /// Findings that cannot be decided.
    pub(crate) undecided: Vec<VerifyFinding>,
}

/// A candidate that waits for its second look.
struct OpenCandidate {
    candidate: RowCandidate,
    first: ItemLook,
    rounds: u32,
}

/// The judgement of a candidate at its second look.
enum CandidateVerdict {
    Right,
    Drift(Vec<JudgedRow>),
    /// The first look stays, or another one begins.
    Open {
        cause: UndecidedCause,
        is_new: bool,
    },
}

impl CandidateVerdict {
    fn moved() -> Self {
        Self::Open { cause: UndecidedCause::changed("the item moved to another day"), is_new: true }
    }
}

impl<B: Bucket, T: Tables + TableScan, C: Clock> DatasetJudge<B, T, C> {
    /// Judges candidates.
    pub(crate) async fn judge(&self, candidates: Vec<RowCandidate>) -> Result<RowVerdicts> {
        let mut verdicts = RowVerdicts::default();
        let mut open = Vec::with_capacity(candidates.len());
        for candidates in candidates.chunks(JUDGED_KEYS) {
            let keys: Vec<&DatasetKey> = candidates.iter().map(|candidate| &candidate.key).collect();
            self.check_generations(&keys).await?;
            let looks = self.look_at_items(&keys).await?;
            let looked = candidates.iter().cloned().zip(looks);
            open.extend(looked.map(|(candidate, first)| OpenCandidate { candidate, first, rounds: 0 }));
        }
        while !open.is_empty() {
            let ripe_at = open.iter().map(|open| open.first.at.plus(self.tolerance)).max();
            let clock = self.exporter.clock();
            let wait = ripe_at.map_or(Duration::ZERO, |ripe_at| ripe_at.since(clock.now()));
            // A candidate whose log is not complete keeps its first look, and waits as well.
            let is_first = open.iter().all(|open| open.rounds == 0);
            let wait = if is_first { wait } else { wait.max(self.tolerance / 2) };
            if self.until.is_some_and(|until| clock.now().plus(wait) >= until) {
                let late = open.iter().map(|open| self.undecided(open, UndecidedCause::out_of_time()));
                verdicts.undecided.extend(late);
                break;
            }
            self.waits.sleep(clock, WaitReason::Tolerance, wait, count(open.len())).await;
            let mut left = Vec::new();
            while !open.is_empty() {
                let part = open.split_off(open.len().saturating_sub(JUDGED_KEYS));
                left.extend(Box::pin(self.judge_open(part, &mut verdicts)).await?);
            }
            open = left;
        }
        Ok(verdicts)
    }

    /// The second look; returns the candidates that must be looked at again.
    async fn judge_open(
        &self,
        mut open: Vec<OpenCandidate>,
        verdicts: &mut RowVerdicts,
    ) -> Result<Vec<OpenCandidate>> {
        for OpenCandidate { candidate, first, .. } in &mut open {
            candidate.days.extend(first.expected.as_ref().map(|expected| expected.day.clone()));
        }
        let heartbeat = self.reader.exported_heartbeat().await?;
        let candidates: Vec<&RowCandidate> = open.iter().map(|open| &open.candidate).collect();
        let found = Box::pin(self.look_at_rows(&candidates)).await?;
        let keys: Vec<&DatasetKey> = candidates.iter().map(|candidate| &candidate.key).collect();
        let looks = self.look_at_items(&keys).await?;
        let mut left = Vec::new();
        for (open, second) in open.into_iter().zip(looks) {
            match self.verdict(&open, &second, &found, heartbeat) {
                CandidateVerdict::Right => verdicts.confirmed += 1,
                CandidateVerdict::Drift(rows) => verdicts.drifted.extend(rows),
                CandidateVerdict::Open { cause, .. } if open.rounds + 1 >= ROUNDS => {
                    verdicts.undecided.push(self.undecided(&open, cause));
                }
                CandidateVerdict::Open { is_new, .. } => {
                    let rounds = open.rounds + 1;
                    let first = if is_new { second } else { open.first };
                    left.push(OpenCandidate { first, rounds, ..open });
                }
            }
        }
        Ok(left)
    }

    fn verdict(
        &self,
        open: &OpenCandidate,
        second: &ItemLook,
        found: &FoundByDay,
        heartbeat: Option<Timestamp>,
    ) -> CandidateVerdict {
        let key = &open.candidate.key;
        let expected = second.expected.as_ref();
        let nothing = FoundRows::default();
        let (mut of_log, mut of_current) = (Vec::new(), Vec::new());
        let mut newest_change = None;
        for day in &open.candidate.days {
            let rows = found.get(&(key.clone(), day.clone())).unwrap_or(&nothing);
            newest_change = newest_change.max(rows.changed_at);
            let item = expected.filter(|expected| expected.day == *day);
            let judged = |found: Option<&FoundRow>, difference, cause| {
                let finding =
                    self.finding(key, day, difference, (item.map(|item| &item.values), found), cause);
                JudgedRow {
                    key: key.clone(),
                    day: day.clone(),
                    finding,
                    changed_at: rows.changed_at,
                    is_derivable: false,
                }
            };
            if let Some(current) =
                rows.current.as_ref().filter(|current| !is_derived(rows.log.as_ref(), current))
            {
                let difference = difference(item.is_some(), current.first());
                let cause = "the current rows differ from the log that they were derived from";
                let row = judged(current.first(), difference, cause.to_owned());
                of_current.push(JudgedRow { is_derivable: true, ..row });
            }
            let is_right = match (item, &rows.log) {
                (None, None) => true,
                (Some(item), Some(row)) => item.digest.accepts(&row.digest),
                (Some(_), None) | (None, Some(_)) => false,
            };
            if !is_right {
                let difference = difference(item.is_some(), rows.log.as_ref());
                of_log.push(judged(rows.log.as_ref(), difference, cause(difference, expected.is_some())));
            }
        }
        if of_log.is_empty() {
            let is_complete = expected.is_none_or(|expected| open.candidate.days.contains(&expected.day));
            return match (of_current.is_empty(), is_complete) {
                (false, _) => CandidateVerdict::Drift(of_current),
                (true, true) => CandidateVerdict::Right,
                (true, false) => CandidateVerdict::moved(),
            };
        }
        match unexplained(open, second, newest_change, heartbeat) {
            None => CandidateVerdict::Drift(of_log),
            Some((cause, is_new)) => CandidateVerdict::Open { cause, is_new },
        }
    }

    /// A finding about the row of an item in a day.
    fn finding(
        &self,
        key: &DatasetKey,
        day: &str,
        difference: RowDifference,
        (expected, found): (Option<&BTreeMap<String, String>>, Option<&FoundRow>),
        cause: String,
    ) -> VerifyFinding {
        let dataset = self.model().datasets.get(key.dataset);
        let row = RowLocation {
            dataset: dataset.map_or_else(String::new, |dataset| dataset.name.to_string()),
            day: day.to_owned(),
            difference,
        };
        let item = FoundItem::of(self.model(), &key.source());
        let mut finding = VerifyFinding::of(FindingSubject::Row(item, row));
        finding.cause = Some(cause);
        let nothing = BTreeMap::new();
        let (expected, found) = (expected.unwrap_or(&nothing), found.map_or(&nothing, |found| &found.values));
        for name in expected.keys().chain(found.keys()) {
            let value =
                ExpectedValue { expected: expected.get(name).cloned(), found: found.get(name).cloned() };
            if value.expected != value.found {
                finding.values.insert(name.clone(), value);
            }
        }
        finding
    }

    fn undecided(&self, open: &OpenCandidate, cause: UndecidedCause) -> VerifyFinding {
        let expected = open.first.expected.as_ref();
        let day = expected.map(|expected| &expected.day).or_else(|| open.candidate.days.first());
        let day = day.cloned().unwrap_or_default();
        let difference = if expected.is_some() { RowDifference::Different } else { RowDifference::Foreign };
        self.finding(&open.candidate.key, &day, difference, (None, None), String::new()).undecided(cause)
    }
}

/// Whether the current rows of an item are those that follow from the newest row of the log.
fn is_derived(log: Option<&FoundRow>, current: &[FoundRow]) -> bool {
    match (log, current) {
        (None, []) => true,
        (Some(log), [current]) => log.digest == current.digest,
        (None, [_, ..]) | (Some(_), [] | [_, _, ..]) => false,
    }
}

/// Why a difference between item and log may have a change in flight as its cause, and whether a new first look is needed; `None` if it
/// is drift.
fn unexplained(
    open: &OpenCandidate,
    second: &ItemLook,
    newest_change: Option<i64>,
    heartbeat: Option<Timestamp>,
) -> Option<(UndecidedCause, bool)> {
    let OpenCandidate { candidate, first, .. } = open;
    let identified = |look: &ItemLook| look.expected.as_ref().map(|row| (row.day.clone(), row.digest));
    if candidate.key.is_known() && identified(first) != identified(second) {
        return Some((UndecidedCause::changed("the item kept changing while it was judged"), true));
    }
    if newest_change.is_some_and(|changed_at| changed_at >= first.at.minus(TIME_MARGIN).epoch_ms()) {
        return Some((UndecidedCause::changed("the log got changes of the item while it was judged"), true));
    }
    let undecided =
        |reason: UndecidedReason, text: &'static str| Some((UndecidedCause::new(reason, text), false));
    match heartbeat {
        None => undecided(
            UndecidedReason::NoHeartbeat,
            "it is unknown up to when the log is complete, because no heartbeat has been exported: run `afterwrite heartbeat`, and verify again when it has been exported",
        ),
        Some(written) if written < first.at.plus(TIME_MARGIN) => undecided(
            UndecidedReason::IncompleteLog,
            "the log is not complete yet: no heartbeat that was written after the item was read has been exported",
        ),
        Some(_) => None,
    }
}

fn difference(is_item: bool, row: Option<&FoundRow>) -> RowDifference {
    match (is_item, row) {
        (true, None) => RowDifference::Missing,
        (true, Some(_)) => RowDifference::Different,
        (false, _) => RowDifference::Foreign,
    }
}

fn cause(difference: RowDifference, has_item: bool) -> String {
    match (difference, has_item) {
        (RowDifference::Missing, _) => {
            "the log has no row of the item: it was written before the archive began, or its record was lost"
        }
        (RowDifference::Different, _) => {
            "the newest row of the log is not the item's state: a record was lost, or another program has changed the row or the item's model has changed"
        }
        (RowDifference::Foreign, true) => "the item belongs to another day",
        (RowDifference::Foreign, false) => {
            "the item does not exist: the record of its deletion was lost, or another program has added the row"
        }
    }
    .to_owned()
}

/// Judges findings about rows again; returns the findings that are still drift or cannot be decided, as they are now. Other findings are
/// ignored.
///
/// # Errors
/// As [`Tables::read`] and [`Bucket::get`].
pub async fn recheck_rows<B: Bucket, T: Tables + TableScan, C: Clock>(
    judge: &DatasetJudge<B, T, C>,
    findings: &[VerifyFinding],
) -> Result<Vec<VerifyFinding>> {
    check_generation(judge.model(), findings)?;
    let candidates = candidates_of(judge.model(), findings);
    let verdicts = Box::pin(judge.judge(candidates)).await?;
    let drifted = verdicts.drifted.into_iter().map(|row| row.finding);
    let unknown = findings.iter().filter(|finding| is_unknown_row(judge.model(), finding)).map(|finding| {
        let cause = UndecidedCause::new(
            UndecidedReason::Foreign,
            "the model has no such dataset, or no entity of the row",
        );
        finding.clone().undecided(cause)
    });
    let found = drifted.chain(verdicts.undecided).chain(unknown);
    let generation = Some(judge.model().generation);
    Ok(found.map(|finding| VerifyFinding { generation, ..finding }).collect())
}
