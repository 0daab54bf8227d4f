//! The rollups that a batch touches, each known by a small number.

use std::hash::BuildHasher as _;
use std::sync::Arc;

use hashbrown::{DefaultHashBuilder, HashTable};

use super::Contributions;
use crate::record::Timestamp;

/// One item of the state table that is counted into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The rollup's name in the model (of the generation that counted into it).
    pub rollup: Arc<str>,
    /// Its `PK`, without the shard.
    pub partition: Box<str>,
    /// Its `SK`.
    pub sort: Box<str>,
    /// Which of a sharded rollup's items.
    pub shard: Option<u32>,
    /// When it expires, if it does.
    pub expires_at: Option<Timestamp>,
}

impl Target {
    /// The item's `PK`, with the shard.
    #[must_use]
    pub fn partition_key(&self) -> String {
        match self.shard {
            None => self.partition.as_ref().to_owned(),
            Some(shard) => format!("{}#SHARD#{shard}", self.partition),
        }
    }
}

/// A target's number within one [`Targets`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TargetId(u32);

/// All targets of a batch, each once.
#[derive(Debug, Default)]
pub struct Targets {
    list: Vec<Target>,
    by_key: HashTable<TargetId>,
    hasher: DefaultHashBuilder,
}

impl Targets {
    /// The number of the target with this key and shard, which is made if it is new.
    pub fn intern(
        &mut self,
        rollup: &Arc<str>,
        key: (&str, &str),
        shard: Option<u32>,
        expires_at: Option<Timestamp>,
    ) -> TargetId {
        let (partition, sort) = key;
        let Self { list, by_key, hasher } = self;
        let hash = hasher.hash_one((partition, sort, shard));
        let at = |id: TargetId, list: &[Target]| list.get(id.0 as usize).cloned();
        let same = |id: &TargetId| {
            list.get(id.0 as usize).is_some_and(|known| {
                *known.sort == *sort && *known.partition == *partition && known.shard == shard
            })
        };
        if let Some(id) = by_key.find(hash, same) {
            return *id;
        }
        // More than four thousand million targets do not fit into one event of 6 MB.
        let id = TargetId(u32::try_from(list.len()).unwrap_or(u32::MAX));
        let target = Target {
            rollup: Arc::clone(rollup),
            partition: partition.into(),
            sort: sort.into(),
            shard,
            expires_at,
        };
        list.push(target);
        by_key.insert_unique(hash, id, |id| {
            at(*id, list).map_or(0, |known| hasher.hash_one((&*known.partition, &*known.sort, known.shard)))
        });
        id
    }

    /// The target of this number. The number must come from this very list.
    #[must_use]
    pub fn get(&self, id: TargetId) -> &Target {
        #[expect(
            clippy::indexing_slicing,
            reason = "ids are made by `intern` alone, which pushes the target they index"
        )]
        &self.list[id.0 as usize]
    }
}

/// How an item is spread over the shards of a sharded rollup: it stays on the shard that its ledger entry names, and goes by
/// a hash of its key where there is none yet.
#[derive(Clone, Copy, Debug)]
pub struct Sharding<'s> {
    /// The item's hash: see [`Sharding::hash`].
    pub item: u64,
    /// What is counted of the item now.
    pub current: &'s Contributions,
}

impl Sharding<'_> {
    /// A hash of an item's key that never changes, in any process of any version (FNV-1a).
    #[must_use]
    pub fn hash(partition: &str, sort: Option<&str>) -> u64 {
        let separator: &[u8] = &[0];
        let bytes = partition.bytes().chain(separator.iter().copied()).chain(sort.unwrap_or("-").bytes());
        bytes
            .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
    }

    /// The shard of the rollup with this name and key.
    pub(super) fn shard(
        &self,
        rollup: &str,
        key: (&str, &str),
        shards: u32,
        targets: &Targets,
    ) -> Option<u32> {
        if shards <= 1 {
            return None;
        }
        let counted_there = self.current.shares.iter().flat_map(|share| &share.targets).find_map(|id| {
            let target = targets.get(*id);
            let same = *target.rollup == *rollup && *target.partition == *key.0 && *target.sort == *key.1;
            if same { target.shard } else { None }
        });
        counted_there.or_else(|| u32::try_from(self.item % u64::from(shards)).ok())
    }
}
