//! Looks at event source mappings and functions.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "what was not found is judged alike, whatever the reason"
)]

use std::collections::BTreeMap;

use afterwrite_model::Result;
use afterwrite_model::record::{Decimal, Timestamp};
use afterwrite_services::service_api::{ApiRequest, AwsService, ServiceApi, parse_response, path_segment};
use aws_config::SdkConfig;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::outcome::{looked, mapped, try_mapped};
use crate::doctor::{FunctionFacts, Looked, MappingFacts};

/// Lambda.
const LAMBDA: AwsService = AwsService { id: "Lambda", name: "lambda", is_global: false };
/// The version of the API: the first part of its paths.
const API_VERSION: &str = "2015-03-31";

/// The beginning of the variables of our functions.
const OWN: &str = "AFTERWRITE_";

const LIST: &str = "lambda:ListEventSourceMappings";
const GET_MAPPING: &str = "lambda:GetEventSourceMapping";
const GET_FUNCTION: &str = "lambda:GetFunctionConfiguration";
/// The permission to read what a key encrypts.
const DECRYPT: &str = "kms:Decrypt";

/// The element of `FunctionResponseTypes` of a mapping whose function names the records that failed.
const REPORTS_ITEM_FAILURES: &str = "ReportBatchItemFailures";

/// Reads mappings, functions and queues.
pub(super) struct DeliveryLook {
    functions: ServiceApi,
    pub(super) queues: aws_sdk_sqs::Client,
}

/// A page of `ListEventSourceMappings`.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct MappingPage {
    next_marker: Option<String>,
    #[serde(default)]
    event_source_mappings: Vec<EventSourceMapping>,
}

/// An event source mapping, as `GetEventSourceMapping` returns it.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct EventSourceMapping {
    #[serde(default, rename = "UUID")]
    uuid: String,
    #[serde(default)]
    function_arn: String,
    #[serde(default)]
    state: String,
    /// Seconds since 1970.
    last_modified: Option<Value>,
    last_processing_result: Option<String>,
    starting_position: Option<String>,
    function_response_types: Option<Vec<String>>,
    bisect_batch_on_function_error: Option<bool>,
    maximum_retry_attempts: Option<i64>,
    maximum_record_age_in_seconds: Option<i64>,
    destination_config: Option<DestinationConfig>,
    filter_criteria: Option<FilterCriteria>,
    filter_criteria_error: Option<ErrorCode>,
    #[serde(rename = "KMSKeyArn")]
    kms_key_arn: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DestinationConfig {
    on_failure: Option<FailureDestination>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct FailureDestination {
    destination: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct FilterCriteria {
    #[serde(default)]
    filters: Vec<FilterPattern>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct FilterPattern {
    pattern: Option<String>,
}

/// Why a part of a response is missing. Its code and message are not used.
#[derive(Deserialize)]
struct ErrorCode {}

/// A function, as `GetFunctionConfiguration` returns it.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct FunctionConfiguration {
    timeout: Option<u64>,
    environment: Option<FunctionEnvironment>,
    logging_config: Option<LoggingConfiguration>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct LoggingConfiguration {
    log_group: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct FunctionEnvironment {
    variables: Option<BTreeMap<String, String>>,
    error: Option<ErrorCode>,
}

impl DeliveryLook {
    pub(super) fn new(sdk: &SdkConfig) -> Self {
        Self { functions: ServiceApi::new(&LAMBDA, sdk.clone()), queues: aws_sdk_sqs::Client::new(sdk) }
    }

    /// The mappings of a source; none without a source.
    pub(super) async fn mappings(&self, source: Option<&str>) -> Result<Looked<Vec<MappingFacts>>> {
        let Some(source) = source else { return Ok(Looked::Found(Vec::new())) };
        let list = format!("/{API_VERSION}/event-source-mappings?EventSourceArn={}", path_segment(source));
        let (mut mappings, mut marker): (Vec<MappingFacts>, Option<String>) = (Vec::new(), None);
        loop {
            let path = match &marker {
                Some(marker) => format!("{list}&Marker={}", path_segment(marker)),
                None => list.clone(),
            };
            let listed = self.get::<MappingPage>("ListEventSourceMappings", path, LIST).await;
            let Looked::Found(page) = listed else { return Ok(mapped(listed, |_| Vec::new())) };
            for mapping in page.event_source_mappings {
                let filters = Box::pin(self.filters(&mapping)).await?;
                mappings.push(mapping_facts(mapping, filters));
            }
            // The last page may have an empty marker.
            marker = page.next_marker.filter(|marker| !marker.is_empty());
            if marker.is_none() {
                return Ok(Looked::Found(mappings));
            }
        }
    }

    /// The filter patterns of a mapping. A list of mappings leaves them out if a key encrypts them.
    async fn filters(&self, mapping: &EventSourceMapping) -> Result<Looked<Vec<String>>> {
        let is_encrypted = mapping.kms_key_arn.is_some() || mapping.filter_criteria_error.is_some();
        if !is_encrypted || mapping.filter_criteria.is_some() {
            return Ok(Looked::Found(patterns(mapping.filter_criteria.as_ref())));
        }
        let path = format!("/{API_VERSION}/event-source-mappings/{}", path_segment(&mapping.uuid));
        let get = self.get::<EventSourceMapping>("GetEventSourceMapping", path, GET_MAPPING);
        Ok(match get.await {
            Looked::Found(mapping) if mapping.filter_criteria_error.is_some() => Looked::NotAllowed(DECRYPT),
            read => mapped(read, |mapping| patterns(mapping.filter_criteria.as_ref())),
        })
    }

    /// Sends a request that only reads.
    async fn get<T: DeserializeOwned>(
        &self,
        action: &'static str,
        path: String,
        permission: &'static str,
    ) -> Looked<T> {
        let request = ApiRequest { action, method: "GET", path, headers: Vec::new(), body: String::new() };
        try_mapped(looked(self.functions.send(request).await, permission), |body| parse_response(&body))
    }

    /// A function `<name>[:<alias>]`, in the version that an alias refers to; of its environment, only our own variables.
    pub(super) async fn function(&self, name: &str) -> Result<Looked<FunctionFacts>> {
        let (unqualified, alias) =
            name.split_once(':').map_or((name, None), |(name, alias)| (name, Some(alias)));
        let qualifier = alias.map(|alias| format!("?Qualifier={}", path_segment(alias))).unwrap_or_default();
        let function = path_segment(unqualified);
        let path = format!("/{API_VERSION}/functions/{function}/configuration{qualifier}");
        let get = self.get::<FunctionConfiguration>("GetFunctionConfiguration", path, GET_FUNCTION);
        let described = get.await;
        let environment = described.found().and_then(|function| function.environment.as_ref());
        if environment.is_some_and(|environment| environment.error.is_some()) {
            return Ok(Looked::NotAllowed(DECRYPT));
        }
        Ok(mapped(described, |function| {
            let variables = function.environment.and_then(|environment| environment.variables);
            let own = variables.into_iter().flatten().filter(|(name, _)| name.starts_with(OWN));
            FunctionFacts {
                environment: own.collect(),
                timeout: function.timeout.unwrap_or(0),
                log_group: function.logging_config.and_then(|logging| logging.log_group),
            }
        }))
    }
}

fn patterns(criteria: Option<&FilterCriteria>) -> Vec<String> {
    let filters = criteria.iter().flat_map(|criteria| &criteria.filters);
    filters.filter_map(|filter| filter.pattern.clone()).collect()
}

fn mapping_facts(mapping: EventSourceMapping, filters: Looked<Vec<String>>) -> MappingFacts {
    let bound = |number: Option<i64>| number.and_then(|number| u64::try_from(number).ok());
    let on_failure = mapping.destination_config.and_then(|destinations| destinations.on_failure);
    let responses = mapping.function_response_types.unwrap_or_default();
    MappingFacts {
        id: mapping.uuid,
        function: function_name(&mapping.function_arn),
        state: mapping.state,
        modified: mapping.last_modified.as_ref().and_then(Value::as_f64).and_then(seconds),
        problem: mapping.last_processing_result.filter(|result| result.starts_with("PROBLEM")),
        starting_position: mapping.starting_position.unwrap_or_default(),
        reports_item_failures: responses.iter().any(|response| response == REPORTS_ITEM_FAILURES),
        bisects: mapping.bisect_batch_on_function_error == Some(true),
        retries: bound(mapping.maximum_retry_attempts),
        record_age: bound(mapping.maximum_record_age_in_seconds),
        on_failure: on_failure.and_then(|destination| destination.destination),
        filters,
    }
}

fn seconds(number: f64) -> Option<Timestamp> {
    let number: Decimal = format!("{number:.3}").parse().ok()?;
    Timestamp::from_epoch_number(&number)
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
