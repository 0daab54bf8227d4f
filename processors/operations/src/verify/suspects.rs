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

use afterwrite_ledger::tables::{TableScan, Tables};
use afterwrite_model::Result;
use afterwrite_model::clock::Clock;
use afterwrite_model::entity::SourceKey;
use afterwrite_model::record::Timestamp;
use afterwrite_model::table::Model;

use super::finding::{
    FindingPlace, FindingSubject, FoundItem, RollupPlace, UndecidedCause, UndecidedReason, VerifyFinding,
    check_generation, is_rollup,
};
use super::item_rollups::JudgedParts;
use super::items::{ItemJudge, ItemJudgement};
use super::sums::{SumVerdict, judge, read_sums};
use crate::DeploymentContext;
use crate::items::owned_key;
use crate::jobs::{WaitBoard, WaitReason, count};

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

/// A difference that may be explained by a change in flight.
#[derive(Clone, Debug)]
pub(crate) struct SuspectItem {
    /// The source item.
    pub(crate) source: SourceKey<'static>,
    /// The place that differs.
    pub(crate) place: FindingPlace,
    /// The revision of the entry, or of the rollup of a mirror or extreme, when it was seen; `None` if there was none.
    pub(crate) rev: Option<String>,
    /// When it was seen with this revision first.
    pub(crate) seen_at: Timestamp,
    /// How often it was looked at again with another revision.
    pub(crate) rounds: u32,
    /// Whether a record in flight may explain it. An item that cannot be counted as it is stays so until it is changed.
    pub(crate) awaits_records: bool,
}

/// The entity that stands for the items with a key: the first one that matches it.
pub(crate) fn entity_of(model: &Model, source: &SourceKey<'_>) -> Option<Arc<str>> {
    source.candidates(model).iter().next().map(|identity| Arc::clone(&identity.entity.name))
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
                place: difference.map_or(FindingPlace::Ledger, |difference| difference.place()),
                rev: difference.and_then(|difference| difference.rev.clone()),
                seen_at: now,
                rounds: 0,
                awaits_records: judgement.awaits_records(),
            });
        }
    }
    Ok(first)
}

/// The results of suspects that were judged again.
#[derive(Debug, Default)]
pub(crate) struct RecheckedItems {
    pub(crate) findings: Vec<VerifyFinding>,
    /// How many are right.
    pub(crate) confirmed: u64,
    /// The judged parts of all of them.
    pub(crate) parts: JudgedParts,
    /// The entities of the items that are right.
    pub(crate) decided_entities: BTreeSet<Arc<str>>,
}

/// Judges suspects until each is right, drifted or undecided. Suspects that would have to wait beyond `until` are undecided.
pub(crate) async fn judge_until<T: Tables, C: Clock>(
    judge: &ItemJudge<T>,
    clock: &C,
    mut suspects: Vec<SuspectItem>,
    tolerance: &Tolerance,
    until: Option<Timestamp>,
) -> Result<RecheckedItems> {
    let mut known = RecheckedItems::default();
    while !suspects.is_empty() {
        let ripe_at = suspects.iter().map(|suspect| suspect.ripe_at(tolerance)).max();
        if until.is_some_and(|until| ripe_at.is_some_and(|ripe_at| ripe_at >= until)) {
            let late = |suspect: &SuspectItem| suspect.undecided(&judge.model, UndecidedCause::out_of_time());
            known.findings.extend(suspects.iter().map(late));
            break;
        }
        suspects = judge_suspects(judge, clock, suspects, tolerance, &mut known).await?;
    }
    Ok(known)
}

/// Judges suspects again, once each is older than the tolerance. Returns the suspects that must wait again.
async fn judge_suspects<T: Tables, C: Clock>(
    judge: &ItemJudge<T>,
    clock: &C,
    suspects: Vec<SuspectItem>,
    tolerance: &Tolerance,
    known: &mut RecheckedItems,
) -> Result<Vec<SuspectItem>> {
    let mut open = Vec::new();
    for suspects in suspects.chunks(JUDGED_ITEMS) {
        let ripe_at = suspects.iter().map(|suspect| suspect.ripe_at(tolerance)).max();
        let wait = ripe_at.map_or(Duration::ZERO, |ripe_at| ripe_at.since(clock.now()));
        let waiting = count(suspects.iter().filter(|suspect| suspect.awaits_records).count());
        tolerance.waits.sleep(clock, WaitReason::Tolerance, wait, waiting).await;
        let sources: Vec<_> = suspects.iter().map(|suspect| suspect.source.clone()).collect();
        for (suspect, judgement) in suspects.iter().zip(judge.judge(&sources, clock.now()).await?) {
            known.parts = known.parts.plus(judgement.parts);
            if judgement.is_confirmed() {
                known.confirmed += 1;
                known.decided_entities.extend(entity_of(&judge.model, &suspect.source));
            } else {
                open.extend(judge_again(&judge.model, suspect, judgement, clock.now(), known));
            }
        }
    }
    Ok(open)
}

/// Notes the finding about a suspect that is not right, or returns the suspect if it must be judged once more.
fn judge_again(
    model: &Model,
    suspect: &SuspectItem,
    judgement: ItemJudgement,
    now: Timestamp,
    known: &mut RecheckedItems,
) -> Option<SuspectItem> {
    let same = |finding: &VerifyFinding| finding.place() == suspect.place && finding.rev == suspect.rev;
    if judgement.differences.iter().any(same) {
        // Differences at other places were seen now for the first time: they are judged by themselves, except
        // at a place that is a finding already: two such places would be judged in turn without end.
        let (drifted, others): (Vec<_>, Vec<_>) = judgement.differences.into_iter().partition(same);
        known.findings.extend(drifted);
        let next = others.iter().find(|other| !known.findings.iter().any(|known| other.is_of(known)));
        return next.map(|other| again(suspect, other, now));
    }
    if suspect.rounds + 1 >= ROUNDS || !judgement.awaits_records() {
        let kept = UndecidedCause::changed("the item kept changing while it was judged");
        known.findings.push(suspect.undecided(model, judgement.undecided.unwrap_or(kept)));
        return None;
    }
    Some(match judgement.differences.first() {
        Some(difference) => again(suspect, difference, now),
        None => SuspectItem {
            rev: None,
            seen_at: now,
            rounds: suspect.rounds + 1,
            awaits_records: true,
            ..suspect.clone()
        },
    })
}

fn again(suspect: &SuspectItem, difference: &VerifyFinding, now: Timestamp) -> SuspectItem {
    SuspectItem {
        place: difference.place(),
        rev: difference.rev.clone(),
        seen_at: now,
        rounds: suspect.rounds + 1,
        source: suspect.source.clone(),
        awaits_records: true,
    }
}

impl SuspectItem {
    /// When it can be judged again.
    fn ripe_at(&self, tolerance: &Tolerance) -> Timestamp {
        if self.awaits_records { self.seen_at.plus(tolerance.duration) } else { self.seen_at }
    }

    /// The finding about a suspect that cannot be decided.
    fn undecided(&self, model: &Model, cause: UndecidedCause) -> VerifyFinding {
        let item = FoundItem::of(model, &self.source);
        let subject = match self.place {
            FindingPlace::UnreadableEntry => FindingSubject::UnreadableEntry(item),
            FindingPlace::Extreme => FindingSubject::Extreme(item),
            FindingPlace::Mirror => FindingSubject::Mirror(item),
            // An item is suspected at no other place.
            FindingPlace::Ledger | FindingPlace::Rollup | FindingPlace::ThreeWay | FindingPlace::Dataset => {
                FindingSubject::Entry(item, None)
            }
        };
        VerifyFinding::of(subject).undecided(cause)
    }
}

/// Judges items until each is right, drifted or undecided; returns the findings.
pub(crate) async fn recheck_items<T: Tables + Clone, C: Clock + Clone>(
    context: &DeploymentContext<T, C>,
    tolerance: &Tolerance,
    sources: BTreeSet<SourceKey<'static>>,
) -> Result<Vec<VerifyFinding>> {
    let judge = ItemJudge::new(context);
    let sources: Vec<_> = sources.into_iter().collect();
    let suspects = judge_first(&judge, &sources, context.clock.now()).await?.suspects;
    let known = judge_until(&judge, &context.clock, suspects, tolerance, None).await?;
    let generation = Some(context.model.generation);
    Ok(known.findings.into_iter().map(|finding| VerifyFinding { generation, ..finding }).collect())
}

/// The key of a finding that is judged again.
enum RecheckedKey {
    Rollup(RollupPlace),
    Item(SourceKey<'static>),
    /// It cannot be judged by itself.
    Undecidable(UndecidedCause),
    /// Another judge looks at rows.
    Row,
}

impl RecheckedKey {
    fn of(model: &Model, subject: &FindingSubject) -> Self {
        let key = match subject {
            FindingSubject::Rollup(place) => is_rollup(model, place).then(|| Self::Rollup(place.clone())),
            FindingSubject::Entry(item, _)
            | FindingSubject::UnreadableEntry(item)
            | FindingSubject::Extreme(item)
            | FindingSubject::Mirror(item) => item.source(model).map(Self::Item),
            FindingSubject::ThreeWay(_) => {
                let text = "compare again with `afterwrite verify --three-way`";
                Some(Self::Undecidable(UndecidedCause::new(UndecidedReason::NotComparable, text)))
            }
            FindingSubject::Row(..) => Some(Self::Row),
        };
        let unknown = UndecidedReason::Foreign;
        let text = "no entity or rollup of the model has this key";
        key.unwrap_or_else(|| Self::Undecidable(UndecidedCause::new(unknown, text)))
    }
}

/// Judges findings again; returns the findings that are still drift or cannot be decided, as they are now.
/// Findings about datasets are ignored; see [`super::recheck_rows`].
///
/// # Errors
/// As [`Tables::read`].
pub async fn recheck_findings<T: Tables + TableScan + Clone, C: Clock + Clone>(
    context: &DeploymentContext<T, C>,
    tolerance: impl Into<Tolerance>,
    findings: &[VerifyFinding],
) -> Result<Vec<VerifyFinding>> {
    let DeploymentContext { model, clock, .. } = context;
    check_generation(model, findings)?;
    let (mut rollups, mut sources) = (BTreeSet::<RollupPlace>::new(), BTreeSet::new());
    let mut found = Vec::new();
    for finding in findings {
        match RecheckedKey::of(model, &finding.subject) {
            RecheckedKey::Rollup(place) => rollups.extend([place]),
            RecheckedKey::Item(source) => sources.extend([source]),
            RecheckedKey::Undecidable(cause) => found.push(finding.clone().undecided(cause)),
            RecheckedKey::Row => {}
        }
    }
    if !rollups.is_empty() {
        for reading in read_sums(context, &rollups).await? {
            let sum = (&reading.sum, reading.unreadable_entries);
            match judge(model, &reading.place, sum, reading.item.as_ref(), clock.now()) {
                SumVerdict::Confirmed | SumVerdict::Expired => {}
                SumVerdict::Differs(finding) | SumVerdict::Undecided(finding) => found.push(finding),
            }
        }
    }
    found.extend(recheck_items(context, &tolerance.into(), sources).await?);
    let generation = Some(model.generation);
    Ok(found.into_iter().map(|finding| VerifyFinding { generation, ..finding }).collect())
}
