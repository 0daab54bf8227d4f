//! SQS queues that take events, standard and FIFO.

use afterwrite_model::{Error, ErrorKind, Result};
use aws_config::SdkConfig;
use aws_sdk_sqs::Client;
use aws_sdk_sqs::config::retry::RetryConfig;
use aws_sdk_sqs::error::BuildError;
use aws_sdk_sqs::types::{MessageAttributeValue, SendMessageBatchRequestEntry};

use super::{EventArn, NAME_ATTRIBUTE, TEXT_TYPE};
use crate::event_target::{EventEntry, EventOrder};
use crate::request::{NamedBy, ServiceRequest};
use crate::sqs::message_results;

/// SQS's limit on the messages of one request, and so on one message: 1 MiB. A queue may allow less.
pub const MAX_BYTES: usize = 1024 * 1024;

/// An SQS queue that takes events, through the AWS SDK.
#[derive(Clone, Debug)]
pub struct EventQueue {
    client: Client,
    pub(super) arn: EventArn,
    url: String,
}

impl EventQueue {
    /// The queue with this ARN. Nothing is retried.
    #[must_use]
    pub fn new(sdk: &SdkConfig, arn: EventArn) -> Self {
        let once = aws_sdk_sqs::config::Builder::from(sdk).retry_config(RetryConfig::disabled()).build();
        Self { client: Client::from_conf(once), url: arn.queue_url(), arn }
    }

    pub(super) fn request(&self) -> ServiceRequest<'_> {
        ServiceRequest {
            service: "SQS",
            action: "SendMessageBatch",
            permission: self.arn.service.permission(),
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
        match self.arn.order() {
            EventOrder::Standard => message.build(),
            EventOrder::Fifo => {
                message.message_group_id(entry.group).message_deduplication_id(entry.id).build()
            }
        }
    }

    /// As [`EventTarget::publish`](crate::EventTarget::publish), without a time limit.
    pub(super) async fn send(&self, entries: &[EventEntry<'_>]) -> Result<Vec<Result<(), Error>>> {
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
