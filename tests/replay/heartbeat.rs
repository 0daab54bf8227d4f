//! The heartbeat on its way: counted and archived like any change, derived from by nothing, and its age reported.

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use afterwrite_datasets::export::ArchiveExporter;
use afterwrite_functions::{SourceTables, StreamAggregator, StreamRelay, write_heartbeats};
use afterwrite_ledger::Ledger;
use afterwrite_memory::{MemoryCache, MemoryObjects, MemoryStream, MemoryTables, TableDefinition};
use afterwrite_model::clock::Clock as _;
use afterwrite_model::record::Timestamp;
use afterwrite_model::table::Model;
use afterwrite_relay::archive::ChangeArchiver;
use afterwrite_services::cloudfront::CloudFront;
use afterwrite_services::sqs::SqsQueue;
use afterwrite_services::{Bucket as _, ObjectStore as _};
use afterwrite_tests::clock::StillClock;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::TryStreamExt as _;
use serde_json::json;

fn model() -> Arc<Model> {
    Arc::new(Model::load(Model::DEFAULT_NAME).unwrap())
}

pub(crate) fn names(model: &Model) -> Vec<Arc<str>> {
    model.tables.iter().map(|table| Arc::clone(&table.name)).collect()
}

/// The stream event of a heartbeat that was written at this time.
fn event(written: Timestamp) -> Vec<u8> {
    let key = json!({"PK": {"S": "AFTERWRITE#HEARTBEAT"}, "SK": {"S": "AFTERWRITE#HEARTBEAT"}});
    let mut image = key.clone();
    image["heartbeat_at"] = json!({"N": written.epoch_ms().to_string()});
    let record = json!({
        "eventID": "h", "eventName": "MODIFY", "eventSource": "aws:dynamodb",
        "eventSourceARN": "arn:aws:dynamodb:eu-west-1:1:table/ExamBuddyTable/stream/2026-02-06T10:00:00.000",
        "dynamodb": {
            "ApproximateCreationDateTime": written.epoch_seconds(), "Keys": key, "NewImage": image, "OldImage": key,
            "SequenceNumber": "100000000000000000001", "StreamViewType": "NEW_AND_OLD_IMAGES",
        },
    });
    json!({ "Records": [record] }).to_string().into_bytes()
}

#[tokio::test]
async fn the_item_is_written_under_the_reserved_key() {
    let (model, tables) = (model(), MemoryTables::new());
    tables.create_table(TableDefinition::new("ExamBuddyTable", "PK").sort("SK"));
    let now = Timestamp::from_epoch_ms(1_770_372_000_123);
    let written = write_heartbeats(&model, &names(&model), &tables, now).await.unwrap();
    assert_eq!(written, [Arc::from("ExamBuddyTable")]);
    let items = tables.scan("ExamBuddyTable");
    assert_eq!(items.len(), 1);
    assert_eq!(items[0]["PK"].as_text(), Some("AFTERWRITE#HEARTBEAT"));
    assert_eq!(items[0]["heartbeat_at"].as_number().unwrap().to_i64(), Some(1_770_372_000_123));
}

#[tokio::test]
async fn the_aggregator_reports_its_age_and_counts_nothing() {
    let (model, tables) = (model(), MemoryTables::new());
    tables.create_table(TableDefinition::new("state", "PK").sort("SK"));
    let now = Timestamp::from_epoch_ms(1_770_372_000_000);
    let clock = StillClock::at(now);
    let ledger = Ledger::new(Arc::clone(&model), names(&model), Arc::from("state"), tables, clock);
    let aggregator = StreamAggregator::new(ledger);
    let event = event(now.minus(Duration::from_millis(2_500)));
    let handled = aggregator.handle(&event, now.plus(Duration::from_secs(60))).await.unwrap();
    assert_eq!(handled.heartbeat_age, Some(Duration::from_millis(2_500)));
    assert_eq!((handled.unmatched, handled.failures.len()), (0, 0));
    assert!(aggregator.ledger().tables().scan("state").is_empty());
}

#[tokio::test]
async fn the_relay_archives_it_and_reports_its_age() {
    let model = model();
    let now = Timestamp::from_epoch_ms(1_770_372_000_000);
    let clock = StillClock::at(now);
    let stream = Arc::new(MemoryStream::default());
    let archiver = ChangeArchiver::new(Arc::clone(&stream), MemoryObjects::default(), StillClock::at(now));
    let tables = SourceTables::new(Arc::clone(&model), names(&model));
    let relay: StreamRelay<MemoryCache, CloudFront, SqsQueue, _, _, _> =
        StreamRelay::new(tables, None, Some(archiver), clock);
    let event = event(now.minus(Duration::from_secs(4)));
    let relayed =
        relay.handle(&event, StillClock::at(now).now().plus(Duration::from_secs(60))).await.unwrap();
    assert_eq!(relayed.archived_heartbeat_age, Some(Duration::from_secs(4)));
    assert_eq!(relayed.archived.unwrap().lines, 1);
}

#[tokio::test]
async fn the_exporter_stores_when_the_newest_heartbeat_was_written_and_counts_no_unmatched_line() {
    let model = model();
    let now = Timestamp::from_epoch_ms(1_770_372_000_000);
    let bucket = MemoryObjects::default();
    let line = |written: Timestamp| {
        let event: serde_json::Value = serde_json::from_slice(&event(written)).unwrap();
        format!("{}\n", event["Records"][0])
    };
    let lines = [line(now.minus(Duration::from_secs(61))), line(now.minus(Duration::from_secs(1)))].concat();
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(lines.as_bytes()).unwrap();
    let key = "archive/dt=2026-02-06/hh=10/a.gz".to_owned();
    bucket.put(&key, gzip.finish().unwrap()).await.unwrap();
    let exporter: ArchiveExporter<_, MemoryTables, _> =
        ArchiveExporter::new(Arc::clone(&model), names(&model), bucket, None, StillClock::at(now));
    let exported = exporter.export(&[key], now.plus(Duration::from_secs(60))).await.remove(0).unwrap();
    assert_eq!((exported.lines, exported.unmatched, exported.rows), (2, 0, 0));
    assert_eq!(exported.heartbeat_ms, Some(now.epoch_ms() - 1_000));
    let stored = exporter.bucket().get("heartbeat/exported").await.unwrap().unwrap();
    let stored = stored.try_collect::<Vec<_>>().await.unwrap().concat();
    assert_eq!(stored, (now.epoch_ms() - 1_000).to_string().as_bytes());
}
