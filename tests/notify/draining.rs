//! Events that take the way through the queue: the invalidator publishes them, and they stay in the queue while their target is busy.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use afterwrite_functions::{InvalidatedMessages, QueueInvalidator};
use afterwrite_model::ErrorKind;
use afterwrite_model::clock::Clock as _;
use afterwrite_relay::notify::{DRAIN_PATIENCE, PAUSE, QueuedEventPublisher};
use afterwrite_services::EventOrder;
use afterwrite_services::cloudfront::CloudFront;
use afterwrite_tests::sqs::queue_event;
use serde_json::Value;

use super::stand_ins::{FlakyTarget, NotifySetup, TIMEOUT, change, checkpoint, targets_of};
use crate::caches::cloudfront::SharedClock;

fn records(from: usize) -> Vec<Value> {
    (from..from + 20).map(|number| change(number, &format!("o{number}"), "PAID")).collect()
}

/// The invalidator of a setup: it publishes to the same targets.
fn invalidator(setup: &NotifySetup) -> QueueInvalidator<CloudFront, SharedClock, Arc<FlakyTarget>> {
    let targets = targets_of(&setup.bus, &setup.billing);
    let publisher = QueuedEventPublisher::new(targets, setup.clock.clone());
    QueueInvalidator::new(None::<CloudFront>, setup.clock.clone()).publishing(publisher)
}

async fn drain(
    setup: &NotifySetup,
    invalidator: &QueueInvalidator<CloudFront, SharedClock, Arc<FlakyTarget>>,
    messages: &[String],
) -> InvalidatedMessages {
    invalidator.handle(&queue_event(messages), setup.clock.now().plus(TIMEOUT)).await.unwrap()
}

#[tokio::test]
async fn events_that_a_busy_target_does_not_take_go_through_the_queue() {
    let setup = NotifySetup::new(EventOrder::Standard, true);
    setup.bus.refuse(|_, _| Some(ErrorKind::Unavailable));
    let relayed = setup.deliver(&records(0)).await;
    assert_eq!(checkpoint(&relayed), None, "no record fails");
    let totals = relayed.notified.unwrap();
    assert_eq!((totals.sent, totals.queued, totals.failed), (20, 20, 0));
    assert_eq!(setup.billing.events().len(), 20, "another target is not affected");
    // For some time, the target is not asked at all.
    let requests = setup.bus.requests().len();
    let begun = setup.clock.now();
    setup.deliver(&records(100)).await;
    assert_eq!((setup.bus.requests().len(), setup.clock.now()), (requests, begun));
    let messages = setup.queue.messages();
    let invalidator = invalidator(&setup);
    let drained = drain(&setup, &invalidator, &messages).await;
    assert_eq!(drained.failures.len(), messages.len(), "while the target is busy, all messages stay");
    assert!(setup.clock.now().since(begun) <= DRAIN_PATIENCE, "the next paths wait no longer");
    // The invalidator does not ask the target either: the next paths do not wait at all.
    let (requests, begun) = (setup.bus.requests().len(), setup.clock.now());
    let drained = drain(&setup, &invalidator, &messages).await;
    assert_eq!((drained.failures.len(), setup.bus.requests().len()), (messages.len(), requests));
    assert_eq!(setup.clock.now(), begun);
    setup.clock.sleep(PAUSE).await;
    setup.bus.recover();
    let drained = drain(&setup, &invalidator, &messages).await;
    assert_eq!((drained.failures.len(), drained.notified.unwrap().sent), (0, 40));
    let ids: BTreeSet<String> = setup.bus.events().into_iter().map(|event| event.id).collect();
    assert_eq!((ids.len(), setup.bus.events().len()), (40, 40));
    // After the pause, events take the direct way again.
    setup.deliver(&records(200)).await;
    assert_eq!((setup.bus.events().len(), setup.queue.messages().len()), (60, messages.len()));
}

/// A redelivered record is done for this target: it is neither sent nor queued again.
#[tokio::test]
async fn a_queued_event_is_not_queued_again_by_a_warm_process() {
    let setup = NotifySetup::new(EventOrder::Standard, true);
    setup.bus.refuse(|_, _| Some(ErrorKind::Unavailable));
    setup.deliver(&records(0)).await;
    let queued = setup.queue.messages();
    setup.bus.recover();
    setup.deliver(&records(0)).await;
    assert_eq!((setup.queue.messages(), setup.bus.events().len()), (queued, 0));
}

#[tokio::test]
async fn a_message_whose_events_were_published_in_part_is_delivered_again_and_only_the_rest_is_sent() {
    let setup = NotifySetup::new(EventOrder::Standard, true);
    setup.bus.refuse(|_, _| Some(ErrorKind::Unavailable));
    setup.deliver(&records(0)).await;
    let messages = setup.queue.messages();
    let [_] = &messages[..] else { panic!("one message") };
    let invalidator = invalidator(&setup);
    setup.bus.refuse(|entry, _| entry.body.contains("ORDER#o7").then_some(ErrorKind::Rejected));
    let drained = drain(&setup, &invalidator, &messages).await;
    assert_eq!((drained.failures.len(), drained.notified.unwrap().sent), (1, 19));
    setup.bus.recover();
    let drained = drain(&setup, &invalidator, &messages).await;
    assert_eq!((drained.failures.len(), drained.notified.unwrap().sent), (0, 1));
    assert_eq!(setup.bus.events().len(), 20);
}

/// A target that takes events is not paused; its events are published in parts, so that paths do not wait for all of them.
#[tokio::test]
async fn a_slow_target_takes_the_events_of_the_queue_in_several_invocations() {
    let setup = NotifySetup::new(EventOrder::Standard, true);
    setup.bus.refuse(|_, _| Some(ErrorKind::Unavailable));
    for batch in 0..5 {
        setup.deliver(&records(100 * batch)).await;
    }
    setup.bus.recover();
    setup.bus.respond_after(Duration::from_secs(10));
    let (messages, invalidator) = (setup.queue.messages(), invalidator(&setup));
    let mut invocations = 0;
    while setup.bus.events().len() < 100 {
        let (begun, taken) = (setup.clock.now(), setup.bus.events().len());
        let drained = drain(&setup, &invalidator, &messages).await;
        assert!(setup.clock.now().since(begun) <= Duration::from_secs(20), "a request begins within 15 s");
        assert!(setup.bus.events().len() > taken, "{:?}", drained.failures);
        invocations += 1;
    }
    assert!(invocations > 1, "{invocations}");
}

#[tokio::test]
async fn messages_of_paths_stay_without_a_distribution_and_stop_no_event() {
    let setup = NotifySetup::new(EventOrder::Standard, true);
    setup.bus.refuse(|_, _| Some(ErrorKind::Configuration));
    setup.deliver(&records(0)).await;
    setup.bus.recover();
    let mut messages = vec![r#"{"version":1,"paths":["/a"]}"#.to_owned()];
    messages.extend(setup.queue.messages());
    let drained = drain(&setup, &invalidator(&setup), &messages).await;
    let [failed] = &drained.failures[..] else { panic!("{:?}", drained.failures) };
    assert_eq!((failed.message_id.as_str(), failed.error.kind()), ("m0", ErrorKind::Configuration));
    assert!(failed.error.to_string().contains("AFTERWRITE_CLOUDFRONT_DISTRIBUTION"));
    assert_eq!(setup.bus.events().len(), 20);
}
