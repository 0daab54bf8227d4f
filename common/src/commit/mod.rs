//! The ledger: commits changes to rollups, exactly once in effect.
//!
//! In: the records of a batch, grouped by source item ([`SourceItem`]). Out: committed transactions, and the records
//! that could not be counted ([`CommitOutcome`]).
//!
//! ```text
//!               ┌───────────────────── next round, with what was learned ◀────────────────────┐
//!               ▼                                                                             │
//! items ─▶ read entries ─▶ decide ─▶ look up ─▶ plan ─▶ pack ─▶ TransactWriteItems ─ cancelled ─▶ deadline reached, or
//! item_state   driver      decide    lookup    evaluate  pack       │   transact               the item is invalid:
//!                                              plan                 │ committed                the record fails
//!                                                                   ▼
//!                                                            refresh mirrors   mirror
//! ```
//!
//! # Why every change is counted exactly once
//!
//! Let `E` be the ledger entry of an item, `E.current` the contributions of the item that are counted now, and `S` the
//! settled contributions. The ledger guarantees: **at every moment, regardless of how often records are delivered, each
//! rollup equals the sum of `current` over all entries plus `S`; and once every change has been delivered at least
//! once, `E.current = C(item)`.**
//!
//! **The sum holds at every moment.** Entries and rollups change only through a [`plan`]. A plan writes, in one
//! transaction, an entry whose `current` differs by `d`, expiry markers, and `ADD`s of exactly `d` plus the
//! contributions that the markers settle. A transaction takes effect completely or not at all, and `ADD`s of different
//! transactions commute. The entry is replaced on the condition that its `rev` is the one that `d` was computed from
//! (or that no entry exists), so `d` is the true difference even with concurrent writers. An entry that is written
//! without a transaction has `d = 0`. Reconciling an item is a plan too.
//!
//! **Nothing is counted twice.** A record at position `p` is planned only if `p > E.position`, and the write that
//! counts it sets `E.position ≥ p` in the same transaction. A second delivery (a retry, a batch cut at another record,
//! another consumer, a response that was lost although the write took effect) either reads the new entry and skips the
//! record, or has read the old entry and fails the condition on `rev`. The position also advances when the
//! contributions do not change, so that an older record that is redriven later is not taken for a new one. After an
//! item is deleted, its entry remains as a tombstone. The tombstone outlives ([`decide::TOMBSTONE_LIFETIME`]) every
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
//! **Lookups** are part of `C`, so their outputs must not change: see `commit::lookup`. **`max` and `min`** see every
//! image of every counted record and only move in one direction, so that seeing an image twice changes nothing.
//! **Mirrors** are copies that carry the rollup's `rev`, which only grows: see `commit::mirror`.

mod batch;
pub mod decide;
mod driver;
mod entry;
mod evaluate;
mod item_state;
mod keys;
mod lookup;
mod mirror;
pub mod pack;
pub mod plan;
mod requests;
mod rollup;
mod tally;
mod transact;

use std::sync::Arc;

pub use entry::LedgerEntry;
pub use item_state::{CommitOutcome, ItemRecord, ItemRecords, RecordFailure, SourceItem};
pub use lookup::RememberedLookups;
pub use tally::{CommitTotals, SharedCounter};

use self::keys::StateKeys;
use self::lookup::LookupCache;
use self::tally::CommitTally;
pub use crate::clock::{Clock, SystemClock};
use crate::record::Timestamp;
use crate::sink::Tables;
use crate::table::Model;

/// The ledger of a model's tables: commits changes to rollups, exactly once in effect.
///
/// It keeps no state of an invocation, so any number of invocations can run concurrently. Only remembered lookups,
/// which never change, are cached between invocations.
#[derive(Debug)]
pub struct Ledger<T, C> {
    model: Arc<Model>,
    table_names: Vec<Arc<str>>,
    tables: T,
    clock: C,
    keys: StateKeys,
    lookups: LookupCache,
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
        Self { model, table_names, tables, clock, keys, lookups: LookupCache::default() }
    }

    /// The table model.
    #[must_use]
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// The sink that it reads from and writes to.
    #[must_use]
    pub fn tables(&self) -> &T {
        &self.tables
    }

    /// The source of time and randomness.
    #[must_use]
    pub fn clock(&self) -> &C {
        &self.clock
    }

    /// The index of the model's table that is deployed under this name.
    #[must_use]
    pub fn table_index(&self, name: &str) -> Option<usize> {
        self.table_names.iter().position(|known| **known == *name)
    }
}

/// The deadline and the counters of one invocation.
#[derive(Debug)]
pub(crate) struct InvocationContext {
    /// No request is started after this time.
    deadline: Timestamp,
    tally: CommitTally,
}
