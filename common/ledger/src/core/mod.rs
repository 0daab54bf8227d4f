//! The core of the ledger: decides what each item of a batch writes. Pure: it reads no clock, sends no request, and the
//! same input always has the same result.
//!
//! A [`LedgerItem`] is the state of one source item in a batch. A stage gives it what was read, or the result of its
//! write ([`ItemInput`]); its state names the next request ([`ItemState`]).

mod amounts;
mod counted;
pub(crate) mod decide;
pub(crate) mod evaluate;
pub(crate) mod facts;
pub(crate) mod item;
pub(crate) mod lookups;
pub(crate) mod pack;
pub(crate) mod plan;
mod rollup_merger;
mod states;

use std::sync::Arc;

use afterwrite_model::effect::ItemKey;
use afterwrite_model::entity::SourceKey;
use afterwrite_model::record::Timestamp;
use afterwrite_model::table::Model;

pub(crate) use item::LedgerItem;
pub use rollup_merger::RollupMerger;
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
    /// As [`Complete`](Self::Complete), for a table that was built from exports: it lacks the rollups that had expired by then, so that
    /// later changes of them are dropped.
    Imported,
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
    /// See [`SourceKey::item_key`].
    pub(crate) fn item_key(&self, source: &SourceKey<'_>) -> Option<ItemKey> {
        source.item_key(&self.model, &self.table_names)
    }
}
