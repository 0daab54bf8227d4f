//! Differences that a change in flight may explain.
//!
//! A difference is drift if the entry still has the same revision after longer than any record is in flight (the tolerance).
//! Every record advances its entry's revision, even one that changes no contribution. So if a change had been in flight when the
//! difference was seen first, the revision would have changed since. If it has changed, the item is judged again from the start, a
//! few times; then it is undecided. The same holds for a mirror with the revision of its rollup.
//!
//! A rollup is suspected if it differs at an unchanged revision. The ledger is read a second time for suspects, so that a
//! read that saw one part of a transaction only is not taken for drift.

use std::time::Duration;

use afterwrite::Result;
use afterwrite::clock::Clock;
use afterwrite::entity::SourceKey;
use afterwrite::record::Timestamp;
use afterwrite::sink::Tables;

use super::finding::{FindingPlace, VerifyFinding};
use super::items::ItemJudge;
use super::state::{SuspectItem, VerifyState};
use crate::items::owned_key;

/// How often an item that keeps changing is judged.
const ROUNDS: u32 = 3;
/// The items that are judged at once.
pub(crate) const JUDGED_ITEMS: usize = 100;

/// Judges items for the first time: confirms them, or suspects them.
pub(crate) async fn judge_first<T: Tables>(
    judge: &ItemJudge<T>,
    sources: &[SourceKey<'_>],
    now: Timestamp,
) -> Result<(u64, Vec<SuspectItem>)> {
    let mut confirmed = 0;
    let mut suspects = Vec::new();
    for sources in sources.chunks(JUDGED_ITEMS) {
        for (source, judgement) in sources.iter().zip(judge.judge(sources).await?) {
            if judgement.is_confirmed() {
                confirmed += 1;
                continue;
            }
            let difference = judgement.differences.first();
            suspects.push(SuspectItem {
                source: owned_key(source),
                place: difference.map_or(FindingPlace::Ledger, |difference| difference.place),
                rev: difference.and_then(|difference| difference.rev.clone()),
                seen_at: now,
                rounds: 0,
            });
        }
    }
    Ok((confirmed, suspects))
}

/// Judges suspects again, once each is older than the tolerance. Returns those that must wait again and how many are right, and notes
/// the findings.
pub(crate) async fn judge_suspects<T: Tables, C: Clock>(
    judge: &ItemJudge<T>,
    clock: &C,
    suspects: Vec<SuspectItem>,
    tolerance: Duration,
    state: &mut VerifyState,
) -> Result<(Vec<SuspectItem>, u64)> {
    let (mut open, mut confirmed) = (Vec::new(), 0);
    for suspects in suspects.chunks(JUDGED_ITEMS) {
        let ripe_at = suspects.iter().map(|suspect| suspect.seen_at.plus(tolerance)).max();
        let wait = ripe_at.map_or(Duration::ZERO, |ripe_at| ripe_at.since(clock.now()));
        if !wait.is_zero() {
            clock.sleep(wait).await;
        }
        let sources: Vec<_> = suspects.iter().map(|suspect| suspect.source.clone()).collect();
        for (suspect, judgement) in suspects.iter().zip(judge.judge(&sources).await?) {
            if judgement.is_confirmed() {
                confirmed += 1;
                continue;
            }
            let same =
                |finding: &&VerifyFinding| finding.place == suspect.place && finding.rev == suspect.rev;
            let is_drift = judgement.differences.iter().any(|finding| same(&finding));
            if is_drift {
                // Differences at other places were seen now for the first time: they are judged by themselves. One that is a finding
                // already is not: two of them would be judged in turn without end.
                let (drifted, others): (Vec<_>, Vec<_>) =
                    judgement.differences.into_iter().partition(|finding| same(&finding));
                state.findings.extend(drifted);
                let next = others.iter().find(|other| !state.findings.iter().any(|known| other.is_of(known)));
                open.extend(next.map(|other| again(suspect, other, clock.now())));
            } else if suspect.rounds + 1 >= ROUNDS {
                state.find(undecided(judge, suspect, judgement.undecided));
            } else {
                let difference = judgement.differences.first();
                open.push(match difference {
                    Some(difference) => again(suspect, difference, clock.now()),
                    None => SuspectItem {
                        rev: None,
                        seen_at: clock.now(),
                        rounds: suspect.rounds + 1,
                        ..suspect.clone()
                    },
                });
            }
        }
    }
    Ok((open, confirmed))
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
    undecided(judge, suspect, Some("there was no time to judge the item again".to_owned()))
}

fn undecided<T>(judge: &ItemJudge<T>, suspect: &SuspectItem, reason: Option<String>) -> VerifyFinding {
    let finding = VerifyFinding::of_source(suspect.place, &judge.model, &suspect.source);
    finding.undecided(reason.unwrap_or_else(|| "the item kept changing while it was judged".to_owned()))
}
