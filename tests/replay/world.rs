//! The recorded exam platform: its table, a live state table and a fresh one, in memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use afterwrite_functions::StreamAggregator;
use afterwrite_ledger::tables::Tables;
use afterwrite_ledger::{Ledger, TombstoneHistory};
use afterwrite_memory::{IndexDefinition, MemoryTables, TableDefinition};
use afterwrite_model::clock::SystemClock;
use afterwrite_model::record::{AttributeValue, Decimal, Item, Timestamp};
use afterwrite_model::table::Model;
use afterwrite_tests::clock::StillClock;
use afterwrite_tests::recording::{StreamRecording, event};
use afterwrite_tests::sdk_items::item_of_json;
use serde_json::value::RawValue;

/// The live state table.
pub(crate) const LIVE: &str = "live";
const SOURCE: &str = "ExamBuddyTable";
const BATCH: usize = 500;

pub(crate) struct ExamWorld {
    pub(crate) recording: StreamRecording,
    pub(crate) tables: Arc<MemoryTables>,
    model: Arc<Model>,
}

impl ExamWorld {
    /// The table after the recording, and state tables that have counted nothing.
    pub(crate) fn empty() -> Self {
        let recording = StreamRecording::load("exam-42");
        let tables = MemoryTables::new();
        let mut source = TableDefinition::new(SOURCE, "PK").sort("SK");
        for index in ["GSI1", "GSI2", "GSI3"] {
            let (partition, sort) = (format!("{index}PK"), format!("{index}SK"));
            source = source.index(IndexDefinition::new(index, partition.as_str()).sort(sort.as_str()));
        }
        tables.create_table(source);
        for table in [LIVE, "fresh"] {
            tables.create_table(TableDefinition::new(table, "PK").sort("SK"));
        }
        for item in recording.last_images().iter().chain(&recording.items) {
            tables.put(SOURCE, item_of_json(item)).unwrap();
        }
        Self {
            recording,
            tables: Arc::new(tables),
            model: Arc::new(Model::load(Model::DEFAULT_NAME).unwrap()),
        }
    }

    /// The same, once everything is counted into the live table.
    pub(crate) async fn live() -> Self {
        let world = Self::empty();
        let now = Timestamp::from_epoch_seconds(world.recording.end() + 60);
        let ledger = Ledger::new(
            Arc::clone(&world.model),
            vec![Arc::from(SOURCE)],
            Arc::from(LIVE),
            Arc::clone(&world.tables),
            StillClock::at(now),
        );
        let aggregator = StreamAggregator::new(ledger);
        let records: Vec<&RawValue> = world.recording.records().collect();
        for batch in records.chunks(BATCH) {
            let deadline = Timestamp::from_epoch_ms(i64::MAX);
            let handled = aggregator.handle(&event(batch.iter().copied()), deadline).await.unwrap();
            assert!(handled.failures.is_empty());
        }
        world
    }

    /// A handler with the real clock.
    pub(crate) fn aggregator<T: Tables>(
        &self,
        state: &str,
        tables: T,
        history: TombstoneHistory,
    ) -> StreamAggregator<T, SystemClock> {
        let (model, names) = (Arc::clone(&self.model), vec![Arc::from(SOURCE)]);
        let ledger = Ledger::new(model, names, Arc::from(state), tables, SystemClock);
        StreamAggregator::new(ledger.with_history(history))
    }

    /// All items of all tables, without the revisions of copies: a redelivery brings the revision of an equal copy up to date.
    pub(crate) fn everything(&self) -> Vec<Item> {
        let tables = [SOURCE, LIVE, "fresh"].iter();
        let mut items: Vec<Item> = tables.flat_map(|table| self.tables.scan(table)).collect();
        items.iter_mut().for_each(|item| drop(item.remove("question_count_rev")));
        items
    }

    /// Asserts that every rollup has its independently computed value.
    pub(crate) fn assert_golden(&self, state: &str) {
        let mut rollups = BTreeMap::new();
        for item in self.tables.scan(state) {
            let text =
                |name: &str| item.get(name).and_then(AttributeValue::as_text).unwrap_or_default().to_owned();
            if text("EntityType") == "ROLLUP" {
                rollups.insert((text("PK"), text("SK")), measures(&item));
            }
        }
        rollups.retain(|_, measures: &mut BTreeMap<String, i64>| !measures.is_empty());
        assert_eq!(rollups, self.recording.rollups);
    }
}

/// All nonzero measures.
fn measures(item: &Item) -> BTreeMap<String, i64> {
    let is_measure = |name: &str| name != "rev" && name != "expires_at" && !name.starts_with("settled_");
    let numbers = item.iter().filter_map(|(name, value)| Some((name.to_string(), value.as_number()?)));
    let whole = numbers.map(|(name, number): (String, &Decimal)| (name, number.to_i64().unwrap()));
    whole.filter(|(name, number)| is_measure(name) && *number != 0).collect()
}
