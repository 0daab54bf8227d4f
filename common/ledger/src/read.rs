//! The read stage: reads what items wait for (entries, items, lookups, rollups) and gives it to them.
//!
//! Every request is sent once a round. A key that could not be read is read again in the next round, so that it holds up only the items
//! that need it.

use std::collections::BTreeSet;

use afterwrite_model::effect::ItemKey;
use afterwrite_model::projection::{LookupKey, TargetId};
use afterwrite_model::record::{Image, Position};
use afterwrite_model::table::{Model, Rollup};
use afterwrite_model::{Error, ErrorKind, Result};

use super::batch::{BatchContext, LedgerBatch};
use super::core::lookups::LookupChoice;
use super::core::{ItemInput, ItemState, LedgerCore, LedgerItem};
use super::state::entry::LedgerEntry;
use super::state::lookup::RememberedLookup;
use super::state::marker::{ExpiryMarker, MarkerState, StoredMarker};
use super::state::rollup::{computed_rollup, rollup_key};
use crate::tables::{ReadItem, Unprocessed, misaligned_read};

/// An unread item, by its index in the batch, and the positions of its expiries.
type UnreadItem<'r> = (usize, Vec<Position<'r>>);

/// Reads for the items of one batch.
pub(crate) struct ReadStage<'l> {
    pub(crate) context: BatchContext<'l>,
}

impl ReadStage<'_> {
    /// Reads the entries of items, and the markers of their expiries. The same requests read the remembered lookups that the items
    /// need if their records turn out to be uncounted. Returns why an item is still unread, if one is.
    pub(crate) async fn read_entries(&self, batch: &mut LedgerBatch<'_>) -> Result<Option<Unprocessed>> {
        let (mut keys, owners) = self.entry_keys(batch)?;
        let lookups = self.expected_lookups(batch);
        for lookup in &lookups {
            keys.push(RememberedLookup::key(&self.context.core.keys, &self.context.core.model, lookup)?);
        }
        let stored = self.context.requests.read(&keys).await?.items;
        let mut stored = keys.into_iter().zip(stored);
        let context = self.context.step_context();
        let mut unread = None;
        for (index, expiries) in owners {
            let Some((key, entry)) = stored.next() else { return Err(misaligned_read()) };
            let markers: Vec<ReadItem> =
                stored.by_ref().take(expiries.len()).map(|(_, marker)| marker).collect();
            let markers: Result<Vec<_>, Unprocessed> = markers.into_iter().collect();
            let (entry, markers) = match entry.and_then(|entry| Ok((entry, markers?))) {
                Ok(read) => read,
                Err(unprocessed) => {
                    unread = Some(unprocessed);
                    continue;
                }
            };
            let markers = expiries.into_iter().zip(markers).filter_map(|(position, marker)| {
                let state = MarkerState::of(&marker?, &position);
                Some(StoredMarker { position, state })
            });
            let markers = markers.collect();
            batch.step(index, ItemInput::EntryRead { key, entry, markers }, context);
        }
        for (lookup, (_, remembered)) in lookups.into_iter().zip(stored) {
            self.context.lookups.note_read(lookup, remembered, &mut batch.lookups);
        }
        Ok(unread)
    }

    /// The keys of the entries of unread items, each followed by the keys of the markers of the item's expiries. Also the items, with
    /// the positions of their expiries.
    fn entry_keys<'r>(&self, batch: &LedgerBatch<'r>) -> Result<(Vec<ItemKey>, Vec<UnreadItem<'r>>)> {
        let LedgerCore { keys: state_keys, model, .. } = self.context.core;
        let capacity = batch.items.len();
        let (mut keys, mut owners) = (Vec::with_capacity(capacity), Vec::with_capacity(capacity));
        for (index, item) in batch.unfinished() {
            if !matches!(item.state, ItemState::Unread(_)) {
                continue;
            }
            keys.push(LedgerEntry::key(state_keys, model, item.facts.source)?);
            let expiries: Vec<_> = item.facts.expiry_positions().collect();
            for position in &expiries {
                keys.push(ExpiryMarker::key(state_keys, model, item.facts.source, position)?);
            }
            owners.push((index, expiries));
        }
        Ok((keys, owners))
    }

    /// Notes what this process remembers of the lookups of unread items. Returns the lookups that it does not remember.
    fn expected_lookups(&self, batch: &mut LedgerBatch<'_>) -> BTreeSet<LookupKey<'static>> {
        let mut unknown = BTreeSet::new();
        if !self.context.core.model.has_lookups() {
            return unknown;
        }
        let LedgerBatch { items, lookups, .. } = batch;
        let unread = items.iter().filter(|item| matches!(item.state, ItemState::Unread(_)));
        for (key, _) in unread.flat_map(|item| item.state.lookups(&item.facts, &self.context.core.model)) {
            if !self.context.lookups.note_cached(&key, lookups) {
                unknown.insert(key.into_owned());
            }
        }
        unknown
    }

    /// Reads the items whose stored state is needed. Returns why one is still unread, if one is.
    pub(crate) async fn read_items(&self, batch: &mut LedgerBatch<'_>) -> Result<Option<Unprocessed>> {
        let (mut keys, mut owners, mut keyless) = (Vec::new(), Vec::new(), Vec::new());
        for (index, item) in batch.unfinished() {
            if !matches!(item.state, ItemState::NeedsItem(_)) {
                continue;
            }
            let source = item.facts.source;
            match self.context.core.item_key(source) {
                Some(key) => {
                    keys.push(key);
                    owners.push(index);
                }
                None => keyless.push(index),
            }
        }
        let context = self.context.step_context();
        for index in keyless {
            let message = "the record's key does not match the key schema of its table";
            batch.step(index, ItemInput::GivenUp(Error::new(ErrorKind::Record, message)), context);
        }
        let read = self.context.requests.read(&keys).await?;
        let mut unread = None;
        for (index, stored) in owners.into_iter().zip(read.items) {
            match stored {
                Ok(stored) => {
                    let image =
                        stored.map(|stored| Image::from_item(&stored, &self.context.core.model.attributes));
                    batch.step(index, ItemInput::ItemRead { image, at: read.server_time }, context);
                }
                Err(unprocessed) => unread = Some(unprocessed),
            }
        }
        Ok(unread)
    }

    /// Resolves the lookups that items wait for.
    pub(crate) async fn resolve_lookups(&self, batch: &mut LedgerBatch<'_>) -> Result<()> {
        if !self.context.core.model.has_lookups() {
            return Ok(());
        }
        let LedgerBatch { items, lookups, .. } = batch;
        // If nothing was unknown when the entries were read, only images that were decoded since then can need more.
        let is_complete = lookups.are_found();
        let open = items.iter().filter(|item| !(is_complete && item.state.has_new_images_only(&item.facts)));
        for (key, offer) in open.flat_map(|item| item.state.lookups(&item.facts, &self.context.core.model)) {
            self.context.lookups.require(key, offer, lookups);
        }
        self.context.lookups.resolve(LookupChoice::Needed, lookups).await
    }

    /// Reads the rollups whose updates depend on what is stored. Returns why one is still unread, if one is.
    pub(crate) async fn read_rollups(&self, batch: &mut LedgerBatch<'_>) -> Result<Option<Unprocessed>> {
        let unread = unread_rollups(&self.context.core.model, batch);
        if unread.is_empty() && batch.read_rollups.is_empty() {
            return Ok(None);
        }
        let LedgerBatch { targets, read_rollups, .. } = &mut *batch;
        // A rollup without a valid key cannot be stored, so it is noted as absent. The error is reported when the rollup is written.
        let (keyless, keyed): (Vec<_>, Vec<_>) = unread
            .into_iter()
            .map(|id| (id, rollup_key(&self.context.core.keys, targets.get(id))))
            .partition(|(_, key)| key.is_none());
        read_rollups.extend(keyless.into_iter().map(|(id, _)| (id, None)));
        let (ids, keys): (Vec<_>, Vec<_>) =
            keyed.into_iter().filter_map(|(id, key)| Some((id, key?))).unzip();
        // The transactions of a rollup that was not read wait for the next round.
        let (mut still_unread, mut reason) = (BTreeSet::new(), None);
        for (id, stored) in ids.into_iter().zip(self.context.requests.read(&keys).await?.items) {
            match stored {
                Ok(stored) => drop(read_rollups.insert(id, stored)),
                Err(unprocessed) => {
                    still_unread.insert(id);
                    reason = Some(unprocessed);
                }
            }
        }
        batch.drop_unchanged_extremes();
        if !still_unread.is_empty() {
            let uses = |item: &LedgerItem<'_>| {
                item.state
                    .planned()
                    .is_some_and(|plan| plan.targets().any(|target| still_unread.contains(&target)))
            };
            let throttled =
                batch.unfinished().filter(|(_, item)| uses(item)).map(|(index, _)| index).collect();
            batch.separate(&throttled);
        }
        Ok(reason)
    }
}

/// The rollups that must be read before the plans can be written: rollups with computed measures, and rollups with a change that cannot be added.
fn unread_rollups(model: &Model, batch: &LedgerBatch<'_>) -> BTreeSet<TargetId> {
    let has_computed = model.rollups.iter().any(Rollup::is_computed);
    let is_computed = |target: &TargetId| computed_rollup(&batch.targets, *target).is_some();
    let mut unread = BTreeSet::new();
    for plan in batch.items.iter().filter_map(|item| item.state.planned()) {
        unread.extend(plan.exceeding());
        if has_computed {
            unread.extend(plan.targets().filter(is_computed));
        }
    }
    unread.retain(|target| !batch.read_rollups.contains_key(target));
    unread
}
