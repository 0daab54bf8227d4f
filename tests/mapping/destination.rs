//! The on-failure destination in S3.

use std::time::Duration;

use serde_json::{Value, json};

use super::harness::{MappingRun, fails_with};
use super::simulated_stream::SimulatedStream;

fn settings(more: &Value) -> Value {
    let mut settings = json!({
        "FunctionName": "aggregator",
        "DestinationConfig": { "OnFailure": { "Destination": "arn:aws:s3:::failures" } },
    });
    for (name, value) in more.as_object().unwrap() {
        settings[name] = value.clone();
    }
    settings
}

/// The only object of the bucket.
fn only_object(run: &MappingRun<'_>) -> (String, Value) {
    let mut objects = run.bucket.objects();
    assert_eq!(objects.len(), 1);
    let (key, body) = objects.pop_first().unwrap();
    (key, serde_json::from_slice(&body).unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_discarded_batch_is_an_object_with_the_whole_event() {
    let stream = SimulatedStream::of(&["100000000000000000001", "100000000000000000002"]);
    let poison = fails_with("100000000000000000002");
    let run = MappingRun::new(&stream, settings(&json!({ "MaximumRetryAttempts": 2 }))).script(&poison);
    let outcome = run.drain().await;
    assert_eq!((outcome.counts.on_failure_objects, outcome.counts.skipped), (1, 2));
    let (key, object) = only_object(&run);
    let place = "aws/lambda/00000000-0000-0000-0000-000000000007/s/2026/02/06/2026-02-06T10.00.00-";
    let random = key.strip_prefix(place).unwrap_or_else(|| panic!("{key}"));
    assert_eq!(random.len(), 36);
    let context = &object["requestContext"];
    assert_eq!(context["condition"], "RetryAttemptsExhausted");
    assert_eq!(context["approximateInvokeCount"], 3);
    assert_eq!(context["functionArn"], "arn:aws:lambda:us-east-1:000000000000:function:aggregator");
    assert_eq!(context["requestId"].as_str().unwrap().len(), 36);
    let response = json!({ "statusCode": 200, "executedVersion": "$LATEST", "functionError": "Unhandled" });
    assert_eq!(object["responseContext"], response);
    assert_eq!(object["version"], "1.0");
    assert!(object["timestamp"].as_str().unwrap().starts_with("2026-02-06T10:00:00."));
    assert_eq!(
        object["DDBStreamBatchInfo"],
        json!({
            "shardId": "s",
            "startSequenceNumber": "100000000000000000001",
            "endSequenceNumber": "100000000000000000002",
            "approximateArrivalOfFirstRecord": "2026-02-06T10:00:00Z",
            "approximateArrivalOfLastRecord": "2026-02-06T10:00:00Z",
            "batchSize": 2,
            "streamArn": "arn:aws:dynamodb:us-east-1:000000000000:table/T/stream/2026-02-06T00:00:00.000",
        })
    );
    let payload: Value = serde_json::from_str(object["payload"].as_str().unwrap()).unwrap();
    assert_eq!(payload["Records"].as_array().unwrap().len(), 2);
    assert_eq!(payload["Records"][1]["dynamodb"]["SequenceNumber"], "100000000000000000002");
}

#[tokio::test(start_paused = true)]
async fn records_that_are_too_old_have_a_condition_of_their_own() {
    let stream = SimulatedStream::of(&["1"]);
    tokio::time::advance(Duration::from_secs(61)).await;
    let run = MappingRun::new(&stream, settings(&json!({ "MaximumRecordAgeInSeconds": 60 })));
    run.drain().await;
    let (_, object) = only_object(&run);
    assert_eq!(object["requestContext"]["condition"], "RecordAgeExceeded");
    assert_eq!(object["requestContext"]["approximateInvokeCount"], 0);
    assert_eq!(object["responseContext"], Value::Null);
}

#[tokio::test(start_paused = true)]
async fn only_the_records_that_failed_are_in_the_object() {
    let stream = SimulatedStream::of(&["1", "2", "3", "4"]);
    let more = json!({ "MaximumRetryAttempts": 0, "BisectBatchOnFunctionError": true });
    let poison = fails_with("3");
    let run = MappingRun::new(&stream, settings(&more)).script(&poison);
    run.drain().await;
    let (_, object) = only_object(&run);
    let info = &object["DDBStreamBatchInfo"];
    assert_eq!((&info["startSequenceNumber"], &info["batchSize"]), (&"3".into(), &1.into()));
}
