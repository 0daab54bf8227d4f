//! The outputs of a template: the outputs of the Terraform module, with names in capital letters. A map is JSON.

use serde_json::{Map, Value, json};

use super::conditions::Condition;
use super::events::{self, drain_condition};
use super::functions::deployed_names;
use super::intrinsics::{attribute, either, reference, substituted};
use super::{DeployedShape, alias, queues, role_id, stream_parameter, table_arn, table_name};

pub(super) fn outputs(shape: &DeployedShape<'_>) -> Map<String, Value> {
    let mut outputs = Map::new();
    let mut add = |name: &str, value: Value| {
        outputs.insert(name.to_owned(), json!({ "Value": value }));
    };
    let deployed = shape.deployed();
    let of_functions = |value: fn(&str) -> Value| {
        let functions = deployed.iter();
        map(functions.map(|function| (function.name.to_owned(), value(function.name), function.condition)))
    };
    add("FunctionNames", of_functions(|function| substituted(format!("${{Name}}-{function}"))));
    add("FunctionArns", of_functions(alias));
    add("RoleArns", of_functions(|function| attribute(&role_id(function), "Arn")));
    add("StateTableName", reference("StateTable"));
    add("StateTableArn", attribute("StateTable", "Arn"));
    if shape.has_levels() {
        add("StateStreamArn", attribute("StateTable", "StreamArn"));
    }
    add("TableNames", of_tables(shape, table_name));
    add("TableArns", of_tables(shape, table_arn));
    add("StreamArns", of_tables(shape, |table| reference(&stream_parameter(table))));
    add("BucketName", reference("ArchiveBucket"));
    add("FailuresBucketName", reference("FailuresBucket"));
    add("FirehoseStreamName", reference("DeliveryStream"));
    add("QueueUrls", map(queues::urls(shape).into_iter()));
    add("DeadLetterQueueUrls", map(queues::dead_letter_urls(shape).into_iter()));
    add("RedrivePolicyArn", reference("RedrivePolicy"));
    if shape.has_datasets() {
        add("AthenaWorkgroup", reference("WorkGroup"));
        add("AthenaDatabase", reference("Database"));
    }
    if !shape.is_minimal() {
        add("DashboardName", reference("Dashboard"));
    }
    add("CliEnvironment", map(environment(shape).into_iter()));
    add("CliExports", exports(shape));
    outputs
}

/// A value of each table of the application.
fn of_tables(shape: &DeployedShape<'_>, value: fn(&str) -> Value) -> Value {
    let tables = shape.model.application_tables();
    map(tables.map(|(_, table)| (table.name.to_string(), value(&table.name), None)))
}

/// A name, its value, and the condition under which it exists.
type Entry = (String, Value, Option<Condition>);

/// A JSON object of texts. Entries without a condition come first, so that the commas are right.
fn map(entries: impl Iterator<Item = Entry>) -> Value {
    let (fixed, conditional): (Vec<Entry>, Vec<Entry>) =
        entries.partition(|(_, _, condition)| condition.is_none());
    let has_fixed = !fixed.is_empty();
    let mut parts = vec![json!("{")];
    for (index, (name, value, condition)) in fixed.into_iter().chain(conditional).enumerate() {
        // Of several conditional entries, only those after an entry that always exists can be separated.
        let comma = if index > 0 && has_fixed { "," } else { "" };
        let entry = json!({ "Fn::Join": ["", [format!("{comma}{}:\"", json!(name)), value, "\""]] });
        parts.push(match condition {
            Some(condition) => either(condition, entry, ""),
            None => entry,
        });
    }
    parts.push(json!("}"));
    json!({ "Fn::Join": ["", parts] })
}

/// The settings of the command line for the deployment.
fn environment(shape: &DeployedShape<'_>) -> Vec<Entry> {
    [
        ("AFTERWRITE_STATE_TABLE", reference("StateTable"), None),
        ("AFTERWRITE_TABLES", deployed_names(shape), None),
        ("AFTERWRITE_BUCKET", reference("ArchiveBucket"), None),
        ("AFTERWRITE_FIREHOSE_STREAM", reference("DeliveryStream"), None),
        ("AFTERWRITE_CACHE_SECRET", reference("CacheSecretArn"), Some(Condition::HasCacheSecret)),
        ("AFTERWRITE_CACHE_CLUSTER", json!("true"), Some(Condition::HasCacheCluster)),
        ("AFTERWRITE_CDN_QUEUE", reference("CdnQueue"), drain_condition(shape)),
    ]
    .map(|(name, value, condition)| (name.to_owned(), value, condition))
    .into_iter()
    .chain(
        events::targets(shape).into_iter().map(|target| (target.setting, reference(&target.parameter), None)),
    )
    .collect()
}

/// The settings as lines of a shell. None of the values can have a quotation mark.
fn exports(shape: &DeployedShape<'_>) -> Value {
    let region =
        ["AWS_REGION", "AWS_DEFAULT_REGION"].map(|name| (name.to_owned(), reference("AWS::Region"), None));
    let lines = region.into_iter().chain(environment(shape)).map(|(name, value, condition)| {
        let line = json!({ "Fn::Join": ["", [format!("export {name}='"), value, "'\n"]] });
        match condition {
            Some(condition) => either(condition, line, ""),
            None => line,
        }
    });
    json!({ "Fn::Join": ["", lines.collect::<Vec<_>>()] })
}
