//! An application's items in memory, as they are in a file.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use afterwrite_input::item_json::ItemJson;
use afterwrite_ledger::tables::{
    ConsumedUnits, IndexPage, IndexQuery, PartialRead, ReadSnapshot, Tables, TransactError, WriteError,
};
use afterwrite_model::effect::condition::equal;
use afterwrite_model::effect::{ItemKey, KeyAttribute, Write, WriteRefusal};
use afterwrite_model::entity::SourceKey;
use afterwrite_model::record::{Item, RecordDecoder, Timestamp};
use afterwrite_model::table::{KeySchema, Model};
use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_services::dynamodb::missing_table;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::stored_key::StoredKey;

/// The source tables of a model, with items in memory, and an empty state table. They are only read; [`super::OverlayTables`] keeps
/// the writes.
///
/// Lookups also find deleted items: a record may need the lookup of an item that a later record removes.
#[derive(Debug)]
pub struct SourceItems {
    model: Arc<Model>,
    names: Vec<Arc<str>>,
    state_table: Arc<str>,
    items: BTreeMap<StoredKey, KnownItem>,
    now: Timestamp,
}

#[derive(Debug)]
struct KnownItem {
    table: usize,
    last: Item,
    is_deleted: bool,
}

impl SourceItems {
    /// No items. `names` has the deployed name of each of [`Model::tables`]; `now` is the time that reads return.
    #[must_use]
    pub fn new(model: Arc<Model>, names: Vec<Arc<str>>, state_table: Arc<str>, now: Timestamp) -> Self {
        Self { model, names, state_table, items: BTreeMap::new(), now }
    }

    /// Puts an item into a table: an index into [`Model::tables`].
    ///
    /// # Errors
    /// `Configuration` if the item lacks a key attribute of the table.
    pub fn put(&mut self, table: usize, item: Item) -> Result<()> {
        self.set(table, item, false)
    }

    /// Deletes an item; `last` is its state before.
    ///
    /// # Errors
    /// As [`SourceItems::put`].
    pub fn delete(&mut self, table: usize, last: Item) -> Result<()> {
        self.set(table, last, true)
    }

    /// Puts an item that is written as JSON: an item, plainly or in DynamoDB's JSON, or `{"table": NAME, "item": …}`. Without a table, it is
    /// put where it matches an entity, or else into the first table whose key it has.
    ///
    /// # Errors
    /// `Configuration` if the text is not an item of one of the model's tables.
    pub fn put_json(&mut self, text: &str) -> Result<PlacedItem> {
        let of_table: Option<ItemOfTable<'_>> = serde_json::from_str(text).ok();
        let (named, text) = of_table.map_or((None, text), |named| (Some(named.table), named.item.get()));
        let (json, item) = ItemJson::read(text)?;
        let table = self.table_of(named, &item)?;
        self.put(table, item)?;
        Ok(PlacedItem { table, json })
    }

    /// Adds the images of a change record, so that lookups find its item. A record of another table is ignored.
    ///
    /// # Errors
    /// As [`SourceItems::put`].
    pub fn add_images(&mut self, record: &str) -> Result<()> {
        let decoded = RecordDecoder::new(&self.model.attributes).record(record.as_bytes()).ok();
        let table = decoded.and_then(|record| self.model.table_deployed_as(&self.names, &record.table));
        let (Some(images), Some(table)) = (images_of(record), table) else { return Ok(()) };
        match images {
            (_, Some(new)) => self.put(table, new),
            (Some(old), None) => self.delete(table, old),
            (None, None) => Ok(()),
        }
    }

    fn table_of(&self, named: Option<&str>, item: &Item) -> Result<usize> {
        let tables = || self.model.tables.iter().enumerate();
        if let Some(named) = named {
            let index = tables().find(|(_, table)| *table.name == *named).map(|(index, _)| index);
            return index.ok_or_else(|| {
                invalid("an item is of a table that the model does not have").with("table", named)
            });
        }
        // Rollups are items of the state table; they are not given.
        let given = tables().filter(|(_, table)| !table.is_state());
        let keyed = given.filter_map(|(index, _)| {
            let source = SourceKey::of_item(&self.model, index, item)?;
            Some((index, !source.candidates(&self.model).is_empty()))
        });
        let keyed: Vec<(usize, bool)> = keyed.collect();
        let matching = keyed.iter().find(|(_, is_entity)| *is_entity).or(keyed.first());
        matching.map(|(index, _)| *index).ok_or_else(|| {
            invalid("an item is of no table of the model")
                .hint("Name its table: {\"table\": \"NAME\", \"item\": {…}}")
        })
    }

    /// The items that are not deleted: the table, an index into [`Model::tables`], and the item.
    pub fn current(&self) -> impl Iterator<Item = (usize, &Item)> {
        self.items.values().filter(|item| !item.is_deleted).map(|item| (item.table, &item.last))
    }

    fn set(&mut self, table: usize, item: Item, is_deleted: bool) -> Result<()> {
        let key = self.key_of(table, &item).ok_or_else(|| {
            let schema = self.model.tables.get(table);
            Error::new(ErrorKind::Configuration, "an item lacks a key attribute of its table")
                .with("table", schema.map_or("", |table| &table.name))
                .with("key", schema.map(|table| table.describe().join(", ")).unwrap_or_default())
        })?;
        self.items.insert(StoredKey::of(&key), KnownItem { table, last: item, is_deleted });
        Ok(())
    }

    fn read_where(&self, keys: &[ItemKey], is_shown: impl Fn(&KnownItem) -> bool) -> Result<ReadSnapshot> {
        let mut items = Vec::with_capacity(keys.len());
        for key in keys {
            if key.table != self.state_table && !self.names.contains(&key.table) {
                return Err(missing_table(&key.table));
            }
            let known = self.items.get(&StoredKey::of(key)).filter(|item| is_shown(item));
            items.push(known.map(|item| item.last.clone()));
        }
        Ok(ReadSnapshot { items, server_time: self.now })
    }

    fn key_of(&self, table: usize, item: &Item) -> Option<ItemKey> {
        let schema = self.model.tables.get(table)?;
        let attribute = |key: &KeySchema| {
            let value = item.get(&*key.name)?.clone();
            Some(KeyAttribute { name: Arc::clone(&key.name), value })
        };
        let partition = attribute(&schema.partition_key)?;
        let sort = match &schema.sort_key {
            Some(key) => Some(attribute(key)?),
            None => None,
        };
        Some(ItemKey { table: Arc::clone(self.names.get(table)?), partition, sort })
    }
}

/// An item that was put, and its table: an index into [`Model::tables`].
#[derive(Debug)]
pub struct PlacedItem {
    /// The table.
    pub table: usize,
    /// The item.
    pub json: ItemJson,
}

/// An item with its table, if the item alone does not determine it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ItemOfTable<'f> {
    table: &'f str,
    #[serde(borrow)]
    item: &'f RawValue,
}

/// The old and the new image of a change record, as its `eventName` has them; `None` if the text is not one.
#[must_use]
pub fn images_of(record: &str) -> Option<(Option<Item>, Option<Item>)> {
    let RecordImages { event_name, dynamodb } = serde_json::from_str(record).ok()?;
    let item = |image: &RawValue| ItemJson::parse(image.get()).and_then(|image| image.to_item().ok());
    let old = dynamodb.old.filter(|_| event_name.as_deref() != Some("INSERT"));
    let new = dynamodb.new.filter(|_| event_name.as_deref() != Some("REMOVE"));
    Some((old.and_then(item), new.and_then(item)))
}

/// The images of a record as JSON.
#[derive(Deserialize)]
struct RecordImages<'r> {
    #[serde(borrow, rename = "eventName")]
    event_name: Option<Cow<'r, str>>,
    #[serde(borrow)]
    dynamodb: ChangeImages<'r>,
}

#[derive(Deserialize)]
struct ChangeImages<'r> {
    #[serde(borrow, rename = "NewImage")]
    new: Option<&'r RawValue>,
    #[serde(borrow, rename = "OldImage")]
    old: Option<&'r RawValue>,
}

fn invalid(message: &str) -> Error {
    Error::new(ErrorKind::Configuration, message)
}

impl Tables for SourceItems {
    async fn read(&self, keys: &[ItemKey]) -> Result<ReadSnapshot> {
        self.read_where(keys, |item| !item.is_deleted)
    }

    async fn read_looked_up(&self, keys: &[ItemKey]) -> Result<PartialRead> {
        self.read_where(keys, |_| true).map(PartialRead::from)
    }

    async fn write(&self, _write: &Write) -> Result<ConsumedUnits, WriteError> {
        Err(WriteError::Refused(read_only()))
    }

    async fn transact(&self, writes: &[Write]) -> Result<ConsumedUnits, TransactError> {
        Err(TransactError::Cancelled(writes.iter().map(|_| Some(read_only())).collect()))
    }

    async fn query_index(&self, query: &IndexQuery) -> Result<IndexPage> {
        let table = self.names.iter().position(|name| *name == query.table);
        let has = |item: &Item, attribute: &KeyAttribute| {
            item.get(&*attribute.name).is_some_and(|value| equal(value, &attribute.value))
        };
        let of_table = self.items.values().filter(|item| Some(item.table) == table);
        let found = of_table.filter(|item| query.key.iter().all(|attribute| has(&item.last, attribute)));
        Ok(IndexPage { items: found.map(|item| item.last.clone()).collect(), next: None })
    }
}

fn read_only() -> WriteRefusal {
    WriteRefusal::Invalid("the items of a file cannot be written".to_owned())
}
