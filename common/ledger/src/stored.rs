//! The items of the state table, for operations that read them: ledger entries, rollups, everything else.

use std::sync::Arc;

use afterwrite_model::effect::{ItemKey, Write};
use afterwrite_model::entity::SourceKey;
use afterwrite_model::projection::{ItemContributions, RollupTarget, RollupTargets};
use afterwrite_model::record::{Item, Position, Timestamp};
use afterwrite_model::table::Model;
use afterwrite_model::{Error, ErrorKind, Result};

use super::policy::{CLOCK_TOLERANCE, TOMBSTONE_LIFETIME};
use super::state::entry::{LedgerEntry, accepted_lives};
use super::state::life::UnrecordedLife;
use super::state::marker::MarkerState;
use super::state::rollup::rollup_key;
use super::state::{PARTITION_KEY, ROLLUP_TYPE, SORT_KEY, StateKeys, is_of_type, key_texts};

/// A ledger entry as it is stored.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredEntry {
    /// The revision, which grows with every write of the entry.
    pub rev: u64,
    /// The generation of the model that counted the item.
    pub generation: u64,
    /// The fingerprint of that model; empty if unknown.
    pub fingerprint: Arc<str>,
    /// Why the item is parked, if it is: the name of the error's kind.
    pub parked: Option<String>,
    /// Whether it is a tombstone: the item is deleted.
    pub is_tombstone: bool,
    /// When DynamoDB may delete the tombstone, if it is one.
    pub expires_at: Option<Timestamp>,
    /// The server's time of the last reconciliation, if there was one.
    pub as_of: Option<Timestamp>,
    /// The position of the newest change that is counted.
    pub position: Position<'static>,
    /// The changes of the item's life that no counted record shows.
    pub unrecorded: Vec<UnrecordedLife>,
    /// Whether the item is of a table that the model does not have.
    pub is_of_unknown_table: bool,
    /// The contributions that are counted.
    pub contributions: ItemContributions,
}

/// An item of the state table.
#[derive(Clone, Debug, PartialEq)]
pub enum StateItem<'i> {
    /// The entry of a source item; without its key if the entry's key is hashed, or of no table of the model.
    Entry(Option<SourceKey<'static>>, &'i Item),
    /// A rollup: its `PK` and `SK`.
    Rollup(&'i str, &'i str),
    /// A marker of an expiry that is parked: it is not settled.
    ParkedExpiry,
    /// A marker of a settled expiry, a remembered lookup, a job, …
    Other,
}

/// Reads the items of a state table.
#[derive(Clone, Debug)]
pub struct StateItems {
    model: Arc<Model>,
    table_names: Vec<Arc<str>>,
    keys: StateKeys,
}

impl StateItems {
    /// How long the tombstone of a deleted item is kept.
    pub const TOMBSTONE_LIFETIME: std::time::Duration = TOMBSTONE_LIFETIME;
    /// The largest difference between two clocks that is tolerated.
    pub const CLOCK_TOLERANCE: std::time::Duration = CLOCK_TOLERANCE;

    /// The items of `state_table`, by this model, whose tables are deployed under `table_names`.
    #[must_use]
    pub fn new(model: Arc<Model>, table_names: Vec<Arc<str>>, state_table: Arc<str>) -> Self {
        Self { model, table_names, keys: StateKeys::new(state_table) }
    }

    /// Recognizes an item of the state table.
    #[must_use]
    pub fn classify<'i>(&self, item: &'i Item) -> StateItem<'i> {
        let Some((partition, sort)) = key_texts(item) else { return StateItem::Other };
        if LedgerEntry::is_entry(item) {
            StateItem::Entry(LedgerEntry::source(&self.model, partition, sort), item)
        } else if is_of_type(item, ROLLUP_TYPE) {
            StateItem::Rollup(partition, sort)
        } else if MarkerState::is_parked(item) {
            StateItem::ParkedExpiry
        } else {
            StateItem::Other
        }
    }

    /// Refuses an entry that a newer model has written: this model does not know what it counts.
    ///
    /// # Errors
    /// [`Configuration`](ErrorKind::Configuration), with the generation of the entry.
    pub fn check_generation(&self, entry: &Item) -> Result<()> {
        LedgerEntry::stored_generation(entry).map_or(Ok(()), |generation| self.check_is_known(generation))
    }

    /// Refuses a ledger that a model of this generation has written, if the generation is newer than this model's.
    ///
    /// # Errors
    /// As [`Self::check_generation`].
    pub fn check_is_known(&self, generation: u64) -> Result<()> {
        if generation <= self.model.generation {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Configuration, "the ledger was written by a newer table model")
            .with("the ledger's generation", generation.to_string())
            .with("this model's generation", self.model.generation.to_string())
            .with("model", &*self.model.name)
            .hint("Use the model that the functions have: pass --model, or set AFTERWRITE_MODEL"))
    }

    /// Decodes an entry.
    ///
    /// # Errors
    /// [`Unreadable`](ErrorKind::Unreadable) if the item is not a readable ledger entry; as [`Self::check_generation`].
    pub fn decode_entry(&self, item: &Item, targets: &mut RollupTargets) -> Result<StoredEntry> {
        self.check_generation(item)?;
        let (partition, sort) = key_texts(item).unwrap_or_default();
        let entry = LedgerEntry::decode(item, targets)
            .map_err(|error| error.with(PARTITION_KEY, partition).with(SORT_KEY, sort))?;
        Ok(StoredEntry {
            rev: entry.rev,
            generation: entry.generation,
            fingerprint: entry.fingerprint,
            parked: entry.behind.map(|behind| behind.reason.into_owned()),
            is_tombstone: entry.expires_at.is_some(),
            expires_at: entry.expires_at,
            as_of: entry.as_of,
            position: entry.position,
            unrecorded: entry.unrecorded,
            is_of_unknown_table: LedgerEntry::is_of_unknown_table(&self.model, partition),
            contributions: entry.current,
        })
    }

    /// The key of the entry of a source item.
    ///
    /// # Errors
    /// [`State`](afterwrite_model::ErrorKind::State) if the model has no such table.
    pub fn entry_key(&self, source: &SourceKey<'_>) -> Result<ItemKey> {
        LedgerEntry::key(&self.keys, &self.model, source)
    }

    /// The write after which an entry, as it was read, does not name the unrecorded changes of its item's life any more.
    #[must_use]
    pub fn accept_lives(&self, key: ItemKey, entry: &StoredEntry) -> Write {
        let (condition, action) = accepted_lives(entry.rev);
        Write { key, condition, action }
    }

    /// The key of a source item in its table; `None` if the texts do not match the table's key schema.
    #[must_use]
    pub fn source_item_key(&self, source: &SourceKey<'_>) -> Option<ItemKey> {
        source.item_key(&self.model, &self.table_names)
    }

    /// The key of a rollup; `None` if DynamoDB does not allow it.
    #[must_use]
    pub fn rollup_key(&self, target: &RollupTarget) -> Option<ItemKey> {
        rollup_key(&self.keys, target)
    }

    /// The key of an item of the state table.
    #[must_use]
    pub fn key(&self, partition: &str, sort: &str) -> ItemKey {
        self.keys.item(partition, sort)
    }

    /// Whether an export of this time is recent enough for [`Ledger::reconcile_exported`](super::Ledger::reconcile_exported).
    #[must_use]
    pub fn accepts_export(exported_at: Timestamp, now: Timestamp) -> bool {
        exported_at >= now.minus(TOMBSTONE_LIFETIME).plus(CLOCK_TOLERANCE)
    }
}
