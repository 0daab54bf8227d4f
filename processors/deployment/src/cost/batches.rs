//! The batches in which Lambda delivers a stream at a given pace.

use std::collections::BTreeMap;

/// The most bytes of a batch.
const MAX_BATCH_BYTES: usize = 6 * 1024 * 1024;

/// How an event source mapping delivers streams.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeliverySettings {
    /// The most records of a batch.
    pub batch_size: usize,
    /// The seconds for which Lambda collects records.
    pub window_seconds: f64,
    /// The shards of each stream.
    pub shards: u64,
}

impl Default for DeliverySettings {
    /// As the Terraform module deploys it, on a new on-demand table.
    fn default() -> Self {
        Self { batch_size: 1000, window_seconds: 5.0, shards: 4 }
    }
}

/// A record with the time of its change, in seconds from the start.
#[derive(Clone, Debug)]
pub(super) struct TimedRecord<'r> {
    pub(super) json: &'r str,
    /// An index into the model's tables.
    pub(super) table: usize,
    /// A hash of the item's key.
    pub(super) key: u64,
    pub(super) at: f64,
}

/// A batch that Lambda collects for a shard.
struct OpenBatch<'r> {
    since: f64,
    bytes: usize,
    records: Vec<&'r str>,
}

/// The batches in the order in which they are delivered. The records of an item are in one shard.
pub(super) fn batches<'r>(stream: &[TimedRecord<'r>], settings: DeliverySettings) -> Vec<Vec<&'r str>> {
    let mut open: BTreeMap<(usize, u64), OpenBatch<'r>> = BTreeMap::new();
    let mut delivered = Vec::new();
    for record in stream {
        let is_due = |batch: &OpenBatch<'_>| record.at - batch.since >= settings.window_seconds;
        delivered.extend(open.extract_if(.., |_, batch| is_due(batch)).map(|(_, batch)| batch.records));
        let shard = (record.table, record.key % settings.shards.max(1));
        let empty = || OpenBatch { since: record.at, bytes: 0, records: Vec::new() };
        let batch = open.entry(shard).or_insert_with(empty);
        batch.records.push(record.json);
        batch.bytes += record.json.len();
        let is_full = batch.records.len() >= settings.batch_size.max(1) || batch.bytes >= MAX_BATCH_BYTES;
        if is_full && let Some(batch) = open.remove(&shard) {
            delivered.push(batch.records);
        }
    }
    delivered.extend(open.into_values().map(|batch| batch.records));
    delivered
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(per_second: u32, settings: DeliverySettings) -> Vec<usize> {
        let record = |number: u32| TimedRecord {
            json: "{}",
            table: 0,
            key: u64::from(number),
            at: f64::from(number) / f64::from(per_second),
        };
        let stream: Vec<TimedRecord<'_>> = (0..1200).map(record).collect();
        batches(&stream, settings).iter().map(Vec::len).collect()
    }

    #[test]
    fn a_batch_ends_with_its_window_or_when_it_is_full() {
        let settings = DeliverySettings { batch_size: 100, window_seconds: 5.0, shards: 1 };
        assert_eq!(sizes(10, settings), [50; 24], "the window ends first");
        assert_eq!(sizes(100, settings), [100; 12], "the batch is full first");
    }

    #[test]
    fn shards_share_the_records() {
        let settings = DeliverySettings { batch_size: 1000, window_seconds: 5.0, shards: 4 };
        let sizes = sizes(40, settings);
        assert!(sizes.iter().all(|size| (45..=55).contains(size)), "{sizes:?}");
        assert_eq!(sizes.iter().sum::<usize>(), 1200);
    }
}
