//! The API of DynamoDB Streams as AWS shows it: a server in front of the embedded DynamoDB.
//!
//! Functions inside the process read an [`EmbeddedStream`](crate::dynamodb::EmbeddedStream). A program that reads over HTTP gets the same
//! ARN, the same records and the same identity of time to live through this server:
//!
//! | response | correction |
//! |---|---|
//! | all | the stream's ARN and label have AWS's form |
//! | `DescribeStream` | an open shard has no ending sequence number |
//! | `GetRecords` | `userIdentity` has the members `Type` and `PrincipalId`; a write that changed nothing is left out |

use std::convert::Infallible;
use std::sync::Arc;

use afterwrite::Result;
use afterwrite_mapping::http::HttpServer;
use dynoxide::Database;
use dynoxide::actions::describe_table::DescribeTableRequest;
use hyper::Request;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use serde_json::{Value, json};

use crate::dynamodb::{EmbeddedDynamoDb, aws_arn, call};
use crate::proxy::{ProxyResponse, ReceivedRequest, UpstreamProxy, replace_body, unavailable};
use crate::sdk::{REGION, sdk_config};
use crate::signature::SignatureCheck;

/// A running server.
#[derive(Debug)]
pub struct StreamServer {
    server: HttpServer,
    signatures: SignatureCheck,
}

struct StreamFront {
    proxy: UpstreamProxy,
    database: Database,
    signatures: SignatureCheck,
}

impl StreamServer {
    /// Starts a server on a port of 127.0.0.1 (0 is any free one), in front of a DynamoDB.
    ///
    /// # Errors
    /// `Configuration` if the port is in use.
    pub async fn start(dynamodb: &EmbeddedDynamoDb, port: u16) -> Result<Self> {
        let signatures = SignatureCheck::default();
        let front = Arc::new(StreamFront {
            signatures: signatures.clone(),
            proxy: UpstreamProxy::new(&dynamodb.endpoint()),
            database: dynamodb.database(),
        });
        let service = service_fn(move |request| {
            let front = Arc::clone(&front);
            async move { Ok::<_, Infallible>(front.respond(request).await) }
        });
        Ok(Self { server: HttpServer::start_at("embedded DynamoDB", port, service).await?, signatures })
    }

    /// From now on, requests must be signed with the credentials of the embedded services.
    pub fn require_signatures(&self) {
        self.signatures.require();
    }

    /// The server's URL: `http://127.0.0.1:<port>`.
    #[must_use]
    pub fn endpoint(&self) -> String {
        self.server.endpoint()
    }

    /// A client of this server.
    #[must_use]
    pub fn client(&self) -> aws_sdk_dynamodb::Client {
        aws_sdk_dynamodb::Client::new(&sdk_config(self.endpoint()))
    }
}

impl StreamFront {
    async fn respond(&self, request: Request<Incoming>) -> ProxyResponse {
        let Some(mut request) = ReceivedRequest::receive(request).await else { return unavailable() };
        if let Some(refusal) = request.refusal(&self.signatures) {
            return refusal;
        }
        let Some(correct) = correction(request.operation()) else { return self.proxy.forward(request).await };
        if let Some(body) = self.embedded_request(&request.body).await {
            request.body = body;
        }
        let response = self.proxy.forward(request).await;
        if response.status().is_success() { replace_body(response, correct).await } else { response }
    }

    /// The request with the ARN that the database knows; `None` if it names no stream of a table.
    async fn embedded_request(&self, body: &[u8]) -> Option<Bytes> {
        let mut request: Value = serde_json::from_slice(body).ok()?;
        let arn = request.get_mut("StreamArn")?;
        let embedded = self.embedded_arn(arn.as_str()?).await?;
        *arn = Value::from(embedded);
        Some(Bytes::from(request.to_string()))
    }

    /// The ARN that the database has for a stream.
    async fn embedded_arn(&self, arn: &str) -> Option<String> {
        let (table, _) = arn.split_once(":table/")?.1.split_once("/stream/")?;
        let request = DescribeTableRequest { table_name: table.to_owned() };
        let described = call(&self.database, |database| database.describe_table(request)).await.ok()?;
        described.table.latest_stream_arn.filter(|embedded| aws_arn(embedded) == arn)
    }
}

/// The correction of an operation's response; `None` if the response has nothing of a stream.
fn correction(operation: &str) -> Option<fn(&mut Value)> {
    match operation {
        "CreateTable" | "DeleteTable" | "DescribeTable" | "UpdateTable" | "ListStreams"
        | "GetShardIterator" => Some(correct_arns),
        "DescribeStream" => Some(correct_description),
        "GetRecords" => Some(correct_records),
        _ => None,
    }
}

/// Gives every ARN and label of a stream AWS's form.
fn correct_arns(value: &mut Value) {
    match value {
        Value::Object(members) => {
            for name in ["StreamArn", "LatestStreamArn"] {
                let Some(arn) = members.get(name).and_then(Value::as_str).map(aws_arn) else { continue };
                let label = arn.rsplit_once('/').map(|(_, label)| Value::from(label));
                members.insert(name.to_owned(), Value::from(arn));
                let labels = ["StreamLabel", "LatestStreamLabel"];
                for (label, member) in label.iter().flat_map(|label| labels.map(|name| (label, name))) {
                    if let Some(written) = members.get_mut(member) {
                        written.clone_from(label);
                    }
                }
            }
            members.values_mut().for_each(correct_arns);
        }
        Value::Array(elements) => elements.iter_mut().for_each(correct_arns),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn correct_description(response: &mut Value) {
    correct_arns(response);
    let shards = response.pointer_mut("/StreamDescription/Shards").and_then(Value::as_array_mut);
    for shard in shards.into_iter().flatten() {
        let range = shard.get_mut("SequenceNumberRange").and_then(Value::as_object_mut);
        range.and_then(|range| range.remove("EndingSequenceNumber"));
    }
}

fn correct_records(response: &mut Value) {
    let Some(records) = response.get_mut("Records").and_then(Value::as_array_mut) else { return };
    records.retain(changes_something);
    for record in records.iter_mut().filter_map(Value::as_object_mut) {
        record.insert("awsRegion".to_owned(), Value::from(REGION));
        if let Some(identity) = record.get_mut("userIdentity") {
            *identity = json!({ "Type": identity.get("type"), "PrincipalId": identity.get("principalId") });
        }
    }
}

/// Whether AWS would emit the record at all.
fn changes_something(record: &Value) -> bool {
    let image = |name: &str| record.get("dynamodb").and_then(|change| change.get(name));
    image("NewImage").is_none() || image("NewImage") != image("OldImage")
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMBEDDED: &str = "arn:aws:dynamodb:dynoxide:000000000000:table/T/stream/1770372000.000123456";
    const AWS: &str = "arn:aws:dynamodb:us-east-1:000000000000:table/T/stream/2026-02-06T10:00:00.000";

    #[test]
    fn arns_and_labels_have_the_form_of_aws_wherever_they_are() {
        let mut table =
            json!({ "Table": { "TableName": "T", "LatestStreamArn": EMBEDDED, "LatestStreamLabel": "x" } });
        correct_arns(&mut table);
        let label = "2026-02-06T10:00:00.000";
        assert_eq!(
            table,
            json!({ "Table": { "TableName": "T", "LatestStreamArn": AWS, "LatestStreamLabel": label } })
        );
        let mut list =
            json!({ "Streams": [{ "StreamArn": EMBEDDED, "StreamLabel": "x", "TableName": "T" }] });
        correct_arns(&mut list);
        assert_eq!(
            list,
            json!({ "Streams": [{ "StreamArn": AWS, "StreamLabel": label, "TableName": "T" }] })
        );
    }

    #[test]
    fn an_open_shard_has_no_ending() {
        let shard = |range: Value| json!({ "ShardId": "s", "SequenceNumberRange": range });
        let described =
            |shard: Value, arn: &str| json!({ "StreamDescription": { "StreamArn": arn, "Shards": [shard] } });
        let ended = json!({ "StartingSequenceNumber": "1", "EndingSequenceNumber": "9" });
        let mut response = described(shard(ended), EMBEDDED);
        correct_description(&mut response);
        assert_eq!(response, described(shard(json!({ "StartingSequenceNumber": "1" })), AWS));
    }

    #[test]
    fn an_expiry_names_dynamodb_in_the_members_of_the_api() {
        let identity = json!({ "type": "Service", "principalId": "dynamodb.amazonaws.com" });
        let image = json!({ "PK": { "S": "a" } });
        let expiry =
            json!({ "awsRegion": "dynoxide", "userIdentity": identity, "dynamodb": { "OldImage": image } });
        let unchanged = json!({ "dynamodb": { "OldImage": image, "NewImage": image } });
        let mut response = json!({ "Records": [expiry, unchanged], "NextShardIterator": "i" });
        correct_records(&mut response);
        let identity = json!({ "Type": "Service", "PrincipalId": "dynamodb.amazonaws.com" });
        let expiry =
            json!({ "awsRegion": REGION, "userIdentity": identity, "dynamodb": { "OldImage": image } });
        assert_eq!(response, json!({ "Records": [expiry], "NextShardIterator": "i" }));
    }
}
