//! SNS topics, standard and FIFO.

use std::fmt::Write as _;

use afterwrite_model::{Error, ErrorKind, Result};
use aws_config::SdkConfig;
use aws_config::retry::RetryConfig;

use super::{EventArn, NAME_ATTRIBUTE, TEXT_TYPE};
use crate::event_target::{EventEntry, EventOrder};
use crate::request::{NamedBy, ServiceRequest};
use crate::service_api::{ApiRequest, AwsService, ServiceApi, path_segment};

/// SNS.
pub const SNS: AwsService = AwsService { id: "SNS", name: "sns", is_global: false };
/// SNS's limit on the messages of one request.
pub const MAX_ENTRIES: usize = 10;
/// SNS's limit on the messages of one request, and so on one message: 256 KiB.
pub const MAX_BYTES: usize = 256 * 1024;
/// The version of the API.
const API_VERSION: &str = "2010-03-31";

/// An SNS topic, through the AWS SDK.
#[derive(Clone, Debug)]
pub struct SnsTopic {
    api: ServiceApi,
    pub(super) arn: EventArn,
}

impl SnsTopic {
    /// The topic with this ARN. Nothing is retried.
    #[must_use]
    pub fn new(sdk: SdkConfig, arn: EventArn) -> Self {
        let once = sdk.into_builder().retry_config(RetryConfig::disabled()).build();
        Self { api: ServiceApi::new(&SNS, once), arn }
    }

    pub(super) fn request(&self) -> ServiceRequest<'_> {
        ServiceRequest {
            service: "SNS",
            action: "PublishBatch",
            permission: self.arn.service.permission(),
            resource: "topic",
            name: &self.arn.text,
            named_by: NamedBy::ArnSetting(&self.arn.setting),
        }
    }

    fn form(&self, entries: &[EventEntry<'_>]) -> Vec<(String, String)> {
        let mut form = vec![("TopicArn".to_owned(), self.arn.text.to_string())];
        for (index, entry) in entries.iter().enumerate() {
            let mut add = |field: &str, value: &str| {
                let name = format!("PublishBatchRequestEntries.member.{}.{field}", index + 1);
                form.push((name, value.to_owned()));
            };
            add("Id", &index.to_string());
            add("Message", entry.body);
            add("MessageAttributes.entry.1.Name", NAME_ATTRIBUTE);
            add("MessageAttributes.entry.1.Value.DataType", TEXT_TYPE);
            add("MessageAttributes.entry.1.Value.StringValue", entry.name);
            match self.arn.order() {
                EventOrder::Standard => {}
                EventOrder::Fifo => {
                    add("MessageGroupId", entry.group);
                    add("MessageDeduplicationId", entry.id);
                }
            }
        }
        form
    }

    /// The result for each message. A message that the response does not name was not taken.
    fn results(&self, response: &str, sent: usize) -> Vec<Result<(), Error>> {
        let unnamed = "the response does not contain a result for each message";
        let missing = || Err(self.request().new_error(ErrorKind::Unavailable, unnamed));
        let mut results: Vec<Result<(), Error>> = (0..sent).map(|_| missing()).collect();
        for member in elements(response, "member") {
            let id = elements(member, "Id").next().and_then(|id| id.parse::<usize>().ok());
            let Some(result) = id.and_then(|id| results.get_mut(id)) else { continue };
            let code = elements(member, "Code").next();
            let is_sender_fault = elements(member, "SenderFault").next() == Some("true");
            *result = match code {
                None => Ok(()),
                Some(code) => Err(self.request().entry_error(code, is_sender_fault)),
            };
        }
        results
    }

    /// As [`EventTarget::publish`](crate::EventTarget::publish), without a time limit.
    pub(super) async fn publish_batch(&self, entries: &[EventEntry<'_>]) -> Result<Vec<Result<(), Error>>> {
        let request = query_request("PublishBatch", &self.form(entries));
        let response = self.api.send(request).await.map_err(|error| self.request().error(&error))?;
        Ok(self.results(&String::from_utf8_lossy(&response), entries.len()))
    }
}

/// A request of the Query protocol to an action of SNS.
#[must_use]
pub fn query_request(action: &'static str, form: &[(String, String)]) -> ApiRequest {
    let mut body = format!("Action={action}&Version={API_VERSION}");
    for (name, value) in form {
        // Writing to a text cannot fail.
        let _ = write!(body, "&{}={}", path_segment(name), path_segment(value));
    }
    let content_type = "application/x-www-form-urlencoded; charset=utf-8".to_owned();
    ApiRequest {
        action,
        method: "POST",
        path: "/".to_owned(),
        headers: vec![("content-type", content_type)],
        body,
    }
}

/// The contents of all elements with this name. Neither an id nor a code has a character that XML escapes.
fn elements<'x>(xml: &'x str, name: &str) -> impl Iterator<Item = &'x str> {
    let (open, close) = (format!("<{name}>"), format!("</{name}>"));
    let mut rest = xml;
    std::iter::from_fn(move || {
        let (_, after) = rest.split_once(&open)?;
        let (content, after) = after.split_once(&close)?;
        rest = after;
        Some(content)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topic(name: &str) -> SnsTopic {
        let arn = EventArn::parse(&format!("arn:aws:sns:us-east-1:1:{name}"), "AFTERWRITE_EVENTS").unwrap();
        SnsTopic::new(SdkConfig::builder().build(), arn)
    }

    fn entry() -> EventEntry<'static> {
        EventEntry { id: "i", name: "order_paid", group: "g", changed_at: None, body: "{\"a\":\"b&c d\"}" }
    }

    #[test]
    fn only_a_fifo_topic_gets_a_group_and_an_id() {
        let standard = query_request("PublishBatch", &topic("t").form(&[entry()]));
        let message = "PublishBatchRequestEntries.member.1.Message=%7B%22a%22%3A%22b%26c%20d%22%7D";
        assert!(standard.body.starts_with("Action=PublishBatch&Version=2010-03-31&TopicArn=arn%3Aaws%3Asns"));
        assert!(standard.body.contains(message), "{}", standard.body);
        assert!(!standard.body.contains("MessageGroupId"), "{}", standard.body);
        let fifo = query_request("PublishBatch", &topic("t.fifo").form(&[entry()]));
        assert!(fifo.body.ends_with(
            "member.1.MessageGroupId=g&PublishBatchRequestEntries.member.1.MessageDeduplicationId=i"
        ));
    }

    #[test]
    fn each_message_has_its_own_result() {
        let response = "<PublishBatchResponse><PublishBatchResult><Failed>\
            <member><Id>1</Id><Code>InternalError</Code><Message>m</Message><SenderFault>false</SenderFault></member>\
            <member><Id>3</Id><Code>InvalidParameter</Code><SenderFault>true</SenderFault></member></Failed>\
            <Successful><member><Id>0</Id><MessageId>m</MessageId></member></Successful></PublishBatchResult></PublishBatchResponse>";
        let results = topic("t").results(response, 4);
        let kinds: Vec<Option<ErrorKind>> =
            results.iter().map(|result| result.as_ref().err().map(Error::kind)).collect();
        let unavailable = Some(ErrorKind::Unavailable);
        assert_eq!(kinds, [None, unavailable, unavailable, Some(ErrorKind::Rejected)]);
    }
}
