//! A recording, delivered to a consumer whose source table and state table are in memory.

use std::sync::Arc;

use afterwrite_functions::StreamAggregator;
use afterwrite_ledger::{CommitTotals, Ledger};
use afterwrite_memory::{IndexDefinition, MemoryTables, TableDefinition};
use afterwrite_model::record::{AttributeValue, Decimal, Item, Timestamp};
use afterwrite_model::table::Model;
use serde_json::value::RawValue;

use crate::clock::StillClock;
use crate::random::SeededRandom;
use crate::recording::{StreamRecording, event};
use crate::sdk_items::item_of_json;

/// The state table's name.
pub const STATE: &str = "state";

/// A consumer, its tables, and the position in each shard.
pub struct RecordingReplay {
    recording: StreamRecording,
    aggregator: StreamAggregator<MemoryTables, StillClock>,
    read: Vec<usize>,
    totals: CommitTotals,
}

impl RecordingReplay {
    /// A consumer that nothing has been delivered to.
    ///
    /// # Panics
    /// If there is no such recording.
    #[must_use]
    pub fn new(recording: &str) -> Self {
        let recording = StreamRecording::load(recording);
        let model = Arc::new(Model::load(Model::DEFAULT_NAME).expect("the default model"));
        let tables = MemoryTables::new();
        tables.create_table(TableDefinition::new(STATE, "PK").sort("SK"));
        let names: Vec<Arc<str>> = model.tables.iter().map(|table| Arc::clone(&table.name)).collect();
        for name in &names {
            let mut definition = TableDefinition::new(name.as_ref(), "PK").sort("SK");
            for index in ["GSI1", "GSI2", "GSI3"] {
                let (partition, sort) = (format!("{index}PK"), format!("{index}SK"));
                definition =
                    definition.index(IndexDefinition::new(index, partition.as_str()).sort(sort.as_str()));
            }
            tables.create_table(definition);
            // A shard may be ahead of another one, so that a lookup needs an item that a later record of the other shard removes.
            // The index therefore holds removed items too.
            for item in recording.last_images().iter().chain(&recording.items) {
                tables.put(name, item_of_json(item)).expect("an item of the recording");
            }
        }
        let read = vec![0; recording.shards.len()];
        let clock = StillClock::at(Timestamp::from_epoch_seconds(recording.end() + 60));
        let ledger = Ledger::new(model, names, Arc::from(STATE), tables, clock);
        Self { recording, aggregator: StreamAggregator::new(ledger), read, totals: CommitTotals::default() }
    }

    /// The recording.
    #[must_use]
    pub fn recording(&self) -> &StreamRecording {
        &self.recording
    }

    /// The tables.
    #[must_use]
    pub fn tables(&self) -> &MemoryTables {
        self.aggregator.ledger().tables()
    }

    /// The totals of all deliveries so far.
    #[must_use]
    pub fn totals(&self) -> CommitTotals {
        self.totals
    }

    /// Moves back to the beginning of every shard.
    pub fn rewind(&mut self) {
        self.read.fill(0);
    }

    /// Delivers all shards, one batch of each in turn. After a failure a shard continues at the failed record, as with an event source
    /// mapping.
    pub async fn deliver_all(&mut self, size: usize) {
        self.deliver(size, false).await;
    }

    /// Delivers all shards, and each batch a second time after the batch that follows it.
    pub async fn deliver_with_echoes(&mut self, size: usize) {
        self.deliver(size, true).await;
    }

    async fn deliver(&mut self, size: usize, echo: bool) {
        let mut previous: Option<Vec<u8>> = None;
        while (0..self.read.len()).any(|shard| self.read[shard] < self.recording.shards[shard].len()) {
            for shard in 0..self.read.len() {
                let rest = &self.recording.shards[shard][self.read[shard]..];
                let batch: Vec<&RawValue> = rest.iter().take(size).map(AsRef::as_ref).collect();
                if batch.is_empty() {
                    continue;
                }
                let (length, event) = (batch.len(), event(batch));
                let failed = self.handle(&event).await;
                let failed = failed.map(|number| self.position_of(shard, &number));
                self.read[shard] = failed.unwrap_or(self.read[shard] + length);
                if let Some(previous) = previous.filter(|_| echo) {
                    self.handle(&previous).await;
                }
                previous = Some(event);
            }
        }
    }

    /// Delivers `count` old records one by one, in random order.
    ///
    /// # Panics
    /// If a record fails.
    pub async fn deliver_subset(&mut self, count: usize, random: &mut SeededRandom) {
        let records: Vec<String> = self.recording.records().map(|record| record.get().to_owned()).collect();
        for _ in 0..count {
            let record = random.pick(&records).expect("records");
            let event = format!("{{\"Records\":[{record}]}}").into_bytes();
            assert_eq!(self.handle(&event).await, None, "an old record fails");
        }
    }

    /// Delivers an event, and returns the sequence number from which it must be redelivered, if any.
    async fn handle(&mut self, event: &[u8]) -> Option<String> {
        let deadline = Timestamp::from_epoch_ms(i64::MAX);
        let handled = self.aggregator.handle(event, deadline).await.expect("an event of the recording");
        self.totals += handled.totals;
        handled.response.batch_item_failures.into_iter().next().map(|failure| failure.item_identifier)
    }

    fn position_of(&self, shard: usize, sequence_number: &str) -> usize {
        let needle = format!("\"SequenceNumber\": \"{sequence_number}\"");
        let compact = needle.replace(": ", ":");
        let has_number =
            |record: &RawValue| record.get().contains(&needle) || record.get().contains(&compact);
        self.recording.shards[shard]
            .iter()
            .position(|record| has_number(record))
            .expect("a record of the shard")
    }

    /// Asserts that every rollup and every mirrored attribute has its independently computed value.
    ///
    /// # Panics
    /// If a value differs.
    pub fn assert_golden(&self, how: &str) {
        let tables = self.aggregator.ledger().tables();
        let mut rollups = std::collections::BTreeMap::new();
        for item in tables.scan(STATE) {
            if item.get("EntityType").and_then(AttributeValue::as_text) == Some("ROLLUP") {
                rollups.insert(key(&item), measures(&item));
            }
        }
        rollups.retain(|_, measures| !measures.is_empty());
        assert_eq!(rollups, self.recording.rollups, "{how}: the rollups");
        let name = self.aggregator.ledger().model().tables[0].name.clone();
        let items: std::collections::BTreeMap<_, _> =
            tables.scan(&name).into_iter().map(|item| (key(&item), item)).collect();
        for (key, expected) in &self.recording.mirrored {
            let item = items.get(key).unwrap_or_else(|| panic!("{how}: {key:?} is missing"));
            for (attribute, value) in expected {
                let shown = item.get(attribute.as_str()).and_then(AttributeValue::as_number);
                let shown = shown.and_then(Decimal::to_i64);
                assert_eq!(shown, Some(*value), "{how}: {attribute} of {key:?}");
            }
        }
    }
}

fn key(item: &Item) -> (String, String) {
    let text = |name: &str| item.get(name).and_then(AttributeValue::as_text).unwrap_or_default().to_owned();
    (text("PK"), text("SK"))
}

/// All nonzero measures.
fn measures(item: &Item) -> std::collections::BTreeMap<String, i64> {
    let is_measure = |name: &str| name != "rev" && name != "expires_at" && !name.starts_with("settled_");
    let numbers = item.iter().filter_map(|(name, value)| Some((name.to_string(), value.as_number()?)));
    let whole = |number: &Decimal| number.to_i64().expect("the recording counts and sums whole numbers");
    let measures = numbers.filter(|(name, _)| is_measure(name)).map(|(name, number)| (name, whole(number)));
    measures.filter(|(_, number)| *number != 0).collect()
}
