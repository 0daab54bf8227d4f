//! Making it final: exactly once in effect.
//!
//! ```text
//! changes of one batch
//!    │ by item                                             ┌───────────── again, with what was learnt ──────────────┐
//!    ▼                                                     ▼                                                        │
//!  Work ──▶ read entries, ──▶ decide ──▶ ask lookups ──▶ plan ──▶ pack ──▶ TransactWriteItems ── refused? ──▶ why? ─┤
//!           markers           (decide)   (lookup)        (plan)   (pack)        │ committed                          │
//!                                                                               ▼                          no time left,
//!                                                                        refresh mirrors                   or poison: the
//!                                                                        (mirror)                          record fails
//! ```
//!
//! # Why every change is counted exactly once
//!
//! Let `E` be the ledger entry of an item, `E.current` what is counted of the item, and `S` what has been settled of it. The
//! claim is: **at every moment, and whatever has been delivered how often, each rollup equals the sum of `current` over all
//! entries, plus what is settled; and once every change has been delivered at least once, `E.current = C(item)`.**
//!
//! *The sum holds at every moment.* Entries and rollups change in two ways only. A [`plan`] writes, in one transaction, an entry
//! whose `current` differs by `d`, markers, and `ADD`s of exactly `d` plus what the markers settle. A transaction happens
//! as a whole or not at all; `ADD`s of different transactions commute; and the entry is replaced on condition that its `rev` is
//! the one `d` was computed from (or that there is none), so `d` is the true difference whoever else writes. An entry that
//! is written alone has `d = 0`. Reconciling an item is a plan too.
//!
//! *Nothing is counted twice.* A record at position `p` is planned only if `p > E.position`, and the write that counts it sets
//! `E.position ≥ p`, in the same transaction. A second delivery (a retry, a batch cut elsewhere, another consumer, an
//! answer that was lost although the write took effect) either reads the new entry and skips, or read the old one and
//! fails on `rev`. The position advances also where nothing is counted, so that an older record, redriven late, is
//! never taken for new. Between two lives of an entry stands its tombstone: it outlives ([`decide::TOMBSTONE_LIFE`])
//! every record that could be applied, because a record older than that meets a rule of its own: it is never applied, and its
//! item is reconciled instead.
//!
//! *Nothing is forgotten.* A record that cannot be counted is named in the batch's response, and comes again with all that
//! follow it. What is lost all the same (a dead letter) is in `C(item)` when the item next changes: that change's difference is
//! taken to `E.current`, not to the image before it.
//!
//! *Expiries.* An expiry is an event, not a state: `C(OldImage)` is settled once, however late the record arrives. Its marker,
//! put on condition that there is none in the transaction that settles, is the once. The item's own state is the
//! entry's business as ever.
//!
//! *Reconciling* ([`Ledger::reconcile`]) reads the entry first, the item after, both strongly consistent, and writes on the
//! entry's `rev`. Any change counted in between fails the condition. A change made after the item was read has a later
//! position than the entry keeps, and lands on top. A change made before it is contained in the image; should its record be
//! delivered later, its older state is counted over the newer one for a moment, until the newer record follows: order is
//! kept per item. `as_of` cuts this short for records known to be older.
//!
//! *Lookups* are part of `C`, so their answers must not change: see `commit::lookup`. *`max` and `min`* see every image of every
//! record that is counted, and only ever move one way, so seeing one twice is harmless. *Mirrors* are copies that carry
//! the rollup's `rev`, which only grows: see `commit::mirror`.

pub mod decide;
mod entry;
mod evaluate;
mod keys;
mod lookup;
mod mirror;
pub mod pack;
pub mod plan;
mod remembered;
mod requests;
mod rollup;
mod rounds;
mod tally;
mod work;

use std::sync::Arc;

pub use entry::LedgerEntry;
pub use remembered::RememberedLookups;
pub use tally::{CommitTotals, SharedCounter};
pub use work::{CommitOutcome, ItemRecord, ItemRecords, RecordFailure, SourceItem};

use self::keys::StateKeys;
use self::lookup::LookupCache;
use self::tally::CommitTally;
pub use crate::clock::{Clock, SystemClock};
use crate::record::Timestamp;
use crate::sink::Tables;
use crate::table::Model;

/// The ledger of a model's tables: commits changes to rollups, exactly once in effect.
///
/// It holds no state of an invocation, so that any number of them may run at once; only remembered lookups, which never
/// change, are kept between them.
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
    /// A ledger in the table `state_table`. `table_names` says where each of [`Model::tables`] lives.
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

    /// The model it keeps.
    #[must_use]
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// The tables it writes to.
    #[must_use]
    pub fn tables(&self) -> &T {
        &self.tables
    }

    /// The clock it goes by.
    #[must_use]
    pub fn clock(&self) -> &C {
        &self.clock
    }

    /// The model's table that lives under this name.
    #[must_use]
    pub fn table_index(&self, name: &str) -> Option<usize> {
        self.table_names.iter().position(|known| **known == *name)
    }
}

/// What one invocation carries through all stages.
#[derive(Debug)]
pub(crate) struct InvocationContext {
    /// When it must have answered.
    deadline: Timestamp,
    tally: CommitTally,
}
