//! The facts about an item of a batch: the records that were delivered, and what the ledger has stored. Pure.
//!
//! A stage asks them; the item's own transitions ([`super::item`]) change them. One fact is changed by a stage: the write of the entry moves
//! the entry's key out of [`ItemFacts::entry_key`] instead of copying it.

use afterwrite_model::ErrorKind;
use afterwrite_model::entity::{ItemCandidates, SourceKey};
use afterwrite_model::projection::{ItemContributions, RollupTargets, ShardAssignment};
use afterwrite_model::record::{AttributeValue, ChangeRecord, Image, Item, Operation, Position, Timestamp};
use afterwrite_model::table::OnExpiry;

use super::PoisonPolicy;
use super::decide::{DeliveredRecords, RecordDecision, RecordIndexes, SourceItem, UncountableRecord};
use crate::policy::{CLOCK_TOLERANCE, SERVICE_TIME_TOLERANCE, WriteTurn};
use crate::state::ReadKey;
use crate::state::entry::LedgerEntry;
use crate::state::life::{LifeChange, UnrecordedLife, lives_after};
use crate::state::marker::{MarkerState, StoredMarker};
use crate::state::parked::ParkedPosition;
use crate::state::unreadable::UnreadableEntry;

/// The facts about an item of a batch.
#[derive(Debug)]
pub(crate) struct ItemFacts<'r> {
    pub(crate) source: &'r SourceKey<'r>,
    pub(crate) candidates: &'r ItemCandidates<'r, 'r>,
    pub(crate) records: DeliveredRecords<'r>,
    /// The label of the table's stream, for an item without records.
    stream: &'r str,
    pub(crate) entry_key: ReadKey,
    pub(crate) entry: KnownEntry<'r>,
    /// The markers that are stored, as far as known.
    pub(super) markers: Vec<StoredMarker<'r>>,
}

/// The entry of an item as it is stored, as far as known.
#[derive(Debug, Default)]
pub(crate) enum KnownEntry<'r> {
    #[default]
    Unread,
    Absent,
    Readable(LedgerEntry<'r>),
    /// It cannot be read: it is never replaced, and the records of its item are parked.
    Unreadable(UnreadableEntry),
}

/// Whether an entry and a record are of two streams of a table, by the times in their labels. An emulator may show one stream under two
/// labels, of which one is no time.
fn are_of_two_streams(entry: &LedgerEntry<'_>, record: &ChangeRecord<'_>) -> bool {
    let [of_entry, of_record] =
        [&entry.position, &record.position].map(|position| Timestamp::parse(position.label()));
    of_entry.is_some() && of_record.is_some() && of_entry != of_record
}

impl KnownEntry<'_> {
    /// Decodes the stored entry.
    fn of(stored: Option<Item>, targets: &mut RollupTargets) -> Self {
        let Some(stored) = stored else { return Self::Absent };
        match LedgerEntry::decode(&stored, targets) {
            Ok(entry) => Self::Readable(entry),
            Err(error) => Self::Unreadable(UnreadableEntry::new(stored, error)),
        }
    }
}

impl<'r> ItemFacts<'r> {
    pub(super) fn new(item: SourceItem<'r>, stream: &'r str) -> Self {
        Self {
            source: item.source,
            candidates: item.candidates,
            records: DeliveredRecords::new(item.records, item.candidates),
            stream,
            entry_key: ReadKey::Unmade,
            entry: KnownEntry::Unread,
            markers: Vec::new(),
        }
    }

    /// Notes the entry as it is stored.
    pub(super) fn learn_entry(&mut self, stored: Option<Item>, targets: &mut RollupTargets) {
        self.entry = KnownEntry::of(stored, targets);
    }

    /// Notes markers as they are stored.
    pub(super) fn learn_markers(&mut self, markers: Vec<StoredMarker<'r>>) {
        self.markers.retain(|known| markers.iter().all(|new| new.position != known.position));
        self.markers.extend(markers);
    }

    /// Gives the records that depend on an unreadable entry or marker an error, and removes the errors of records that no
    /// longer depend on one.
    pub(super) fn note_unreadable(&mut self) {
        self.records.errors.retain(|_, error| error.kind() != ErrorKind::Unreadable);
        if self.unreadable_entry().is_none() && self.markers.is_empty() {
            return;
        }
        for (index, record) in self.records.changes.iter().enumerate() {
            let marker = self.markers.iter().find(|marker| marker.position == record.position);
            let of_marker = marker.and_then(StoredMarker::error);
            let of_entry = self.unreadable_entry().map(|unreadable| unreadable.error.restated());
            if let Some(error) = of_entry.or(of_marker) {
                self.records.errors.entry(index).or_insert(error);
            }
        }
    }

    /// The entry, if one is stored and can be read.
    pub(crate) fn readable_entry(&self) -> Option<&LedgerEntry<'r>> {
        match &self.entry {
            KnownEntry::Readable(entry) => Some(entry),
            KnownEntry::Unread | KnownEntry::Absent | KnownEntry::Unreadable(_) => None,
        }
    }

    pub(super) fn unreadable_entry(&self) -> Option<&UnreadableEntry> {
        match &self.entry {
            KnownEntry::Unreadable(unreadable) => Some(unreadable),
            KnownEntry::Unread | KnownEntry::Absent | KnownEntry::Readable(_) => None,
        }
    }

    /// The contributions that are counted now, as far as known.
    pub(crate) fn current(&self) -> &ItemContributions {
        self.readable_entry().map_or(const { &ItemContributions::NOTHING }, |entry| &entry.current)
    }

    /// The assignment of the item to the shards of sharded rollups.
    pub(super) fn sharding(&self) -> ShardAssignment<'_> {
        ShardAssignment { source: self.source, current: self.current() }
    }

    /// Whether the item can have outputs for lookups of other items.
    pub(crate) fn is_looked_up(&self) -> bool {
        self.candidates.any(|entity| !entity.offers.is_empty())
    }

    /// Whether the item can show mirrors.
    pub(crate) fn has_mirrors(&self) -> bool {
        self.candidates.any(|entity| !entity.mirrors.is_empty())
    }

    /// Whether expiries of such an item are settled, as far as its key shows.
    pub(super) fn may_settle(&self) -> bool {
        self.candidates.any(|entity| entity.on_expiry == OnExpiry::Keep)
    }

    /// The positions of the expiries that have to be settled.
    pub(crate) fn expiry_positions(&self) -> impl Iterator<Item = Position<'r>> {
        let settles = self.may_settle();
        self.records.expiry_positions().filter(move |_| settles)
    }

    /// The label of the stream that the item's next records come from.
    pub(super) fn stream_label(&self) -> &str {
        self.records.stream_label().unwrap_or(self.stream)
    }

    /// Whether the ledger has passed a record and does not mark it as missing. An expiry must also be settled.
    pub(super) fn is_counted(&self, record: &UncountableRecord<'_>) -> bool {
        let Some(position) = record.position else { return false };
        match &self.entry {
            KnownEntry::Unread | KnownEntry::Absent => false,
            KnownEntry::Unreadable(unreadable) => {
                unreadable.position.as_ref().is_some_and(|passed| position <= passed)
            }
            KnownEntry::Readable(entry) => {
                entry.has_passed(position, record.created_at)
                    && entry.behind.as_ref().is_none_or(|behind| behind.position != *position)
                    && (!self.must_settle(record) || self.is_settled(position))
            }
        }
    }

    /// Whether the ledger marks the record as missing.
    pub(super) fn is_parked(&self, record: &UncountableRecord<'_>, poison: PoisonPolicy) -> bool {
        let Some(position) = record.position else { return false };
        if poison == PoisonPolicy::Fail || !record.error.kind().is_poison() {
            return false;
        }
        if self.must_settle(record) && self.unreadable_entry().is_none() {
            return self.is_parked_expiry(position);
        }
        self.behind().is_some_and(|behind| *position <= behind.position)
    }

    /// The record that the stored entry marks as missing.
    pub(super) fn behind(&self) -> Option<&ParkedPosition<'_>> {
        match &self.entry {
            KnownEntry::Unread | KnownEntry::Absent => None,
            KnownEntry::Readable(entry) => entry.behind.as_ref(),
            KnownEntry::Unreadable(unreadable) => unreadable.behind.as_ref(),
        }
    }

    pub(super) fn must_settle(&self, record: &UncountableRecord<'_>) -> bool {
        record.is_expiry && record.change.map_or_else(|| self.may_settle(), |change| self.settles(change))
    }

    /// Whether the record with this index is an expiry that is settled.
    pub(super) fn settles_record(&self, index: usize) -> bool {
        self.records.is_expiry(index)
            && self.records.changes.get(index).is_some_and(|record| self.settles(record))
    }

    /// Whether the expiry of a record is settled: by the entity that the item was of. An item that was of no entity has nothing to settle.
    fn settles(&self, record: &ChangeRecord<'_>) -> bool {
        if self.candidates.by_key().is_some() || !record.old.has_attributes() {
            return self.may_settle();
        }
        // An expiry that was parked before it could be read is settled, whatever its entity: that removes the mark.
        self.is_parked_expiry(&record.position)
            || self
                .candidates
                .before(record)
                .is_some_and(|identity| identity.entity.on_expiry == OnExpiry::Keep)
    }

    fn is_settled(&self, position: &Position<'_>) -> bool {
        self.markers.iter().any(|marker| marker.position == *position && marker.is_settled())
    }

    fn is_parked_expiry(&self, position: &Position<'_>) -> bool {
        self.markers.iter().any(|marker| marker.position == *position && marker.is_parked())
    }

    /// Whether the ledger marks exactly this record as missing.
    pub(super) fn is_marked(&self, index: usize) -> bool {
        self.records.changes.get(index).is_some_and(|record| {
            self.behind().is_some_and(|behind| behind.position == record.position)
                || self.is_parked_expiry(&record.position)
        })
    }

    /// When the next plan is written: later if an earlier delivery has parked one of its records.
    pub(super) fn write_turn(&self, decision: &RecordDecision) -> WriteTurn {
        let is_parked = |index| !self.records.errors.contains_key(&index) && self.is_marked(index);
        if decision.open_records().any(is_parked) { WriteTurn::ParkedAgain } else { WriteTurn::First }
    }

    /// The mark of the marker at this position, if the marker cannot be read.
    pub(crate) fn unreadable_marker(&self, position: &Position<'_>) -> Option<&AttributeValue<'static>> {
        let marker = self.markers.iter().find(|marker| marker.position == *position)?;
        match &marker.state {
            MarkerState::Unreadable { behind } => Some(behind),
            MarkerState::Settled | MarkerState::Parked => None,
        }
    }

    /// The change of the item's life that a comparison of its entry with its table shows, if its entity keeps what expired.
    pub(super) fn unrecorded_change(
        &self,
        item: Option<&Image<'_>>,
        now: Timestamp,
    ) -> Option<UnrecordedLife> {
        let entry = self.readable_entry().filter(|entry| entry.has_counted() && self.may_settle())?;
        let change = match (entry.expires_at.is_some(), item) {
            // Also an item that counted nothing: a lost record may have been the change after which it counts.
            (false, None) if !entry.unrecorded.iter().any(|life| life.is_still_of(entry.as_of)) => {
                LifeChange::Vanished
            }
            // Also an item that counts nothing now: its next change may count it again.
            (true, Some(_)) if entry.position.label() != self.stream_label() => LifeChange::Revived,
            // The position becomes that of the parked record, which may have removed the item.
            (is_tombstone, Some(_)) if is_tombstone || entry.behind.is_some() => LifeChange::Began,
            (true | false, _) => return None,
        };
        Some(entry.unrecorded_life(change, None, now))
    }

    /// The unrecorded changes of the item's life after its records, if the records change them. `settled` are the indexes of the expiries that
    /// are settled with them, `left` those of the records that stay uncounted.
    pub(super) fn changed_lives(
        &self,
        decision: &RecordDecision,
        settled: &RecordIndexes,
        left: &[usize],
        now: Timestamp,
    ) -> Option<Vec<UnrecordedLife>> {
        let entry = self.readable_entry().filter(|entry| entry.has_counted());
        let known: &[UnrecordedLife] = entry.map_or(&[], |entry| &entry.unrecorded);
        let records = &self.records.changes;
        let is_settled = |index: usize| {
            let position = records.get(index).map(|record| &record.position);
            settled.contains(&index) || position.is_some_and(|position| self.is_settled(position))
        };
        let shows_end = |index: usize| {
            !self.records.errors.contains_key(&index) && (!self.settles_record(index) || is_settled(index))
        };
        let mut lives =
            if known.is_empty() { Vec::new() } else { lives_after(known, records, left, shows_end) };
        if self.may_settle() {
            let found = entry.and_then(|entry| {
                self.life_before(entry, decision, now).or_else(|| self.ended_life(entry, decision, now))
            });
            lives.extend(found);
            lives.extend(self.lives_between(decision, now));
        }
        (lives != known).then_some(lives)
    }

    /// The lives that ended between two records to count of one delivery, without a record: the second record inserts an item that the first
    /// record shows.
    fn lives_between(
        &self,
        decision: &RecordDecision,
        now: Timestamp,
    ) -> impl Iterator<Item = UnrecordedLife> {
        let record = |index: usize| self.records.changes.get(index).copied();
        decision.uncounted.windows(2).filter_map(move |pair| {
            let [first, second] = pair else { return None };
            let (first, second) = (record(*first)?, record(*second)?);
            let was_counted =
                self.candidates.after(first).is_some_and(|item| item.entity.keeps_what_expired());
            (was_counted && second.operation == Operation::Insert)
                .then(|| UnrecordedLife::between(&first.position, &second.position, now))
        })
    }

    /// The change of the item's life before the first record to count, if that record shows that the record of the change is missing.
    ///
    /// | the entry | the record | the missing record |
    /// |---|---|---|
    /// | has the item, of any stream | inserts it | removed it |
    /// | is a tombstone of an earlier stream | modifies or removes it | a restore has none |
    fn life_before(
        &self,
        entry: &LedgerEntry<'_>,
        decision: &RecordDecision,
        now: Timestamp,
    ) -> Option<UnrecordedLife> {
        let record = self.records.changes.get(*decision.uncounted.first()?)?;
        let is_same_stream = record.position.label() == entry.position.label();
        if self.removal_after(entry).is_some_and(|removal| removal.position < record.position) {
            return None;
        }
        // Where no record has shown the life that is counted, a reconciliation may have counted the inserted item.
        let is_unshown = entry.position.is_start() || entry.unrecorded.iter().any(UnrecordedLife::is_begun);
        let is_later = entry.as_of.is_none_or(|as_of| {
            record.created_at.is_some_and(|created| created > as_of.plus(SERVICE_TIME_TOLERANCE))
        });
        let change = match (record.operation, entry.expires_at) {
            (Operation::Insert, None) if is_same_stream || are_of_two_streams(entry, record) => {
                LifeChange::Vanished
            }
            (Operation::Modify | Operation::Remove, Some(_)) if !is_same_stream => LifeChange::Revived,
            (Operation::Insert | Operation::Modify | Operation::Remove, _) => return None,
        };
        let is_named = |life: &UnrecordedLife| life.after == entry.position && life.is_current(entry.as_of);
        ((is_later || !is_unshown)
            && !entry.unrecorded.iter().any(is_named)
            && record.position > entry.position)
            .then(|| {
                let life = entry.unrecorded_life(change, Some(&record.position), now);
                // An inserted item that a reconciliation has counted says nothing about the life before it.
                UnrecordedLife { counted_at: life.counted_at.filter(|_| is_later), ..life }
            })
    }

    /// The life that a reconciliation has counted, if a removal after the entry's position was delivered late: the removed life ended before
    /// the reconciliation, and the insertion of the next life is still to come.
    fn ended_life(
        &self,
        entry: &LedgerEntry<'_>,
        decision: &RecordDecision,
        now: Timestamp,
    ) -> Option<UnrecordedLife> {
        let is_live = entry.expires_at.is_none() && !entry.position.is_start();
        let is_begun = entry.unrecorded.iter().any(UnrecordedLife::is_begun);
        // The newest record: an insertion after the removal would have to be removed as well.
        let newest = self.records.changes.last()?;
        let is_late =
            newest.new.is_none() && newest.position > entry.position && decision.uncounted.is_empty();
        (is_live && is_late && !is_begun).then(|| entry.unrecorded_life(LifeChange::Began, None, now))
    }

    /// The first removal after the position of an entry.
    fn removal_after(&self, entry: &LedgerEntry<'_>) -> Option<&ChangeRecord<'r>> {
        let mut records = self.records.changes.iter().copied();
        records.find(|record| record.new.is_none() && record.position > entry.position)
    }

    /// Whether a reconciliation, which keeps the position, may have counted the state that the records show.
    pub(super) fn may_be_counted_by_reconciliation(&self, entry: &LedgerEntry<'_>) -> bool {
        let Some(as_of) = entry.as_of else { return false };
        let latest = as_of.plus(CLOCK_TOLERANCE);
        self.records.changes.iter().any(|record| record.created_at.is_none_or(|created| created <= latest))
    }

    /// The parked record, if it can be read now, and a reconciliation has counted a newer state. Another one removes the
    /// mark: only the table shows whether the item exists, so that its entry is a tombstone or is not.
    pub(super) fn healed_record(&self, decision: &RecordDecision) -> Option<usize> {
        let behind = self.readable_entry().and_then(|entry| entry.behind.as_ref())?;
        let missing = self.records.changes.iter().position(|record| record.position == behind.position)?;
        (!decision.uncounted.contains(&missing) && !self.records.errors.contains_key(&missing))
            .then_some(missing)
    }
}
