//! A stream of the embedded DynamoDB, as Lambda delivers it.

use afterwrite::Result;
use afterwrite_mapping::{
    RecordPage, ShardPage, ShardPosition, StreamReadError, StreamRecord, StreamShard, StreamSource,
};
use dynoxide::Database;
use dynoxide::actions::describe_stream::DescribeStreamRequest;
use dynoxide::actions::get_records::{GetRecordsRequest, Record};
use dynoxide::actions::get_shard_iterator::GetShardIteratorRequest;
use serde_json::Value;

use super::database::{call, failed};
use crate::sdk::REGION;

/// A stream of the embedded DynamoDB.
#[derive(Clone)]
pub struct EmbeddedStream {
    database: Database,
    /// The ARN that the database knows.
    embedded_arn: String,
    arn: String,
}

impl std::fmt::Debug for EmbeddedStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EmbeddedStream").field("arn", &self.arn).finish_non_exhaustive()
    }
}

impl EmbeddedStream {
    pub(super) fn new(database: Database, embedded_arn: String) -> Self {
        Self { database, arn: aws_arn(&embedded_arn), embedded_arn }
    }
}

impl StreamSource for EmbeddedStream {
    /// The ARN, with a region and a label of AWS's form.
    fn arn(&self) -> &str {
        &self.arn
    }

    async fn describe(&self, _after: Option<&str>) -> Result<ShardPage> {
        let stream_arn = self.embedded_arn.clone();
        let request = DescribeStreamRequest { stream_arn, ..DescribeStreamRequest::default() };
        let described = call(&self.database, |database| database.describe_stream(request)).await?;
        let shards = described.stream_description.shards.into_iter();
        let shards = shards.map(|shard| StreamShard { id: shard.shard_id, parent: None });
        Ok(ShardPage { shards: shards.collect(), next: None })
    }

    async fn iterator(&self, shard: &str, position: &ShardPosition) -> Result<String, StreamReadError> {
        let (kind, sequence_number) = match position {
            ShardPosition::TrimHorizon => ("TRIM_HORIZON", None),
            ShardPosition::Latest => ("LATEST", None),
            ShardPosition::After(number) => ("AFTER_SEQUENCE_NUMBER", Some(number.clone())),
        };
        let request = GetShardIteratorRequest {
            stream_arn: self.embedded_arn.clone(),
            shard_id: shard.to_owned(),
            shard_iterator_type: kind.to_owned(),
            sequence_number,
        };
        let iterator = call(&self.database, |database| database.get_shard_iterator(request)).await?;
        Ok(iterator.shard_iterator.ok_or_else(|| failed(std::io::Error::other("no shard iterator")))?)
    }

    async fn read(&self, iterator: &str) -> Result<RecordPage, StreamReadError> {
        let request = GetRecordsRequest { shard_iterator: iterator.to_owned(), limit: None };
        let read = call(&self.database, |database| database.get_records(request)).await?;
        let is_at_end = read.records.is_empty();
        let changes = read.records.into_iter().filter(changes_something);
        let records = changes.map(|record| lambda_record(record, &self.arn)).collect::<Result<_>>()?;
        Ok(RecordPage { records, is_at_end, next: read.next_shard_iterator })
    }
}

/// Whether AWS would emit the record at all.
fn changes_something(record: &Record) -> bool {
    let change = &record.dynamodb;
    change.new_image.is_none() || change.new_image != change.old_image
}

/// The record as Lambda delivers it: with the stream's ARN, AWS's region, and the time in whole epoch seconds.
#[expect(clippy::cast_possible_truncation, reason = "epoch seconds are far below 2^53")]
#[expect(clippy::indexing_slicing, reason = "both are JSON objects: indexing adds or replaces a member")]
fn lambda_record(mut record: Record, stream_arn: &str) -> Result<StreamRecord> {
    record.aws_region = REGION.to_owned();
    let mut json = serde_json::to_value(&record).map_err(failed)?;
    json["eventSourceARN"] = Value::from(stream_arn);
    let created_at = record.dynamodb.approximate_creation_date_time as i64;
    json["dynamodb"]["ApproximateCreationDateTime"] = Value::from(created_at);
    Ok(StreamRecord { sequence_number: record.dynamodb.sequence_number, json: json.to_string() })
}

/// Converts `arn:…:dynoxide:…/stream/<seconds>.<nanoseconds>` to AWS's region and a label like `2026-02-06T10:00:00.000`.
pub(crate) fn aws_arn(arn: &str) -> String {
    let arn = arn.replacen(":dynoxide:", &format!(":{REGION}:"), 1);
    let Some((table, label)) = arn.rsplit_once('/') else { return arn };
    let time = label.split_once('.').and_then(|(seconds, nanoseconds)| {
        let instant = jiff::Timestamp::new(seconds.parse().ok()?, nanoseconds.parse().ok()?).ok()?;
        Some(instant.strftime("%Y-%m-%dT%H:%M:%S%.3f").to_string())
    });
    time.map_or_else(|| arn.clone(), |label| format!("{table}/{label}"))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use dynoxide::AttributeValue;
    use dynoxide::actions::get_records::{StreamRecord as DynoxideChange, UserIdentity};
    use serde_json::json;

    use super::*;

    #[test]
    fn the_embedded_servers_arn_gets_a_region_and_a_time() {
        let arn = "arn:aws:dynamodb:dynoxide:000000000000:table/T/stream/1770372000.000123456";
        assert_eq!(
            aws_arn(arn),
            "arn:aws:dynamodb:us-east-1:000000000000:table/T/stream/2026-02-06T10:00:00.000"
        );
    }

    #[test]
    fn a_record_is_written_as_lambda_writes_it() {
        let text = |text: &str| AttributeValue::S(text.to_owned());
        let image = HashMap::from([
            ("n".to_owned(), AttributeValue::N("12345678901234567890123456789012345678".to_owned())),
            ("b".to_owned(), AttributeValue::B(vec![0, 255])),
            (
                "list".to_owned(),
                AttributeValue::L(vec![AttributeValue::NULL(true), AttributeValue::BOOL(false)]),
            ),
            ("map".to_owned(), AttributeValue::M(HashMap::from([("s".to_owned(), text("試験 \"x\""))]))),
            ("sets".to_owned(), AttributeValue::NS(vec!["1".to_owned()])),
        ]);
        let record = Record {
            event_id: "e1".to_owned(),
            event_name: "REMOVE".to_owned(),
            event_version: "1.1".to_owned(),
            event_source: "aws:dynamodb".to_owned(),
            aws_region: "dynoxide".to_owned(),
            dynamodb: DynoxideChange {
                keys: HashMap::from([("PK".to_owned(), text("a"))]),
                old_image: Some(image),
                sequence_number: "100000000000000000001".to_owned(),
                size_bytes: 59,
                stream_view_type: "NEW_AND_OLD_IMAGES".to_owned(),
                approximate_creation_date_time: 1_769_904_000.0,
                ..DynoxideChange::default()
            },
            user_identity: Some(UserIdentity {
                identity_type: "Service".to_owned(),
                principal_id: "dynamodb.amazonaws.com".to_owned(),
            }),
        };
        let written = lambda_record(record, "arn:stream").unwrap();
        let expected = json!({
            "eventID": "e1", "eventName": "REMOVE", "eventVersion": "1.1", "eventSource": "aws:dynamodb",
            "awsRegion": "us-east-1", "eventSourceARN": "arn:stream",
            "userIdentity": {"type": "Service", "principalId": "dynamodb.amazonaws.com"},
            "dynamodb": {
                "ApproximateCreationDateTime": 1_769_904_000, "Keys": {"PK": {"S": "a"}},
                "OldImage": {
                    "n": {"N": "12345678901234567890123456789012345678"}, "b": {"B": "AP8="},
                    "list": {"L": [{"NULL": true}, {"BOOL": false}]}, "map": {"M": {"s": {"S": "試験 \"x\""}}},
                    "sets": {"NS": ["1"]},
                },
                "SequenceNumber": "100000000000000000001", "SizeBytes": 59, "StreamViewType": "NEW_AND_OLD_IMAGES",
            },
        });
        assert_eq!(serde_json::from_str::<Value>(&written.json).unwrap(), expected);
        assert_eq!(written.sequence_number, "100000000000000000001");
    }
}
