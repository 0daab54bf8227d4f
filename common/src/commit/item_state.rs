//! The state of one source item within a batch: its records, what is known of it, and how far it has come.

use std::collections::BTreeMap;

use smallvec::SmallVec;

use super::decide::{CLOCK_TOLERANCE, RecordDecision, RecordIndexes};
use super::entry::LedgerEntry;
use super::plan::ItemPlan;
use super::tally::{CommitTally, CommitTotals};
use crate::effect::{ItemKey, WriteRefusal};
use crate::entity::{ItemIdentity, SourceKey};
use crate::projection::{ItemContributions, RollupTargets, ShardAssignment, TargetId};
use crate::record::{AttributeInterner, BadRecord, ChangeRecord, Image, Item, Position, Timestamp};
use crate::table::OnExpiry;
use crate::{Error, ErrorKind};

/// One source item and its records in a batch.
#[derive(Debug)]
pub struct SourceItem<'r> {
    /// The item's table and key.
    pub source: &'r SourceKey<'r>,
    /// The item's entity and the values of its key's variables.
    pub identity: &'r ItemIdentity<'r, 'r>,
    /// The item's records, in any order.
    pub records: ItemRecords<'r>,
}

/// The records of an item; usually one.
pub type ItemRecords<'r> = SmallVec<[ItemRecord<'r>; 1]>;

/// One record of an item, with its index in the batch.
#[derive(Clone, Copy, Debug)]
pub struct ItemRecord<'r> {
    /// The index in the batch.
    pub index: usize,
    /// The record. A malformed record is a failure unless the ledger has passed its position.
    pub record: Result<&'r ChangeRecord<'r>, &'r BadRecord<'r>>,
}

/// A record that was not counted.
#[derive(Debug)]
pub struct RecordFailure {
    /// The index in the batch.
    pub index: usize,
    /// Why it was not counted.
    pub error: Error,
}

/// The result of a batch.
#[derive(Debug, Default)]
pub struct CommitOutcome {
    /// The records that were not counted; an item that failed as a whole is reported by its first record.
    pub failures: Vec<RecordFailure>,
    /// The counters of the batch.
    pub totals: CommitTotals,
}

/// The knowledge of the stored item, for items that must be read.
#[derive(Debug, Default)]
pub(super) enum ItemObservation {
    /// The item need not be read, or not yet.
    #[default]
    Unneeded,
    /// The item must be read.
    Wanted,
    /// The item was read; `image` is absent if it does not exist.
    Seen { image: Option<Image<'static>>, at: Timestamp },
    /// The state that was read is counted.
    Counted,
}

#[derive(Debug, Default)]
pub(super) enum ItemProgress {
    #[default]
    Pending,
    Done,
    Failed(Error),
}

/// The state of one ledger item in a batch.
#[derive(Debug)]
pub(super) struct LedgerItemState<'r> {
    pub(super) source: &'r SourceKey<'r>,
    pub(super) identity: &'r ItemIdentity<'r, 'r>,
    /// The records in the order of their positions.
    pub(super) records: SmallVec<[&'r ChangeRecord<'r>; 2]>,
    /// The index in the batch of each record.
    batch_indexes: RecordIndexes,
    /// Malformed records, with their indexes in the batch.
    malformed: Vec<(usize, &'r BadRecord<'r>)>,
    /// The old images that have been decoded, by record.
    pub(super) old_images: BTreeMap<usize, Image<'r>>,
    /// The errors of records that cannot be counted, by record.
    pub(super) record_errors: BTreeMap<usize, Error>,
    /// The label of the table's stream, if the item is reconciled.
    stream: &'r str,
    /// Whether `entry` and `settled_markers` are what is stored, as far as known.
    pub(super) is_entry_known: bool,
    pub(super) entry: Option<LedgerEntry<'r>>,
    /// The entry's key; set from reading the entry until writing it.
    pub(super) entry_key: Option<ItemKey>,
    /// The positions of the expiries whose marker exists.
    pub(super) settled_markers: Vec<Position<'r>>,
    pub(super) observation: ItemObservation,
    pub(super) decision: RecordDecision,
    /// The plan that this round writes.
    pub(super) plan: Option<ItemPlan<'r>>,
    /// Why this round could not plan: the retryable error of a lookup.
    pub(super) lookup_delay: Option<Error>,
    /// The item must have a transaction of its own, because a shared one was rejected and the cause is unknown.
    pub(super) is_isolated: bool,
    pub(super) progress: ItemProgress,
    /// The number of records that were delivered more than once in this batch; each is processed once.
    pub(super) repeated_records: usize,
    /// Whether a write whose response this batch has not seen counted something of the item: a write of an earlier
    /// delivery, of another consumer, or of this batch with a lost response. Its author may not have refreshed any
    /// mirror.
    is_counted_elsewhere: bool,
    /// The rollups whose mirrors must be refreshed because of what was committed.
    pub(super) changed_targets: Vec<TargetId>,
}

impl<'r> LedgerItemState<'r> {
    pub(super) fn new(item: SourceItem<'r>) -> Self {
        let mut records: SmallVec<[(usize, &ChangeRecord<'_>); 2]> = SmallVec::new();
        let mut malformed = Vec::new();
        for ItemRecord { index, record } in item.records {
            match record {
                Ok(record) => records.push((index, record)),
                Err(record) => malformed.push((index, record)),
            }
        }
        records.sort_by(|(_, a), (_, b)| a.position.cmp(&b.position));
        let delivered = records.len();
        records.dedup_by(|(_, later), (_, first)| later.position == first.position);
        Self {
            repeated_records: delivered - records.len(),
            source: item.source,
            identity: item.identity,
            batch_indexes: records.iter().map(|(index, _)| *index).collect(),
            records: records.into_iter().map(|(_, record)| record).collect(),
            malformed,
            old_images: BTreeMap::new(),
            record_errors: BTreeMap::new(),
            stream: "",
            is_entry_known: false,
            entry: None,
            entry_key: None,
            settled_markers: Vec::new(),
            observation: ItemObservation::Unneeded,
            decision: RecordDecision::default(),
            plan: None,
            lookup_delay: None,
            is_isolated: false,
            progress: ItemProgress::Pending,
            is_counted_elsewhere: false,
            changed_targets: Vec::new(),
        }
    }

    /// An item that is reconciled with its table, regardless of its records.
    pub(super) fn reconciling(item: SourceItem<'r>, stream: &'r str) -> Self {
        Self { observation: ItemObservation::Wanted, stream, ..Self::new(item) }
    }

    /// The contributions that are counted now, as far as known.
    pub(super) fn current(&self) -> &ItemContributions {
        self.entry.as_ref().map_or(const { &ItemContributions::NOTHING }, |entry| &entry.current)
    }

    /// The assignment of the item to the shards of sharded rollups.
    pub(super) fn sharding(&self) -> ShardAssignment<'_> {
        ShardAssignment { source: self.source, current: self.current() }
    }

    pub(super) fn is_pending(&self) -> bool {
        matches!(self.progress, ItemProgress::Pending)
    }

    /// Whether the item is counted, by this batch or before it.
    pub(super) fn is_done(&self) -> bool {
        matches!(self.progress, ItemProgress::Done)
    }

    /// Whether a write that this batch did not confirm may have left mirrors stale.
    pub(super) fn is_counted_elsewhere(&self) -> bool {
        self.is_done() && self.is_counted_elsewhere
    }

    pub(super) fn set_decision(&mut self, decision: RecordDecision) {
        self.is_counted_elsewhere |=
            decision.uncounted.len() < self.records.len() || self.may_be_counted_by_reconciliation();
        self.decision = decision;
    }

    /// The label of the stream that the item's next records come from.
    pub(super) fn stream_label(&self) -> &str {
        self.records.last().map_or(self.stream, |record| record.position.label())
    }

    /// Decodes the old images of the records that `is_wanted` selects.
    pub(super) fn decode_old_images(
        &mut self,
        attributes: &AttributeInterner,
        is_wanted: impl Fn(usize) -> bool,
    ) {
        for (index, record) in self.records.iter().enumerate() {
            if !is_wanted(index) || self.old_images.contains_key(&index) {
                continue;
            }
            match record.old.decode(attributes) {
                Ok(image) => self.old_images.extend(image.map(|image| (index, image))),
                Err(error) => {
                    self.record_errors.insert(index, error);
                }
            }
        }
    }

    /// Every decoded image of the item in the batch.
    pub(super) fn all_images(&self) -> impl Iterator<Item = &Image<'_>> {
        let new = self.records.iter().filter_map(|record| record.new.as_ref());
        new.chain(self.old_images.values()).map(|image| -> &Image<'_> { image })
    }

    pub(super) fn fail(&mut self, error: Error) {
        self.progress = ItemProgress::Failed(error);
    }

    /// Whether a reconciliation, which keeps the position, may have counted the state that these records show.
    fn may_be_counted_by_reconciliation(&self) -> bool {
        let Some(as_of) = self.entry.as_ref().and_then(|entry| entry.as_of) else { return false };
        let latest = as_of.plus(CLOCK_TOLERANCE);
        self.records.iter().any(|record| record.created_at.is_none_or(|created| created <= latest))
    }

    /// Marks the entry as unknown, because a write with an unknown response may have taken effect.
    pub(super) fn forget_entry(&mut self) {
        self.is_entry_known = false;
        self.is_counted_elsewhere = true;
    }

    /// The index in the batch of the item's first record.
    fn first_batch_index(&self) -> usize {
        let malformed = self.malformed.iter().map(|(index, _)| *index);
        self.batch_indexes.iter().copied().chain(malformed).min().unwrap_or(0)
    }

    /// Decodes the stored ledger entry.
    pub(super) fn set_entry(&mut self, stored: Option<&Item>, targets: &mut RollupTargets) {
        match stored.map(|item| LedgerEntry::decode(item, targets)).transpose() {
            Ok(entry) => {
                self.entry = entry;
                self.is_entry_known = true;
                // The item must be read after its entry: a state that was read before may be older than this entry.
                if matches!(self.observation, ItemObservation::Seen { .. }) {
                    self.observation = ItemObservation::Wanted;
                }
            }
            Err(error) => self.fail(error),
        }
    }

    /// Handles a refused write of the entry.
    pub(super) fn refuse_entry(
        &mut self,
        refusal: WriteRefusal,
        targets: &mut RollupTargets,
        tally: &CommitTally,
    ) {
        match refusal {
            WriteRefusal::Condition(stored) => {
                tally.conflicts.add(1);
                self.set_entry(stored.as_ref(), targets);
            }
            WriteRefusal::Conflict => tally.conflicts.add(1),
            WriteRefusal::Throttled => {}
            WriteRefusal::Invalid(reason) => {
                let message = format!("DynamoDB rejected the item's ledger entry: {reason}");
                self.fail(Error::new(ErrorKind::Rejected, message));
            }
        }
    }

    /// Handles a committed plan.
    pub(super) fn apply_committed_plan(&mut self, tally: &CommitTally) {
        let Some(ItemPlan { entry, markers, mirrored, .. }) = self.plan.take() else { return };
        tally.ledger_writes.add(1);
        self.changed_targets.extend(mirrored);
        self.changed_targets.extend(self.entry.iter().flat_map(|entry| &entry.left));
        self.entry = Some(entry);
        self.settled_markers.extend(markers);
        if matches!(self.observation, ItemObservation::Seen { .. }) {
            // The next round decides on the records, if there are any, by the new entry.
            tally.reconciled.add(1);
            self.observation = ItemObservation::Counted;
            return;
        }
        let RecordDecision { uncounted, expiries, too_old_expiries, .. } = &self.decision;
        let is_settled = |index: &usize| {
            self.records.get(*index).is_some_and(|record| self.settled_markers.contains(&record.position))
        };
        if expiries.iter().all(|index| is_settled(index) || self.record_errors.contains_key(index)) {
            let used = uncounted.len() + expiries.iter().filter(|index| !uncounted.contains(index)).count();
            let too_old_only = too_old_expiries.iter().filter(|index| !uncounted.contains(index)).count();
            tally.folded.add_len(used.saturating_sub(1));
            tally.duplicates.add_len(self.records.len().saturating_sub(used + too_old_only));
            tally.expiries_too_old.add_len(too_old_expiries.len());
            self.progress = ItemProgress::Done;
        }
    }

    /// The images that the uncounted part of the item depends on.
    pub(super) fn images_to_count(&self) -> impl Iterator<Item = &Image<'_>> {
        let observed = match &self.observation {
            ItemObservation::Seen { image, .. } => image.as_ref(),
            ItemObservation::Unneeded | ItemObservation::Wanted | ItemObservation::Counted => None,
        };
        let uncounted =
            self.decision.uncounted.iter().filter_map(|index| self.records.get(*index)?.new.as_ref());
        let expired = self.decision.expiries.iter().filter_map(|index| self.old_images.get(index));
        let all = uncounted.chain(expired).map(|image| -> &Image<'_> { image });
        all.chain(observed.map(|image| -> &Image<'_> { image })).filter(|_| self.is_pending())
    }

    /// The images that may offer outputs to the lookups of other items.
    pub(super) fn offering_images(&self) -> impl Iterator<Item = &Image<'r>> {
        let is_looked_up = !self.identity.entity.offers.is_empty();
        let new = self.records.iter().filter_map(|record| record.new.as_ref());
        new.chain(self.old_images.values()).filter(move |_| is_looked_up)
    }

    /// The new image of the item's newest record, if it has one.
    pub(super) fn newest_image(&self) -> Option<&'r Image<'r>> {
        self.records.last().and_then(|record| record.new.as_ref())
    }

    /// The records of this item that could not be counted. A record whose position the ledger has passed is counted,
    /// even if it is malformed, unless it is an expiry that is not settled yet.
    pub(super) fn into_failures(self) -> Vec<RecordFailure> {
        let first = self.first_batch_index();
        let settles_expiries = self.identity.entity.on_expiry == OnExpiry::Keep;
        let Self {
            progress, record_errors, malformed, entry, batch_indexes, records, settled_markers, ..
        } = self;
        let is_counted = |position: &Position<'_>, is_expiry: bool| {
            entry.as_ref().is_some_and(|entry| *position <= entry.position)
                && (!is_expiry || !settles_expiries || settled_markers.contains(position))
        };
        let mut failures = Vec::new();
        if let ItemProgress::Failed(error) = progress {
            failures.push(RecordFailure { index: first, error });
        }
        for (record, error) in record_errors {
            let (Some(index), Some(record)) = (batch_indexes.get(record), records.get(record)) else {
                continue;
            };
            if !is_counted(&record.position, record.expired) {
                failures.push(RecordFailure { index: *index, error });
            }
        }
        for (index, record) in malformed {
            let position = record.position.as_ref();
            if !position.is_some_and(|position| is_counted(position, record.expired)) {
                failures.push(RecordFailure { index, error: record.error.restated() });
            }
        }
        failures
    }
}
