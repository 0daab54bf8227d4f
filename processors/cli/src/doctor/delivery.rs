//! Looks at event source mappings, functions and the exporter's queue.

use std::collections::BTreeMap;

use afterwrite::Result;
use afterwrite_operations::doctor::{BucketFacts, FunctionFacts, Looked, MappingFacts, QueueFacts};
use aws_config::SdkConfig;
use aws_sdk_lambda::types::{EventSourceMappingConfiguration, FunctionResponseType};
use aws_sdk_sqs::types::QueueAttributeName;
use serde_json::Value;

use super::look::{looked, mapped};

/// The beginning of the variables of our functions.
const OWN: &str = "AFTERWRITE_";

/// Reads mappings, functions and queues.
pub(super) struct DeliveryLook {
    functions: aws_sdk_lambda::Client,
    queues: aws_sdk_sqs::Client,
}

impl DeliveryLook {
    pub(super) fn new(sdk: &SdkConfig) -> Self {
        Self { functions: aws_sdk_lambda::Client::new(sdk), queues: aws_sdk_sqs::Client::new(sdk) }
    }

    /// The mappings of a source; none without a source.
    pub(super) async fn mappings(&self, source: Option<&str>) -> Result<Looked<Vec<MappingFacts>>> {
        let Some(source) = source else { return Ok(Looked::Found(Vec::new())) };
        let list = self.functions.list_event_source_mappings().event_source_arn(source);
        let pages = list.into_paginator().items().send();
        let listed = looked(Box::pin(pages.try_collect()).await, "lambda:ListEventSourceMappings", source)?;
        Ok(mapped(listed, |mappings| mappings.iter().map(mapping_facts).collect()))
    }

    /// A function; of its environment, only our own variables.
    pub(super) async fn function(&self, name: &str) -> Result<Looked<FunctionFacts>> {
        let get = self.functions.get_function_configuration().function_name(name);
        let described = looked(Box::pin(get.send()).await, "lambda:GetFunctionConfiguration", name)?;
        Ok(mapped(described, |function| {
            let variables = function.environment.and_then(|environment| environment.variables);
            let own = variables.into_iter().flatten().filter(|(name, _)| name.starts_with(OWN));
            let timeout = function.timeout.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or(0);
            FunctionFacts { environment: own.collect::<BTreeMap<_, _>>(), timeout }
        }))
    }

    /// The queue that the bucket notifies of archived objects.
    pub(super) async fn queue(&self, bucket: Option<&BucketFacts>) -> Result<Looked<QueueFacts>> {
        let Some(notifications) = bucket.and_then(|bucket| bucket.notifications.as_ref()) else {
            return Ok(Looked::NotAllowed("s3:GetBucketNotification"));
        };
        let Some((arn, _)) = notifications.first() else { return Ok(Looked::Missing) };
        let attributes = Box::pin(self.attributes(arn)).await?;
        let Looked::Found(attributes) = attributes else {
            return Ok(mapped(attributes, |_| QueueFacts::default()));
        };
        let number = |name| attributes.get(&name).and_then(|text| text.parse().ok()).unwrap_or(0);
        let dead_letter_arn =
            attributes.get(&QueueAttributeName::RedrivePolicy).and_then(|policy| dead_letter_queue(policy));
        let dead_letters = match &dead_letter_arn {
            Some(arn) => Box::pin(self.attributes(arn)).await?.found().and_then(waiting),
            None => None,
        };
        let mappings = Box::pin(self.mappings(Some(arn))).await?;
        let consumer = match mappings.found().and_then(|mappings| mappings.first()) {
            Some(mapping) => {
                let function = Box::pin(self.function(&mapping.function)).await?;
                Some(mapped(function, |function| (mapping.function.clone(), function.timeout)))
            }
            None => match mappings {
                Looked::NotAllowed(permission) => Some(Looked::NotAllowed(permission)),
                Looked::Found(_) | Looked::Missing | Looked::NotNamed(_) => None,
            },
        };
        Ok(Looked::Found(QueueFacts {
            arn: arn.clone(),
            visibility: number(QueueAttributeName::VisibilityTimeout),
            has_dead_letters: dead_letter_arn.is_some(),
            dead_letters,
            waiting: waiting(&attributes).unwrap_or(0),
            consumer,
        }))
    }

    /// The attributes of a queue with this ARN.
    async fn attributes(&self, arn: &str) -> Result<Looked<QueueAttributes>> {
        let mut parts = arn.rsplit(':');
        let (name, account) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let url = self.queues.get_queue_url().queue_name(name).queue_owner_aws_account_id(account);
        let url = looked(Box::pin(url.send()).await, "sqs:GetQueueUrl", arn)?;
        let Looked::Found(url) = url else { return Ok(mapped(url, |_| QueueAttributes::new())) };
        let get = self.queues.get_queue_attributes().set_queue_url(url.queue_url);
        let get = get.attribute_names(QueueAttributeName::All);
        let found = looked(Box::pin(get.send()).await, "sqs:GetQueueAttributes", arn)?;
        Ok(mapped(found, |output| output.attributes.unwrap_or_default()))
    }
}

type QueueAttributes = std::collections::HashMap<QueueAttributeName, String>;

/// The messages that wait.
fn waiting(attributes: &QueueAttributes) -> Option<u64> {
    attributes.get(&QueueAttributeName::ApproximateNumberOfMessages)?.parse().ok()
}

fn dead_letter_queue(policy: &str) -> Option<String> {
    let policy: Value = serde_json::from_str(policy).ok()?;
    policy.get("deadLetterTargetArn")?.as_str().map(str::to_owned)
}

fn mapping_facts(mapping: &EventSourceMappingConfiguration) -> MappingFacts {
    let bound = |number: Option<i32>| number.and_then(|number| u64::try_from(number).ok());
    let problem = mapping.last_processing_result().filter(|result| result.starts_with("PROBLEM"));
    let on_failure = mapping.destination_config().and_then(|destinations| destinations.on_failure());
    let filters = mapping.filter_criteria().map(|criteria| criteria.filters()).unwrap_or_default();
    let patterns = filters.iter().filter_map(|filter| filter.pattern().map(str::to_owned));
    let position = mapping.starting_position().map(|position| position.as_str().to_owned());
    MappingFacts {
        id: mapping.uuid().unwrap_or_default().to_owned(),
        function: function_name(mapping.function_arn().unwrap_or_default()),
        state: mapping.state().unwrap_or_default().to_owned(),
        problem: problem.map(str::to_owned),
        starting_position: position.unwrap_or_default(),
        reports_item_failures: mapping
            .function_response_types()
            .contains(&FunctionResponseType::ReportBatchItemFailures),
        bisects: mapping.bisect_batch_on_function_error() == Some(true),
        retries: bound(mapping.maximum_retry_attempts()),
        record_age: bound(mapping.maximum_record_age_in_seconds()),
        on_failure: on_failure.and_then(|destination| destination.destination()).map(str::to_owned),
        filters: patterns.collect(),
    }
}

/// The name in `arn:aws:lambda:<region>:<account>:function:<name>[:<alias>]`.
fn function_name(arn: &str) -> String {
    arn.split(':').nth(6).unwrap_or(arn).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_named_without_its_alias() {
        let arn = "arn:aws:lambda:eu-west-1:123456789012:function:exams-relay";
        assert_eq!(function_name(arn), "exams-relay");
        assert_eq!(function_name(&format!("{arn}:live")), "exams-relay");
    }

    #[test]
    fn a_dead_letter_queue_is_read_from_the_redrive_policy() {
        let policy = r#"{"deadLetterTargetArn":"arn:aws:sqs:eu-west-1:1:q","maxReceiveCount":5}"#;
        assert_eq!(dead_letter_queue(policy).as_deref(), Some("arn:aws:sqs:eu-west-1:1:q"));
        assert_eq!(dead_letter_queue("{}"), None);
    }
}
