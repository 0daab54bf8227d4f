//! Tables in memory, with DynamoDB's semantics for everything that a [`Write`] can express.
//!
//! For simulations and measurements, where a server is slow and its timing cannot be controlled. The conformance suite runs the
//! same cases against this store and against a DynamoDB server, so a property that is proved on one holds on the other.
//!
//! ```
//! use afterwrite_memory::{IndexDefinition, MemoryTables, TableDefinition};
//!
//! let tables = MemoryTables::new();
//! tables.create_table(TableDefinition::new("state", "PK").sort("SK"));
//! tables.create_table(
//!     TableDefinition::new("main", "PK").sort("SK").index(IndexDefinition::new("GSI1", "GSI1PK").sort("GSI1SK")).streamed(),
//! );
//! assert!(tables.scan("state").is_empty());
//! ```

mod definition;
mod scan;
mod table;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use afterwrite_ledger::tables::{
    ConsumedUnits, IndexPage, IndexQuery, MAX_TRANSACTION_ACTIONS, MAX_TRANSACTION_BYTES, ReadSnapshot,
    Tables, TransactError, WriteError, item_bytes, value_bytes,
};
use afterwrite_model::effect::{
    AttributeChange, ItemKey, KeyAttribute, Write, WriteAction, WriteCondition, WriteRefusal,
};
use afterwrite_model::record::{AttributeValue, Item, Timestamp};
use afterwrite_model::{Error, ErrorKind};
use afterwrite_services::dynamodb::{missing_index, missing_table};

pub use self::definition::{IndexDefinition, KeyAttributeType, KeyDefinition, TableDefinition};
pub use self::scan::MEMORY_STREAM_LABEL;

/// The key of an item whose key attributes `PK` and `SK` are these texts.
#[must_use]
pub fn item_key(table: &str, partition: &str, sort: &str) -> ItemKey {
    let attribute =
        |name: &str, value: &str| KeyAttribute { name: name.into(), value: AttributeValue::text(value) };
    ItemKey { table: table.into(), partition: attribute("PK", partition), sort: Some(attribute("SK", sort)) }
}
pub use self::table::ItemChange;
use self::table::{CheckedWrite, StoreFault, StoredKey, StoredTable, index_page};

/// DynamoDB tables in memory, with a clock that the test sets.
pub struct MemoryTables {
    state: Mutex<StoreState>,
}

struct StoreState {
    tables: HashMap<String, StoredTable>,
    now: Timestamp,
    write_units: u64,
}

impl Default for MemoryTables {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryTables {
    /// A store without tables, whose time is 1970.
    #[must_use]
    pub fn new() -> Self {
        let state = StoreState { tables: HashMap::new(), now: Timestamp::from_epoch_ms(0), write_units: 0 };
        Self { state: Mutex::new(state) }
    }

    /// Creates an empty table; it replaces a table of the same name.
    pub fn create_table(&self, definition: TableDefinition) {
        self.lock().tables.insert(definition.name.clone(), StoredTable::new(definition));
    }

    /// Sets the clock, which [`Tables::read`] and the change times return.
    pub fn set_time(&self, now: Timestamp) {
        self.lock().now = now;
    }

    /// The time that was set.
    #[must_use]
    pub fn time(&self) -> Timestamp {
        self.lock().now
    }

    /// All write units consumed so far, including those of writes whose condition failed. A cancelled transaction counts as if it
    /// had been carried out, without the indexes' share.
    #[must_use]
    pub fn write_units(&self) -> u64 {
        self.lock().write_units
    }

    /// All items of a table in key order; empty if the table does not exist.
    #[must_use]
    pub fn scan(&self, table: &str) -> Vec<Item> {
        self.lock().tables.get(table).map(|table| table.items().cloned().collect()).unwrap_or_default()
    }

    /// One item, if it exists.
    #[must_use]
    pub fn get(&self, key: &ItemKey) -> Option<Item> {
        let state = self.lock();
        state.tables.get(&*key.table)?.get(key).ok().flatten().cloned()
    }

    /// Puts a whole item, keys included, as an application does; returns the item it replaced.
    ///
    /// # Errors
    /// As [`Tables::write`].
    pub fn put(&self, table: &str, item: Item) -> Result<Option<Item>, WriteError> {
        let key = self.key_of(table, &item).map_err(WriteError::Failed)?;
        self.swap(&Write { key, condition: WriteCondition::Always, action: WriteAction::Put(item) })
    }

    /// Deletes an item as an application does; returns the deleted item.
    ///
    /// # Errors
    /// As [`Tables::write`].
    pub fn delete(&self, key: &ItemKey) -> Result<Option<Item>, WriteError> {
        let condition = WriteCondition::Always;
        self.swap(&Write { key: key.clone(), condition, action: WriteAction::Delete })
    }

    /// Deletes an item as the service does when its time to live has passed: the change is marked as an expiry and consumes no
    /// write units.
    ///
    /// # Errors
    /// As [`Tables::write`].
    pub fn expire(&self, key: &ItemKey) -> Result<Option<Item>, WriteError> {
        let mut state = self.lock();
        let now = state.now;
        let table = state.table_mut(&key.table).map_err(WriteError::Failed)?;
        table.expire(key, now).map_err(|fault| write_error(fault).0)
    }

    /// Expires every item of a table whose `attribute`, in epoch seconds, is earlier than the time that was set; returns the number
    /// of expired items.
    ///
    /// # Errors
    /// `Configuration` for a missing table.
    pub fn sweep(&self, table: &str, attribute: &str) -> Result<usize, Error> {
        let expired: Vec<Item> = {
            let state = self.lock();
            let now = state.now.epoch_seconds();
            let is_expired = |item: &&Item| {
                let expires = item.get(attribute).and_then(AttributeValue::as_number);
                expires.is_some_and(|expires| *expires < now.into())
            };
            state.table(table)?.items().filter(is_expired).cloned().collect()
        };
        for item in &expired {
            let key = self.key_of(table, item)?;
            let mut state = self.lock();
            let time = state.now;
            state.table_mut(table)?.expire(&key, time).map_err(read_error)?;
        }
        Ok(expired.len())
    }

    /// Removes and returns the changes of a streamed table since the last call, in commit order.
    #[must_use]
    pub fn take_changes(&self, table: &str) -> Vec<ItemChange> {
        self.lock().tables.get_mut(table).map(|table| std::mem::take(&mut table.changes)).unwrap_or_default()
    }

    /// The key of an item of a table.
    ///
    /// # Errors
    /// `Configuration` for a missing table, `Rejected` for an item without the table's key attributes.
    pub fn key_of(&self, table: &str, item: &Item) -> Result<ItemKey, Error> {
        let state = self.lock();
        let keys = &state.table(table)?.definition.keys;
        let sort = keys.sort.as_ref().map(|sort| key_attribute(item, sort)).transpose()?;
        Ok(ItemKey { table: Arc::from(table), partition: key_attribute(item, &keys.partition)?, sort })
    }

    /// [`Tables::read`] as a plain function.
    ///
    /// # Errors
    /// As [`Tables::read`].
    pub fn read_now(&self, keys: &[ItemKey]) -> Result<ReadSnapshot, Error> {
        let state = self.lock();
        let read =
            |key: &ItemKey| state.table(&key.table)?.get(key).map(|item| item.cloned()).map_err(read_error);
        let items = keys.iter().map(read).collect::<Result<Vec<_>, Error>>()?;
        Ok(ReadSnapshot { items, server_time: Timestamp::from_epoch_seconds(state.now.epoch_seconds()) })
    }

    /// [`Tables::write`] as a plain function.
    ///
    /// # Errors
    /// As [`Tables::write`].
    pub fn write_now(&self, write: &Write) -> Result<ConsumedUnits, WriteError> {
        let mut state = self.lock();
        let checked = match state.check(write) {
            Ok(checked) => checked,
            Err(fault) => {
                let (error, units) = write_error(fault);
                state.write_units += units;
                return Err(error);
            }
        };
        let consumed = ConsumedUnits { write_units: checked.table_units + checked.index_units };
        state.carry_out(write, checked);
        state.write_units += consumed.write_units;
        Ok(consumed)
    }

    /// [`Tables::transact`] as a plain function.
    ///
    /// # Errors
    /// As [`Tables::transact`].
    pub fn transact_now(&self, writes: &[Write]) -> Result<ConsumedUnits, TransactError> {
        let mut state = self.lock();
        let checked = match state.check_all(writes) {
            Ok(checked) => checked,
            Err((error, units)) => {
                state.write_units += units;
                return Err(error);
            }
        };
        // A transaction doubles the table's units; index updates cost the same as outside a transaction.
        let units = checked.iter().map(|write| 2 * write.table_units + write.index_units).sum();
        for (write, checked) in writes.iter().zip(checked) {
            state.carry_out(write, checked);
        }
        state.write_units += units;
        Ok(ConsumedUnits { write_units: units })
    }

    /// [`Tables::query_index`] as a plain function; the index never lags.
    ///
    /// # Errors
    /// As [`Tables::query_index`].
    pub fn query_index_now(&self, query: &IndexQuery) -> Result<IndexPage, Error> {
        let state = self.lock();
        let table = state.table(&query.table)?;
        let index = table.definition.indexes.iter().find(|index| *index.name == *query.index);
        let keys = &index.ok_or_else(|| missing_index(&query.table, &query.index))?.keys;
        match keys.unfit(&query.key) {
            None => Ok(index_page(table, keys, query)),
            Some(attribute) => {
                Err(missing_index(&query.table, &query.index).with("attribute", attribute.to_owned()))
            }
        }
    }

    fn swap(&self, write: &Write) -> Result<Option<Item>, WriteError> {
        let old = self.get(&write.key);
        self.write_now(write).map(|_| old)
    }

    fn lock(&self) -> MutexGuard<'_, StoreState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StoreState {
    fn table(&self, name: &str) -> Result<&StoredTable, Error> {
        self.tables.get(name).ok_or_else(|| missing_table(name))
    }

    fn table_mut(&mut self, name: &str) -> Result<&mut StoredTable, Error> {
        self.tables.get_mut(name).ok_or_else(|| missing_table(name))
    }

    fn check(&self, write: &Write) -> Result<CheckedWrite, StoreFault> {
        self.table(&write.key.table).map_err(StoreFault::Failed)?.check(write)
    }

    fn carry_out(&mut self, write: &Write, checked: CheckedWrite) {
        let now = self.now;
        if let Some(table) = self.tables.get_mut(&*write.key.table) {
            table.carry_out(&write.key, checked, now);
        }
    }

    /// The checked writes of a transaction, or the reason for its refusal and what the attempt costs.
    fn check_all(&self, writes: &[Write]) -> Result<Vec<CheckedWrite>, (TransactError, u64)> {
        check_transaction(writes).map_err(|invalid| (rejected(invalid), 0))?;
        let mut accepted = Vec::with_capacity(writes.len());
        let mut reasons = Vec::with_capacity(writes.len());
        let mut seen: BTreeSet<(&str, StoredKey)> = BTreeSet::new();
        let mut units = 0;
        for write in writes {
            // An invalid key is reported by the check of the write itself.
            let key = self.tables.get(&*write.key.table).and_then(|table| table.locate(&write.key).ok());
            if key.is_some_and(|key| !seen.insert((&write.key.table, key))) {
                return Err((rejected("a transaction with two actions on one item"), 0));
            }
            match self.check(write) {
                Ok(checked) => {
                    units += 2 * checked.table_units;
                    accepted.push(checked);
                    reasons.push(None);
                }
                Err(StoreFault::Refused(refusal, attempt)) => {
                    units += 2 * attempt;
                    reasons.push(Some(refusal));
                }
                Err(StoreFault::Request(invalid)) => return Err((rejected(invalid), 0)),
                Err(StoreFault::Failed(error)) => return Err((TransactError::Failed(error), 0)),
            }
        }
        if accepted.len() == writes.len() {
            Ok(accepted)
        } else {
            Err((TransactError::Cancelled(reasons), units))
        }
    }
}

fn key_attribute(item: &Item, key: &KeyDefinition) -> Result<KeyAttribute, Error> {
    let value = item.get(key.name.as_str()).cloned().ok_or_else(|| {
        Error::new(ErrorKind::Rejected, "the item lacks a key attribute").with("attribute", &key.name)
    })?;
    Ok(KeyAttribute { name: Arc::from(key.name.as_str()), value })
}

/// The limits of a transaction as a whole.
fn check_transaction(writes: &[Write]) -> Result<(), &'static str> {
    if writes.is_empty() || writes.len() > MAX_TRANSACTION_ACTIONS {
        return Err("a transaction without an action, or with more than 100");
    }
    if writes.iter().map(request_bytes).sum::<usize>() > MAX_TRANSACTION_BYTES {
        return Err("a transaction of more than 4 MB");
    }
    Ok(())
}

/// The bytes that an action adds to the size of its transaction.
fn request_bytes(write: &Write) -> usize {
    let key = [Some(&write.key.partition), write.key.sort.as_ref()].into_iter().flatten();
    let key_bytes: usize = key.map(|attribute| attribute.name.len() + value_bytes(&attribute.value)).sum();
    key_bytes
        + match &write.action {
            WriteAction::Put(item) => item_bytes(item),
            WriteAction::Update(changes) => changes.iter().map(change_bytes).sum(),
            WriteAction::Delete => 0,
        }
}

fn change_bytes(change: &AttributeChange) -> usize {
    match change {
        AttributeChange::Set(_, value) => value_bytes(value),
        AttributeChange::Add(_, number) => value_bytes(&AttributeValue::N(number.clone())),
        AttributeChange::Remove(_) => 0,
    }
}

fn rejected(invalid: &str) -> TransactError {
    TransactError::Failed(Error::new(ErrorKind::Rejected, format!("the transaction is invalid: {invalid}")))
}

/// The error of a single write, and the write units that the attempt costs.
fn write_error(fault: StoreFault) -> (WriteError, u64) {
    match fault {
        StoreFault::Refused(refusal, units) => (WriteError::Refused(refusal), units),
        StoreFault::Request(invalid) => (WriteError::Refused(WriteRefusal::Invalid(invalid.to_owned())), 0),
        StoreFault::Failed(error) => (WriteError::Failed(error), 0),
    }
}

fn read_error(fault: StoreFault) -> Error {
    match fault {
        StoreFault::Failed(error) => error,
        StoreFault::Refused(..) | StoreFault::Request(_) => {
            Error::new(ErrorKind::Rejected, "a key that DynamoDB does not allow: empty or too long")
        }
    }
}

impl Tables for MemoryTables {
    async fn read(&self, keys: &[ItemKey]) -> Result<ReadSnapshot, Error> {
        self.read_now(keys)
    }

    async fn write(&self, write: &Write) -> Result<ConsumedUnits, WriteError> {
        self.write_now(write)
    }

    async fn transact(&self, writes: &[Write]) -> Result<ConsumedUnits, TransactError> {
        self.transact_now(writes)
    }

    async fn query_index(&self, query: &IndexQuery) -> Result<IndexPage, Error> {
        self.query_index_now(query)
    }
}
