//! The contract of `EventTarget`: in memory, and EventBridge, SQS and SNS against moto.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use afterwrite_memory::MemoryEvents;
use afterwrite_model::ErrorKind;
use afterwrite_model::record::Timestamp;
use afterwrite_services::{EventEntry, EventOrder, EventTarget};
use afterwrite_tests::moto::MotoServer;
use afterwrite_tests::moto_events::{MotoEvents, SETTING, event_target};
use serde_json::{Value, json};
use tokio::net::TcpListener;

const LIMIT: Duration = Duration::from_secs(30);

/// A target with what it took.
trait TargetUnderTest {
    fn target(&self) -> impl EventTarget;
    /// The names and envelopes that arrived since the last call, in order of arrival.
    async fn new_events(&self) -> Vec<(String, String)>;
}

async fn suite(service: &impl TargetUnderTest) {
    events_are_taken_with_name_and_envelope(service).await;
    the_largest_requests_are_taken(service).await;
}

#[tokio::test]
async fn memory() {
    for order in [EventOrder::Standard, EventOrder::Fifo] {
        let service = MemoryUnderTest { target: Arc::new(MemoryEvents::new(order)), seen: 0.into() };
        suite(&service).await;
        requests_over_a_limit_are_rejected_as_a_whole(&service).await;
        if order == EventOrder::Fifo {
            a_fifo_target_keeps_order_and_drops_repetitions(&service).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs moto: run tests/run"]
async fn eventbridge_of_moto() {
    let moto = MotoServer::start();
    let events = moto.event_bus("bus").await;
    let service = MotoUnderTest { moto, events };
    // A queue with a smaller limit than a bus receives the events, so the largest requests are not tried.
    events_are_taken_with_name_and_envelope(&service).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs moto: run tests/run"]
async fn queues_of_moto() {
    let moto = MotoServer::start();
    let (standard, fifo) = (moto.event_queue("events").await, moto.event_queue("events.fifo").await);
    let service = MotoUnderTest { moto, events: standard };
    suite(&service).await;
    let service = MotoUnderTest { events: fifo, ..service };
    suite(&service).await;
    a_fifo_target_keeps_order_and_drops_repetitions(&service).await;
    a_missing_target_is_a_configuration_error(&service.moto, "arn:aws:sqs:us-east-1:123456789012:none").await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs moto: run tests/run"]
async fn topics_of_moto() {
    let moto = MotoServer::start();
    let (standard, fifo) = (moto.event_topic("events").await, moto.event_topic("events.fifo").await);
    let service = MotoUnderTest { moto, events: standard };
    suite(&service).await;
    let service = MotoUnderTest { events: fifo, ..service };
    suite(&service).await;
    a_fifo_target_keeps_order_and_drops_repetitions(&service).await;
    a_missing_target_is_a_configuration_error(&service.moto, "arn:aws:sns:us-east-1:123456789012:none").await;
}

/// An event with this number and an envelope of this many bytes.
fn event(number: usize, length: usize) -> (String, String) {
    let id = format!("{number:032x}");
    let envelope = json!({ "id": id, "text": "" }).to_string();
    let text = "x".repeat(length.saturating_sub(envelope.len()));
    let body = json!({ "id": id, "text": text }).to_string();
    (id, body)
}

fn entry<'e>((id, body): &'e (String, String), group: &'e str) -> EventEntry<'e> {
    let changed_at = Some(Timestamp::from_epoch_ms(1_770_372_000_123));
    EventEntry { id, name: "order_paid", group, changed_at, body }
}

/// Publishes events; every one must be taken, and nothing else is new.
async fn publish(service: &impl TargetUnderTest, events: &[(String, String)]) {
    let entries: Vec<EventEntry<'_>> = events.iter().map(|event| entry(event, "g")).collect();
    let results = service.target().publish(&entries, LIMIT).await.unwrap();
    assert!(results.len() == entries.len() && results.iter().all(Result::is_ok), "{results:?}");
    let arrived: BTreeSet<(String, String)> = service.new_events().await.into_iter().collect();
    let sent = entries.iter().map(|entry| (entry.name.to_owned(), entry.body.to_owned())).collect();
    assert!(same_json(&arrived, &sent), "not the events that were published");
}

/// EventBridge delivers the envelope as a value, not as its text.
fn same_json(one: &BTreeSet<(String, String)>, other: &BTreeSet<(String, String)>) -> bool {
    let values = |events: &BTreeSet<(String, String)>| -> BTreeSet<(String, String)> {
        let text = |body: &str| serde_json::from_str::<Value>(body).unwrap().to_string();
        events.iter().map(|(name, body)| (name.clone(), text(body))).collect()
    };
    values(one) == values(other)
}

async fn events_are_taken_with_name_and_envelope(service: &impl TargetUnderTest) {
    let body = json!({ "text": "ü \" \\ \n & < > % + é \u{1F600}", "n": 12.5, "empty": {} }).to_string();
    publish(service, &[(format!("{:032x}", 900), body)]).await;
}

async fn the_largest_requests_are_taken(service: &impl TargetUnderTest) {
    let limits = service.target().limits();
    let events: Vec<_> = (0..limits.entries).map(|number| event(number, 100)).collect();
    publish(service, &events).await;
    let overhead = service.target().entry_bytes(&entry(&event(1, 100), "g")) - 100;
    publish(service, &[event(50, limits.bytes - overhead)]).await;
    let quarters: Vec<_> = (60..64).map(|number| event(number, limits.bytes / 4 - overhead)).collect();
    publish(service, &quarters).await;
}

async fn requests_over_a_limit_are_rejected_as_a_whole(service: &impl TargetUnderTest) {
    let limits = service.target().limits();
    let many: Vec<_> = (100..=100 + limits.entries).map(|number| event(number, 100)).collect();
    for events in [Vec::new(), many, vec![event(200, limits.bytes + 1)]] {
        let entries: Vec<EventEntry<'_>> = events.iter().map(|event| entry(event, "g")).collect();
        let error = service.target().publish(&entries, LIMIT).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Rejected, "{error}");
    }
    assert!(service.new_events().await.is_empty(), "a part of a rejected request was taken");
}

async fn a_fifo_target_keeps_order_and_drops_repetitions(service: &impl TargetUnderTest) {
    let events: Vec<_> = (300..306).map(|number| event(number, 100)).collect();
    for event in &events {
        for _ in 0..2 {
            let results = service.target().publish(&[entry(event, "one")], LIMIT).await.unwrap();
            assert!(results.iter().all(Result::is_ok), "{results:?}");
        }
    }
    let arrived: Vec<String> = service.new_events().await.into_iter().map(|(_, body)| body).collect();
    assert_eq!(arrived, events.iter().map(|(_, body)| body.clone()).collect::<Vec<_>>());
}

async fn a_missing_target_is_a_configuration_error(moto: &MotoServer, arn: &str) {
    let error = moto.event_target(arn).publish(&[entry(&event(1, 100), "g")], LIMIT).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
    for word in [SETTING, arn] {
        assert!(error.to_string().contains(word), "{error}");
    }
}

#[tokio::test]
async fn a_target_that_does_not_respond_is_unavailable_within_the_limit() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", silent.local_addr().unwrap());
    for resource in ["events:us-east-1:1:event-bus/b", "sqs:us-east-1:1:q", "sns:us-east-1:1:t"] {
        let target = event_target(&endpoint, &format!("arn:aws:{resource}"));
        let begun = Instant::now();
        let published = target.publish(&[entry(&event(1, 100), "g")], Duration::from_millis(300)).await;
        let error = published.unwrap_err();
        assert!(begun.elapsed() < LIMIT, "{:?}", begun.elapsed());
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    }
}

struct MemoryUnderTest {
    target: Arc<MemoryEvents>,
    seen: std::sync::atomic::AtomicUsize,
}

impl TargetUnderTest for MemoryUnderTest {
    fn target(&self) -> impl EventTarget {
        Arc::clone(&self.target)
    }

    async fn new_events(&self) -> Vec<(String, String)> {
        let all = self.target.events();
        let before = self.seen.swap(all.len(), std::sync::atomic::Ordering::Relaxed);
        all[before..].iter().map(|event| (event.name.clone(), event.body.clone())).collect()
    }
}

/// A target of moto.
struct MotoUnderTest {
    moto: MotoServer,
    events: MotoEvents,
}

impl TargetUnderTest for MotoUnderTest {
    fn target(&self) -> impl EventTarget {
        self.moto.event_target(&self.events.arn)
    }

    async fn new_events(&self) -> Vec<(String, String)> {
        let events = self.moto.take_events(&self.events).await;
        events.into_iter().map(|event| (event.name, event.body)).collect()
    }
}
