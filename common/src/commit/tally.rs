//! What a batch cost and did, counted while it is done.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that only grows; shared by what runs at once.
#[derive(Debug, Default)]
pub struct SharedCounter(AtomicU64);

impl SharedCounter {
    /// Adds to it.
    pub fn add(&self, number: u64) {
        self.0.fetch_add(number, Ordering::Relaxed);
    }

    /// Adds the length of something.
    pub fn add_len(&self, length: usize) {
        self.add(u64::try_from(length).unwrap_or(u64::MAX));
    }

    /// What it has come to.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

macro_rules! tally {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        #[derive(Debug, Default)]
        pub(super) struct CommitTally { $(pub(super) $name: SharedCounter,)* }

        /// What a batch cost and did.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct CommitTotals { $($(#[$doc])* pub $name: u64,)* }

        impl CommitTally {
            pub(super) fn totals(&self) -> CommitTotals {
                CommitTotals { $($name: self.$name.get(),)* }
            }
        }

        impl std::ops::AddAssign for CommitTotals {
            fn add_assign(&mut self, other: Self) {
                $(self.$name += other.$name;)*
            }
        }

        impl CommitTotals {
            /// Each number with its name, in the order of declaration.
            #[must_use]
            pub fn named(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name),)*]
            }
        }
    };
}

tally! {
    /// Records that were counted already and were skipped.
    duplicates,
    /// Records that needed no write of their own, because a later one of their item was written.
    folded,
    /// Transactions that were committed.
    transactions,
    /// Transactions and writes that met another writer, or an entry that had changed.
    conflicts,
    /// Requests that were sent again: after a conflict, a throttle or a lost answer.
    retries,
    /// Ledger entries that were written.
    ledger_writes,
    /// Write capacity units of all writes, as far as the service tells.
    write_units,
    /// Items that were reconciled with their table.
    reconciled,
    /// Copies on applications' items that were refreshed.
    mirrors,
    /// TTL expiries that were too old to be settled.
    expiries_too_old,
}
