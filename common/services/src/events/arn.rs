//! The ARN of an event target.

use std::sync::Arc;

use afterwrite_model::{Error, ErrorKind, Result};
use aws_types::region::Region;

use crate::event_target::EventOrder;

/// The end of the name of a FIFO queue or topic.
const FIFO: &str = ".fifo";

/// A service that takes events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventService {
    /// EventBridge.
    EventBridge,
    /// SQS.
    Sqs,
    /// SNS.
    Sns,
}

impl EventService {
    /// All services.
    pub const ALL: [Self; 3] = [Self::EventBridge, Self::Sns, Self::Sqs];

    /// The permission to publish to a target of the service.
    #[must_use]
    pub const fn permission(self) -> &'static str {
        match self {
            Self::EventBridge => "events:PutEvents",
            Self::Sqs => "sqs:SendMessage",
            Self::Sns => "sns:Publish",
        }
    }
}

/// The ARN of a bus, a queue or a topic, and the setting that names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventArn {
    /// The whole ARN.
    pub text: Arc<str>,
    /// The setting.
    pub setting: Arc<str>,
    /// The service.
    pub service: EventService,
    /// The name of the bus, queue or topic.
    pub name: Arc<str>,
    partition: Arc<str>,
    region: Arc<str>,
    account: Arc<str>,
}

impl EventArn {
    /// Reads the value of a setting.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] if it is not the ARN of a bus, a queue or a topic.
    pub fn parse(text: &str, setting: &str) -> Result<Self> {
        let invalid = || {
            Error::new(ErrorKind::Configuration, format!("{setting} is not the ARN of an event target"))
                .hint("Set it to the ARN of an EventBridge bus (arn:aws:events:<region>:<account>:event-bus/<name>), an SQS queue (arn:aws:sqs:<region>:<account>:<name>) or an SNS topic (arn:aws:sns:<region>:<account>:<name>)")
        };
        let parts: Vec<&str> = text.splitn(6, ':').collect();
        let ["arn", partition, service, region, account, resource] = parts[..] else { return Err(invalid()) };
        let (service, name) = match service {
            "events" => (EventService::EventBridge, resource.strip_prefix("event-bus/").unwrap_or_default()),
            "sqs" => (EventService::Sqs, resource),
            "sns" => (EventService::Sns, resource),
            _ => return Err(invalid()),
        };
        // The ARN of a subscription to a topic has one more part. Partner buses have slashes in their names.
        let is_fit = |character: char| character.is_ascii_alphanumeric() || "-_./".contains(character);
        let is_right = |part: &&str| !part.is_empty() && part.chars().all(is_fit);
        let longest = match service {
            EventService::Sqs => 80,
            EventService::EventBridge | EventService::Sns => 256,
        };
        let is_named = name.len() <= longest && name != FIFO;
        if !is_named || ![partition, region, account, name].iter().all(is_right) {
            return Err(invalid());
        }
        Ok(Self {
            text: Arc::from(text),
            setting: Arc::from(setting),
            service,
            name: Arc::from(name),
            partition: Arc::from(partition),
            region: Arc::from(region),
            account: Arc::from(account),
        })
    }

    /// Whether the target keeps the order of a group's events. The name of a FIFO queue or topic ends in `.fifo`.
    #[must_use]
    pub fn order(&self) -> EventOrder {
        match self.service {
            EventService::Sqs | EventService::Sns if self.name.ends_with(FIFO) => EventOrder::Fifo,
            EventService::EventBridge | EventService::Sqs | EventService::Sns => EventOrder::Standard,
        }
    }

    /// The region of the target, to which requests are sent.
    #[must_use]
    pub fn region(&self) -> Region {
        Region::new(self.region.to_string())
    }

    /// The URL of a queue.
    #[must_use]
    pub fn queue_url(&self) -> String {
        let Self { region, account, name, .. } = self;
        let suffix = if &*self.partition == "aws-cn" { "amazonaws.com.cn" } else { "amazonaws.com" };
        format!("https://sqs.{region}.{suffix}/{account}/{name}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<EventArn> {
        EventArn::parse(text, "AFTERWRITE_EVENTS_PAID")
    }

    #[test]
    fn an_arn_names_its_service_and_its_order() {
        use EventOrder::{Fifo, Standard};
        use EventService::{EventBridge, Sns, Sqs};
        for (text, service, name, order) in [
            ("arn:aws:events:eu-west-1:1:event-bus/default", EventBridge, "default", Standard),
            ("arn:aws:events:eu-west-1:1:event-bus/a.fifo", EventBridge, "a.fifo", Standard),
            ("arn:aws:sqs:eu-west-1:1:orders", Sqs, "orders", Standard),
            ("arn:aws:sqs:eu-west-1:1:orders.fifo", Sqs, "orders.fifo", Fifo),
            ("arn:aws-cn:sns:cn-north-1:1:orders.fifo", Sns, "orders.fifo", Fifo),
        ] {
            let arn = parse(text).unwrap();
            assert_eq!((arn.service, &*arn.name, arn.order()), (service, name, order));
        }
    }

    #[test]
    fn a_queue_has_the_url_of_its_region() {
        let url = |text: &str| parse(text).unwrap().queue_url();
        assert_eq!(url("arn:aws:sqs:eu-west-1:12:o"), "https://sqs.eu-west-1.amazonaws.com/12/o");
        assert_eq!(url("arn:aws-cn:sqs:cn-north-1:12:o"), "https://sqs.cn-north-1.amazonaws.com.cn/12/o");
    }

    #[test]
    fn other_texts_name_the_setting_and_the_three_forms() {
        for text in [
            "",
            "orders",
            "https://sqs.eu-west-1.amazonaws.com/12/orders",
            "arn:aws:events:eu-west-1:1:rule/default",
            "arn:aws:events:eu-west-1:1:event-bus/",
            "arn:aws:sqs::1:orders",
            "arn:aws:sns:eu-west-1:1:orders:0f0f-subscription",
            "arn:aws:lambda:eu-west-1:1:function:f",
            "arn:aws:sqs:eu-west-1:1:orders.fifo\n",
            "arn:aws:sqs:eu-west-1:1:orders ",
            "arn:aws:sns:eu-west-1:1:.fifo",
            &format!("arn:aws:sqs:eu-west-1:1:{}", "o".repeat(81)),
        ] {
            let error = parse(text).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Configuration);
            let error = error.to_string();
            assert!(
                error.contains("AFTERWRITE_EVENTS_PAID") && error.contains("event-bus/<name>"),
                "{error}"
            );
        }
    }
}
