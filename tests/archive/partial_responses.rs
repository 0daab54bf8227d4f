//! Requests of which the service takes some records: refused records are archived in the end, and taken ones are not sent again.

use std::collections::BTreeMap;

use afterwrite_model::clock::SystemClock;
use afterwrite_relay::archive::{ArchiveTotals, ChangeArchiver};
use afterwrite_services::s3::S3Bucket;
use afterwrite_tests::archive::{BUCKET, EmbeddedArchive, StreamFaults, by_event_id, lines, objects};
use afterwrite_tests::firehose_proxy::{FirehoseProxy, ProxyTotals};
use afterwrite_tests::moto::MotoServer;
use serde_json::Value;

use super::{deadline, recorded_lines};

/// The number of lines in a record of the delivery stream.
const LINES_PER_RECORD: usize = 3;
/// The number of the stream's records in a batch: more than fit into one request.
const RECORDS_PER_BATCH: usize = 10;
const BATCHES: usize = 3;

const REFUSALS: StreamFaults = StreamFaults { refused_record: 3, lost_response: 0, throttle: 0 };
const ALL_FAULTS: StreamFaults = StreamFaults { refused_record: 3, lost_response: 4, throttle: 7 };

/// Records of the recording as lines, by event id. The first line of each record of the delivery stream is so long that the record has no
/// space for the next long one.
fn long_lines() -> Vec<(String, String)> {
    let mut lines = recorded_lines(&[]);
    lines.truncate(BATCHES * RECORDS_PER_BATCH * LINES_PER_RECORD);
    for (number, (_, text)) in lines.iter_mut().enumerate().step_by(LINES_PER_RECORD) {
        let mut record: Value = serde_json::from_str(text).unwrap();
        record["dynamodb"]["NewImage"]["explanation"]["S"] = format!("{number:03} ").repeat(150_000).into();
        *text = format!("{record}\n");
    }
    lines
}

/// Archives long lines through a proxy in front of the Firehose at `upstream`; returns the totals of the archiver and of the proxy.
async fn archived_through(
    faults: StreamFaults,
    upstream: &str,
    bucket: S3Bucket,
) -> (ArchiveTotals, ProxyTotals) {
    let proxy = FirehoseProxy::start(upstream, faults).await.unwrap();
    let archiver = ChangeArchiver::new(proxy.stream(), bucket, SystemClock);
    let (texts, mut totals) = (long_lines(), ArchiveTotals::default());
    for batch in texts.chunks(RECORDS_PER_BATCH * LINES_PER_RECORD) {
        let outcome = archiver.archive(&lines(batch), deadline(60)).await;
        assert!(outcome.failures.is_empty(), "{:?}", outcome.failures);
        totals += outcome.totals;
    }
    assert_eq!(totals.lines, texts.len() as u64);
    assert_eq!(totals.firehose_records, (BATCHES * RECORDS_PER_BATCH) as u64);
    (totals, proxy.totals())
}

/// Asserts that exactly the long lines were archived, without duplicates by event id; returns the number of duplicates.
fn count_duplicates(objects: &BTreeMap<String, String>) -> usize {
    let (archived, count) = by_event_id(objects.values());
    let texts = long_lines();
    let expected = texts.into_iter().map(|(id, text)| (id, serde_json::from_str(&text).unwrap()));
    let expected: BTreeMap<String, Value> = expected.collect();
    let missing = expected.keys().filter(|id| !archived.contains_key(*id)).count();
    assert_eq!(missing, 0, "lines are lost");
    assert!(archived == expected, "a line differs");
    count - expected.len()
}

/// If only single records are refused, only they are sent again, and there are no duplicates.
fn check_refusals(totals: ArchiveTotals, passed: ProxyTotals, duplicates: usize) {
    assert!(passed.partial_responses >= 2 * BATCHES as u64, "{passed:?}");
    assert_eq!(passed.refused, passed.records / REFUSALS.refused_record, "{passed:?}");
    assert_eq!(totals.retries, passed.refused, "{passed:?}");
    assert_eq!(totals.firehose_records, passed.records - passed.refused, "{passed:?}");
    assert_eq!(duplicates, 0);
}

#[tokio::test]
async fn only_the_refused_records_of_a_request_are_sent_again() {
    let archive = EmbeddedArchive::start().await;
    let upstream = archive.firehose.endpoint();
    let (totals, passed) = archived_through(REFUSALS, &upstream, archive.bucket()).await;
    check_refusals(totals, passed, count_duplicates(&archive.read_back().await));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs moto: run tests/run"]
async fn only_the_refused_records_of_a_request_to_moto_are_sent_again() {
    let moto = MotoServer::with_archive().await;
    let bucket = S3Bucket::new(&moto.s3(), BUCKET.into());
    let (totals, passed) = archived_through(REFUSALS, moto.endpoint(), bucket).await;
    check_refusals(totals, passed, count_duplicates(&objects(&moto.s3(), BUCKET).await));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs moto: run tests/run"]
async fn refusals_throttling_and_lost_responses_lose_nothing_on_the_way_to_moto() {
    let moto = MotoServer::with_archive().await;
    let bucket = S3Bucket::new(&moto.s3(), BUCKET.into());
    let (totals, passed) = archived_through(ALL_FAULTS, moto.endpoint(), bucket).await;
    assert!(passed.partial_responses >= BATCHES as u64, "{passed:?}");
    assert!(totals.retries > passed.refused, "{totals:?} {passed:?}");
    assert!(count_duplicates(&objects(&moto.s3(), BUCKET).await) > 0, "responses were lost");
}
