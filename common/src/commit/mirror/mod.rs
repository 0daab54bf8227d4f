//! Mirrors: copies of rollups' measures on an application's items.
//!
//! In: the items of a batch that are counted. Out: conditional writes to the mirroring items.
//!
//! A mirror does not count. A single conditional write sets the copy to the rollup's value together with the rollup's
//! `rev`. The rollup is read strongly consistent and its `rev` only grows, so of two copies the one with the larger
//! `rev` is newer, and an older copy never replaces a newer one. Ledger transactions therefore never touch what the
//! application writes.
//!
//! A copy is refreshed
//! - after a commit to the rollup;
//! - when a record is found counted already, because the author of that commit may have crashed before it refreshed
//!   anything;
//! - when the item's own record shows another value, because the application re-created the item or overwrote the copy.
//!
//! Each of these reads the rollup *after* the event, so the last refresh leaves the current value.
//!
//! The rollup's key determines the item. If that key depends on a lookup of the item itself (for example its first
//! owner), the item may have moved since the lookup was remembered. The remembered lookup then also lists every other
//! key at which the item has been seen. An item that moved notes its new key *before* it reads the rollup, and a
//! committer reads these notes *after* its commit, so whichever is second refreshes the copy at the new key.

mod places;
mod write;

use std::collections::{BTreeMap, BTreeSet};

use futures::stream::{StreamExt as _, iter};

use super::batch::LedgerBatch;
use super::item_state::LedgerItemState;
use super::lookup::{LookupResults, PendingLookups};
use super::requests::CONCURRENCY;
use super::{InvocationContext, Ledger, keys};
use crate::clock::Clock;
use crate::projection::{
    ImageScope, KnownLookups as _, RollupTargets, TargetId, TargetKey, attribute, lookup_keys,
    offered_outputs,
};
use crate::record::{AttributeValue, Decimal, Image, Item};
use crate::sink::Tables;
use crate::table::{Mirror, MirroredAttribute, Rollup, Term, ValueFormat};
use crate::{Error, ErrorKind, Result};

/// The values of a mirror's attributes; `None` for an absent attribute.
type MirrorValues = Vec<Option<AttributeValue<'static>>>;

/// A rollup whose copies by one mirror must be refreshed.
#[derive(Debug, Default)]
struct MirrorRefresh {
    /// The items of the batch that require the refresh.
    items: BTreeSet<usize>,
    /// The values in the item's own record, if that record is the only reason: equal values need no write.
    shown: Option<MirrorValues>,
}

/// The refreshes of a batch, by mirror and rollup.
type MirrorRefreshes = BTreeMap<(usize, TargetId), MirrorRefresh>;

impl<T: Tables, C: Clock> Ledger<T, C> {
    /// Refreshes the copies that the batch may have made stale. An item whose copies cannot be refreshed before the
    /// deadline fails: its records are redelivered, found counted, and refreshed again.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] only.
    pub(super) async fn refresh_mirrors(
        &self,
        batch: &mut LedgerBatch<'_>,
        invocation: &InvocationContext,
    ) -> Result<()> {
        if self.model.mirrors.is_empty() {
            return Ok(());
        }
        let mut refreshes = MirrorRefreshes::new();
        let outcome = async {
            self.look_up_counted_items(batch, invocation).await?;
            self.collect_refreshes(batch, &mut refreshes, invocation).await?;
            self.refresh(batch, &refreshes, invocation).await
        };
        match outcome.await {
            Err(error) if error.kind() == ErrorKind::Configuration => Err(error),
            Err(error) => {
                // Mirrors that have not been collected have not been refreshed, so every item with mirrors fails.
                let has_mirrors = |item: &LedgerItemState<'_>| {
                    item.is_done() && (!item.identity.entity.mirrors.is_empty() || self.feeds_mirrors(item))
                };
                let items = batch.items.iter().enumerate().filter(|(_, item)| has_mirrors(item));
                let indexes: BTreeSet<usize> = items.map(|(index, _)| index).collect();
                batch.fail_items(&indexes, &error);
                Ok(())
            }
            Ok(failed) => {
                for (indexes, error) in failed {
                    batch.fail_items(&indexes, &error);
                }
                Ok(())
            }
        }
    }

    /// Resolves the lookups of items that were counted elsewhere: their contributions name the rollups whose mirrors
    /// the other writer may have left stale.
    async fn look_up_counted_items(
        &self,
        batch: &mut LedgerBatch<'_>,
        invocation: &InvocationContext,
    ) -> Result<()> {
        let mut attempt = 0;
        loop {
            let pending = self.lookups_of_counted_items(batch);
            let delayed = self.resolve_lookups(pending, &mut batch.lookups, invocation).await?;
            let Some(error) = delayed.into_values().next() else { return Ok(()) };
            attempt += 1;
            if !self.wait(attempt, invocation).await {
                return Err(error);
            }
        }
    }

    fn lookups_of_counted_items(&self, batch: &mut LedgerBatch<'_>) -> PendingLookups {
        let mut pending = PendingLookups::new();
        let LedgerBatch { items, lookups, .. } = batch;
        // A mirroring item may depend on a lookup that it offers outputs for itself. Usually the result is known by
        // now, except if the lookup failed in a round that had nothing left to commit.
        for item in items.iter().filter(|item| item.is_done() && !item.identity.entity.mirrors.is_empty()) {
            let images = item.newest_image().into_iter();
            for (key, outputs) in images.flat_map(|image| offered_outputs(&self.model, item.identity, image))
            {
                self.add_pending_lookup(key, Some(outputs), &mut pending, lookups);
            }
        }
        for item in items.iter_mut().filter(|item| item.is_counted_elsewhere() && self.feeds_mirrors(item)) {
            item.decode_old_images(&self.model.attributes, |_| true);
            for image in item.all_images() {
                for key in lookup_keys(&self.model, item.identity, image).into_iter().flatten() {
                    self.add_pending_lookup(key, None, &mut pending, lookups);
                }
            }
        }
        pending
    }

    fn feeds_mirrors(&self, item: &LedgerItemState<'_>) -> bool {
        let mut destinations = self.aggregates(item).flat_map(|aggregate| &aggregate.into);
        destinations.any(|destination| {
            self.model.rollups.get(destination.rollup).is_some_and(|rollup| !rollup.mirrors.is_empty())
        })
    }

    async fn collect_refreshes(
        &self,
        batch: &mut LedgerBatch<'_>,
        refreshes: &mut MirrorRefreshes,
        invocation: &InvocationContext,
    ) -> Result<()> {
        let LedgerBatch { items, targets, lookups } = batch;
        let done = |(_, item): &(usize, &LedgerItemState<'_>)| item.is_done();
        for (index, item) in items.iter().enumerate().filter(done) {
            for target in self.stale_targets(item, targets, lookups) {
                for mirror in targets.rollups(target).flat_map(|rollup| &rollup.mirrors) {
                    let refresh = refreshes.entry((*mirror, target)).or_default();
                    refresh.items.insert(index);
                    refresh.shown = None;
                }
            }
        }
        for (index, item) in items.iter().enumerate().filter(done) {
            let Some(image) = item.newest_image() else { continue };
            for mirror_index in &item.identity.entity.mirrors {
                let Some(mirror) = self.model.mirrors.get(*mirror_index) else { continue };
                let Some(target) = self.mirrored_target(mirror, item, image, targets, lookups) else {
                    continue;
                };
                self.note_place(mirror, targets.get(target), item, lookups, invocation).await?;
                let shown = mirror.attributes.iter().map(|shown| attribute(image, &shown.image).cloned());
                let shown: MirrorValues = shown.map(|value| value.map(AttributeValue::into_owned)).collect();
                let refresh = refreshes
                    .entry((*mirror_index, target))
                    .or_insert_with(|| MirrorRefresh { items: BTreeSet::new(), shown: Some(shown.clone()) });
                // Several items may show one rollup after a move, and not all of them the same values.
                if refresh.shown.as_ref().is_some_and(|other| *other != shown) {
                    refresh.shown = None;
                }
                refresh.items.insert(index);
            }
        }
        Ok(())
    }

    /// The rollups whose copies may be stale because of this item: those that its commit changed, and, if it was
    /// counted elsewhere, all rollups that its records and its entry name.
    fn stale_targets(
        &self,
        item: &LedgerItemState<'_>,
        targets: &mut RollupTargets,
        lookups: &LookupResults,
    ) -> Vec<TargetId> {
        let mut stale = item.changed_targets.clone();
        if !item.is_counted_elsewhere() || !self.feeds_mirrors(item) {
            return stale;
        }
        for image in item.all_images() {
            let Ok(projection) = self.project(item, image, targets, lookups) else { continue };
            stale.extend(projection.extremes.iter().map(|extreme| extreme.target));
            stale.extend(targets.mirrored(&projection.contributions));
        }
        stale.extend(targets.mirrored(item.current()));
        stale.extend(item.entry.iter().flat_map(|entry| &entry.left));
        stale
    }

    /// The rollup that an item of the mirroring entity shows.
    fn mirrored_target(
        &self,
        mirror: &Mirror,
        item: &LedgerItemState<'_>,
        image: &Image<'_>,
        targets: &mut RollupTargets,
        lookups: &LookupResults,
    ) -> Option<TargetId> {
        let rollup = self.model.rollups.get(mirror.from)?;
        let without_outputs = ImageScope::of(&self.model, item.identity, image);
        let outputs: Vec<_> = match &mirror.lookup {
            Some(lookup) => vec![lookups.outputs(&without_outputs.lookup_key(lookup).ok()?)?],
            None => Vec::new(),
        };
        let scope = ImageScope { outputs: &outputs, ..without_outputs };
        let value = |(term, format): &(Term, ValueFormat)| {
            let mut value = String::new();
            scope.render_value(term, *format, &mut value).ok().map(|()| value)
        };
        let values = mirror.rollup_variables.iter().map(value).collect::<Option<Vec<_>>>()?;
        let (partition, sort) = (rollup.partition.render(&values), rollup.sort.render(&values));
        let key = TargetKey { partition: &partition, sort: &sort, shard: None };
        Some(targets.intern(mirror.from, key, None))
    }

    /// Reads the rollups, then sets every copy. Returns the items whose copies could not be set, with the errors.
    async fn refresh(
        &self,
        batch: &LedgerBatch<'_>,
        refreshes: &MirrorRefreshes,
        invocation: &InvocationContext,
    ) -> Result<Vec<(BTreeSet<usize>, Error)>> {
        let entries: Vec<_> = refreshes
            .iter()
            .filter_map(|((mirror, target), refresh)| {
                let (mirror, target) = (self.model.mirrors.get(*mirror)?, batch.targets.get(*target));
                let rollup = self.keys.rollup(target)?;
                Some((mirror, target, refresh, rollup, self.notes_key(mirror, target)))
            })
            .collect();
        let keys = entries.iter().flat_map(|(.., rollup, notes)| [Some(rollup.clone()), notes.clone()]);
        let keys: Vec<_> = keys.flatten().collect();
        let mut stored = self.read(&keys, invocation).await?.items.into_iter();
        let mut writes = Vec::new();
        for (mirror, target, refresh, _, notes) in entries {
            let rollup = stored.next().flatten();
            let notes = notes.and_then(|_| stored.next().flatten());
            let values = self.mirror_values(mirror, rollup.as_ref());
            if refresh.shown.as_ref().is_some_and(|shown| *shown == values) {
                continue;
            }
            let revision =
                rollup.as_ref().and_then(|item| item.get(keys::REV)).cloned().unwrap_or(Decimal::ZERO.into());
            for key in self.place_keys(mirror, target, notes.as_ref()) {
                writes.push((refresh.items.clone(), key, mirror, values.clone(), revision.clone()));
            }
        }
        let requests = writes.into_iter().map(|(items, key, mirror, values, revision)| async move {
            (items, self.set_copies(&key, mirror, &values, &revision, invocation).await)
        });
        let results: Vec<_> = iter(requests).buffered(CONCURRENCY).collect().await;
        let mut failed = Vec::new();
        for (items, result) in results {
            match result {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::Configuration => return Err(error),
                Err(error) => failed.push((items, error)),
            }
        }
        Ok(failed)
    }

    /// The values that the copies must have: 0 for a count or sum without contributions; a computed measure without
    /// contributions is absent.
    fn mirror_values(&self, mirror: &Mirror, rollup: Option<&Item>) -> MirrorValues {
        let declared = self.model.rollups.get(mirror.from);
        let is_computed = |measure: &str| declared.is_some_and(|rollup| is_computed_measure(rollup, measure));
        let value = |shown: &MirroredAttribute| {
            let stored = rollup.and_then(|item| item.get(shown.measure.as_ref())).cloned();
            stored.or_else(|| (!is_computed(&shown.measure)).then_some(Decimal::ZERO.into()))
        };
        mirror.attributes.iter().map(value).collect()
    }
}

fn is_computed_measure(rollup: &Rollup, measure: &str) -> bool {
    rollup.averages.iter().any(|average| *average.name == *measure)
        || rollup.extremes.iter().any(|extreme| **extreme == *measure)
}
