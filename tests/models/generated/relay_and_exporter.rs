//! The same workloads through the relay and the exporter: stale cache keys, the archive, and the rows of datasets.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use afterwrite_datasets::compact::{CompactionOptions, DatasetCompactor};
use afterwrite_datasets::delta::DeltaTable;
use afterwrite_demo::item::text_of;
use afterwrite_demo::workloads::ALL;
use afterwrite_functions::{RelayedBatch, SourceTables, StreamRelay};
use afterwrite_memory::{MemoryObjects, MemoryStream};
use afterwrite_model::Error;
use afterwrite_model::projection::StaleKey;
use afterwrite_model::record::Timestamp;
use afterwrite_model::table::OnExpiry;
use afterwrite_relay::archive::ChangeArchiver;
use afterwrite_relay::invalidate::CacheInvalidator;
use afterwrite_services::cloudfront::CloudFront;
use afterwrite_services::sqs::SqsQueue;
use afterwrite_services::{Cache, DeliveryStream, InvalidatedKeys};
use afterwrite_tests::clock::StillClock;
use afterwrite_tests::datasets::{TextRow, export, gzip, rows_of};
use afterwrite_tests::state_stream::table_names;

use super::application::{NOW, STATE};
use super::consumers::WorkloadRun;
use super::expected::ModelExpectations;
use super::stream::{StreamRecord, event};

/// Seeds of each model.
const SEEDS: u64 = 5;
/// Records of a batch.
const BATCH: usize = 40;

/// A cache that records the keys that are removed.
#[derive(Clone, Debug, Default)]
pub(super) struct RecordingCache(Arc<Mutex<BTreeSet<String>>>);

impl RecordingCache {
    fn take_removed(&self) -> BTreeSet<String> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Cache for RecordingCache {
    async fn invalidate(&self, keys: &[StaleKey], _: Duration) -> InvalidatedKeys {
        let mut removed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        removed.extend(keys.iter().map(|key| key.key.clone()));
        InvalidatedKeys { results: keys.iter().map(|_| Ok(())).collect(), commands: 1 }
    }
}

/// A delivery stream in memory that a test can read.
#[derive(Clone, Debug, Default)]
pub(super) struct SharedStream(Arc<MemoryStream>);

impl SharedStream {
    /// All bytes that were written to it.
    pub(super) fn contents(&self) -> Vec<u8> {
        self.0.contents()
    }
}

impl DeliveryStream for SharedStream {
    async fn put_batch(&self, records: &[&[u8]]) -> Result<Vec<Result<(), Error>>, Error> {
        self.0.put_batch(records).await
    }
}

pub(super) type MemoryRelay =
    StreamRelay<RecordingCache, CloudFront, SqsQueue, SharedStream, MemoryObjects, StillClock>;

/// The relay of a run's model, with the stream it writes to and the cache.
pub(super) fn relay(run: &WorkloadRun) -> (MemoryRelay, SharedStream, RecordingCache) {
    let clock = || StillClock::at(Timestamp::from_epoch_seconds(NOW + 60));
    let (stream, cache) = (SharedStream::default(), RecordingCache::default());
    let model = Arc::clone(run.model());
    let names = table_names(&model, STATE);
    let archiver = ChangeArchiver::new(stream.clone(), MemoryObjects::default(), clock());
    let invalidator = CacheInvalidator::new(Some(cache.clone()), None, clock());
    let relay = StreamRelay::new(SourceTables::new(model, names), Some(invalidator), Some(archiver), clock());
    (relay, stream, cache)
}

pub(super) async fn relay_batch(relay: &MemoryRelay, records: &[StreamRecord]) -> RelayedBatch {
    let event = event(records.iter().map(|record| record.json.as_str()));
    let relayed = relay.handle(event.as_bytes(), Timestamp::from_epoch_ms(i64::MAX)).await;
    relayed.unwrap_or_else(|error| panic!("{error}"))
}

/// Exports the lines of an archive: the rows of each dataset, and the bucket that holds them.
pub(super) async fn exported(
    run: &WorkloadRun,
    lines: &str,
) -> (BTreeMap<String, Vec<TextRow>>, Arc<MemoryObjects>) {
    let bucket = Arc::new(MemoryObjects::default());
    let object = ("archive/dt=2026-02-07/hh=12/1.gz".to_owned(), gzip(lines));
    // A rollup whose measures were all zero before and after a change is no item of its entity.
    let of_rollups = lines.lines().filter(|line| line.contains(&format!(":table/{STATE}/stream/"))).count();
    for tally in export(run.model(), &bucket, &[object].into()).await {
        assert_eq!((tally.rejected, tally.rescued), (0, 0));
        assert!(tally.unmatched <= of_rollups, "{tally:?}");
    }
    let mut rows: BTreeMap<String, Vec<TextRow>> = BTreeMap::new();
    for (name, file) in bucket.objects() {
        let place = name.strip_prefix("datasets/").and_then(|rest| rest.split_once("_log/dt="));
        if let Some((dataset, (day, _))) =
            place.and_then(|(dataset, file)| Some((dataset, file.split_once('/')?)))
        {
            let with_day = |mut row: TextRow| {
                row.insert("dt".to_owned(), day.to_owned());
                row
            };
            rows.entry(dataset.to_owned()).or_default().extend(rows_of(file).into_iter().map(with_day));
        }
    }
    (rows, bucket)
}

#[tokio::test]
async fn every_change_is_archived_and_has_its_stale_keys_and_rows() {
    for workload in ALL.into_iter().filter(|workload| workload.model != "exambuddy") {
        for seed in 0..SEEDS {
            let mut run = WorkloadRun::new(workload, seed, super::SIZE);
            run.run_to_end();
            check(workload.model, &run).await;
        }
    }
}

async fn check(model: &str, run: &WorkloadRun) {
    let (relay, stream, cache) = relay(run);
    let expectations = ModelExpectations::of(model);
    for batch in run.streams.records.chunks(BATCH) {
        let relayed = relay_batch(&relay, batch).await;
        assert!(relayed.failures.is_empty(), "{:?}", relayed.failures);
        assert_eq!(cache.take_removed(), expectations.stale_keys(batch), "{model}");
    }
    let lines = String::from_utf8(stream.contents()).expect("lines are text");
    let archived: Vec<&StreamRecord> =
        run.streams.records.iter().filter(|record| record.table != STATE || is_read(model, record)).collect();
    assert_eq!(lines.lines().count(), archived.len());
    // Without secrets, a line is its record, byte for byte.
    if model != "glad" {
        let written: Vec<&str> = archived.iter().map(|record| record.json.as_str()).collect();
        assert_eq!(lines.lines().collect::<Vec<_>>(), written);
    }
    check_replay(model, run, &lines).await;
    let mut expected: BTreeMap<String, Vec<TextRow>> = BTreeMap::new();
    for (dataset, row) in archived.into_iter().flat_map(|record| expectations.rows(record)) {
        expected.entry(dataset.to_owned()).or_default().push(row);
    }
    let (mut found, bucket) = exported(run, &lines).await;
    check_current_rows(model, run, &bucket, &found).await;
    for row in found.values_mut().flatten() {
        check_key_columns(row);
        // Without the stream's label and the leading zeros.
        let position = row["_position"].rsplit('#').next().unwrap_or("").trim_start_matches('0').to_owned();
        row.insert("_position".to_owned(), position);
    }
    expected.values_mut().chain(found.values_mut()).for_each(|rows| rows.sort_unstable());
    assert_eq!(found, expected, "{model}");
    assert_eq!(found.len(), run.model().datasets.len(), "{model}: every dataset has rows");
}

/// A replay of the archive makes the same keys stale as the changes did, also the keys of rollups.
async fn check_replay(model: &str, run: &WorkloadRun, lines: &str) {
    let (relay, _, cache) = relay(run);
    let lines: Vec<&str> = lines.lines().collect();
    let mut removed = BTreeSet::new();
    for batch in lines.chunks(BATCH) {
        let event = event(batch.iter().copied());
        let relayed = relay.handle(event.as_bytes(), Timestamp::from_epoch_ms(i64::MAX)).await;
        assert!(relayed.unwrap_or_else(|error| panic!("{error}")).failures.is_empty());
        removed.extend(cache.take_removed());
    }
    assert_eq!(removed, ModelExpectations::of(model).stale_keys(&run.streams.records), "{model}");
}

/// Whether a cache or event rule of the model reads a rollup, by hand for each model: its changes are archived. No dataset has rows of rollups.
fn is_read(model: &str, record: &StreamRecord) -> bool {
    let image = record.images().next().expect("an image");
    let (partition, sort) = (text_of(image, "PK"), text_of(image, "SK"));
    match model {
        "leaderboard" => {
            let is_week = partition.starts_with("GAME#") && sort.starts_with("ROLLUP#WEEK#");
            let is_total = partition.starts_with("PLAYER#") && sort.starts_with("ROLLUP#GAME#");
            (is_week && !partition.contains("#DISTINCT#")) || is_total
        }
        "marketplace" => partition.starts_with("PROMO#") && sort == "ROLLUP#USES",
        _ => false,
    }
}

/// Removes the columns that identify the item; each shows what the model's column of the same name shows.
fn check_key_columns(row: &mut TextRow) {
    let names: Vec<String> = row.keys().filter(|name| name.starts_with("_key_")).cloned().collect();
    assert!(!names.is_empty(), "{row:?}");
    for name in names {
        let value = row.remove(&name);
        let shown = row.get(name.trim_start_matches("_key_"));
        assert!(shown.is_none() || shown == value.as_ref(), "{name}: {row:?}");
    }
}

/// Compacts the datasets, and recounts the current rows from the rows of the log.
async fn check_current_rows(
    model: &str,
    run: &WorkloadRun,
    bucket: &Arc<MemoryObjects>,
    log: &BTreeMap<String, Vec<TextRow>>,
) {
    let clock = StillClock::at(Timestamp::from_epoch_seconds(1_772_000_000));
    let options = CompactionOptions::default();
    let compactor = DatasetCompactor::new(Arc::clone(run.model()), Arc::clone(bucket), options, clock);
    compactor.compact(None, None).await.expect("a compaction");
    for dataset in &run.model().datasets {
        let keeps_expired = match run.model().entities[dataset.of].on_expiry {
            OnExpiry::Keep => true,
            OnExpiry::Subtract => false,
        };
        let root = format!("datasets/{}/", dataset.name);
        let snapshot = DeltaTable::new(Arc::clone(bucket), &*root).snapshot().await.expect("a snapshot");
        let objects = bucket.objects();
        let mut found: Vec<TextRow> = Vec::new();
        for file in snapshot.files() {
            let rows = rows_of(objects[&format!("{root}{}", file.path)].clone()).into_iter();
            found.extend(rows.map(|mut row| {
                row.insert("dt".to_owned(), file.day.clone());
                row
            }));
        }
        let mut expected = recounted(&log[&*dataset.name], keeps_expired);
        expected.sort();
        found.sort();
        assert_eq!(found, expected, "{model}: {}", dataset.name);
    }
}

/// The newest row of each item and day, unless the item is gone; and the rows of lives that expired, if they are kept.
fn recounted(log: &[TextRow], keeps_expired: bool) -> Vec<TextRow> {
    let mut newest: BTreeMap<Vec<&String>, &TextRow> = BTreeMap::new();
    let mut current: BTreeMap<Vec<&String>, &TextRow> = BTreeMap::new();
    for row in log {
        let key = row.iter().filter(|(name, _)| name.starts_with("_key_") || *name == "dt");
        let mut key: Vec<&String> = key.map(|(_, value)| value).collect();
        let latest = newest.entry(key.clone()).or_insert(row);
        if row["_position"] > latest["_position"] {
            *latest = row;
        }
        if row["_operation"] == "EXPIRE" && keeps_expired {
            key.push(&row["_position"]);
            current.insert(key, row);
        }
    }
    let living = newest.into_values().filter(|row| !["REMOVE", "EXPIRE"].contains(&&*row["_operation"]));
    living.chain(current.into_values()).cloned().collect()
}
