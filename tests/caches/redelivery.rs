//! A record that failed at one target is redelivered. The other targets do nothing twice, and paths are sent after the keys.

use std::sync::atomic::Ordering;
use std::time::Duration;

use afterwrite_functions::RelayedBatch;
use afterwrite_model::ErrorKind;
use afterwrite_model::record::Timestamp;
use afterwrite_relay::QueuedMessage;
use serde_json::Value;

use super::cloudfront::{BEGIN, SharedClock};
use super::delivery::{model, question};
use super::relay_failures::{at, event, failed};
use super::stand_ins::{RelaySetup, TestedTarget};

/// A distribution that is never busy.
fn idle_cdn() -> TestedTarget {
    TestedTarget::Cdn(BEGIN..BEGIN)
}

/// A distribution that is busy for a minute.
fn busy_cdn() -> TestedTarget {
    TestedTarget::Cdn(BEGIN..BEGIN.plus(Duration::from_secs(60)))
}

fn setup(target: TestedTarget) -> RelaySetup {
    RelaySetup::new(&model(), target, SharedClock::at(BEGIN))
}

/// Questions of projects of their own.
fn questions(count: usize) -> Vec<Value> {
    (0..count)
        .map(|id| at(question(&format!("p{id}"), &format!("q{id}")), &format!("{}", 101 + id)))
        .collect()
}

async fn deliver(setup: &RelaySetup, records: &[Value]) -> RelayedBatch {
    let deadline: Timestamp = afterwrite_model::clock::Clock::now(&setup.clock).plus(Duration::from_secs(20));
    setup.relay.handle(event(records).as_bytes(), deadline).await.unwrap()
}

/// Delivers records as Lambda does, from the lowest failure on, until all succeed. Returns the number of deliveries.
async fn deliver_all(setup: &RelaySetup, records: &[Value]) -> usize {
    let mut rest = records;
    for delivery in 1..200 {
        let relayed = deliver(setup, rest).await;
        let Some(failure) = relayed.response.batch_item_failures.first() else { return delivery };
        let number = |record: &Value| record["dynamodb"]["SequenceNumber"] == *failure.item_identifier;
        rest = &rest[rest.iter().position(number).unwrap()..];
    }
    panic!("it never succeeds")
}

#[tokio::test]
async fn a_busy_cdn_repeats_neither_a_key_nor_a_line() {
    let (setup, records) = (setup(busy_cdn()), questions(10));
    let deliveries = deliver_all(&setup, &records).await;
    assert!(deliveries > 10, "{deliveries}: the distribution was busy for a minute");
    assert_eq!(setup.lines(), records.len());
    assert_eq!((setup.cache.removed().len(), setup.most_removals_of_a_key()), (20, 1));
    // Every key was gone at the first delivery.
    assert!(setup.cache.removed().values().flatten().all(|gone| *gone == BEGIN));
    assert_eq!(setup.cdn_paths().len(), 20);
}

#[tokio::test]
async fn a_new_record_of_a_redelivered_batch_is_invalidated_before_any_waiting() {
    let (setup, records) = (setup(busy_cdn()), questions(4));
    deliver(&setup, &records[..2]).await;
    let second = afterwrite_model::clock::Clock::now(&setup.clock);
    assert!(second > BEGIN);
    deliver(&setup, &records).await;
    let removed = setup.cache.removed();
    assert_eq!(removed["question:q3"], [second]);
    assert_eq!(removed["question:q0"], [BEGIN]);
}

#[tokio::test]
async fn an_archive_that_is_down_repeats_neither_a_key_nor_a_path() {
    for target in [idle_cdn(), TestedTarget::Queue] {
        let (setup, records) = (setup(target), questions(5));
        setup.stream.is_down.store(true, Ordering::Relaxed);
        for _ in 0..3 {
            assert_eq!(failed(&deliver(&setup, &records).await).len(), 5);
        }
        setup.stream.is_down.store(false, Ordering::Relaxed);
        let relayed = deliver(&setup, &records).await;
        assert!(relayed.failures.is_empty(), "{:?}", relayed.failures);
        assert_eq!((setup.lines(), setup.most_removals_of_a_key()), (5, 1));
        let queued: Vec<String> =
            setup.queue.inner.messages().iter().flat_map(|text| paths_of(text)).collect();
        assert_eq!(setup.cdn_paths().len() + queued.len(), 10);
    }
}

#[tokio::test]
async fn a_cache_that_is_down_repeats_no_line() {
    let (setup, records) = (setup(idle_cdn()), questions(5));
    setup.cache.fail("");
    for _ in 0..3 {
        let relayed = deliver(&setup, &records).await;
        assert_eq!(failed(&relayed).len(), 5);
    }
    assert_eq!((setup.lines(), setup.cdn_paths().len()), (5, 0));
    setup.cache.recover();
    let relayed = deliver(&setup, &records).await;
    assert_eq!((relayed.failures.len(), relayed.archived_before), (0, 5));
    assert_eq!((setup.lines(), setup.cdn_paths().len()), (5, 10));
}

/// CloudFront refills from the application, which reads the cache. If a path were invalidated before its keys are gone, it would keep the
/// old content: the redelivered invalidation has the same reference and starts nothing.
#[tokio::test]
async fn a_cdn_is_never_left_with_the_content_of_a_stale_cache() {
    let setup = setup(idle_cdn());
    setup.cache.inner.set("question:q0", "stale", None);
    let path = "/api/projects/p0".to_owned();
    setup.cdn.lock().unwrap().sources.insert(path.clone(), "question:q0".to_owned());
    setup.cache.fail("");
    deliver(&setup, &questions(1)).await;
    setup.cache.recover();
    let relayed = deliver(&setup, &questions(1)).await;
    assert!(relayed.failures.is_empty(), "{:?}", relayed.failures);
    assert_eq!(setup.cdn.lock().unwrap().contents[&path], "from the table");
}

#[tokio::test]
async fn records_whose_keys_are_gone_send_their_paths_and_others_do_not() {
    for target in [idle_cdn(), TestedTarget::Queue] {
        let (setup, records) = (setup(target), questions(2));
        setup.cache.fail("question:q0");
        let relayed = deliver(&setup, &records).await;
        let [("101", error)] = failed(&relayed)[..] else { panic!("{:?}", relayed.failures) };
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        let sent = || {
            let messages = setup.queue.inner.messages();
            let queued = messages.iter().flat_map(|text| paths_of(text));
            setup.cdn_paths().into_iter().chain(queued).collect::<Vec<String>>()
        };
        assert_eq!(sent(), ["/api/projects/p1", "/api/projects/p1/*"]);
        setup.cache.recover();
        assert!(deliver(&setup, &records).await.failures.is_empty());
        assert_eq!(sent()[2..], ["/api/projects/p0", "/api/projects/p0/*"]);
    }
}

#[tokio::test]
async fn a_queue_that_is_down_fails_the_records_after_their_keys_are_gone() {
    let (setup, records) = (setup(TestedTarget::Queue), questions(3));
    setup.queue.is_down.store(true, Ordering::Relaxed);
    let relayed = deliver(&setup, &records).await;
    assert_eq!(failed(&relayed).len(), 3);
    assert!(setup.cache.removed().values().flatten().all(|gone| *gone == BEGIN));
    assert!(afterwrite_model::clock::Clock::now(&setup.clock).since(BEGIN) <= Duration::from_secs(3));
    setup.queue.is_down.store(false, Ordering::Relaxed);
    let relayed = deliver(&setup, &records).await;
    assert!(relayed.failures.is_empty(), "{:?}", relayed.failures);
    let totals = relayed.invalidated.unwrap();
    assert_eq!((totals.keys, totals.queued_paths, totals.queue_requests), (0, 6, 1));
    assert_eq!((setup.lines(), setup.most_removals_of_a_key()), (3, 1));
    let [message] = setup.queue.inner.messages().try_into().unwrap();
    assert_eq!(paths_of(&message).len(), 6);
}

/// A process that does not remember the events repeats them: nothing is skipped that is not done.
#[tokio::test]
async fn a_new_process_repeats_what_it_does_not_remember() {
    let records = questions(2);
    for _ in 0..2 {
        let setup = setup(idle_cdn());
        assert!(deliver(&setup, &records).await.failures.is_empty());
        assert_eq!((setup.lines(), setup.cdn_paths().len()), (2, 4));
    }
}

/// Without an event id a record cannot be recognised, so it is handled in every delivery.
#[tokio::test]
async fn a_record_without_an_event_id_is_handled_each_time() {
    let (setup, mut records) = (setup(idle_cdn()), questions(1));
    records[0].as_object_mut().unwrap().remove("eventID");
    for delivery in 1..3 {
        assert!(deliver(&setup, &records).await.failures.is_empty());
        assert_eq!((setup.lines(), setup.most_removals_of_a_key()), (delivery, delivery));
    }
}

fn paths_of(message: &str) -> Vec<String> {
    match QueuedMessage::parse(message, 0).unwrap() {
        QueuedMessage::Paths(paths) => paths,
        QueuedMessage::Events(_) => panic!("a message of events"),
    }
}
