//! SQS queues that take events, standard and FIFO.

use std::time::Duration;

use afterwrite_model::{Error, ErrorKind, Result};
use aws_config::SdkConfig;
use aws_sdk_sqs::Client;
use aws_sdk_sqs::config::retry::RetryConfig;
use aws_sdk_sqs::error::BuildError;
use aws_sdk_sqs::types::{MessageAttributeValue, SendMessageBatchRequestEntry};

use super::{EventArn, NAME_ATTRIBUTE, TEXT_TYPE, message_bytes};
use crate::event_target::{EventEntry, EventLimits, EventOrder, EventTarget};
use crate::request::{NamedBy, ServiceRequest};
use crate::sqs::{MAX_BATCH_MESSAGES, message_results};

/// SQS's limit on the messages of one request, and so on one message: 1 MiB. A queue may allow less.
pub const MAX_BYTES: usize = 1024 * 1024;

/// An SQS queue that takes events, through the AWS SDK.
#[derive(Clone, Debug)]
pub struct EventQueue {
    client: Client,
    arn: EventArn,
    url: String,
}

impl EventQueue {
    /// The queue with this ARN. Nothing is retried.
    #[must_use]
    pub fn new(sdk: &SdkConfig, arn: EventArn) -> Self {
        let once = aws_sdk_sqs::config::Builder::from(sdk).retry_config(RetryConfig::disabled()).build();
        Self { client: Client::from_conf(once), url: arn.queue_url(), arn }
    }

    fn request(&self) -> ServiceRequest<'_> {
        ServiceRequest {
            service: "SQS",
            action: "SendMessageBatch",
            permission: "sqs:SendMessage",
            resource: "queue",
            name: &self.arn.text,
            named_by: NamedBy::ArnSetting(&self.arn.setting),
        }
    }

    fn message(
        &self,
        index: usize,
        entry: &EventEntry<'_>,
    ) -> Result<SendMessageBatchRequestEntry, BuildError> {
        let name = MessageAttributeValue::builder().data_type(TEXT_TYPE).string_value(entry.name).build()?;
        let message = SendMessageBatchRequestEntry::builder()
            .id(index.to_string())
            .message_body(entry.body)
            .message_attributes(NAME_ATTRIBUTE, name);
        match self.order() {
            EventOrder::Standard => message.build(),
            EventOrder::Fifo => {
                message.message_group_id(entry.group).message_deduplication_id(entry.id).build()
            }
        }
    }

    async fn send(&self, entries: &[EventEntry<'_>]) -> Result<Vec<Result<(), Error>>> {
        let unbuilt = |error: BuildError| {
            self.request().new_error(ErrorKind::Rejected, "a message could not be built").caused_by(error)
        };
        let mut request = self.client.send_message_batch().queue_url(&self.url);
        for (index, entry) in entries.iter().enumerate() {
            request = request.entries(self.message(index, entry).map_err(unbuilt)?);
        }
        let response = Box::pin(request.send()).await.map_err(|error| self.request().error(&error))?;
        Ok(message_results(self.request(), &response, entries.len()))
    }
}

impl EventTarget for EventQueue {
    fn limits(&self) -> EventLimits {
        EventLimits { entries: MAX_BATCH_MESSAGES, bytes: MAX_BYTES }
    }

    fn order(&self) -> EventOrder {
        self.arn.order()
    }

    fn entry_bytes(&self, entry: &EventEntry<'_>) -> usize {
        message_bytes(entry)
    }

    async fn publish(
        &self,
        entries: &[EventEntry<'_>],
        limit: Duration,
    ) -> Result<Vec<Result<(), Error>>, Error> {
        let timeout = |_| self.request().timeout();
        tokio::time::timeout(limit, self.send(entries)).await.map_err(timeout)?
    }
}
