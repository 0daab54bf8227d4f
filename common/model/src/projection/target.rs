//! The rollups of a batch, each identified by a small number, and what an item contributes to them.

use std::hash::BuildHasher as _;
use std::sync::Arc;

use hashbrown::{DefaultHashBuilder, HashTable};
use smallvec::SmallVec;

use super::extreme::ExtremeRule;
use crate::effect::{MAX_PARTITION_KEY, MAX_SORT_KEY};
use crate::entity::SourceKey;
use crate::record::{AttributeValue, Decimal, Timestamp};
use crate::stable_hash::stable_hash;
use crate::table::{Model, RankGroup, Rollup};
use crate::{Error, ErrorKind, Result};

/// Why a record fails that would write a rollup whose key DynamoDB does not accept.
pub const INVALID_ROLLUP_KEY: &str =
    "a rollup's key, or the group that it is ranked in, is empty or longer than DynamoDB allows";

/// One rollup item of the state table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RollupTarget {
    /// The rollup's name in the model, or in the model generation that wrote the ledger entry.
    pub name: Arc<str>,
    /// The rollups of the model that the item belongs to, as indexes into [`Model::rollups`]: several if the keys of
    /// rollups overlap; none if the model no longer has the rollup.
    pub rollups: SmallVec<[usize; 2]>,
    /// The `PK` without the shard.
    pub partition: Box<str>,
    /// The `SK`.
    pub sort: Box<str>,
    /// The shard, if the rollup is sharded.
    pub shard: Option<u32>,
    /// When the rollup expires, if it does.
    pub expires_at: Option<Timestamp>,
    /// The groups in which the item is ranked.
    pub ranks: Box<[RankGroup]>,
}

impl RollupTarget {
    /// The `PK` with the shard.
    #[must_use]
    pub fn partition_key(&self) -> String {
        match self.shard {
            None => self.partition.as_ref().to_owned(),
            Some(shard) => format!("{}{}{shard}", self.partition, Rollup::SHARD),
        }
    }

    /// About how many bytes of a ledger entry name the rollup.
    #[must_use]
    pub fn entry_bytes(&self) -> usize {
        self.partition.len() + self.sort.len() + self.name.len() + 32
    }

    /// Whether DynamoDB accepts the item: no part of its key is empty or too long, and neither is a group that it is ranked in.
    #[must_use]
    pub fn has_valid_key(&self) -> bool {
        let partition = match self.shard {
            None => self.partition.len(),
            Some(_) => self.partition_key().len(),
        };
        (1..=MAX_PARTITION_KEY).contains(&partition)
            && (1..=MAX_SORT_KEY).contains(&self.sort.len())
            && self.ranks.iter().all(RankGroup::is_valid)
    }
}

/// The key of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TargetKey<'k> {
    /// The `PK` without the shard.
    pub partition: &'k str,
    /// The `SK`.
    pub sort: &'k str,
    /// The shard, if the rollup is sharded.
    pub shard: Option<u32>,
}

/// The number of a target in its [`RollupTargets`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TargetId(u32);

impl TargetId {
    /// Its index in the list of targets: numbers are given without gaps, from 0.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The distinct targets of a batch.
#[derive(Debug)]
pub struct RollupTargets {
    model: Arc<Model>,
    list: Vec<RollupTarget>,
    by_key: HashTable<TargetId>,
    hasher: DefaultHashBuilder,
    /// Buffers for rendering keys, reused.
    buffers: (String, String),
}

impl RollupTargets {
    /// An empty list for this model's rollups.
    #[must_use]
    pub fn of(model: &Arc<Model>) -> Self {
        Self::with_capacity(model, 0)
    }

    /// An empty list with capacity.
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

    /// The model.
    pub(super) fn model(&self) -> &Model {
        &self.model
    }

    /// Takes the buffers for a key; return them with [`RollupTargets::return_buffers`].
    pub(super) fn take_buffers(&mut self) -> (String, String) {
        std::mem::take(&mut self.buffers)
    }

    pub(super) fn return_buffers(&mut self, buffers: (String, String)) {
        self.buffers = buffers;
    }

    /// The number of the target with this key, an item of the model's rollup `rollup`.
    ///
    /// If the expiry differs between calls (an entry may be older than the model), the latest expiry counts.
    pub fn intern(&mut self, rollup: usize, key: TargetKey<'_>, expires_at: Option<Timestamp>) -> TargetId {
        let id = self.find_or_insert(key, |model| {
            let known = model.rollups.get(rollup);
            let name = known.map_or_else(|| Arc::from(""), |known| Arc::clone(&known.name));
            let overlapping = known.into_iter().flat_map(|known| known.overlaps.iter().copied());
            let has_key = |index: &usize| rollup_has_key(model, *index, key);
            (name, std::iter::once(rollup).chain(overlapping.filter(has_key)).collect())
        });
        self.extend_expiry(id, expires_at)
    }

    /// The number of a target in a ledger entry: `name` may be a rollup of another model generation.
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
            let rollups = (0..model.rollups.len()).filter(|index| rollup_has_key(model, *index, key));
            (Arc::from(name), rollups.collect())
        });
        self.extend_expiry(id, expires_at)
    }

    fn find_or_insert(
        &mut self,
        key: TargetKey<'_>,
        describe: impl FnOnce(&Model) -> (Arc<str>, SmallVec<[usize; 2]>),
    ) -> TargetId {
        let Self { model, list, by_key, hasher, .. } = self;
        let hash = hash_of(hasher, key);
        let has_key = |id: &TargetId| list.get(id.0 as usize).is_some_and(|known| known.key() == key);
        if let Some(id) = by_key.find(hash, has_key) {
            return *id;
        }
        // An event of 6 MB has fewer than 2^32 targets.
        let id = TargetId(u32::try_from(list.len()).unwrap_or(u32::MAX));
        let (name, rollups) = describe(model);
        let ranks = rank_groups(model, &rollups, key);
        let (partition, sort) = (key.partition.into(), key.sort.into());
        list.push(RollupTarget { name, rollups, partition, sort, shard: key.shard, expires_at: None, ranks });
        by_key.insert_unique(hash, id, |id| {
            list.get(id.0 as usize).map_or(0, |known| hash_of(hasher, known.key()))
        });
        id
    }

    fn extend_expiry(&mut self, id: TargetId, expires_at: Option<Timestamp>) -> TargetId {
        if let Some(target) = self.list.get_mut(id.0 as usize) {
            target.expires_at = target.expires_at.max(expires_at);
        }
        id
    }

    /// The target with this number, which must come from this list.
    #[must_use]
    pub fn get(&self, id: TargetId) -> &RollupTarget {
        #[expect(
            clippy::indexing_slicing,
            reason = "ids are made by `find_or_insert` alone, which pushes the target they index"
        )]
        &self.list[id.index()]
    }

    /// The number of targets.
    #[must_use]
    pub fn count(&self) -> usize {
        self.list.len()
    }

    /// Whether a mirror shows one of these measures of a target.
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

    /// The rollups of the model that a target belongs to.
    pub fn rollups(&self, id: TargetId) -> impl Iterator<Item = &Rollup> {
        self.get(id).rollups.iter().filter_map(|index| self.model.rollups.get(*index))
    }

    /// Whether a mirror shows this measure of a target.
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

/// The groups in which the item of these rollups is ranked.
fn rank_groups(model: &Model, rollups: &[usize], key: TargetKey<'_>) -> Box<[RankGroup]> {
    let rollups = rollups.iter().filter_map(|index| model.rollups.get(*index));
    rollups.flat_map(|rollup| rollup.rank_groups(key.partition, key.sort)).collect()
}

fn rollup_has_key(model: &Model, rollup: usize, key: TargetKey<'_>) -> bool {
    model.rollups.get(rollup).is_some_and(|rollup| rollup.has_key(key.partition, key.sort))
}

/// The contributions of an item. Measures that are zero are omitted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ItemContributions {
    /// One contribution for each aggregate that counts the item; of an aggregate that counts its elements, one for each rollup.
    pub by_aggregate: SmallVec<[Contribution; 1]>,
}

impl ItemContributions {
    /// The contributions of an item that is not counted.
    pub const NOTHING: Self = Self { by_aggregate: SmallVec::new_const() };
}

/// The rollups that an aggregate counts an item into.
pub type TargetIds = SmallVec<[TargetId; 4]>;

/// Numbers by measure.
pub type MeasureAmounts = Vec<(Arc<str>, Decimal)>;

/// The contribution of an item to one aggregate: the same measures to each of its rollups.
#[derive(Clone, Debug, PartialEq)]
pub struct Contribution {
    /// The aggregate's name.
    pub aggregate: Arc<str>,
    /// The rollups.
    pub targets: TargetIds,
    /// The measures; none is zero.
    pub measures: MeasureAmounts,
}

/// A value that a rollup's `max` or `min` must take into account.
#[derive(Clone, Debug, PartialEq)]
pub struct ExtremeValue {
    /// The rollup.
    pub target: TargetId,
    /// The measure.
    pub measure: Arc<str>,
    /// Which of two values is kept.
    pub rule: ExtremeRule,
    /// The value: a number or a text.
    pub value: AttributeValue<'static>,
}

/// The contributions and extreme values of one image.
#[derive(Clone, Debug, Default)]
pub struct ImageProjection {
    /// The contributions that are counted.
    pub contributions: ItemContributions,
    /// The values for `max` and `min`.
    pub extremes: Vec<ExtremeValue>,
    /// The number of aggregates that leave the item out, because it does not fit them.
    pub skipped: u64,
}

impl ImageProjection {
    /// Refuses contributions to a rollup whose key DynamoDB does not accept: the record of such an item is parked when it is written.
    ///
    /// # Errors
    /// [`ErrorKind::Record`], with the rollup's name.
    pub fn check_keys(&self, targets: &RollupTargets) -> Result<()> {
        let counted = self.contributions.by_aggregate.iter().flat_map(|counted| &counted.targets);
        let all = counted.chain(self.extremes.iter().map(|extreme| &extreme.target));
        let mut all = all.map(|id| targets.get(*id));
        match all.find(|target| !target.has_valid_key()) {
            None => Ok(()),
            Some(target) => {
                Err(Error::new(ErrorKind::Record, INVALID_ROLLUP_KEY).with("rollup", target.name.as_ref()))
            }
        }
    }
}

/// Assigns an item to a shard of each sharded rollup: the shard in its ledger entry, or, for a new contribution, a hash
/// of the item's key.
#[derive(Clone, Copy, Debug)]
pub struct ShardAssignment<'s> {
    /// The item.
    pub source: &'s SourceKey<'s>,
    /// The contributions that are counted now.
    pub current: &'s ItemContributions,
}

impl ShardAssignment<'_> {
    /// A hash of the item's key that is the same in every process and version.
    fn hash(&self) -> u64 {
        stable_hash(&self.source.partition, self.source.sort.as_deref().unwrap_or("-"))
    }

    /// The shard of the rollup with this key; `None` if it is not sharded.
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
        let current_shard =
            self.current.by_aggregate.iter().flat_map(|contribution| &contribution.targets).find_map(|id| {
                let target = targets.get(*id);
                let is_same = *target.partition == *partition && *target.sort == *sort;
                if is_same { target.shard } else { None }
            });
        current_shard.or_else(|| u32::try_from(self.hash() % u64::from(shards)).ok())
    }
}
