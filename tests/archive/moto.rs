//! The same against another implementation of Firehose's and S3's APIs. (moto's Firehose neither packs nor knows a prefix
//! with times; it writes an object a request.)

use std::collections::BTreeSet;
use std::sync::Arc;

use afterwrite::clock::SystemClock;
use afterwrite::relay::archive::{ArchiveTotals, Archiver};
use afterwrite::sink::firehose::Firehose;
use afterwrite::sink::s3::S3Bucket;
use afterwrite_tests::archive::{BUCKET, FlakyStream, STREAM, StreamFaults, by_event_id, lines, objects};
use afterwrite_tests::moto::Moto;
use aws_sdk_firehose::types::ExtendedS3DestinationConfiguration;

use crate::{deadline, recorded_lines};

pub(crate) async fn started() -> Moto {
    let moto = Moto::start();
    moto.s3().create_bucket().bucket(BUCKET).send().await.unwrap();
    let destination = ExtendedS3DestinationConfiguration::builder()
        .role_arn("arn:aws:iam::123456789012:role/delivery")
        .bucket_arn(format!("arn:aws:s3:::{BUCKET}"))
        .prefix("archive/")
        .build()
        .unwrap();
    let create = moto.firehose().create_delivery_stream().delivery_stream_name(STREAM);
    let created = create.extended_s3_destination_configuration(destination).send();
    Box::pin(created).await.unwrap();
    moto
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs moto: run tests/run"]
async fn moto_takes_every_record_and_gives_it_back_through_refusals_and_lost_answers() {
    let moto = started().await;
    let faults = StreamFaults { refused_record: 5, lost_response: 7, throttle: 11 };
    let stream = FlakyStream::new(Firehose::new(&moto.firehose(), Arc::from(STREAM)), faults);
    let archiver = Archiver::new(stream, S3Bucket::new(&moto.s3(), Arc::from(BUCKET)), SystemClock);
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
