//! Whatever fails on the way, nothing is lost, and nothing is doubled once duplicates are dropped by event id.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use afterwrite::clock::{Clock as _, SystemClock};
use afterwrite::relay::archive::{ArchiveTotals, Archiver};
use afterwrite::sink::firehose::Firehose;
use afterwrite::sink::s3::S3Bucket;
use afterwrite::{Error, ErrorKind};
use afterwrite_tests::archive::{EmbeddedArchive, FlakyStream, StreamFaults, by_event_id, lines};

use crate::{deadline, recorded_lines};

/// Archives the recording through these faults; what was done, and how many lines more than records came out.
async fn archived_through(faults: StreamFaults) -> (ArchiveTotals, usize) {
    let archive = EmbeddedArchive::start().await;
    let archiver = archive.archiver(FlakyStream::new(archive.stream(), faults));
    let texts = recorded_lines(&[]);
    let mut totals = ArchiveTotals::default();
    for batch in texts.chunks(20) {
        let outcome = archiver.archive(&lines(batch), deadline(60)).await;
        assert!(outcome.failures.is_empty(), "{:?}", outcome.failures);
        totals += outcome.totals;
    }
    let (archived, count) = by_event_id(archive.read_back().await.values());
    let expected: BTreeSet<&str> = texts.iter().map(|(id, _)| id.as_str()).collect();
    assert_eq!(archived.keys().map(String::as_str).collect::<BTreeSet<_>>(), expected);
    (totals, count - texts.len())
}

#[tokio::test]
async fn a_record_that_is_refused_is_sent_again_and_comes_out_once() {
    let (totals, doubled) =
        archived_through(StreamFaults { refused_record: 3, ..StreamFaults::default() }).await;
    assert!(totals.retries > 50, "{totals:?}");
    assert_eq!(doubled, 0);
}

#[tokio::test]
async fn a_request_that_is_throttled_is_sent_again_and_comes_out_once() {
    let (totals, doubled) = archived_through(StreamFaults { throttle: 4, ..StreamFaults::default() }).await;
    assert!(totals.retries > 30, "{totals:?}");
    assert_eq!(doubled, 0);
}

#[tokio::test]
async fn a_lost_answer_doubles_lines_that_their_event_ids_tell_apart() {
    let (totals, doubled) =
        archived_through(StreamFaults { lost_response: 5, refused_record: 7, throttle: 11 }).await;
    assert!(totals.retries > 50 && doubled > 0, "{totals:?}");
}

#[tokio::test]
async fn a_stream_that_is_unavailable_for_a_while_is_waited_for() {
    let archive = EmbeddedArchive::start().await;
    archive.firehose.set_unavailable(true);
    let (archiver, texts) = (archive.archiver(archive.stream()), recorded_lines(&[]));
    let recovery = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        archive.firehose.set_unavailable(false);
    };
    let lines = lines(&texts[..100]);
    let (outcome, ()) = tokio::join!(archiver.archive(&lines, deadline(60)), recovery);
    assert!(outcome.failures.is_empty() && outcome.totals.retries > 0);
    assert_eq!(by_event_id(archive.read_back().await.values()).1, 100);
}

#[tokio::test]
async fn what_stays_unavailable_is_reported_in_time_record_by_record() {
    let archive = EmbeddedArchive::start().await;
    archive.firehose.set_unavailable(true);
    let texts = recorded_lines(&[]);
    let started = SystemClock.now();
    let outcome = archive.archiver(archive.stream()).archive(&lines(&texts[..30]), deadline(1)).await;
    let failed: Vec<usize> = outcome.failures.iter().map(|failure| failure.index).collect();
    assert_eq!(failed, (0..30).collect::<Vec<_>>());
    assert!(outcome.failures.iter().all(|failure| failure.error.is_retryable()));
    assert!(SystemClock.now().since(started) < Duration::from_secs(3));
    assert!(archive.read_back().await.is_empty());
}

#[tokio::test]
async fn a_dead_stream_keeps_no_large_line_from_the_bucket() {
    let archive = EmbeddedArchive::start().await;
    archive.firehose.set_unavailable(true);
    let large = format!("{{\"eventID\":\"large\",\"x\":\"{}\"}}\n", "x".repeat(1_024_000));
    let texts = [("small".to_owned(), "{\"eventID\":\"small\"}\n".to_owned()), ("large".to_owned(), large)];
    let outcome = archive.archiver(archive.stream()).archive(&lines(&texts), deadline(1)).await;
    assert_eq!(outcome.failures.iter().map(|failure| failure.index).collect::<Vec<_>>(), [0]);
    assert!(by_event_id(archive.read_back().await.values()).0.contains_key("large"));
}

#[tokio::test]
async fn a_wrong_name_is_told_by_its_variable() {
    let archive = EmbeddedArchive::start().await;
    let stream = Firehose::new(&archive.firehose.client(), Arc::from("elsewhere"));
    let bucket = S3Bucket::new(&archive.s3.client(), Arc::from("elsewhere"));
    let archiver = Archiver::new(stream, bucket, SystemClock);
    let texts = [("a".to_owned(), "{}\n".to_owned()), ("b".to_owned(), "x".repeat(1_024_001))];
    let outcome = archiver.archive(&lines(&texts), deadline(30)).await;
    let errors: Vec<&Error> = outcome.failures.iter().map(|failure| &failure.error).collect();
    for (error, variable) in errors.iter().zip(["AFTERWRITE_FIREHOSE_STREAM", "AFTERWRITE_BUCKET"]) {
        assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
        assert!(error.to_string().contains(variable) && error.to_string().contains("elsewhere"), "{error}");
    }
    assert_eq!(errors.len(), 2);
}
