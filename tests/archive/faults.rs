//! StreamFaults on the way to the archive lose nothing, and without duplicates by event id nothing is there twice.

use std::collections::BTreeSet;
use std::time::Duration;

use afterwrite_model::clock::{Clock as _, SystemClock};
use afterwrite_relay::archive::ArchiveTotals;
use afterwrite_tests::archive::{EmbeddedArchive, FlakyStream, StreamFaults, by_event_id, lines};

use super::{deadline, recorded_lines};

/// Archives the recording through these faults; returns the totals and the number of duplicate lines.
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
async fn a_refused_record_is_sent_again_and_archived_once() {
    let (totals, duplicates) =
        archived_through(StreamFaults { refused_record: 3, ..StreamFaults::default() }).await;
    assert!(totals.retries > 50, "{totals:?}");
    assert_eq!(duplicates, 0);
}

#[tokio::test]
async fn a_throttled_request_is_sent_again_and_archived_once() {
    let (totals, duplicates) =
        archived_through(StreamFaults { throttle: 4, ..StreamFaults::default() }).await;
    assert!(totals.retries > 30, "{totals:?}");
    assert_eq!(duplicates, 0);
}

#[tokio::test]
async fn a_lost_response_duplicates_lines_with_equal_event_ids() {
    let (totals, duplicates) =
        archived_through(StreamFaults { lost_response: 5, refused_record: 7, throttle: 11 }).await;
    assert!(totals.retries > 50 && duplicates > 0, "{totals:?}");
}

#[tokio::test]
async fn a_temporarily_unavailable_stream_is_waited_for() {
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
async fn a_permanently_unavailable_stream_fails_every_record_in_time() {
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
async fn an_unavailable_stream_does_not_affect_large_lines() {
    let archive = EmbeddedArchive::start().await;
    archive.firehose.set_unavailable(true);
    let large = format!("{{\"eventID\":\"large\",\"x\":\"{}\"}}\n", "x".repeat(1_024_000));
    let texts = [("small".to_owned(), "{\"eventID\":\"small\"}\n".to_owned()), ("large".to_owned(), large)];
    let outcome = archive.archiver(archive.stream()).archive(&lines(&texts), deadline(1)).await;
    assert_eq!(outcome.failures.iter().map(|failure| failure.index).collect::<Vec<_>>(), [0]);
    assert!(by_event_id(archive.read_back().await.values()).0.contains_key("large"));
}
