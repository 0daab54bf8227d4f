//! The attributes that never leave the table.

use std::collections::BTreeSet;

use afterwrite::entity::ItemIdentity;
use afterwrite::record::AttributePath;
use afterwrite::table::Model;

/// The secret attributes of a model, as they are removed from the lines of the archive and of recordings.
#[derive(Clone, Debug)]
pub struct SecretAttributes {
    /// Those of all entities, each once.
    all: Vec<AttributePath>,
}

impl SecretAttributes {
    /// The secret attributes of a model.
    #[must_use]
    pub fn new(model: &Model) -> Self {
        let paths: BTreeSet<_> = model.entities.iter().flat_map(|entity| &entity.secrets).collect();
        Self { all: paths.into_iter().cloned().collect() }
    }

    /// The attributes that are removed from a record's line: the secrets of the item's entity. An item that matches no entity, or a
    /// malformed record, may hold those of any.
    #[must_use]
    pub fn of<'s>(&'s self, identity: Option<&ItemIdentity<'s, '_>>) -> &'s [AttributePath] {
        identity.map_or(&self.all, |identity| &identity.entity.secrets)
    }
}
