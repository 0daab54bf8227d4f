//! The records of one item in a batch, as they were delivered, and which of them still have to be counted.
//!
//! [`DeliveredRecords`] has each record once, in the order of positions. [`decide`] is a pure function of the ledger entry, the records and the
//! time.

use std::collections::BTreeMap;

use afterwrite_model::Error;
use afterwrite_model::entity::{ItemCandidates, SourceKey};
use afterwrite_model::projection::LookupKey;
use afterwrite_model::record::{AttributeInterner, BadRecord, ChangeRecord, Image, Position, Timestamp};
use smallvec::SmallVec;

use super::lookups::{ImageLookups, ItemImage, KeyedImage};
use crate::policy::{CLOCK_TOLERANCE, TOMBSTONE_LIFETIME};
use crate::state::entry::LedgerEntry;
use crate::state::marker::StoredMarker;

/// Indexes of records; usually one.
pub(crate) type RecordIndexes = SmallVec<[usize; 2]>;

/// A source item and its records in a batch.
#[derive(Debug)]
pub struct SourceItem<'r> {
    /// The item.
    pub source: &'r SourceKey<'r>,
    /// The entities that its key allows.
    pub candidates: &'r ItemCandidates<'r, 'r>,
    /// The item's records, in any order.
    pub records: ItemRecords<'r>,
}

/// The records of an item; usually one.
pub type ItemRecords<'r> = SmallVec<[ItemRecord<'r>; 1]>;

/// One record of an item, with its index in the batch.
#[derive(Debug)]
pub struct ItemRecord<'r> {
    /// The index in the batch.
    pub index: usize,
    /// Why the record cannot be counted although it could be decoded, if so.
    pub uncountable: Option<Error>,
    /// The record. A malformed record is a failure unless the ledger has passed its position.
    pub record: Result<&'r ChangeRecord<'r>, &'r BadRecord<'r>>,
}

/// The records of one item, each once and in the order of their positions, and what is known of each.
#[derive(Debug)]
pub(crate) struct DeliveredRecords<'r> {
    /// The records that could be decoded.
    pub(crate) changes: SmallVec<[&'r ChangeRecord<'r>; 2]>,
    /// The index in the batch of each.
    batch_indexes: RecordIndexes,
    /// The records that are deletions by TTL.
    expiries: RecordIndexes,
    /// Malformed records, with their indexes in the batch.
    malformed: Vec<(usize, &'r BadRecord<'r>)>,
    /// The lookups of the new image of each record.
    new_lookups: SmallVec<[ImageLookups; 1]>,
    /// The old images that have been decoded, by record.
    old_images: BTreeMap<usize, KeyedImage<'r>>,
    /// Why records cannot be counted, by record.
    pub(crate) errors: BTreeMap<usize, Error>,
    /// The number of records that were delivered more than once in this batch; each is processed once.
    pub(crate) repeated: usize,
}

/// A record with an error.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UncountableRecord<'d> {
    /// The index in the batch.
    pub(crate) batch_index: usize,
    /// The position, if it could be read.
    pub(crate) position: Option<&'d Position<'d>>,
    /// The creation time, if it could be read.
    pub(crate) created_at: Option<Timestamp>,
    pub(crate) is_expiry: bool,
    /// The record, if it could be decoded.
    pub(crate) change: Option<&'d ChangeRecord<'d>>,
    pub(crate) error: &'d Error,
}

impl<'r> DeliveredRecords<'r> {
    pub(crate) fn new(records: ItemRecords<'r>, candidates: &ItemCandidates<'_, '_>) -> Self {
        let mut decoded: SmallVec<[(usize, &ChangeRecord<'_>, Option<Error>); 2]> = SmallVec::new();
        let mut malformed = Vec::new();
        for ItemRecord { index, uncountable, record } in records {
            match record {
                Ok(record) => decoded.push((index, record, uncountable)),
                Err(record) => malformed.push((index, record)),
            }
        }
        decoded.sort_by(|(_, a, _), (_, b, _)| a.position.cmp(&b.position));
        let delivered = decoded.len();
        decoded.dedup_by(|(_, later, _), (_, first, _)| later.position == first.position);
        let mut delivered_records = Self {
            changes: SmallVec::with_capacity(decoded.len()),
            batch_indexes: RecordIndexes::with_capacity(decoded.len()),
            expiries: RecordIndexes::new(),
            malformed,
            new_lookups: SmallVec::with_capacity(decoded.len()),
            old_images: BTreeMap::new(),
            errors: BTreeMap::new(),
            repeated: delivered - decoded.len(),
        };
        for (index, (batch_index, record, uncountable)) in decoded.into_iter().enumerate() {
            delivered_records.changes.push(record);
            delivered_records.new_lookups.push(ImageLookups::default());
            delivered_records.expiries.extend(candidates.is_expiry(record).then_some(index));
            delivered_records.batch_indexes.push(batch_index);
            delivered_records.errors.extend(uncountable.map(|error| (index, error)));
        }
        delivered_records
    }

    /// Decodes the old images of the records that `is_wanted` selects.
    pub(crate) fn decode_old_images(
        &mut self,
        attributes: &AttributeInterner,
        is_wanted: impl Fn(usize) -> bool,
    ) {
        for (index, record) in self.changes.iter().enumerate() {
            if !is_wanted(index) || self.old_images.contains_key(&index) {
                continue;
            }
            match record.old.decode(attributes) {
                Ok(image) => self.old_images.extend(image.map(|image| (index, KeyedImage::new(image)))),
                Err(error) => {
                    self.errors.insert(index, error);
                }
            }
        }
    }

    /// Whether old images have been decoded.
    pub(crate) fn has_old_images(&self) -> bool {
        !self.old_images.is_empty()
    }

    pub(crate) fn new_image(&self, index: usize) -> Option<&'r Image<'r>> {
        self.changes.get(index).and_then(|record| record.new.as_ref())
    }

    /// The new image of the newest record.
    pub(crate) fn newest_image(&self) -> Option<&'r Image<'r>> {
        self.changes.last().and_then(|record| record.new.as_ref())
    }

    /// Every decoded image of the records.
    pub(crate) fn images(&self) -> impl Iterator<Item = &Image<'r>> {
        let new = self.changes.iter().filter_map(|record| record.new.as_ref());
        new.chain(self.old_images.values().map(|keyed| &keyed.image))
    }

    /// Every decoded image of the records, with its lookups.
    pub(crate) fn keyed_images(&self) -> impl Iterator<Item = ItemImage<'_>> {
        let new = (0..self.changes.len()).filter_map(|index| self.keyed_new_image(index));
        new.chain(self.old_images.values().map(KeyedImage::borrowed))
    }

    /// The new image of a record, with its lookups.
    pub(crate) fn keyed_new_image(&self, index: usize) -> Option<ItemImage<'_>> {
        Some(ItemImage { image: self.new_image(index)?, lookups: self.new_lookups.get(index)? })
    }

    /// The keys of the lookups of a record's new image, if they were made.
    pub(crate) fn known_keys(&self, index: usize) -> &[LookupKey<'static>] {
        self.new_lookups.get(index).map_or(&[], ImageLookups::known_keys)
    }

    /// The old image of a record, if it was decoded, with its lookups.
    pub(crate) fn keyed_old_image(&self, index: usize) -> Option<ItemImage<'_>> {
        self.old_images.get(&index).map(KeyedImage::borrowed)
    }

    /// The positions of the removals by TTL.
    pub(crate) fn expiry_positions(&self) -> impl Iterator<Item = Position<'r>> {
        let expired = self.expiries.iter().filter_map(|index| self.changes.get(*index));
        let malformed = self.malformed.iter().filter(|(_, record)| record.expired);
        let malformed = malformed.filter_map(|(_, record)| record.position.as_ref());
        expired.map(|record| &record.position).chain(malformed).cloned()
    }

    /// Whether a record is a deletion by TTL.
    pub(crate) fn is_expiry(&self, index: usize) -> bool {
        self.expiries.contains(&index)
    }

    /// The label of the stream that the records come from.
    pub(crate) fn stream_label(&self) -> Option<&str> {
        let malformed = self.malformed.iter().filter_map(|(_, record)| record.position.as_ref());
        let positions = self.changes.iter().map(|record| &record.position).chain(malformed);
        positions.last().map(Position::label)
    }

    /// The records that have errors.
    pub(crate) fn uncountable(&self) -> impl Iterator<Item = UncountableRecord<'_>> {
        let decoded = self.errors.iter().filter_map(|(index, error)| {
            let record = *self.changes.get(*index)?;
            Some(UncountableRecord {
                batch_index: *self.batch_indexes.get(*index)?,
                position: Some(&record.position),
                created_at: record.created_at,
                is_expiry: self.is_expiry(*index),
                change: Some(record),
                error,
            })
        });
        let malformed = self.malformed.iter().map(|(index, record)| UncountableRecord {
            batch_index: *index,
            position: record.position.as_ref(),
            created_at: None,
            is_expiry: record.expired,
            change: None,
            error: &record.error,
        });
        decoded.chain(malformed)
    }

    /// The index in the batch of the item's first record.
    pub(crate) fn first_batch_index(&self) -> usize {
        let malformed = self.malformed.iter().map(|(index, _)| *index);
        self.batch_indexes.iter().copied().chain(malformed).min().unwrap_or(0)
    }
}

/// The decision on the records of an item, by their indexes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RecordDecision {
    /// The records that are not counted yet, oldest first. The last one has the state to count.
    pub(crate) uncounted: RecordIndexes,
    /// The TTL expiries to settle.
    pub(crate) expiries: RecordIndexes,
    /// TTL expiries that the entry has passed and whose marker may have expired, so that it is unknown whether they were
    /// settled. They are reported, never applied.
    pub(crate) too_old_expiries: RecordIndexes,
    /// The records that are older than [`TOMBSTONE_LIFETIME`] and have no entry: the item itself must be read.
    pub(crate) needing_item: RecordIndexes,
    /// Whether the records change the unrecorded changes of the item's life.
    pub(crate) changes_lives: bool,
}

impl RecordDecision {
    /// Whether the records need no write and no read of the item. Expiries that are too old need neither: they are only reported.
    #[must_use]
    pub(crate) fn is_empty(&self) -> bool {
        self.uncounted.is_empty()
            && self.expiries.is_empty()
            && self.needing_item.is_empty()
            && !self.changes_lives
    }

    /// The records to count or to settle, oldest first.
    pub(crate) fn open_records(&self) -> impl Iterator<Item = usize> {
        // Both lists are sorted.
        let last = self.uncounted.last().max(self.expiries.last()).copied();
        let has = |indexes: &RecordIndexes, index: usize| indexes.binary_search(&index).is_ok();
        let is_open = move |index: &usize| has(&self.uncounted, *index) || has(&self.expiries, *index);
        last.into_iter().flat_map(|last| 0..=last).filter(is_open)
    }
}

/// Decides on `records`, which belong to one item and are ordered by position.
///
/// `markers` are the stored markers of the item's expiries. `settles` tells by the index of a record whether it is an expiry to settle.
/// `judged_at` is the time at which the age of a record is judged: see [`TombstoneHistory`](super::TombstoneHistory). `is_item_read` means
/// that the item was read after its entry was found absent, so that records older than tombstones are done.
pub(crate) fn decide(
    entry: Option<&LedgerEntry>,
    records: &[&ChangeRecord<'_>],
    markers: &[StoredMarker<'_>],
    settles: impl Fn(usize) -> bool,
    judged_at: Timestamp,
    is_item_read: bool,
) -> RecordDecision {
    // A record must be judged too old before the tombstone it could collide with is gone, even if one of the clocks is
    // slow.
    let oldest = judged_at.minus(TOMBSTONE_LIFETIME).plus(CLOCK_TOLERANCE);
    let is_too_old = |record: &ChangeRecord<'_>| record.created_at.is_some_and(|created| created < oldest);
    // An entry that only marks the item as parked has no information about older records.
    let entry = entry.filter(|entry| entry.has_counted());
    let mut decision = RecordDecision::default();
    for (index, record) in records.iter().enumerate() {
        let is_counted = match entry {
            Some(entry) => entry.has_passed(&record.position, record.created_at),
            None => is_too_old(record),
        };
        if !is_counted {
            decision.uncounted.push(index);
        }
        if entry.is_none() && is_too_old(record) && !is_item_read {
            decision.needing_item.push(index);
        }
        let marker = markers.iter().find(|marker| marker.position == record.position);
        if settles(index) && marker.is_none_or(|marker| !marker.is_settled()) {
            // The transaction that settles an expiry advances the entry past it. So an expiry that the entry has not
            // passed was never settled, even if its marker would be gone. Nor was a parked one.
            let is_certain = !is_too_old(record) || marker.is_some() || (entry.is_some() && !is_counted);
            let expiries = if is_certain { &mut decision.expiries } else { &mut decision.too_old_expiries };
            expiries.push(index);
        }
    }
    decision
}
