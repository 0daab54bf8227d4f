//! Tables whose writes stay in memory, over tables that are only read.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use afterwrite::Error;
use afterwrite::effect::update::{check_paths, normalized, updated, values};
use afterwrite::effect::{ItemKey, Write, WriteAction, WriteRefusal, condition};
use afterwrite::record::Item;
use afterwrite::sink::{
    ConsumedUnits, IndexPage, IndexQuery, ReadSnapshot, Tables, TransactError, WriteError,
};
use futures::lock::Mutex;

use super::difference::ItemDifference;
use super::stored_key::StoredKey;

/// Reads the tables beneath and keeps every write in memory: a dry run.
///
/// A write has the effect that DynamoDB would give it, but for the limits on sizes. Memory grows with the number of written items, so
/// a run that changes nothing takes none. An index shows what the tables beneath show: it lags, as an index may.
#[derive(Debug)]
pub struct OverlayTables<T> {
    base: T,
    /// Held while a write is evaluated: writes take effect one after the other.
    written: Mutex<BTreeMap<StoredKey, WrittenItem>>,
}

/// An item that was written: the item beneath, and the item now.
#[derive(Debug)]
struct WrittenItem {
    key: ItemKey,
    before: Option<Item>,
    after: Option<Item>,
}

/// The effect of a write: the item after it, or why it was refused.
type WriteEffect = Result<Option<Item>, WriteRefusal>;

impl<T: Tables> OverlayTables<T> {
    /// Writes over `base` stay in memory.
    pub fn new(base: T) -> Self {
        Self { base, written: Mutex::default() }
    }

    /// The items that differ from the tables beneath, in the order of their keys.
    pub async fn differences(&self) -> Vec<ItemDifference> {
        let written = self.written.lock().await;
        let changed = written.values().filter(|item| item.before != item.after);
        let difference = |item: &WrittenItem| {
            ItemDifference::new(item.key.clone(), item.before.clone(), item.after.clone())
        };
        changed.map(difference).collect()
    }

    /// Adds the items with these keys to `written`, as they are beneath.
    async fn load(
        &self,
        keys: impl Iterator<Item = &ItemKey>,
        written: &mut BTreeMap<StoredKey, WrittenItem>,
    ) -> Result<(), Error> {
        let missing: Vec<ItemKey> =
            keys.filter(|key| !written.contains_key(&StoredKey::of(key))).cloned().collect();
        if missing.is_empty() {
            return Ok(());
        }
        let items = self.base.read(&missing).await?.items;
        for (key, item) in missing.into_iter().zip(items) {
            if let Entry::Vacant(vacant) = written.entry(StoredKey::of(&key)) {
                vacant.insert(WrittenItem { key, before: item.clone(), after: item });
            }
        }
        Ok(())
    }
}

/// The effect of a write on the stored item.
fn effect(write: &Write, stored: Option<&Item>) -> WriteEffect {
    let invalid = |reason: &'static str| WriteRefusal::Invalid(reason.to_owned());
    if condition::has_unordered_operand(&write.condition) {
        return Err(invalid("a comparison by order with a value of a type without an order"));
    }
    if let WriteAction::Update(changes) = &write.action {
        check_paths(changes).and_then(|()| normalized(&mut values(changes))).map_err(invalid)?;
    }
    if !condition::holds(&write.condition, stored) {
        return Err(WriteRefusal::Condition(stored.cloned()));
    }
    let mut item = match &write.action {
        WriteAction::Delete => return Ok(None),
        WriteAction::Put(item) => keyed(item.clone(), &write.key),
        WriteAction::Update(changes) => {
            let before = stored.cloned().unwrap_or_else(|| keyed(Item::new(), &write.key));
            updated(before, changes).map_err(invalid)?
        }
    };
    normalized(&mut item).map_err(invalid)?;
    Ok(Some(item))
}

fn keyed(mut item: Item, key: &ItemKey) -> Item {
    for attribute in [Some(&key.partition), key.sort.as_ref()].into_iter().flatten() {
        item.insert(attribute.name.to_string().into(), attribute.value.clone());
    }
    item
}

impl<T: Tables> Tables for OverlayTables<T> {
    async fn read(&self, keys: &[ItemKey]) -> Result<ReadSnapshot, Error> {
        let mut snapshot = self.base.read(keys).await?;
        let written = self.written.lock().await;
        for (key, item) in keys.iter().zip(&mut snapshot.items) {
            if let Some(written) = written.get(&StoredKey::of(key)) {
                item.clone_from(&written.after);
            }
        }
        Ok(snapshot)
    }

    async fn write(&self, write: &Write) -> Result<ConsumedUnits, WriteError> {
        let mut written = self.written.lock().await;
        let loaded = self.load(std::iter::once(&write.key), &mut written).await;
        loaded.map_err(WriteError::Failed)?;
        let Some(stored) = written.get_mut(&StoredKey::of(&write.key)) else {
            return Ok(ConsumedUnits::default());
        };
        stored.after = effect(write, stored.after.as_ref()).map_err(WriteError::Refused)?;
        Ok(ConsumedUnits::default())
    }

    async fn transact(&self, writes: &[Write]) -> Result<ConsumedUnits, TransactError> {
        let mut written = self.written.lock().await;
        let loaded = self.load(writes.iter().map(|write| &write.key), &mut written).await;
        loaded.map_err(TransactError::Failed)?;
        let effects = writes.iter().map(|write| {
            let stored = written.get(&StoredKey::of(&write.key));
            effect(write, stored.and_then(|stored| stored.after.as_ref()))
        });
        let effects: Vec<WriteEffect> = effects.collect();
        if effects.iter().any(Result::is_err) {
            return Err(TransactError::Cancelled(effects.into_iter().map(Result::err).collect()));
        }
        for (write, after) in writes.iter().zip(effects) {
            if let (Some(stored), Ok(after)) = (written.get_mut(&StoredKey::of(&write.key)), after) {
                stored.after = after;
            }
        }
        Ok(ConsumedUnits::default())
    }

    async fn query_index(&self, query: &IndexQuery) -> Result<IndexPage, Error> {
        self.base.query_index(query).await
    }
}
