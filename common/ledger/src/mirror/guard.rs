//! Mirrors onto an entity whose keys can be those of another entity: a condition distinguishes them, or a more literal key.
//!
//! The rollup's key leads to an item that may be of another entity by now. So the item is read before a copy is set, and the copy is set on
//! condition that the attributes which decide the item's entity are as they were read. An item that moves to the mirroring entity
//! later has a record of its own, which sets the copy.

use afterwrite_model::effect::WriteCondition;
use afterwrite_model::effect::condition::holds;
use afterwrite_model::entity::SourceKey;
use afterwrite_model::record::{Image, Item};
use afterwrite_model::table::{Entity, Mirror};

use super::MirrorRefresher;
use super::places::PlacedCopies;

impl MirrorRefresher<'_> {
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

impl PlacedCopies<'_> {
    /// Whether the item is still of the mirroring entity, as far as its conditions show.
    pub(super) fn guards_hold(&self, item: &Item) -> bool {
        self.guards.iter().all(|guard| holds(guard, Some(item)))
    }

    /// The conditions and the guards, all required.
    pub(super) fn with_guards(&self, condition: Vec<WriteCondition>) -> WriteCondition {
        WriteCondition::All(condition.into_iter().chain(self.guards.iter().cloned()).collect())
    }
}
