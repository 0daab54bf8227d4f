//! An exam platform's tables in memory, their consumer, and records of its stream, written by hand.

use std::sync::Arc;

use afterwrite::commit::Ledger;
use afterwrite::record::{AttributeValue, Item, Timestamp};
use afterwrite::sink::Tables;
use afterwrite::sink::memory::{IndexDefinition, MemoryTables, TableDefinition};
use afterwrite::table::Model;
use afterwrite_functions::Aggregator;
use afterwrite_tests::clock::StillClock;
use afterwrite_tests::replay::STATE;
use serde_json::{Value, json};

/// The source table.
pub(crate) const TABLE: &str = "ExamBuddyTable";
/// The consumer's time, in epoch seconds.
pub(crate) const NOW: i64 = 1_770_400_000;

/// The source table with its first index, and the state table, both empty.
pub(crate) fn tables() -> MemoryTables {
    let tables = MemoryTables::new();
    tables.create_table(TableDefinition::new(STATE, "PK").sort("SK"));
    let index = IndexDefinition::new("GSI1", "GSI1PK").sort("GSI1SK");
    tables.create_table(TableDefinition::new(TABLE, "PK").sort("SK").index(index));
    tables
}

/// A consumer of the stream that counts into such tables.
pub(crate) fn aggregator<T: Tables>(tables: T) -> Aggregator<T, StillClock> {
    let model = Arc::new(Model::load(Model::DEFAULT_NAME).expect("the default model"));
    let clock = StillClock::at(Timestamp::from_epoch_seconds(NOW));
    Aggregator::new(Ledger::new(model, vec![Arc::from(TABLE)], Arc::from(STATE), tables, clock))
}

/// An item with its keys in the table and in the index.
pub(crate) fn item(partition: &str, sort: &str, index: &str) -> Item {
    let names = ["PK", "SK", "GSI1PK", "GSI1SK"];
    let values = [partition, sort, index, index];
    names.into_iter().zip(values).map(|(name, value)| (name.into(), AttributeValue::text(value))).collect()
}

/// The event of the creation, a minute ago, of items of nothing but these keys; sequence numbers from 1.
pub(crate) fn created<'k>(keys: impl IntoIterator<Item = (&'k str, &'k str)>) -> String {
    let record = |(number, (partition, sort)): (u32, (&str, &str))| -> Value {
        let keys = json!({ "PK": { "S": partition }, "SK": { "S": sort } });
        json!({
            "eventName": "INSERT",
            "eventSourceARN": format!("arn:aws:dynamodb:eu-west-1:1:table/{TABLE}/stream/2026-02-06T10:00:00.000"),
            "dynamodb": {
                "ApproximateCreationDateTime": NOW - 60,
                "Keys": keys,
                "NewImage": keys,
                "SequenceNumber": format!("{number:021}"),
                "StreamViewType": "NEW_AND_OLD_IMAGES",
            },
        })
    };
    let records: Vec<Value> = (1..).zip(keys).map(record).collect();
    json!({ "Records": records }).to_string()
}
