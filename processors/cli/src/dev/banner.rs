//! The endpoints of `afterwrite dev`, for people and for programs.

use afterwrite::config::FunctionConfig;
use afterwrite::table::Table;
use afterwrite::{Error, ErrorKind, Result};
use afterwrite_local::sdk::{CREDENTIAL, REGION};
use serde_json::{Map, Value, json};

use super::servers::{BUCKET, DevServers, STATE_TABLE};
use crate::print::new_table;

/// The endpoints as a table, and a line for the AWS CLI.
pub(super) fn text(servers: &DevServers, config: &FunctionConfig) -> String {
    let endpoints = servers.endpoints();
    let tables: Vec<&str> = config.table_names.iter().map(|name| &**name).collect();
    let mut table = new_table(&[]);
    for (service, endpoint, contents) in [
        ("DynamoDB", servers.streams.endpoint(), format!("{}; rollups: {STATE_TABLE}", tables.join(", "))),
        ("S3", endpoints.s3, format!("bucket {BUCKET}: archive/, datasets/")),
        ("Firehose", endpoints.firehose, "the archive's delivery stream".to_owned()),
        ("SQS", endpoints.sqs, "archive objects, stale paths".to_owned()),
        ("CloudFront", endpoints.cloudfront, "takes invalidations".to_owned()),
    ] {
        table.add_row([service.to_owned(), endpoint, contents]);
    }
    let model = &config.model.name;
    format!(
        "Model {model} runs on this machine; Ctrl-C stops it.\n\n{table}\n\nWrite an item, and see what follows:\n  {}\n  {}\n\n",
        aws_line(servers, &put_item(config)),
        aws_line(servers, &format!("scan --table-name {STATE_TABLE}"))
    )
}

/// The endpoints as one line of JSON.
pub(super) fn json_line(servers: &DevServers, config: &FunctionConfig) -> Result<String> {
    let endpoints = servers.endpoints();
    let line = json!({
        "model": &*config.model.name,
        "tables": config.table_names.iter().map(|name| &**name).collect::<Vec<_>>(),
        "state_table": STATE_TABLE,
        "bucket": BUCKET,
        "region": REGION,
        "access_key_id": CREDENTIAL,
        "secret_access_key": CREDENTIAL,
        "endpoints": {
            "dynamodb": servers.streams.endpoint(),
            "s3": endpoints.s3,
            "firehose": endpoints.firehose,
            "sqs": endpoints.sqs,
            "cloudfront": endpoints.cloudfront,
        },
    });
    let line = serde_json::to_string(&line).map_err(|error| {
        Error::new(ErrorKind::State, "the endpoints cannot be written as JSON").caused_by(error)
    })?;
    Ok(format!("{line}\n"))
}

fn aws_line(servers: &DevServers, command: &str) -> String {
    format!(
        "AWS_ACCESS_KEY_ID={CREDENTIAL} AWS_SECRET_ACCESS_KEY={CREDENTIAL} AWS_REGION={REGION} \
         aws dynamodb {command} --endpoint-url {}",
        servers.streams.endpoint()
    )
}

/// Puts an item with nothing but a key into the first table.
fn put_item(config: &FunctionConfig) -> String {
    let name = config.table_names.first().map_or("", |name| name);
    let item: Map<String, Value> = config.model.tables.first().map(example_key).unwrap_or_default();
    format!("put-item --table-name {name} --item '{}'", Value::Object(item))
}

fn example_key(table: &Table) -> Map<String, Value> {
    table.key().map(|key| (key.name.to_string(), json!({ key.key_type.name(): "1" }))).collect()
}
