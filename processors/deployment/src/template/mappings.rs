//! The event source mappings of streams and queues.

use crate::stream_filters::{MAX_PATTERNS, StreamFilter};
use serde_json::{Map, Value, json};

use super::alias;
use super::conditions::Condition;
use super::functions::hosted;
use super::intrinsics::{attribute, key_if_given, reference, resource};
use super::{DeployedShape, logical, stream_parameter};

const MAPPING: &str = "AWS::Lambda::EventSourceMapping";

pub(super) fn resources(shape: &DeployedShape<'_>) -> Map<String, Value> {
    let mut resources = Map::new();
    for reader in shape.readers() {
        for (index, table) in shape.model.tables.iter().enumerate() {
            let mapping = resource(MAPPING, stream_mapping(shape, reader, index, &table.name), None);
            resources.insert(stream_mapping_id(reader, &table.name), mapping);
        }
    }
    // The window folds the paths of all shards.
    let mut draining = queue_mapping("CdnQueue", "invalidator", 1000);
    draining.insert("MaximumBatchingWindowInSeconds".to_owned(), json!(20));
    resources.insert(
        "CdnMapping".to_owned(),
        resource(MAPPING, draining.into(), Some(Condition::HasDistribution)),
    );
    if shape.has_datasets() {
        let mut exporting = queue_mapping("ExportQueue", "exporter", 10);
        // More exporters mostly wait for each other's commits.
        exporting.insert("ScalingConfig".to_owned(), json!({ "MaximumConcurrency": 16 }));
        resources.insert("ExportMapping".to_owned(), resource(MAPPING, exporting.into(), None));
    }
    resources
}

pub(super) fn stream_mapping_id(reader: &str, table: &str) -> String {
    format!("{}{}Mapping", logical(reader), logical(table))
}

fn stream_mapping(shape: &DeployedShape<'_>, reader: &str, index: usize, table: &str) -> Value {
    let mut properties = json!({
        "EventSourceArn": reference(&stream_parameter(table)),
        "FunctionName": alias(reader),
        // LATEST can lose records while the mapping starts.
        "StartingPosition": "TRIM_HORIZON",
        "BatchSize": 1000, "MaximumBatchingWindowInSeconds": 5, "ParallelizationFactor": 1,
        "FunctionResponseTypes": ["ReportBatchItemFailures"], "BisectBatchOnFunctionError": true,
        "MaximumRetryAttempts": 20, "MaximumRecordAgeInSeconds": 21600,
        "DestinationConfig": { "OnFailure": { "Destination": attribute("FailuresBucket", "Arn") } },
        "MetricsConfig": { "Metrics": ["EventCount"] },
    });
    // An archive hosts every entity that caches use, so the patterns do not depend on the caches.
    let filter = StreamFilter::new(shape.model, index, &hosted(shape, reader, true), MAX_PATTERNS);
    let filters: Vec<Value> = filter.patterns.iter().map(|pattern| json!({ "Pattern": pattern })).collect();
    if let Some(properties) = properties.as_object_mut().filter(|_| !filters.is_empty()) {
        properties.insert("FilterCriteria".to_owned(), json!({ "Filters": filters }));
        properties.insert("KmsKeyArn".to_owned(), key_if_given());
    }
    properties
}

fn queue_mapping(queue: &str, function: &str, batch_size: u32) -> Map<String, Value> {
    Map::from_iter([
        ("EventSourceArn".to_owned(), attribute(queue, "Arn")),
        ("FunctionName".to_owned(), alias(function)),
        ("BatchSize".to_owned(), json!(batch_size)),
        ("FunctionResponseTypes".to_owned(), json!(["ReportBatchItemFailures"])),
        ("MetricsConfig".to_owned(), json!({ "Metrics": ["EventCount"] })),
    ])
}
