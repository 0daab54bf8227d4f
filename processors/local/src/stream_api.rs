//! The API of DynamoDB Streams as AWS shows it: a server in front of the embedded DynamoDB.
//!
//! Functions inside the process read an [`EmbeddedStream`]. A program that reads over HTTP gets the same
//! ARN, the same records and the same identity of time to live through this server:
//!
//! | operation | correction |
//! |---|---|
//! | all | the stream's ARN and label have AWS's form |
//! | `Query`, `DescribeTable` | keys of indexes may have several attributes (`index_keys`) |
//! | `UpdateTable` | a stream that is enabled cannot be enabled again |
//! | `DescribeStream` | an open shard has no ending sequence number; a stream that has ended is `DISABLED`, and its shard is closed |
//! | `GetShardIterator` | the iterator names its stream, as AWS's do; it can begin at a time |
//! | `GetRecords` | only records of that stream; `userIdentity` has the members `Type` and `PrincipalId`; a write that changed nothing is left out |

use std::convert::Infallible;
use std::sync::Arc;

use afterwrite_mapping::http::HttpServer;
use afterwrite_model::Result;
use afterwrite_model::clock::{Clock as _, SystemClock};
use afterwrite_model::record::Timestamp;
use dynoxide::Database;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, StatusCode};
use serde_json::{Value, json};

use crate::dynamodb::{
    EmbeddedDynamoDb, EmbeddedStream, IndexKeys, StreamHistory, aws_arn, public_number, stored_number,
};
use crate::proxy::{
    ProxyResponse, ReceivedRequest, UpstreamProxy, failure, json_response, replace_body, unavailable,
};
use crate::sdk::{REGION, sdk_config};
use crate::signature::SignatureCheck;

/// Between the stream's ARN and the database's iterator, in an iterator.
const ITERATOR_SEPARATOR: &str = "|1|";

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
    history: StreamHistory,
    index_keys: IndexKeys,
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
            history: dynamodb.history(),
            index_keys: dynamodb.index_keys(),
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
        let Some(request) = ReceivedRequest::receive(request).await else { return unavailable() };
        if let Some(refusal) = request.refusal(&self.signatures) {
            return refusal;
        }
        let operation = request.operation().to_owned();
        let responded = match operation.as_str() {
            "CreateTable" | "DeleteTable" | "DescribeTable" | "ListStreams" => {
                Ok(self.forward(request, |response| self.correct_table(response)).await)
            }
            "Query" => Ok(self.query(request).await),
            "UpdateTable" => self.update_table(request).await,
            "DescribeStream" => self.describe_stream(request).await,
            "GetShardIterator" => self.shard_iterator(&request.body).await,
            "GetRecords" => self.records(request).await,
            _ => Ok(self.proxy.forward(request).await),
        };
        responded.unwrap_or_else(|_| unavailable())
    }

    /// The database's response; it is corrected unless it is an error.
    async fn forward(&self, request: ReceivedRequest, correct: impl FnOnce(&mut Value)) -> ProxyResponse {
        let response = self.proxy.forward(request).await;
        if response.status().is_success() { replace_body(response, correct).await } else { response }
    }

    fn correct_table(&self, response: &mut Value) {
        correct_arns(response);
        self.index_keys.correct_description(response);
    }

    /// A query of an index whose keys the database knows in part is corrected; others are passed on as they are.
    async fn query(&self, mut request: ReceivedRequest) -> ProxyResponse {
        if self.index_keys.is_empty() {
            return self.proxy.forward(request).await;
        }
        let mut body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        if let Err(problem) = self.index_keys.correct_query(&mut body) {
            return invalid(&problem);
        }
        request.body = Bytes::from(body.to_string());
        self.proxy.forward(request).await
    }

    /// Refuses to enable a stream that is enabled, as DynamoDB does: the database would begin another stream.
    async fn update_table(&self, request: ReceivedRequest) -> Result<ProxyResponse> {
        let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let table = member(&body, "TableName");
        let enables = body.pointer("/StreamSpecification/StreamEnabled") == Some(&Value::Bool(true));
        if enables && self.history.current(&self.database, table).await?.is_some() {
            return Ok(invalid(&format!("Table already has an enabled stream: TableName: {table}")));
        }
        let response = self.forward(request, |response| self.correct_table(response)).await;
        // The new stream is known before anyone can write to it.
        self.history.current(&self.database, table).await?;
        Ok(response)
    }

    async fn stream(&self, arn: &str) -> Result<Option<EmbeddedStream>> {
        EmbeddedStream::of_arn(&self.database, &self.history, arn).await
    }

    async fn describe_stream(&self, mut request: ReceivedRequest) -> Result<ProxyResponse> {
        let mut body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let arn = member(&body, "StreamArn").to_owned();
        let Some(stream) = self.stream(&arn).await? else { return Ok(no_stream(&arn)) };
        if stream.is_ended().await? {
            return Ok(json_response(StatusCode::OK, &ended_stream(&stream, &arn, &body)));
        }
        if let Some(written) = body.get_mut("StreamArn") {
            *written = Value::from(stream.embedded_arn());
        }
        request.body = Bytes::from(body.to_string());
        let first = public_number(stream.window().first);
        Ok(self.forward(request, |response| correct_description(response, &first)).await)
    }

    async fn shard_iterator(&self, body: &[u8]) -> Result<ProxyResponse> {
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let arn = member(&body, "StreamArn");
        let Some(stream) = self.stream(arn).await? else { return Ok(no_stream(arn)) };
        let number = stored_number(member(&body, "SequenceNumber"));
        let time = body.get("Timestamp").and_then(Value::as_f64).map(timestamp);
        if time.is_some_and(|time| time > SystemClock.now()) {
            return Ok(invalid("The timestamp lies in the future"));
        }
        let after = match (member(&body, "ShardIteratorType"), number, time) {
            ("TRIM_HORIZON", None, None) => stream.window().first - 1,
            ("LATEST", None, None) => stream.newest().await?,
            ("AT_SEQUENCE_NUMBER", Some(number), None) => number - 1,
            ("AFTER_SEQUENCE_NUMBER", Some(number), None) => number,
            ("AT_TIMESTAMP", None, Some(time)) => stream.before_time(time).await?,
            (kind, ..) => {
                let message = format!("Invalid ShardIteratorType, SequenceNumber or Timestamp: {kind}");
                return Ok(invalid(&message));
            }
        };
        if member(&body, "ShardId") != stream.shard() {
            return Ok(no_stream(arn));
        }
        let iterator = format!("{arn}{ITERATOR_SEPARATOR}{}", stream.iterator_after(after));
        Ok(json_response(StatusCode::OK, &json!({ "ShardIterator": iterator })))
    }

    async fn records(&self, mut request: ReceivedRequest) -> Result<ProxyResponse> {
        let mut body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let iterator = member(&body, "ShardIterator").to_owned();
        let Some((arn, embedded)) = iterator.split_once(ITERATOR_SEPARATOR) else {
            return Ok(invalid("Invalid ShardIterator"));
        };
        let Some(stream) = self.stream(arn).await? else { return Ok(no_stream(arn)) };
        if let Some(written) = body.get_mut("ShardIterator") {
            *written = Value::from(embedded);
        }
        request.body = Bytes::from(body.to_string());
        let mut response = self.proxy.forward(request.clone()).await;
        // Asked after the read, so that a record of the table's next stream is known as such.
        let is_ended = stream.is_ended().await?;
        if is_ended {
            // A record may have been written between the read and the end.
            response = self.proxy.forward(request).await;
        }
        if !response.status().is_success() {
            return Ok(response);
        }
        let window = stream.window();
        let correct = |page: &mut Value| {
            let is_own = |number: &str| window.has(number);
            let is_read = keep_own_records(page, is_own) && is_ended;
            correct_records(page);
            let next = page.as_object_mut().and_then(|page| page.remove("NextShardIterator"));
            if let (Some(Value::String(next)), false) = (next, is_read)
                && let Some(page) = page.as_object_mut()
            {
                let next = format!("{arn}{ITERATOR_SEPARATOR}{next}");
                page.insert("NextShardIterator".to_owned(), Value::from(next));
            }
        };
        Ok(replace_body(response, correct).await)
    }
}

/// A text of a request; empty if it is absent.
fn member<'b>(body: &'b Value, name: &str) -> &'b str {
    body.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// The time of a request, which has epoch seconds.
#[expect(clippy::cast_possible_truncation, reason = "epoch milliseconds are far below 2^53")]
fn timestamp(seconds: f64) -> Timestamp {
    Timestamp::from_epoch_ms((seconds * 1000.0) as i64)
}

fn invalid(message: &str) -> ProxyResponse {
    failure(StatusCode::BAD_REQUEST, "ValidationException", message)
}

fn no_stream(arn: &str) -> ProxyResponse {
    let message = format!("Requested resource not found: Stream: {arn} not found");
    failure(StatusCode::BAD_REQUEST, "ResourceNotFoundException", &message)
}

/// The description of a stream that has ended. Its only shard is closed.
fn ended_stream(stream: &EmbeddedStream, arn: &str, request: &Value) -> Value {
    let window = stream.window();
    let shard = json!({
        "ShardId": stream.shard(),
        "SequenceNumberRange": {
            "StartingSequenceNumber": public_number(window.first),
            "EndingSequenceNumber": public_number(window.end.map_or(i64::MAX, |end| end - 1)),
        },
    });
    let is_behind = request.get("ExclusiveStartShardId").is_some_and(Value::is_string);
    json!({ "StreamDescription": {
        "StreamArn": arn,
        "StreamLabel": arn.rsplit_once('/').map(|(_, label)| label),
        "StreamStatus": "DISABLED",
        "StreamViewType": "NEW_AND_OLD_IMAGES",
        "TableName": stream.table(),
        "Shards": if is_behind { Vec::new() } else { vec![shard] },
    } })
}

/// Leaves the records of other streams out. Returns whether the page has no record of this stream, or a record of a later stream.
fn keep_own_records(page: &mut Value, is_own: impl Fn(&str) -> bool) -> bool {
    let Some(records) = page.get_mut("Records").and_then(Value::as_array_mut) else { return true };
    let found = records.len();
    records.retain(|record| {
        let number = record.pointer("/dynamodb/SequenceNumber").and_then(Value::as_str);
        number.is_none_or(&is_own)
    });
    records.is_empty() || records.len() < found
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

/// The shard begins with the stream: the database has records of the table's earlier streams, too.
fn correct_description(response: &mut Value, first: &str) {
    correct_arns(response);
    let shards = response.pointer_mut("/StreamDescription/Shards").and_then(Value::as_array_mut);
    for shard in shards.into_iter().flatten() {
        let range = shard.get_mut("SequenceNumberRange").and_then(Value::as_object_mut);
        let Some(range) = range else { continue };
        range.remove("EndingSequenceNumber");
        if range.get("StartingSequenceNumber").and_then(Value::as_str).is_none_or(|number| number < first) {
            range.insert("StartingSequenceNumber".to_owned(), Value::from(first));
        }
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
        correct_description(&mut response, "2");
        assert_eq!(response, described(shard(json!({ "StartingSequenceNumber": "2" })), AWS));
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
