//! Event targets of moto: a bus, queues and topics, with a queue from which the events are read.

use afterwrite_local::cloudfront::elements;
use afterwrite_services::events::eventbridge::{EVENTBRIDGE, TARGET_PREFIX};
use afterwrite_services::events::sns::{SNS, query_request};
use afterwrite_services::events::{AwsEventTarget, EventArn};
use afterwrite_services::service_api::ApiRequest;
use aws_sdk_sqs::types::{MessageSystemAttributeName, QueueAttributeName};
use serde_json::{Value, json};

use crate::moto::MotoServer;
use crate::sdk::sdk_config;
use crate::sqs;

/// The account and region of moto's resources.
const ACCOUNT: &str = "us-east-1:123456789012";
/// The setting that names the targets.
pub const SETTING: &str = "AFTERWRITE_EVENTS";

/// An event as a consumer receives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedEvent {
    /// Its name.
    pub name: String,
    /// Its group, in a FIFO queue.
    pub group: Option<String>,
    /// The envelope.
    pub body: String,
}

/// A target of events, and the queue in which they arrive.
#[derive(Clone, Debug)]
pub struct MotoEvents {
    /// The target's ARN.
    pub arn: String,
    /// The URL of the queue.
    queue: String,
    /// Whether the messages are events of EventBridge.
    is_bus: bool,
}

impl MotoServer {
    /// Creates a queue that takes events.
    ///
    /// # Panics
    /// If it cannot be created.
    pub async fn event_queue(&self, name: &str) -> MotoEvents {
        let mut create = sqs::client(self.endpoint()).create_queue().queue_name(name);
        if name.ends_with(".fifo") {
            create = create.attributes(QueueAttributeName::FifoQueue, "true");
        }
        let created = create.send().await.expect("a queue");
        let queue = created.queue_url().expect("its URL").to_owned();
        MotoEvents { arn: format!("arn:aws:sqs:{ACCOUNT}:{name}"), queue, is_bus: false }
    }

    /// Creates a topic with a queue of the same name that is subscribed to it.
    ///
    /// # Panics
    /// If it cannot be created.
    pub async fn event_topic(&self, name: &str) -> MotoEvents {
        let queue = self.event_queue(name).await;
        let mut form = vec![("Name", name.to_owned())];
        if name.ends_with(".fifo") {
            form.extend([
                ("Attributes.entry.1.key", "FifoTopic".to_owned()),
                ("Attributes.entry.1.value", "true".to_owned()),
            ]);
        }
        let created = self.call(&SNS, query_request("CreateTopic", &owned(form))).await;
        let arn = elements(&created, "TopicArn").pop().expect("its ARN");
        let form = vec![
            ("TopicArn", arn.clone()),
            ("Protocol", "sqs".to_owned()),
            ("Endpoint", queue.arn.clone()),
            ("Attributes.entry.1.key", "RawMessageDelivery".to_owned()),
            ("Attributes.entry.1.value", "true".to_owned()),
        ];
        self.call(&SNS, query_request("Subscribe", &owned(form))).await;
        MotoEvents { arn, ..queue }
    }

    /// Creates a bus with a rule that sends every event of Afterwrite to a queue.
    ///
    /// # Panics
    /// If it cannot be created.
    pub async fn event_bus(&self, name: &str) -> MotoEvents {
        let queue = self.event_queue(name).await;
        let pattern = json!({ "source": [{ "prefix": "afterwrite." }] }).to_string();
        let target = json!({ "Id": "queue", "Arn": queue.arn });
        for (action, body) in [
            ("CreateEventBus", json!({ "Name": name })),
            ("PutRule", json!({ "Name": "all", "EventBusName": name, "EventPattern": pattern })),
            ("PutTargets", json!({ "Rule": "all", "EventBusName": name, "Targets": [target] })),
        ] {
            self.call(&EVENTBRIDGE, ApiRequest::json(TARGET_PREFIX, action, &body)).await;
        }
        MotoEvents { arn: format!("arn:aws:events:{ACCOUNT}:event-bus/{name}"), is_bus: true, ..queue }
    }

    /// Receives all events of a target and deletes them, in the order in which they are received.
    ///
    /// # Panics
    /// If they cannot be received.
    pub async fn take_events(&self, events: &MotoEvents) -> Vec<ReceivedEvent> {
        let client = sqs::client(self.endpoint());
        let mut received = Vec::new();
        loop {
            let receive = client.receive_message().queue_url(&events.queue).max_number_of_messages(10);
            let receive = receive
                .message_attribute_names("All")
                .message_system_attribute_names(MessageSystemAttributeName::All);
            let response = receive.wait_time_seconds(0).send().await.expect("messages");
            if response.messages().is_empty() {
                return received;
            }
            for message in response.messages() {
                let attribute = message.message_attributes().and_then(|attributes| attributes.get("name"));
                let name = attribute.and_then(|name| name.string_value()).unwrap_or_default().to_owned();
                let system = message.attributes();
                let group =
                    system.and_then(|all| all.get(&MessageSystemAttributeName::MessageGroupId)).cloned();
                let body = message.body().unwrap_or_default().to_owned();
                let event = ReceivedEvent { name, group, body };
                received.push(if events.is_bus { of_bus(&event.body) } else { event });
                let handle = message.receipt_handle().expect("a handle");
                let delete = client.delete_message().queue_url(&events.queue).receipt_handle(handle);
                delete.send().await.expect("a deletion");
            }
        }
    }

    /// The target with this ARN on this server.
    ///
    /// # Panics
    /// If it is not an ARN of a target.
    #[must_use]
    pub fn event_target(&self, arn: &str) -> AwsEventTarget {
        event_target(self.endpoint(), arn)
    }
}

/// The target with this ARN, at an endpoint. Its events come from `afterwrite.test`.
///
/// # Panics
/// If it is not an ARN of a target.
#[must_use]
pub fn event_target(endpoint: &str, arn: &str) -> AwsEventTarget {
    let arn = EventArn::parse(arn, SETTING).expect("an ARN");
    AwsEventTarget::new(sdk_config(endpoint), arn, "afterwrite.test")
}

fn of_bus(message: &str) -> ReceivedEvent {
    let event: Value = serde_json::from_str(message).expect("JSON");
    assert!(event["source"].as_str().is_some_and(|source| source.starts_with("afterwrite.")), "{event}");
    ReceivedEvent {
        name: event["detail-type"].as_str().expect("a name").to_owned(),
        group: None,
        body: event["detail"].to_string(),
    }
}

fn owned(form: Vec<(&str, String)>) -> Vec<(String, String)> {
    form.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
