//! The event source mappings of streams and queues.

use afterwrite_model::table::Table;
use afterwrite_model::{Error, ErrorKind, Result};
use serde_json::{Map, Value, json};

use crate::stream_filters::{MAX_PATTERNS, StreamFilter};

use super::alias;
use super::events::drain_condition;
use super::functions::hosted;
use super::intrinsics::{attribute, key_if_given, reference, resource};
use super::{DeployedShape, logical, stream_parameter};

const MAPPING: &str = "AWS::Lambda::EventSourceMapping";

pub(super) fn resources(shape: &DeployedShape<'_>) -> Map<String, Value> {
    let mut resources = Map::new();
    for reader in shape.readers() {
        for stream in mapped_streams(shape, reader) {
            let mapping = resource(MAPPING, stream_mapping(shape, reader, &stream), None);
            resources.insert(stream_mapping_id(reader, stream.table), mapping);
        }
    }
    // The window folds the paths of all shards.
    let mut draining = queue_mapping("CdnQueue", "invalidator", 1000);
    draining.insert("MaximumBatchingWindowInSeconds".to_owned(), json!(20));
    resources.insert("CdnMapping".to_owned(), resource(MAPPING, draining.into(), drain_condition(shape)));
    if shape.has_datasets() {
        let mut exporting = queue_mapping("ExportQueue", "exporter", 10);
        // More exporters mostly wait for each other's commits.
        exporting.insert("ScalingConfig".to_owned(), json!({ "MaximumConcurrency": 16 }));
        resources.insert("ExportMapping".to_owned(), resource(MAPPING, exporting.into(), None));
    }
    resources
}

/// A stream that a function reads.
pub(super) struct MappedStream<'m> {
    /// An index into the model's tables.
    index: usize,
    /// The table's name in the model.
    pub(super) table: &'m str,
    /// The table in words.
    pub(super) description: &'m str,
    pub(super) arn: Value,
}

/// The streams of a reader: of all source tables, and of the state table if the reader uses rollups as sources.
pub(super) fn mapped_streams<'m>(shape: &DeployedShape<'m>, reader: &str) -> Vec<MappedStream<'m>> {
    let model = shape.model;
    let hosted = hosted(shape, reader, true);
    let tables = model.tables.iter().enumerate();
    let needed = tables.filter(|(index, _)| StreamFilter::is_needed(model, *index, &hosted));
    let stream = |(index, table): (usize, &'m Table)| match table.is_state() {
        true => MappedStream {
            index,
            table: &table.name,
            description: "the state table",
            arn: attribute("StateTable", "StreamArn"),
        },
        false => MappedStream {
            index,
            table: &table.name,
            description: &table.name,
            arn: reference(&stream_parameter(&table.name)),
        },
    };
    needed.map(stream).collect()
}

/// Refuses a mapping of the state table's stream without a filter: the function would read its own writes.
pub(super) fn check_filters(shape: &DeployedShape<'_>) -> Result<()> {
    let mut streams = shape
        .readers()
        .into_iter()
        .flat_map(|reader| mapped_streams(shape, reader).into_iter().map(move |stream| (reader, stream)));
    let is_unfiltered = |(reader, stream): &(&str, MappedStream<'_>)| {
        shape.model.state_source() == Some(stream.index) && patterns(shape, reader, stream).is_empty()
    };
    match streams.find(is_unfiltered) {
        None => Ok(()),
        Some((reader, _)) => Err(Error::new(
            ErrorKind::Configuration,
            format!("no filter keeps Afterwrite's own writes to the state table from {reader}"),
        )
        .hint("Give the rollups that are sources keys with a common beginning: the patterns would be too many, or too long")),
    }
}

/// The patterns of a mapping. Of a source table, the archive has every entity that caches use; of the state table, items that only caches use
/// pass also without a cache, and have no effect then.
fn patterns(shape: &DeployedShape<'_>, reader: &str, stream: &MappedStream<'_>) -> Vec<String> {
    StreamFilter::new(shape.model, stream.index, &hosted(shape, reader, true), MAX_PATTERNS).patterns
}

pub(super) fn stream_mapping_id(reader: &str, table: &str) -> String {
    format!("{}{}Mapping", logical(reader), logical(table))
}

fn stream_mapping(shape: &DeployedShape<'_>, reader: &str, stream: &MappedStream<'_>) -> Value {
    let mut properties = json!({
        "EventSourceArn": stream.arn,
        "FunctionName": alias(reader),
        // LATEST can lose records while the mapping starts.
        "StartingPosition": "TRIM_HORIZON",
        "BatchSize": 1000, "MaximumBatchingWindowInSeconds": 5, "ParallelizationFactor": 1,
        "FunctionResponseTypes": ["ReportBatchItemFailures"], "BisectBatchOnFunctionError": true,
        "MaximumRetryAttempts": 20, "MaximumRecordAgeInSeconds": 21600,
        "DestinationConfig": { "OnFailure": { "Destination": attribute("FailuresBucket", "Arn") } },
        "MetricsConfig": { "Metrics": ["EventCount"] },
    });
    let patterns = patterns(shape, reader, stream);
    let filters: Vec<Value> = patterns.iter().map(|pattern| json!({ "Pattern": pattern })).collect();
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

#[cfg(test)]
mod tests {
    use afterwrite_model::table::Model;

    use crate::cost::Observability;

    use super::*;

    fn levels() -> Model {
        Model::parse(include_str!("../../../../infra/tests/levels.toml"), "levels.toml").unwrap()
    }

    fn template(model: &Model, is_single: bool) -> Value {
        let observability = Observability::Full;
        DeployedShape { model, code: "dist", is_single, nested: 0, observability }.template()
    }

    #[test]
    fn the_state_table_has_a_stream_that_its_readers_get_through_a_filter() {
        let template = template(&levels(), false);
        let property = |id: &str, name: &str| template["Resources"][id]["Properties"][name].clone();
        let view = property("StateTable", "StreamSpecification");
        assert_eq!(view, json!({ "StreamViewType": "NEW_AND_OLD_IMAGES" }));
        for reader in ["Aggregator", "Relay"] {
            let mapping = format!("{reader}StateMapping");
            let stream = json!({ "Fn::GetAtt": ["StateTable", "StreamArn"] });
            assert_eq!(property(&mapping, "EventSourceArn"), stream);
            let filters = property(&mapping, "FilterCriteria");
            let [filter] = &filters["Filters"].as_array().unwrap()[..] else { panic!("{filters}") };
            let pattern = filter["Pattern"].as_str().unwrap();
            assert!(pattern.contains("SHOP#") && !pattern.contains("MONTHS#"), "{pattern}");
            let alarm = &template["Resources"][format!("OnFailure{reader}StateAlarm")];
            assert!(alarm["Properties"]["AlarmDescription"].to_string().contains("the state table"));
            let variables = &template["Resources"][format!("{reader}Function")]["Properties"]["Environment"];
            assert_eq!(variables["Variables"]["AFTERWRITE_STATE_TABLE"], json!({ "Ref": "StateTable" }));
            assert!(!variables["Variables"]["AFTERWRITE_TABLES"].to_string().contains("@state"));
            let streams = &template["Resources"][format!("{reader}Role")]["Properties"]["Policies"][0]["PolicyDocument"]
                ["Statement"][0];
            assert!(streams["Resource"].as_array().unwrap().contains(&stream), "{streams}");
        }
        let text = template["Parameters"].to_string() + &template["Conditions"].to_string();
        assert!(text.contains("OrdersStreamArn") && !text.contains("@state"), "{text}");
    }

    #[test]
    fn one_function_reads_both_streams() {
        let template = template(&levels(), true);
        let ids: Vec<&String> = template["Resources"].as_object().unwrap().keys().collect();
        let mapped = |id: &str| ids.iter().any(|known| *known == id);
        assert!(mapped("AggregatorStateMapping") && mapped("AggregatorOrdersMapping"));
        assert!(!mapped("RelayStateMapping"));
    }
}
