//! Embedded queues, through the AWS SDK's requests.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::time::Duration;

use afterwrite_local::eventbridge::EmbeddedEventBridge;
use afterwrite_local::sdk::{CREDENTIAL, REGION};
use afterwrite_local::sqs::EmbeddedSqs;
use afterwrite_services::events::{AwsEventTarget, EventArn};
use afterwrite_services::http_client;
use afterwrite_services::service_api::{ApiRequest, AwsService, ServiceApi};
use afterwrite_services::{EventEntry, EventTarget as _};
use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_s3::config::{Credentials, SharedCredentialsProvider};
use serde_json::{Value, json};

const SQS: AwsService = AwsService { id: "SQS", name: "sqs", is_global: false };
const LIMIT: Duration = Duration::from_secs(10);

fn sdk(endpoint: &str) -> SdkConfig {
    let credentials = Credentials::new(CREDENTIAL, CREDENTIAL, None, None, CREDENTIAL);
    SdkConfig::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::from_static(REGION))
        .endpoint_url(endpoint)
        .credentials_provider(SharedCredentialsProvider::new(credentials))
        .http_client(http_client())
        .build()
}

fn target(endpoint: &str, arn: &str) -> AwsEventTarget {
    AwsEventTarget::new(sdk(endpoint), EventArn::parse(arn, "AFTERWRITE_EVENTS").unwrap(), "afterwrite.shop")
}

fn entry(body: &str) -> EventEntry<'_> {
    EventEntry { id: "0c", name: "order_paid", group: "9f", changed_at: None, body }
}

/// A request of an application to the queue `events`.
async fn request(sqs: &EmbeddedSqs, action: &'static str, mut body: Value) -> Value {
    body["QueueUrl"] = json!(sqs.url("events"));
    let api = ServiceApi::new(&SQS, sdk(&sqs.endpoint()));
    let response = api.send(ApiRequest::json("AmazonSQS", action, &body)).await.unwrap();
    serde_json::from_slice(&response).unwrap()
}

#[tokio::test]
async fn an_application_receives_events_and_deletes_them() {
    let sqs = EmbeddedSqs::start(0, &["events"]).await.unwrap();
    sqs.require_signatures();
    let queue = target(&sqs.endpoint(), "arn:aws:sqs:us-east-1:000000000000:events");
    let bodies = ["{\"n\":1}", "{\"n\":2}"];
    let results = queue.publish(&bodies.map(entry), LIMIT).await.unwrap();
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    let receive = json!({ "MaxNumberOfMessages": 10, "VisibilityTimeout": 30 });
    let received = request(&sqs, "ReceiveMessage", receive.clone()).await;
    let messages = received["Messages"].as_array().unwrap();
    assert!(messages.iter().map(|message| &message["Body"]).eq(&bodies.map(Value::from)), "{received}");
    assert_eq!(messages[0]["MessageAttributes"]["name"]["StringValue"], "order_paid");
    // The checksum that clients compare.
    assert_eq!(messages[0]["MD5OfBody"].as_str().map(str::len), Some(32));
    assert_eq!(request(&sqs, "ReceiveMessage", receive.clone()).await, json!({ "Messages": [] }));
    for message in messages {
        request(&sqs, "DeleteMessage", json!({ "ReceiptHandle": message["ReceiptHandle"] })).await;
    }
}

#[tokio::test]
async fn a_message_that_is_not_deleted_is_visible_again() {
    let sqs = EmbeddedSqs::start(0, &["events"]).await.unwrap();
    sqs.send("events", "again".to_owned());
    let receive = json!({ "VisibilityTimeout": 0, "WaitTimeSeconds": 5 });
    for count in ["1", "2"] {
        let received = request(&sqs, "ReceiveMessage", receive.clone()).await;
        let [message] = &received["Messages"].as_array().unwrap()[..] else { panic!("{received}") };
        assert_eq!(
            (&message["Body"], &message["Attributes"]["ApproximateReceiveCount"]),
            (&json!("again"), &json!(count))
        );
    }
}

#[tokio::test]
async fn an_embedded_bus_takes_events() {
    let bus = EmbeddedEventBridge::start(0).await.unwrap();
    bus.require_signatures();
    let events = target(&bus.endpoint(), "arn:aws:events:us-east-1:000000000000:event-bus/dev");
    let results = events.publish(&[entry("{\"n\":1}")], LIMIT).await.unwrap();
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    let [event] = bus.take_events().try_into().unwrap();
    assert_eq!((event.source.as_str(), event.detail_type.as_str()), ("afterwrite.shop", "order_paid"));
    assert_eq!(event.detail, "{\"n\":1}");
    assert!(bus.take_events().is_empty());
}
