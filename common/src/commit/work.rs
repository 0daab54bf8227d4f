//! One source item on its way through a batch: what was asked of it, what is known, and how far it has come.

use std::collections::BTreeMap;

use smallvec::SmallVec;

use super::decide::{CLOCK_TOLERANCE, RecordDecision, RecordIndexes};
use super::entry::LedgerEntry;
use super::plan::ItemPlan;
use super::tally::{CommitTally, CommitTotals};
use crate::effect::{ItemKey, WriteRefusal};
use crate::entity::{ItemIdentity, SourceKey};
use crate::projection::{ItemContributions, RollupTargets, ShardAssignment, TargetId};
use crate::record::{AttributeInterner, BadRecord, ChangeRecord, Image, Position, PrimaryKey, Timestamp};
use crate::table::OnExpiry;
use crate::{Error, ErrorKind};

/// One source item, and what a batch says of it.
#[derive(Debug)]
pub struct SourceItem<'r> {
    /// Which item.
    pub source: &'r SourceKey<'r>,
    /// What it is.
    pub identity: &'r ItemIdentity<'r, 'r>,
    /// Its primary key as it is typed.
    pub keys: &'r PrimaryKey<'r>,
    /// Its changes, in any order.
    pub requests: ItemRecords<'r>,
}

/// The records of an item: mostly one.
pub type ItemRecords<'r> = SmallVec<[ItemRecord<'r>; 1]>;

/// One record of an item, with its place in the batch.
#[derive(Clone, Copy, Debug)]
pub struct ItemRecord<'r> {
    /// Its place.
    pub index: usize,
    /// The record; a malformed one is a failure unless the ledger has passed its position.
    pub record: Result<&'r ChangeRecord<'r>, &'r BadRecord<'r>>,
}

/// A record that was not counted.
#[derive(Debug)]
pub struct RecordFailure {
    /// Its place in the batch.
    pub index: usize,
    /// Why.
    pub error: Error,
}

/// What became of a batch.
#[derive(Debug, Default)]
pub struct CommitOutcome {
    /// The records that were not counted, one entry for each item or record concerned.
    pub failures: Vec<RecordFailure>,
    /// What was done.
    pub totals: CommitTotals,
}

/// What is known of the item itself, where it must be asked.
#[derive(Debug, Default)]
pub(super) enum ItemObservation {
    /// It need not be asked, or not yet.
    #[default]
    Unneeded,
    /// It is to be read.
    Wanted,
    /// It was read; `None` if it was not there.
    Seen { image: Option<Image<'static>>, at: Timestamp },
    /// What was read is counted.
    Counted,
}

#[derive(Debug, Default)]
pub(super) enum ItemProgress {
    #[default]
    Pending,
    Done,
    Failed(Error),
}

/// An item's state within a batch.
#[derive(Debug)]
pub(super) struct LedgerItemState<'r> {
    pub(super) source: &'r SourceKey<'r>,
    pub(super) identity: &'r ItemIdentity<'r, 'r>,
    pub(super) keys: &'r PrimaryKey<'r>,
    /// The records in order of position, and their places in the batch.
    pub(super) records: SmallVec<[&'r ChangeRecord<'r>; 2]>,
    indexes: RecordIndexes,
    bad: Vec<(usize, &'r BadRecord<'r>)>,
    /// The old images of expiries, decoded; by record.
    pub(super) old_images: BTreeMap<usize, Image<'r>>,
    /// Records that cannot be counted; by record.
    pub(super) unfit: BTreeMap<usize, Error>,
    /// The label of the table's stream, as whoever reconciles the item knows it.
    stream: &'r str,
    /// Whether `entry` and `claimed` are what is stored, as far as is known.
    pub(super) is_known: bool,
    pub(super) entry: Option<LedgerEntry<'r>>,
    /// The entry's key, from its being read until it is written.
    pub(super) entry_key: Option<ItemKey>,
    pub(super) claimed: Vec<Position<'r>>,
    pub(super) observation: ItemObservation,
    pub(super) decision: RecordDecision,
    /// What is to be written of it in this round.
    pub(super) plan: Option<ItemPlan<'r>>,
    /// Why this round could not plan anything: a lookup that it needs cannot be asked for now.
    pub(super) delay: Option<Error>,
    /// It must have a transaction of its own, because a shared one was refused and nobody knows on whose account.
    pub(super) alone: bool,
    pub(super) progress: ItemProgress,
    /// Records that were delivered several times in this very batch, and are looked at once.
    pub(super) repeated: usize,
    /// Something of the item was counted by a write that nobody here saw answered: an earlier delivery's, another consumer's, or
    /// one whose answer was lost. Whoever sent it may have refreshed no mirror.
    is_counted_elsewhere: bool,
    /// The rollups whose mirrors must be refreshed on account of what was committed.
    pub(super) to_mirror: Vec<TargetId>,
}

impl<'r> LedgerItemState<'r> {
    pub(super) fn new(item: SourceItem<'r>) -> Self {
        let mut records: SmallVec<[(usize, &ChangeRecord<'_>); 2]> = SmallVec::new();
        let mut bad = Vec::new();
        for request in item.requests {
            match request.record {
                Ok(record) => records.push((request.index, record)),
                Err(record) => bad.push((request.index, record)),
            }
        }
        records.sort_by(|(_, a), (_, b)| a.position.cmp(&b.position));
        let delivered = records.len();
        records.dedup_by(|(_, later), (_, first)| later.position == first.position);
        Self {
            repeated: delivered - records.len(),
            source: item.source,
            identity: item.identity,
            keys: item.keys,
            indexes: records.iter().map(|(index, _)| *index).collect(),
            records: records.into_iter().map(|(_, record)| record).collect(),
            bad,
            old_images: BTreeMap::new(),
            unfit: BTreeMap::new(),
            stream: "",
            is_known: false,
            entry: None,
            entry_key: None,
            claimed: Vec::new(),
            observation: ItemObservation::Unneeded,
            decision: RecordDecision::default(),
            plan: None,
            delay: None,
            alone: false,
            progress: ItemProgress::Pending,
            is_counted_elsewhere: false,
            to_mirror: Vec::new(),
        }
    }

    /// An item that is to be reconciled, whatever its records say.
    pub(super) fn reconciling(item: SourceItem<'r>, stream: &'r str) -> Self {
        Self { observation: ItemObservation::Wanted, stream, ..Self::new(item) }
    }

    /// What is counted of the item now, as far as is known.
    pub(super) fn current(&self) -> &ItemContributions {
        self.entry.as_ref().map_or(const { &ItemContributions::NOTHING }, |entry| &entry.current)
    }

    /// How the item is spread over the shards of sharded rollups.
    pub(super) fn sharding(&self) -> ShardAssignment<'_> {
        ShardAssignment { source: self.source, current: self.current() }
    }

    pub(super) fn is_pending(&self) -> bool {
        matches!(self.progress, ItemProgress::Pending)
    }

    /// Counted, by this batch or before it.
    pub(super) fn is_done(&self) -> bool {
        matches!(self.progress, ItemProgress::Done)
    }

    /// Whether mirrors may be stale on account of a write that was not this batch's, or not known to be.
    pub(super) fn is_counted_elsewhere(&self) -> bool {
        self.is_done() && self.is_counted_elsewhere
    }

    /// Takes in what is to be done with the records.
    pub(super) fn decided(&mut self, decision: RecordDecision) {
        self.is_counted_elsewhere |= decision.live.len() < self.records.len() || self.may_be_reconciled();
        self.decision = decision;
    }

    /// The label of the stream that the item's next records are of.
    pub(super) fn stream_label(&self) -> &str {
        self.records.last().map_or(self.stream, |record| record.position.label())
    }

    /// Decodes the old images of the records that `wanted` names.
    pub(super) fn decode_old_images(
        &mut self,
        vocabulary: &AttributeInterner,
        wanted: impl Fn(usize) -> bool,
    ) {
        for (index, record) in self.records.iter().enumerate() {
            if !wanted(index) || self.old_images.contains_key(&index) {
                continue;
            }
            match record.old.decode(vocabulary) {
                Ok(image) => self.old_images.extend(image.map(|image| (index, image))),
                Err(error) => {
                    self.unfit.insert(index, error);
                }
            }
        }
    }

    /// Every image that the batch shows of the item, as far as it is decoded.
    pub(super) fn all_images(&self) -> impl Iterator<Item = &Image<'_>> {
        let new = self.records.iter().filter_map(|record| record.new.as_ref());
        new.chain(self.old_images.values()).map(|image| -> &Image<'_> { image })
    }

    pub(super) fn fail(&mut self, error: Error) {
        self.progress = ItemProgress::Failed(error);
    }

    /// Whether somebody who reconciled the item may have counted what these records say, at no position.
    fn may_be_reconciled(&self) -> bool {
        let as_of = self.entry.as_ref().and_then(|entry| entry.as_of);
        let seen_by = |as_of: Timestamp| {
            let latest = as_of.plus(CLOCK_TOLERANCE);
            self.records.iter().any(|record| record.created_at.is_none_or(|created| created <= latest))
        };
        as_of.is_some_and(seen_by)
    }

    /// What is stored is not known any more: a write may have taken effect.
    pub(super) fn forget(&mut self) {
        self.is_known = false;
        self.is_counted_elsewhere = true;
    }

    /// The first record's place in the batch.
    fn first_index(&self) -> usize {
        let bad = self.bad.iter().map(|(index, _)| *index);
        self.indexes.iter().copied().chain(bad).min().unwrap_or(0)
    }

    /// Takes in what is stored of the item: its ledger entry.
    pub(super) fn learn(&mut self, stored: Option<&crate::record::Item>, targets: &mut RollupTargets) {
        match stored.map(|item| LedgerEntry::decode(item, targets)).transpose() {
            Ok(entry) => {
                self.entry = entry;
                self.is_known = true;
                // An item must be read after its entry: what was seen before this one may be older than it.
                if matches!(self.observation, ItemObservation::Seen { .. }) {
                    self.observation = ItemObservation::Wanted;
                }
            }
            Err(error) => self.fail(error),
        }
    }

    /// The entry could not be written.
    pub(super) fn entry_refused(
        &mut self,
        refusal: WriteRefusal,
        targets: &mut RollupTargets,
        tally: &CommitTally,
    ) {
        match refusal {
            WriteRefusal::Condition(stored) => {
                tally.conflicts.add(1);
                self.learn(stored.as_ref(), targets);
            }
            WriteRefusal::Conflict => tally.conflicts.add(1),
            WriteRefusal::Throttled => {}
            WriteRefusal::Invalid(reason) => {
                let message = format!("DynamoDB refuses the item's ledger entry: {reason}");
                self.fail(Error::new(ErrorKind::Rejected, message));
            }
        }
    }

    /// The plan has been carried out.
    pub(super) fn committed(&mut self, tally: &CommitTally) {
        let Some(ItemPlan { entry, markers, shown, .. }) = self.plan.take() else { return };
        tally.ledger_writes.add(1);
        self.to_mirror.extend(shown);
        self.to_mirror.extend(self.entry.iter().flat_map(|entry| &entry.left));
        self.entry = Some(entry);
        self.claimed.extend(markers);
        if matches!(self.observation, ItemObservation::Seen { .. }) {
            // The records, if there are any, are judged by the new entry.
            tally.reconciled.add(1);
            self.observation = ItemObservation::Counted;
            return;
        }
        let RecordDecision { live, expiries, too_old, .. } = &self.decision;
        let settled = |index: &usize| {
            self.records.get(*index).is_some_and(|record| self.claimed.contains(&record.position))
        };
        if expiries.iter().all(|index| settled(index) || self.unfit.contains_key(index)) {
            let used = live.len() + expiries.iter().filter(|index| !live.contains(index)).count();
            let too_old_only = too_old.iter().filter(|index| !live.contains(index)).count();
            tally.folded.add_len(used.saturating_sub(1));
            tally.duplicates.add_len(self.records.len().saturating_sub(used + too_old_only));
            tally.expiries_too_old.add_len(too_old.len());
            self.progress = ItemProgress::Done;
        }
    }

    /// The images that what is still to be counted depends on.
    pub(super) fn images_to_count(&self) -> impl Iterator<Item = &Image<'_>> {
        let observed = match &self.observation {
            ItemObservation::Seen { image, .. } => image.as_ref(),
            ItemObservation::Unneeded | ItemObservation::Wanted | ItemObservation::Counted => None,
        };
        let live = self.decision.live.iter().filter_map(|index| self.records.get(*index)?.new.as_ref());
        let expired = self.decision.expiries.iter().filter_map(|index| self.old_images.get(index));
        let all = live.chain(expired).map(|image| -> &Image<'_> { image });
        all.chain(observed.map(|image| -> &Image<'_> { image })).filter(|_| self.is_pending())
    }

    /// The images that may answer what other items ask.
    pub(super) fn answering_images(&self) -> impl Iterator<Item = &Image<'r>> {
        let is_asked = !self.identity.entity.answers.is_empty();
        let new = self.records.iter().filter_map(|record| record.new.as_ref());
        new.chain(self.old_images.values()).filter(move |_| is_asked)
    }

    /// The newest state that the batch shows of the item, if it shows one.
    pub(super) fn newest_image(&self) -> Option<&'r Image<'r>> {
        self.records.last().and_then(|record| record.new.as_ref())
    }

    /// What could not be counted of this item. What the ledger has passed is counted, whatever is wrong with it, unless it is an
    /// expiry that is still to be settled.
    pub(super) fn into_failures(self) -> Vec<RecordFailure> {
        let first = self.first_index();
        let keeps_expired = self.identity.entity.on_expiry == OnExpiry::Keep;
        let Self { progress, unfit, bad, entry, indexes, records, claimed, .. } = self;
        let is_passed =
            |position: &Position<'_>| entry.as_ref().is_some_and(|entry| *position <= entry.position);
        let is_over = |position: &Position<'_>, expired: bool| {
            is_passed(position) && (!expired || !keeps_expired || claimed.contains(position))
        };
        let mut failures = Vec::new();
        if let ItemProgress::Failed(error) = progress {
            failures.push(RecordFailure { index: first, error });
        }
        for (record, error) in unfit {
            let (Some(index), Some(record)) = (indexes.get(record), records.get(record)) else { continue };
            if !is_over(&record.position, record.expired) {
                failures.push(RecordFailure { index: *index, error });
            }
        }
        for (index, record) in bad {
            let position = record.position.as_ref();
            if !position.is_some_and(|position| is_over(position, record.expired)) {
                failures.push(RecordFailure { index, error: record.error.restated() });
            }
        }
        failures
    }
}
