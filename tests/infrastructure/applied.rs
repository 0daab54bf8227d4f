//! The applied state of an example: `terraform show -json`, as moto holds it.

use std::collections::BTreeMap;

use afterwrite_local::dynamodb::{KeyDefinition, PARKED_INDEX, TableDefinition};
use afterwrite_mapping::MappingSettings;
use afterwrite_tests::aws_call::AccountScope;
use serde_json::{Value, json};

/// The name of the bucket of failed records at the stand-in for S3, whose files have the name of bucket and key: Lambda's keys are long.
pub(crate) const FAILURES: &str = "failures";

/// The resources of a state.
pub(crate) struct AppliedState {
    resources: Vec<AppliedResource>,
}

/// A resource, or data that was read.
pub(crate) struct AppliedResource {
    kind: String,
    name: String,
    /// The key of an instance of `for_each`; empty if the resource has one instance.
    pub(crate) key: String,
    pub(crate) values: Value,
}

/// A queue with the function that reads it.
pub(crate) struct AppliedQueue {
    pub(crate) name: String,
    pub(crate) batch_size: usize,
    pub(crate) max_receives: u32,
    pub(crate) dead_letters: String,
}

impl AppliedState {
    pub(crate) fn parse(json: &str) -> Self {
        let state: Value = serde_json::from_str(json).expect("the output of terraform show -json");
        let mut resources = Vec::new();
        collect(&state["values"]["root_module"], &mut resources);
        assert!(resources.len() > 80, "{} resources are applied", resources.len());
        Self { resources }
    }

    /// All instances of a kind of resource.
    pub(crate) fn all(&self, kind: &str) -> impl Iterator<Item = &AppliedResource> {
        self.resources.iter().filter(move |resource| resource.kind == kind)
    }

    /// The instances of a resource by their keys.
    pub(crate) fn by_key(&self, kind: &str, name: &str) -> BTreeMap<&str, &Value> {
        let found = self.all(kind).filter(|resource| resource.name == name);
        found.map(|resource| (resource.key.as_str(), &resource.values)).collect()
    }

    /// The only instance of a resource.
    pub(crate) fn one(&self, kind: &str, name: &str) -> Option<&Value> {
        self.all(kind).find(|resource| resource.name == name).map(|resource| &resource.values)
    }

    /// The deployed name of a bucket.
    pub(crate) fn bucket(&self, name: &str) -> String {
        text(&self.one("aws_s3_bucket", name).expect("a bucket")["bucket"]).to_owned()
    }

    /// The functions by their names in the module.
    pub(crate) fn functions(&self) -> BTreeMap<&str, &Value> {
        self.by_key("aws_lambda_function", "function")
    }

    /// Account and region, and the partition keys of the tables.
    pub(crate) fn scope(&self) -> AccountScope {
        let function = self.functions().into_values().next().expect("a function");
        let arn: Vec<&str> = text(&function["arn"]).split(':').collect();
        let tables = self.tables().into_iter();
        AccountScope {
            account: arn[4].to_owned(),
            region: arn[3].to_owned(),
            partition_keys: tables.map(|table| (table.name, table.key.partition)).collect(),
            bucket_names: BTreeMap::from([(FAILURES.to_owned(), self.bucket("failures"))]),
        }
    }

    /// The tables: those that were created, and those that existed before.
    pub(crate) fn tables(&self) -> Vec<TableDefinition> {
        let tables = self.all("aws_dynamodb_table");
        let mut definitions: Vec<TableDefinition> =
            tables.map(|table| table_definition(&table.values)).collect();
        definitions.sort_by(|one, other| one.name.cmp(&other.name));
        definitions.dedup_by(|one, other| one.name == other.name);
        definitions
    }

    /// The readers of the source table's stream, with the settings of their mappings.
    pub(crate) fn stream_mappings(&self) -> BTreeMap<&str, MappingSettings> {
        let mappings = self.by_key("aws_lambda_event_source_mapping", "stream").into_iter();
        let of_reader = mappings.map(|(key, values)| {
            let (reader, _table) = key.split_once('/').expect("a function and a table");
            (reader, mapping_settings(values))
        });
        of_reader.collect()
    }

    /// The deployed name of the source table whose stream a mapping reads.
    pub(crate) fn source_table(&self) -> String {
        let mappings = self.by_key("aws_lambda_event_source_mapping", "stream");
        let arn = text(&mappings.into_values().next().expect("a mapping")["event_source_arn"]);
        arn.split('/').nth(1).expect("the ARN of a stream").to_owned()
    }

    /// The queue that a function reads; `None` if the function is not deployed.
    pub(crate) fn queue_of(&self, function: &str) -> Option<AppliedQueue> {
        let mapping = self.one("aws_lambda_event_source_mapping", function)?;
        let arn = text(&mapping["event_source_arn"]);
        let mut queues = self.all("aws_sqs_queue");
        let queue =
            &queues.find(|queue| text(&queue.values["arn"]) == arn).expect("the mapping's queue").values;
        let redrive: Value = serde_json::from_str(text(&queue["redrive_policy"])).expect("a redrive policy");
        assert_eq!(mapping["function_response_types"], json!(["ReportBatchItemFailures"]));
        let max_receives = redrive["maxReceiveCount"].as_u64().expect("a number");
        Some(AppliedQueue {
            name: text(&queue["name"]).to_owned(),
            batch_size: usize::try_from(mapping["batch_size"].as_u64().expect("a number")).expect("a size"),
            max_receives: u32::try_from(max_receives).expect("a small number"),
            dead_letters: resource_name(text(&redrive["deadLetterTargetArn"])),
        })
    }

    /// The names of all queues.
    pub(crate) fn queues(&self) -> Vec<&str> {
        self.all("aws_sqs_queue").map(|queue| text(&queue.values["name"])).collect()
    }

    /// The names of the queues that take the model's events. Consumers own them.
    pub(crate) fn event_queues(&self) -> Vec<String> {
        let target = self.variable("relay", "AFTERWRITE_EVENTS");
        target.iter().filter(|arn| arn.contains(":sqs:")).map(|arn| resource_name(arn)).collect()
    }

    /// Whether the bucket of failed records names someone who may read them.
    pub(crate) fn allows_redrive(&self) -> bool {
        let policy = self.one("aws_s3_bucket_policy", "failures").expect("the bucket's policy");
        text(&policy["policy"]).contains(":role/redrive")
    }

    /// The environment of one of the functions.
    pub(crate) fn variables(&self, function: &str) -> BTreeMap<String, String> {
        let functions = self.functions();
        let variables = functions[function]["environment"][0]["variables"].as_object().expect("variables");
        variables.iter().map(|(name, value)| (name.clone(), text(value).to_owned())).collect()
    }

    /// A setting in the environment of one of the functions.
    pub(crate) fn variable(&self, function: &str, name: &str) -> Option<String> {
        let functions = self.functions();
        let value = functions.get(function)?["environment"][0]["variables"].get(name)?;
        Some(text(value).to_owned())
    }
}

/// A text of the state; empty if it is null.
pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The last part of an ARN.
pub(crate) fn resource_name(arn: &str) -> String {
    arn.rsplit(':').next().unwrap_or_default().to_owned()
}

fn collect(module: &Value, resources: &mut Vec<AppliedResource>) {
    for resource in module["resources"].as_array().into_iter().flatten() {
        resources.push(AppliedResource {
            kind: text(&resource["type"]).to_owned(),
            name: text(&resource["name"]).to_owned(),
            key: text(&resource["index"]).to_owned(),
            values: resource["values"].clone(),
        });
    }
    for child in module["child_modules"].as_array().into_iter().flatten() {
        collect(child, resources);
    }
}

/// A table with its keys, its indexes and its stream.
fn table_definition(table: &Value) -> TableDefinition {
    let attributes = table["attribute"].as_array().expect("attributes").iter();
    let types: BTreeMap<String, String> = attributes
        .map(|attribute| (text(&attribute["name"]).to_owned(), text(&attribute["type"]).to_owned()))
        .collect();
    let key = |partition: &Value, sort: &Value| {
        let sort = Some(text(sort)).filter(|sort| !sort.is_empty());
        let is_of_key = |name: &String| *name == text(partition) || sort == Some(name.as_str());
        KeyDefinition {
            partition: text(partition).to_owned(),
            sort: sort.map(str::to_owned),
            types: types.clone().into_iter().filter(|(name, kind)| kind != "S" && is_of_key(name)).collect(),
            ..KeyDefinition::default()
        }
    };
    let indexes = table["global_secondary_index"].as_array().into_iter().flatten();
    let ttl = text(&table["ttl"][0]["attribute_name"]);
    let is_state = table["global_secondary_index"]
        .as_array()
        .is_some_and(|indexes| indexes.iter().any(|index| text(&index["name"]) == PARKED_INDEX));
    TableDefinition {
        name: text(&table["name"]).to_owned(),
        key: key(&table["hash_key"], &table["range_key"]),
        indexes: indexes
            .map(|index| (text(&index["name"]).to_owned(), key(&index["hash_key"], &index["range_key"])))
            .collect(),
        stream: table["stream_enabled"] == true,
        // A table that existed before has its own setting, which the state does not have.
        ttl_attribute: Some(if ttl.is_empty() && !is_state { "expires_at" } else { ttl }.to_owned()),
    }
}

/// The settings of a mapping, as the request that creates it has them.
fn mapping_settings(values: &Value) -> MappingSettings {
    let filters = values["filter_criteria"][0]["filter"].as_array().into_iter().flatten();
    let filters: Vec<Value> = filters.map(|filter| json!({ "Pattern": filter["pattern"] })).collect();
    let destination = &values["destination_config"][0]["on_failure"][0]["destination_arn"];
    let request = json!({
        "FunctionName": values["function_name"],
        "EventSourceArn": values["event_source_arn"],
        "Enabled": values["enabled"],
        "StartingPosition": values["starting_position"],
        "BatchSize": values["batch_size"],
        "MaximumBatchingWindowInSeconds": values["maximum_batching_window_in_seconds"],
        "ParallelizationFactor": values["parallelization_factor"],
        "MaximumRetryAttempts": values["maximum_retry_attempts"],
        "MaximumRecordAgeInSeconds": values["maximum_record_age_in_seconds"],
        "BisectBatchOnFunctionError": values["bisect_batch_on_function_error"],
        "FunctionResponseTypes": values["function_response_types"],
        "FilterCriteria": (!filters.is_empty()).then(|| json!({ "Filters": filters })),
        "DestinationConfig": { "OnFailure": { "Destination": destination } },
        "KMSKeyArn": Some(text(&values["kms_key_arn"])).filter(|key| !key.is_empty()),
    });
    MappingSettings::from_json(&request.to_string()).expect("settings that are emulated")
}
