//! Differences that a change in flight may explain.
//!
//! A difference is drift if the entry still has the same revision after longer than any record is in flight (the tolerance).
//! Every record advances its entry's revision, even one that changes no contribution. So if a change had been in flight when the
//! difference was seen first, the revision would have changed since. If it has changed, the item is judged again from the start, a
//! few times; then it is undecided. The same holds for a mirror with the revision of its rollup.
//!
//! A rollup is suspected if it differs at an unchanged revision. The ledger is read a second time for suspects, so that a
//! read that saw one part of a transaction only is not taken for drift.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use afterwrite_ledger::tables::Tables;
use afterwrite_model::Result;
use afterwrite_model::clock::Clock;
use afterwrite_model::entity::SourceKey;
use afterwrite_model::record::Timestamp;

use super::finding::{FindingPlace, VerifyFinding};
use super::items::{ItemJudge, ItemJudgement};
use super::state::{SuspectItem, VerifyState};
use super::undecided::UndecidedCause;
use super::unjudged::{JudgedParts, entity_of};
use crate::items::owned_key;
use crate::jobs::{WaitBoard, WaitReason};

/// How often an item that keeps changing is judged.
const ROUNDS: u32 = 3;
/// The items that are judged at once.
pub(crate) const JUDGED_ITEMS: usize = 100;

/// The longest time that a record is in flight, and who sees that it is waited for.
#[derive(Clone, Debug)]
pub struct Tolerance {
    /// The time.
    pub duration: Duration,
    /// The waits for it.
    pub waits: WaitBoard,
}

impl From<Duration> for Tolerance {
    fn from(duration: Duration) -> Self {
        Self { duration, waits: WaitBoard::default() }
    }
}

/// Items that were judged for the first time.
#[derive(Debug, Default)]
pub(crate) struct FirstJudgement {
    /// How many are right.
    pub(crate) confirmed: u64,
    /// The suspects that are judged again.
    pub(crate) suspects: Vec<SuspectItem>,
    /// The judged parts of all of them.
    pub(crate) parts: JudgedParts,
    /// The entities of the items that are right.
    pub(crate) decided_entities: BTreeSet<Arc<str>>,
}

/// Judges items for the first time: confirms them, or suspects them.
pub(crate) async fn judge_first<T: Tables>(
    judge: &ItemJudge<T>,
    sources: &[SourceKey<'_>],
    now: Timestamp,
) -> Result<FirstJudgement> {
    let mut first = FirstJudgement::default();
    for sources in sources.chunks(JUDGED_ITEMS) {
        for (source, judgement) in sources.iter().zip(judge.judge(sources, now).await?) {
            first.parts = first.parts.plus(judgement.parts);
            if judgement.is_confirmed() {
                first.confirmed += 1;
                first.decided_entities.extend(entity_of(&judge.model, source));
                continue;
            }
            let difference = judgement.differences.first();
            first.suspects.push(SuspectItem {
                source: owned_key(source),
                place: difference.map_or(FindingPlace::Ledger, |difference| difference.place),
                rev: difference.and_then(|difference| difference.rev.clone()),
                seen_at: now,
                rounds: 0,
            });
        }
    }
    Ok(first)
}

/// Judges suspects again, once each is older than the tolerance. Returns those that must wait again and how many are right, and notes
/// the findings.
pub(crate) async fn judge_suspects<T: Tables, C: Clock>(
    judge: &ItemJudge<T>,
    clock: &C,
    suspects: Vec<SuspectItem>,
    tolerance: &Tolerance,
    state: &mut VerifyState,
) -> Result<(Vec<SuspectItem>, u64)> {
    let (mut open, mut confirmed) = (Vec::new(), 0);
    for suspects in suspects.chunks(JUDGED_ITEMS) {
        let ripe_at = suspects.iter().map(|suspect| suspect.seen_at.plus(tolerance.duration)).max();
        let wait = ripe_at.map_or(Duration::ZERO, |ripe_at| ripe_at.since(clock.now()));
        tolerance.waits.sleep(clock, WaitReason::Tolerance, wait).await;
        let sources: Vec<_> = suspects.iter().map(|suspect| suspect.source.clone()).collect();
        for (suspect, judgement) in suspects.iter().zip(judge.judge(&sources, clock.now()).await?) {
            state.rechecked_parts = state.rechecked_parts.plus(judgement.parts);
            if judgement.is_confirmed() {
                confirmed += 1;
                state.decided_entities.extend(entity_of(&judge.model, &suspect.source));
            } else {
                open.extend(judge_again(judge, suspect, judgement, clock.now(), state));
            }
        }
    }
    Ok((open, confirmed))
}

/// Notes the finding about a suspect that is not right, or returns it as it must be judged once more.
fn judge_again<T>(
    judge: &ItemJudge<T>,
    suspect: &SuspectItem,
    judgement: ItemJudgement,
    now: Timestamp,
    state: &mut VerifyState,
) -> Option<SuspectItem> {
    let same = |finding: &VerifyFinding| finding.place == suspect.place && finding.rev == suspect.rev;
    if judgement.differences.iter().any(same) {
        // Differences at other places were seen now for the first time: they are judged by themselves. One that is a finding
        // already is not: two of them would be judged in turn without end.
        let (drifted, others): (Vec<_>, Vec<_>) = judgement.differences.into_iter().partition(same);
        state.findings.extend(drifted);
        let next = others.iter().find(|other| !state.findings.iter().any(|known| other.is_of(known)));
        return next.map(|other| again(suspect, other, now));
    }
    if suspect.rounds + 1 >= ROUNDS {
        let kept = UndecidedCause::changed("the item kept changing while it was judged");
        state.find(undecided(judge, suspect, judgement.undecided.unwrap_or(kept)));
        return None;
    }
    Some(match judgement.differences.first() {
        Some(difference) => again(suspect, difference, now),
        None => SuspectItem { rev: None, seen_at: now, rounds: suspect.rounds + 1, ..suspect.clone() },
    })
}

fn again(suspect: &SuspectItem, difference: &VerifyFinding, now: Timestamp) -> SuspectItem {
    SuspectItem {
        place: difference.place,
        rev: difference.rev.clone(),
        seen_at: now,
        rounds: suspect.rounds + 1,
        source: suspect.source.clone(),
    }
}

/// The finding about a suspect that cannot be judged again in time.
pub(crate) fn out_of_time<T>(judge: &ItemJudge<T>, suspect: &SuspectItem) -> VerifyFinding {
    undecided(judge, suspect, UndecidedCause::out_of_time())
}

fn undecided<T>(judge: &ItemJudge<T>, suspect: &SuspectItem, cause: UndecidedCause) -> VerifyFinding {
    VerifyFinding::of_source(suspect.place, &judge.model, &suspect.source).undecided(cause)
}
