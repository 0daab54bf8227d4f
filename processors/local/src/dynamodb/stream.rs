//! A stream of the embedded DynamoDB, as Lambda delivers it.

use afterwrite_mapping::{
    RecordPage, ShardPage, ShardPosition, StreamReadError, StreamRecord, StreamShard, StreamSource,
};
use afterwrite_model::Result;
use afterwrite_model::record::Timestamp;
use dynoxide::actions::describe_stream::DescribeStreamRequest;
use dynoxide::actions::get_records::{GetRecordsRequest, GetRecordsResponse, Record};
use dynoxide::actions::get_shard_iterator::encode_shard_iterator;
use dynoxide::streams::{shard_id, stream_arn};
use dynoxide::{Database, DynoxideError};
use serde_json::Value;

use super::database::{call, failed};
use super::stream_history::{StreamHistory, StreamWindow, aws_label, stored_number};
use crate::sdk::REGION;

/// The name of a stream's only shard, where a mapping reads it. The database's own name has the table's name at its end, and would make keys of
/// failed batches longer than the embedded S3 takes.
const SHARD: &str = "shardId-00000001";
const MICROSECONDS: i64 = 1_000_000;

/// A stream of the embedded DynamoDB. It ends when the table's stream is disabled, or the table is deleted; its records can be read to
/// their end.
#[derive(Clone)]
pub struct EmbeddedStream {
    database: Database,
    history: StreamHistory,
    table: String,
    /// The label that the database knows.
    label: String,
    arn: String,
}

impl std::fmt::Debug for EmbeddedStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EmbeddedStream").field("arn", &self.arn).finish_non_exhaustive()
    }
}

impl EmbeddedStream {
    pub(crate) fn new(database: Database, history: StreamHistory, table: &str, label: String) -> Self {
        let arn = aws_arn(&stream_arn(table, &label));
        Self { database, history, table: table.to_owned(), label, arn }
    }

    /// The stream with this ARN, of AWS's form; `None` if there has never been one.
    pub(crate) async fn of_arn(
        database: &Database,
        history: &StreamHistory,
        arn: &str,
    ) -> Result<Option<Self>> {
        let parts = arn.split_once(":table/").and_then(|(_, rest)| rest.split_once("/stream/"));
        let Some((table, label)) = parts else { return Ok(None) };
        history.current(database, table).await?;
        let label = history.label(table, label);
        Ok(label.map(|label| Self::new(database.clone(), history.clone(), table, label)))
    }

    /// The table's next stream; `None` if it has had no other since.
    ///
    /// # Errors
    /// `Unavailable` if the database fails.
    pub async fn following(&self) -> Result<Option<Self>> {
        self.history.current(&self.database, &self.table).await?;
        let label = self.history.following(&self.table, &self.label);
        Ok(label.map(|label| Self::new(self.database.clone(), self.history.clone(), &self.table, label)))
    }

    /// The name of its table.
    pub(crate) fn table(&self) -> &str {
        &self.table
    }

    /// The ARN that the database knows.
    pub(crate) fn embedded_arn(&self) -> String {
        stream_arn(&self.table, &self.label)
    }

    /// The only shard.
    pub(crate) fn shard(&self) -> String {
        shard_id(&self.table)
    }

    /// Whether nothing is added to it any more.
    pub(crate) async fn is_ended(&self) -> Result<bool> {
        let current = self.history.current(&self.database, &self.table).await?;
        Ok(current.as_ref() != Some(&self.label))
    }

    /// Its records' numbers. The end is known once [`EmbeddedStream::is_ended`] has looked.
    pub(crate) fn window(&self) -> StreamWindow {
        self.history.window(&self.table, &self.label)
    }

    /// The stored number after which new records come.
    pub(crate) async fn newest(&self) -> Result<i64> {
        let window = self.window();
        let before_first = window.first - 1;
        if let Some(end) = window.end {
            return Ok(end - 1);
        }
        let request = DescribeStreamRequest { stream_arn: self.embedded_arn(), ..Default::default() };
        let Ok(described) = call(&self.database, |database| database.describe_stream(request)).await else {
            // The stream is disabled: nothing is added to it.
            return Ok(i64::MAX);
        };
        let shard = described.stream_description.shards.into_iter().next();
        let newest = shard.and_then(|shard| shard.sequence_number_range.ending_sequence_number);
        Ok(newest.and_then(|number| stored_number(&number)).unwrap_or(before_first).max(before_first))
    }

    /// The stored number after which the records of this second and later ones come.
    pub(crate) async fn before_time(&self, time: Timestamp) -> Result<i64> {
        // A number is at least the time of its write in microseconds: no record before this number was written later.
        let mut before = time.epoch_seconds().saturating_mul(MICROSECONDS) - 1;
        loop {
            let page = self.get_records(&self.iterator_after(before)).await?;
            if page.records.is_empty() {
                return Ok(before.max(self.window().first - 1));
            }
            for record in page.records {
                if created_at(&record) >= time.epoch_seconds() {
                    return Ok(before.max(self.window().first - 1));
                }
                before = stored_number(&record.dynamodb.sequence_number).unwrap_or(before);
            }
        }
    }

    /// The database's iterator after a stored number.
    pub(crate) fn iterator_after(&self, stored: i64) -> String {
        encode_shard_iterator(&self.table, &self.shard(), stored.max(self.window().first - 1))
    }

    /// One read of the database; a deleted table has no records.
    async fn get_records(&self, iterator: &str) -> Result<GetRecordsResponse> {
        let request = GetRecordsRequest { shard_iterator: iterator.to_owned(), limit: None };
        let read = call(&self.database, |database| {
            Ok(match database.get_records(request) {
                Err(DynoxideError::ResourceNotFoundException(_)) => None,
                read => Some(read?),
            })
        });
        Ok(read.await?.unwrap_or_default())
    }
}

impl StreamSource for EmbeddedStream {
    /// The ARN, with a region and a label of AWS's form.
    fn arn(&self) -> &str {
        &self.arn
    }

    async fn describe(&self, _after: Option<&str>) -> Result<ShardPage> {
        Ok(ShardPage {
            shards: vec![StreamShard { id: SHARD.to_owned(), parent: None, first: None }],
            next: None,
        })
    }

    async fn iterator(&self, _shard: &str, position: &ShardPosition) -> Result<String, StreamReadError> {
        let after = match position {
            ShardPosition::TrimHorizon | ShardPosition::First(_) => self.window().first - 1,
            ShardPosition::Latest => self.newest().await?,
            ShardPosition::At(time) => self.before_time(*time).await?,
            ShardPosition::After(number) => stored_number(number)
                .ok_or_else(|| failed(std::io::Error::other("a sequence number that was never given")))?,
        };
        Ok(self.iterator_after(after))
    }

    async fn read(&self, iterator: &str) -> Result<RecordPage, StreamReadError> {
        let mut read = self.get_records(iterator).await?;
        // Asked after the read, so that a record of the next stream is known as such.
        let is_ended = self.is_ended().await?;
        if is_ended {
            // A record may have been written between the read and the end.
            read = self.get_records(iterator).await?;
        }
        let window = self.window();
        let found = read.records.len();
        let own: Vec<Record> =
            read.records.into_iter().filter(|record| window.has(&record.dynamodb.sequence_number)).collect();
        let is_read = is_ended && (own.is_empty() || own.len() < found);
        let is_at_end = own.is_empty();
        let changes = own.into_iter().filter(changes_something);
        let records = changes.map(|record| lambda_record(record, &self.arn)).collect::<Result<_>>()?;
        Ok(RecordPage { records, is_at_end, next: read.next_shard_iterator.filter(|_| !is_read) })
    }
}

/// Whether AWS would emit the record at all.
fn changes_something(record: &Record) -> bool {
    let change = &record.dynamodb;
    change.new_image.is_none() || change.new_image != change.old_image
}

/// When a change was made, in whole epoch seconds.
#[expect(clippy::cast_possible_truncation, reason = "epoch seconds are far below 2^53")]
fn created_at(record: &Record) -> i64 {
    record.dynamodb.approximate_creation_date_time as i64
}

/// The record as Lambda delivers it: with the stream's ARN, AWS's region, and the time in whole epoch seconds.
#[expect(clippy::indexing_slicing, reason = "both are JSON objects: indexing adds or replaces a member")]
fn lambda_record(mut record: Record, stream_arn: &str) -> Result<StreamRecord> {
    record.aws_region = REGION.to_owned();
    let mut json = serde_json::to_value(&record).map_err(failed)?;
    json["eventSourceARN"] = Value::from(stream_arn);
    json["dynamodb"]["ApproximateCreationDateTime"] = Value::from(created_at(&record));
    Ok(StreamRecord { sequence_number: record.dynamodb.sequence_number, json: json.to_string() })
}

/// Converts `arn:…:dynoxide:…/stream/<seconds>.<nanoseconds>` to AWS's region and a label like `2026-02-06T10:00:00.000`.
pub(crate) fn aws_arn(arn: &str) -> String {
    let arn = arn.replacen(":dynoxide:", &format!(":{REGION}:"), 1);
    let Some((table, label)) = arn.rsplit_once('/') else { return arn };
    aws_label(label).map_or_else(|| arn.clone(), |label| format!("{table}/{label}"))
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
