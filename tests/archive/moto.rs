//! The archive against an independent implementation of Firehose's and S3's APIs.

use std::collections::BTreeSet;
use std::sync::Arc;

use afterwrite_model::clock::SystemClock;
use afterwrite_relay::archive::{ArchiveTotals, ChangeArchiver};
use afterwrite_services::firehose::Firehose;
use afterwrite_services::s3::S3Bucket;
use afterwrite_tests::archive::{BUCKET, FlakyStream, STREAM, StreamFaults, by_event_id, lines, objects};
use afterwrite_tests::moto::MotoServer;

use super::{deadline, recorded_lines};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs moto: run tests/run"]
async fn moto_archives_every_record_through_refusals_and_lost_responses() {
    let moto = MotoServer::with_archive().await;
    let faults = StreamFaults { refused_record: 5, lost_response: 7, throttle: 11 };
    let stream = FlakyStream::new(Firehose::new(&moto.firehose(), Arc::from(STREAM)), faults);
    let archiver = ChangeArchiver::new(stream, S3Bucket::new(&moto.s3(), Arc::from(BUCKET)), SystemClock);
    let mut texts = recorded_lines(&[]);
    let large = format!("{{\"eventID\":\"large\",\"x\":\"{}\"}}\n", "x".repeat(1_024_000));
    texts.push(("large".to_owned(), large));
    let mut totals = ArchiveTotals::default();
    for batch in texts.chunks(50) {
        let outcome = archiver.archive(&lines(batch), deadline(60)).await;
        assert!(outcome.failures.is_empty(), "{:?}", outcome.failures);
        totals += outcome.totals;
    }
    assert_eq!((totals.direct_objects, totals.lines), (1, texts.len() as u64));
    let objects = objects(&moto.s3(), BUCKET).await;
    assert_eq!(objects.keys().filter(|key| key.starts_with("archive/dt=")).count(), 1);
    let (archived, _) = by_event_id(objects.values());
    let expected: BTreeSet<&str> = texts.iter().map(|(id, _)| id.as_str()).collect();
    assert_eq!(archived.keys().map(String::as_str).collect::<BTreeSet<_>>(), expected);
    for (id, text) in &texts {
        assert_eq!(archived[id], serde_json::from_str::<serde_json::Value>(text).unwrap(), "{id}");
    }
}
