//! The rounds of a batch. Each round brings every pending item as far as possible; the next round uses what the refused
//! writes returned.

use std::sync::Arc;

use super::batch::LedgerBatch;
use super::decide::decide;
use super::item_state::{CommitOutcome, ItemObservation, ItemProgress, LedgerItemState, SourceItem};
use super::lookup::{DelayedLookups, LookupKeyRef, LookupResults, PendingLookups};
use super::tally::CommitTally;
use super::{InvocationContext, Ledger};
use crate::clock::Clock;
use crate::effect::{ItemKey, KeyAttribute};
use crate::entity::key_value;
use crate::projection::{LookupKey, RollupTargets, lookup_keys, offered_outputs};
use crate::record::{AttributeValue, Image, Timestamp};
use crate::sink::Tables;
use crate::table::{KeySchema, OnExpiry};
use crate::{Error, ErrorKind, Result};

impl<T: Tables, C: Clock> Ledger<T, C> {
    /// Counts the records of these items. Every item that can be committed is committed before `deadline`.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] only: the state table does not exist, has other keys, or access is denied. Errors
    /// of single records are in the outcome.
    pub async fn commit(&self, items: Vec<SourceItem<'_>>, deadline: Timestamp) -> Result<CommitOutcome> {
        Box::pin(self.run(items.into_iter().map(LedgerItemState::new).collect(), deadline)).await
    }

    /// Counts these items as they are in their tables now, regardless of what the ledger has counted. Apart from
    /// records, this is the only way to change the ledger. The items' records, if any, are counted as well. An item
    /// without an entry gets one at the beginning of the stream with the label `stream`, which must be the table's
    /// current stream.
    ///
    /// # Errors
    /// As [`Ledger::commit`].
    pub async fn reconcile<'r>(
        &self,
        items: Vec<SourceItem<'r>>,
        stream: &'r str,
        deadline: Timestamp,
    ) -> Result<CommitOutcome> {
        let items = items.into_iter().map(|item| LedgerItemState::reconciling(item, stream)).collect();
        Box::pin(self.run(items, deadline)).await
    }

    async fn run(&self, items: Vec<LedgerItemState<'_>>, deadline: Timestamp) -> Result<CommitOutcome> {
        let invocation = InvocationContext { deadline, tally: CommitTally::default() };
        let targets = RollupTargets::with_capacity(&self.model, items.len());
        let mut batch = LedgerBatch { items, targets, lookups: LookupResults::default() };
        invocation.tally.duplicates.add_len(batch.items.iter().map(|item| item.repeated_records).sum());
        let mut attempt = 0;
        while batch.items.iter().any(LedgerItemState::is_pending) {
            match Box::pin(self.round(&mut batch, &invocation)).await {
                Ok(false) => {}
                Ok(true) => {
                    attempt += 1;
                    if !self.wait(attempt, &invocation).await {
                        batch.give_up();
                    }
                }
                Err(error) if error.kind() == ErrorKind::Configuration => return Err(error),
                Err(error) => batch.fail_pending(&error),
            }
        }
        Box::pin(self.refresh_mirrors(&mut batch, &invocation)).await?;
        let failures = batch.items.into_iter().flat_map(LedgerItemState::into_failures).collect();
        Ok(CommitOutcome { failures, totals: invocation.tally.totals() })
    }

    /// Returns whether a write was refused or a lookup delayed, so that the next round must wait.
    async fn round(&self, batch: &mut LedgerBatch<'_>, invocation: &InvocationContext) -> Result<bool> {
        self.read_entries(batch, invocation).await?;
        self.read_items(batch, invocation).await?;
        for item in batch.pending_items() {
            self.decide(item, &invocation.tally);
        }
        let delayed = self.look_up(batch, invocation).await?;
        let LedgerBatch { items, targets, lookups } = batch;
        for item in items {
            item.lookup_delay = self.lookup_delay(item, &delayed);
            let is_ready = item.is_pending() && item.lookup_delay.is_none();
            item.plan = is_ready.then(|| self.plan(item, targets, lookups, invocation)).flatten();
        }
        let is_refused = self.write(batch, invocation).await?;
        Ok(is_refused || batch.items.iter().any(|item| item.lookup_delay.is_some()))
    }

    /// Reads the entries that are not known, and the markers of the items' expiries.
    async fn read_entries(&self, batch: &mut LedgerBatch<'_>, invocation: &InvocationContext) -> Result<()> {
        let capacity = batch.items.len();
        let (mut keys, mut owners) = (Vec::with_capacity(capacity), Vec::with_capacity(capacity));
        let unknown = |item: &LedgerItemState<'_>| item.is_pending() && !item.is_entry_known;
        for (index, item) in batch.items.iter().enumerate().filter(|(_, item)| unknown(item)) {
            keys.push(self.keys.entry(&self.model, item.source));
            owners.push((index, None));
            if item.identity.entity.on_expiry == OnExpiry::Keep {
                for record in item.records.iter().filter(|record| record.expired) {
                    keys.push(self.keys.marker(&self.model, item.source, &record.position));
                    owners.push((index, Some(record.position.clone())));
                }
            }
        }
        let stored = self.read(&keys, invocation).await?.items;
        for (((index, marker), key), stored) in owners.into_iter().zip(keys).zip(stored) {
            let Some(item) = batch.items.get_mut(index) else { continue };
            match (marker, stored) {
                (None, entry) => {
                    item.entry_key = Some(key);
                    item.set_entry(entry.as_ref(), &mut batch.targets);
                }
                (Some(position), Some(_)) => item.settled_markers.push(position),
                (Some(_), None) => {}
            }
        }
        Ok(())
    }

    /// Reads the items whose stored state is needed. Their entries have been read before; reconciling depends on this
    /// order.
    async fn read_items(&self, batch: &mut LedgerBatch<'_>, invocation: &InvocationContext) -> Result<()> {
        let (mut keys, mut owners) = (Vec::new(), Vec::new());
        for (index, item) in batch.items.iter_mut().enumerate() {
            if !item.is_pending() || !matches!(item.observation, ItemObservation::Wanted) {
                continue;
            }
            match self.item_key(item.source.table, &item.source.partition, item.source.sort.as_deref()) {
                Some(key) => {
                    keys.push(key);
                    owners.push(index);
                }
                None => item.fail(Error::new(
                    ErrorKind::Record,
                    "the record's key does not match the key schema of its table",
                )),
            }
        }
        let snapshot = self.read(&keys, invocation).await?;
        for (index, stored) in owners.into_iter().zip(snapshot.items) {
            let image = stored.map(|stored| Image::from_item(&stored, &self.model.attributes));
            if let Some(item) = batch.items.get_mut(index) {
                item.observation = ItemObservation::Seen { image, at: snapshot.server_time };
            }
        }
        Ok(())
    }

    /// The key of an item by the texts of a [`SourceKey`](crate::entity::SourceKey); `None` if they do not match the
    /// table's key schema.
    pub(super) fn item_key(&self, table: usize, partition: &str, sort: Option<&str>) -> Option<ItemKey> {
        let schema = self.model.tables.get(table)?;
        let attribute = |key: &KeySchema, text: &str| {
            let value = key_value(text, key.key_type)?;
            Some(KeyAttribute { name: Arc::clone(&key.name), value })
        };
        let sort = match (&schema.sort_key, sort) {
            (Some(key), Some(text)) => Some(attribute(key, text)?),
            (None, None) => None,
            (Some(_), None) | (None, Some(_)) => return None,
        };
        let table = Arc::clone(self.table_names.get(table)?);
        Some(ItemKey { table, partition: attribute(&schema.partition_key, partition)?, sort })
    }

    fn decide(&self, item: &mut LedgerItemState<'_>, tally: &CommitTally) {
        item.record_errors.clear();
        let decision = decide(
            item.entry.as_ref(),
            &item.records,
            |position| item.settled_markers.contains(position),
            item.identity.entity.on_expiry,
            self.clock.now(),
            matches!(item.observation, ItemObservation::Counted),
        );
        item.set_decision(decision);
        if item.decision.needs_item && matches!(item.observation, ItemObservation::Unneeded) {
            item.observation = ItemObservation::Wanted;
        }
        // The last image of a removed item settles its expiry, and offers outputs to the lookups of other items.
        let is_looked_up = !item.identity.entity.offers.is_empty();
        let expiries = item.decision.expiries.clone();
        item.decode_old_images(&self.model.attributes, |index| is_looked_up || expiries.contains(&index));
        let is_observed = matches!(item.observation, ItemObservation::Wanted | ItemObservation::Seen { .. });
        if item.decision.is_empty() && !is_observed {
            let too_old = item.decision.too_old_expiries.len();
            tally.duplicates.add_len(item.records.len() - too_old);
            tally.expiries_too_old.add_len(too_old);
            item.progress = ItemProgress::Done;
        }
    }

    /// Resolves every lookup that this round's images depend on, and remembers the outputs that the batch's own records
    /// offer.
    async fn look_up(
        &self,
        batch: &mut LedgerBatch<'_>,
        invocation: &InvocationContext,
    ) -> Result<DelayedLookups> {
        let mut pending = PendingLookups::new();
        let LedgerBatch { items, lookups, .. } = batch;
        for (key, offer) in items.iter().flat_map(|item| self.lookups_of(item)) {
            self.add_pending_lookup(key, offer, &mut pending, lookups);
        }
        self.resolve_lookups(pending, lookups, invocation).await
    }

    /// The lookups that an item offers outputs for, each with these, and the lookups that it needs.
    fn lookups_of<'i>(
        &'i self,
        item: &'i LedgerItemState<'_>,
    ) -> impl Iterator<Item = (LookupKey<'i>, Option<Vec<AttributeValue<'static>>>)> {
        let images = item.offering_images();
        let offered = images.flat_map(|image| offered_outputs(&self.model, item.identity, image));
        // An image without a lookup's inputs cannot be counted either: planning reports that as the record's error.
        let images = item.images_to_count();
        let needed = images.filter_map(|image| lookup_keys(&self.model, item.identity, image).ok());
        let offered = offered.map(|(key, outputs)| (key, Some(outputs)));
        offered.chain(needed.flatten().map(|key| (key, None)))
    }

    /// The error for which an item must wait for another round, if a lookup that it needs or offers was delayed.
    fn lookup_delay(&self, item: &LedgerItemState<'_>, delayed: &DelayedLookups) -> Option<Error> {
        if delayed.is_empty() || !item.is_pending() {
            return None;
        }
        let mut lookups = self.lookups_of(item);
        lookups.find_map(|(key, _)| Some(delayed.get(&LookupKeyRef(&key))?.restated()))
    }
}
