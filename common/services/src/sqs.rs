//! SQS queues.

use std::sync::Arc;
use std::time::Duration;

use afterwrite_model::{Error, ErrorKind};
use aws_sdk_sqs::Client;
use aws_sdk_sqs::config::retry::RetryConfig;
use aws_sdk_sqs::operation::send_message_batch::SendMessageBatchOutput;
use aws_sdk_sqs::types::SendMessageBatchRequestEntry;

use super::PathQueue;
use super::request::{NamedBy, ServiceRequest};

/// SQS's limit on the messages of one request.
pub const MAX_BATCH_MESSAGES: usize = 10;
/// The limit on the bodies of one request, and so on one body: 256 KiB. Queues may allow more; this is what every queue allows.
pub const MAX_BATCH_BYTES: usize = 256 * 1024;
/// SQS bills each request as a whole number of these: 64 KiB.
pub const BILLED_BYTES: usize = 64 * 1024;

/// An SQS queue, through the AWS SDK.
#[derive(Clone, Debug)]
pub struct SqsQueue {
    client: Client,
    url: Arc<str>,
}

impl SqsQueue {
    /// The queue at this URL. Uses the client with its configuration, except that nothing is retried.
    #[must_use]
    pub fn new(client: &Client, url: Arc<str>) -> Self {
        let once = client.config().to_builder().retry_config(RetryConfig::disabled()).build();
        Self { client: Client::from_conf(once), url }
    }

    fn request(&self) -> ServiceRequest<'_> {
        ServiceRequest {
            service: "SQS",
            action: "SendMessageBatch",
            permission: "sqs:SendMessage",
            resource: "queue",
            name: &self.url,
            named_by: NamedBy::Setting("AFTERWRITE_CDN_QUEUE"),
        }
    }

    async fn send(&self, messages: &[String]) -> Result<SendMessageBatchOutput, Error> {
        let mut request = self.client.send_message_batch().queue_url(&*self.url);
        for (index, body) in messages.iter().enumerate() {
            let entry = SendMessageBatchRequestEntry::builder().id(index.to_string()).message_body(body);
            let unbuilt = |error| {
                self.request().new_error(ErrorKind::Rejected, "a message could not be built").caused_by(error)
            };
            request = request.entries(entry.build().map_err(unbuilt)?);
        }
        Box::pin(request.send()).await.map_err(|error| self.request().error(&error))
    }
}

/// The result for each message of a request. A message that the response does not name was not taken.
pub(super) fn message_results(
    request: ServiceRequest<'_>,
    response: &SendMessageBatchOutput,
    sent: usize,
) -> Vec<Result<(), Error>> {
    let unnamed = "the response does not contain a result for each message";
    let missing = || Err(request.new_error(ErrorKind::Unavailable, unnamed));
    let mut results: Vec<Result<(), Error>> = (0..sent).map(|_| missing()).collect();
    for entry in response.successful() {
        if let Some(result) = result_of(&mut results, entry.id()) {
            *result = Ok(());
        }
    }
    for entry in response.failed() {
        if let Some(result) = result_of(&mut results, entry.id()) {
            *result = Err(request.entry_error(entry.code(), entry.sender_fault()));
        }
    }
    results
}

/// The result of the message with this id, which is its index.
fn result_of<'r>(results: &'r mut [Result<(), Error>], id: &str) -> Option<&'r mut Result<(), Error>> {
    results.get_mut(id.parse::<usize>().ok()?)
}

impl PathQueue for SqsQueue {
    async fn send_batch(
        &self,
        messages: &[String],
        limit: Duration,
    ) -> Result<Vec<Result<(), Error>>, Error> {
        let timeout = |_| self.request().timeout();
        let response = tokio::time::timeout(limit, self.send(messages)).await.map_err(timeout)??;
        Ok(message_results(self.request(), &response, messages.len()))
    }
}

#[cfg(test)]
mod tests {
    use aws_sdk_sqs::types::{BatchResultErrorEntry, SendMessageBatchResultEntry};

    use super::*;

    fn kinds(taken: &[&str], failed: &[(&str, &str, bool)], sent: usize) -> Vec<Option<ErrorKind>> {
        let config = aws_sdk_sqs::Config::builder()
            .behavior_version(aws_sdk_sqs::config::BehaviorVersion::latest())
            .build();
        let taken = taken.iter().map(|id| {
            let entry = SendMessageBatchResultEntry::builder().id(*id).message_id("m");
            entry.md5_of_message_body("d").build().unwrap()
        });
        let failed = failed.iter().map(|(id, code, is_sender_fault)| {
            let entry = BatchResultErrorEntry::builder().id(*id).code(*code);
            entry.sender_fault(*is_sender_fault).build().unwrap()
        });
        let response = SendMessageBatchOutput::builder()
            .set_successful(Some(taken.collect()))
            .set_failed(Some(failed.collect()))
            .build()
            .unwrap();
        let queue = SqsQueue::new(&Client::from_conf(config), Arc::from("http://localhost/q"));
        let results = message_results(queue.request(), &response, sent);
        results.iter().map(|result| result.as_ref().err().map(Error::kind)).collect()
    }

    #[test]
    fn each_message_has_its_own_result() {
        let failed = [("1", "InternalError", false), ("3", "InvalidMessageContents", true)];
        let expected = [None, Some(ErrorKind::Unavailable), None, Some(ErrorKind::Rejected)];
        assert_eq!(kinds(&["2", "0"], &failed, 4), expected);
    }

    #[test]
    fn a_message_without_a_result_was_not_taken() {
        assert_eq!(kinds(&["1", "7", "x"], &[], 2), [Some(ErrorKind::Unavailable), None]);
    }
}
