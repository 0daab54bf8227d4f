//! The on-failure destination: an object in S3 for each discarded batch, in Lambda's layout.

use afterwrite_model::Result;
use afterwrite_model::record::Timestamp;
use afterwrite_services::ObjectStore;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::stream::StreamRecord;

/// Takes discarded batches.
pub trait FailureDestination: Send + Sync {
    /// Stores an object.
    fn store<'a>(&'a self, key: &'a str, body: Vec<u8>) -> BoxFuture<'a, Result<()>>;
}

impl<O: ObjectStore> FailureDestination for O {
    fn store<'a>(&'a self, key: &'a str, body: Vec<u8>) -> BoxFuture<'a, Result<()>> {
        self.put(key, body).boxed()
    }
}

/// Why a batch was discarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DiscardCondition {
    RetryAttemptsExhausted,
    RecordAgeExceeded,
}

impl DiscardCondition {
    fn name(self) -> &'static str {
        match self {
            Self::RetryAttemptsExhausted => "RetryAttemptsExhausted",
            Self::RecordAgeExceeded => "RecordAgeExceeded",
        }
    }
}

/// A batch, or the part of it that failed.
pub(crate) struct DiscardedBatch<'a> {
    pub(crate) mapping: Uuid,
    pub(crate) function: &'a str,
    pub(crate) stream_arn: &'a str,
    pub(crate) shard: &'a str,
    pub(crate) records: &'a [StreamRecord],
    pub(crate) condition: DiscardCondition,
    pub(crate) invocations: u32,
    /// Whether the last invocation failed; otherwise its response named a record, or there was no invocation.
    pub(crate) is_function_error: bool,
    pub(crate) discarded_at: Timestamp,
}

impl DiscardedBatch<'_> {
    /// `aws/lambda/<mapping>/<shard>/YYYY/MM/DD/YYYY-MM-DDTHH.MM.SS-<random>`.
    pub(crate) fn object_key(&self, random: Uuid) -> String {
        let (time, mapping, shard) = (utc(self.discarded_at), self.mapping, self.shard);
        let (folder, second) = (time.strftime("%Y/%m/%d"), time.strftime("%Y-%m-%dT%H.%M.%S"));
        format!("aws/lambda/{mapping}/{shard}/{folder}/{second}-{random}")
    }

    /// The object: metadata, and the whole event as a text.
    pub(crate) fn object_body(&self, request: Uuid) -> Vec<u8> {
        let created = |record: Option<&StreamRecord>| record.and_then(StreamRecord::created_at);
        let (first, last) = (self.records.first(), self.records.last());
        let number = |record: Option<&StreamRecord>| record.map(|record| record.sequence_number.clone());
        let response = json!({
            "statusCode": 200,
            "executedVersion": "$LATEST",
            "functionError": self.is_function_error.then_some("Unhandled"),
        });
        json!({
            "requestContext": {
                "requestId": request.to_string(),
                "functionArn": function_arn(self.function),
                "condition": self.condition.name(),
                "approximateInvokeCount": self.invocations,
            },
            "responseContext": if self.invocations > 0 { response } else { Value::Null },
            "version": "1.0",
            "timestamp": utc(self.discarded_at).strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string(),
            "DDBStreamBatchInfo": {
                "shardId": self.shard,
                "startSequenceNumber": number(first),
                "endSequenceNumber": number(last),
                "approximateArrivalOfFirstRecord": created(first).map(second_of),
                "approximateArrivalOfLastRecord": created(last).map(second_of),
                "batchSize": self.records.len(),
                "streamArn": self.stream_arn,
            },
            "payload": event_json(self.records),
        })
        .to_string()
        .into_bytes()
    }
}

/// The event of a batch.
pub(crate) fn event_json(records: &[StreamRecord]) -> String {
    let records: Vec<&str> = records.iter().map(|record| record.json.as_str()).collect();
    format!("{{\"Records\":[{}]}}", records.join(","))
}

/// The ARN of a function of this machine.
pub(crate) fn function_arn(name: &str) -> String {
    if name.starts_with("arn:") {
        return name.to_owned();
    }
    format!("arn:aws:lambda:us-east-1:000000000000:function:{name}")
}

fn second_of(time: Timestamp) -> String {
    utc(time).strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

fn utc(time: Timestamp) -> jiff::Timestamp {
    jiff::Timestamp::from_millisecond(time.epoch_ms()).unwrap_or_default()
}
