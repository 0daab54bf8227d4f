//! A workload written by hand: changes of items as applications make them, the records that follow, and what each leads to.

use std::collections::BTreeMap;
use std::sync::Arc;

use afterwrite::commit::Ledger;
use afterwrite::entity::SourceKey;
use afterwrite::projection::{RecordImages, StaleCaches, archive_line, old_image, rows};
use afterwrite::record::{AttributeValue, ChangeRecord, Decimal, Item, RecordDecoder, Timestamp};
use afterwrite::table::{KeySchema, KeyType, Model, Operand};
use afterwrite_functions::Aggregator;
use afterwrite_memory::{KeyAttributeType, KeyDefinition, MemoryObjects, MemoryTables, TableDefinition};
use afterwrite_tests::clock::StillClock;
use afterwrite_tests::datasets::{Row, export, gzip, rows_of};
use serde_json::{Map, Value, json};

const STATE: &str = "state";

/// When all changes are made, and when they are delivered.
pub(crate) const MADE_AT: &str = "2026-02-07T00:00:00Z";
const DELIVERED_AT: &str = "2026-02-07T00:01:00Z";

/// Rollups or items by key, with their numbers and texts.
pub(crate) type Items = BTreeMap<(String, String), BTreeMap<String, AttributeValue<'static>>>;

/// Changes of the items of one model's tables.
pub(crate) struct Workload {
    pub(crate) model: Arc<Model>,
    /// By table and key: the items as they are now.
    items: BTreeMap<(String, String), Value>,
    /// The records so far, with their tables.
    records: Vec<(String, Value)>,
}

impl Workload {
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

    /// Time to live deletes it.
    pub(crate) fn expire(&mut self, table: &str, key: Value) -> &mut Self {
        self.change(table, &key, None, true)
    }

    fn change(&mut self, table: &str, keyed: &Value, new: Option<Value>, expired: bool) -> &mut Self {
        let schema = self.model.tables.iter().find(|known| *known.name == *table).expect("a table");
        let keys: Map<String, Value> =
            schema.key().map(|key| (key.name.to_string(), typed(&keyed[&*key.name]))).collect();
        let place = (table.to_owned(), Value::Object(keys.clone()).to_string());
        let old = match &new {
            Some(new) => self.items.insert(place, new.clone()),
            None => Some(self.items.remove(&place).expect("what goes was there")),
        };
        let name = match (&old, &new) {
            (None, _) => "INSERT",
            (Some(_), Some(_)) => "MODIFY",
            (Some(_), None) => "REMOVE",
        };
        let number = self.records.len() + 1;
        let mut change = json!({
            "ApproximateCreationDateTime": time(MADE_AT).epoch_seconds(), "Keys": keys,
            "SequenceNumber": format!("{number:025}"), "StreamViewType": "NEW_AND_OLD_IMAGES",
        });
        for (image, item) in [("OldImage", &old), ("NewImage", &new)] {
            if let Some(item) = item {
                change[image] = typed(item)["M"].clone();
            }
        }
        let mut record = json!({
            "eventID": format!("event-{number}"), "eventName": name, "dynamodb": change,
            "eventSourceARN": format!("arn:aws:dynamodb:eu-west-1:000000000000:table/{table}/stream/2026-01-01T00:00:00.000"),
        });
        if expired {
            record["userIdentity"] = json!({ "type": "Service", "principalId": "dynamodb.amazonaws.com" });
        }
        self.records.push((table.to_owned(), record));
        self
    }

    /// The cache keys that the last change makes stale; it makes no path stale.
    pub(crate) fn stale(&self) -> Vec<String> {
        let stale = self.all_stale();
        assert_eq!(stale.paths().count(), 0);
        stale.keys().map(|stale| stale.key).collect()
    }

    /// The cache keys and the paths that the last change makes stale.
    pub(crate) fn all_stale(&self) -> StaleCaches {
        let line = self.last();
        let record = RecordDecoder::new(&self.model.vocabulary).record(line.as_bytes()).expect("a record");
        let old = record.old.decode(&self.model.vocabulary).expect("an image");
        let source = self.source(&record);
        let identity = source.identify(&self.model).expect("an entity");
        let mut stale = StaleCaches::default();
        stale.add(&self.model, &identity, 0, (old.as_ref(), record.new.as_ref())).expect("keys");
        stale
    }

    /// The rows that the last change makes: `dataset day OPERATION`, and every column that holds a text or number.
    pub(crate) fn rows(&self) -> Vec<(String, BTreeMap<String, String>)> {
        let line = self.last();
        let record =
            RecordDecoder::new(&self.model.row_vocabulary).record(line.as_bytes()).expect("a record");
        let source = self.source(&record);
        let identity = source.identify(&self.model).expect("an entity");
        let old = old_image(&self.model, &identity, &record).expect("an image");
        let images = RecordImages { new: record.new.as_ref(), old: old.as_ref() };
        let mut all = Vec::new();
        for dataset in identity.entity.datasets.iter().map(|index| &self.model.datasets[*index]) {
            for row in rows(&self.model, dataset, &identity, &record, images) {
                let columns = dataset.columns.iter().filter_map(|column| {
                    let value = match row.value(&column.from)? {
                        Operand::Text(text) => text.into_owned(),
                        Operand::Value(AttributeValue::S(text)) => text.to_string(),
                        Operand::Value(AttributeValue::N(number)) => number.to_string(),
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

    /// The last change is one row, of this dataset, day and operation.
    pub(crate) fn assert_row(&self, expected: &str) {
        let rows: Vec<String> = self.rows().into_iter().map(|(row, _)| row).collect();
        assert_eq!(rows, [expected]);
    }

    /// What the archive gets of all changes.
    pub(crate) fn archive(&self) -> String {
        let paths = self.model.entities.iter().flat_map(|entity| &entity.secrets);
        let secrets: Vec<Vec<Arc<str>>> =
            paths.map(|path| std::iter::once(&path.root).chain(&path.within).cloned().collect()).collect();
        let line =
            |(_, record): &(String, Value)| archive_line(&record.to_string(), &secrets).expect("a line");
        self.records.iter().map(line).collect()
    }

    /// Exports the archive: every change is a row or of no dataset, and every value fits its column. The rows by dataset, as text.
    pub(crate) async fn exported(&self) -> BTreeMap<String, Vec<Row>> {
        let bucket = Arc::new(MemoryObjects::default());
        let object = ("archive/dt=2026-02-07/hh=00/1.gz".to_owned(), gzip(&self.archive()));
        for tally in export(&self.model, &bucket, &[object].into()).await {
            assert_eq!((tally.rejected, tally.rescued, tally.unmatched), (0, 0, 0));
        }
        let mut exported: BTreeMap<String, Vec<Row>> = BTreeMap::new();
        for (name, file) in bucket.objects() {
            if let Some((dataset, _)) = name.strip_prefix("datasets/").and_then(|rest| rest.split_once('/')) {
                exported.entry(dataset.to_owned()).or_default().extend(rows_of(file));
            }
        }
        exported
    }

    fn last(&self) -> String {
        self.records.last().expect("a change").1.to_string()
    }

    fn source<'r>(&self, record: &'r ChangeRecord<'_>) -> SourceKey<'r> {
        let table = &self.records.last().expect("a change").0;
        let table = self.model.tables.iter().position(|known| *known.name == **table).expect("a table");
        SourceKey::of_keys(&self.model, table, &record.keys).expect("a key of the table")
    }

    /// Delivers everything in the ways that Lambda does, each to tables of its own: at once, one by one, twice, and cut anew
    /// after each failure. In the end the rollups and the shown attributes are the expected ones.
    pub(crate) async fn assert_derived(&self, rollups: &[(&str, &str, Value)], shown: &[Shown<'_>]) {
        let expected: Items = rollups
            .iter()
            .map(|(partition, sort, measures)| {
                (
                    ((*partition).to_owned(), (*sort).to_owned()),
                    attributes(measures).into_iter().map(named).collect(),
                )
            })
            .collect();
        for how in ["at once", "one by one", "twice", "cut anew", "backwards again"] {
            let delivered = self.deliver(how).await;
            assert_eq!(delivered.rollups(), expected, "{how}");
            for (table, key, path, value) in shown {
                let found = delivered.shown(table, key, path);
                assert_eq!(found, value.as_ref().map(plain), "{how}: {path} of {key}");
            }
        }
    }

    /// What is said of the last change, which cannot be counted.
    pub(crate) async fn failures(&self) -> String {
        let event = json!({ "Records": [self.records.last().expect("a change").1] }).to_string();
        let delivered = Delivered::new(self);
        let handled = delivered.aggregator.handle(event.as_bytes(), Timestamp::from_epoch_ms(i64::MAX)).await;
        let failures = handled.unwrap_or_else(|error| panic!("{error}")).failures;
        assert!(!failures.is_empty());
        format!("{failures:?}")
    }

    /// Delivers everything in one of these ways.
    pub(crate) async fn deliver(&self, how: &str) -> Delivered {
        let delivered = Delivered::new(self);
        for table in &self.model.tables {
            let of_table = self.records.iter().filter(|(name, _)| **name == *table.name);
            let records: Vec<&Value> = of_table.map(|(_, record)| record).collect();
            match how {
                "at once" => delivered.handle(&records).await,
                "one by one" => {
                    for record in &records {
                        delivered.handle(&[*record]).await;
                    }
                }
                "twice" => {
                    for _ in 0..2 {
                        delivered.handle(&records).await;
                    }
                }
                "cut anew" => {
                    for start in (0..records.len()).step_by(2) {
                        delivered.handle(&records[start..records.len().min(start + 5)]).await;
                    }
                }
                _ => {
                    delivered.handle(&records).await;
                    for record in records.iter().rev() {
                        delivered.handle(&[*record]).await;
                    }
                }
            }
        }
        delivered
    }
}

/// Table and key of an item, the path of an attribute, and what stands there.
pub(crate) type Shown<'s> = (&'s str, Value, &'s str, Option<Value>);

/// A consumer to whom a workload was delivered.
pub(crate) struct Delivered {
    aggregator: Aggregator<MemoryTables, StillClock>,
}

impl Delivered {
    /// The source tables hold what they hold at the end, as after a pause of the consumer.
    fn new(workload: &Workload) -> Self {
        let tables = MemoryTables::new();
        tables.create_table(TableDefinition::new(STATE, "PK").sort("SK"));
        for table in &workload.model.tables {
            let mut definition = TableDefinition::new(table.name.as_ref(), defined(&table.partition_key));
            if let Some(key) = &table.sort_key {
                definition = definition.sort(defined(key));
            }
            tables.create_table(definition);
        }
        for ((table, _), item) in &workload.items {
            tables.put(table, attributes(item)).expect("an item");
        }
        let names: Vec<Arc<str>> =
            workload.model.tables.iter().map(|table| Arc::clone(&table.name)).collect();
        let clock = StillClock::at(time(DELIVERED_AT));
        let ledger = Ledger::new(Arc::clone(&workload.model), names, Arc::from(STATE), tables, clock);
        Self { aggregator: Aggregator::new(ledger) }
    }

    pub(crate) fn tables(&self) -> &MemoryTables {
        self.aggregator.ledger().tables()
    }

    async fn handle(&self, records: &[&Value]) {
        if records.is_empty() {
            return;
        }
        let event = json!({ "Records": records }).to_string();
        let handled = self.aggregator.handle(event.as_bytes(), Timestamp::from_epoch_ms(i64::MAX)).await;
        let handled = handled.unwrap_or_else(|error| panic!("{error}"));
        assert!(handled.failures.is_empty(), "{:?}", handled.failures);
        assert_eq!(handled.unmatched, 0);
    }

    /// Every rollup with its measures that are not nought, and `expires_at`; the shards of one are one.
    pub(crate) fn rollups(&self) -> Items {
        let mut rollups = Items::new();
        for item in self.tables().scan(STATE) {
            if item.get("EntityType").and_then(AttributeValue::as_text) != Some("ROLLUP") {
                continue;
            }
            let text = |name: &str| item[name].as_text().expect("a key").to_owned();
            let (partition, sort) = (text("PK"), text("SK"));
            let partition = partition.split_once("#SHARD#").map_or(&*partition, |(whole, _)| whole);
            let rollup = rollups.entry((partition.to_owned(), sort)).or_default();
            for (name, value) in item.into_iter().map(named) {
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

    /// How many items a sharded rollup has become.
    pub(crate) fn shards(&self, partition: &str) -> usize {
        let prefix = format!("{partition}#SHARD#");
        let is_shard = |item: &&Item| item["PK"].as_text().is_some_and(|key| key.starts_with(&prefix));
        self.tables().scan(STATE).iter().filter(is_shard).count()
    }

    /// What stands at a path of an item.
    pub(crate) fn shown(&self, table: &str, key: &Value, path: &str) -> Option<AttributeValue<'static>> {
        let key = attributes(key);
        let items = self.tables().scan(table);
        let item = items.iter().find(|item| key.iter().all(|(name, value)| item.get(name) == Some(value)))?;
        let mut names = path.split('.');
        let mut found = item.get(names.next()?)?;
        for name in names {
            let AttributeValue::M(map) = found else { return None };
            found = map.get(name)?;
        }
        Some(found.clone())
    }

    /// The items of a table.
    pub(crate) fn count(&self, table: &str) -> usize {
        self.tables().scan(table).len()
    }

    /// A measure of a rollup, as it is stored.
    pub(crate) fn stored(
        &self,
        partition: &str,
        sort: &str,
        measure: &str,
    ) -> Option<AttributeValue<'static>> {
        self.shown(STATE, &json!({ "PK": partition, "SK": sort }), measure)
    }
}

pub(crate) fn time(text: &str) -> Timestamp {
    Timestamp::parse(text).expect("a time")
}

/// So many days after a time, in epoch seconds.
pub(crate) fn days_after(days: i64, text: &str) -> i64 {
    time(text).epoch_seconds() + days * 86_400
}

fn defined(key: &KeySchema) -> KeyDefinition {
    let key_type = match key.key_type {
        KeyType::Text => KeyAttributeType::Text,
        KeyType::Number => KeyAttributeType::Number,
        KeyType::Binary => KeyAttributeType::Binary,
    };
    KeyDefinition::new(&*key.name, key_type)
}

fn named(
    (name, value): (std::borrow::Cow<'static, str>, AttributeValue<'static>),
) -> (String, AttributeValue<'static>) {
    (name.into_owned(), value)
}

fn attributes(item: &Value) -> Item {
    let item = item.as_object().expect("an item");
    item.iter().map(|(name, value)| (name.clone().into(), plain(value))).collect()
}

/// Plain JSON → an attribute value.
pub(crate) fn plain(value: &Value) -> AttributeValue<'static> {
    match value {
        Value::Null => AttributeValue::Null,
        Value::Bool(flag) => AttributeValue::Bool(*flag),
        Value::Number(number) => AttributeValue::N(number.to_string().parse().expect("a number")),
        Value::String(text) => AttributeValue::text(text),
        Value::Array(elements) => AttributeValue::L(elements.iter().map(plain).collect()),
        Value::Object(_) => AttributeValue::M(attributes(value)),
    }
}

/// Plain JSON → DynamoDB's JSON.
fn typed(value: &Value) -> Value {
    match value {
        Value::Null => json!({ "NULL": true }),
        Value::Bool(flag) => json!({ "BOOL": flag }),
        Value::Number(number) => json!({ "N": number.to_string() }),
        Value::String(text) => json!({ "S": text }),
        Value::Array(elements) => json!({ "L": elements.iter().map(typed).collect::<Vec<_>>() }),
        Value::Object(members) => {
            let members: Map<String, Value> =
                members.iter().map(|(name, value)| (name.clone(), typed(value))).collect();
            json!({ "M": members })
        }
    }
}
