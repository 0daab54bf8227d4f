//! The core of the ledger: decides what each item of a batch writes. Pure: it reads no clock, sends no request, and the
//! same input always has the same result.
//!
//! A [`LedgerItem`] is the state of one source item in a batch. The driver gives it what was read and the results of its
//! writes ([`ItemInput`]); its state names the next request ([`ItemState`]).

pub(crate) mod decide;
pub(crate) mod evaluate;
pub(crate) mod facts;
pub(crate) mod item;
pub(crate) mod lookups;
mod merge;
pub(crate) mod pack;
pub(crate) mod plan;
pub(crate) mod records;
mod states;

use std::sync::Arc;

use afterwrite_model::effect::{ItemKey, KeyAttribute};
use afterwrite_model::entity::{ItemCandidates, key_value};
use afterwrite_model::projection::{MAX_PARTITION_KEY, MAX_SORT_KEY};
use afterwrite_model::record::{AttributeValue, Timestamp};
use afterwrite_model::table::{Aggregate, KeySchema, Model};

pub(crate) use item::LedgerItem;
pub use merge::RollupMerger;
pub use states::ExportedImage;
pub(crate) use states::{ItemInput, ItemState};

use crate::state::StateKeys;
use crate::tally::CommitTally;

/// The handling of records that cannot be counted, however often they are delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PoisonPolicy {
    /// Its item is marked as behind, and the record is acknowledged. The item's next change heals it.
    #[default]
    Park,
    /// The record fails, and is redelivered with all records that follow it.
    Fail,
}

/// Whether the state table may have lost tombstones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TombstoneHistory {
    /// Tombstones live for 35 days. A record that is older is never applied to an item without an entry; the item is reconciled.
    #[default]
    Expiring,
    /// The table is younger than tombstones live, so it has those of all deletions that were ever counted in it: records of any
    /// age are applied. For a table that is built from an archive.
    Complete,
}

/// The inputs of all decisions: the model, and where it is deployed.
#[derive(Debug)]
pub(crate) struct LedgerCore {
    pub(crate) model: Arc<Model>,
    /// The deployed name of each of [`Model::tables`].
    pub(crate) table_names: Vec<Arc<str>>,
    pub(crate) keys: StateKeys,
    pub(crate) poison: PoisonPolicy,
    /// Whether errors may name the keys of items.
    pub(crate) names_keys: bool,
    pub(crate) history: TombstoneHistory,
    /// The treatment of contributions to aggregates that the model no longer has.
    pub(crate) dropped: DroppedAggregates,
}

/// The treatment of an item's contributions to aggregates that the model no longer has, when the item is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DroppedAggregates {
    /// They stay counted.
    #[default]
    Keep,
    /// They are subtracted.
    Subtract,
}

/// A step's context: the core, the time by the clock and by DynamoDB, and the counters of the invocation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StepContext<'c> {
    pub(crate) core: &'c LedgerCore,
    pub(crate) now: Timestamp,
    pub(crate) service_now: Timestamp,
    pub(crate) tally: &'c CommitTally,
}

impl LedgerCore {
    /// The time at which the age of records is judged.
    pub(crate) fn judged_at(&self, now: Timestamp) -> Timestamp {
        match self.history {
            TombstoneHistory::Expiring => now,
            // No record is older than 1970.
            TombstoneHistory::Complete => Timestamp::from_epoch_ms(0),
        }
    }

    /// The aggregates that may count an item of one of these entities.
    pub(crate) fn aggregates<'i>(
        &'i self,
        candidates: &'i ItemCandidates<'_, '_>,
    ) -> impl Iterator<Item = &'i Aggregate> {
        let indexes = candidates.iter().flat_map(|identity| &identity.entity.aggregates);
        indexes.filter_map(|index| self.model.aggregates.get(*index))
    }

    /// The most rollups that one state of such an item counts into.
    pub(crate) fn most_rollups(&self, candidates: &ItemCandidates<'_, '_>) -> usize {
        candidates.iter().map(|identity| identity.entity.most_rollups(&self.model)).max().unwrap_or(0)
    }

    /// The key of an item by the texts of a [`SourceKey`](afterwrite_model::entity::SourceKey); `None` if they do not match the
    /// table's key schema, or if DynamoDB does not allow such a key: one part is empty or too long.
    pub(crate) fn item_key(&self, table: usize, partition: &str, sort: Option<&str>) -> Option<ItemKey> {
        source_item_key(&self.model, &self.table_names, table, (partition, sort))
    }
}

/// The key of an item in its table: see [`LedgerCore::item_key`].
pub(crate) fn source_item_key(
    model: &Model,
    table_names: &[Arc<str>],
    table: usize,
    (partition, sort): (&str, Option<&str>),
) -> Option<ItemKey> {
    let schema = model.tables.get(table)?;
    let attribute = |key: &KeySchema, text: &str, most_bytes: usize| {
        let value = key_value(text, key.key_type)?;
        let bytes = if let AttributeValue::B(bytes) = &value { bytes.len() } else { text.len() };
        let is_allowed = (1..=most_bytes).contains(&bytes);
        is_allowed.then(|| KeyAttribute { name: Arc::clone(&key.name), value })
    };
    let sort = match (&schema.sort_key, sort) {
        (Some(key), Some(text)) => Some(attribute(key, text, MAX_SORT_KEY)?),
        (None, None) => None,
        (Some(_), None) | (None, Some(_)) => return None,
    };
    let table = Arc::clone(table_names.get(table)?);
    let partition = attribute(&schema.partition_key, partition, MAX_PARTITION_KEY)?;
    Some(ItemKey { table, partition, sort })
}
