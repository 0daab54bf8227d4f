//! The datasets as tables of Athena, a workgroup, and the model's saved queries. A model with many datasets has their tables and queries in nested
//! stacks.

use afterwrite_datasets::catalogue::{self, BUCKET as PLACEHOLDER, CatalogueStatement};
use afterwrite_model::table::Model;
use serde_json::{Map, Value, json};

use super::DeployedShape;
use super::conditions::Condition;
use super::intrinsics::{either, key_if_given, reference, substituted};
use super::logical_ids::logical;
use super::storage::BUCKET;

/// Bytes that a query may read: 100 GiB.
const SCAN_LIMIT: u64 = 100 << 30;

pub(super) fn resources(shape: &DeployedShape<'_>) -> Map<String, Value> {
    let mut resources = Map::new();
    if !shape.has_datasets() {
        return resources;
    }
    resources.insert(
        "Database".to_owned(),
        json!({
            "Type": "AWS::Glue::Database",
            "Properties": {
                "CatalogId": reference("AWS::AccountId"),
                "DatabaseInput": {
                    "Name": { "Fn::Join": ["_", { "Fn::Split": ["-", reference("Name")] }] },
                    "Description": format!("Datasets of the model {}", shape.model.name),
                },
            },
        }),
    );
    resources.insert("WorkGroup".to_owned(), work_group());
    if shape.nested == 0 {
        resources.extend(tables_and_queries(shape));
    }
    for index in 1..=shape.nested {
        resources.insert(format!("Datasets{index}"), nested_stack(shape, index));
    }
    resources
}

/// The tables of the datasets and the saved queries.
pub(super) fn tables_and_queries(shape: &DeployedShape<'_>) -> Map<String, Value> {
    let mut resources = Map::new();
    for name in table_names(shape.model) {
        resources.insert(format!("Dataset{}", logical(&name)), delta_table(&name));
    }
    for (name, statement) in saved_queries(shape.model) {
        // A dollar sign of the query must not be taken for a parameter.
        let sql = statement.sql.replace(PLACEHOLDER, BUCKET);
        resources.insert(
            format!("Query{}", logical(&name)),
            json!({
                "Type": "AWS::Athena::NamedQuery",
                "Properties": {
                    "Name": name,
                    "Database": reference("Database"),
                    "WorkGroup": reference("WorkGroup"),
                    "QueryString": if sql.contains(BUCKET) { substituted(sql) } else { json!(sql) },
                },
            }),
        );
    }
    resources
}

/// The Delta tables of the datasets.
pub(super) fn table_names(model: &Model) -> Vec<String> {
    let names =
        model.datasets.iter().map(|dataset| [dataset.name.to_string(), format!("{}_log", dataset.name)]);
    names.flatten().collect()
}

/// The statements that are saved, with their names.
pub(super) fn saved_queries(model: &Model) -> impl Iterator<Item = (String, CatalogueStatement)> {
    catalogue::statements(model)
        .into_iter()
        .filter_map(|statement| Some((saved_name(&statement.path)?, statement)))
}

/// The parameters of a nested stack: the tables and queries refer to them.
const REFERENCES: [&str; 4] = ["Name", "ArchiveBucket", "Database", "WorkGroup"];

/// The stack with a part of the tables and queries.
fn nested_stack(shape: &DeployedShape<'_>, index: usize) -> Value {
    let parameters: Map<String, Value> =
        REFERENCES.iter().map(|name| ((*name).to_owned(), reference(name))).collect();
    json!({
        "Type": "AWS::CloudFormation::Stack",
        "Properties": { "TemplateURL": shape.nested_file(index), "Parameters": parameters },
    })
}

/// The template of a nested stack with these resources.
pub(super) fn nested_template(shape: &DeployedShape<'_>, resources: Map<String, Value>) -> Value {
    let parameters: Map<String, Value> =
        REFERENCES.iter().map(|name| ((*name).to_owned(), json!({ "Type": "String" }))).collect();
    json!({
        "AWSTemplateFormatVersion": "2010-09-09",
        "Description": format!("Afterwrite, datasets of the model {}", shape.model.name),
        "Parameters": parameters,
        "Resources": resources,
    })
}

/// The name of a statement that is saved: a query, or a view, which is created by running it once. Tables are resources.
fn saved_name(path: &str) -> Option<String> {
    let (folder, file) = path.split_once('/')?;
    let name = file.strip_suffix(".sql")?;
    match folder {
        "queries" => Some(name.to_owned()),
        "views" => Some(format!("create_view_{name}")),
        _ => None,
    }
}

/// A Delta table has its schema in its own log: engines need the location alone.
fn delta_table(name: &str) -> Value {
    let location = substituted(format!("s3://${{ArchiveBucket}}/datasets/{name}/"));
    json!({
        "Type": "AWS::Glue::Table",
        "Properties": {
            "CatalogId": reference("AWS::AccountId"),
            "DatabaseName": reference("Database"),
            "TableInput": {
                "Name": name,
                "TableType": "EXTERNAL_TABLE",
                "Parameters": {
                    "EXTERNAL": "TRUE", "classification": "delta", "table_type": "DELTA",
                    "spark.sql.sources.provider": "delta",
                },
                "StorageDescriptor": {
                    "Location": location.clone(),
                    "InputFormat": "org.apache.hadoop.mapred.SequenceFileInputFormat",
                    "OutputFormat": "org.apache.hadoop.hive.ql.io.HiveSequenceFileOutputFormat",
                    "SerdeInfo": {
                        "SerializationLibrary": "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe",
                        "Parameters": { "path": location },
                    },
                },
            },
        },
    })
}

fn work_group() -> Value {
    json!({
        "Type": "AWS::Athena::WorkGroup",
        "Properties": {
            "Name": reference("Name"),
            "WorkGroupConfiguration": {
                "EnforceWorkGroupConfiguration": true,
                "PublishCloudWatchMetricsEnabled": true,
                "BytesScannedCutoffPerQuery": SCAN_LIMIT,
                "EngineVersion": { "SelectedEngineVersion": "Athena engine version 3" },
                "ResultConfiguration": {
                    "OutputLocation": substituted("s3://${ArchiveBucket}/athena-results/"),
                    "ExpectedBucketOwner": reference("AWS::AccountId"),
                    "EncryptionConfiguration": {
                        "EncryptionOption": either(Condition::HasKey, "SSE_KMS", "SSE_S3"), "KmsKey": key_if_given(),
                    },
                },
            },
        },
    })
}
