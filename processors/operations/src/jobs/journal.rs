//! The journal of a job: knowledge that is larger than a cursor and outlives the process that runs the job.
//!
//! It is a list of JSON values in items of their own, `PK` = `AFTERWRITE#JOURNAL#<id>#<number>`, in the order in which they were added. A
//! step adds what it found before its cursor is saved, so after a kill the journal has everything that the saved cursors stand for, and some
//! values twice. The items expire 90 days later.

use std::time::Duration;

use afterwrite_ledger::OperationItem;
use afterwrite_ledger::tables::Tables;
use afterwrite_model::clock::Clock;
use afterwrite_model::effect::{Write, WriteAction, WriteCondition};
use afterwrite_model::record::{AttributeValue, Decimal};
use afterwrite_model::{Error, ErrorKind, Result};
use futures::lock::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::store::JobStore;
use super::totals::count;

/// How long a journal is kept.
const LIFETIME: Duration = Duration::from_secs(90 * 24 * 60 * 60);
/// The items that are read at once.
const ITEMS_AT_ONCE: u64 = 25;
const VALUE: &str = "value";
const EXPIRES_AT: &str = "expires_at";

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

    fn key(&self, number: u64) -> afterwrite_model::effect::ItemKey {
        OperationItem::Journal.key(self.store.state_table(), &format!("{}#{number:06}", self.id))
    }

    /// Adds a value of at most 300 KB of JSON.
    ///
    /// # Errors
    /// As [`Tables::write`].
    pub async fn append(&self, value: &impl Serialize) -> Result<()> {
        let text = serde_json::to_string(value).map_err(|error| {
            Error::new(ErrorKind::State, "a value of a job cannot be stored").caused_by(error)
        })?;
        let mut next = self.next.lock().await;
        let mut item = OperationItem::Journal.empty_item();
        item.insert(VALUE.into(), AttributeValue::text(text));
        let expires_at = self.store.clock().now().plus(LIFETIME).epoch_seconds();
        item.insert(EXPIRES_AT.into(), AttributeValue::N(Decimal::from(expires_at)));
        let write =
            Write { key: self.key(*next), condition: WriteCondition::Always, action: WriteAction::Put(item) };
        self.store.write(write).await?;
        *next += 1;
        Ok(())
    }

    /// Reads all values. Later ones are added after them.
    ///
    /// # Errors
    /// As [`Tables::read`]; [`ErrorKind::State`] for a value of another type.
    pub async fn read<V: DeserializeOwned>(&self) -> Result<Vec<V>> {
        let mut next = self.next.lock().await;
        let mut values = Vec::new();
        for first in (0..).step_by(usize::try_from(ITEMS_AT_ONCE).unwrap_or(1)) {
            let keys: Vec<_> = (first..first + ITEMS_AT_ONCE).map(|number| self.key(number)).collect();
            let items = self.store.read(&keys).await?;
            let known: Vec<_> = items.into_iter().map_while(|item| item).collect();
            for item in &known {
                let text = item.get(VALUE).and_then(AttributeValue::as_text).unwrap_or_default();
                values.push(serde_json::from_str(text).map_err(|error| {
                    Error::new(ErrorKind::State, "a value of a job cannot be read")
                        .with("job", self.id.as_str())
                        .hint("Start a new job with the same arguments")
                        .caused_by(error)
                })?);
            }
            if u64::try_from(known.len()).unwrap_or(0) < ITEMS_AT_ONCE {
                break;
            }
        }
        *next = count(values.len());
        Ok(values)
    }
}
