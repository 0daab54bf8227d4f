//! The functions, their event source mappings and schedules.

use std::collections::BTreeSet;

use afterwrite::config::ProjectionKind;
use afterwrite_operations::stream_filters::{MAX_PATTERNS, StreamFilter};
use serde_json::{Map, Value, json};

use super::permissions::role_id;
use super::queues::with_condition;
use super::{DeployedShape, attribute, logical, reference, stream_parameter, substituted, table_name};

/// A function's memory, temporary storage and time limit.
struct FunctionSize {
    memory: u32,
    storage: u32,
    timeout: u32,
}

const READER: FunctionSize = FunctionSize { memory: 256, storage: 512, timeout: 60 };
const EXPORTER: FunctionSize = FunctionSize { memory: 512, storage: 512, timeout: 300 };
const COMPACTOR: FunctionSize = FunctionSize { memory: 1024, storage: 10240, timeout: 900 };

pub(super) fn resources(shape: &DeployedShape<'_>) -> Map<String, Value> {
    let mut resources = Map::new();
    for reader in shape.readers() {
        add_function(&mut resources, shape, reader, &READER, None);
        for (index, table) in shape.model.tables.iter().enumerate() {
            let id = format!("{}{}Mapping", logical(reader), logical(&table.name));
            resources.insert(id, stream_mapping(shape, reader, index, &table.name));
        }
    }
    let condition = Some("HasDistribution");
    add_function(&mut resources, shape, "invalidator", &READER, condition);
    let draining = json!({
        "EventSourceArn": attribute("CdnQueue", "Arn"),
        "FunctionName": alias("invalidator"),
        "BatchSize": 1000, "MaximumBatchingWindowInSeconds": 20,
        "FunctionResponseTypes": ["ReportBatchItemFailures"],
    });
    resources.insert("CdnMapping".to_owned(), with_condition(MAPPING, draining, condition));
    if shape.has_datasets() {
        add_function(&mut resources, shape, "exporter", &EXPORTER, None);
        add_function(&mut resources, shape, "compactor", &COMPACTOR, None);
        let exporting = json!({
            "EventSourceArn": attribute("ExportQueue", "Arn"),
            "FunctionName": alias("exporter"),
            "BatchSize": 10,
            "FunctionResponseTypes": ["ReportBatchItemFailures"],
            "ScalingConfig": { "MaximumConcurrency": 4 },
        });
        resources.insert("ExportMapping".to_owned(), with_condition(MAPPING, exporting, None));
        resources.insert(
            "CompactionSchedule".to_owned(),
            schedule("compaction", "compactor", "rate(1 hour)", "{}"),
        );
    }
    if shape.has_aggregate() {
        let input = r#"{"afterwrite":"heartbeat"}"#;
        resources.insert(
            "HeartbeatSchedule".to_owned(),
            schedule("heartbeat", "aggregator", "rate(1 minute)", input),
        );
    }
    resources
}

const MAPPING: &str = "AWS::Lambda::EventSourceMapping";

/// The alias that everything invokes: a deployment is undone by pointing it to the previous version.
fn alias(function: &str) -> Value {
    reference(&format!("{}Function.Alias", logical(function)))
}

fn add_function(
    resources: &mut Map<String, Value>,
    shape: &DeployedShape<'_>,
    function: &str,
    size: &FunctionSize,
    condition: Option<&str>,
) {
    let log_group = format!("{}LogGroup", logical(function));
    let logs = json!({
        "LogGroupName": substituted(format!("/aws/lambda/${{Name}}-{function}")),
        "RetentionInDays": reference("LogRetentionDays"),
    });
    let mut group = with_condition("AWS::Logs::LogGroup", logs, condition);
    if let Some(group) = group.as_object_mut() {
        group.insert("DeletionPolicy".to_owned(), json!("Delete"));
        group.insert("UpdateReplacePolicy".to_owned(), json!("Delete"));
    }
    let model = shape.model;
    let mut properties = json!({
        "FunctionName": substituted(format!("${{Name}}-{function}")),
        "Description": format!("Afterwrite {function}, model {}, generation {}", model.name, model.generation),
        "CodeUri": format!("{}/{function}.zip", shape.code),
        "Handler": "bootstrap", "Runtime": "provided.al2023", "Architectures": ["arm64"],
        "MemorySize": size.memory, "Timeout": size.timeout, "EphemeralStorage": { "Size": size.storage },
        "Role": attribute(&role_id(function), "Arn"),
        "AutoPublishAlias": "live", "Tracing": "Active",
        "LoggingConfig": { "LogFormat": "JSON", "LogGroup": reference(&log_group) },
        "Environment": { "Variables": environment(shape, function) },
    });
    if let Some(properties) = properties.as_object_mut().filter(|_| function == "invalidator") {
        // One at a time keeps CloudFront's limits.
        properties.insert("ReservedConcurrentExecutions".to_owned(), json!(1));
    }
    resources.insert(log_group, group);
    let id = format!("{}Function", logical(function));
    resources.insert(id, with_condition("AWS::Serverless::Function", properties, condition));
}

fn environment(shape: &DeployedShape<'_>, function: &str) -> Map<String, Value> {
    let mut variables = Map::new();
    let mut set = |name: &str, value: Value| {
        variables.insert(name.to_owned(), value);
    };
    set("AFTERWRITE_MODEL", json!("/var/task/model.toml"));
    set("POWERTOOLS_METRICS_NAMESPACE", json!("Afterwrite"));
    set("POWERTOOLS_SERVICE_NAME", reference("Name"));
    let renames = shape.model.tables.iter();
    let renames: Vec<Value> =
        renames.map(|table| json!({ "Fn::Join": ["=", [&*table.name, table_name(&table.name)]] })).collect();
    set("AFTERWRITE_TABLES", json!({ "Fn::Join": [",", renames] }));
    let when =
        |condition: &str, value: Value| json!({ "Fn::If": [condition, value, reference("AWS::NoValue")] });
    if function == "aggregator" || (function == "exporter" && shape.has_aggregate()) {
        set("AFTERWRITE_STATE_TABLE", reference("StateTable"));
    }
    if function == "aggregator" {
        set("AFTERWRITE_ON_POISON", json!("park"));
    }
    if shape.readers().contains(&function) {
        set("AFTERWRITE_PROJECTIONS", projections(shape, function));
    }
    if function == shape.relaying() {
        set("AFTERWRITE_FIREHOSE_STREAM", reference("DeliveryStream"));
        set("AFTERWRITE_CACHE_URL", when("HasCacheUrl", reference("CacheUrl")));
        set("AFTERWRITE_CACHE_SECRET", when("HasCacheSecret", reference("CacheSecretArn")));
        set("AFTERWRITE_CDN_QUEUE", when("HasDistribution", reference("CdnQueue")));
    }
    if function == shape.relaying() || ["exporter", "compactor"].contains(&function) {
        set("AFTERWRITE_BUCKET", reference("ArchiveBucket"));
    }
    if function == "invalidator" {
        set("AFTERWRITE_CLOUDFRONT_DISTRIBUTION", reference("DistributionId"));
    }
    variables
}

/// The projections that a function hosts: with those of caches, and without.
fn hosted(shape: &DeployedShape<'_>, function: &str, invalidates: bool) -> BTreeSet<ProjectionKind> {
    let mut hosted = BTreeSet::new();
    if function == "aggregator" && shape.has_aggregate() {
        hosted.insert(ProjectionKind::Aggregate);
    }
    if function == shape.relaying() {
        hosted.insert(ProjectionKind::Archive);
        if invalidates {
            hosted.insert(ProjectionKind::Invalidate);
        }
    }
    hosted
}

/// A function invalidates if a cache or a distribution is named.
fn projections(shape: &DeployedShape<'_>, function: &str) -> Value {
    let names = |invalidates| {
        let hosted = hosted(shape, function, invalidates);
        hosted.into_iter().map(ProjectionKind::name).collect::<Vec<_>>().join(",")
    };
    let (with, without) = (names(true), names(false));
    if with == without { json!(with) } else { json!({ "Fn::If": ["Invalidates", with, without] }) }
}

fn stream_mapping(shape: &DeployedShape<'_>, reader: &str, index: usize, table: &str) -> Value {
    let mut properties = json!({
        "EventSourceArn": reference(&stream_parameter(table)),
        "FunctionName": alias(reader),
        // LATEST can lose records while the mapping starts.
        "StartingPosition": "TRIM_HORIZON",
        "BatchSize": 1000, "MaximumBatchingWindowInSeconds": 5,
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
    }
    with_condition(MAPPING, properties, None)
}

fn schedule(name: &str, function: &str, when: &str, input: &str) -> Value {
    let properties = json!({
        "Name": substituted(format!("${{Name}}-{name}")),
        "ScheduleExpression": when,
        "FlexibleTimeWindow": { "Mode": "OFF" },
        "Target": {
            "Arn": alias(function),
            "RoleArn": attribute("SchedulerRole", "Arn"),
            "Input": input,
            "RetryPolicy": { "MaximumEventAgeInSeconds": 300, "MaximumRetryAttempts": 3 },
            "DeadLetterConfig": { "Arn": attribute("ScheduleDeadLetters", "Arn") },
        },
    });
    with_condition("AWS::Scheduler::Schedule", properties, None)
}
