//! The events of the recording are exactly those of an independent recount (`fixtures/exam-42/expected_events.py`), computed from its
//! images, and published by the release binary.

#![expect(clippy::indexing_slicing, reason = "what is indexed is a JSON object, which takes any name")]

use std::collections::BTreeMap;
use std::time::Duration;

use afterwrite_model::entity::SourceKey;
use afterwrite_model::projection::{Event, EventChange, SecretAttributes, events_of};
use afterwrite_model::record::RecordDecoder;
use afterwrite_model::table::Model;
use afterwrite_tests::deployment::event;
use afterwrite_tests::moto::MotoServer;
use afterwrite_tests::moto_events::{MotoEvents, ReceivedEvent};
use afterwrite_tests::programs::program;
use afterwrite_tests::recording::StreamRecording;
use afterwrite_tests::runtime_api::{FunctionProcess, InvocationResult, RuntimeApi};
use serde_json::{Value, json};

const RECORDING: &str = "exam-42";
const RULES: &str = include_str!("../fixtures/exam-42/events.toml");
const EXPECTED: &str = include_str!("../fixtures/exam-42/expected_events.json");
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// An event of the recount: name, key, detail, operation, time and position.
type RecountedEvent = (String, [String; 2], Value, String, String, String);

/// The built-in model with the fixture's rules.
fn source() -> String {
    [Model::built_in(Model::DEFAULT_NAME).expect("the default model"), RULES].concat()
}

/// The expected messages without their ids, each with the name of its target, in the order of the records.
fn expected() -> Vec<(Option<&'static str>, Value)> {
    let events: Vec<RecountedEvent> = serde_json::from_str(EXPECTED).expect("expected events");
    let message = |event: RecountedEvent| {
        let (name, [partition, sort], detail, operation, changed_at, position) = event;
        let (entity, to) = match name.as_str() {
            "attempt_passed" => ("attempt", None),
            "attempt_gone" => ("attempt", Some("audit")),
            "project_changed" => ("project", Some("audit")),
            "project_grew" => ("project", None),
            "answer_correct" => ("answer", Some("learning")),
            other => panic!("no rule has the name {other}"),
        };
        let message = json!({
            "name": name, "entity": entity, "table": "ExamBuddyTable", "key": { "PK": partition, "SK": sort },
            "detail": detail, "operation": operation, "changed_at": changed_at, "position": position,
        });
        (to, message)
    };
    events.into_iter().map(message).collect()
}

/// A message without its id, and the id.
fn without_id(body: &str) -> (Value, String) {
    let mut message: Value = serde_json::from_str(body).expect("a message");
    let id = message.as_object_mut().and_then(|members| members.remove("id")).expect("an id");
    let id = id.as_str().expect("a text").to_owned();
    assert!(id.len() == 32 && id.bytes().all(|digit| digit.is_ascii_hexdigit()), "{id}");
    (message, id)
}

#[test]
fn the_events_of_the_recording_are_those_of_the_recount() {
    let model = Model::parse(&source(), "events.toml").unwrap_or_else(|errors| panic!("{errors}"));
    let secrets = SecretAttributes::new(&model);
    let mut found = Vec::new();
    for record in StreamRecording::load(RECORDING).records() {
        let decoded =
            RecordDecoder::new(&model.attributes).record(record.get().as_bytes()).expect("a record");
        let source = SourceKey::of_keys(&model, 0, &decoded.keys).expect("a key");
        let candidates = source.candidates(&model);
        let change = EventChange {
            source: &source,
            candidates: Some(&candidates),
            record: &decoded,
            json: record.get(),
        };
        let events = events_of(&model, &change, &secrets).expect("events");
        let message = |event: &Event| (event.to.as_deref().map(str::to_owned), without_id(&event.body()).0);
        found.extend(events.iter().map(message));
    }
    let expected: Vec<(Option<String>, Value)> =
        expected().into_iter().map(|(to, message)| (to.map(str::to_owned), message)).collect();
    assert_eq!(in_order(found), in_order(expected));
}

/// Messages by position and name: rules of one record have an order, records of different shards have none.
fn in_order(messages: Vec<(Option<String>, Value)>) -> BTreeMap<String, (Option<String>, Value)> {
    let count = messages.len();
    let key = |message: &Value| format!("{} {} {}", message["position"], message["name"], message["key"]);
    let ordered: BTreeMap<_, _> =
        messages.into_iter().map(|(to, message)| (key(&message), (to, message))).collect();
    assert_eq!(ordered.len(), count, "no event is there twice");
    ordered
}

/// The bus, the queue and the topic of the rules.
struct EventTargets {
    bus: MotoEvents,
    audit: MotoEvents,
    learning: MotoEvents,
}

impl EventTargets {
    async fn create(moto: &MotoServer, batch: usize) -> Self {
        Self {
            bus: moto.event_bus(&format!("bus-{batch}")).await,
            audit: moto.event_queue(&format!("audit-{batch}.fifo")).await,
            learning: moto.event_topic(&format!("learning-{batch}")).await,
        }
    }
}

/// The stand-in of AWS takes minutes for so many requests.
mod full {
    #[tokio::test]
    #[ignore = "needs the release binaries and moto: run tests/run --full"]
    async fn the_relay_publishes_the_expected_events_in_batches_of_any_size() {
        Box::pin(super::assert_expected(&[1, 7, 100, 1_000])).await;
    }
}

/// Delivers the recording in batches of each size: the same events arrive, under the same ids.
async fn assert_expected(sizes: &[usize]) {
    let (moto, folder) = (MotoServer::start(), tempfile::tempdir().expect("a folder"));
    let model = folder.path().join("events.toml");
    std::fs::write(&model, source()).expect("a model file");
    let model = model.display().to_string();
    let records: Vec<Value> = StreamRecording::load(RECORDING)
        .records()
        .map(|record| serde_json::from_str(record.get()).expect("a record"))
        .collect();
    let mut ids = None;
    for batch in sizes.iter().copied() {
        let targets = EventTargets::create(&moto, batch).await;
        publish(&moto, &model, &targets, (&records, batch)).await;
        let published = assert_published(&moto, &targets).await;
        let first = ids.get_or_insert_with(|| published.clone());
        assert_eq!(*first, published, "the ids in batches of {batch}");
    }
}

/// Delivers the records to the relay in batches of this size, again from the first record that failed: the stand-in of AWS can be slow.
async fn publish(moto: &MotoServer, model: &str, targets: &EventTargets, (records, size): (&[Value], usize)) {
    let api = RuntimeApi::start().await.expect("a Runtime API");
    let settings = [
        ("AFTERWRITE_MODEL", model),
        ("AFTERWRITE_PROJECTIONS", "notify"),
        ("AFTERWRITE_EVENTS", &*targets.bus.arn),
        ("AFTERWRITE_EVENTS_AUDIT", &*targets.audit.arn),
        ("AFTERWRITE_EVENTS_LEARNING", &*targets.learning.arn),
        ("AWS_ENDPOINT_URL", moto.endpoint()),
        ("AWS_REGION", "us-east-1"),
        ("AWS_ACCESS_KEY_ID", "test"),
        ("AWS_SECRET_ACCESS_KEY", "test"),
    ];
    let function = FunctionProcess::start(&program("relay"), &api, &settings).expect("a function");
    let (mut delivered, mut deliveries) = (0, 0);
    while let Some(left) = records.get(delivered..).filter(|left| !left.is_empty()) {
        let batch = left.get(..size).unwrap_or(left);
        let InvocationResult::Response(response) = api.invoke(event(batch), TIME_LIMIT).await else {
            panic!("no response; it wrote:\n{}", function.output());
        };
        let response: Value = serde_json::from_slice(&response).expect("a response");
        let failed = response["batchItemFailures"][0]["itemIdentifier"].as_str();
        let is_failed = |record: &Value| record["dynamodb"]["SequenceNumber"].as_str() == failed;
        delivered +=
            failed.map_or(batch.len(), |_| batch.iter().position(is_failed).expect("a record of the batch"));
        deliveries += 1;
        assert!(deliveries <= records.len().div_ceil(size) + 50, "no progress:\n{}", function.output());
    }
}

/// The expected events have arrived at their targets: again with the same id only where a response was lost, and in the order of each item in the
/// FIFO queue. Returns the messages by id.
async fn assert_published(moto: &MotoServer, targets: &EventTargets) -> BTreeMap<String, String> {
    let mut ids = BTreeMap::new();
    for (name, target) in
        [(None, &targets.bus), (Some("audit"), &targets.audit), (Some("learning"), &targets.learning)]
    {
        let received = moto.take_events(target).await;
        assert_order_of_groups(&received);
        let mut messages = Vec::new();
        for ReceivedEvent { name: attribute, body, .. } in received {
            let (message, id) = without_id(&body);
            assert_eq!(message["name"], json!(attribute));
            match ids.insert(id, message.to_string()) {
                None => messages.push((name.map(str::to_owned), message)),
                Some(earlier) => assert_eq!(earlier, message.to_string(), "one id, one message"),
            }
        }
        let expected = expected().into_iter().filter(|(to, _)| *to == name);
        let expected = expected.map(|(to, message)| (to.map(str::to_owned), message)).collect();
        assert_eq!(in_order(messages), in_order(expected), "{name:?}");
    }
    assert_eq!(ids.len(), expected().len(), "each event has an id of its own");
    ids
}

/// Later events of a group have later positions.
fn assert_order_of_groups(received: &[ReceivedEvent]) {
    let mut newest: BTreeMap<&str, String> = BTreeMap::new();
    for event in received {
        let Some(group) = event.group.as_deref() else { continue };
        let position = without_id(&event.body).0["position"].to_string();
        let before = newest.insert(group, position.clone());
        assert!(before.is_none_or(|before| before <= position), "group {group} is out of order");
    }
}
