//! What is not counted but passed on: the same workloads through the relay and the exporter.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use afterwrite::Error;
use afterwrite::projection::StaleKey;
use afterwrite::record::Timestamp;
use afterwrite::relay::archive::Archiver;
use afterwrite::relay::invalidate::CacheInvalidator;
use afterwrite::sink::cloudfront::CloudFront;
use afterwrite::sink::firehose::{DeliveryStream, MemoryStream};
use afterwrite::sink::s3::MemoryObjects;
use afterwrite::sink::{Cache, InvalidatedKeys};
use afterwrite_demo::workloads::ALL;
use afterwrite_functions::{Relay, Relayed, SourceTables};
use afterwrite_tests::clock::StillClock;
use afterwrite_tests::datasets::{Row, export, gzip, rows_of};

use super::application::NOW;
use super::cached::cached_under;
use super::consumers::Run;
use super::rows::rows_of_change;
use super::stream::{Record, event};

/// Seeds that are passed on, of each model.
const SEEDS: u64 = 5;
/// Records of a batch.
const BATCH: usize = 40;

/// Notes the keys that go.
#[derive(Clone, Debug, Default)]
pub(super) struct NotingCache(Arc<Mutex<BTreeSet<String>>>);

impl NotingCache {
    fn gone(&self) -> BTreeSet<String> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Cache for NotingCache {
    async fn invalidate(&self, keys: &[StaleKey], _: Timestamp, _: Duration) -> InvalidatedKeys {
        let mut gone = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        gone.extend(keys.iter().map(|key| key.key.clone()));
        InvalidatedKeys { answers: keys.iter().map(|_| Ok(())).collect(), commands: 1 }
    }
}

/// A delivery stream in memory that is looked into afterwards.
#[derive(Clone, Debug, Default)]
pub(super) struct Stream(Arc<MemoryStream>);

impl Stream {
    /// Everything that was written to it.
    pub(super) fn contents(&self) -> Vec<u8> {
        self.0.contents()
    }
}

impl DeliveryStream for Stream {
    async fn put_batch(&self, records: &[&[u8]]) -> Result<Vec<Result<(), Error>>, Error> {
        self.0.put_batch(records).await
    }
}

pub(super) type MemoryRelay = Relay<NotingCache, CloudFront, Stream, MemoryObjects, StillClock>;

/// The relay of a run's model, with the stream it writes to and the cache.
pub(super) fn relay(run: &Run) -> (MemoryRelay, Stream, NotingCache) {
    let clock = || StillClock::at(Timestamp::from_epoch_seconds(NOW + 60));
    let (stream, cache) = (Stream::default(), NotingCache::default());
    let model = Arc::clone(run.model());
    let names = model.tables.iter().map(|table| Arc::clone(&table.name)).collect();
    let archiver = Archiver::new(stream.clone(), MemoryObjects::default(), clock());
    let invalidator = CacheInvalidator::new(Arc::clone(&model), Some(cache.clone()), None, clock());
    let relay = Relay::new(SourceTables::new(model, names), Some(invalidator), Some(archiver), clock());
    (relay, stream, cache)
}

pub(super) async fn pass_on(relay: &MemoryRelay, records: &[Record]) -> Relayed {
    let event = event(records.iter().map(|record| record.json.as_str()));
    let relayed = relay.handle(event.as_bytes(), Timestamp::from_epoch_ms(i64::MAX)).await;
    relayed.unwrap_or_else(|error| panic!("{error}"))
}

/// The archive that the records make, as text, and the rows of its datasets, with the bucket that they lie in.
pub(super) async fn exported(run: &Run, lines: &str) -> (BTreeMap<String, Vec<Row>>, Arc<MemoryObjects>) {
    let bucket = Arc::new(MemoryObjects::default());
    let object = ("archive/dt=2026-02-07/hh=12/1.gz".to_owned(), gzip(lines));
    for tally in export(run.model(), &bucket, &[object].into()).await {
        assert_eq!((tally.rejected, tally.rescued, tally.unmatched), (0, 0, 0));
    }
    let mut rows: BTreeMap<String, Vec<Row>> = BTreeMap::new();
    for (name, file) in bucket.objects() {
        let place = name.strip_prefix("datasets/").and_then(|rest| rest.split_once("/dt="));
        if let Some((dataset, (day, _))) =
            place.and_then(|(dataset, file)| Some((dataset, file.split_once('/')?)))
        {
            let with_day = |mut row: Row| {
                row.insert("dt".to_owned(), day.to_owned());
                row
            };
            rows.entry(dataset.to_owned()).or_default().extend(rows_of(file).into_iter().map(with_day));
        }
    }
    (rows, bucket)
}

#[tokio::test]
async fn every_change_is_archived_makes_its_keys_stale_and_is_a_row() {
    for workload in ALL.into_iter().filter(|workload| workload.model != "exambuddy") {
        for seed in 0..SEEDS {
            let mut run = Run::new(workload, seed, super::SIZE);
            run.go();
            check(workload.model, &run).await;
        }
    }
}

async fn check(model: &str, run: &Run) {
    let (relay, stream, cache) = relay(run);
    for batch in run.streams.records.chunks(BATCH) {
        let relayed = pass_on(&relay, batch).await;
        assert!(relayed.failures.is_empty(), "{:?}", relayed.failures);
        let images = batch.iter().flat_map(|record| record.images().map(|image| (&record.table, image)));
        let expected: BTreeSet<String> =
            images.flat_map(|(table, image)| cached_under(model, table, image)).collect();
        assert_eq!(cache.gone(), expected, "{model}");
    }
    let lines = String::from_utf8(stream.contents()).expect("lines are text");
    assert_eq!(lines.lines().count(), run.streams.records.len());
    // Without secrets a line is its record, word for word.
    if model != "glad" {
        let written: Vec<&str> = run.streams.records.iter().map(|record| record.json.as_str()).collect();
        assert_eq!(lines.lines().collect::<Vec<_>>(), written);
    }
    let mut expected: BTreeMap<String, Vec<Row>> = BTreeMap::new();
    for (dataset, row) in run.streams.records.iter().flat_map(|record| rows_of_change(model, record)) {
        expected.entry(dataset.to_owned()).or_default().push(row);
    }
    let (mut found, _) = exported(run, &lines).await;
    for row in found.values_mut().flatten() {
        // Before it the stream's label, and noughts.
        let position = row["_position"].rsplit('#').next().unwrap_or("").trim_start_matches('0').to_owned();
        row.insert("_position".to_owned(), position);
    }
    expected.values_mut().chain(found.values_mut()).for_each(|rows| rows.sort_unstable());
    assert_eq!(found, expected, "{model}");
    assert_eq!(found.len(), run.model().datasets.len(), "{model}: every dataset has rows");
}
