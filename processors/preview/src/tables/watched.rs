//! Tables that remember which items were written, to show what a run has changed.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use afterwrite_ledger::tables::{
    ConsumedUnits, IndexPage, IndexQuery, PartialRead, ReadSnapshot, Tables, TransactError, WriteError,
};
use afterwrite_model::Error;
use afterwrite_model::effect::{ItemKey, Write};
use afterwrite_model::record::Item;

use super::difference::ItemDifference;
use super::stored_key::StoredKey;

/// Passes every request on. An item is read before its first write, and again for [`WatchedTables::differences`]. Other writers may
/// change it meanwhile; their changes are shown, too.
#[derive(Debug)]
pub struct WatchedTables<T> {
    base: T,
    before: Mutex<BTreeMap<StoredKey, (ItemKey, Option<Item>)>>,
}

impl<T: Tables> WatchedTables<T> {
    /// Watches the writes to `base`.
    pub fn new(base: T) -> Self {
        Self { base, before: Mutex::default() }
    }

    /// The items that differ from their state before their first write, in the order of their keys.
    ///
    /// # Errors
    /// As [`Tables::read`].
    pub async fn differences(&self) -> Result<Vec<ItemDifference>, Error> {
        let before: Vec<(ItemKey, Option<Item>)> = self.lock().values().cloned().collect();
        let keys: Vec<ItemKey> = before.iter().map(|(key, _)| key.clone()).collect();
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let after = self.base.read(&keys).await?.items;
        let pairs = before.into_iter().zip(after);
        let changed = pairs.filter(|((_, before), after)| before != after);
        Ok(changed.map(|((key, before), after)| ItemDifference::new(key, before, after)).collect())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<StoredKey, (ItemKey, Option<Item>)>> {
        self.before.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn remember(&self, keys: impl Iterator<Item = &ItemKey> + Send) -> Result<(), Error> {
        let unknown: Vec<ItemKey> = {
            let before = self.lock();
            keys.filter(|key| !before.contains_key(&StoredKey::of(key))).cloned().collect()
        };
        if unknown.is_empty() {
            return Ok(());
        }
        let items = self.base.read(&unknown).await?.items;
        let mut before = self.lock();
        for (key, item) in unknown.into_iter().zip(items) {
            before.entry(StoredKey::of(&key)).or_insert((key, item));
        }
        Ok(())
    }
}

impl<T: Tables> Tables for WatchedTables<T> {
    async fn read(&self, keys: &[ItemKey]) -> Result<ReadSnapshot, Error> {
        self.base.read(keys).await
    }

    async fn read_looked_up(&self, keys: &[ItemKey]) -> Result<PartialRead, Error> {
        self.base.read_looked_up(keys).await
    }

    async fn write(&self, write: &Write) -> Result<ConsumedUnits, WriteError> {
        self.remember(std::iter::once(&write.key)).await.map_err(WriteError::Failed)?;
        self.base.write(write).await
    }

    async fn transact(&self, writes: &[Write]) -> Result<ConsumedUnits, TransactError> {
        let keys: Vec<&ItemKey> = writes.iter().map(|write| &write.key).collect();
        self.remember(keys.into_iter()).await.map_err(TransactError::Failed)?;
        self.base.transact(writes).await
    }

    async fn query_index(&self, query: &IndexQuery) -> Result<IndexPage, Error> {
        self.base.query_index(query).await
    }
}
