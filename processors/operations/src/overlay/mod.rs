//! Tables whose writes stay in memory: what a job would write, without writing it.
//!
//! Reads see the writes before them. Conditions are evaluated, so that the ledger decides as it would on the tables themselves.
//! Plans count the units; dry runs compare the written items with the stored ones.

mod evaluate;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use afterwrite::effect::{ItemKey, KeyAttribute, Write, WriteAction, WriteRefusal};
use afterwrite::record::Item;
use afterwrite::sink::{
    ConsumedUnits, IndexPage, IndexQuery, ReadSnapshot, ScanPage, ScanRequest, TableScan, TableSummary,
    Tables, TransactError, WriteError, item_bytes, write_units,
};
use afterwrite::{Error, Result};

use self::evaluate::{apply_changes, holds};

/// Tables that are read from `tables`, and written in memory only.
#[derive(Debug)]
pub struct OverlayTables<T> {
    tables: T,
    state: Mutex<OverlayState>,
}

/// An item that was written.
#[derive(Clone, Debug, PartialEq)]
pub struct OverlayChange {
    /// Its key.
    pub key: ItemKey,
    /// The item as it is stored.
    pub before: Option<Item>,
    /// The item as it would be.
    pub after: Option<Item>,
}

/// The units of everything that was read and written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OverlayUnits {
    /// Read units.
    pub reads: u64,
    /// Write units, without those of indexes.
    pub writes: u64,
}

#[derive(Debug, Default)]
struct OverlayState {
    changes: HashMap<String, OverlayChange>,
    units: OverlayUnits,
}

impl<T: Tables> OverlayTables<T> {
    /// An overlay without writes.
    pub fn new(tables: T) -> Self {
        Self { tables, state: Mutex::default() }
    }

    /// The units so far.
    #[must_use]
    pub fn units(&self) -> OverlayUnits {
        self.lock().units
    }

    /// The written items that differ from the stored ones, in the order of their keys.
    #[must_use]
    pub fn changes(&self) -> Vec<OverlayChange> {
        let state = self.lock();
        let mut changes: Vec<(&String, &OverlayChange)> =
            state.changes.iter().filter(|(_, change)| change.before != change.after).collect();
        changes.sort_by_key(|(name, _)| *name);
        changes.into_iter().map(|(_, change)| change.clone()).collect()
    }

    /// How many bytes the tables would grow by.
    #[must_use]
    pub fn growth(&self) -> u64 {
        let bytes = |item: &Option<Item>| item.as_ref().map_or(0, item_bytes);
        let (mut before, mut after) = (0, 0);
        for change in self.lock().changes.values() {
            before += bytes(&change.before);
            after += bytes(&change.after);
        }
        u64::try_from(after.saturating_sub(before)).unwrap_or(u64::MAX)
    }

    fn lock(&self) -> MutexGuard<'_, OverlayState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the stored items known, so that writes can be decided.
    async fn load<'k>(&self, keys: impl Iterator<Item = &'k ItemKey>) -> Result<()> {
        let unknown: Vec<ItemKey> =
            keys.filter(|key| !self.lock().changes.contains_key(&name_of(key))).cloned().collect();
        if unknown.is_empty() {
            return Ok(());
        }
        let stored = self.tables.read(&unknown).await?.items;
        let mut state = self.lock();
        for (key, before) in unknown.into_iter().zip(stored) {
            let change = OverlayChange { key: key.clone(), after: before.clone(), before };
            state.changes.entry(name_of(&key)).or_insert(change);
        }
        Ok(())
    }
}

impl OverlayState {
    /// The item after a write, or why the write is refused; and its units.
    fn decide(&self, write: &Write) -> Result<(Option<Item>, u64), WriteRefusal> {
        let before = self.changes.get(&name_of(&write.key)).and_then(|change| change.after.as_ref());
        if !holds(&write.condition, before) {
            return Err(WriteRefusal::Condition(before.cloned()));
        }
        let after = match &write.action {
            WriteAction::Put(item) => Some(keyed(item.clone(), &write.key)),
            WriteAction::Update(changes) => {
                let item = before.cloned().unwrap_or_else(|| keyed(Item::new(), &write.key));
                Some(
                    apply_changes(item, changes)
                        .map_err(|reason| WriteRefusal::Invalid(reason.to_owned()))?,
                )
            }
            WriteAction::Delete => None,
        };
        let bytes = before.map_or(0, item_bytes).max(after.as_ref().map_or(0, item_bytes));
        Ok((after, write_units(bytes)))
    }

    /// Replaces the items of a page that were written, and removes those that were deleted.
    fn replace_written(&self, table: &str, items: &mut Vec<Item>) {
        let Some(template) = self.changes.values().find(|change| *change.key.table == *table) else { return };
        let written = |item: &Item| {
            let attribute = |known: &KeyAttribute| {
                let value = item.get(&*known.name)?.clone();
                Some(KeyAttribute { name: Arc::clone(&known.name), value })
            };
            let partition = attribute(&template.key.partition)?;
            let sort = template.key.sort.as_ref().and_then(attribute);
            let key = ItemKey { table: Arc::clone(&template.key.table), partition, sort };
            self.changes.get(&name_of(&key))
        };
        let replaced = std::mem::take(items).into_iter().filter_map(|item| match written(&item) {
            Some(change) => change.after.clone(),
            None => Some(item),
        });
        *items = replaced.collect();
    }

    /// The items that are not stored: a scan returns them at the end of its first segment.
    fn created<'s>(&'s self, table: &'s str) -> impl Iterator<Item = Item> + 's {
        let of_table = self.changes.values().filter(move |change| *change.key.table == *table);
        of_table.filter(|change| change.before.is_none()).filter_map(|change| change.after.clone())
    }

    fn carry_out(&mut self, key: &ItemKey, after: Option<Item>) {
        if let Some(change) = self.changes.get_mut(&name_of(key)) {
            change.after = after;
        }
    }
}

impl<T: Tables> Tables for OverlayTables<T> {
    async fn read(&self, keys: &[ItemKey]) -> Result<ReadSnapshot, Error> {
        let mut snapshot = self.tables.read(keys).await?;
        let mut state = self.lock();
        for (key, item) in keys.iter().zip(&mut snapshot.items) {
            let bytes = item.as_ref().map_or(0, item_bytes);
            state.units.reads += u64::try_from(bytes.div_ceil(4096)).unwrap_or(0).max(1);
            if let Some(change) = state.changes.get(&name_of(key)) {
                item.clone_from(&change.after);
            }
        }
        Ok(snapshot)
    }

    async fn write(&self, write: &Write) -> Result<ConsumedUnits, WriteError> {
        self.load(std::iter::once(&write.key)).await.map_err(WriteError::Failed)?;
        let mut state = self.lock();
        let (after, units) = state.decide(write).map_err(WriteError::Refused)?;
        state.carry_out(&write.key, after);
        state.units.writes += units;
        Ok(ConsumedUnits { write_units: units })
    }

    async fn transact(&self, writes: &[Write]) -> Result<ConsumedUnits, TransactError> {
        self.load(writes.iter().map(|write| &write.key)).await.map_err(TransactError::Failed)?;
        let mut state = self.lock();
        let decided: Vec<_> = writes.iter().map(|write| state.decide(write)).collect();
        if decided.iter().any(Result::is_err) {
            return Err(TransactError::Cancelled(decided.into_iter().map(Result::err).collect()));
        }
        let mut units = 0;
        for (write, (after, write_units)) in writes.iter().zip(decided.into_iter().flatten()) {
            state.carry_out(&write.key, after);
            // A transaction doubles the units.
            units += 2 * write_units;
        }
        state.units.writes += units;
        Ok(ConsumedUnits { write_units: units })
    }

    async fn query_index(&self, query: &IndexQuery) -> Result<IndexPage, Error> {
        self.lock().units.reads += 1;
        self.tables.query_index(query).await
    }
}

impl<T: TableScan> TableScan for OverlayTables<T> {
    async fn scan(&self, request: &ScanRequest) -> Result<ScanPage, Error> {
        let mut page = self.tables.scan(request).await?;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.units.reads += page.read_units;
        state.replace_written(&request.table, &mut page.items);
        if request.segment == 0 && page.next.is_none() {
            page.items.extend(state.created(&request.table));
        }
        Ok(page)
    }

    async fn describe(&self, table: &str) -> Result<TableSummary, Error> {
        self.tables.describe(table).await
    }
}

/// A key as text, in the order of table, partition key and sort key.
fn name_of(key: &ItemKey) -> String {
    format!("{} {:?} {:?}", key.table, key.partition.value, key.sort.as_ref().map(|sort| &sort.value))
}

fn keyed(mut item: Item, key: &ItemKey) -> Item {
    for attribute in std::iter::once(&key.partition).chain(&key.sort) {
        item.insert(attribute.name.to_string().into(), attribute.value.clone());
    }
    item
}
