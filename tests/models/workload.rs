//! A workload written by hand: changes of items as an application makes them, the records that follow, and their effects.

use std::collections::BTreeMap;
use std::sync::Arc;

use afterwrite_memory::MemoryObjects;
use afterwrite_model::entity::SourceKey;
use afterwrite_model::projection::{
    Event, EventChange, RecordImages, SecretAttributes, StaleCaches, archive_line, datasets_of,
    decode_old_image, events_of, rows,
};
use afterwrite_model::record::{AttributePath, AttributeValue, ChangeRecord, RecordDecoder, Timestamp};
use afterwrite_model::table::{Model, Operand};
use afterwrite_tests::change_record::{expired, stream_record};
use afterwrite_tests::datasets::{TextRow, export, gzip, rows_of};
use serde_json::{Map, Value};

use super::delivery::{DeliveredWorkload, DeliveryOrder, ItemsByKey};
use super::values::{attributes, dynamodb_json, plain_value};

/// The time of all changes.
const CHANGED_AT: &str = "2026-02-07T00:00:00Z";

/// An attribute that a table must show: table, key of the item, path of the attribute, and its value.
pub(crate) type ShownAttribute<'s> = (&'s str, Value, &'s str, Option<Value>);

/// Changes of the items of one model's tables.
pub(crate) struct TableWorkload {
    pub(crate) model: Arc<Model>,
    /// The items as they are now, by table and key.
    items: BTreeMap<(String, String), Value>,
    /// The records so far, with their tables.
    records: Vec<(String, Value)>,
}

impl TableWorkload {
    pub(crate) fn of(model: &str) -> Self {
        Self::of_model(Model::load(model).unwrap_or_else(|error| panic!("{error}")))
    }

    pub(crate) fn of_model(model: Model) -> Self {
        Self { model: Arc::new(model), items: BTreeMap::new(), records: Vec::new() }
    }

    /// Writes an item, given as plain JSON: an INSERT or a MODIFY.
    pub(crate) fn put(&mut self, table: &str, item: Value) -> &mut Self {
        self.change(table, &item.clone(), Some(item), false)
    }

    /// Deletes the item of this key.
    pub(crate) fn remove(&mut self, table: &str, key: Value) -> &mut Self {
        self.change(table, &key, None, false)
    }

    /// Deletes the item of this key by time to live.
    pub(crate) fn expire(&mut self, table: &str, key: Value) -> &mut Self {
        self.change(table, &key, None, true)
    }

    fn change(&mut self, table: &str, keyed: &Value, new: Option<Value>, is_expiry: bool) -> &mut Self {
        let schema = self.model.tables.iter().find(|known| *known.name == *table).expect("a table");
        let keys: Map<String, Value> =
            schema.key().map(|key| (key.name.to_string(), dynamodb_json(&keyed[&*key.name]))).collect();
        let item_id = (table.to_owned(), Value::Object(keys).to_string());
        let old = match &new {
            Some(new) => self.items.insert(item_id, new.clone()),
            None => Some(self.items.remove(&item_id).expect("only an existing item is deleted")),
        };
        let number = format!("{:025}", self.records.len() + 1);
        let stream =
            format!("arn:aws:dynamodb:eu-west-1:000000000000:table/{table}/stream/2026-01-01T00:00:00.000");
        let key_names: Vec<&str> = schema.key().map(|key| &*key.name).collect();
        let image = |item: &Option<Value>| item.as_ref().map(|item| dynamodb_json(item)["M"].clone());
        let (old, new) = (image(&old), image(&new));
        let change = (number.as_str(), time(CHANGED_AT).epoch_seconds());
        let record = stream_record(&stream, &key_names, change, (old.as_ref(), new.as_ref()));
        let record = if is_expiry { expired(record) } else { record };
        self.records.push((table.to_owned(), record));
        self
    }

    /// The cache keys that the last change makes stale. It must make no path stale.
    pub(crate) fn stale(&self) -> Vec<String> {
        let stale = self.all_stale();
        assert_eq!(stale.paths().len(), 0);
        stale.keys().map(|stale| stale.key).collect()
    }

    /// The cache keys and the paths that the last change makes stale.
    pub(crate) fn all_stale(&self) -> StaleCaches {
        let line = self.last();
        let record = RecordDecoder::new(&self.model.attributes).record(line.as_bytes()).expect("a record");
        let old = record.old.decode(&self.model.attributes).expect("an image");
        let source = self.source(&record);
        let mut stale = StaleCaches::default();
        stale.add(&source.candidates(&self.model), 0, (old.as_ref(), record.new.as_ref()));
        stale
    }

    /// The events of the last change.
    pub(crate) fn events(&self) -> Vec<Event> {
        let (table, record) = self.records.last().expect("a change");
        let table = self.model.tables.iter().position(|known| *known.name == **table).expect("a table");
        self.events_of(table, record)
    }

    /// The events of a record of a table.
    pub(crate) fn events_of(&self, table: usize, record: &Value) -> Vec<Event> {
        let line = record.to_string();
        let record = RecordDecoder::new(&self.model.attributes).record(line.as_bytes()).expect("a record");
        let source = SourceKey::of_keys(&self.model, table, &record.keys).expect("a key of the table");
        let candidates = source.candidates(&self.model);
        let change =
            EventChange { source: &source, candidates: Some(&candidates), record: &record, json: &line };
        events_of(&self.model, &change, &SecretAttributes::new(&self.model)).expect("events")
    }

    /// The rows of the last change: `dataset day OPERATION`, and the columns with a text or a number.
    pub(crate) fn rows(&self) -> Vec<(String, BTreeMap<String, String>)> {
        let line = self.last();
        let record =
            RecordDecoder::new(&self.model.row_attributes).record(line.as_bytes()).expect("a record");
        let source = self.source(&record);
        let candidates = source.candidates(&self.model);
        let old = decode_old_image(&candidates, &record).expect("an image");
        let images = RecordImages { new: record.new.as_ref(), old: old.as_ref() };
        let mut all = Vec::new();
        for (_, dataset) in datasets_of(&candidates) {
            for row in rows(dataset, &candidates, &record, images) {
                let columns = dataset.columns.iter().filter_map(|column| {
                    let value = match row.value(&column.from)? {
                        Operand::Text(text) => text.into_owned(),
                        Operand::Value(AttributeValue::S(text)) => text.to_string(),
                        Operand::Value(AttributeValue::N(number)) => number.to_string(),
                        Operand::Number(number) => number.to_string(),
                        Operand::Value(_) | Operand::Ratio { .. } => return None,
                    };
                    Some((column.name.to_string(), value))
                });
                let columns = columns.collect();
                all.push((format!("{} {} {}", dataset.name, row.day, row.operation.name()), columns));
            }
        }
        all
    }

    /// Asserts that the last change is one row, of this dataset, day and operation.
    pub(crate) fn assert_row(&self, expected: &str) {
        let rows: Vec<String> = self.rows().into_iter().map(|(row, _)| row).collect();
        assert_eq!(rows, [expected]);
    }

    /// The archive lines of all changes.
    pub(crate) fn archive(&self) -> String {
        let paths = self.model.entities.iter().flat_map(|entity| &entity.secrets);
        let secrets: Vec<AttributePath> = paths.cloned().collect();
        let line =
            |(_, record): &(String, Value)| archive_line(&record.to_string(), &secrets).expect("a line");
        self.records.iter().map(line).collect()
    }

    /// Exports the archive, and returns the rows of each dataset as text. Every value must fit its column.
    pub(crate) async fn exported(&self) -> BTreeMap<String, Vec<TextRow>> {
        let bucket = Arc::new(MemoryObjects::default());
        let object = ("archive/dt=2026-02-07/hh=00/1.gz".to_owned(), gzip(&self.archive()));
        for tally in export(&self.model, &bucket, &[object].into()).await {
            assert_eq!((tally.rejected, tally.rescued, tally.unmatched), (0, 0, 0));
        }
        let mut exported: BTreeMap<String, Vec<TextRow>> = BTreeMap::new();
        for (name, file) in bucket.objects() {
            let file_of = name.strip_prefix("datasets/").and_then(|rest| rest.split_once("_log/dt="));
            if let Some((dataset, _)) = file_of {
                exported.entry(dataset.to_owned()).or_default().extend(rows_of(file));
            }
        }
        exported
    }

    /// The record of the last change.
    pub(crate) fn last_record(&self) -> &Value {
        &self.records.last().expect("a change").1
    }

    fn last(&self) -> String {
        self.records.last().expect("a change").1.to_string()
    }

    fn source<'r>(&self, record: &'r ChangeRecord<'_>) -> SourceKey<'r> {
        let table = &self.records.last().expect("a change").0;
        let table = self.model.tables.iter().position(|known| *known.name == **table).expect("a table");
        SourceKey::of_keys(&self.model, table, &record.keys).expect("a key of the table")
    }

    /// Delivers everything in every order, each to tables of its own. At the end, rollups and shown attributes must be the expected ones.
    pub(crate) async fn assert_derived(&self, rollups: &[(&str, &str, Value)], shown: &[ShownAttribute<'_>]) {
        let measures =
            |measures| attributes(measures).into_iter().map(|(name, value)| (name.into_owned(), value));
        let expected: ItemsByKey = rollups
            .iter()
            .map(|(partition, sort, values)| {
                (((*partition).to_owned(), (*sort).to_owned()), measures(values).collect())
            })
            .collect();
        for order in DeliveryOrder::ALL {
            let delivered = self.deliver(order).await;
            assert_eq!(delivered.rollups(), expected, "{order:?}");
            for (table, key, path, value) in shown {
                let actual = delivered.shown(table, key, path);
                assert_eq!(actual, value.as_ref().map(plain_value), "{order:?}: {path} of {key}");
            }
        }
    }

    /// The failures of the last change, which cannot be counted.
    pub(crate) async fn failures(&self) -> String {
        let record = &self.records.last().expect("a change").1;
        let failures = self.consumer().failures(record).await;
        assert!(!failures.is_empty());
        format!("{failures:?}")
    }

    /// Delivers all records in this order, table by table. Each must be of an entity.
    pub(crate) async fn deliver(&self, order: DeliveryOrder) -> DeliveredWorkload {
        self.deliver_to(self.consumer(), order).await
    }

    /// The same; items may be of no entity for a while.
    pub(crate) async fn deliver_moving(&self, order: DeliveryOrder) -> DeliveredWorkload {
        self.deliver_to(self.consumer().accepting_unmatched(), order).await
    }

    async fn deliver_to(&self, consumer: DeliveredWorkload, order: DeliveryOrder) -> DeliveredWorkload {
        for table in &self.model.tables {
            let of_table = self.records.iter().filter(|(name, _)| **name == *table.name);
            let records: Vec<&Value> = of_table.map(|(_, record)| record).collect();
            consumer.deliver(&records, order).await;
        }
        consumer
    }

    /// A consumer whose source tables hold the final items, as after a pause of the consumer.
    pub(crate) fn consumer(&self) -> DeliveredWorkload {
        let items = self.items.iter().map(|((table, _), item)| (table.as_str(), attributes(item)));
        DeliveredWorkload::new(&self.model, items)
    }
}

pub(crate) fn time(text: &str) -> Timestamp {
    Timestamp::parse(text).expect("a time")
}

/// The time `days` days later, in epoch seconds.
pub(crate) fn days_after(days: i64, text: &str) -> i64 {
    time(text).epoch_seconds() + days * 86_400
}
