//! The journal of a job: knowledge that is larger than a cursor and outlives the process that runs the job.
//!
//! It is a list of JSON values in items of their own, in the order in which they were added. A
//! step adds what it found before its cursor is saved, so after a kill the journal has everything that the saved cursors stand for, and some
//! values twice. The items expire 90 days later.

use afterwrite_ledger::state::journal;
use afterwrite_ledger::tables::Tables;
use afterwrite_model::Result;
use afterwrite_model::clock::Clock;
use afterwrite_model::effect::ItemKey;
use futures::lock::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::store::JobStore;
use super::totals::count;

/// The items that are read at once.
const ITEMS_AT_ONCE: u64 = 25;

/// The journal of one job.
#[derive(Debug)]
pub struct JobJournal<T, C> {
    store: JobStore<T, C>,
    id: String,
    /// The number of the next item. Items are written one after the other, so that no number is left out.
    next: Mutex<u64>,
}

impl<T: Tables, C: Clock> JobJournal<T, C> {
    /// The journal of the job with this id, which has no entries yet. [`JobJournal::read`] finds those that it has.
    pub fn new(store: JobStore<T, C>, id: &str) -> Self {
        Self { store, id: id.to_owned(), next: Mutex::default() }
    }

    fn key(&self, number: u64) -> ItemKey {
        journal::key(self.store.state_table(), &self.id, number)
    }

    /// Adds a value of at most 300 KB of JSON.
    ///
    /// # Errors
    /// As [`Tables::write`].
    pub async fn append(&self, value: &impl Serialize) -> Result<()> {
        let mut next = self.next.lock().await;
        let write = journal::write(self.key(*next), value, self.store.clock().now())?;
        self.store.write(write).await?;
        *next += 1;
        Ok(())
    }

    /// Reads all values. Later ones are added after them.
    ///
    /// # Errors
    /// As [`Tables::read`]; [`State`](afterwrite_model::ErrorKind::State) for a value of another type.
    pub async fn read<V: DeserializeOwned>(&self) -> Result<Vec<V>> {
        let mut next = self.next.lock().await;
        let mut values = Vec::new();
        for first in (0..).step_by(usize::try_from(ITEMS_AT_ONCE).unwrap_or(1)) {
            let keys: Vec<_> = (first..first + ITEMS_AT_ONCE).map(|number| self.key(number)).collect();
            let items = self.store.read(&keys).await?;
            let known: Vec<_> = items.into_iter().map_while(|item| item).collect();
            for item in &known {
                values.push(journal::decode(item).map_err(|error| error.with("job", self.id.as_str()))?);
            }
            if u64::try_from(known.len()).unwrap_or(0) < ITEMS_AT_ONCE {
                break;
            }
        }
        *next = count(values.len());
        Ok(values)
    }
}
