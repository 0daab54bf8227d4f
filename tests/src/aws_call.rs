//! Requests to AWS as IAM judges them: an action, a resource, and the leading keys of DynamoDB's items.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use hyper::header::AUTHORIZATION;
use hyper::http::request::Parts;
use hyper::{Method, StatusCode};
use serde_json::Value;

/// One action on one resource that a request needs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AwsCall {
    /// The function or program that sent the request.
    pub principal: String,
    /// The action of IAM, such as `dynamodb:UpdateItem`.
    pub action: String,
    /// The ARN of the resource.
    pub resource: String,
    /// The partition keys of the items, for the condition `dynamodb:LeadingKeys`.
    pub leading_keys: BTreeSet<String>,
}

/// The account whose ARNs requests mean: they contain names.
#[derive(Clone, Debug)]
pub struct AccountScope {
    /// The account's number.
    pub account: String,
    /// The region.
    pub region: String,
    /// The name of the partition key of each table.
    pub partition_keys: BTreeMap<String, String>,
    /// The deployed names of buckets that have another name at the stand-in.
    pub bucket_names: BTreeMap<String, String>,
}

/// A request, before it is forwarded.
pub struct RecordedRequest<'r> {
    /// The function or program that sent it.
    pub principal: &'r str,
    /// Method, path and headers.
    pub head: &'r Parts,
    /// Its body.
    pub body: &'r Bytes,
}

impl RecordedRequest<'_> {
    /// The service of its signature, such as `dynamodb`.
    ///
    /// # Panics
    /// If the request is not signed.
    #[must_use]
    pub fn service(&self) -> &str {
        let signature = self.head.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        // `Credential=<key>/<date>/<region>/<service>/aws4_request`
        let scope = signature.and_then(|signature| signature.split("Credential=").nth(1));
        scope.and_then(|scope| scope.split('/').nth(3)).expect("a signed request")
    }

    /// The operation of a service with a JSON protocol; empty for the others.
    #[must_use]
    pub fn operation(&self) -> &str {
        let target = self.head.headers.get("x-amz-target").and_then(|target| target.to_str().ok());
        target.and_then(|target| target.rsplit_once('.')).map_or("", |(_, operation)| operation)
    }

    /// The calls that the request needs permission for. S3 looks at the permission to list a bucket if an object does not exist.
    ///
    /// # Panics
    /// If the request is of a service that is not known here.
    #[must_use]
    pub fn calls(&self, scope: &AccountScope, status: StatusCode) -> Vec<AwsCall> {
        let body = || serde_json::from_slice::<Value>(self.body).expect("a request in JSON");
        match self.service() {
            "dynamodb" => self.dynamodb(scope, &body()),
            "s3" => self.s3(scope, status),
            "firehose" => {
                let stream =
                    scope.arn("firehose", &format!("deliverystream/{}", text(&body()["DeliveryStreamName"])));
                vec![self.call(format!("firehose:{}", self.operation()), stream)]
            }
            "sqs" => {
                let url = text(&body()["QueueUrl"]);
                let queue = scope.arn("sqs", url.rsplit('/').next().unwrap_or_default());
                let action = self.operation().trim_end_matches("Batch");
                vec![self.call(format!("sqs:{action}"), queue)]
            }
            "secretsmanager" => {
                vec![self.call(format!("secretsmanager:{}", self.operation()), text(&body()["SecretId"]))]
            }
            "cloudfront" => {
                let path = self.head.uri.path();
                let distribution = path.split('/').skip_while(|step| *step != "distribution").nth(1);
                let distribution = distribution.expect("the path of a distribution");
                let arn = format!("arn:aws:cloudfront::{}:distribution/{distribution}", scope.account);
                vec![self.call("cloudfront:CreateInvalidation".to_owned(), arn)]
            }
            other => panic!("a request to {other}, whose actions are not known here"),
        }
    }

    fn call(&self, action: String, resource: String) -> AwsCall {
        AwsCall { principal: self.principal.to_owned(), action, resource, leading_keys: BTreeSet::new() }
    }

    fn dynamodb(&self, scope: &AccountScope, body: &Value) -> Vec<AwsCall> {
        let operation = self.operation();
        let call = |action: &str, table: &str, keys: Vec<&Value>| {
            let mut call = self.call(format!("dynamodb:{action}"), scope.table(table));
            call.leading_keys = keys.into_iter().map(|item| scope.leading_key(table, item)).collect();
            call
        };
        let single = |action: &str, request: &Value| {
            let item = request.get("Item").or_else(|| request.get("Key"));
            call(action, &text(&request["TableName"]), item.into_iter().collect())
        };
        match operation {
            "TransactWriteItems" => {
                let actions = body["TransactItems"].as_array().expect("actions").iter();
                let actions = actions.filter_map(|action| action.as_object()?.iter().next());
                actions.map(|(kind, request)| single(transaction_action(kind), request)).collect()
            }
            "BatchGetItem" | "BatchWriteItem" => {
                let tables = body["RequestItems"].as_object().expect("tables").iter();
                tables.map(|(table, requests)| call(operation, table, batch_keys(requests))).collect()
            }
            "Query" | "Scan" if body.get("IndexName").is_some() => {
                let mut call = call(operation, &text(&body["TableName"]), Vec::new());
                call.resource = format!("{}/index/{}", call.resource, text(&body["IndexName"]));
                vec![call]
            }
            _ => vec![single(operation, body)],
        }
    }

    fn s3(&self, scope: &AccountScope, status: StatusCode) -> Vec<AwsCall> {
        let path = decoded(self.head.uri.path().trim_start_matches('/'));
        let query = self.head.uri.query().unwrap_or_default();
        let (bucket, key) = path.split_once('/').unwrap_or((&path, ""));
        let bucket = scope.bucket_names.get(bucket).map_or(bucket, String::as_str);
        let bucket = format!("arn:aws:s3:::{bucket}");
        let object = |key: &str| format!("{bucket}/{key}");
        if key.is_empty() && self.head.method == Method::POST {
            let body = String::from_utf8_lossy(self.body);
            let keys = body.split("<Key>").skip(1).filter_map(|rest| rest.split("</Key>").next());
            return keys.map(|key| self.call("s3:DeleteObject".to_owned(), object(key))).collect();
        }
        let action = object_action(&self.head.method, query);
        if key.is_empty() {
            return vec![self.call("s3:ListBucket".to_owned(), bucket)];
        }
        let mut calls = vec![self.call(action.to_owned(), object(key))];
        if action == "s3:GetObject" && status == StatusCode::NOT_FOUND {
            calls.push(self.call("s3:ListBucket".to_owned(), bucket));
        }
        calls
    }
}

impl AccountScope {
    /// An ARN of the account.
    #[must_use]
    pub fn arn(&self, service: &str, resource: &str) -> String {
        format!("arn:aws:{service}:{}:{}:{resource}", self.region, self.account)
    }

    /// The ARN of a table. Requests name a table by its name or by its ARN.
    #[must_use]
    pub fn table(&self, name: &str) -> String {
        self.arn("dynamodb", &format!("table/{}", name.rsplit('/').next().unwrap_or_default()))
    }

    fn leading_key(&self, table: &str, item: &Value) -> String {
        let name =
            self.partition_keys.get(table).unwrap_or_else(|| panic!("the table {table} is not deployed"));
        let value = item[name].as_object().and_then(|value| value.values().next());
        value.map(text).expect("the partition key of an item")
    }
}

fn transaction_action(kind: &str) -> &'static str {
    match kind {
        "Put" => "PutItem",
        "Update" => "UpdateItem",
        "Delete" => "DeleteItem",
        "ConditionCheck" => "ConditionCheckItem",
        other => panic!("{other} is not an action of a transaction"),
    }
}

/// The items or keys of one table in a batch.
fn batch_keys(requests: &Value) -> Vec<&Value> {
    if let Some(keys) = requests["Keys"].as_array() {
        return keys.iter().collect();
    }
    let writes = requests.as_array().expect("requests of a batch").iter();
    let content = writes.filter_map(|write| {
        let put = write.pointer("/PutRequest/Item");
        put.or_else(|| write.pointer("/DeleteRequest/Key"))
    });
    content.collect()
}

fn object_action(method: &Method, query: &str) -> &'static str {
    match *method {
        Method::GET | Method::HEAD => "s3:GetObject",
        Method::DELETE if query.contains("uploadId=") => "s3:AbortMultipartUpload",
        Method::DELETE => "s3:DeleteObject",
        _ => "s3:PutObject",
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// A path without its percent encoding.
fn decoded(path: &str) -> String {
    let mut parts = path.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        match part.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                bytes.extend_from_slice(&part.as_bytes()[2..]);
            }
            None => bytes.extend_from_slice(part.as_bytes()),
        }
    }
    String::from_utf8(bytes).expect("a path in UTF-8")
}

#[cfg(test)]
mod tests;
