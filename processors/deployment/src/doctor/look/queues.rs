//! Looks at queues: the exporter's queue, and the queue of stale paths.

use std::collections::HashMap;

use afterwrite_model::Result;
use aws_sdk_sqs::types::QueueAttributeName;
use serde_json::Value;

use super::delivery::DeliveryLook;
use super::outcome::{looked, mapped};
use crate::doctor::{BucketFacts, Looked, QueueConsumer, QueueFacts};

impl DeliveryLook {
    /// The queue that the bucket notifies of archived objects.
    pub(super) async fn export_queue(&self, bucket: Option<&BucketFacts>) -> Result<Looked<QueueFacts>> {
        let Some(notifications) = bucket.and_then(|bucket| bucket.notifications.as_ref()) else {
            return Ok(Looked::NotAllowed("s3:GetBucketNotification"));
        };
        let Some((arn, _)) = notifications.first() else { return Ok(Looked::Missing) };
        let attributes = Box::pin(self.attributes_by_arn(arn)).await?;
        Box::pin(self.queue(attributes)).await
    }

    /// The queue with this URL.
    pub(super) async fn queue_at(&self, url: &str) -> Result<Looked<QueueFacts>> {
        let attributes = Box::pin(self.attributes(url)).await?;
        Box::pin(self.queue(attributes)).await
    }

    async fn queue(&self, attributes: Looked<QueueAttributes>) -> Result<Looked<QueueFacts>> {
        let Looked::Found(attributes) = attributes else {
            return Ok(mapped(attributes, |_| QueueFacts::default()));
        };
        let number = |name| attributes.get(&name).and_then(|text| text.parse().ok()).unwrap_or(0);
        let arn = attributes.get(&QueueAttributeName::QueueArn).cloned().unwrap_or_default();
        let dead_letter_arn =
            attributes.get(&QueueAttributeName::RedrivePolicy).and_then(|policy| dead_letter_queue(policy));
        let dead_letters = match &dead_letter_arn {
            Some(arn) => {
                let attributes = Box::pin(self.attributes_by_arn(arn)).await?;
                Some(mapped(attributes, |attributes| waiting(&attributes)))
            }
            None => None,
        };
        Ok(Looked::Found(QueueFacts {
            consumer: Box::pin(self.consumer(&arn)).await?,
            arn,
            visibility: number(QueueAttributeName::VisibilityTimeout),
            dead_letters,
            waiting: waiting(&attributes),
        }))
    }

    /// The function that receives the messages of a queue.
    async fn consumer(&self, queue: &str) -> Result<Option<Looked<QueueConsumer>>> {
        let mappings = match Box::pin(self.mappings(Some(queue))).await? {
            Looked::Found(mappings) => mappings,
            Looked::NotAllowed(permission) => return Ok(Some(Looked::NotAllowed(permission))),
            Looked::NotRead(reason) => return Ok(Some(Looked::NotRead(reason))),
            Looked::Missing | Looked::NotNamed(_) => Vec::new(),
        };
        let Some(mapping) = mappings.into_iter().next() else { return Ok(None) };
        let function = Box::pin(self.function(&mapping.function)).await?;
        Ok(Some(mapped(function, |function| QueueConsumer {
            function: mapping.function,
            timeout: function.timeout,
            state: mapping.state,
            reports_item_failures: mapping.reports_item_failures,
        })))
    }

    async fn attributes_by_arn(&self, arn: &str) -> Result<Looked<QueueAttributes>> {
        let mut parts = arn.rsplit(':');
        let (name, account) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let url = self.queues.get_queue_url().queue_name(name).queue_owner_aws_account_id(account);
        let url = looked(Box::pin(url.send()).await, "sqs:GetQueueUrl");
        let Looked::Found(url) = url else { return Ok(mapped(url, |_| QueueAttributes::new())) };
        Box::pin(self.attributes(url.queue_url().unwrap_or_default())).await
    }

    async fn attributes(&self, url: &str) -> Result<Looked<QueueAttributes>> {
        let get = self.queues.get_queue_attributes().queue_url(url);
        let get = get.attribute_names(QueueAttributeName::All);
        let found = looked(Box::pin(get.send()).await, "sqs:GetQueueAttributes");
        Ok(mapped(found, |output| output.attributes.unwrap_or_default()))
    }
}

type QueueAttributes = HashMap<QueueAttributeName, String>;

/// The messages that wait.
fn waiting(attributes: &QueueAttributes) -> u64 {
    let number = attributes.get(&QueueAttributeName::ApproximateNumberOfMessages);
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

fn dead_letter_queue(policy: &str) -> Option<String> {
    let policy: Value = serde_json::from_str(policy).ok()?;
    policy.get("deadLetterTargetArn")?.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dead_letter_queue_is_read_from_the_redrive_policy() {
        let policy = r#"{"deadLetterTargetArn":"arn:aws:sqs:eu-west-1:1:q","maxReceiveCount":5}"#;
        assert_eq!(dead_letter_queue(policy).as_deref(), Some("arn:aws:sqs:eu-west-1:1:q"));
        assert_eq!(dead_letter_queue("{}"), None);
    }
}
