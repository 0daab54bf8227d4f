//! The batches in which Lambda delivers a stream at a given pace.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use afterwrite_model::entity::SourceKey;

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
    pub(super) json: Cow<'r, str>,
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
    records: Vec<Cow<'r, str>>,
}

/// A batch that is delivered.
#[derive(Debug)]
pub(super) struct DeliveredBatch<'r> {
    /// An index into the model's tables.
    pub(super) table: usize,
    /// The time of the delivery, in seconds from the start.
    pub(super) at: f64,
    pub(super) records: Vec<Cow<'r, str>>,
}

/// The batches that Lambda collects. The records of an item are in one shard.
pub(super) struct OpenBatches<'r> {
    settings: DeliverySettings,
    open: BTreeMap<(usize, u64), OpenBatch<'r>>,
    full: VecDeque<DeliveredBatch<'r>>,
}

impl<'r> OpenBatches<'r> {
    pub(super) fn new(settings: DeliverySettings) -> Self {
        Self { settings, open: BTreeMap::new(), full: VecDeque::new() }
    }

    /// Adds a record. Batches that are due before its time must have been taken.
    pub(super) fn add(&mut self, record: TimedRecord<'r>) {
        let TimedRecord { json, table, key, at } = record;
        let shard = (table, key % self.settings.shards.max(1));
        let empty = || OpenBatch { since: at, bytes: 0, records: Vec::new() };
        let batch = self.open.entry(shard).or_insert_with(empty);
        batch.bytes += json.len();
        batch.records.push(json);
        let is_full =
            batch.records.len() >= self.settings.batch_size.max(1) || batch.bytes >= MAX_BATCH_BYTES;
        if is_full && let Some(OpenBatch { records, .. }) = self.open.remove(&shard) {
            self.full.push_back(DeliveredBatch { table, at, records });
        }
    }

    /// The next batch that is full, or whose window has ended by `time`.
    pub(super) fn next_due(&mut self, time: f64) -> Option<DeliveredBatch<'r>> {
        if let Some(batch) = self.full.pop_front() {
            return Some(batch);
        }
        let window = self.settings.window_seconds;
        let due = self.open.iter().filter(|(_, batch)| time - batch.since >= window);
        let (&shard, _) = due.min_by(|(_, one), (_, other)| one.since.total_cmp(&other.since))?;
        let OpenBatch { since, records, .. } = self.open.remove(&shard)?;
        Some(DeliveredBatch { table: shard.0, at: since + window, records })
    }
}

/// A hash of an item's key, by which its shard is chosen.
pub(super) fn hash_of(source: &SourceKey<'_>) -> u64 {
    let mut hasher = DefaultHasher::new();
    (&source.partition, &source.sort).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(per_second: u32, settings: DeliverySettings) -> Vec<usize> {
        let record = |number: u32| TimedRecord {
            json: Cow::Borrowed("{}"),
            table: 0,
            key: u64::from(number),
            at: f64::from(number) / f64::from(per_second),
        };
        let (mut batches, mut sizes) = (OpenBatches::new(settings), Vec::new());
        for record in (0..1200).map(record) {
            sizes.extend(std::iter::from_fn(|| batches.next_due(record.at)).map(|batch| batch.records.len()));
            batches.add(record);
        }
        sizes.extend(std::iter::from_fn(|| batches.next_due(f64::INFINITY)).map(|batch| batch.records.len()));
        sizes
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
