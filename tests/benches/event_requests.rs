//! Requests of events, and their price: `cargo bench -p afterwrite-tests --bench event_requests`.
//!
//! The events of the recording `exam-42` are published to each kind of target through the relay and the AWS SDK. A local server takes them and
//! counts; nothing is timed. The figures are of a million changes, at the prices of the command `cost`.

#![expect(clippy::unwrap_used, reason = "a benchmark that meets the unexpected must fail at once")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use afterwrite_deployment::cost::PriceList;
use afterwrite_functions::{SourceTables, StreamRelay};
use afterwrite_memory::{MemoryCache, MemoryObjects, MemoryQueue, MemoryStream};
use afterwrite_model::clock::{Clock as _, SystemClock};
use afterwrite_model::table::Model;
use afterwrite_relay::notify::EventNotifier;
use afterwrite_services::cloudfront::CloudFront;
use afterwrite_services::events::{AwsEventTarget, EventArn};
use afterwrite_tests::loopback::{LoopbackServer, json_response};
use afterwrite_tests::recording::{StreamRecording, event};
use afterwrite_tests::sdk::sdk_config;
use bytes::Bytes;
use http_body_util::Full;
use hyper::{Request, Response, StatusCode};
use serde_json::value::RawValue;
use serde_json::{Value, json};

const RULES: &str = include_str!("../fixtures/exam-42/events.toml");
const RECORDS: &str = "[[events]]\nname = \"changes\"\nof = \"*\"\nrecords = true\n";
const TIMEOUT: Duration = Duration::from_secs(60);
const MILLION: f64 = 1e6;

type Relay = StreamRelay<
    MemoryCache,
    CloudFront,
    Arc<MemoryQueue>,
    Arc<MemoryStream>,
    MemoryObjects,
    SystemClock,
    AwsEventTarget,
>;

/// The requests that a target took.
#[derive(Clone, Copy, Debug, Default)]
struct TakenRequests {
    requests: f64,
    events: f64,
    bytes: f64,
}

/// A kind of target, and the price of what it took. All requests here have less than 64 KB.
struct BilledTarget {
    name: &'static str,
    arn: &'static str,
    dollars: fn(&TakenRequests, &PriceList) -> f64,
}

const TARGETS: [BilledTarget; 5] = [
    BilledTarget {
        name: "EventBridge bus",
        arn: "arn:aws:events:us-east-1:123456789012:event-bus/events",
        dollars: |taken, prices| taken.events * prices.million_events / MILLION,
    },
    BilledTarget {
        name: "SQS queue",
        arn: "arn:aws:sqs:us-east-1:123456789012:events",
        dollars: |taken, prices| taken.requests * prices.million_queue_requests / MILLION,
    },
    BilledTarget {
        name: "SQS FIFO queue",
        arn: "arn:aws:sqs:us-east-1:123456789012:events.fifo",
        dollars: |taken, prices| taken.requests * prices.million_fifo_queue_requests / MILLION,
    },
    BilledTarget {
        name: "SNS topic",
        arn: "arn:aws:sns:us-east-1:123456789012:events",
        dollars: |taken, prices| taken.requests * prices.million_topic_requests / MILLION,
    },
    BilledTarget {
        name: "SNS FIFO topic",
        arn: "arn:aws:sns:us-east-1:123456789012:events.fifo",
        dollars: |taken, prices| {
            taken.events * prices.million_fifo_topic_messages / MILLION
                + taken.bytes * prices.fifo_topic_gigabyte / 1e9
        },
    },
];

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let recording = StreamRecording::load("exam-42");
    let records: Vec<&RawValue> = recording.records().collect();
    let prices = PriceList::built_in().unwrap();
    // One target takes the events of all rules.
    let rules: Vec<&str> = RULES.lines().filter(|line| !line.starts_with("to = ")).collect();
    println!("{} changes of exam-42; figures of a million changes\n", records.len());
    println!(
        "{:26} {:16} {:>6} {:>10} {:>10} {:>8} {:>8}",
        "rules", "target", "batch", "events", "requests", "bytes", "dollars"
    );
    for (name, rules) in
        [("fixture (5 rules)", rules.join("\n")), ("of = \"*\", records = true", RECORDS.to_owned())]
    {
        for target in &TARGETS {
            for batch in [100, 1_000] {
                let taken = published(&rules, target.arn, &records, batch).await;
                let TakenRequests { requests, events, bytes } = taken;
                println!(
                    "{name:26} {:16} {batch:>6} {events:>10.0} {requests:>10.0} {:>8.0} {:>8.3}",
                    target.name,
                    bytes / events,
                    (target.dollars)(&taken, &prices)
                );
            }
        }
    }
}

/// Publishes the events of the records in batches of this size; returns the requests of a million changes.
async fn published(rules: &str, arn: &str, records: &[&RawValue], batch: usize) -> TakenRequests {
    let taken = Arc::<Mutex<TakenRequests>>::default();
    let shared = Arc::clone(&taken);
    let server = LoopbackServer::serve(move |request: Request<Bytes>| {
        let response = take(&request, &mut shared.lock().unwrap());
        async move { Ok(response) }
    });
    let server = server.await.unwrap();
    let relay = relay(rules, arn, &server.endpoint());
    for records in records.chunks(batch) {
        let event = event(records.iter().copied());
        let relayed = relay.handle(&event, SystemClock.now().plus(TIMEOUT)).await.unwrap();
        assert!(relayed.failures.is_empty(), "{:?}", relayed.failures);
    }
    let TakenRequests { requests, events, bytes } = *taken.lock().unwrap();
    let scale = MILLION / f64::from(u32::try_from(records.len()).unwrap());
    TakenRequests { requests: requests * scale, events: events * scale, bytes: bytes * scale }
}

fn relay(rules: &str, arn: &str, endpoint: &str) -> Relay {
    let source = format!("{}\n{rules}", Model::built_in(Model::DEFAULT_NAME).unwrap());
    let model = Arc::new(Model::parse(&source, "events.toml").unwrap());
    let arn = EventArn::parse(arn, "AFTERWRITE_EVENTS").unwrap();
    let target = AwsEventTarget::new(sdk_config(endpoint), arn, "afterwrite.exambuddy");
    let notifier = EventNotifier::new(BTreeMap::from([(None, target)]), None, SystemClock);
    let names = model.tables.iter().map(|table| Arc::clone(&table.name)).collect();
    StreamRelay::new(SourceTables::new(model, names), None, None, SystemClock).notifying(notifier)
}

/// Takes the events of a request, and responds as the service does.
fn take(request: &Request<Bytes>, taken: &mut TakenRequests) -> Response<Full<Bytes>> {
    let action = request.headers().get("x-amz-target").and_then(|target| target.to_str().ok());
    let body = request.body();
    let (sizes, response) = match action {
        Some("AWSEvents.PutEvents") => {
            let sizes = sizes_of(body, "Detail");
            let entries: Vec<Value> = sizes.iter().map(|_| json!({ "EventId": "e" })).collect();
            (sizes, json_response(StatusCode::OK, &json!({ "FailedEntryCount": 0, "Entries": entries })))
        }
        Some("AmazonSQS.SendMessageBatch") => {
            let sizes = sizes_of(body, "MessageBody");
            let entry =
                |id: usize| json!({ "Id": id.to_string(), "MessageId": "m", "MD5OfMessageBody": "m" });
            let entries: Vec<Value> = (0..sizes.len()).map(entry).collect();
            (sizes, json_response(StatusCode::OK, &json!({ "Successful": entries, "Failed": [] })))
        }
        Some(_) | None => publish_batch(body),
    };
    assert!(sizes.iter().sum::<usize>() < 60 * 1024, "a request is billed in steps of 64 KB");
    taken.requests += 1.0;
    taken.events += number(sizes.len());
    taken.bytes += number(sizes.iter().sum());
    response
}

/// The sizes of this member of a request's entries.
fn sizes_of(body: &[u8], member: &str) -> Vec<usize> {
    let body: Value = serde_json::from_slice(body).unwrap();
    let entries = body.get("Entries").and_then(Value::as_array).unwrap();
    entries.iter().map(|entry| entry.get(member).and_then(Value::as_str).unwrap().len()).collect()
}

/// The sizes of a topic's messages, and its response.
fn publish_batch(body: &[u8]) -> (Vec<usize>, Response<Full<Bytes>>) {
    let form = std::str::from_utf8(body).unwrap();
    assert!(form.starts_with("Action=PublishBatch"), "an unknown request: {form:.80}");
    let message = |field: &str| {
        let (name, value) = field.split_once('=')?;
        name.ends_with(".Message").then(|| value.len() - 2 * value.matches('%').count())
    };
    let sizes: Vec<usize> = form.split('&').filter_map(message).collect();
    let member = |id: usize| format!("<member><Id>{id}</Id><MessageId>m</MessageId></member>");
    let members: String = (0..sizes.len()).map(member).collect();
    let xml = format!(
        "<PublishBatchResponse><PublishBatchResult><Successful>{members}</Successful><Failed/></PublishBatchResult></PublishBatchResponse>"
    );
    (sizes, Response::new(Full::new(Bytes::from(xml))))
}

fn number(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap())
}
