//! An exam platform: its tables in memory, an aggregator, and hand-written stream records.

#![expect(clippy::indexing_slicing, reason = "what is indexed is a JSON object, which takes any name")]

use std::sync::Arc;

use afterwrite_functions::StreamAggregator;
use afterwrite_ledger::Ledger;
use afterwrite_ledger::tables::Tables;
use afterwrite_memory::{IndexDefinition, MemoryTables, TableDefinition};
use afterwrite_model::record::{AttributeValue, Item, Timestamp};
use afterwrite_model::table::Model;
use afterwrite_tests::change_record::{expired, stream_of, stream_record};
use afterwrite_tests::clock::StillClock;
use afterwrite_tests::deployment::event;
use afterwrite_tests::replay::STATE;
use serde_json::{Value, json};

/// The source table.
pub(crate) const TABLE: &str = "ExamBuddyTable";
/// The aggregator's time, in epoch seconds.
pub(crate) const NOW: i64 = 1_770_400_000;

/// The source table with its first index, and the state table, both empty.
pub(crate) fn tables() -> MemoryTables {
    let tables = MemoryTables::new();
    tables.create_table(TableDefinition::new(STATE, "PK").sort("SK"));
    let index = IndexDefinition::new("GSI1", "GSI1PK").sort("GSI1SK");
    tables.create_table(TableDefinition::new(TABLE, "PK").sort("SK").index(index));
    tables
}

/// An aggregator with these tables.
pub(crate) fn aggregator<T: Tables>(tables: T) -> StreamAggregator<T, StillClock> {
    let model = Arc::new(Model::load(Model::DEFAULT_NAME).expect("the default model"));
    let clock = StillClock::at(Timestamp::from_epoch_seconds(NOW));
    StreamAggregator::new(Ledger::new(model, vec![Arc::from(TABLE)], Arc::from(STATE), tables, clock))
}

/// An item with its keys in the table and the index.
pub(crate) fn item(partition: &str, sort: &str, index: &str) -> Item {
    let names = ["PK", "SK", "GSI1PK", "GSI1SK"];
    let values = [partition, sort, index, index];
    names.into_iter().zip(values).map(|(name, value)| (name.into(), AttributeValue::text(value))).collect()
}

/// The record of a change one minute ago. Each image has the keys and these attributes.
pub(crate) fn record(
    number: u32,
    (partition, sort): (&str, &str),
    old: Option<&Value>,
    new: Option<&Value>,
) -> Value {
    let image = |attributes: &Value| {
        let mut image = attributes.clone();
        image["PK"] = json!({ "S": partition });
        image["SK"] = json!({ "S": sort });
        image
    };
    let (old, new) = (old.map(image), new.map(image));
    let number = format!("{number:021}");
    let change = (&*number, NOW - 60);
    stream_record(&stream_of(TABLE), &["PK", "SK"], change, (old.as_ref(), new.as_ref()))
}

/// The record of a deletion by TTL.
pub(crate) fn expiry(number: u32, keys: (&str, &str), old: &Value) -> Value {
    expired(record(number, keys, Some(old), None))
}

/// The event with the creation, one minute ago, of items with only these keys; sequence numbers start at 1.
pub(crate) fn created<'k>(keys: impl IntoIterator<Item = (&'k str, &'k str)>) -> String {
    let no_attributes = json!({});
    let records: Vec<Value> =
        (1..).zip(keys).map(|(number, keys)| record(number, keys, None, Some(&no_attributes))).collect();
    event(&records)
}

/// A measure of a rollup; `None` if the rollup or the number is absent.
pub(crate) fn counted(state: &[Item], (partition, sort): (&str, &str), measure: &str) -> Option<i64> {
    let is = |item: &&Item, name: &str, text: &str| {
        item.get(name).is_some_and(|value| value.as_text() == Some(text))
    };
    let rollup = state.iter().find(|item| is(item, "PK", partition) && is(item, "SK", sort))?;
    rollup.get(measure)?.as_number()?.to_i64()
}
