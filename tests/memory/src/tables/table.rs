//! One stored table: checks a write, then carries it out.

use std::collections::BTreeMap;
use std::ops::Bound;

use afterwrite_ledger::tables::{IndexPage, IndexQuery, MAX_ITEM_BYTES, item_bytes, write_units};
use afterwrite_model::Error;
use afterwrite_model::effect::update::{self as change, InvalidUpdate};
use afterwrite_model::effect::{ItemKey, KeyAttribute, Write, WriteAction, WriteRefusal, condition};
use afterwrite_model::record::{AttributeValue, Decimal, Item, Timestamp};
use afterwrite_services::dynamodb::key_schema_mismatch;

use super::definition::{IndexKeySchema, KeyDefinition, TableDefinition};

const MAX_PARTITION_KEY_BYTES: usize = 2048;
const MAX_SORT_KEY_BYTES: usize = 1024;

const EMPTY_KEY: InvalidUpdate = "a key attribute with an empty value";
const KEY_TOO_LONG: InvalidUpdate =
    "a partition key of more than 2048 bytes, or a sort key of more than 1024";
const KEY_UPDATED: InvalidUpdate = "an update of an attribute that is part of the key";
const INDEX_KEY: InvalidUpdate = "an index's key attribute of a wrong type";
const EMPTY_INDEX_KEY: InvalidUpdate = "an index's key attribute with an empty value";
const TOO_LARGE: InvalidUpdate = "an item of more than 400 KB";
const EMPTY_UPDATE: InvalidUpdate = "an update without a change";

/// The value of a key attribute, in DynamoDB's order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum KeyValue {
    Number(Decimal),
    Text(String),
    Binary(Vec<u8>),
}

/// The primary key of a stored item.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct StoredKey(KeyValue, Option<KeyValue>);

/// Why a write cannot be carried out.
pub(super) enum StoreFault {
    /// The write is refused; the attempt costs this many write units.
    Refused(WriteRefusal, u64),
    /// The request is invalid whatever is stored; a transaction that contains it is rejected as a whole.
    Request(InvalidUpdate),
    /// The table does not exist, or has other keys.
    Failed(Error),
}

impl From<InvalidUpdate> for StoreFault {
    fn from(invalid: InvalidUpdate) -> Self {
        Self::Refused(WriteRefusal::Invalid(invalid.to_owned()), 0)
    }
}

/// A write that passed all checks.
pub(super) struct CheckedWrite {
    pub(super) key: StoredKey,
    new: Option<Item>,
    /// Write units of the table outside a transaction.
    pub(super) table_units: u64,
    /// Write units of the indexes; a transaction does not double them.
    pub(super) index_units: u64,
}

/// One change of an item, as in the table's stream.
#[derive(Clone, Debug, PartialEq)]
pub struct ItemChange {
    /// The item's key.
    pub key: ItemKey,
    /// The item before; `None` if it did not exist.
    pub old: Option<Item>,
    /// The item after; `None` if it was deleted.
    pub new: Option<Item>,
    /// The time of the change.
    pub time: Timestamp,
    /// Whether the service deleted the item because its time to live had passed.
    pub is_expiry: bool,
}

pub(super) struct StoredTable {
    pub(super) definition: TableDefinition,
    items: BTreeMap<StoredKey, Item>,
    pub(super) changes: Vec<ItemChange>,
}

impl StoredTable {
    pub(super) fn new(definition: TableDefinition) -> Self {
        Self { definition, items: BTreeMap::new(), changes: Vec::new() }
    }

    pub(super) fn items(&self) -> impl Iterator<Item = &Item> {
        self.items.values()
    }

    /// The items with keys after `start`, in key order, each with the partition key's value as text.
    pub(super) fn items_after(&self, start: Option<&StoredKey>) -> impl Iterator<Item = (String, &Item)> {
        let start = start.map_or(Bound::Unbounded, Bound::Excluded);
        self.items
            .range::<StoredKey, _>((start, Bound::Unbounded))
            .map(|(key, item)| (format!("{:?}", key.0), item))
    }

    pub(super) fn get(&self, key: &ItemKey) -> Result<Option<&Item>, StoreFault> {
        Ok(self.items.get(&self.locate(key)?))
    }

    /// The stored form of a key, if the table's key schema and limits allow it.
    pub(super) fn locate(&self, key: &ItemKey) -> Result<StoredKey, StoreFault> {
        let schema = &self.definition.keys;
        let is_as_defined = matches(&schema.partition, &key.partition)
            && match (&schema.sort, &key.sort) {
                (None, None) => true,
                (Some(definition), Some(attribute)) => matches(definition, attribute),
                _ => false,
            };
        if !is_as_defined {
            return Err(StoreFault::Failed(key_schema_mismatch(key)));
        }
        let partition = bounded_value(&key.partition, MAX_PARTITION_KEY_BYTES)?;
        let sort = key.sort.as_ref().map(|sort| bounded_value(sort, MAX_SORT_KEY_BYTES)).transpose()?;
        Ok(StoredKey(partition, sort))
    }

    /// Checks a write against the stored item, without carrying it out.
    pub(super) fn check(&self, write: &Write) -> Result<CheckedWrite, StoreFault> {
        let put = check_request(write)?;
        let key = self.locate(&write.key)?;
        let stored = self.items.get(&key);
        if let Some(item) = &put {
            self.check_index_keys(item)?;
        }
        let after = self.after(write, put, stored);
        if !condition::holds(&write.condition, stored) {
            // A failed condition costs as much as the write.
            let units = table_units(stored, after.ok().flatten().as_ref());
            return Err(StoreFault::Refused(WriteRefusal::Condition(stored.cloned()), units));
        }
        let new = after?;
        let index_units =
            self.definition.indexes.iter().map(|index| index_units(&index.keys, stored, new.as_ref())).sum();
        Ok(CheckedWrite { key, table_units: table_units(stored, new.as_ref()), index_units, new })
    }

    /// The item after the write, `None` if it is deleted; `put` is the item of a `Put`.
    fn after(
        &self,
        write: &Write,
        put: Option<Item>,
        stored: Option<&Item>,
    ) -> Result<Option<Item>, StoreFault> {
        let changes = match &write.action {
            WriteAction::Put(_) => return Ok(put),
            WriteAction::Delete => return Ok(None),
            WriteAction::Update(changes) => changes,
        };
        let is_key = |change| self.definition.keys.contains(change::path_of(change).root());
        if changes.iter().any(is_key) {
            return Err(KEY_UPDATED.into());
        }
        let Some(item) = write.after(stored)? else { return Ok(None) };
        self.check_index_keys(&item)?;
        if item_bytes(&item) > MAX_ITEM_BYTES {
            return Err(TOO_LARGE.into());
        }
        Ok(Some(item))
    }

    fn check_index_keys(&self, item: &Item) -> Result<(), StoreFault> {
        for key in self.definition.indexes.iter().flat_map(|index| index.keys.definitions()) {
            let Some(value) = item.get(key.name.as_str()) else { continue };
            if !key.key_type.admits(value) {
                return Err(INDEX_KEY.into());
            }
            if key_value(value).is_some_and(|(_, bytes)| bytes == 0) {
                return Err(StoreFault::Request(EMPTY_INDEX_KEY));
            }
        }
        Ok(())
    }

    /// Carries out a write that was checked against the current items.
    pub(super) fn carry_out(&mut self, key: &ItemKey, checked: CheckedWrite, time: Timestamp) {
        self.replace(key, checked.key, checked.new, time, false);
    }

    /// Deletes an item as the service does when its time to live has passed.
    pub(super) fn expire(&mut self, key: &ItemKey, time: Timestamp) -> Result<Option<Item>, StoreFault> {
        let stored_key = self.locate(key)?;
        Ok(self.replace(key, stored_key, None, time, true))
    }

    fn replace(
        &mut self,
        key: &ItemKey,
        stored_key: StoredKey,
        new: Option<Item>,
        time: Timestamp,
        is_expiry: bool,
    ) -> Option<Item> {
        let old = match &new {
            Some(item) => self.items.insert(stored_key, item.clone()),
            None => self.items.remove(&stored_key),
        };
        // A write that changes nothing does not appear in the stream.
        if self.definition.has_stream && old != new {
            self.changes.push(ItemChange { key: key.clone(), old: old.clone(), new, time, is_expiry });
        }
        old
    }
}

/// Checks a write without looking at the stored item; returns the item of a `Put`, with its key.
fn check_request(write: &Write) -> Result<Option<Item>, StoreFault> {
    write.check().map_err(StoreFault::Request)?;
    match &write.action {
        WriteAction::Put(item) => {
            let mut item = write.key.keyed(item.clone());
            change::normalized(&mut item).map_err(StoreFault::Request)?;
            if item_bytes(&item) > MAX_ITEM_BYTES {
                return Err(StoreFault::Request(TOO_LARGE));
            }
            Ok(Some(item))
        }
        WriteAction::Update(changes) => {
            if changes.is_empty() {
                return Err(StoreFault::Request(EMPTY_UPDATE));
            }
            Ok(None)
        }
        WriteAction::Delete => Ok(None),
    }
}

fn matches(definition: &KeyDefinition, attribute: &KeyAttribute) -> bool {
    *definition.name == *attribute.name && definition.key_type.admits(&attribute.value)
}

fn bounded_value(attribute: &KeyAttribute, max_bytes: usize) -> Result<KeyValue, StoreFault> {
    match key_value(&attribute.value) {
        Some((_, 0)) | None => Err(StoreFault::Request(EMPTY_KEY)),
        Some((_, bytes)) if bytes > max_bytes => Err(StoreFault::from(KEY_TOO_LONG)),
        Some((value, _)) => Ok(value),
    }
}

/// A key attribute's value and its size in bytes; `None` for a type that keys cannot have.
fn key_value(value: &AttributeValue<'_>) -> Option<(KeyValue, usize)> {
    if let AttributeValue::S(text) = value {
        Some((KeyValue::Text(text.clone().into_owned()), text.len()))
    } else if let AttributeValue::B(bytes) = value {
        Some((KeyValue::Binary(bytes.clone().into_owned()), bytes.len()))
    } else {
        // A number is neither empty nor too long for a key.
        value.as_number().map(|number| (KeyValue::Number(number.clone()), size_of::<u8>()))
    }
}

/// The write units of the larger of the item before and after the write.
fn table_units(old: Option<&Item>, new: Option<&Item>) -> u64 {
    let bytes = [old, new].into_iter().flatten().map(item_bytes).max();
    write_units(bytes.unwrap_or(0))
}

/// The cost of maintaining an index: nothing if its entry does not change; one write if the entry is new, deleted or changed; two
/// writes if it moves to another key.
fn index_units(keys: &IndexKeySchema, old: Option<&Item>, new: Option<&Item>) -> u64 {
    fn entry<'i>(
        keys: &IndexKeySchema,
        item: Option<&'i Item>,
    ) -> Option<(Vec<&'i AttributeValue<'static>>, &'i Item)> {
        let item = item?;
        let values = keys.definitions().map(|key| item.get(key.name.as_str())).collect::<Option<Vec<_>>>()?;
        Some((values, item))
    }
    let units = |item: &Item| write_units(item_bytes(item));
    match (entry(keys, old), entry(keys, new)) {
        (None, None) => 0,
        (None, Some((_, item))) | (Some((_, item)), None) => units(item),
        (Some((_, old)), Some((_, new))) if old == new => 0,
        (Some((old_key, old)), Some((new_key, new))) if old_key == new_key => units(old).max(units(new)),
        (Some((_, old)), Some((_, new))) => units(old) + units(new),
    }
}

/// A page of the items of an index with the query's key values, in the order of its sort key.
pub(super) fn index_page(table: &StoredTable, keys: &IndexKeySchema, query: &IndexQuery) -> IndexPage {
    let has_value = |item: &Item, attribute: &KeyAttribute| {
        item.get(&*attribute.name).is_some_and(|value| condition::equal(value, &attribute.value))
    };
    let is_entry = |item: &Item| keys.definitions().all(|key| item.contains_key(key.name.as_str()));
    let is_found =
        |item: &&Item| is_entry(item) && query.key.iter().all(|attribute| has_value(item, attribute));
    let position = |item: &Item| index_position(table, keys, item);
    let start = query.start_after.as_ref().map(position);
    let mut found: Vec<&Item> = table.items().filter(is_found).collect();
    found.retain(|item| start.as_ref().is_none_or(|start| position(item) > *start));
    found.sort_by_cached_key(|item| position(item));
    let limit = usize::from(query.page_items);
    found.truncate(limit);
    // As in DynamoDB, a full page has a next one, which may be empty.
    let last = found.last().filter(|_| found.len() == limit);
    let next = last.map(|last| IndexQuery { start_after: Some((*last).clone()), ..query.clone() });
    IndexPage { items: found.into_iter().cloned().collect(), next }
}

/// The position of an item in an index: the value of the index's sort key, then those of the table's keys.
fn index_position(table: &StoredTable, keys: &IndexKeySchema, item: &Item) -> Vec<Option<KeyValue>> {
    let names = keys.sorted().chain(table.definition.keys.definitions());
    names.map(|key| item.get(key.name.as_str()).and_then(key_value).map(|(value, _)| value)).collect()
}
