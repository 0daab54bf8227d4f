//! Which copies a batch may have made stale, by mirror and rollup.

use std::collections::{BTreeMap, BTreeSet};

use afterwrite_model::effect::Write;
use afterwrite_model::entity::ItemIdentity;
use afterwrite_model::projection::{
    ImageScope, KnownLookups as _, LookupKey, RollupTargets, TargetId, TargetKey, attribute, offered_outputs,
};
use afterwrite_model::record::{AttributeValue, Image};
use afterwrite_model::table::{Mirror, Rollup};
use afterwrite_model::{ErrorKind, Result};

use super::super::batch::{BatchContext, LedgerBatch, MirrorProgress};
use super::super::core::LedgerItem;
use super::super::core::evaluate::ImageEvaluation;
use super::super::core::lookups::LookupResults;
use super::super::requests::send_all;
use super::places::{MirrorPlaces, MirrorValues, UnsetCopies};
use super::write::CopyWriter;

/// A rollup whose copies by one mirror must be refreshed.
#[derive(Debug, Default)]
pub(super) struct MirrorRefresh {
    /// The items of the batch that require the refresh.
    pub(super) items: BTreeSet<usize>,
    /// The values in the item's own record, if that record is the only reason: equal values need no write.
    pub(super) shown: Option<MirrorValues>,
    /// Whether the batch changed the rollup, so that the copies are certainly stale.
    pub(super) is_changed: bool,
}

/// The note of the current key of an item that has moved.
struct PlaceNote<'m> {
    /// The item, by its index in the batch.
    item: usize,
    mirror: &'m Mirror,
    write: Write,
}

/// The refreshes of a batch, by mirror and rollup.
pub(super) type MirrorRefreshes = BTreeMap<(usize, TargetId), MirrorRefresh>;

/// The rollups, by mirror, whose copies were refreshed after the last item of their group was counted.
pub(super) type RefreshedRollups = BTreeSet<(usize, TargetId)>;

/// Finds the refreshes that a batch requires.
pub(super) struct RefreshSearch<'l> {
    pub(super) context: BatchContext<'l>,
}

impl RefreshSearch<'_> {
    /// Requires the lookups of unrefreshed items.
    pub(super) fn require_lookups(&self, batch: &mut LedgerBatch<'_>) {
        let elsewhere = batch.unrefreshed().filter(|(_, item)| self.is_to_be_projected(item));
        let elsewhere: Vec<usize> = elsewhere.map(|(index, _)| index).collect();
        for index in elsewhere {
            if let Some(item) = batch.items.get_mut(index) {
                item.facts.records.decode_old_images(&self.context.core.model.attributes, |_| true);
            }
        }
        let mut lookups = std::mem::take(&mut batch.lookups);
        for (key, offer) in batch.unrefreshed().flat_map(|(_, item)| self.lookups_of(item)) {
            self.context.lookups.require(key, offer, &mut lookups);
        }
        batch.lookups = lookups;
    }

    /// The lookups on which an item's refreshes depend, each with the outputs that the item offers.
    fn lookups_of<'i>(
        &'i self,
        item: &'i LedgerItem<'_>,
    ) -> impl Iterator<Item = (LookupKey<'i>, Option<Vec<AttributeValue<'static>>>)> {
        let model = &self.context.core.model;
        // A mirroring item may depend on a lookup that it offers outputs for itself.
        let shown = item.state.newest_image(&item.facts).into_iter().filter(|_| item.facts.has_mirrors());
        let offered = shown.flat_map(|image| offered_outputs(model, item.facts.candidates, image));
        let offered = offered.map(|(key, outputs)| (key, Some(outputs)));
        let images = self.is_to_be_projected(item).then(|| item.state.known_images(&item.facts));
        let needed = images.into_iter().flatten();
        let needed = needed.flat_map(|image| image.needed_lookups(model, item.facts.candidates));
        offered.chain(needed.map(|key| (key.borrowed(), None)))
    }

    /// Whether an item was counted elsewhere, so that its contributions name the rollups whose mirrors the other writer may have
    /// left stale.
    fn is_to_be_projected(&self, item: &LedgerItem<'_>) -> bool {
        item.is_counted_elsewhere() && self.feeds_mirrors(item)
    }

    /// The unrefreshed items that wait for no lookup.
    pub(super) fn ready_items(&self, batch: &LedgerBatch<'_>) -> BTreeSet<usize> {
        let has_unresolved = batch.lookups.has_unresolved();
        let waits = |item: &LedgerItem<'_>| {
            has_unresolved && self.lookups_of(item).any(|(key, _)| batch.lookups.is_unresolved(&key))
        };
        batch.unrefreshed().filter(|(_, item)| !waits(item)).map(|(index, _)| index).collect()
    }

    pub(super) fn feeds_mirrors(&self, item: &LedgerItem<'_>) -> bool {
        let mut destinations = item.facts.candidates.aggregates().flat_map(|aggregate| &aggregate.into);
        destinations.any(|destination| {
            let rollup = self.context.core.model.rollups.get(destination.rollup);
            rollup.is_some_and(Rollup::is_mirrored)
        })
    }

    /// The refreshes of the rollups that these items may have changed, without those that are done.
    pub(super) fn stale_refreshes(
        &self,
        batch: &mut LedgerBatch<'_>,
        ready: &BTreeSet<usize>,
        done: &RefreshedRollups,
    ) -> MirrorRefreshes {
        let LedgerBatch { items, targets, lookups, mirrors, .. } = batch;
        let mut refreshes = MirrorRefreshes::new();
        for (index, item) in ready.iter().filter_map(|index| Some((*index, items.get(*index)?))) {
            let is_untried = mirrors.get(index) == Some(&MirrorProgress::Untried);
            for (target, is_changed) in self.stale_targets(item, targets, lookups) {
                for mirror in targets.rollups(target).flat_map(|rollup| &rollup.mirrors) {
                    if done.contains(&(*mirror, target)) {
                        continue;
                    }
                    let refresh = refreshes.entry((*mirror, target)).or_default();
                    refresh.items.insert(index);
                    refresh.is_changed |= is_changed && is_untried;
                }
            }
        }
        refreshes
    }

    /// Adds the refreshes of the rollups that these items show. Returns those that wait for another attempt.
    pub(super) async fn shown_refreshes(
        &self,
        batch: &mut LedgerBatch<'_>,
        ready: &BTreeSet<usize>,
        refreshes: &mut MirrorRefreshes,
    ) -> Result<Vec<UnsetCopies>> {
        let LedgerBatch { items, targets, lookups, .. } = batch;
        let mut notes = Vec::new();
        for (index, item) in ready.iter().filter_map(|index| Some((*index, items.get(*index)?))) {
            let Some(image) = item.state.newest_image(&item.facts) else { continue };
            let Some(identity) = item.facts.candidates.in_state(image) else { continue };
            for mirror_index in &identity.entity.mirrors {
                let Some(mirror) = self.context.core.model.mirrors.get(*mirror_index) else { continue };
                let shown = self.mirrored_target(mirror, identity, image, targets, lookups);
                let Some((target, lookup_key)) = shown else { continue };
                let places = MirrorPlaces { core: self.context.core };
                let write = places.place_note(mirror, targets.get(target), item, lookup_key.as_ref())?;
                notes.extend(write.map(|write| PlaceNote { item: index, mirror, write }));
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
        self.write_notes(batch, notes).await
    }

    /// Writes notes. Returns those that wait for another attempt.
    async fn write_notes(
        &self,
        batch: &mut LedgerBatch<'_>,
        notes: Vec<PlaceNote<'_>>,
    ) -> Result<Vec<UnsetCopies>> {
        let results = send_all(notes.iter().map(|note| self.context.requests.write(&note.write))).await;
        let writer = CopyWriter { core: self.context.core, requests: self.context.requests };
        let mut unset = Vec::new();
        for (PlaceNote { item: index, mirror, write }, result) in notes.into_iter().zip(results) {
            match result.map_err(|error| self.context.requests.write_error(&write, error)) {
                Ok(()) => {}
                Err(error) if error.kind().is_poison() => {
                    let source = batch.item(index).facts.source;
                    let key = [Some(&*source.partition), source.sort.as_deref()].into_iter().flatten();
                    let unwritable = writer.unwritable(mirror, key, error);
                    batch.unwritable_mirrors.push(unwritable);
                }
                Err(error) if error.kind() == ErrorKind::Configuration => return Err(error),
                Err(error) => unset.push(UnsetCopies { items: BTreeSet::from([index]), error }),
            }
        }
        Ok(unset)
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
        let mut doubtful = item.counted.departed_targets.clone();
        if self.is_to_be_projected(item) {
            for image in item.state.known_images(&item.facts) {
                let mut evaluation = ImageEvaluation { core: self.context.core, lookups, targets };
                let Ok(projection) = evaluation.project(&item.facts, image.with_known_keys()) else {
                    continue;
                };
                doubtful.extend(projection.extremes.iter().map(|extreme| extreme.target));
                doubtful.extend(targets.mirrored(&projection.contributions));
            }
            doubtful.extend(targets.mirrored(item.facts.current()));
            doubtful.extend(item.facts.readable_entry().iter().flat_map(|entry| &entry.departed));
        }
        let certain = item.counted.changed_targets.iter().map(|target| (*target, true));
        certain.chain(doubtful.into_iter().map(|target| (target, false))).collect()
    }

    /// The rollup that an item of the mirroring entity shows, and the lookup that its key depends on.
    fn mirrored_target<'s>(
        &'s self,
        mirror: &Mirror,
        identity: &'s ItemIdentity<'_, '_>,
        image: &'s Image<'_>,
        targets: &mut RollupTargets,
        lookups: &LookupResults,
    ) -> Option<(TargetId, Option<LookupKey<'s>>)> {
        let rollup = self.context.core.model.rollups.get(mirror.from)?;
        let without_outputs = ImageScope::of(&self.context.core.model, identity, image);
        let lookup_key = match &mirror.lookup {
            Some(lookup) => Some(without_outputs.lookup_key(lookup).ok()?),
            None => None,
        };
        let outputs: Vec<_> = match &lookup_key {
            Some(key) => vec![lookups.outputs(key)?],
            None => Vec::new(),
        };
        let scope = without_outputs.with_outputs(mirror.lookup.as_slice(), &outputs);
        let (partition, sort) = scope.mirrored_key(mirror, rollup).ok()?;
        let key = TargetKey { partition: &partition, sort: &sort, shard: None };
        let target = targets.intern(mirror.from, key, None);
        Some((target, lookup_key))
    }
}
