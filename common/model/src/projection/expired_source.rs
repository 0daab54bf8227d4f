//! Rollups that are sources and have expired: whether they stay counted in the levels above, and whether these lack a change that an expired
//! rollup does not take any more.

use std::collections::BTreeSet;

use super::{ImageScope, RollupTarget, RollupTargets, TargetId};
use crate::entity::ItemIdentity;
use crate::record::{Image, Timestamp};
use crate::table::{Entity, Model, Rollup, RollupDestination};

impl RollupTarget {
    /// Whether the rollup stays counted in rollups of the next level when TTL deletes it.
    #[must_use]
    pub fn stays_counted(&self, model: &Model) -> bool {
        self.rollups.iter().any(|rollup| kept_sources(model, *rollup).next().is_some())
    }
}

impl RollupTargets {
    /// How many of these rollups, which had expired at `at` and do not take a change any more, are missed above: they stay counted there, in a rollup
    /// that had not expired itself. The members of a distinct count, for example, expire with their rollup.
    #[must_use]
    pub fn missed_above(&self, expired: impl Iterator<Item = TargetId>, at: Timestamp) -> u64 {
        let expired: BTreeSet<TargetId> = expired.collect();
        let is_missed_above = |id: &&TargetId| {
            let target = self.get(**id);
            let key = (&*target.partition, &*target.sort);
            target.rollups.iter().any(|rollup| is_missed(self.model(), *rollup, key, at))
        };
        u64::try_from(expired.iter().filter(is_missed_above).count()).unwrap_or(u64::MAX)
    }
}

impl Model {
    /// Whether rollups that are sources expire, and stay counted in levels above that may live longer: the members of a distinct count do not.
    #[must_use]
    pub fn has_expiring_sources(&self) -> bool {
        let expires = |rollup: &Rollup| rollup.lifetime.is_some() && !rollup.has_members();
        let mut rollups = self.rollups.iter().enumerate().filter(|(_, rollup)| expires(rollup));
        rollups.any(|(index, _)| kept_sources(self, index).next().is_some())
    }
}

/// The entities of a rollup's items, if these stay counted when TTL deletes them.
fn kept_sources(model: &Model, rollup: usize) -> impl Iterator<Item = &Entity> {
    let entities = model.entities.iter();
    entities.filter(move |entity| entity.rollup == Some(rollup) && entity.keeps_what_expired())
}

/// Whether an item of a rollup, with this key, stays counted in a rollup that has not expired at `at`. A key of another rollup is counted anywhere.
fn is_missed(model: &Model, rollup: usize, (partition, sort): (&str, &str), at: Timestamp) -> bool {
    kept_sources(model, rollup).any(|entity| {
        let values = model.rollups.get(rollup).and_then(|rollup| rollup.values(partition, sort));
        let Some(variables) = values else { return true };
        let (identity, image) = (ItemIdentity { entity, variables }, Image::empty());
        let scope = ImageScope::of(model, &identity, &image);
        let aggregates = entity.aggregates.iter().filter_map(|index| model.aggregates.get(*index));
        aggregates.flat_map(|aggregate| &aggregate.into).any(|into| lives(&scope, into, at))
    })
}

/// Whether the rollup that an item counts into has not expired at `at`, or stays counted in a rollup above that has not expired. A time that is not in the item's
/// key is unknown, and may be later.
fn lives(scope: &ImageScope<'_, '_>, into: &RollupDestination, at: Timestamp) -> bool {
    let Some(expiry) = &into.expires else { return true };
    if !scope.expiry(expiry).is_ok_and(|expiry| expiry <= at) {
        return true;
    }
    let (partition, sort) = key_of(scope, into).unwrap_or_default();
    is_missed(scope.model, into.rollup, (&partition, &sort), at)
}

/// The key of the rollup that an item counts into, if the item's key has all of it.
fn key_of(scope: &ImageScope<'_, '_>, into: &RollupDestination) -> Option<(String, String)> {
    let keys = scope.model.rollups.get(into.rollup)?.keys;
    let (mut partition, mut sort) = (String::new(), String::new());
    scope.render_rollup(&into.partition, keys, &mut partition).ok()?;
    scope.render_rollup(&into.sort, keys, &mut sort).ok()?;
    Some((partition, sort))
}
