//! The places of a mirroring item: the key that follows from the rollup's key, and the other keys noted since.
//!
//! Two entities can have keys of one form: a condition, or a more literal key, distinguishes their items. So the item is
//! read before a copy is set, and the copy is set on condition that the attributes which decide the item's entity are as they were read.
//! An item that moves to the mirroring entity later has a record of its own, which sets the copy.

use std::borrow::Cow;
use std::collections::BTreeSet;

use afterwrite_model::effect::condition::holds;
use afterwrite_model::effect::{ItemKey, Write, WriteCondition};
use afterwrite_model::entity::{ItemIdentity, SourceKey};
use afterwrite_model::projection::{ImageScope, LookupKey, RollupTarget};
use afterwrite_model::record::{AttributeValue, Decimal, Image, Item};
use afterwrite_model::table::{Entity, Mirror, MirroredAttribute};
use afterwrite_model::{Error, Result};

use super::super::core::{LedgerCore, LedgerItem};
use super::super::state::lookup::RememberedLookup;
use super::super::state::rollup::rollup_revision;

/// The values of a mirror's attributes; `None` for an absent attribute.
pub(super) type MirrorValues = Vec<Option<AttributeValue<'static>>>;

/// Copies that could not be set.
#[derive(Debug)]
pub(super) struct UnsetCopies {
    /// The items of the batch that require them.
    pub(super) items: BTreeSet<usize>,
    pub(super) error: Error,
}

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
    /// Whether the item is still of the mirroring entity, as far as its conditions show.
    pub(super) fn guards_hold(&self, item: &Item) -> bool {
        self.guards.iter().all(|guard| holds(guard, Some(item)))
    }

    /// The conditions and the guards, all required.
    pub(super) fn with_guards(&self, condition: Vec<WriteCondition>) -> WriteCondition {
        WriteCondition::All(condition.into_iter().chain(self.guards.iter().cloned()).collect())
    }

    /// The same copies with the values and the revision of the rollup as it is now.
    pub(super) fn read_again(&self, values: MirrorValues, rollup: Option<&Item>) -> Self {
        Self { values, revision: rollup_revision(rollup), ..self.clone() }
    }
}

/// The places of mirroring items, and what is shown there.
pub(super) struct MirrorPlaces<'l> {
    pub(super) core: &'l LedgerCore,
}

impl MirrorPlaces<'_> {
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

    /// The write that notes the current key of an item, if it has moved: in the remembered lookup that the rollup's key depends on. It must be
    /// sent before the rollup that the item shows is read.
    pub(super) fn place_note(
        &self,
        mirror: &Mirror,
        target: &RollupTarget,
        item: &LedgerItem<'_>,
        lookup_key: Option<&LookupKey<'_>>,
    ) -> Result<Option<Write>> {
        let (Some(lookup_key), Some((partition, sort))) = (lookup_key, self.derived_place(mirror, target))
        else {
            return Ok(None);
        };
        let source = item.facts.source;
        if *partition == *source.partition && sort.as_deref() == source.sort.as_deref() {
            return Ok(None);
        }
        let place = [Some(source.partition.as_ref()), source.sort.as_deref()];
        let place: Vec<&str> = place.into_iter().flatten().collect();
        let key = RememberedLookup::key(&self.core.keys, &self.core.model, lookup_key)?;
        Ok(Some(RememberedLookup::place_note(key, &place)))
    }

    /// The key of the remembered lookup that may note other keys of the item.
    pub(super) fn notes_key(&self, mirror: &Mirror, target: &RollupTarget) -> Result<Option<ItemKey>> {
        let (Some(lookup), Some(entity)) = (&mirror.lookup, self.core.model.entities.get(mirror.onto)) else {
            return Ok(None);
        };
        let Some(values) = self.item_values(mirror, target) else { return Ok(None) };
        let variables = values.iter().map(|value| Cow::Borrowed(&**value)).collect();
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
        let key = |partition: Cow<'_, str>, sort: Option<Cow<'_, str>>| {
            self.core.item_key(&SourceKey { table: entity.table, partition, sort })
        };
        let derived = self.derived_place(mirror, target);
        let derived = derived
            .filter(|(partition, _)| !table.is_reserved(partition))
            .and_then(|(partition, sort)| key(partition.into(), sort.map(Cow::from)));
        let noted = notes.into_iter().flat_map(RememberedLookup::noted_places);
        let noted = noted.filter_map(|(partition, sort)| key(partition.into(), sort.map(Cow::from)));
        derived.into_iter().chain(noted).collect()
    }

    /// The values that the copies must have: 0 for a count or sum without contributions; a computed measure without
    /// contributions is absent.
    pub(super) fn mirror_values(&self, mirror: &Mirror, rollup: Option<&Item>) -> MirrorValues {
        let declared = self.core.model.rollups.get(mirror.from);
        let is_computed = |measure: &str| declared.is_some_and(|rollup| rollup.has_computed(measure));
        let value = |shown: &MirroredAttribute| {
            let stored = rollup.and_then(|item| item.get(shown.measure.as_ref())).cloned();
            stored.or_else(|| (!is_computed(&shown.measure)).then_some(Decimal::ZERO.into()))
        };
        mirror.attributes.iter().map(value).collect()
    }

    /// Whether the key alone does not decide that an item shows a mirror.
    pub(super) fn is_guarded(&self, mirror: &Mirror) -> bool {
        self.mirroring_entity(mirror).is_some_and(needs_guard)
    }

    /// The same copies, on condition that the item stays of the mirroring entity; `None` if it is of another.
    pub(super) fn guarded<'m>(&self, copies: PlacedCopies<'m>, item: &Item) -> Option<PlacedCopies<'m>> {
        let entity = self.mirroring_entity(copies.mirror)?;
        if !needs_guard(entity) {
            return Some(copies);
        }
        let model = &self.core.model;
        let source = SourceKey::of_item(model, entity.table, item)?;
        let identity = source.identify(model, &Image::from_item(item, &model.attributes))?;
        let guards = entity.decided_by.iter().map(|path| WriteCondition::unchanged(path, item)).collect();
        std::ptr::eq(identity.entity, entity).then_some(PlacedCopies { guards, ..copies })
    }

    fn mirroring_entity(&self, mirror: &Mirror) -> Option<&Entity> {
        self.core.model.entities.get(mirror.onto)
    }
}

/// Whether an item with such a key can be of another entity.
fn needs_guard(entity: &Entity) -> bool {
    entity.when.is_some() || !entity.yields_to.is_empty()
}
