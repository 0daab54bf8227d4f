//! Caches: which keys and paths hold a copy of an item, and what must become of them when it changes.

use std::time::Duration;

use super::{AttributePath, BoundTemplate, Pattern};

/// What is stale once an item of one entity has changed. A rule that is `of` several entities is one of these for each.
#[derive(Debug)]
pub struct CacheRule {
    /// The entity: an index into [`super::Model::entities`].
    pub of: usize,
    /// Cache keys.
    pub keys: Vec<BoundTemplate>,
    /// CloudFront paths. Each begins with `/`; a `*` at its end is a wildcard.
    pub paths: Vec<BoundTemplate>,
    /// What must hold of an image for keys and paths to be rendered from it.
    pub when: Option<Pattern>,
    /// If any are named: a change of an item that touches none of these makes nothing stale.
    pub depends_on: Vec<AttributePath>,
    /// What is done to the keys.
    pub remedy: CacheRemedy,
}

/// What is done to a stale cache key. Each is carried out by the cache itself in one step, so that it holds even if the function stops the
/// instant it has answered; [`crate::sink::Cache`] documents which races each closes and what readers must do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CacheRemedy {
    /// The key is removed. A reader that read the item before the change may still store what it read afterwards.
    Delete,
    /// The key holds a tombstone for this long, in which readers that store only where nothing is cannot.
    Tombstone(Duration),
    /// The key's generation grows, and what is stored under an earlier one is never read again.
    Generation,
}

/// Which change records are archived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ArchiveScope {
    /// Every one, those of items that match no entity too.
    #[default]
    All,
    /// Those of items that match an entity.
    Matched,
}
