//! The tables that a worker counts into: a state table in memory, over deployed tables that are read for lookups.
//!
//! | request of the ledger | here |
//! |---|---|
//! | a ledger entry | there is none before; the new one is final, and is taken out page by page |
//! | a rollup | in memory, from zero: a part of its sum |
//! | a remembered lookup | of the deployed state table, at a limited rate: what was remembered first counts for all workers |
//! | a query of an index | of the deployed table, at a limited rate |
//! | an item of the application | is not read, and not written |

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use afterwrite_ledger::state::{self, LOOKUP_PREFIX};
use afterwrite_ledger::tables::{
    ConsumedUnits, IndexPage, IndexQuery, PartialRead, ReadSnapshot, Tables, TransactError, WriteError,
};
use afterwrite_model::clock::Clock;
use afterwrite_model::effect::{ItemKey, KeyAttribute, Write, WriteAction, WriteRefusal};
use afterwrite_model::record::{Item, Timestamp};
use afterwrite_model::{Error, Result};
use hashbrown::HashMap;

/// `PK` and `SK`.
type StateKey = (String, String);

/// The results of a worker since they were taken out last.
#[derive(Debug, Default)]
pub(crate) struct CountedItems {
    /// Ledger entries.
    pub(crate) entries: Vec<Item>,
    /// Parts of rollups, in the order of their keys.
    pub(crate) rollups: BTreeMap<StateKey, Item>,
}

/// The tables of one step.
#[derive(Debug)]
pub(crate) struct CountingTables<T, C> {
    deployed: T,
    clock: C,
    state_table: Arc<str>,
    counted: Mutex<CountedItems>,
    /// Remembered lookups that were read or written.
    lookups: Mutex<HashMap<String, Item>>,
    /// When the next request for a lookup may be sent, and the time between two.
    next_lookup: Mutex<Timestamp>,
    lookup_interval: Duration,
}

impl<T: Tables, C: Clock> CountingTables<T, C> {
    pub(crate) fn new(deployed: T, clock: C, state_table: Arc<str>, lookups_a_second: u32) -> Self {
        let next_lookup = Mutex::new(clock.now());
        Self {
            deployed,
            clock,
            state_table,
            counted: Mutex::default(),
            lookups: Mutex::default(),
            next_lookup,
            lookup_interval: Duration::from_secs(1) / lookups_a_second.max(1),
        }
    }

    /// Takes out the ledger entries.
    pub(crate) fn take_entries(&self) -> Vec<Item> {
        std::mem::take(&mut lock(&self.counted).entries)
    }

    /// The number of parts of rollups.
    pub(crate) fn rollup_count(&self) -> usize {
        lock(&self.counted).rollups.len()
    }

    /// Takes out the parts of rollups: they begin at zero again.
    pub(crate) fn take_rollups(&self) -> BTreeMap<StateKey, Item> {
        std::mem::take(&mut lock(&self.counted).rollups)
    }

    /// The number of remembered lookups.
    pub(crate) fn lookup_count(&self) -> usize {
        lock(&self.lookups).len()
    }

    /// Takes out the remembered lookups, in the order of their keys.
    pub(crate) fn take_lookups(&self) -> BTreeMap<StateKey, Item> {
        let lookups = std::mem::take(&mut *lock(&self.lookups));
        lookups.into_values().map(|item| (state_key(&item), item)).collect()
    }

    /// Waits until this many lookups may be requested.
    async fn wait_for_lookups(&self, number: usize) {
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        let now = self.clock.now();
        let begin = {
            let mut next = lock(&self.next_lookup);
            let begin = (*next).max(now);
            *next = begin.plus(self.lookup_interval.saturating_mul(number));
            begin
        };
        if begin > now {
            self.clock.sleep(begin.since(now)).await;
        }
    }

    fn is_lookup(&self, key: &ItemKey) -> bool {
        *key.table == *self.state_table && text(&key.partition).starts_with(LOOKUP_PREFIX)
    }

    async fn read_lookups(&self, keys: &[ItemKey]) -> Result<Vec<Option<Item>>> {
        let unread: Vec<ItemKey> = {
            let known = lock(&self.lookups);
            keys.iter().filter(|key| !known.contains_key(text(&key.partition))).cloned().collect()
        };
        if !unread.is_empty() {
            self.wait_for_lookups(unread.len()).await;
            let found = self.deployed.read(&unread).await?.items;
            let mut known = lock(&self.lookups);
            for (key, item) in unread.iter().zip(found) {
                if let Some(item) = item {
                    known.insert(text(&key.partition).to_owned(), item);
                }
            }
        }
        let known = lock(&self.lookups);
        Ok(keys.iter().map(|key| known.get(text(&key.partition)).cloned()).collect())
    }

    async fn write_lookup(&self, write: &Write) -> Result<ConsumedUnits, WriteError> {
        self.wait_for_lookups(1).await;
        let partition = text(&write.key.partition).to_owned();
        let result = self.deployed.write(write).await;
        let mut known = lock(&self.lookups);
        match &result {
            Ok(_) => {
                let before = known.remove(&partition);
                let after = write.after(before.as_ref()).ok().flatten();
                known.extend(after.map(|item| (partition, item)));
            }
            Err(WriteError::Refused(WriteRefusal::Condition(Some(winner)))) => {
                known.insert(partition, winner.clone());
            }
            // Whether the write took effect is not known: it is read again.
            Err(_) => {
                known.remove(&partition);
            }
        }
        result
    }
}

impl CountedItems {
    /// The item that a write leaves, or why it is refused. A worker deletes nothing.
    fn effect(&self, write: &Write) -> Result<Item, WriteRefusal> {
        let item = write.applied(self.rollups.get(&key_texts(&write.key)))?;
        item.ok_or_else(|| WriteRefusal::Invalid("a worker deletes nothing".to_owned()))
    }

    /// Keeps an item that was written. A ledger entry is the only item that is put as a whole.
    fn keep(&mut self, write: &Write, item: Item) {
        match &write.action {
            WriteAction::Put(_) => self.entries.push(item),
            WriteAction::Update(_) => {
                self.rollups.insert(key_texts(&write.key), item);
            }
            WriteAction::Delete => {}
        }
    }
}

impl<T: Tables, C: Clock> Tables for CountingTables<T, C> {
    async fn read(&self, keys: &[ItemKey]) -> Result<ReadSnapshot, Error> {
        let lookups: Vec<ItemKey> = keys.iter().filter(|key| self.is_lookup(key)).cloned().collect();
        let mut found = self.read_lookups(&lookups).await?.into_iter();
        let counted = lock(&self.counted);
        let items = keys.iter().map(|key| {
            if self.is_lookup(key) {
                found.next().flatten()
            } else if *key.table == *self.state_table {
                counted.rollups.get(&key_texts(key)).cloned()
            } else {
                None
            }
        });
        Ok(ReadSnapshot { items: items.collect(), server_time: self.clock.now() })
    }

    async fn read_looked_up(&self, keys: &[ItemKey]) -> Result<PartialRead, Error> {
        self.wait_for_lookups(keys.len()).await;
        self.deployed.read_looked_up(keys).await
    }

    async fn write(&self, write: &Write) -> Result<ConsumedUnits, WriteError> {
        if self.is_lookup(&write.key) {
            return self.write_lookup(write).await;
        }
        if *write.key.table == *self.state_table {
            let mut counted = lock(&self.counted);
            let item = counted.effect(write).map_err(WriteError::Refused)?;
            counted.keep(write, item);
        }
        Ok(ConsumedUnits::default())
    }

    async fn transact(&self, writes: &[Write]) -> Result<ConsumedUnits, TransactError> {
        let mut counted = lock(&self.counted);
        let effects: Vec<_> = writes.iter().map(|write| counted.effect(write)).collect();
        if effects.iter().any(Result::is_err) {
            return Err(TransactError::Cancelled(effects.into_iter().map(Result::err).collect()));
        }
        for (write, item) in writes.iter().zip(effects.into_iter().flatten()) {
            counted.keep(write, item);
        }
        Ok(ConsumedUnits::default())
    }

    async fn query_index(&self, query: &IndexQuery) -> Result<IndexPage, Error> {
        self.wait_for_lookups(1).await;
        self.deployed.query_index(query).await
    }
}

fn key_texts(key: &ItemKey) -> StateKey {
    (text(&key.partition).to_owned(), key.sort.as_ref().map_or("", text).to_owned())
}

/// `PK` and `SK` of an item of the state table.
pub(crate) fn state_key(item: &Item) -> StateKey {
    let (partition, sort) = state::key_texts(item).unwrap_or_default();
    (partition.to_owned(), sort.to_owned())
}

fn text(attribute: &KeyAttribute) -> &str {
    attribute.value.as_text().unwrap_or_default()
}

fn lock<V>(mutex: &Mutex<V>) -> MutexGuard<'_, V> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
