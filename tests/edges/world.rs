//! A closed world: tables in memory whose streams feed the aggregator, which may write to the same tables.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use afterwrite_functions::{AggregatedBatch, FailedRecord, StreamAggregator, StreamRegion};
use afterwrite_ledger::tables::Tables;
use afterwrite_ledger::{CommitOutcome, CommitTotals, ItemRecords, Ledger, PoisonPolicy, SourceItem};
use afterwrite_memory::{IndexDefinition, MemoryTables, TableDefinition};
use afterwrite_model::Error;
use afterwrite_model::effect::ItemKey;
use afterwrite_model::entity::SourceKey;
use afterwrite_model::record::{AttributeValue, Item, Timestamp};
use afterwrite_model::table::Model;
use afterwrite_tests::change_record::{change_record, stream_of};
use afterwrite_tests::clock::StillClock;
use afterwrite_tests::deployment::event;
use afterwrite_tests::sdk_items::item_of_json;
use serde_json::{Value, json};

pub(crate) use afterwrite_memory::item_key as key;

/// The table of the application's items, with keys `PK` and `SK` and the index `GSI1`.
pub(crate) const TABLE: &str = "app";
/// The state table.
pub(crate) const STATE: &str = "state";
/// The time of the world, in epoch seconds.
pub(crate) const NOW: i64 = 1_770_400_000;
/// A deadline of 3 s.
pub(crate) const DEADLINE: Timestamp = Timestamp::from_epoch_seconds(NOW + 3);
/// Rounds of the stream after which a world that still writes is taken to run without end.
const MOST_ROUNDS: usize = 20;

/// An application's table, its stream, and the aggregator that reads it.
pub(crate) struct EdgeWorld {
    pub(crate) tables: Arc<MemoryTables>,
    pub(crate) aggregator: StreamAggregator<Arc<MemoryTables>, StillClock>,
    /// All records so far, in the order of the stream.
    pub(crate) records: Vec<Value>,
    delivered: usize,
}

/// The result of a delivery.
#[derive(Debug, Default)]
pub(crate) struct Delivery {
    /// The errors of the records that were not counted, by sequence number.
    pub(crate) failures: BTreeMap<String, String>,
    /// The errors of the records that were parked, by sequence number.
    pub(crate) parked: BTreeMap<String, String>,
    pub(crate) totals: CommitTotals,
}

impl EdgeWorld {
    /// A world of this model, whose tables are empty.
    pub(crate) fn new(model: &str) -> Self {
        let tables = MemoryTables::new();
        tables.set_time(Timestamp::from_epoch_seconds(NOW));
        tables.create_table(TableDefinition::new(STATE, "PK").sort("SK"));
        let index = IndexDefinition::new("GSI1", "GSI1PK");
        tables.create_table(TableDefinition::new(TABLE, "PK").sort("SK").index(index).streamed());
        Self::over(model, Arc::new(tables))
    }

    /// A world in which records that cannot be counted fail.
    pub(crate) fn failing(model: &str) -> Self {
        let Self { tables, aggregator, .. } = Self::new(model);
        let model = Arc::clone(aggregator.ledger().model());
        Self::of(ledger(model, Arc::clone(&tables)).on_poison(PoisonPolicy::Fail), tables)
    }

    /// The world with an aggregator that knows its region.
    pub(crate) fn in_region(self, region: StreamRegion) -> Self {
        Self { aggregator: self.aggregator.in_region(region), ..self }
    }

    fn over(model: &str, tables: Arc<MemoryTables>) -> Self {
        Self::of(ledger(parsed(model), Arc::clone(&tables)), tables)
    }

    fn of(ledger: EdgeLedger, tables: Arc<MemoryTables>) -> Self {
        Self { tables, aggregator: StreamAggregator::new(ledger), records: Vec::new(), delivered: 0 }
    }

    /// Puts an item, as the application would: its keys, and attributes in DynamoDB's JSON.
    pub(crate) fn put(&mut self, partition: &str, sort: &str, attributes: Value) {
        let mut item = item_of_json(&attributes);
        for (name, key) in [("PK", partition), ("SK", sort)] {
            item.insert(Cow::Borrowed(name), AttributeValue::text(key));
        }
        self.tables.put(TABLE, item).expect("an item");
    }

    /// Sets an attribute of a stored item, as a script that knows nothing of the ledger would.
    pub(crate) fn overwrite(&self, key: &ItemKey, name: &'static str, value: AttributeValue<'static>) {
        let mut item = self.tables.get(key).expect("an item");
        item.insert(Cow::Borrowed(name), value);
        self.tables.put(&key.table, item).expect("an item");
    }

    /// Puts the rollup with the keys `partition` and `ROLLUP` and one attribute.
    pub(crate) fn put_rollup(&self, partition: &str, name: &'static str, value: AttributeValue<'static>) {
        let keys = [("PK", partition), ("SK", "ROLLUP")];
        let keys = keys.map(|(name, key)| (Cow::Borrowed(name), AttributeValue::text(key)));
        let item = keys.into_iter().chain([(Cow::Borrowed(name), value)]).collect();
        self.tables.put(STATE, item).expect("a rollup");
    }

    /// Deletes an item, as TTL does.
    pub(crate) fn expire(&mut self, partition: &str, sort: &str) {
        self.tables.expire(&key(TABLE, partition, sort)).expect("a key");
    }

    /// One item of the application's table.
    pub(crate) fn item(&self, partition: &str, sort: &str) -> Option<Item> {
        self.tables.get(&key(TABLE, partition, sort))
    }

    /// An attribute of an item of the application's table, as a number; a path may lead into maps.
    pub(crate) fn shown(&self, partition: &str, sort: &str, path: &str) -> Option<i64> {
        let item = self.item(partition, sort)?;
        let (root, within) = path.split_once('.').unwrap_or((path, ""));
        let mut value = item.get(root)?;
        for name in within.split('.').filter(|name| !name.is_empty()) {
            let AttributeValue::M(members) = value else { return None };
            value = members.get(name)?;
        }
        value.as_number()?.to_i64()
    }

    /// An attribute of the ledger's item for an item of the application, as text.
    pub(crate) fn entry(&self, partition: &str, sort: &str, attribute: &str) -> Option<String> {
        let item = self.tables.get(&key(STATE, &format!("LEDGER#{TABLE}#{partition}"), sort))?;
        item.get(attribute)?.as_text().map(str::to_owned)
    }

    /// A measure of a rollup.
    pub(crate) fn measure(&self, partition: &str, sort: &str, measure: &str) -> Option<i64> {
        self.tables.get(&key(STATE, partition, sort))?.get(measure)?.as_number()?.to_i64()
    }

    /// The newest records of the stream.
    pub(crate) fn newest(&self, number: usize) -> &[Value] {
        &self.records[self.records.len() - number..]
    }

    /// The remembered lookups.
    pub(crate) fn remembered(&self) -> Vec<Item> {
        let mut items = self.tables.scan(STATE);
        items.retain(|item| {
            item.get("PK").and_then(|key| key.as_text()).is_some_and(|key| key.starts_with("LOOKUP#"))
        });
        items
    }

    /// Takes what was written since the last call into the stream; the number of new records.
    pub(crate) fn stream(&mut self) -> usize {
        let changes = self.tables.take_changes(TABLE);
        let new = changes.len();
        for change in changes {
            let number = format!("{:021}", self.records.len() + 1);
            self.records.push(change_record(&stream_of(TABLE), &number, &change));
        }
        new
    }

    /// Delivers the records that have not been delivered, in one batch.
    pub(crate) async fn deliver(&mut self) -> Delivery {
        self.stream();
        let records = self.records[self.delivered..].to_vec();
        self.delivered = self.records.len();
        self.deliver_these(&records).await
    }

    /// Delivers these records in one batch.
    pub(crate) async fn deliver_these(&self, records: &[Value]) -> Delivery {
        if records.is_empty() {
            return Delivery::default();
        }
        let deadline = Timestamp::from_epoch_ms(i64::MAX);
        let handled = self.aggregator.handle(event(records).as_bytes(), deadline).await.expect("an event");
        let by_number = |failed: Vec<FailedRecord>| {
            let parts = failed.into_iter().map(|failed| (failed.sequence_number, failed.error.to_string()));
            parts.map(|(number, error)| (number.unwrap_or_default(), error)).collect()
        };
        let (failures, parked) = (by_number(handled.failures), by_number(handled.parked));
        Delivery { failures, parked, totals: handled.totals }
    }

    /// Delivers until nobody writes any more; the number of records, ours included.
    pub(crate) async fn settle(&mut self) -> usize {
        let before = self.delivered;
        for _ in 0..MOST_ROUNDS {
            if self.stream() == 0 && self.delivered == self.records.len() {
                return self.delivered - before;
            }
            let delivery = self.deliver().await;
            assert_eq!(delivery.failures, BTreeMap::new());
        }
        panic!("after {MOST_ROUNDS} rounds the stream still brings our own writes: {}", self.records.len());
    }
}

type EdgeLedger = Ledger<Arc<MemoryTables>, StillClock>;

/// An aggregator of this model over other tables, which wrap those of a world.
pub(crate) fn aggregator_over<T: Tables>(model: &str, tables: T) -> StreamAggregator<T, StillClock> {
    StreamAggregator::new(ledger(parsed(model), tables))
}

/// Delivers records to a new function with this model, which has 3 s.
pub(crate) async fn deliver_to<T: Tables>(
    model: &str,
    tables: T,
    records: &[Value],
) -> Result<AggregatedBatch, Error> {
    aggregator_over(model, tables).handle(event(records).as_bytes(), DEADLINE).await
}

/// A record as if it had been created so many days ago. Tombstones live for 35 days.
pub(crate) fn aged(record: &Value, days: i64) -> Value {
    let mut record = record.clone();
    record["dynamodb"]["ApproximateCreationDateTime"] = json!(NOW - days * 86_400);
    record
}

/// Reconciles one item of the application's table, within 3 s.
pub(crate) async fn reconcile<T: Tables>(
    ledger: &Ledger<T, StillClock>,
    partition: &str,
    sort: Option<&str>,
) -> CommitOutcome {
    let source = SourceKey { table: 0, partition: partition.into(), sort: sort.map(Cow::Borrowed) };
    let candidates = source.candidates(ledger.model());
    let item = SourceItem { source: &source, candidates: &candidates, records: ItemRecords::new() };
    let outcome = ledger.reconcile(vec![item], "2026-02-06T10:00:00.000", DEADLINE).await;
    outcome.expect("a right set-up")
}

/// A model of the table [`TABLE`] with these parts.
pub(crate) fn parsed(parts: &str) -> Arc<Model> {
    Arc::new(Model::parse(&source(parts), "edge.toml").unwrap_or_else(|errors| panic!("{errors}")))
}

/// The file of such a model. It is of generation 1, unless it begins with another one.
pub(crate) fn source(parts: &str) -> String {
    let generation = if parts.starts_with("generation = ") { "" } else { "generation = 1\n" };
    format!("name = 'edge'\n{generation}tables.{TABLE}.key = ['PK', 'SK']\n{parts}")
}

pub(crate) fn ledger<T: Tables>(model: Arc<Model>, tables: T) -> Ledger<T, StillClock> {
    let clock = StillClock::at(Timestamp::from_epoch_seconds(NOW));
    Ledger::new(model, vec![Arc::from(TABLE)], Arc::from(STATE), tables, clock)
}
