//! The places of a mirroring item: the key that follows from the rollup's key, and the other keys noted since.

use std::borrow::Cow;
use std::collections::BTreeSet;

use afterwrite_model::Result;
use afterwrite_model::effect::{ItemKey, Write, WriteCondition};
use afterwrite_model::entity::ItemIdentity;
use afterwrite_model::projection::{ImageScope, KnownLookups as _, RollupTarget};
use afterwrite_model::record::{AttributeValue, Image, Item};
use afterwrite_model::table::Mirror;

use super::super::core::LedgerItem;
use super::super::core::lookups::LookupResults;
use super::super::state::lookup::RememberedLookup;
use super::super::state::rollup::rollup_revision;
use super::{MirrorRefresher, MirrorValues};

/// The copies of one rollup at one place.
#[derive(Clone, Debug)]
pub(super) struct PlacedCopies<'m> {
    /// The mirroring item.
    pub(super) key: ItemKey,
    pub(super) mirror: &'m Mirror,
    /// The rollup.
    pub(super) rollup: ItemKey,
    /// Names the rollup.
    pub(super) origin: String,
    pub(super) values: MirrorValues,
    /// The rollup's `rev`.
    pub(super) revision: AttributeValue<'static>,
    /// The items of the batch that require the copies.
    pub(super) items: BTreeSet<usize>,
    /// The conditions under which the item is of the mirroring entity; none if its key decides that.
    pub(super) guards: Vec<WriteCondition>,
}

impl PlacedCopies<'_> {
    /// The same copies with the values and the revision of the rollup as it is now.
    pub(super) fn read_again(&self, values: MirrorValues, rollup: Option<&Item>) -> Self {
        Self { values, revision: rollup_revision(rollup), ..self.clone() }
    }
}

impl MirrorRefresher<'_> {
    /// The values of the variables of the mirroring item's key, taken from the rollup's key.
    fn item_values<'t>(&self, mirror: &Mirror, target: &'t RollupTarget) -> Option<Vec<Cow<'t, str>>> {
        let rollup = self.core.model.rollups.get(mirror.from)?;
        mirror.item_values(rollup, &target.partition, &target.sort)
    }

    /// The partition and sort key of the mirroring item, taken from the rollup's key.
    fn derived_place(&self, mirror: &Mirror, target: &RollupTarget) -> Option<(String, Option<String>)> {
        let key = &self.core.model.entities.get(mirror.onto)?.key;
        let values = self.item_values(mirror, target)?;
        Some((key.partition.render(&values), key.sort.as_ref().map(|template| template.render(&values))))
    }

    /// The write that notes the current key of an item, if it has moved. It must be sent before the rollup that the item shows is read.
    pub(super) fn place_note(
        &self,
        mirror: &Mirror,
        target: &RollupTarget,
        item: &LedgerItem<'_>,
        (identity, image): (&ItemIdentity<'_, '_>, &Image<'_>),
        lookups: &LookupResults,
    ) -> Result<Option<Write>> {
        let (Some(lookup), Some((partition, sort))) = (&mirror.lookup, self.derived_place(mirror, target))
        else {
            return Ok(None);
        };
        let is_there = *partition == *item.facts.source.partition
            && sort.as_deref() == item.facts.source.sort.as_deref();
        let Ok(lookup_key) = ImageScope::of(&self.core.model, identity, image).lookup_key(lookup) else {
            return Ok(None);
        };
        if is_there || lookups.outputs(&lookup_key).is_none() {
            return Ok(None);
        }
        let place = [Some(item.facts.source.partition.as_ref()), item.facts.source.sort.as_deref()];
        let place: Vec<&str> = place.into_iter().flatten().collect();
        let key = RememberedLookup::key(&self.core.keys, &self.core.model, &lookup_key)?;
        Ok(Some(RememberedLookup::place_note(key, &place)))
    }

    /// The key of the remembered lookup that may note other keys of the item.
    pub(super) fn notes_key(&self, mirror: &Mirror, target: &RollupTarget) -> Result<Option<ItemKey>> {
        let (Some(lookup), Some(entity)) = (&mirror.lookup, self.core.model.entities.get(mirror.onto)) else {
            return Ok(None);
        };
        let Some(values) = self.item_values(mirror, target) else { return Ok(None) };
        let variables = values.iter().map(|value| &**value).collect();
        let (identity, image) = (ItemIdentity { entity, variables }, Image::default());
        match ImageScope::of(&self.core.model, &identity, &image).lookup_key(lookup) {
            Ok(lookup_key) => RememberedLookup::key(&self.core.keys, &self.core.model, &lookup_key).map(Some),
            // The key's variables are not enough for the lookup: the item has never been noted.
            Err(_) => Ok(None),
        }
    }

    /// Every key at which the mirroring item may be. `notes` is the remembered lookup.
    pub(super) fn place_keys(
        &self,
        mirror: &Mirror,
        target: &RollupTarget,
        notes: Option<&Item>,
    ) -> Vec<ItemKey> {
        let Some(entity) = self.core.model.entities.get(mirror.onto) else { return Vec::new() };
        let Some(table) = self.core.model.tables.get(entity.table) else { return Vec::new() };
        let derived = self.derived_place(mirror, target);
        let derived = derived
            .filter(|(partition, _)| !table.is_reserved(partition))
            .and_then(|(partition, sort)| self.core.item_key(entity.table, &partition, sort.as_deref()));
        let noted = notes.into_iter().flat_map(RememberedLookup::noted_places);
        let noted = noted.filter_map(|(partition, sort)| self.core.item_key(entity.table, partition, sort));
        derived.into_iter().chain(noted).collect()
    }
}
