//! Tables whose writes stay in memory, over tables that are only read.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use afterwrite_ledger::tables::{
    ConsumedUnits, IndexPage, IndexQuery, PartialRead, ReadSnapshot, ScanPage, ScanRequest, TableIndex,
    TableScan, TableSummary, Tables, TransactError, WriteError, item_bytes, write_units,
};
use afterwrite_model::Error;
use afterwrite_model::effect::{ItemKey, KeyAttribute, Write, WriteRefusal};
use afterwrite_model::record::Item;

use super::difference::ItemDifference;
use super::stored_key::StoredKey;

/// One strongly consistent read unit per started 4 KB.
const READ_UNIT_BYTES: usize = 4096;

/// Reads the tables beneath and keeps every write in memory: a dry run.
///
/// A write has the effect that it has in DynamoDB, without the limits on sizes. Memory grows with the number of written items, so
/// a run that changes nothing takes none. An index shows what the tables beneath show: it lags, as an index may.
#[derive(Debug)]
pub struct OverlayTables<T> {
    base: T,
    indexes: BTreeMap<String, Vec<TableIndex>>,
    state: Mutex<OverlayState>,
}

/// The units of everything that was read and written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OverlayUnits {
    /// Read units.
    pub reads: u64,
    /// Write units, including the units of the indexes that the overlay knows.
    pub writes: u64,
}

#[derive(Debug, Default)]
struct OverlayState {
    written: BTreeMap<StoredKey, WrittenItem>,
    units: OverlayUnits,
    /// The write units of each partition of the indexes that the overlay knows: its key attribute, and the text in it.
    index_partitions: BTreeMap<(Arc<str>, String), u64>,
    log: Option<WriteLog>,
}

/// Each write to a table, in order.
#[derive(Debug)]
struct WriteLog {
    table: Arc<str>,
    writes: Vec<ItemDifference>,
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
        Self { base, indexes: BTreeMap::new(), state: Mutex::default() }
    }

    /// Sets the indexes of tables, by the table's name: writes are charged for them, too.
    #[must_use]
    pub fn with_indexes(mut self, indexes: BTreeMap<String, Vec<TableIndex>>) -> Self {
        self.indexes = indexes;
        self
    }

    /// Keeps each write to this table for [`OverlayTables::take_writes`], as the table's stream would.
    #[must_use]
    pub fn logging(self, table: Arc<str>) -> Self {
        self.lock().log = Some(WriteLog { table, writes: Vec::new() });
        self
    }

    /// The writes to the table of [`OverlayTables::logging`] since the last call, in order.
    #[must_use]
    pub fn take_writes(&self) -> Vec<ItemDifference> {
        self.lock().log.as_mut().map(|log| std::mem::take(&mut log.writes)).unwrap_or_default()
    }

    /// The indexes of a table.
    fn indexes_of(&self, key: &ItemKey) -> &[TableIndex] {
        self.indexes.get(&*key.table).map_or(&[], Vec::as_slice)
    }

    /// The items that differ from the tables beneath, in the order of their keys.
    #[must_use]
    pub fn differences(&self) -> Vec<ItemDifference> {
        let state = self.lock();
        let changed = state.written.values().filter(|item| item.before != item.after);
        let difference = |item: &WrittenItem| {
            ItemDifference::new(item.key.clone(), item.before.clone(), item.after.clone())
        };
        changed.map(difference).collect()
    }

    /// The units of all requests so far, as the tables beneath would have consumed them.
    #[must_use]
    pub fn units(&self) -> OverlayUnits {
        self.lock().units
    }

    /// The most write units that a partition of an index with this partition key has taken.
    #[must_use]
    pub fn busiest_partition(&self, partition_key: &str) -> u64 {
        let state = self.lock();
        let of_index = state.index_partitions.iter().filter(|((key, _), _)| **key == *partition_key);
        of_index.map(|(_, units)| *units).max().unwrap_or(0)
    }

    /// The bytes that the known indexes of a table would grow by.
    #[must_use]
    pub fn index_growth(&self, table: &str) -> u64 {
        let Some(indexes) = self.indexes.get(table) else { return 0 };
        let bytes = |item: &Option<Item>| -> usize {
            let item = item.iter();
            item.flat_map(|item| indexes.iter().map(move |index| index.entry_bytes(item))).sum()
        };
        let state = self.lock();
        let of_table = state.written.values().filter(|written| *written.key.table == *table);
        let (before, after) = of_table.fold((0, 0), |(before, after), written| {
            (before + bytes(&written.before), after + bytes(&written.after))
        });
        u64::try_from(after.saturating_sub(before)).unwrap_or(u64::MAX)
    }

    /// The bytes that the tables beneath would grow by.
    #[must_use]
    pub fn growth(&self) -> u64 {
        let bytes = |item: &Option<Item>| item.as_ref().map_or(0, item_bytes);
        let (mut before, mut after) = (0, 0);
        for item in self.lock().written.values() {
            before += bytes(&item.before);
            after += bytes(&item.after);
        }
        u64::try_from(after.saturating_sub(before)).unwrap_or(u64::MAX)
    }

    fn lock(&self) -> MutexGuard<'_, OverlayState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the items with these keys to the written items, as the tables beneath have them.
    async fn load(&self, keys: &[&ItemKey]) -> Result<(), Error> {
        let missing: Vec<ItemKey> = {
            let state = self.lock();
            let is_missing = |key: &&&ItemKey| !state.written.contains_key(&StoredKey::of(key));
            keys.iter().filter(is_missing).map(|key| (*key).clone()).collect()
        };
        if missing.is_empty() {
            return Ok(());
        }
        let items = self.base.read(&missing).await?.items;
        let mut state = self.lock();
        for (key, item) in missing.into_iter().zip(items) {
            let stored = StoredKey::of(&key);
            state.written.entry(stored).or_insert(WrittenItem { key, before: item.clone(), after: item });
        }
        Ok(())
    }
}

impl OverlayState {
    fn stored(&self, key: &ItemKey) -> Option<&Item> {
        self.written.get(&StoredKey::of(key))?.after.as_ref()
    }

    /// Carries out a write whose effect was decided; returns its write units outside a transaction, of the table and of its indexes.
    fn carry_out(&mut self, key: &ItemKey, after: Option<Item>, indexes: &[TableIndex]) -> (u64, u64) {
        let Some(stored) = self.written.get_mut(&StoredKey::of(key)) else { return (0, 0) };
        let bytes = [&stored.after, &after].into_iter().flatten().map(item_bytes).max();
        let mut index_units = 0;
        for index in indexes {
            let units = index.write_units(stored.after.as_ref(), after.as_ref());
            index_units += units;
            let item = after.as_ref().or(stored.after.as_ref());
            let partition = index.keys.first().filter(|_| units > 0).zip(item);
            if let Some((key, text)) =
                partition.and_then(|(key, item)| Some((key, item.get(&**key)?.as_text()?)))
            {
                *self.index_partitions.entry((Arc::clone(key), text.to_owned())).or_default() += units;
            }
        }
        let before = std::mem::replace(&mut stored.after, after);
        if let Some(log) = self.log.as_mut().filter(|log| log.table == key.table && before != stored.after) {
            log.writes.push(ItemDifference::new(key.clone(), before, stored.after.clone()));
        }
        (write_units(bytes.unwrap_or(0)), index_units)
    }
}

impl OverlayState {
    /// Replaces the items of a page that were written, and removes the items that were deleted.
    fn replace_written(&self, table: &str, items: &mut Vec<Item>) {
        let Some(template) = self.written.values().find(|written| *written.key.table == *table) else {
            return;
        };
        let replaced = std::mem::take(items).into_iter().filter_map(|item| {
            let key = key_like(&template.key, &item);
            match key.and_then(|key| self.written.get(&StoredKey::of(&key))) {
                Some(written) => written.after.clone(),
                None => Some(item),
            }
        });
        *items = replaced.collect();
    }

    /// The items that are not stored beneath: a scan returns them at the end of its first segment.
    fn created<'s>(&'s self, table: &'s str) -> impl Iterator<Item = Item> + 's {
        let of_table = self.written.values().filter(move |written| *written.key.table == *table);
        of_table.filter(|written| written.before.is_none()).filter_map(|written| written.after.clone())
    }
}

/// The key of an item of the same table as `template`.
fn key_like(template: &ItemKey, item: &Item) -> Option<ItemKey> {
    let attribute = |known: &KeyAttribute| {
        let value = item.get(&*known.name)?.clone();
        Some(KeyAttribute { name: Arc::clone(&known.name), value })
    };
    let sort = template.sort.as_ref().and_then(attribute);
    Some(ItemKey { table: Arc::clone(&template.table), partition: attribute(&template.partition)?, sort })
}

/// The effect of a write on the stored item.
fn effect(write: &Write, stored: Option<&Item>) -> WriteEffect {
    write.check().map_err(|reason| WriteRefusal::Invalid(reason.to_owned()))?;
    write.applied(stored)
}

impl<T: Tables> Tables for OverlayTables<T> {
    async fn read(&self, keys: &[ItemKey]) -> Result<ReadSnapshot, Error> {
        let mut snapshot = self.base.read(keys).await?;
        let mut state = self.lock();
        for (key, item) in keys.iter().zip(&mut snapshot.items) {
            let bytes = item.as_ref().map_or(0, item_bytes);
            state.units.reads += u64::try_from(bytes.div_ceil(READ_UNIT_BYTES)).unwrap_or(0).max(1);
            if let Some(written) = state.written.get(&StoredKey::of(key)) {
                item.clone_from(&written.after);
            }
        }
        Ok(snapshot)
    }

    async fn write(&self, write: &Write) -> Result<ConsumedUnits, WriteError> {
        self.load(&[&write.key]).await.map_err(WriteError::Failed)?;
        let mut state = self.lock();
        let after = effect(write, state.stored(&write.key)).map_err(WriteError::Refused)?;
        let (table_units, index_units) = state.carry_out(&write.key, after, self.indexes_of(&write.key));
        let write_units = table_units + index_units;
        state.units.writes += write_units;
        Ok(ConsumedUnits { write_units })
    }

    async fn transact(&self, writes: &[Write]) -> Result<ConsumedUnits, TransactError> {
        let keys: Vec<&ItemKey> = writes.iter().map(|write| &write.key).collect();
        self.load(&keys).await.map_err(TransactError::Failed)?;
        let mut state = self.lock();
        let effects: Vec<WriteEffect> =
            writes.iter().map(|write| effect(write, state.stored(&write.key))).collect();
        if effects.iter().any(Result::is_err) {
            return Err(TransactError::Cancelled(effects.into_iter().map(Result::err).collect()));
        }
        let effects = writes.iter().zip(effects.into_iter().flatten());
        let mut units = 0;
        for (write, after) in effects {
            // A transaction consumes twice the units of the table, and once the units of the indexes.
            let (table_units, index_units) = state.carry_out(&write.key, after, self.indexes_of(&write.key));
            units += 2 * table_units + index_units;
        }
        state.units.writes += units;
        Ok(ConsumedUnits { write_units: units })
    }

    /// Lookups read nothing that is written here: mirrors write no attribute that contributions depend on.
    async fn read_looked_up(&self, keys: &[ItemKey]) -> Result<PartialRead, Error> {
        let read = self.base.read_looked_up(keys).await?;
        let units = read.items.iter().flatten().map(|item| {
            let bytes = item.as_ref().map_or(0, item_bytes);
            u64::try_from(bytes.div_ceil(READ_UNIT_BYTES)).unwrap_or(0).max(1)
        });
        self.lock().units.reads += units.sum::<u64>();
        Ok(read)
    }

    async fn query_index(&self, query: &IndexQuery) -> Result<IndexPage, Error> {
        self.lock().units.reads += 1;
        self.base.query_index(query).await
    }
}

impl<T: TableScan> TableScan for OverlayTables<T> {
    async fn scan(&self, request: &ScanRequest) -> Result<ScanPage, Error> {
        let mut page = self.base.scan(request).await?;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.units.reads += page.read_units;
        state.replace_written(&request.table, &mut page.items);
        if request.segment == 0 && page.next.is_none() {
            page.items.extend(state.created(&request.table));
        }
        Ok(page)
    }

    async fn describe(&self, table: &str) -> Result<TableSummary, Error> {
        self.base.describe(table).await
    }
}
