//! The JSON of `CreateEventSourceMapping`.

use std::time::Duration;

use afterwrite_model::table::nearest_name;
use afterwrite_model::{Error, ErrorKind, Result};
use serde_json::{Map, Value};

use super::{MappingSettings, StartingPosition};
use crate::filter::FilterCriteria;

const REPORT_FAILURES: &str = "ReportBatchItemFailures";
const S3_ARN: &str = "arn:aws:s3:::";

/// Settings that are emulated, or that do not change what is delivered (`Tags`, `KMSKeyArn`, `MetricsConfig`).
const EMULATED: [&str; 16] = [
    "BatchSize",
    "BisectBatchOnFunctionError",
    "DestinationConfig",
    "Enabled",
    "EventSourceArn",
    "FilterCriteria",
    "FunctionName",
    "FunctionResponseTypes",
    "KMSKeyArn",
    "MaximumBatchingWindowInSeconds",
    "MaximumRecordAgeInSeconds",
    "MaximumRetryAttempts",
    "MetricsConfig",
    "ParallelizationFactor",
    "StartingPosition",
    "Tags",
];

impl MappingSettings {
    /// Reads the request of `CreateEventSourceMapping`. Settings that are absent or null have AWS's defaults.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] for a value that AWS refuses, and for a setting that is not emulated.
    pub fn from_json(json: &str) -> Result<Self> {
        let request: Map<String, Value> = serde_json::from_str(json).map_err(|error| {
            invalid("the settings of the event source mapping are not a JSON object")
                .hint("Write them as AWS's CreateEventSourceMapping takes them: {\"BatchSize\": 100}")
                .caused_by(error)
        })?;
        let mut settings = Self::default();
        for (name, value) in request.iter().filter(|(_, value)| !value.is_null()) {
            settings.apply(name, value)?;
        }
        Ok(settings)
    }

    fn apply(&mut self, name: &str, value: &Value) -> Result<()> {
        match name {
            "BatchSize" => self.batch_size = size(whole_number(name, value, 1, 10_000)?),
            "MaximumBatchingWindowInSeconds" => {
                self.batch_window = seconds(whole_number(name, value, 0, 300)?);
            }
            "ParallelizationFactor" => {
                self.parallelization_factor = size(whole_number(name, value, 1, 10)?);
            }
            "MaximumRetryAttempts" => {
                let retries = whole_number(name, value, -1, 10_000)?;
                self.max_retries = u32::try_from(retries).ok();
            }
            "MaximumRecordAgeInSeconds" => self.max_record_age = record_age(name, value)?,
            "BisectBatchOnFunctionError" => self.bisects = boolean(name, value)?,
            "FunctionResponseTypes" => self.reports_item_failures = response_types(name, value)?,
            "StartingPosition" => self.starting_position = starting_position(name, value)?,
            "FilterCriteria" => self.filters = FilterCriteria::from_value(value)?,
            "DestinationConfig" => self.on_failure_bucket = on_failure_bucket(name, value)?,
            "FunctionName" => text(name, value)?.clone_into(&mut self.function_name),
            "EventSourceArn" => {
                text(name, value)?;
            }
            "Tags" | "KMSKeyArn" | "MetricsConfig" => {}
            "Enabled" if boolean(name, value)? => {}
            "Enabled" => {
                return Err(not_emulated(name).hint("Remove it: a disabled mapping delivers nothing"));
            }
            "TumblingWindowInSeconds" if *value == 0 => {}
            "AmazonManagedKafkaEventSourceConfig"
            | "DocumentDBEventSourceConfig"
            | "LoggingConfig"
            | "ProvisionedPollerConfig"
            | "Queues"
            | "ScalingConfig"
            | "SelfManagedEventSource"
            | "SelfManagedKafkaEventSourceConfig"
            | "SourceAccessConfigurations"
            | "StartingPositionTimestamp"
            | "Topics"
            | "TumblingWindowInSeconds" => return Err(not_emulated(name)),
            _ => return Err(unknown_setting(name)),
        }
        Ok(())
    }
}

fn not_emulated(name: &str) -> Error {
    invalid(format!("{name} is not emulated")).hint("Remove it from the settings of the event source mapping")
}

fn unknown_setting(name: &str) -> Error {
    let error = invalid(format!("{name} is not a setting of an event source mapping"));
    match nearest_name(name, EMULATED) {
        Some(nearest) => error.hint(format!("Did you mean {nearest}?")),
        None => error.hint(format!("Settings: {}", EMULATED.join(", "))),
    }
}

fn whole_number(name: &str, value: &Value, least: i64, most: i64) -> Result<i64> {
    let number = value.as_i64().filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| invalid(format!("{name} must be a whole number from {least} to {most}")))
}

fn record_age(name: &str, value: &Value) -> Result<Option<Duration>> {
    match whole_number(name, value, -1, 604_800)? {
        -1 => Ok(None),
        0..60 => Err(invalid(format!("{name} must be -1, or a whole number from 60 to 604800"))),
        age => Ok(Some(seconds(age))),
    }
}

fn boolean(name: &str, value: &Value) -> Result<bool> {
    value.as_bool().ok_or_else(|| invalid(format!("{name} must be true or false")))
}

fn text<'v>(name: &str, value: &'v Value) -> Result<&'v str> {
    value.as_str().ok_or_else(|| invalid(format!("{name} must be a text")))
}

fn response_types(name: &str, value: &Value) -> Result<bool> {
    let types = value.as_array().filter(|types| types.iter().all(|kind| kind == REPORT_FAILURES));
    let types = types.ok_or_else(|| invalid(format!("{name} must be a list of {REPORT_FAILURES}")))?;
    Ok(!types.is_empty())
}

fn starting_position(name: &str, value: &Value) -> Result<StartingPosition> {
    match text(name, value)? {
        "TRIM_HORIZON" => Ok(StartingPosition::TrimHorizon),
        "LATEST" => Ok(StartingPosition::Latest),
        _ => Err(invalid(format!("{name} of a DynamoDB stream must be TRIM_HORIZON or LATEST"))),
    }
}

/// The bucket of the on-failure destination.
fn on_failure_bucket(name: &str, value: &Value) -> Result<Option<String>> {
    let malformed =
        || invalid(format!("{name} must be {{\"OnFailure\": {{\"Destination\": \"{S3_ARN}<bucket>\"}}}}"));
    let config = value.as_object().ok_or_else(malformed)?;
    if let Some(other) = config.keys().find(|key| *key != "OnFailure") {
        return Err(not_emulated(&format!("{name}.{other}")));
    }
    let Some(on_failure) = config.get("OnFailure").filter(|value| !value.is_null()) else { return Ok(None) };
    let Some(destination) = on_failure.get("Destination") else { return Ok(None) };
    let arn = destination.as_str().ok_or_else(malformed)?;
    match arn.strip_prefix(S3_ARN).filter(|bucket| !bucket.is_empty()) {
        Some(bucket) => Ok(Some(bucket.to_owned())),
        None => Err(invalid(format!("{name}.OnFailure with the destination {arn} is not emulated"))
            .hint(format!("Name an S3 bucket, {S3_ARN}<bucket>: only its objects hold the records"))),
    }
}

fn seconds(number: i64) -> Duration {
    Duration::from_secs(u64::try_from(number).unwrap_or(0))
}

fn size(number: i64) -> usize {
    usize::try_from(number).unwrap_or(1)
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Configuration, message)
}
