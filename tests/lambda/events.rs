//! The deployed functions `relay` and `invalidator` with a bus that throttles.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use afterwrite_local::eventbridge::EmbeddedEventBridge;
use afterwrite_local::sdk::CREDENTIAL;
use afterwrite_tests::deployment::event;
use afterwrite_tests::programs::program;
use afterwrite_tests::redis_server::RedisServer;
use afterwrite_tests::runtime_api::{FunctionProcess, RuntimeApi};
use afterwrite_tests::sqs::{QUEUE, queue_event, start_queue};
use serde_json::{Value, json};

use super::{TIME, assert_all_handled, assert_measured, metrics, refusal_to_start_of};
use crate::notify::stand_ins::change;

const BUS: &str = "arn:aws:events:us-east-1:123456789012:event-bus/orders";
const ORDERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../infra/tests/events.toml");

/// Starts a function with this bus as every target.
async fn start(
    name: &str,
    bus: &EmbeddedEventBridge,
    settings: &[(&str, &str)],
) -> (RuntimeApi, FunctionProcess) {
    let (api, endpoint) = (RuntimeApi::start().await.unwrap(), bus.endpoint());
    let mut environment = vec![
        ("AFTERWRITE_MODEL", ORDERS),
        ("AFTERWRITE_EVENTS", BUS),
        ("AFTERWRITE_EVENTS_BILLING", BUS),
        ("AWS_ENDPOINT_URL_EVENTBRIDGE", &*endpoint),
        ("AWS_REGION", "us-east-1"),
        ("AWS_ACCESS_KEY_ID", CREDENTIAL),
        ("AWS_SECRET_ACCESS_KEY", CREDENTIAL),
    ];
    environment.extend(settings);
    let function = FunctionProcess::start(&program(name), &api, &environment).unwrap();
    (api, function)
}

fn changes(from: usize) -> Vec<Value> {
    (from..from + 20).map(|number| change(number, &format!("o{number}"), "PAID")).collect()
}

#[tokio::test]
#[ignore = "needs the release binaries and redis-server: run tests/run"]
async fn a_bus_that_throttles_delays_no_cache_key_and_gets_its_events_from_the_invalidator() {
    let bus = EmbeddedEventBridge::start(0).await.unwrap();
    let (queue, redis) = (start_queue().await, RedisServer::start().await);
    let (url, queue_url, queue_endpoint) = (redis.url(), queue.url(QUEUE), queue.endpoint());
    let settings = [
        ("AFTERWRITE_PROJECTIONS", "invalidate,notify"),
        ("AFTERWRITE_CACHE_URL", &*url),
        ("AFTERWRITE_CDN_QUEUE", &*queue_url),
        ("AWS_ENDPOINT_URL_SQS", &*queue_endpoint),
    ];
    let (api, relay) = start("relay", &bus, &settings).await;
    bus.busy_for(usize::MAX);
    for from in [0, 100, 200] {
        let (first, last) = (format!("order:o{from}"), format!("order:o{}", from + 19));
        for key in [&first, &last] {
            redis.run::<()>(&["SET", key, "cached"]).await;
        }
        let begun = Instant::now();
        assert_all_handled(api.invoke(event(&changes(from)), TIME).await, &relay);
        // Generous: the machine may be busy. Without the queue, the records would fail after five seconds.
        assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
        assert!(redis.run::<Vec<String>>(&["KEYS", "*"]).await.is_empty());
    }
    assert!(bus.take_events().is_empty());
    let lines = metrics(&relay.stop());
    assert_eq!(lines.iter().map(|line| line["EventsQueued"].as_u64().unwrap()).sum::<u64>(), 120);
    for (name, count) in [("Events", 0), ("EventsFailed", 0), ("EventsDetailOmitted", 0)] {
        assert_measured(&lines[0], name, "Count");
        assert_eq!(lines[0][name], count, "{name} of {}", lines[0]);
    }
    bus.busy_for(0);
    assert_drained(&bus, &queue.bodies(QUEUE)).await;
}

/// The invalidator publishes the events of these messages, each once.
async fn assert_drained(bus: &EmbeddedEventBridge, messages: &[String]) {
    let (api, invalidator) = start("invalidator", bus, &[]).await;
    assert_all_handled(api.invoke(queue_event(messages), TIME).await, &invalidator);
    let [line] = metrics(&invalidator.stop()).try_into().unwrap();
    assert_eq!((&line["Events"], &line["MessagesFailed"]), (&json!(120), &json!(0)));
    assert_measured(&line, "EventAge", "Milliseconds");
    let events = bus.take_events();
    let ids: BTreeSet<String> = events
        .iter()
        .map(|event| {
            assert_eq!((&*event.source, &*event.bus), ("afterwrite.orders", BUS));
            assert_eq!(event.time, Some(1_770_000_000));
            let envelope: Value = serde_json::from_str(&event.detail).unwrap();
            assert_eq!(envelope["name"], *event.detail_type);
            envelope["id"].as_str().unwrap().to_owned()
        })
        .collect();
    assert_eq!((ids.len(), events.len()), (120, 120));
}

#[tokio::test]
#[ignore = "needs the release binaries: run tests/run"]
async fn a_target_that_a_rule_names_is_required_at_start_up() {
    let settings =
        [("AFTERWRITE_MODEL", ORDERS), ("AWS_REGION", "us-east-1"), ("AFTERWRITE_PROJECTIONS", "notify")];
    let message = refusal_to_start_of("relay", &settings).await;
    assert!(message.contains("AFTERWRITE_EVENTS is not set"), "{message}");
    let settings = [&settings[..], &[("AFTERWRITE_EVENTS", BUS)]].concat();
    for function in ["relay", "invalidator"] {
        let message = refusal_to_start_of(function, &settings).await;
        assert!(message.contains("AFTERWRITE_EVENTS_BILLING is not set"), "{function}: {message}");
    }
    let settings = [&settings[..], &[("AFTERWRITE_EVENTS_BILLING", "billing")]].concat();
    let message = refusal_to_start_of("relay", &settings).await;
    assert!(message.contains("AFTERWRITE_EVENTS_BILLING") && message.contains("arn:aws:sqs"), "{message}");
}
