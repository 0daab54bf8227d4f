//! Changes of tables as Lambda delivers them: in shards, in order within a shard, all changes of an item in the same shard.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use afterwrite_demo::item::SdkItem;
use afterwrite_memory::ItemChange;
use afterwrite_tests::change_record::change_record;
use afterwrite_tests::sdk_items::sdk_item;
use serde_json::json;

const SHARDS_OF_A_TABLE: u64 = 3;

/// One change.
#[derive(Clone, Debug)]
pub(super) struct StreamRecord {
    pub(super) table: String,
    pub(super) sequence_number: String,
    /// In epoch seconds.
    pub(super) changed_at: i64,
    /// Whether time to live deleted the item.
    pub(super) is_expiry: bool,
    pub(super) old: Option<SdkItem>,
    pub(super) new: Option<SdkItem>,
    /// The record as Lambda delivers it.
    pub(super) json: String,
}

impl StreamRecord {
    /// The old image and the new one, as far as there are any.
    pub(super) fn images(&self) -> impl Iterator<Item = &SdkItem> {
        [&self.old, &self.new].into_iter().flatten()
    }
}

/// A shard, and how far it has been delivered.
#[derive(Debug, Default)]
pub(super) struct StreamShard {
    table: String,
    number: u64,
    /// Indexes into [`TableStreams::records`].
    pub(super) records: Vec<usize>,
    pub(super) checkpoint: usize,
    /// The invocation that handles the records after the checkpoint.
    pub(super) in_flight: Option<u64>,
}

impl StreamShard {
    /// Whether there are records after the checkpoint that no invocation handles.
    pub(super) fn is_waiting(&self) -> bool {
        self.in_flight.is_none() && self.checkpoint < self.records.len()
    }
}

/// The streams of all tables.
#[derive(Debug, Default)]
pub(super) struct TableStreams {
    pub(super) records: Vec<StreamRecord>,
    pub(super) shards: Vec<StreamShard>,
}

impl TableStreams {
    /// Appends changes, each to the shard of its item.
    pub(super) fn append(&mut self, changes: Vec<ItemChange>) {
        for change in changes {
            let place = self.records.len();
            let record = record(place, &change);
            let mut hasher = DefaultHasher::new();
            format!("{:?}", change.key).hash(&mut hasher);
            let number = hasher.finish() % SHARDS_OF_A_TABLE;
            self.shard(&record.table, number).records.push(place);
            self.records.push(record);
        }
    }

    fn shard(&mut self, table: &str, number: u64) -> &mut StreamShard {
        let is_it = |shard: &StreamShard| shard.table == table && shard.number == number;
        let place = self.shards.iter().position(is_it).unwrap_or_else(|| {
            self.shards.push(StreamShard { table: table.to_owned(), number, ..StreamShard::default() });
            self.shards.len() - 1
        });
        &mut self.shards[place]
    }

    /// Whether everything has been delivered.
    pub(super) fn is_drained(&self) -> bool {
        self.shards.iter().all(|shard| shard.checkpoint == shard.records.len())
    }

    /// The event that delivers these records.
    pub(super) fn event(&self, records: &[usize]) -> String {
        event(records.iter().map(|record| self.records[*record].json.as_str()))
    }
}

/// An event of records.
pub(super) fn event<'r>(records: impl Iterator<Item = &'r str>) -> String {
    format!("{{\"Records\":[{}]}}", records.collect::<Vec<_>>().join(","))
}

fn record(place: usize, change: &ItemChange) -> StreamRecord {
    let table = change.key.table.to_string();
    // The sequence numbers grow from 21 to 22 digits.
    let sequence_number = (999_999_999_999_999_999_950_u128 + place as u128).to_string();
    let stream =
        format!("arn:aws:dynamodb:eu-west-1:123456789012:table/{table}/stream/2026-02-01T00:00:00.000");
    let mut record = change_record(&stream, &sequence_number, change);
    record["awsRegion"] = json!("eu-west-1");
    StreamRecord {
        table,
        sequence_number,
        changed_at: change.time.epoch_seconds(),
        is_expiry: change.is_expiry,
        old: change.old.as_ref().map(sdk_item),
        new: change.new.as_ref().map(sdk_item),
        json: record.to_string(),
    }
}
