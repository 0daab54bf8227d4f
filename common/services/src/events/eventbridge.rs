//! EventBridge buses.

use std::sync::Arc;

use afterwrite_model::{Error, ErrorKind, Result};
use aws_config::SdkConfig;
use aws_config::retry::RetryConfig;
use serde::Deserialize;
use serde_json::{Value, json};

use super::EventArn;
use crate::event_target::EventEntry;
use crate::request::{NamedBy, ServiceRequest};
use crate::service_api::{ApiRequest, AwsService, ServiceApi, parse_response};

/// EventBridge.
pub const EVENTBRIDGE: AwsService = AwsService { id: "EventBridge", name: "events", is_global: false };
/// The prefix of its actions.
pub const TARGET_PREFIX: &str = "AWSEvents";
/// EventBridge's limit on the entries of one request.
pub const MAX_ENTRIES: usize = 10;
/// EventBridge's limit on the size of one request, and so of one entry: 1 MB. The AWS documentation does not say whether it counts 1,000 or 1,024,
/// so this is the smaller number.
pub const MAX_BYTES: usize = 1_000_000;
/// EventBridge bills each event as a whole number of these: 64 KB.
pub const BILLED_BYTES: usize = 64 * 1024;
/// The bytes that EventBridge counts for the time of an entry.
const TIME_BYTES: usize = 14;

/// An EventBridge bus, through the AWS SDK.
#[derive(Clone, Debug)]
pub struct EventBridge {
    api: ServiceApi,
    pub(super) arn: EventArn,
    source: Arc<str>,
}

impl EventBridge {
    /// The bus with this ARN; `source` is the source of its events. Nothing is retried.
    #[must_use]
    pub fn new(sdk: SdkConfig, arn: EventArn, source: &str) -> Self {
        let once = sdk.into_builder().retry_config(RetryConfig::disabled()).build();
        Self { api: ServiceApi::new(&EVENTBRIDGE, once), arn, source: Arc::from(source) }
    }

    pub(super) fn request(&self) -> ServiceRequest<'_> {
        ServiceRequest {
            service: "EventBridge",
            action: "PutEvents",
            permission: self.arn.service.permission(),
            resource: "event bus",
            name: &self.arn.text,
            named_by: NamedBy::ArnSetting(&self.arn.setting),
        }
    }

    fn body(&self, entries: &[EventEntry<'_>]) -> Value {
        json!({ "Entries": entries.iter().map(|entry| self.entry(entry)).collect::<Vec<Value>>() })
    }

    /// An entry without a time gets the time of its arrival.
    fn entry(&self, entry: &EventEntry<'_>) -> Value {
        let mut json = json!({
            "Source": &*self.source,
            "DetailType": entry.name,
            "Detail": entry.body,
            "EventBusName": &*self.arn.text,
        });
        if let Some((changed_at, json)) = entry.changed_at.zip(json.as_object_mut()) {
            // EventBridge keeps whole seconds.
            json.insert("Time".to_owned(), changed_at.epoch_ms().div_euclid(1000).into());
        }
        json
    }

    /// The result for each entry. If the number of failures and the error codes disagree, no entry counts as published.
    fn results(&self, response: &PutEventsOutput, sent: usize) -> Result<Vec<Result<(), Error>>> {
        let codes: Vec<Option<&str>> =
            response.entries.iter().map(|entry| entry.error_code.as_deref()).collect();
        if codes.len() != sent || response.failed != codes.iter().flatten().count() {
            let message = "the response does not contain a result for each entry";
            return Err(self.request().new_error(ErrorKind::Unavailable, message));
        }
        let error = |code: &str| self.request().entry_error(code, is_sender_fault(code));
        Ok(codes.into_iter().map(|code| code.map_or(Ok(()), |code| Err(error(code)))).collect())
    }

    /// As [`EventTarget::entry_bytes`](crate::EventTarget::entry_bytes).
    pub(super) fn entry_bytes(&self, entry: &EventEntry<'_>) -> usize {
        entry.changed_at.map_or(0, |_| TIME_BYTES) + self.source.len() + entry.name.len() + entry.body.len()
    }

    /// As [`EventTarget::publish`](crate::EventTarget::publish), without a time limit.
    pub(super) async fn put_events(&self, entries: &[EventEntry<'_>]) -> Result<Vec<Result<(), Error>>> {
        let request = ApiRequest::json(TARGET_PREFIX, "PutEvents", &self.body(entries));
        let response = self.api.send(request).await.map_err(|error| self.request().error(&error))?;
        self.results(&parse_response(&response)?, entries.len())
    }
}

/// Whether an entry with this error would be refused again.
fn is_sender_fault(code: &str) -> bool {
    ["Malformed", "Invalid", "Validation", "NotAuthorized"].iter().any(|word| code.contains(word))
}

/// The response to `PutEvents`.
#[derive(Deserialize)]
struct PutEventsOutput {
    #[serde(rename = "FailedEntryCount")]
    failed: usize,
    #[serde(rename = "Entries")]
    entries: Vec<PutEventsResult>,
}

#[derive(Deserialize)]
struct PutEventsResult {
    #[serde(rename = "ErrorCode")]
    error_code: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(response: &Value, sent: usize) -> Result<Vec<Option<ErrorKind>>> {
        let arn = EventArn::parse("arn:aws:events:us-east-1:1:event-bus/b", "AFTERWRITE_EVENTS")?;
        let bus = EventBridge::new(SdkConfig::builder().build(), arn, "afterwrite.shop");
        let results = bus.results(&parse_response(response.to_string().as_bytes())?, sent)?;
        Ok(results.iter().map(|result| result.as_ref().err().map(Error::kind)).collect())
    }

    #[test]
    fn each_entry_has_its_own_result() {
        let response = json!({ "FailedEntryCount": 3, "Entries": [
            { "EventId": "1" },
            { "ErrorCode": "ThrottlingException", "ErrorMessage": "m" },
            { "ErrorCode": "InternalFailure", "ErrorMessage": "m" },
            { "ErrorCode": "MalformedDetail", "ErrorMessage": "m" },
        ] });
        let unavailable = Some(ErrorKind::Unavailable);
        assert_eq!(kinds(&response, 4).unwrap(), [None, unavailable, unavailable, Some(ErrorKind::Rejected)]);
    }

    #[test]
    fn a_contradictory_response_publishes_nothing() {
        for response in [
            json!({ "FailedEntryCount": 1, "Entries": [{ "EventId": "1" }, { "EventId": "2" }] }),
            json!({ "FailedEntryCount": 0, "Entries": [{ "EventId": "1" }] }),
            json!({ "FailedEntryCount": 0, "Entries": [{ "EventId": "1" }, { "ErrorCode": "InternalFailure" }] }),
        ] {
            assert_eq!(kinds(&response, 2).unwrap_err().kind(), ErrorKind::Unavailable, "{response}");
        }
    }
}
