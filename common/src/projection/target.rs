//! The rollups that a batch touches, each known by a small number.

use std::hash::BuildHasher as _;
use std::sync::Arc;

use hashbrown::{DefaultHashBuilder, HashTable};
use smallvec::SmallVec;

use super::{ItemContributions, MeasureAmounts};
use crate::entity::SourceKey;
use crate::record::Timestamp;
use crate::table::{Model, Rollup};

/// One item of the state table that is counted into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RollupTarget {
    /// The name under which the model (of the generation that counted into it) declares it.
    pub name: Arc<str>,
    /// Which of the model's rollups it is: indexes into [`Model::rollups`]. Several, if the keys of rollups overlap; none, if the
    /// model has no such rollup any more.
    pub rollups: SmallVec<[usize; 2]>,
    /// Its `PK`, without the shard.
    pub partition: Box<str>,
    /// Its `SK`.
    pub sort: Box<str>,
    /// Which of a sharded rollup's items.
    pub shard: Option<u32>,
    /// When it expires, if it does.
    pub expires_at: Option<Timestamp>,
}

impl RollupTarget {
    /// The item's `PK`, with the shard.
    #[must_use]
    pub fn partition_key(&self) -> String {
        match self.shard {
            None => self.partition.as_ref().to_owned(),
            Some(shard) => format!("{}#SHARD#{shard}", self.partition),
        }
    }
}

/// The key of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TargetKey<'k> {
    /// Its `PK`, without the shard.
    pub partition: &'k str,
    /// Its `SK`.
    pub sort: &'k str,
    /// Which of a sharded rollup's items.
    pub shard: Option<u32>,
}

/// A target's number within one [`RollupTargets`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TargetId(u32);

/// All targets of a batch, each once.
#[derive(Debug)]
pub struct RollupTargets {
    model: Arc<Model>,
    list: Vec<RollupTarget>,
    by_key: HashTable<TargetId>,
    hasher: DefaultHashBuilder,
    /// Room to render keys in, used over and over.
    buffers: (String, String),
}

impl RollupTargets {
    /// No targets yet, of the rollups of this model.
    #[must_use]
    pub fn of(model: &Arc<Model>) -> Self {
        Self::with_capacity(model, 0)
    }

    /// No targets yet, and room for so many.
    #[must_use]
    pub fn with_capacity(model: &Arc<Model>, capacity: usize) -> Self {
        Self {
            model: Arc::clone(model),
            list: Vec::with_capacity(capacity),
            by_key: HashTable::with_capacity(capacity),
            hasher: DefaultHashBuilder::default(),
            buffers: Default::default(),
        }
    }

    /// Two texts to render a key in; whoever is done with them gives them back.
    pub(super) fn take_buffers(&mut self) -> (String, String) {
        std::mem::take(&mut self.buffers)
    }

    pub(super) fn give_buffers(&mut self, buffers: (String, String)) {
        self.buffers = buffers;
    }

    /// The number of the target with this key, an item of the model's rollup `rollup`.
    ///
    /// Should several times be given at which it expires (an entry was written before the model changed), the latest counts.
    pub fn intern(&mut self, rollup: usize, key: TargetKey<'_>, expires_at: Option<Timestamp>) -> TargetId {
        let id = self.find_or_insert(key, |model| {
            let found = model.rollups.get(rollup);
            let name = found.map_or_else(|| Arc::from(""), |found| Arc::clone(&found.name));
            let overlapping = found.into_iter().flat_map(|found| found.overlaps.iter().copied());
            let has_key = |index: &usize| is_of(model, *index, key);
            (name, std::iter::once(rollup).chain(overlapping.filter(has_key)).collect())
        });
        self.expire(id, expires_at)
    }

    /// The number of the target with this key, as a ledger entry names it: `name` may be that of another generation's rollup.
    pub fn intern_stored(
        &mut self,
        name: &str,
        key: TargetKey<'_>,
        expires_at: Option<Timestamp>,
    ) -> TargetId {
        if let Some(rollup) = self.model.rollups.iter().position(|rollup| *rollup.name == *name) {
            return self.intern(rollup, key, expires_at);
        }
        let id = self.find_or_insert(key, |model| {
            let rollups = (0..model.rollups.len()).filter(|index| is_of(model, *index, key));
            (Arc::from(name), rollups.collect())
        });
        self.expire(id, expires_at)
    }

    fn find_or_insert(
        &mut self,
        key: TargetKey<'_>,
        describe: impl FnOnce(&Model) -> (Arc<str>, SmallVec<[usize; 2]>),
    ) -> TargetId {
        let Self { model, list, by_key, hasher, .. } = self;
        let hash = hash_of(hasher, key);
        let is_it = |id: &TargetId| list.get(id.0 as usize).is_some_and(|known| known.key() == key);
        if let Some(id) = by_key.find(hash, is_it) {
            return *id;
        }
        // More than four thousand million targets do not fit into one event of 6 MB.
        let id = TargetId(u32::try_from(list.len()).unwrap_or(u32::MAX));
        let (name, rollups) = describe(model);
        let (partition, sort) = (key.partition.into(), key.sort.into());
        list.push(RollupTarget { name, rollups, partition, sort, shard: key.shard, expires_at: None });
        by_key.insert_unique(hash, id, |id| {
            list.get(id.0 as usize).map_or(0, |known| hash_of(hasher, known.key()))
        });
        id
    }

    fn expire(&mut self, id: TargetId, expires_at: Option<Timestamp>) -> TargetId {
        if let Some(target) = self.list.get_mut(id.0 as usize) {
            target.expires_at = target.expires_at.max(expires_at);
        }
        id
    }

    /// The target of this number. The number must come from this very list.
    #[must_use]
    pub fn get(&self, id: TargetId) -> &RollupTarget {
        #[expect(
            clippy::indexing_slicing,
            reason = "ids are made by `find_or_insert` alone, which pushes the target they index"
        )]
        &self.list[id.0 as usize]
    }

    /// Whether a change of one of these measures of a target changes what a mirror shows.
    #[must_use]
    pub fn shows_any(&self, id: TargetId, measures: &MeasureAmounts) -> bool {
        let mut showing = self.rollups(id).filter(|rollup| !rollup.shown.is_empty());
        showing.any(|rollup| measures.iter().any(|(measure, _)| rollup.shows(measure)))
    }

    /// The rollups of these contributions that a mirror shows a measure of.
    pub fn mirrored(&self, contributions: &ItemContributions) -> impl Iterator<Item = TargetId> {
        contributions.by_aggregate.iter().flat_map(|contribution| {
            let is_mirrored = |target: &TargetId| self.shows_any(*target, &contribution.measures);
            contribution.targets.iter().copied().filter(is_mirrored)
        })
    }

    /// The model's rollups that a target is an item of.
    pub fn rollups(&self, id: TargetId) -> impl Iterator<Item = &Rollup> {
        self.get(id).rollups.iter().filter_map(|index| self.model.rollups.get(*index))
    }

    /// Whether a change of this measure of this target shows in any mirror.
    #[must_use]
    pub fn shows(&self, id: TargetId, measure: &str) -> bool {
        self.rollups(id).any(|rollup| rollup.shows(measure))
    }
}

impl RollupTarget {
    fn key(&self) -> TargetKey<'_> {
        TargetKey { partition: &self.partition, sort: &self.sort, shard: self.shard }
    }
}

fn hash_of(hasher: &DefaultHashBuilder, key: TargetKey<'_>) -> u64 {
    hasher.hash_one((key.partition, key.sort, key.shard.unwrap_or(0)))
}

fn is_of(model: &Model, rollup: usize, key: TargetKey<'_>) -> bool {
    model.rollups.get(rollup).is_some_and(|rollup| rollup.has_key(key.partition, key.sort))
}

/// How an item is spread over the shards of a sharded rollup: it stays on the shard that its ledger entry names, and goes by
/// a hash of its key where there is none yet.
#[derive(Clone, Copy, Debug)]
pub struct ShardAssignment<'s> {
    /// The item.
    pub source: &'s SourceKey<'s>,
    /// What is counted of the item now.
    pub current: &'s ItemContributions,
}

impl ShardAssignment<'_> {
    /// A hash of an item's key that never changes, in any process of any version (FNV-1a).
    fn hash(&self) -> u64 {
        let (partition, sort) = (&*self.source.partition, self.source.sort.as_deref());
        let separator: &[u8] = &[0];
        let bytes = partition.bytes().chain(separator.iter().copied()).chain(sort.unwrap_or("-").bytes());
        bytes
            .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
    }

    /// The shard of the rollup with this key, spread over `shards` items.
    pub(super) fn shard(
        &self,
        partition: &str,
        sort: &str,
        shards: u32,
        targets: &RollupTargets,
    ) -> Option<u32> {
        if shards <= 1 {
            return None;
        }
        let counted_there =
            self.current.by_aggregate.iter().flat_map(|share| &share.targets).find_map(|id| {
                let target = targets.get(*id);
                let same = *target.partition == *partition && *target.sort == *sort;
                if same { target.shard } else { None }
            });
        counted_there.or_else(|| u32::try_from(self.hash() % u64::from(shards)).ok())
    }
}
