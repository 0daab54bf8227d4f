//! The cost of events: each target's requests in a trial, and its line of the estimate.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Arc;

use afterwrite_deployment::cost::{CostTrial, EntityRate, EventTargetKind, EventUsage};
use afterwrite_model::table::Model;
use afterwrite_tests::programs::program;
use serde_json::{Value, json};

use super::DELIVERY;

const MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../infra/tests/events.toml");
const ORDERS: u32 = 60;

/// The changes of an order: it is placed, and paid half a second later.
fn changes(order: u32) -> [String; 2] {
    let key = json!({ "PK": { "S": format!("ORDER#{order}") }, "SK": { "S": "ORDER" } });
    let image = |status: &str| {
        let mut item = key.clone();
        item["status"] = json!({ "S": status });
        item
    };
    let record = |name: &str, number: u32, old: Option<Value>, new: Value| {
        let mut change = json!({
            "ApproximateCreationDateTime": 1_770_372_000 + order, "Keys": key, "NewImage": new,
            "SequenceNumber": format!("{:021}", 100 + number), "StreamViewType": "NEW_AND_OLD_IMAGES",
        });
        if let Some(old) = old {
            change["OldImage"] = old;
        }
        json!({
            "eventID": number.to_string(), "eventName": name, "eventSource": "aws:dynamodb", "awsRegion": "eu-west-1",
            "eventSourceARN": "arn:aws:dynamodb:eu-west-1:123456789012:table/Orders/stream/2026-02-06T09:00:00.000",
            "dynamodb": change,
        })
        .to_string()
    };
    [
        record("INSERT", 2 * order, None, image("PLACED")),
        record("MODIFY", 2 * order + 1, Some(image("PLACED")), image("PAID")),
    ]
}

fn sample() -> Vec<String> {
    (0..ORDERS).flat_map(changes).collect()
}

/// Two changes a second for a minute, in twelve batches; both targets are of this kind.
async fn usage(kind: EventTargetKind) -> [EventUsage; 2] {
    let sample = sample();
    let rates = [EntityRate { entity: "order".to_owned(), per_second: 2.0 }];
    let billing: Option<Arc<str>> = Some("billing".into());
    let trial = CostTrial {
        model: Arc::new(Model::load(MODEL).unwrap()),
        records: &sample,
        rates: &rates,
        delivery: DELIVERY,
        indexes: BTreeMap::new(),
        events: BTreeMap::from([(None, kind), (billing.clone(), kind)]),
    };
    let mut totals = trial.run().await.unwrap();
    assert_eq!(totals.batches, 12);
    [None, billing].map(|target| totals.events.remove(&target).unwrap())
}

#[tokio::test]
async fn each_batch_is_published_in_requests_as_the_relay_sends_them() {
    // Every batch has ten changes, of five orders. An order's second event waits in a FIFO target until the first is taken.
    for (kind, requests, billed) in [
        (EventTargetKind::Bus, [12, 12], [120, 60]),
        (EventTargetKind::Queue, [12, 12], [12, 12]),
        (EventTargetKind::Topic, [12, 12], [12, 12]),
        (EventTargetKind::FifoQueue, [24, 12], [24, 12]),
        (EventTargetKind::FifoTopic, [24, 12], [120, 60]),
    ] {
        let usage = usage(kind).await;
        assert_eq!(usage.each_ref().map(|target| target.events), [120, 60], "{kind}");
        assert_eq!(usage.each_ref().map(|target| target.requests), requests, "{kind}");
        assert_eq!(usage.each_ref().map(|target| target.billed), billed, "{kind}");
        assert!(usage.iter().all(|target| target.bytes > 200 * target.events), "{usage:?}");
    }
}

/// The output of the command with these arguments.
fn cost(arguments: &[&str]) -> std::process::Output {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sample.jsonl");
    std::fs::write(&file, sample().join("\n")).unwrap();
    let mut command = Command::new(program("afterwrite"));
    command
        .args(["cost", MODEL, "--rate", "order=2/s", "--shards", "1", "--sample"])
        .arg(&file)
        .args(arguments);
    command.output().unwrap()
}

#[test]
#[ignore = "needs the release binaries: run tests/run"]
fn the_table_and_the_json_name_each_target_and_its_service() {
    let targets = ["--events", "fifo-topic", "--events", "billing=queue"];
    let estimate: Value =
        serde_json::from_slice(&cost(&[&targets[..], &["--json"]].concat()).stdout).unwrap();
    let names = ["events: default target, SNS FIFO topic", "events: `billing`, SQS queue"];
    let parts = estimate["parts"].as_array().unwrap();
    let line = |name: &str| parts.iter().find(|part| part["part"] == name).unwrap().clone();
    // A minute has 120 messages to one target, and 12 requests to the other.
    let minutes = 730.0 * 60.0;
    let [messages, requests] = names.map(line);
    assert_eq!((&messages["unit"], &requests["unit"]), (&json!("messages"), &json!("requests")));
    let near = |value: &Value, expected: f64| (value.as_f64().unwrap() / expected - 1.0).abs() < 0.05;
    assert!(near(&messages["dollars"], 120.0 * minutes * 0.30e-6), "{messages}");
    assert!(near(&requests["dollars"], 12.0 * minutes * 0.40e-6), "{requests}");
    assert!(line("events: default target, SNS FIFO topic, payload")["dollars"].as_f64() > Some(0.0));
    let table = String::from_utf8(cost(&targets).stdout).unwrap();
    assert!(names.iter().all(|name| table.contains(name)), "{table}");
    let default = String::from_utf8(cost(&[]).stdout).unwrap();
    assert!(default.contains("events: `billing`, EventBridge bus"), "{default}");
}

#[test]
#[ignore = "needs the release binaries: run tests/run"]
fn a_target_that_no_rule_names_and_an_unknown_kind_are_refused() {
    for (argument, hint) in [("biling=queue", "Did you mean billing"), ("billing=bucket", "fifo-topic")] {
        let output = cost(&["--events", argument]);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && message.contains(hint), "{argument}: {message}");
    }
}
