//! Looks at the targets of events: whether they exist, and whether the caller may publish to them.

use afterwrite_services::events::eventbridge::{EVENTBRIDGE, TARGET_PREFIX};
use afterwrite_services::events::sns::{SNS, query_request};
use afterwrite_services::events::{EventArn, EventService};
use afterwrite_services::service_api::{ApiRequest, ServiceApi};
use aws_config::SdkConfig;
use aws_sdk_sqs::error::ProvideErrorMetadata as _;
use aws_sdk_sqs::types::QueueAttributeName;
use serde_json::json;

use super::outcome::{looked, mapped};
use crate::doctor::{DryCall, EventTargetFacts, Looked};

/// The codes of a request without entries. Services check permissions first.
const EMPTY: [&str; 5] = [
    "EmptyBatchRequest",
    "AWS.SimpleQueueService.EmptyBatchRequest",
    "ValidationException",
    "ValidationError",
    "InvalidParameter",
];

/// Reads targets of events.
pub(super) struct EventLook {
    sdk: SdkConfig,
}

impl EventLook {
    pub(super) fn new(sdk: &SdkConfig) -> Self {
        Self { sdk: sdk.clone() }
    }

    /// The configuration of requests to the target's region.
    fn regional(&self, arn: &EventArn) -> SdkConfig {
        self.sdk.clone().into_builder().region(arn.region()).build()
    }

    /// The target with this ARN.
    pub(super) async fn target(&self, arn: &EventArn) -> Looked<EventTargetFacts> {
        let sdk = self.regional(arn);
        match arn.service {
            EventService::EventBridge => {
                let body = json!({ "Name": &*arn.text });
                let request = ApiRequest::json(TARGET_PREFIX, "DescribeEventBus", &body);
                let described = ServiceApi::new(&EVENTBRIDGE, sdk).send(request).await;
                mapped(looked(described, "events:DescribeEventBus"), |_| EventTargetFacts { is_fifo: false })
            }
            EventService::Sns => {
                let form = [("TopicArn".to_owned(), arn.text.to_string())];
                let request = query_request("GetTopicAttributes", &form);
                let described = ServiceApi::new(&SNS, sdk).send(request).await;
                mapped(looked(described, "sns:GetTopicAttributes"), |body| EventTargetFacts {
                    is_fifo: is_fifo_topic(&String::from_utf8_lossy(&body)),
                })
            }
            EventService::Sqs => {
                let get = aws_sdk_sqs::Client::new(&sdk).get_queue_attributes().queue_url(arn.queue_url());
                let get = get.attribute_names(QueueAttributeName::All);
                mapped(looked(Box::pin(get.send()).await, "sqs:GetQueueAttributes"), |found| {
                    let attributes = found.attributes.unwrap_or_default();
                    let is_fifo = attributes.get(&QueueAttributeName::FifoQueue);
                    EventTargetFacts { is_fifo: is_fifo.is_some_and(|is_fifo| is_fifo == "true") }
                })
            }
        }
    }

    /// Publishes nothing: a request without entries. `None` if the response does not show whether it is allowed.
    pub(super) async fn dry_call(&self, arn: &EventArn) -> Option<DryCall> {
        let sdk = self.regional(arn);
        let code = match arn.service {
            EventService::EventBridge => {
                let request = ApiRequest::json(TARGET_PREFIX, "PutEvents", &json!({ "Entries": [] }));
                let sent = ServiceApi::new(&EVENTBRIDGE, sdk).send(request).await;
                code_of(sent.as_ref().err()?.as_service_error()?.meta().code())
            }
            EventService::Sns => {
                let form = [("TopicArn".to_owned(), arn.text.to_string())];
                let request = query_request("PublishBatch", &form);
                let sent = ServiceApi::new(&SNS, sdk).send(request).await;
                code_of(sent.as_ref().err()?.as_service_error()?.meta().code())
            }
            EventService::Sqs => {
                let send = aws_sdk_sqs::Client::new(&sdk).send_message_batch().queue_url(arn.queue_url());
                let sent = Box::pin(send.set_entries(Some(Vec::new())).send()).await;
                code_of(sent.as_ref().err()?.as_service_error()?.meta().code())
            }
        };
        let is_allowed = match code.as_str() {
            "AccessDenied" | "AccessDeniedException" | "AuthorizationError" => false,
            code if EMPTY.contains(&code) => true,
            _ => return None,
        };
        Some(DryCall { permission: arn.service.permission(), subject: arn.name.to_string(), is_allowed })
    }
}

fn code_of(code: Option<&str>) -> String {
    code.unwrap_or_default().to_owned()
}

/// Whether the response of `GetTopicAttributes` is of a FIFO topic.
fn is_fifo_topic(response: &str) -> bool {
    let value = response.split_once("<key>FifoTopic</key>").map(|(_, after)| after.trim_start());
    value.is_some_and(|value| value.starts_with("<value>true</value>"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fifo_topic_is_known_by_its_attribute() {
        let response = |value: &str| {
            format!("<Attributes><entry><key>FifoTopic</key>\n<value>{value}</value></entry></Attributes>")
        };
        assert!(is_fifo_topic(&response("true")));
        assert!(!is_fifo_topic(&response("false")) && !is_fifo_topic("<Attributes/>"));
    }
}
