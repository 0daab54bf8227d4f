//! Copies the remembered lookups of one state table into another.

use std::sync::Arc;

use afterwrite_ledger::state::{LOOKUP_TYPE, PARTITION_KEY, SORT_KEY, is_of_type, key_in, key_texts};
use afterwrite_ledger::tables::{ScanRequest, TableScan, Tables, WriteError};
use afterwrite_model::effect::{Write, WriteAction, WriteCondition, WriteRefusal};
use afterwrite_model::record::Item;
use afterwrite_model::{Error, ErrorKind, Result};
use futures::stream::{StreamExt as _, iter};

/// Writes at once.
const CONCURRENCY: usize = 8;

/// A copy of remembered lookups. Outputs that the target remembers already stay.
#[derive(Debug)]
pub struct LookupCopy<T> {
    /// Reads and writes both tables.
    pub tables: T,
    /// The state table that is copied from.
    pub from: Arc<str>,
    /// The state table that is copied into.
    pub into: Arc<str>,
}

impl<T: Tables + TableScan> LookupCopy<T> {
    /// Copies one page; `after` is the key after which it begins. Returns the number of copied lookups, and the key after which the next
    /// page begins.
    ///
    /// # Errors
    /// As [`TableScan::scan`] and [`Tables::write`].
    pub async fn copy_page(&self, after: Option<Item>) -> Result<(u64, Option<Item>)> {
        let request = ScanRequest { start_after: after, ..ScanRequest::whole(Arc::clone(&self.from)) };
        let page = self.tables.scan(&request).await?;
        let lookups = page.items.into_iter().filter(is_lookup);
        let copies = iter(lookups).map(|item| self.copy(item)).buffer_unordered(CONCURRENCY);
        let copied: Vec<Result<bool>> = copies.collect().await;
        let mut count = 0;
        for copied in copied {
            count += u64::from(copied?);
        }
        Ok((count, page.next))
    }

    async fn copy(&self, item: Item) -> Result<bool> {
        let Some(key) = key_in(&self.into, &item) else { return Ok(false) };
        let write = Write { key, condition: WriteCondition::ItemAbsent, action: WriteAction::Put(item) };
        match self.tables.write(&write).await {
            Ok(_) => Ok(true),
            Err(WriteError::Refused(WriteRefusal::Condition(_))) => Ok(false),
            Err(WriteError::Refused(WriteRefusal::Conflict | WriteRefusal::Throttled)) => {
                Err(Error::new(ErrorKind::Unavailable, "copying a remembered lookup was throttled"))
            }
            Err(WriteError::Refused(WriteRefusal::Invalid(reason))) => {
                Err(Error::new(ErrorKind::Rejected, "a remembered lookup cannot be copied")
                    .with("reason", reason))
            }
            Err(WriteError::Failed(error)) => Err(error),
        }
    }
}

fn is_lookup(item: &Item) -> bool {
    is_of_type(item, LOOKUP_TYPE)
}

/// A key of the state table as a cursor.
pub(super) fn key_cursor(key: &Item) -> Option<String> {
    serde_json::to_string(&key_texts(key)?).ok()
}

/// The key of a cursor.
pub(super) fn cursor_key(cursor: &str) -> Option<Item> {
    let (partition, sort): (String, String) = serde_json::from_str(cursor).ok()?;
    let key = [(PARTITION_KEY, partition), (SORT_KEY, sort)];
    Some(key.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
}
