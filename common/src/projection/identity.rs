//! The identity of an item in one of its states: which of the entities that its key allows.

use crate::entity::{ItemCandidates, ItemIdentity, SourceKey};
use crate::record::{ChangeRecord, Image};
use crate::table::Model;

use super::ImageScope;

impl<'m, 'k> ItemCandidates<'m, 'k> {
    /// The identity of the item in the state of an image; `None` if the image meets the condition of no candidate.
    #[must_use]
    pub fn in_state(&self, image: &Image<'_>) -> Option<&ItemIdentity<'m, 'k>> {
        self.iter().find(|identity| match &identity.entity.when {
            None => true,
            Some(when) => ImageScope::of(self.model(), identity, image).satisfies(when),
        })
    }

    /// The identity of the item before a change, by the attributes of the old image that were decoded eagerly. `None` if the item did not
    /// exist, or was of no entity.
    #[must_use]
    pub fn before(&self, record: &ChangeRecord<'_>) -> Option<&ItemIdentity<'m, 'k>> {
        match self.by_key() {
            Some(identity) => record.old.is_present().then_some(identity),
            None => self.in_state(record.old.eager_fields()?),
        }
    }

    /// The identity of the item after a change; `None` if the item does not exist, or is of no entity.
    #[must_use]
    pub fn after(&self, record: &ChangeRecord<'_>) -> Option<&ItemIdentity<'m, 'k>> {
        self.in_state(record.new.as_ref()?)
    }

    /// Whether the item is of an entity before or after a change, or may be: its key alone decides.
    #[must_use]
    pub fn match_change(&self, record: &ChangeRecord<'_>) -> bool {
        self.by_key().is_some() || self.before(record).is_some() || self.after(record).is_some()
    }
}

impl SourceKey<'_> {
    /// The identity of an item with this key and image; `None` if it matches no entity.
    pub fn identify<'m, 'k>(&'k self, model: &'m Model, image: &Image<'_>) -> Option<ItemIdentity<'m, 'k>> {
        self.candidates(model).in_state(image).cloned()
    }
}
