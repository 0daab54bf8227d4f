//! Counters of a batch: what was done, and what it cost.

use std::sync::atomic::{AtomicU64, Ordering};

/// A counter that concurrent tasks share.
#[derive(Debug, Default)]
pub struct SharedCounter(AtomicU64);

impl SharedCounter {
    /// Adds a number.
    pub fn add(&self, number: u64) {
        self.0.fetch_add(number, Ordering::Relaxed);
    }

    /// Adds a length.
    pub fn add_len(&self, length: usize) {
        self.add(u64::try_from(length).unwrap_or(u64::MAX));
    }

    /// The current value.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

macro_rules! tally {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        #[derive(Debug, Default)]
        pub(crate) struct CommitTally {
            $(pub(crate) $name: SharedCounter,)*
        }

        /// The counters of a batch at its end.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct CommitTotals { $($(#[$doc])* pub $name: u64,)* }

        impl CommitTally {
            pub(crate) fn totals(&self) -> CommitTotals {
                CommitTotals { $($name: self.$name.get(),)* }
            }
        }

        impl std::ops::AddAssign for CommitTotals {
            fn add_assign(&mut self, other: Self) {
                $(self.$name += other.$name;)*
            }
        }

        impl CommitTotals {
            /// Each counter's name and value, in the order of declaration.
            #[must_use]
            pub fn named(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name),)*]
            }
        }
    };
}

tally! {
    /// Records that were counted already: nothing is written for them.
    duplicates,
    /// Records without a write of their own, because a later record of the same item was written.
    folded,
    /// Committed transactions.
    transactions,
    /// Transactions and writes that conflicted with another writer, or found a changed entry.
    conflicts,
    /// Requests that were sent again after a conflict, a throttle or a lost response.
    retries,
    /// Written ledger entries.
    ledger_writes,
    /// Write capacity units of all writes, as reported by the service.
    write_units,
    /// Items reconciled with their table.
    reconciled,
    /// Refreshed copies on applications' items.
    mirrors,
    /// Copies that the application's item cannot take: a place that is not a map, or an item that is too large.
    unwritable_mirrors,
    /// Items and expiries marked as parked, because a record cannot be counted.
    parked,
    /// Counts of items that an aggregate with `on_misfit = "skip"` left out, because they do not fit it.
    skipped,
    /// Contributions to rollups that are sources and had expired: the levels above lack them.
    dropped_contributions,
    /// Ledger entries that another model of the same generation wrote.
    other_models,
    /// TTL expiries too old to be settled.
    expiries_too_old,
}
