//! Which actions and resources a request means.

use hyper::Request;
use serde_json::json;

use super::*;

fn calls(service: &str, target: &str, method: &str, path: &str, body: &str, status: u16) -> Vec<AwsCall> {
    let authorization =
        format!("AWS4-HMAC-SHA256 Credential=test/20260206/eu-west-1/{service}/aws4_request, …");
    let request = Request::builder().method(method).uri(path).header("x-amz-target", target);
    let request = request.header(AUTHORIZATION, authorization.replace('…', "SignedHeaders=host"));
    let (head, ()) = request.body(()).expect("a request").into_parts();
    let scope = AccountScope {
        account: "123456789012".to_owned(),
        region: "eu-west-1".to_owned(),
        partition_keys: [("state", "PK"), ("t", "id")]
            .map(|(table, key)| (table.to_owned(), key.to_owned()))
            .into(),
        bucket_names: [("short".to_owned(), "deployed".to_owned())].into(),
    };
    let body = Bytes::from(body.to_owned());
    let recorded = RecordedRequest { principal: "aggregator", head: &head, body: &body };
    recorded.calls(&scope, StatusCode::from_u16(status).expect("a status"))
}

fn named(calls: &[AwsCall]) -> Vec<(&str, &str)> {
    calls.iter().map(|call| (call.action.as_str(), call.resource.as_str())).collect()
}

#[test]
fn a_transaction_is_an_action_for_each_item() {
    let body = json!({ "TransactItems": [
        { "Put": { "TableName": "state", "Item": { "PK": { "S": "LEDGER#a" }, "SK": { "S": "-" } } } },
        { "Update": { "TableName": "state", "Key": { "PK": { "S": "ADMIN#1" }, "SK": { "S": "x" } } } },
        { "ConditionCheck": { "TableName": "t", "Key": { "id": { "N": "7" } } } },
    ] });
    let calls =
        calls("dynamodb", "DynamoDB_20120810.TransactWriteItems", "POST", "/", &body.to_string(), 200);
    let state = "arn:aws:dynamodb:eu-west-1:123456789012:table/state";
    let other = "arn:aws:dynamodb:eu-west-1:123456789012:table/t";
    let expected =
        [("dynamodb:PutItem", state), ("dynamodb:UpdateItem", state), ("dynamodb:ConditionCheckItem", other)];
    assert_eq!(named(&calls), expected);
    let keys: Vec<&String> = calls.iter().flat_map(|call| &call.leading_keys).collect();
    assert_eq!(keys, ["LEDGER#a", "ADMIN#1", "7"]);
}

#[test]
fn a_batch_is_an_action_for_each_table_with_all_keys() {
    let body = json!({ "RequestItems": {
        "state": { "Keys": [{ "PK": { "S": "a" } }, { "PK": { "S": "b" } }] },
        "t": { "Keys": [{ "id": { "S": "c" } }] },
    } });
    let calls = calls("dynamodb", "DynamoDB_20120810.BatchGetItem", "POST", "/", &body.to_string(), 200);
    let keys: Vec<Vec<&str>> =
        calls.iter().map(|call| call.leading_keys.iter().map(String::as_str).collect()).collect();
    assert_eq!(keys, [vec!["a", "b"], vec!["c"]]);
    assert!(calls.iter().all(|call| call.action == "dynamodb:BatchGetItem"));
}

#[test]
fn a_query_of_an_index_is_on_the_index() {
    let body = json!({ "TableName": "t", "IndexName": "GSI1" }).to_string();
    let calls = calls("dynamodb", "DynamoDB_20120810.Query", "POST", "/", &body, 200);
    let index = "arn:aws:dynamodb:eu-west-1:123456789012:table/t/index/GSI1";
    assert_eq!(named(&calls), [("dynamodb:Query", index)]);
}

#[test]
fn an_object_that_is_not_found_needs_the_permission_to_list() {
    let get = |status| {
        calls("s3", "", "GET", "/lake/datasets/dt%3D2026-02-06/a.parquet?x-id=GetObject", "", status)
    };
    let object = ("s3:GetObject", "arn:aws:s3:::lake/datasets/dt=2026-02-06/a.parquet");
    assert_eq!(named(&get(200)), [object]);
    assert_eq!(named(&get(404)), [object, ("s3:ListBucket", "arn:aws:s3:::lake")]);
}

#[test]
fn writes_lists_and_deletions_of_objects_have_their_actions() {
    let bucket = "arn:aws:s3:::lake";
    let object = "arn:aws:s3:::lake/a/b";
    let of = |method, path, body| calls("s3", "", method, path, body, 200);
    assert_eq!(named(&of("GET", "/lake?list-type=2", "")), [("s3:ListBucket", bucket)]);
    assert_eq!(named(&of("PUT", "/lake/a/b", "")), [("s3:PutObject", object)]);
    assert_eq!(named(&of("POST", "/lake/a/b?uploads", "")), [("s3:PutObject", object)]);
    assert_eq!(named(&of("DELETE", "/lake/a/b", "")), [("s3:DeleteObject", object)]);
    assert_eq!(named(&of("DELETE", "/lake/a/b?uploadId=1", "")), [("s3:AbortMultipartUpload", object)]);
    assert_eq!(named(&of("PUT", "/short/a", "")), [("s3:PutObject", "arn:aws:s3:::deployed/a")]);
    let deleted = "<Delete><Object><Key>a/b</Key></Object></Delete>";
    assert_eq!(named(&of("POST", "/lake/?delete", deleted)), [("s3:DeleteObject", object)]);
}

#[test]
fn queues_streams_and_distributions_have_arns() {
    let queue = json!({ "QueueUrl": "http://127.0.0.1:1/0/exams-cdn" }).to_string();
    let sent = calls("sqs", "AmazonSQS.SendMessageBatch", "POST", "/", &queue, 200);
    assert_eq!(named(&sent), [("sqs:SendMessage", "arn:aws:sqs:eu-west-1:123456789012:exams-cdn")]);
    let stream = json!({ "DeliveryStreamName": "archive" }).to_string();
    let put = calls("firehose", "Firehose_20150804.PutRecordBatch", "POST", "/", &stream, 200);
    let arn = "arn:aws:firehose:eu-west-1:123456789012:deliverystream/archive";
    assert_eq!(named(&put), [("firehose:PutRecordBatch", arn)]);
    let invalidated = calls("cloudfront", "", "POST", "/2020-05-31/distribution/E1/invalidation", "", 201);
    let distribution = "arn:aws:cloudfront::123456789012:distribution/E1";
    assert_eq!(named(&invalidated), [("cloudfront:CreateInvalidation", distribution)]);
}
