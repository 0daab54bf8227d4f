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
//! - when the item's own record, or its table when it is reconciled, shows another value, because the application re-created the
//!   item or overwrote the copy.
//!
//! Each of these reads the rollup *after* the event, so the last refresh leaves the current value. Nothing is written that
//! is there already: a copy that the commit did not certainly change is read first.
//!
//! An application may copy an item with all its attributes, ours included. So next to the revision a copy has the name of
//! the rollup that it belongs to (`<attribute>_of`), and the revision of another rollup never keeps a copy from being set.
//! Nor does a revision that this rollup has not reached: the item is of a table that was restored next to a new state
//! table, or the rollup has expired and begins again.
//!
//! Counting and showing are two outcomes. A copy that the item cannot take (its place is not a map, the item is too
//! large) is reported, and tried again at the next change; it fails no record.
//!
//! The rollup's key determines the item. If that key depends on a lookup of the item itself (for example its first
//! owner), the item may have moved since the lookup was remembered. The remembered lookup then also lists every other
//! key at which the item has been seen. An item that moved notes its new key *before* it reads the rollup, and a
//! committer reads these notes *after* its commit, so whichever is second refreshes the copy at the new key.

mod guard;
mod places;
mod write;

use std::collections::{BTreeMap, BTreeSet};

use futures::future::join;
use futures::stream::{StreamExt as _, iter};

use self::places::{PlacedCopies, rollup_revision};
use super::batch::LedgerBatch;
use super::core::lookups::LookupResults;
use super::core::{ItemInput, LedgerCore, LedgerItem, StepContext, keys};
use super::lookup::LookupStore;
use super::requests::{CONCURRENCY, Requests};
use crate::clock::Clock;
use crate::entity::ItemIdentity;
use crate::projection::{
    ImageScope, KnownLookups as _, RollupTargets, TargetId, TargetKey, attribute, lookup_keys,
    offered_outputs,
};
use crate::record::{AttributeValue, Decimal, Image, Item};
use crate::sink::Tables;
use crate::table::{Mirror, MirroredAttribute};
use crate::{Error, ErrorKind, Result};

/// The most mirroring items that are read at once: DynamoDB returns up to 16 MB at a time.
const ITEMS_AT_ONCE: usize = 100;

/// The values of a mirror's attributes; `None` for an absent attribute.
type MirrorValues = Vec<Option<AttributeValue<'static>>>;

/// A rollup whose copies by one mirror must be refreshed.
#[derive(Debug, Default)]
struct MirrorRefresh {
    /// The items of the batch that require the refresh.
    items: BTreeSet<usize>,
    /// The values in the item's own record, if that record is the only reason: equal values need no write.
    shown: Option<MirrorValues>,
    /// Whether the batch changed the rollup, so that the copies are certainly stale.
    is_changed: bool,
}

/// The copies that a batch may have made stale.
#[derive(Debug, Default)]
struct StaleCopies<'m> {
    /// The batch changed their rollups.
    certain: Vec<PlacedCopies<'m>>,
    /// Their items must be read first, to know.
    doubtful: Vec<PlacedCopies<'m>>,
}

/// The refreshes of a batch, by mirror and rollup.
type MirrorRefreshes = BTreeMap<(usize, TargetId), MirrorRefresh>;

/// Refreshes the copies that a batch made stale.
#[derive(Debug)]
pub(crate) struct MirrorRefresher<'l, T, C> {
    pub(crate) core: &'l LedgerCore,
    pub(crate) requests: &'l Requests<'l, T, C>,
    pub(crate) lookups: &'l LookupStore<'l, T, C>,
    pub(crate) context: StepContext<'l>,
}

impl<T: Tables, C: Clock> MirrorRefresher<'_, T, C> {
    /// Refreshes the copies that the batch may have made stale. An item whose copies cannot be refreshed before the
    /// deadline fails: its records are redelivered, found counted, and refreshed again.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] only.
    pub(crate) async fn refresh(&self, batch: &mut LedgerBatch<'_>) -> Result<()> {
        if self.core.model.mirrors.is_empty() {
            return Ok(());
        }
        let mut refreshes = MirrorRefreshes::new();
        let outcome = async {
            self.look_up_counted_items(batch).await?;
            self.collect_refreshes(batch, &mut refreshes).await?;
            self.write_copies(batch, &refreshes).await
        };
        match outcome.await {
            Err(error) if error.kind() == ErrorKind::Configuration => Err(error),
            Err(error) => {
                // Mirrors that have not been collected have not been refreshed, so every item with mirrors fails.
                let has_mirrors = |item: &LedgerItem<'_>| {
                    item.is_committed() && (item.has_mirrors() || self.feeds_mirrors(item))
                };
                let items = batch.items.iter().enumerate().filter(|(_, item)| has_mirrors(item));
                let indexes: BTreeSet<usize> = items.map(|(index, _)| index).collect();
                self.fail_items(batch, &indexes, &error);
                Ok(())
            }
            Ok(failed) => {
                for (indexes, error) in failed {
                    self.fail_items(batch, &indexes, &error);
                }
                Ok(())
            }
        }
    }

    fn fail_items(&self, batch: &mut LedgerBatch<'_>, indexes: &BTreeSet<usize>, error: &Error) {
        for index in indexes {
            batch.step(*index, ItemInput::GivenUp(error.restated()), self.context);
        }
    }

    /// Resolves the lookups of items that were counted elsewhere: their contributions name the rollups whose mirrors
    /// the other writer may have left stale.
    async fn look_up_counted_items(&self, batch: &mut LedgerBatch<'_>) -> Result<()> {
        self.require_counted_items(batch);
        let mut attempt = 0;
        while batch.lookups.has_open() {
            self.lookups.resolve(&mut batch.lookups).await?;
            attempt += 1;
            if batch.lookups.has_open() && !self.lookups.wait(&batch.lookups, attempt).await {
                batch.lookups.close();
                let message = "the deadline passed before the lookups of the item's mirrors were resolved";
                return Err(Error::new(ErrorKind::Conflict, message));
            }
        }
        Ok(())
    }

    fn require_counted_items(&self, batch: &mut LedgerBatch<'_>) {
        let model = &self.core.model;
        let LedgerBatch { items, lookups, .. } = batch;
        // A mirroring item may depend on a lookup that it offers outputs for itself. Usually the result is known by
        // now, except if the lookup failed in a round that had nothing left to commit.
        for item in items.iter().filter(|item| item.is_committed() && item.has_mirrors()) {
            let images = item.newest_image().into_iter();
            for (key, outputs) in images.flat_map(|image| offered_outputs(model, item.candidates, image)) {
                self.lookups.require(key, Some(outputs), lookups);
            }
        }
        for item in items.iter_mut().filter(|item| item.is_counted_elsewhere() && self.feeds_mirrors(item)) {
            item.records.decode_old_images(&model.attributes, |_| true);
            for image in item.images() {
                for key in lookup_keys(model, item.candidates, image).into_iter().flatten() {
                    self.lookups.require(key, None, lookups);
                }
            }
        }
    }

    fn feeds_mirrors(&self, item: &LedgerItem<'_>) -> bool {
        let mut destinations = self.core.aggregates(item).flat_map(|aggregate| &aggregate.into);
        destinations.any(|destination| {
            let rollup = self.core.model.rollups.get(destination.rollup);
            rollup.is_some_and(|rollup| !rollup.mirrors.is_empty())
        })
    }

    async fn collect_refreshes(
        &self,
        batch: &mut LedgerBatch<'_>,
        refreshes: &mut MirrorRefreshes,
    ) -> Result<()> {
        let LedgerBatch { items, targets, lookups, .. } = batch;
        let committed = |(_, item): &(usize, &LedgerItem<'_>)| item.is_committed();
        for (index, item) in items.iter().enumerate().filter(committed) {
            for (target, is_changed) in self.stale_targets(item, targets, lookups) {
                for mirror in targets.rollups(target).flat_map(|rollup| &rollup.mirrors) {
                    let refresh = refreshes.entry((*mirror, target)).or_default();
                    refresh.items.insert(index);
                    refresh.shown = None;
                    refresh.is_changed |= is_changed;
                }
            }
        }
        for (index, item) in items.iter().enumerate().filter(committed) {
            let Some(image) = item.newest_image() else { continue };
            let Some(identity) = item.candidates.in_state(image) else { continue };
            for mirror_index in &identity.entity.mirrors {
                let Some(mirror) = self.core.model.mirrors.get(*mirror_index) else { continue };
                let Some(target) = self.mirrored_target(mirror, identity, image, targets, lookups) else {
                    continue;
                };
                self.note_place(mirror, targets.get(target), item, (identity, image), lookups).await?;
                let shown = mirror.attributes.iter().map(|shown| attribute(image, &shown.image).cloned());
                let shown: MirrorValues = shown.map(|value| value.map(AttributeValue::into_owned)).collect();
                let refresh = refreshes.entry((*mirror_index, target)).or_insert_with(|| MirrorRefresh {
                    shown: Some(shown.clone()),
                    ..MirrorRefresh::default()
                });
                // Several items may show one rollup after a move, and not all of them the same values.
                if refresh.shown.as_ref().is_some_and(|other| *other != shown) {
                    refresh.shown = None;
                }
                refresh.items.insert(index);
            }
        }
        Ok(())
    }

    /// The rollups whose copies may be stale because of this item, each with whether they certainly are: those that its
    /// commit changed. In doubt are those that it left before, and, if it was counted elsewhere, all that its records and its
    /// entry name.
    fn stale_targets(
        &self,
        item: &LedgerItem<'_>,
        targets: &mut RollupTargets,
        lookups: &LookupResults,
    ) -> Vec<(TargetId, bool)> {
        let mut doubtful = item.left_targets.clone();
        if item.is_counted_elsewhere() && self.feeds_mirrors(item) {
            for image in item.images() {
                let Ok(projection) = item.project(image, lookups, self.context, targets) else { continue };
                doubtful.extend(projection.extremes.iter().map(|extreme| extreme.target));
                doubtful.extend(targets.mirrored(&projection.contributions));
            }
            doubtful.extend(targets.mirrored(item.current()));
            doubtful.extend(item.entry.iter().flat_map(|entry| &entry.left));
        }
        let certain = item.changed_targets.iter().map(|target| (*target, true));
        certain.chain(doubtful.into_iter().map(|target| (target, false))).collect()
    }

    /// The rollup that an item of the mirroring entity shows.
    fn mirrored_target(
        &self,
        mirror: &Mirror,
        identity: &ItemIdentity<'_, '_>,
        image: &Image<'_>,
        targets: &mut RollupTargets,
        lookups: &LookupResults,
    ) -> Option<TargetId> {
        let rollup = self.core.model.rollups.get(mirror.from)?;
        let without_outputs = ImageScope::of(&self.core.model, identity, image);
        let outputs: Vec<_> = match &mirror.lookup {
            Some(lookup) => vec![lookups.outputs(&without_outputs.lookup_key(lookup).ok()?)?],
            None => Vec::new(),
        };
        let scope = ImageScope { outputs: &outputs, ..without_outputs };
        let (partition, sort) = scope.mirrored_key(mirror, rollup).ok()?;
        let key = TargetKey { partition: &partition, sort: &sort, shard: None };
        Some(targets.intern(mirror.from, key, None))
    }

    /// Reads the rollups, then sets every copy that is stale: those that the batch certainly made stale while the others are read.
    /// Returns the items whose copies could not be set before the deadline, with the errors.
    async fn write_copies(
        &self,
        batch: &mut LedgerBatch<'_>,
        refreshes: &MirrorRefreshes,
    ) -> Result<Vec<(BTreeSet<usize>, Error)>> {
        let StaleCopies { certain, doubtful } = self.place_copies(batch, refreshes).await?;
        let check = async { Ok(self.set_all(self.stale_copies(doubtful).await?).await) };
        let (certain, checked) = join(self.set_all(certain), check).await;
        let checked: Vec<_> = checked?;
        let mut failed = Vec::new();
        for (copies, result) in certain.into_iter().chain(checked) {
            match result {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::Configuration => return Err(error),
                Err(error) if error.kind().is_poison() => {
                    self.requests.tally.unwritable_mirrors.add(1);
                    batch.unwritable_mirrors.push(self.unwritable(&copies, error));
                }
                Err(error) => failed.push((copies.items, error)),
            }
        }
        Ok(failed)
    }

    async fn set_all<'m>(&self, copies: Vec<PlacedCopies<'m>>) -> Vec<(PlacedCopies<'m>, Result<()>)> {
        let requests = copies.into_iter().map(|copies| async move {
            let result = self.set_copies(&copies).await;
            (copies, result)
        });
        iter(requests).buffered(CONCURRENCY).collect().await
    }

    /// The values of the copies at every place where they are not known to be right.
    async fn place_copies(
        &self,
        batch: &LedgerBatch<'_>,
        refreshes: &MirrorRefreshes,
    ) -> Result<StaleCopies<'_>> {
        let mut sources = Vec::new();
        let mut keys = Vec::new();
        for ((mirror, target), refresh) in refreshes {
            let (Some(mirror), target) = (self.core.model.mirrors.get(*mirror), batch.targets.get(*target))
            else {
                continue;
            };
            let Some(rollup) = self.core.keys.rollup(target) else { continue };
            keys.push(rollup.clone());
            let notes = self.notes_key(mirror, target)?;
            sources.push((mirror, target, rollup, refresh, notes.is_some()));
            keys.extend(notes);
        }
        let mut stored = self.requests.read(&keys).await?.items.into_iter();
        let mut copies = StaleCopies::default();
        for (mirror, target, key, refresh, has_notes) in sources {
            let rollup = stored.next().flatten();
            let notes = if has_notes { stored.next().flatten() } else { None };
            let values = self.mirror_values(mirror, rollup.as_ref());
            if refresh.shown.as_ref().is_some_and(|shown| *shown == values) {
                continue;
            }
            let revision = rollup_revision(rollup.as_ref());
            let is_certain = refresh.is_changed && !self.is_guarded(mirror);
            let placed = if is_certain { &mut copies.certain } else { &mut copies.doubtful };
            placed.extend(self.place_keys(mirror, target, notes.as_ref()).into_iter().map(|place| {
                PlacedCopies {
                    key: place,
                    mirror,
                    rollup: key.clone(),
                    origin: keys::rollup_origin(target),
                    values: values.clone(),
                    revision: revision.clone(),
                    items: refresh.items.clone(),
                    guards: Vec::new(),
                }
            }));
        }
        Ok(copies)
    }

    /// The copies that their items do not show. Only a few items are held at once, because items may be large.
    async fn stale_copies<'m>(&self, placed: Vec<PlacedCopies<'m>>) -> Result<Vec<PlacedCopies<'m>>> {
        let mut stale = Vec::new();
        let mut placed = placed.into_iter().peekable();
        while placed.peek().is_some() {
            let together: Vec<_> = placed.by_ref().take(ITEMS_AT_ONCE).collect();
            let keys: Vec<_> = together.iter().map(|copies| copies.key.clone()).collect();
            let shown = self.requests.read(&keys).await?.items;
            // An item that does not exist, or is of another entity, shows nothing.
            stale.extend(together.into_iter().zip(shown).filter_map(|(copies, item)| {
                let item = item.filter(|item| !self.is_right(&copies, item))?;
                self.guarded(copies, &item)
            }));
        }
        Ok(stale)
    }

    /// The report about copies that an item cannot take.
    fn unwritable(&self, copies: &PlacedCopies<'_>, cause: Error) -> Error {
        let message = "a mirror cannot be written: its item is counted, but does not show it";
        let mut error = Error::new(ErrorKind::Rejected, message)
            .with("entity", self.core.model.entity_name(copies.mirror.onto))
            .hint("Make the attribute's place a map, or the item smaller. The next change of the rollup tries again");
        if self.core.names_keys {
            let attributes = std::iter::once(&copies.key.partition).chain(&copies.key.sort);
            let texts: Vec<_> = attributes.filter_map(|key| key.value.as_text()).collect();
            error = error.with("key", texts.join(", "));
        }
        error.caused_by(cause)
    }

    /// The values that the copies must have: 0 for a count or sum without contributions; a computed measure without
    /// contributions is absent.
    fn mirror_values(&self, mirror: &Mirror, rollup: Option<&Item>) -> MirrorValues {
        let declared = self.core.model.rollups.get(mirror.from);
        let is_computed = |measure: &str| declared.is_some_and(|rollup| rollup.has_computed(measure));
        let value = |shown: &MirroredAttribute| {
            let stored = rollup.and_then(|item| item.get(shown.measure.as_ref())).cloned();
            stored.or_else(|| (!is_computed(&shown.measure)).then_some(Decimal::ZERO.into()))
        };
        mirror.attributes.iter().map(value).collect()
    }
}
