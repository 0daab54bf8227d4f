//! The invalidator: messages of many batches become few invalidations, and stay in the queue while CloudFront is busy.

use std::collections::BTreeSet;
use std::time::Duration;

use afterwrite_functions::{InvalidatedMessages, QueueInvalidator};
use afterwrite_local::cloudfront::EmbeddedCloudFront;
use afterwrite_model::ErrorKind;
use afterwrite_model::clock::Clock as _;
use afterwrite_relay::{MAX_PATHS, MAX_WILDCARDS};
use afterwrite_services::cloudfront::CloudFront;
use afterwrite_tests::cloudfront::{distribution, start_cloudfront};
use serde_json::{Value, json};

use super::cloudfront::{BEGIN, SharedClock};

/// The time of an invocation.
const TIMEOUT: Duration = Duration::from_secs(60);

struct InvalidatorSetup {
    cloudfront: EmbeddedCloudFront,
    clock: SharedClock,
    handler: QueueInvalidator<CloudFront, SharedClock>,
}

impl InvalidatorSetup {
    async fn new() -> Self {
        let (cloudfront, clock) = (start_cloudfront().await, SharedClock::at(BEGIN));
        let handler = QueueInvalidator::new(Some(distribution(&cloudfront)), clock.clone());
        Self { cloudfront, clock, handler }
    }

    async fn deliver(&self, messages: &[(&str, Value)]) -> InvalidatedMessages {
        let record =
            |(id, body): &(&str, Value)| json!({ "messageId": id, "body": body, "eventSource": "aws:sqs" });
        let records: Vec<Value> = messages.iter().map(record).collect();
        let event = json!({ "Records": records }).to_string();
        self.handler.handle(&event, self.clock.now().plus(TIMEOUT)).await.unwrap()
    }
}

fn message(paths: &[&str]) -> Value {
    json!(json!({ "version": 1, "paths": paths }).to_string())
}

fn failed(invalidated: &InvalidatedMessages) -> BTreeSet<&str> {
    let failures = &invalidated.response.batch_item_failures;
    failures.iter().map(|failure| &*failure.item_identifier).collect()
}

#[tokio::test]
async fn a_path_of_many_messages_is_invalidated_once() {
    let setup = InvalidatorSetup::new().await;
    let paths = ["/api/projects/p", "/api/projects/p/*"];
    let ids: Vec<String> = (0..50).map(|id| format!("m{id}")).collect();
    let messages: Vec<(&str, Value)> = ids.iter().map(|id| (id.as_str(), message(&paths))).collect();
    let invalidated = setup.deliver(&messages).await;
    assert_eq!((invalidated.messages, invalidated.received_paths, failed(&invalidated).len()), (50, 100, 0));
    let [request] = setup.cloudfront.requests().try_into().unwrap();
    assert_eq!(
        (invalidated.requests, request.paths),
        (1, vec!["/api/projects/p".to_owned(), paths[1].to_owned()])
    );
}

#[tokio::test]
async fn the_same_messages_have_the_same_reference_and_a_new_message_another() {
    let setup = InvalidatorSetup::new().await;
    let first = [("m1", message(&["/a"])), ("m2", message(&["/b"]))];
    let mut reversed = first.clone();
    reversed.reverse();
    // As after a lost response: nothing is started again.
    for messages in [&first, &reversed] {
        assert!(failed(&setup.deliver(messages).await).is_empty());
    }
    // A redelivered record is a new message, and its paths are invalidated again.
    setup.deliver(&[("m3", message(&["/a"])), ("m2", message(&["/b"]))]).await;
    let requests = setup.cloudfront.requests();
    assert!(requests.iter().map(|request| request.is_started).eq([true, false, true]));
    assert_eq!(requests[0].reference, requests[1].reference);
}

#[tokio::test]
async fn while_cloudfront_is_busy_the_messages_stay_in_the_queue() {
    let setup = InvalidatorSetup::new().await;
    setup.cloudfront.busy_for(usize::MAX);
    let messages = [("m1", message(&["/a"])), ("m2", message(&["/b", "/a"]))];
    let invalidated = setup.deliver(&messages).await;
    assert_eq!(failed(&invalidated), ["m1", "m2"].into());
    assert!(invalidated.failures.iter().all(|failed| failed.error.kind() == ErrorKind::Unavailable));
    let waited = setup.clock.now().since(BEGIN);
    assert!(waited < TIMEOUT && waited > TIMEOUT / 2, "{waited:?}");
    setup.cloudfront.busy_for(3);
    assert!(failed(&setup.deliver(&messages).await).is_empty());
    let last = setup.cloudfront.requests().pop().unwrap();
    assert_eq!((last.paths, last.is_started), (vec!["/a".to_owned(), "/b".to_owned()], true));
}

#[tokio::test]
async fn a_message_that_cannot_be_read_stays_in_the_queue_alone() {
    let setup = InvalidatorSetup::new().await;
    let newer = json!(json!({ "version": 2, "paths": ["/c"] }).to_string());
    let invalidated = setup.deliver(&[("m1", message(&["/a"])), ("m2", json!("hello")), ("m3", newer)]).await;
    assert_eq!(failed(&invalidated), ["m2", "m3"].into());
    assert!(invalidated.failures.iter().all(|failed| failed.error.kind() == ErrorKind::Event));
    assert_eq!(setup.cloudfront.requests()[0].paths, ["/a"]);
}

/// It would be refused again, and every repetition of the other paths would be paid for.
#[tokio::test]
async fn a_refused_path_is_reported_and_its_message_leaves_the_queue() {
    let setup = InvalidatorSetup::new().await;
    setup.cloudfront.refuse("/b");
    let invalidated = setup.deliver(&[("m1", message(&["/a", "/b"])), ("m2", message(&["/c"]))]).await;
    assert!(failed(&invalidated).is_empty());
    let refused: Vec<&str> = invalidated.refused.iter().map(|refused| refused.path.as_str()).collect();
    assert_eq!((refused, invalidated.paths), (vec!["/b"], 2));
}

#[tokio::test]
async fn a_full_window_stays_within_the_limits() {
    let setup = InvalidatorSetup::new().await;
    let paths: Vec<String> = (0..8_000).map(|id| format!("/p/{id}")).collect();
    let folders: Vec<String> = (0..400).map(|id| format!("/q/{id}/*")).collect();
    let ids: Vec<String> = (0..80).map(|id| format!("m{id}")).collect();
    let chunks = paths.chunks(100).zip(folders.chunks(5)).zip(&ids);
    let messages: Vec<(&str, Value)> = chunks
        .map(|((paths, folders), id)| {
            let all: Vec<&str> = paths.iter().chain(folders).map(String::as_str).collect();
            (id.as_str(), message(&all))
        })
        .collect();
    let invalidated = setup.deliver(&messages).await;
    assert_eq!((failed(&invalidated).len(), invalidated.requests, invalidated.paths), (0, 3, 8_001));
    for request in setup.cloudfront.requests() {
        let wildcards = request.paths.iter().filter(|path| path.ends_with('*')).count();
        assert!(request.paths.len() <= MAX_PATHS && wildcards <= MAX_WILDCARDS);
    }
}

#[tokio::test]
async fn another_payload_fails_the_invocation() {
    let setup = InvalidatorSetup::new().await;
    for payload in ["", "{}", r#"{"Records":[{"eventSource":"aws:dynamodb"}]}"#, r#"{"Records":[{}]}"#] {
        let error = setup.handler.handle(payload, BEGIN.plus(TIMEOUT)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Event, "{payload}: {error}");
    }
}
