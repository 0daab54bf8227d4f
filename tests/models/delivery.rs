//! A consumer that a workload is delivered to, on tables in memory, and the results that it leaves there.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use afterwrite_functions::{AggregatedBatch, FailedRecord, StreamAggregator};
use afterwrite_ledger::Ledger;
use afterwrite_memory::{self, KeyDefinition, MemoryTables, TableDefinition};
use afterwrite_model::clock::Clock as _;
use afterwrite_model::effect::{ItemKey, KeyAttribute};
use afterwrite_model::record::{AttributeValue, Decimal, Item, Timestamp};
use afterwrite_model::table::{KeySchema, KeyType, Model, Table};
use afterwrite_preview::tables::{ItemDifference, StateStream};
use afterwrite_tests::clock::StillClock;
use serde_json::{Value, json};

use super::values::attributes;

const STATE: &str = "state";
const DELIVERED_AT: &str = "2026-02-07T00:01:00Z";

/// Rollups or items by key, with their numbers and texts.
pub(crate) type ItemsByKey = BTreeMap<(String, String), BTreeMap<String, AttributeValue<'static>>>;

/// The order and the batches in which Lambda may deliver records.
#[derive(Clone, Copy, Debug)]
pub(crate) enum DeliveryOrder {
    OneBatch,
    OneByOne,
    BatchTwice,
    /// Batches of five, each of which begins two records after the one before.
    OverlappingBatches,
    /// One batch, and then every record again, the newest first.
    ThenBackwards,
}

impl DeliveryOrder {
    pub(crate) const ALL: [Self; 5] =
        [Self::OneBatch, Self::OneByOne, Self::BatchTwice, Self::OverlappingBatches, Self::ThenBackwards];

    fn batches<'b, 'v>(self, records: &'b [&'v Value]) -> Vec<&'b [&'v Value]> {
        match self {
            Self::OneBatch => vec![records],
            Self::OneByOne => records.chunks(1).collect(),
            Self::BatchTwice => vec![records, records],
            Self::OverlappingBatches => {
                let batch = |start: usize| &records[start..records.len().min(start + 5)];
                (0..records.len()).step_by(2).map(batch).collect()
            }
            Self::ThenBackwards => [records].into_iter().chain(records.chunks(1).rev()).collect(),
        }
    }
}

/// A consumer with its tables.
pub(crate) struct DeliveredWorkload {
    aggregator: StreamAggregator<MemoryTables, StillClock>,
    /// The stream of the state table, if rollups are sources.
    stream: Mutex<Option<StateStream>>,
    /// The records of that stream so far.
    of_rollups: Mutex<Vec<Value>>,
    /// Whether items may be of no entity.
    accepts_unmatched: bool,
}

impl DeliveredWorkload {
    /// A consumer that has handled nothing; `items` are those of the source tables.
    pub(crate) fn new<'i>(model: &Arc<Model>, items: impl Iterator<Item = (&'i str, Item)>) -> Self {
        let tables = MemoryTables::new();
        tables.create_table(TableDefinition::new(STATE, "PK").sort("SK"));
        for table in model.tables.iter().filter(|table| !table.is_state()) {
            let mut definition =
                TableDefinition::new(table.name.as_ref(), key_definition(&table.partition_key));
            if let Some(key) = &table.sort_key {
                definition = definition.sort(key_definition(key));
            }
            tables.create_table(definition);
        }
        for (table, item) in items {
            tables.put(table, item).expect("an item");
        }
        let name = |table: &Table| if table.is_state() { STATE.into() } else { Arc::clone(&table.name) };
        let names: Vec<Arc<str>> = model.tables.iter().map(name).collect();
        let stream = Mutex::new(StateStream::new(model, &Arc::from(STATE)));
        let clock = StillClock::at(Timestamp::parse(DELIVERED_AT).expect("a time"));
        let ledger = Ledger::new(Arc::clone(model), names, Arc::from(STATE), tables, clock);
        let of_rollups = Mutex::default();
        Self { aggregator: StreamAggregator::new(ledger), stream, of_rollups, accepts_unmatched: false }
    }

    /// The same consumer; items may be of no entity.
    pub(crate) fn accepting_unmatched(self) -> Self {
        Self { accepts_unmatched: true, ..self }
    }

    pub(crate) fn tables(&self) -> &MemoryTables {
        self.aggregator.ledger().tables()
    }

    /// Delivers records, all of which must be counted.
    pub(crate) async fn deliver(&self, records: &[&Value], order: DeliveryOrder) {
        for batch in order.batches(records).into_iter().filter(|batch| !batch.is_empty()) {
            let handled = self.handle(batch).await;
            assert!(handled.failures.is_empty(), "{:?}", handled.failures);
            assert!(self.accepts_unmatched || handled.unmatched == 0);
            self.follow().await;
        }
    }

    /// Delivers the changes of rollups that are sources, level by level.
    async fn follow(&self) {
        loop {
            let records = self.changes_of_rollups();
            if records.is_empty() {
                return;
            }
            let handled = self.handle(&records.iter().collect::<Vec<_>>()).await;
            assert!(handled.failures.is_empty() && handled.unmatched == 0, "{:?}", handled.failures);
            self.of_rollups.lock().expect("records").extend(records);
        }
    }

    /// All records of rollups that are sources.
    pub(crate) fn rollup_records(&self) -> Vec<Value> {
        self.of_rollups.lock().expect("records").clone()
    }

    /// The records of rollups that are sources since the last call.
    fn changes_of_rollups(&self) -> Vec<Value> {
        let now = self.aggregator.ledger().clock().now();
        let mut stream = self.stream.lock().expect("a stream");
        let records = stream.as_mut().map(|stream| stream.records(self.written_items(), now));
        // All streams of a state table are of one region.
        let regional = |record: String| record.replace("arn:aws:dynamodb::", "arn:aws:dynamodb:eu-west-1:");
        let records = records.unwrap_or_default().into_iter().map(regional);
        records.map(|record| serde_json::from_str(&record).expect("a record")).collect()
    }

    /// The items of the state table, as if none had been there before.
    fn written_items(&self) -> Vec<ItemDifference> {
        let attribute =
            |item: &Item, name: &str| KeyAttribute { name: name.into(), value: item[name].clone() };
        let items = self.tables().scan(STATE).into_iter().map(|item| {
            let (partition, sort) = (attribute(&item, "PK"), Some(attribute(&item, "SK")));
            ItemDifference::new(ItemKey { table: STATE.into(), partition, sort }, None, Some(item))
        });
        items.collect()
    }

    /// Delivers one record, and returns why it cannot be counted.
    pub(crate) async fn failures(&self, record: &Value) -> Vec<FailedRecord> {
        self.handle(&[record]).await.parked
    }

    async fn handle(&self, records: &[&Value]) -> AggregatedBatch {
        let event = json!({ "Records": records }).to_string();
        let handled = self.aggregator.handle(event.as_bytes(), Timestamp::from_epoch_ms(i64::MAX)).await;
        handled.unwrap_or_else(|error| panic!("{error}"))
    }

    /// Every rollup with its nonzero measures and `expires_at`. The shards of a rollup are summed.
    pub(crate) fn rollups(&self) -> ItemsByKey {
        let mut rollups = ItemsByKey::new();
        for item in self.tables().scan(STATE) {
            if item.get("EntityType").and_then(AttributeValue::as_text) != Some("ROLLUP") {
                continue;
            }
            let text = |name: &str| item[name].as_text().expect("a key").to_owned();
            let (partition, sort) = (text("PK"), text("SK"));
            let partition = partition.split_once("#SHARD#").map_or(&*partition, |(whole, _)| whole);
            let rollup = rollups.entry((partition.to_owned(), sort)).or_default();
            for (name, value) in item.into_iter().map(|(name, value)| (name.into_owned(), value)) {
                let is_own = ["PK", "SK", "EntityType", "rev", "updated_at"].contains(&&*name);
                if is_own || name.starts_with("settled_") {
                    continue;
                }
                let sum = match (rollup.get(&name).and_then(AttributeValue::as_number), value.as_number()) {
                    (Some(so_far), Some(more)) => AttributeValue::N(so_far.plus(more).expect("a sum")),
                    _ => value,
                };
                rollup.insert(name, sum);
            }
        }
        for measures in rollups.values_mut() {
            measures.retain(|_, value| !value.as_number().is_some_and(Decimal::is_zero));
        }
        rollups.retain(|_, measures| measures.keys().any(|name| name != "expires_at"));
        rollups
    }

    /// The number of items of a sharded rollup.
    pub(crate) fn shards(&self, partition: &str) -> usize {
        let prefix = format!("{partition}#SHARD#");
        let is_shard = |item: &&Item| item["PK"].as_text().is_some_and(|key| key.starts_with(&prefix));
        self.tables().scan(STATE).iter().filter(is_shard).count()
    }

    /// The value at a path of an item.
    pub(crate) fn shown(&self, table: &str, key: &Value, path: &str) -> Option<AttributeValue<'static>> {
        let key = attributes(key);
        let items = self.tables().scan(table);
        let item = items.iter().find(|item| key.iter().all(|(name, value)| item.get(name) == Some(value)))?;
        let mut names = path.split('.');
        let mut value = item.get(names.next()?)?;
        for name in names {
            let AttributeValue::M(map) = value else { return None };
            value = map.get(name)?;
        }
        Some(value.clone())
    }

    /// The number of items of a table.
    pub(crate) fn count(&self, table: &str) -> usize {
        self.tables().scan(table).len()
    }

    /// A measure of a rollup, as stored.
    pub(crate) fn stored(
        &self,
        partition: &str,
        sort: &str,
        measure: &str,
    ) -> Option<AttributeValue<'static>> {
        self.shown(STATE, &json!({ "PK": partition, "SK": sort }), measure)
    }
}

fn key_definition(key: &KeySchema) -> KeyDefinition {
    let key_type = match key.key_type {
        KeyType::Text => afterwrite_memory::KeyAttributeType::Text,
        KeyType::Number => afterwrite_memory::KeyAttributeType::Number,
        KeyType::Binary => afterwrite_memory::KeyAttributeType::Binary,
    };
    KeyDefinition::new(&*key.name, key_type)
}
