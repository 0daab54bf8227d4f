//! Requests that are answered in part: what was refused comes out all the same, and what was taken is not sent again.

use std::collections::BTreeMap;

use afterwrite::clock::SystemClock;
use afterwrite::relay::archive::{ArchiveTotals, Archiver};
use afterwrite::sink::s3::S3Bucket;
use afterwrite_tests::archive::{BUCKET, EmbeddedArchive, StreamFaults, by_event_id, lines, objects};
use afterwrite_tests::firehose_proxy::{FirehoseProxy, Passed};
use serde_json::Value;

use crate::{deadline, moto, recorded_lines};

/// How many lines share a record of the delivery stream.
const LINES_A_RECORD: usize = 3;
/// How many of its records a batch makes: more than one request takes.
const RECORDS_A_BATCH: usize = 10;
const BATCHES: usize = 3;

const REFUSALS: StreamFaults = StreamFaults { refused_record: 3, lost_response: 0, throttle: 0 };
const EVERYTHING: StreamFaults = StreamFaults { refused_record: 3, lost_response: 4, throttle: 7 };

/// Records of the recording as lines, by event id. Of those that share a record of the delivery stream the first is so wide that
/// there is no room for the next such line.
fn wide_lines() -> Vec<(String, String)> {
    let mut lines = recorded_lines(&[]);
    lines.truncate(BATCHES * RECORDS_A_BATCH * LINES_A_RECORD);
    for (place, (_, text)) in lines.iter_mut().enumerate().step_by(LINES_A_RECORD) {
        let mut record: Value = serde_json::from_str(text).unwrap();
        record["dynamodb"]["NewImage"]["explanation"]["S"] = format!("{place:03} ").repeat(150_000).into();
        *text = format!("{record}\n");
    }
    lines
}

/// Archives wide lines through a proxy before the Firehose at `upstream`; what was done, and what passed through the proxy.
async fn archived_through(faults: StreamFaults, upstream: &str, bucket: S3Bucket) -> (ArchiveTotals, Passed) {
    let proxy = FirehoseProxy::start(upstream, faults).await.unwrap();
    let archiver = Archiver::new(proxy.stream(), bucket, SystemClock);
    let (texts, mut totals) = (wide_lines(), ArchiveTotals::default());
    for batch in texts.chunks(RECORDS_A_BATCH * LINES_A_RECORD) {
        let outcome = archiver.archive(&lines(batch), deadline(60)).await;
        assert!(outcome.failures.is_empty(), "{:?}", outcome.failures);
        totals += outcome.totals;
    }
    assert_eq!(totals.lines, texts.len() as u64);
    assert_eq!(totals.firehose_records, (BATCHES * RECORDS_A_BATCH) as u64);
    (totals, proxy.passed())
}

/// Every wide line is there, and no other, once duplicates are dropped by event id; how many there were to drop.
fn doubled(objects: &BTreeMap<String, String>) -> usize {
    let (archived, count) = by_event_id(objects.values());
    let texts = wide_lines();
    let expected = texts.into_iter().map(|(id, text)| (id, serde_json::from_str(&text).unwrap()));
    let expected: BTreeMap<String, Value> = expected.collect();
    let missing = expected.keys().filter(|id| !archived.contains_key(*id)).count();
    assert_eq!(missing, 0, "lines are lost");
    assert!(archived == expected, "a line differs");
    count - expected.len()
}

/// Where nothing but records is refused, those alone are sent again, and nothing comes out twice even before duplicates are dropped.
fn check_refusals(totals: ArchiveTotals, passed: Passed, doubled: usize) {
    assert!(passed.answers_in_part >= 2 * BATCHES as u64, "{passed:?}");
    assert_eq!(passed.refused, passed.records / REFUSALS.refused_record, "{passed:?}");
    assert_eq!(totals.retries, passed.refused, "{passed:?}");
    assert_eq!(totals.firehose_records, passed.records - passed.refused, "{passed:?}");
    assert_eq!(doubled, 0);
}

#[tokio::test]
async fn the_refused_records_of_a_request_are_sent_again_and_no_others() {
    let archive = EmbeddedArchive::start().await;
    let upstream = archive.firehose.endpoint();
    let (totals, passed) = archived_through(REFUSALS, &upstream, archive.bucket()).await;
    check_refusals(totals, passed, doubled(&archive.read_back().await));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs moto: run tests/run"]
async fn the_refused_records_of_a_request_to_moto_are_sent_again_and_no_others() {
    let moto = moto::started().await;
    let bucket = S3Bucket::new(&moto.s3(), BUCKET.into());
    let (totals, passed) = archived_through(REFUSALS, moto.endpoint(), bucket).await;
    check_refusals(totals, passed, doubled(&objects(&moto.s3(), BUCKET).await));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs moto: run tests/run"]
async fn refusals_throttling_and_lost_answers_lose_nothing_on_the_way_to_moto() {
    let moto = moto::started().await;
    let bucket = S3Bucket::new(&moto.s3(), BUCKET.into());
    let (totals, passed) = archived_through(EVERYTHING, moto.endpoint(), bucket).await;
    assert!(passed.answers_in_part >= BATCHES as u64, "{passed:?}");
    assert!(totals.retries > passed.refused, "{totals:?} {passed:?}");
    assert!(doubled(&objects(&moto.s3(), BUCKET).await) > 0, "answers were lost");
}
