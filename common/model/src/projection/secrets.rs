//! The attributes that never leave the table: which of a model's are secret in an item. [`SecretPaths`] finds and removes them.

use std::borrow::Cow;
use std::collections::BTreeSet;

use crate::entity::{ItemCandidates, SourceKey};
use crate::record::{AttributePath, ChangeRecord, Item, SecretPaths};
use crate::table::{Entity, Model};

/// The secret attributes of a model, which are removed from all data that leaves the table or is shown.
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

    /// The secrets of all entities.
    #[must_use]
    pub fn all(&self) -> &[AttributePath] {
        &self.all
    }

    /// Removes the secrets of every entity that an item of a table can match. An item that matches no entity may hold the secrets of any entity.
    pub fn cut_item(&self, model: &Model, table: usize, item: &mut Item) {
        if self.all.is_empty() {
            return;
        }
        let known = SourceKey::of_item(model, table, item).and_then(|key| {
            let candidates = key.candidates(model);
            let entities: Vec<&Entity> = candidates.iter().map(|identity| identity.entity).collect();
            Some(entities).filter(|entities| !entities.is_empty())
        });
        match known {
            Some(entities) => SecretPaths::new(entities.iter().flat_map(|entity| &entity.secrets)).cut(item),
            None => SecretPaths::new(&self.all).cut(item),
        }
    }

    /// The attributes that are removed from the line of a change: the secrets of the entities that the item was of before and after it. An
    /// item that is of no entity in one of these states, or a malformed record (`None`), may hold the secrets of any entity.
    #[must_use]
    pub fn of_change<'s>(
        &'s self,
        change: Option<(&ChangeRecord<'_>, &ItemCandidates<'s, '_>)>,
    ) -> Cow<'s, [AttributePath]> {
        let Some((record, candidates)) = change else { return Cow::Borrowed(&self.all) };
        if let Some(identity) = candidates.by_key() {
            return Cow::Borrowed(&identity.entity.secrets);
        }
        if record.has_stray_image {
            return Cow::Borrowed(&self.all);
        }
        let before = record.old.is_present().then(|| candidates.before(record));
        let after = record.new.is_some().then(|| candidates.after(record));
        match (before, after) {
            (Some(None), _) | (_, Some(None)) | (None, None) => Cow::Borrowed(&self.all),
            (Some(Some(identity)), None) | (None, Some(Some(identity))) => {
                Cow::Borrowed(&identity.entity.secrets)
            }
            (Some(Some(before)), Some(Some(after))) if std::ptr::eq(before.entity, after.entity) => {
                Cow::Borrowed(&after.entity.secrets)
            }
            (Some(Some(before)), Some(Some(after))) => {
                Cow::Owned(before.entity.secrets.iter().chain(&after.entity.secrets).cloned().collect())
            }
        }
    }
}
