//! Event targets on AWS: the ARN of a bus, a queue or a topic chooses the service.

mod arn;
pub mod eventbridge;
pub mod sns;
pub mod sqs;

use std::time::Duration;

use afterwrite_model::{Error, Result};
use aws_config::SdkConfig;

pub use self::arn::{EventArn, EventService};
use self::eventbridge::EventBridge;
use self::sns::SnsTopic;
use self::sqs::EventQueue;
use super::event_target::{EventEntry, EventLimits, EventOrder, EventTarget};
use super::request::ServiceRequest;
use super::sqs::MAX_BATCH_MESSAGES;

/// A bus, a queue or a topic, by its ARN.
#[derive(Clone, Debug)]
pub enum AwsEventTarget {
    /// An EventBridge bus.
    Bus(EventBridge),
    /// An SQS queue.
    Queue(EventQueue),
    /// An SNS topic.
    Topic(SnsTopic),
}

impl AwsEventTarget {
    /// The target with this ARN, through the AWS SDK in the ARN's region. `source` is the source of EventBridge's events.
    #[must_use]
    pub fn new(sdk: SdkConfig, arn: EventArn, source: &str) -> Self {
        let sdk = sdk.into_builder().region(arn.region()).build();
        match arn.service {
            EventService::EventBridge => Self::Bus(EventBridge::new(sdk, arn, source)),
            EventService::Sqs => Self::Queue(EventQueue::new(&sdk, arn)),
            EventService::Sns => Self::Topic(SnsTopic::new(sdk, arn)),
        }
    }
}

impl AwsEventTarget {
    fn arn(&self) -> &EventArn {
        match self {
            Self::Bus(bus) => &bus.arn,
            Self::Queue(queue) => &queue.arn,
            Self::Topic(topic) => &topic.arn,
        }
    }

    fn request(&self) -> ServiceRequest<'_> {
        match self {
            Self::Bus(bus) => bus.request(),
            Self::Queue(queue) => queue.request(),
            Self::Topic(topic) => topic.request(),
        }
    }
}

impl EventTarget for AwsEventTarget {
    fn limits(&self) -> EventLimits {
        let (entries, bytes) = match self {
            Self::Bus(_) => (eventbridge::MAX_ENTRIES, eventbridge::MAX_BYTES),
            Self::Queue(_) => (MAX_BATCH_MESSAGES, sqs::MAX_BYTES),
            Self::Topic(_) => (sns::MAX_ENTRIES, sns::MAX_BYTES),
        };
        EventLimits { entries, bytes }
    }

    fn order(&self) -> EventOrder {
        self.arn().order()
    }

    fn entry_bytes(&self, entry: &EventEntry<'_>) -> usize {
        match self {
            Self::Bus(bus) => bus.entry_bytes(entry),
            Self::Queue(_) | Self::Topic(_) => message_bytes(entry),
        }
    }

    async fn publish(
        &self,
        entries: &[EventEntry<'_>],
        limit: Duration,
    ) -> Result<Vec<Result<(), Error>>, Error> {
        let published = async {
            match self {
                Self::Bus(bus) => Box::pin(bus.put_events(entries)).await,
                Self::Queue(queue) => Box::pin(queue.send(entries)).await,
                Self::Topic(topic) => Box::pin(topic.publish_batch(entries)).await,
            }
        };
        tokio::time::timeout(limit, published).await.map_err(|_| self.request().timeout())?
    }
}

/// The bytes of a message of SQS or SNS: its body, and its attribute `name` with its type.
fn message_bytes(entry: &EventEntry<'_>) -> usize {
    entry.body.len() + NAME_ATTRIBUTE.len() + TEXT_TYPE.len() + entry.name.len()
}

/// The message attribute that has the event's name, and its type.
const NAME_ATTRIBUTE: &str = "name";
const TEXT_TYPE: &str = "String";
