//! The settings of `CreateEventSourceMapping`.

use std::time::Duration;

use afterwrite_mapping::{MappingSettings, StartingPosition};
use afterwrite_model::ErrorKind;
use serde_json::{Value, json};

fn read(settings: Value) -> afterwrite_model::Result<MappingSettings> {
    MappingSettings::from_json(&settings.to_string())
}

#[test]
fn a_deployed_mapping_is_read() {
    let settings = read(json!({
        "FunctionName": "aggregator",
        "EventSourceArn": "arn:aws:dynamodb:eu-west-1:1:table/T/stream/2026-02-06T00:00:00.000",
        "Enabled": true,
        "BatchSize": 1000,
        "MaximumBatchingWindowInSeconds": 5,
        "ParallelizationFactor": 4,
        "StartingPosition": "LATEST",
        "MaximumRetryAttempts": 20,
        "MaximumRecordAgeInSeconds": 3600,
        "BisectBatchOnFunctionError": true,
        "FunctionResponseTypes": ["ReportBatchItemFailures"],
        "FilterCriteria": { "Filters": [{ "Pattern": "{\"eventName\": [\"INSERT\"]}" }] },
        "DestinationConfig": { "OnFailure": { "Destination": "arn:aws:s3:::failures" } },
        "MetricsConfig": { "Metrics": ["EventCount"] },
        "KMSKeyArn": "arn:aws:kms:eu-west-1:1:key/x",
        "Tags": { "team": "exams" },
        "TumblingWindowInSeconds": 0,
        "ScalingConfig": null,
    }))
    .unwrap();
    assert_eq!((settings.function_name.as_str(), settings.batch_size), ("aggregator", 1000));
    assert_eq!((settings.batch_window, settings.parallelization_factor), (Duration::from_secs(5), 4));
    assert_eq!(settings.starting_position, StartingPosition::Latest);
    assert_eq!((settings.max_retries, settings.max_record_age), (Some(20), Some(Duration::from_secs(3600))));
    assert!(settings.bisects && settings.reports_item_failures);
    assert!(!settings.filters.accepts(r#"{"eventName": "REMOVE"}"#));
    assert_eq!(settings.on_failure_bucket.as_deref(), Some("failures"));
}

#[test]
fn the_defaults_are_those_of_aws() {
    let settings = read(json!({})).unwrap();
    assert_eq!((settings.batch_size, settings.batch_window), (100, Duration::ZERO));
    assert_eq!(
        (settings.parallelization_factor, settings.max_retries, settings.max_record_age),
        (1, None, None)
    );
    assert!(!settings.bisects && !settings.reports_item_failures);
    let unlimited = read(json!({ "MaximumRetryAttempts": -1, "MaximumRecordAgeInSeconds": -1 })).unwrap();
    assert_eq!((unlimited.max_retries, unlimited.max_record_age), (None, None));
}

#[test]
fn values_out_of_range_are_refused() {
    for (name, least, most) in [
        ("BatchSize", 1, 10_000),
        ("MaximumBatchingWindowInSeconds", 0, 300),
        ("ParallelizationFactor", 1, 10),
        ("MaximumRetryAttempts", -1, 10_000),
        ("MaximumRecordAgeInSeconds", -1, 604_800),
    ] {
        for value in [least, most] {
            assert!(read(json!({ name: value })).is_ok(), "{name} {value}");
        }
        for value in [json!(least - 1), json!(most + 1), json!(1.5), json!("7")] {
            let error = read(json!({ name: value })).unwrap_err();
            assert!(error.to_string().starts_with(&format!("{name} must be a whole number")), "{error}");
        }
    }
    for age in [0, 59] {
        assert!(read(json!({ "MaximumRecordAgeInSeconds": age })).is_err());
    }
}

#[test]
fn a_setting_that_is_not_emulated_is_refused_by_name() {
    for (settings, message) in [
        (json!({ "TumblingWindowInSeconds": 30 }), "TumblingWindowInSeconds is not emulated"),
        (json!({ "ProvisionedPollerConfig": {} }), "ProvisionedPollerConfig is not emulated"),
        (json!({ "StartingPositionTimestamp": 1 }), "StartingPositionTimestamp is not emulated"),
        (json!({ "ScalingConfig": {} }), "ScalingConfig is not emulated"),
        (json!({ "Enabled": false }), "Enabled is not emulated"),
        (json!({ "StartingPosition": "AT_TIMESTAMP" }), "StartingPosition of a DynamoDB stream must be"),
        (json!({ "FunctionResponseTypes": ["Other"] }), "FunctionResponseTypes must be a list of"),
        (
            json!({ "DestinationConfig": { "OnFailure": { "Destination": "arn:aws:sqs:eu-west-1:1:dlq" } } }),
            "DestinationConfig.OnFailure with the destination arn:aws:sqs:eu-west-1:1:dlq is not emulated",
        ),
        (json!({ "DestinationConfig": { "OnSuccess": {} } }), "DestinationConfig.OnSuccess is not emulated"),
        (
            json!({ "BatchSise": 5 }),
            "BatchSise is not a setting of an event source mapping. Did you mean BatchSize?",
        ),
    ] {
        let error = read(settings).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Configuration);
        assert!(error.to_string().starts_with(message), "{error}");
    }
    assert!(MappingSettings::from_json("[]").is_err());
}
