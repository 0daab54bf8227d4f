//! The functions and their environments.

use std::collections::BTreeSet;

use afterwrite_services::config::ProjectionKind;
use serde_json::{Map, Value, json};

use super::conditions::Condition;
use super::events::{self, drain_condition, when_drained};
use super::intrinsics::{attribute, either, key_if_given, reference, resource, substituted, when};
use super::{DeployedShape, function_id, logical, role_id, schedules, table_name};

/// A function's memory and temporary storage in MB, its time limit in seconds, and how many run at once.
#[derive(Clone, Copy)]
pub(super) struct TemplateFunction {
    pub(super) name: &'static str,
    memory: u32,
    storage: u32,
    pub(super) timeout: u32,
    concurrency: Option<u32>,
    pub(super) condition: Option<Condition>,
}

pub(super) const AGGREGATOR: TemplateFunction = TemplateFunction {
    name: "aggregator",
    memory: 256,
    storage: 512,
    timeout: 60,
    concurrency: None,
    condition: None,
};
pub(super) const RELAY: TemplateFunction = TemplateFunction { name: "relay", ..AGGREGATOR };
/// One at a time keeps CloudFront's limits.
pub(super) const INVALIDATOR: TemplateFunction = TemplateFunction {
    name: "invalidator",
    concurrency: Some(1),
    condition: Some(Condition::HasDistribution),
    ..AGGREGATOR
};
pub(super) const EXPORTER: TemplateFunction =
    TemplateFunction { name: "exporter", memory: 512, timeout: 300, ..AGGREGATOR };
pub(super) const COMPACTOR: TemplateFunction =
    TemplateFunction { name: "compactor", memory: 1024, storage: 10240, timeout: 900, ..AGGREGATOR };
pub(super) const VERIFIER: TemplateFunction = TemplateFunction { name: "verifier", ..COMPACTOR };

impl TemplateFunction {
    /// The function under another condition.
    pub(super) fn under(self, condition: Option<Condition>) -> Self {
        Self { condition, ..self }
    }
}

pub(super) fn resources(shape: &DeployedShape<'_>) -> Map<String, Value> {
    let mut resources = Map::new();
    for function in shape.deployed() {
        resources.insert(log_group_id(function.name), log_group(&function));
        resources.insert(function_id(function.name), function_resource(shape, &function));
    }
    resources
}

pub(super) fn log_group_id(function: &str) -> String {
    format!("{}LogGroup", logical(function))
}

fn log_group(function: &TemplateFunction) -> Value {
    let properties = json!({
        "LogGroupName": substituted(format!("/aws/lambda/${{Name}}-{}", function.name)),
        "RetentionInDays": reference("LogRetentionDays"),
        "KmsKeyId": key_if_given(),
    });
    resource("AWS::Logs::LogGroup", properties, function.condition)
}

fn function_resource(shape: &DeployedShape<'_>, function: &TemplateFunction) -> Value {
    let (name, model) = (function.name, shape.model);
    let mut properties = json!({
        "FunctionName": substituted(format!("${{Name}}-{name}")),
        "Description": format!("Afterwrite {name}, model {}, generation {}", model.name, model.generation),
        "CodeUri": format!("{}/{name}.zip", shape.code),
        "Handler": "bootstrap", "Runtime": "provided.al2023", "Architectures": [reference("Architecture")],
        "MemorySize": function.memory, "Timeout": function.timeout, "EphemeralStorage": { "Size": function.storage },
        "Role": attribute(&role_id(name), "Arn"),
        // SAM publishes a version if the template or the zip changes; if only a parameter does, `Revision` has to change, too.
        "AutoPublishAlias": "live", "AutoPublishAliasAllProperties": true,
        "VersionDescription": substituted("Revision ${Revision}"),
        "Tracing": "Active",
        "LoggingConfig": {
            "LogFormat": "JSON", "LogGroup": reference(&log_group_id(name)),
            "ApplicationLogLevel": "INFO", "SystemLogLevel": "INFO",
        },
        "KmsKeyArn": key_if_given(),
        "Environment": { "Variables": environment(shape, name) },
    });
    let mut set = |property: &str, value: Value| {
        if let Some(properties) = properties.as_object_mut() {
            properties.insert(property.to_owned(), value);
        }
    };
    if let Some(concurrency) = function.concurrency {
        set("ReservedConcurrentExecutions", json!(concurrency));
    }
    if name == shape.relaying() {
        let network = json!({
            "SubnetIds": reference("VpcSubnetIds"), "SecurityGroupIds": reference("VpcSecurityGroupIds"),
        });
        set("VpcConfig", when(Condition::HasNetwork, network));
    }
    if schedules::schedules(shape).iter().any(|schedule| schedule.function == name) {
        // A schedule invokes asynchronously. A later run does the work of a failed run.
        set("EventInvokeConfig", json!({ "MaximumRetryAttempts": 0, "MaximumEventAgeInSeconds": 3600 }));
    }
    resource("AWS::Serverless::Function", properties, function.condition)
}

/// `AFTERWRITE_TABLES`: the deployed names of the tables, and their former names.
pub(super) fn deployed_names(shape: &DeployedShape<'_>) -> Value {
    let tables = shape.model.application_tables();
    let names =
        tables.map(|(_, table)| json!({ "Fn::Join": ["=", [&*table.name, table_name(&table.name)]] }));
    let names = json!({ "Fn::Join": [",", names.collect::<Vec<Value>>()] });
    let with_former = json!({ "Fn::Join": [",", [names.clone(), reference("FormerTableNames")]] });
    either(Condition::HasFormerTableNames, with_former, names)
}

fn environment(shape: &DeployedShape<'_>, function: &str) -> Map<String, Value> {
    let mut variables = Map::new();
    let mut set = |name: &str, value: Value| {
        variables.insert(name.to_owned(), value);
    };
    set("AFTERWRITE_MODEL", json!("/var/task/model.toml"));
    set("POWERTOOLS_METRICS_NAMESPACE", json!("Afterwrite"));
    set("POWERTOOLS_SERVICE_NAME", reference("Name"));
    if shape.is_minimal() {
        set("AFTERWRITE_METRICS", json!("essential"));
    }
    // Nothing reads it: Lambda publishes a version of a function that has changed.
    set("REVISION", reference("Revision"));
    set("AFTERWRITE_TABLES", deployed_names(shape));
    let reads_state = ["aggregator", "verifier"].contains(&function) || reads_state_stream(shape, function);
    if reads_state || (function == "exporter" && shape.has_aggregate()) {
        set("AFTERWRITE_STATE_TABLE", reference("StateTable"));
    }
    if function == "aggregator" {
        set("AFTERWRITE_ON_POISON", json!("park"));
    }
    if shape.readers().contains(&function) {
        set("AFTERWRITE_PROJECTIONS", projections(shape, function));
    }
    if function == shape.relaying() {
        relay_variables(shape).into_iter().for_each(|(name, value)| set(name, value));
    }
    if function == shape.relaying() || ["exporter", "compactor", "verifier"].contains(&function) {
        set("AFTERWRITE_BUCKET", reference("ArchiveBucket"));
    }
    if function == "invalidator" {
        set("AFTERWRITE_CLOUDFRONT_DISTRIBUTION", drained_distribution(shape));
    }
    if function == shape.relaying() || function == "invalidator" {
        for target in events::targets(shape) {
            set(&target.setting, reference(&target.parameter));
        }
    }
    variables
}

/// The distribution of the function that drains the queue. With events, the function exists without a distribution, too.
fn drained_distribution(shape: &DeployedShape<'_>) -> Value {
    let distribution = reference("DistributionId");
    match drain_condition(shape) {
        Some(_) => distribution,
        None => when(Condition::HasDistribution, distribution),
    }
}

/// Whether a function reads the stream of the state table, whose records name it.
fn reads_state_stream(shape: &DeployedShape<'_>, function: &str) -> bool {
    hosted(shape, function, true).into_iter().any(|projection| projection.reads_rollups(shape.model))
}

/// The variables of the function that relays changes.
fn relay_variables(shape: &DeployedShape<'_>) -> [(&'static str, Value); 5] {
    [
        ("AFTERWRITE_FIREHOSE_STREAM", reference("DeliveryStream")),
        ("AFTERWRITE_CACHE_URL", when(Condition::HasCacheUrl, reference("CacheUrl"))),
        ("AFTERWRITE_CACHE_SECRET", when(Condition::HasCacheSecret, reference("CacheSecretArn"))),
        ("AFTERWRITE_CACHE_CLUSTER", when(Condition::HasCacheCluster, "true")),
        ("AFTERWRITE_CDN_QUEUE", when_drained(shape, reference("CdnQueue"))),
    ]
}

/// The projections that a function hosts: with a cache, and without a cache.
pub(super) fn hosted(
    shape: &DeployedShape<'_>,
    function: &str,
    invalidates: bool,
) -> BTreeSet<ProjectionKind> {
    let mut hosted = BTreeSet::new();
    if function == "aggregator" && shape.has_aggregate() {
        hosted.insert(ProjectionKind::Aggregate);
    }
    if function == shape.relaying() {
        hosted.insert(ProjectionKind::Archive);
        if invalidates {
            hosted.insert(ProjectionKind::Invalidate);
        }
        if !shape.model.events.is_empty() {
            hosted.insert(ProjectionKind::Notify);
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
    if with == without { json!(with) } else { either(Condition::Invalidates, with, without) }
}
