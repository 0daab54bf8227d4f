//! The ledger: commits changes to rollups, exactly once in effect.
//!
//! In: the records of a batch, grouped by source item ([`SourceItem`]). Out: committed transactions, and the records
//! that could not be counted ([`CommitOutcome`]).
//!
//! ```text
//!               ┌─────────────────── next round, with what was learned ◀──────────────────┐
//!               ▼                                                                         │
//! items ─▶ read entries ─▶ decide ─▶ look up ─▶ plan ─▶ pack ─▶ TransactWriteItems ─ refused ─▶ deadline reached:
//! core::item    read    core::decide  lookup  core::plan  core::pack  │ write, refusals         the record fails
//!                                                                     │ committed
//!                                                                     ▼
//!                                                              refresh mirrors   mirror
//! ```
//!
//! The `core` decides and is pure. The stages around it send requests, and give each item what was read, written or
//! refused. The driver only visits the stages; `policy` has the rules of time, order and sharing; `state` has the stored
//! items, and `core::states` the states of an item in a batch.
//!
//! # Why every change is counted exactly once
//!
//! Let `E` be the ledger entry of an item, `E.current` the contributions of the item that are counted now, and `S` the
//! settled contributions: the contributions of items that TTL deleted and that stay counted (`on_expiry = "keep"`). No entry
//! has them. The ledger guarantees: **at every moment, regardless of how often records are delivered, each rollup equals
//! the sum of `current` over all entries plus `S`; and once every change has been delivered at least once,
//! `E.current = C(item)`.**
//!
//! **The sum holds at every moment.** Entries and rollups change only through a plan
//! (`core::plan`). A plan writes, in one
//! transaction, an entry whose `current` differs by `d`, expiry markers, and `ADD`s of exactly `d` plus the
//! contributions that the markers settle. A transaction takes effect completely or not at all, and `ADD`s of different
//! transactions commute. The entry is replaced on the condition that its `rev` is the one that `d` was computed from
//! (or that no entry exists), so `d` is the true difference even with concurrent writers. A tombstone that TTL deletes while a
//! write is in flight differs from its successor, whose `rev` begins again, by its expiry. An entry that is written
//! without a transaction has `d = 0`. Reconciling an item is a plan too.
//!
//! **Nothing is counted twice.** A record at position `p` is planned only if `p > E.position`, and the write that
//! counts it sets `E.position ≥ p` in the same transaction. A second delivery (a retry, a batch cut at another record,
//! another consumer, a response that was lost although the write took effect) either reads the new entry and skips the
//! record, or has read the old entry and fails the condition on `rev`. The position also advances when the
//! contributions do not change, so that an older record that is redriven later is not taken for a new one. After an
//! item is deleted, its entry remains as a tombstone. The tombstone outlives (35 days) every
//! record that could still be applied: an older record is never applied; its item is reconciled instead.
//!
//! **Nothing is lost.** A record that cannot be counted is reported in the batch's response, and Lambda redelivers it
//! with all records that follow it. A change that is lost nevertheless (a dead letter) is part of `C(item)` when the
//! item next changes: that difference is computed from `E.current`, not from the previous image.
//!
//! **Expiries.** A TTL expiry is an event, not a state: `C(OldImage)` is settled once, however late the record arrives.
//! A marker, written with `attribute_not_exists` in the transaction that settles, makes this happen once. The item's
//! state is counted by its entry, as for every other record.
//!
//! **Reconciling** ([`Ledger::reconcile`]) reads the entry first and the item second, both strongly consistent, and
//! writes on the entry's `rev`. A change that is counted in between fails the condition. A change made after the item
//! was read has a later position than the entry keeps, and is applied on top. A change made before the read is
//! contained in the image. If its record is delivered later, its older state is counted over the newer one until the
//! newer record follows: order is kept per item. `as_of` skips records that are known to be older than the
//! reconciliation.
//!
//! **Parking.** A record that can never be counted as it is (malformed, misfit, rejected by DynamoDB, or its entry cannot
//! be read) is
//! acknowledged once the ledger marks it as missing: `behind`, in the item's entry, has its position and the kind of
//! the error. The entry's own position does not advance, so that the record can be delivered again, and the item's next
//! change, or a reconciliation, counts the item as it is by then. A reconciliation advances the position to the mark: the
//! image that it read contains the marked change. An expiry is parked in its marker. An unreadable entry is never
//! replaced: only it and the rollups have what is counted of its item.
//!
//! **Lookups** are part of `C`, so counting never changes their outputs: see `lookup`. **`max` and `min`** see every
//! image of every counted record and only move in one direction, so that seeing an image twice changes nothing.
//! **Mirrors** are copies that carry the rollup's `rev`, which only grows: see `mirror`.

mod batch;
mod core;
mod driver;
mod dyn_tables;
mod lookup;
mod mirror;
mod policy;
mod read;
mod refusals;
mod remembered;
mod requests;
mod search;
pub mod state;
mod stored;
pub mod tables;
mod tally;
mod write;

use std::sync::Arc;

use afterwrite_model::clock::Clock;
use afterwrite_model::projection::{LookupKey, LookupOutputs};
use afterwrite_model::record::{RecordFailure, Timestamp};
use afterwrite_model::table::Model;
use afterwrite_model::{Error, Result};
use futures::future::LocalBoxFuture;

pub use self::core::decide::{ItemRecord, ItemRecords, SourceItem};
pub use self::core::{DroppedAggregates, ExportedImage, PoisonPolicy, RollupMerger, TombstoneHistory};
pub use self::remembered::RememberedLookups;
pub use self::search::LookupSearch;
pub use self::state::life::{LifeChange, UnrecordedLife};
pub use self::state::lookup::RememberedLookup;
pub use self::stored::{StateItem, StateItems, StoredEntry};
pub use self::tally::{CommitTotals, SharedCounter};

use self::core::{LedgerCore, LedgerItem};
use self::driver::{look_up, run};
use self::lookup::LookupCache;
use self::state::StateKeys;
use crate::tables::Tables;

/// The ledger of a model's tables: commits changes to rollups, exactly once in effect.
///
/// It keeps no state of an invocation, so any number of invocations can run concurrently. Only remembered lookups are cached between
/// invocations: counting never changes them.
#[derive(Debug)]
pub struct Ledger<T, C> {
    core: LedgerCore,
    tables: T,
    clock: C,
    lookups: LookupCache,
}

/// The result of a batch.
#[derive(Debug, Default)]
pub struct CommitOutcome {
    /// The records that were not counted; an item that failed as a whole is reported by its first record.
    pub failures: Vec<RecordFailure>,
    /// The records that can never be counted as they are. The ledger marks their items as parked.
    pub parked: Vec<RecordFailure>,
    /// Why copies could not be written. The measures that they show are counted; the item's next change tries again.
    pub unwritable_mirrors: Vec<Error>,
    /// The counters of the batch.
    pub totals: CommitTotals,
}

impl<T: Tables, C: Clock> Ledger<T, C> {
    /// A ledger in the table `state_table`. `table_names` has the deployed name of each of [`Model::tables`].
    pub fn new(
        model: Arc<Model>,
        table_names: Vec<Arc<str>>,
        state_table: Arc<str>,
        tables: T,
        clock: C,
    ) -> Self {
        let keys = StateKeys::new(state_table);
        let poison = PoisonPolicy::default();
        let (history, dropped) = (TombstoneHistory::default(), DroppedAggregates::default());
        let core = LedgerCore { model, table_names, keys, poison, names_keys: false, history, dropped };
        Self { core, tables, clock, lookups: LookupCache::default() }
    }

    /// Sets what happens to records that cannot be counted.
    #[must_use]
    pub fn on_poison(mut self, policy: PoisonPolicy) -> Self {
        self.core.poison = policy;
        self
    }

    /// Sets whether the state table may have lost tombstones.
    #[must_use]
    pub fn with_history(mut self, history: TombstoneHistory) -> Self {
        self.core.history = history;
        self
    }

    /// Sets whether errors name the keys of items. Keys are contents of items: the operator decides whether logs may
    /// have them.
    #[must_use]
    pub fn naming_keys(mut self, names_keys: bool) -> Self {
        self.core.names_keys = names_keys;
        self
    }

    /// Sets what counting an item does with its contributions to aggregates that the model no longer has.
    #[must_use]
    pub fn dropping(mut self, dropped: DroppedAggregates) -> Self {
        self.core.dropped = dropped;
        self
    }

    /// The table model.
    #[must_use]
    pub fn model(&self) -> &Arc<Model> {
        &self.core.model
    }

    /// The tables that it reads and writes.
    #[must_use]
    pub fn tables(&self) -> &T {
        &self.tables
    }

    /// The source of time and randomness.
    #[must_use]
    pub fn clock(&self) -> &C {
        &self.clock
    }

    /// The deployed names of the model's tables, in their order.
    #[must_use]
    pub fn table_names(&self) -> &[Arc<str>] {
        &self.core.table_names
    }

    /// Counts the records of these items. Every item that can be committed is committed before `deadline`.
    ///
    /// # Errors
    /// [`Configuration`](afterwrite_model::ErrorKind::Configuration) only: the state table does not exist, has other keys, or
    /// access is denied. Errors of single records are in the outcome.
    pub async fn commit(&self, items: Vec<SourceItem<'_>>, deadline: Timestamp) -> Result<CommitOutcome> {
        self.run(items.into_iter().map(LedgerItem::new).collect(), deadline).await
    }

    /// Counts these items as they are in their tables now, regardless of what the ledger has counted. Apart from
    /// records, this is the only way to change the ledger. The items' records, if any, are counted as well. An item
    /// without an entry gets one at the beginning of the stream with the label `stream`, which must be the table's
    /// current stream.
    ///
    /// # Errors
    /// As [`Ledger::commit`].
    pub async fn reconcile<'r>(
        &self,
        items: Vec<SourceItem<'r>>,
        stream: &'r str,
        deadline: Timestamp,
    ) -> Result<CommitOutcome> {
        let items = items.into_iter().map(|item| LedgerItem::reconciling(item, stream)).collect();
        self.run(items, deadline).await
    }

    /// As [`Ledger::reconcile`], but an item without an entry is counted as a table export has it, without reading it. The mapping
    /// must have been active since before the export, and the export must be younger than tombstones live (35 days): then a
    /// change after the export has a record that is counted on top, and a deletion left a tombstone, which is an entry.
    ///
    /// # Errors
    /// As [`Ledger::commit`].
    pub async fn reconcile_exported<'r>(
        &self,
        items: Vec<(SourceItem<'r>, ExportedImage)>,
        stream: &'r str,
        deadline: Timestamp,
    ) -> Result<CommitOutcome> {
        let items = items.into_iter().map(|(item, exported)| LedgerItem::exported(item, stream, exported));
        self.run(items.collect(), deadline).await
    }

    /// The outputs of lookups: remembered ones, else those of the index, which are remembered from then on. `None` if the index has no
    /// such item.
    ///
    /// # Errors
    /// As [`Tables::read`]; the error of a lookup that failed.
    pub async fn look_up(
        &self,
        keys: &[LookupKey<'static>],
        deadline: Timestamp,
    ) -> Result<Vec<Option<Arc<LookupOutputs>>>> {
        let Self { core, tables, clock, lookups: cache } = self;
        look_up(core, cache, (tables, clock), keys, deadline).await
    }

    fn run<'l, 'r: 'l>(
        &'l self,
        items: Vec<LedgerItem<'r>>,
        deadline: Timestamp,
    ) -> LocalBoxFuture<'l, Result<CommitOutcome>> {
        let Self { core, tables, clock, lookups: cache } = self;
        run(core, cache, (tables, clock), items, deadline)
    }
}
