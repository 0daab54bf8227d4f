//! Looks at event source mappings and functions.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "what was not found is judged alike, whatever the reason"
)]

use std::collections::BTreeMap;

use afterwrite::Result;
use afterwrite_operations::doctor::{FunctionFacts, Looked, MappingFacts};
use aws_config::SdkConfig;
use aws_sdk_lambda::types::{EventSourceMappingConfiguration, FilterCriteria, FunctionResponseType};

use super::look::{looked, mapped};

/// The beginning of the variables of our functions.
const OWN: &str = "AFTERWRITE_";

/// The permission to read what a key encrypts.
const DECRYPT: &str = "kms:Decrypt";

/// Reads mappings, functions and queues.
pub(super) struct DeliveryLook {
    functions: aws_sdk_lambda::Client,
    pub(super) queues: aws_sdk_sqs::Client,
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
        let Looked::Found(listed) = listed else { return Ok(mapped(listed, |_| Vec::new())) };
        let mut mappings = Vec::new();
        for mapping in listed {
            let filters = Box::pin(self.filters(&mapping)).await?;
            mappings.push(mapping_facts(&mapping, filters));
        }
        Ok(Looked::Found(mappings))
    }

    /// The filter patterns of a mapping. A list of mappings leaves them out if a key encrypts them.
    async fn filters(&self, mapping: &EventSourceMappingConfiguration) -> Result<Looked<Vec<String>>> {
        let is_encrypted = mapping.kms_key_arn().is_some() || mapping.filter_criteria_error().is_some();
        if !is_encrypted || mapping.filter_criteria().is_some() {
            return Ok(Looked::Found(patterns(mapping.filter_criteria())));
        }
        let id = mapping.uuid().unwrap_or_default();
        let get = self.functions.get_event_source_mapping().uuid(id);
        let read = looked(Box::pin(get.send()).await, "lambda:GetEventSourceMapping", id)?;
        Ok(match read {
            Looked::Found(mapping) if mapping.filter_criteria_error().is_some() => {
                Looked::NotAllowed(DECRYPT)
            }
            read => mapped(read, |mapping| patterns(mapping.filter_criteria())),
        })
    }

    /// A function `<name>[:<alias>]`, in the version that an alias refers to; of its environment, only our own variables.
    pub(super) async fn function(&self, name: &str) -> Result<Looked<FunctionFacts>> {
        let (unqualified, alias) =
            name.split_once(':').map_or((name, None), |(name, alias)| (name, Some(alias)));
        let get = self.functions.get_function_configuration().function_name(unqualified);
        let get = get.set_qualifier(alias.map(str::to_owned));
        let described = looked(Box::pin(get.send()).await, "lambda:GetFunctionConfiguration", name)?;
        let environment = described.found().and_then(|function| function.environment());
        if environment.is_some_and(|environment| environment.error().is_some()) {
            return Ok(Looked::NotAllowed(DECRYPT));
        }
        Ok(mapped(described, |function| {
            let variables = function.environment.and_then(|environment| environment.variables);
            let own = variables.into_iter().flatten().filter(|(name, _)| name.starts_with(OWN));
            let timeout = function.timeout.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or(0);
            FunctionFacts { environment: own.collect::<BTreeMap<_, _>>(), timeout }
        }))
    }
}

fn patterns(criteria: Option<&FilterCriteria>) -> Vec<String> {
    let filters = criteria.map(FilterCriteria::filters).unwrap_or_default().iter();
    filters.filter_map(|filter| filter.pattern().map(str::to_owned)).collect()
}

fn mapping_facts(mapping: &EventSourceMappingConfiguration, filters: Looked<Vec<String>>) -> MappingFacts {
    let bound = |number: Option<i32>| number.and_then(|number| u64::try_from(number).ok());
    let problem = mapping.last_processing_result().filter(|result| result.starts_with("PROBLEM"));
    let on_failure = mapping.destination_config().and_then(|destinations| destinations.on_failure());
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
        filters,
    }
}

/// `<name>[:<alias>]` of `arn:aws:lambda:<region>:<account>:function:<name>[:<alias>]`.
fn function_name(arn: &str) -> String {
    arn.splitn(7, ':').nth(6).unwrap_or(arn).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_named_with_its_alias() {
        let arn = "arn:aws:lambda:eu-west-1:123456789012:function:exams-relay";
        assert_eq!(function_name(arn), "exams-relay");
        assert_eq!(function_name(&format!("{arn}:live")), "exams-relay:live");
    }
}
