//! The stream of a deployed table.

use std::time::Duration;

use afterwrite_model::clock::{Clock as _, SystemClock};
use afterwrite_model::record::Timestamp;
use afterwrite_model::{Error, ErrorKind, Result};
use aws_sdk_dynamodbstreams::Client;
use aws_sdk_dynamodbstreams::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodbstreams::operation::get_records::GetRecordsError;
use aws_sdk_dynamodbstreams::operation::get_shard_iterator::{GetShardIteratorError, GetShardIteratorOutput};
use aws_sdk_dynamodbstreams::primitives::DateTime;
use aws_sdk_dynamodbstreams::types::{Shard, ShardIteratorType};

use super::record::lambda_record;
use super::request::request_error;
use crate::stream::{
    RecordPage, STREAM_RETENTION, ShardPage, ShardPosition, StreamReadError, StreamShard, StreamSource,
};

/// The stream of a table, through the AWS SDK.
#[derive(Clone, Debug)]
pub struct DeployedStream {
    client: Client,
    arn: String,
    enabled_later: Option<Timestamp>,
}

/// A stream with a label up to this long after the creation of its table was enabled with the table.
const TABLE_CREATION: Duration = Duration::from_secs(5);
/// The largest difference between this machine's clock and the clock that labels streams.
const CLOCK_DIFFERENCE: Duration = Duration::from_secs(60 * 60);

impl DeployedStream {
    /// The newest stream of a table.
    ///
    /// # Errors
    /// `Configuration` if there is no such table, or it has no stream.
    pub async fn of_table(dynamodb: &aws_sdk_dynamodb::Client, streams: Client, table: &str) -> Result<Self> {
        let described = Box::pin(dynamodb.describe_table().table_name(table).send()).await;
        let described = described.map_err(|error| {
            let cause = request_error("DescribeTable", ("table", table), &error);
            Error::new(cause.kind(), "the table cannot be described").with("table", table).caused_by(cause)
        })?;
        let description = described.table();
        let arn = description.and_then(|table| table.latest_stream_arn()).ok_or_else(|| {
            Error::new(ErrorKind::Configuration, "the table has no stream")
                .with("table", table)
                .hint("Enable its stream with the view type NEW_AND_OLD_IMAGES")
        })?;
        let created = description.and_then(|table| table.creation_date_time()?.to_millis().ok());
        Ok(Self {
            client: streams,
            arn: arn.to_owned(),
            enabled_later: enabled_later(arn, created.map(Timestamp::from_epoch_ms)),
        })
    }

    /// When the stream was enabled, if its table is older: the stream does not have the changes before this time.
    #[must_use]
    pub const fn enabled_later(&self) -> Option<Timestamp> {
        self.enabled_later
    }

    async fn shard_iterator(
        &self,
        shard: &str,
        position: &ShardPosition,
    ) -> Result<GetShardIteratorOutput, SdkError<GetShardIteratorError>> {
        let request = self.client.get_shard_iterator().stream_arn(&self.arn).shard_id(shard);
        let request = match position {
            // The stream has all of its records. DynamoDB Local begins a shard at a number that none of the table's records has, and calls
            // the records before the first one trimmed.
            ShardPosition::First(_) if has_every_record(&self.arn, SystemClock.now()) => {
                request.shard_iterator_type(ShardIteratorType::TrimHorizon)
            }
            ShardPosition::TrimHorizon => request.shard_iterator_type(ShardIteratorType::TrimHorizon),
            ShardPosition::Latest => request.shard_iterator_type(ShardIteratorType::Latest),
            ShardPosition::First(number) => {
                request.shard_iterator_type(ShardIteratorType::AtSequenceNumber).sequence_number(number)
            }
            ShardPosition::After(number) => {
                request.shard_iterator_type(ShardIteratorType::AfterSequenceNumber).sequence_number(number)
            }
            ShardPosition::At(time) => {
                let second = DateTime::from_secs(time.epoch_seconds());
                request.shard_iterator_type(ShardIteratorType::AtTimestamp).timestamp(second)
            }
        };
        Box::pin(request.send()).await
    }
}

impl StreamSource for DeployedStream {
    fn arn(&self) -> &str {
        &self.arn
    }

    async fn describe(&self, after: Option<&str>) -> Result<ShardPage> {
        let request = self.client.describe_stream().stream_arn(&self.arn);
        let request = request.set_exclusive_start_shard_id(after.map(str::to_owned));
        let described = Box::pin(request.send()).await;
        let described =
            described.map_err(|error| request_error("DescribeStream", ("stream", &self.arn), &error))?;
        let stream = described.stream_description();
        let shards = stream.map(|stream| stream.shards()).unwrap_or_default();
        Ok(ShardPage {
            shards: shards.iter().filter_map(stream_shard).collect(),
            next: stream.and_then(|stream| stream.last_evaluated_shard_id()).map(str::to_owned),
        })
    }

    async fn iterator(&self, shard: &str, position: &ShardPosition) -> Result<String, StreamReadError> {
        let mut got = self.shard_iterator(shard, position).await;
        if matches!(position, ShardPosition::First(_))
            && got.as_ref().err().and_then(ProvideErrorMetadata::code) == Some("ValidationException")
        {
            // The number at which a shard begins need not be a record's.
            got = self.shard_iterator(shard, &ShardPosition::TrimHorizon).await;
        }
        match got {
            Ok(got) => got.shard_iterator.ok_or_else(|| {
                let message = "GetShardIterator: the response has no iterator";
                Error::new(ErrorKind::Unavailable, message).with("shard", shard).into()
            }),
            Err(error) => Err(match error.as_service_error() {
                Some(GetShardIteratorError::TrimmedDataAccessException(_)) => StreamReadError::Trimmed,
                // The stream itself was described a moment ago. If it is gone, the next DescribeStream fails.
                Some(GetShardIteratorError::ResourceNotFoundException(_)) => StreamReadError::Gone,
                Some(refused) if is_unknown_position(position, refused.code()) => {
                    let message =
                        "GetShardIterator: the endpoint does not begin a stream at a time (AT_TIMESTAMP)";
                    Error::new(ErrorKind::Configuration, message)
                        .with("shard", shard)
                        .hint("Read the stream from its oldest record")
                        .into()
                }
                Some(_) | None => request_error("GetShardIterator", ("shard", shard), &error).into(),
            }),
        }
    }

    async fn read(&self, iterator: &str) -> Result<RecordPage, StreamReadError> {
        let read = match Box::pin(self.client.get_records().shard_iterator(iterator).send()).await {
            Ok(read) => read,
            Err(error) => {
                let service_error = error.as_service_error();
                if service_error.is_some_and(GetRecordsError::is_expired_iterator_exception) {
                    return Err(StreamReadError::IteratorExpired);
                }
                if service_error.is_some_and(GetRecordsError::is_trimmed_data_access_exception) {
                    return Err(StreamReadError::Trimmed);
                }
                if service_error.is_some_and(GetRecordsError::is_resource_not_found_exception) {
                    return Err(StreamReadError::Gone);
                }
                return Err(request_error("GetRecords", ("stream", &self.arn), &error).into());
            }
        };
        let records: Vec<_> = read.records().iter().map(|record| lambda_record(record, &self.arn)).collect();
        Ok(RecordPage { is_at_end: records.is_empty(), records, next: read.next_shard_iterator })
    }
}

/// The time in the label of a stream's ARN.
fn enabled_at(arn: &str) -> Option<Timestamp> {
    let (_, label) = arn.rsplit_once('/')?;
    Timestamp::parse(&format!("{label}Z"))
}

/// Whether the stream is too young to have lost a record.
fn has_every_record(arn: &str, now: Timestamp) -> bool {
    enabled_at(arn).is_some_and(|enabled| now.plus(CLOCK_DIFFERENCE) < enabled.plus(STREAM_RETENTION))
}

/// When the stream was enabled, unless the table was created then. The table's creation is not known of every emulator.
fn enabled_later(arn: &str, table_created: Option<Timestamp>) -> Option<Timestamp> {
    let enabled = enabled_at(arn)?;
    (table_created?.plus(TABLE_CREATION) < enabled).then_some(enabled)
}

fn stream_shard(shard: &Shard) -> Option<StreamShard> {
    let range = shard.sequence_number_range();
    Some(StreamShard {
        id: shard.shard_id()?.to_owned(),
        parent: shard.parent_shard_id().map(str::to_owned),
        first: range.and_then(|range| range.starting_sequence_number()).map(str::to_owned),
    })
}

/// Whether a position at a time was refused for a reason that lasts: emulators of DynamoDB Streams may not know it.
fn is_unknown_position(position: &ShardPosition, code: Option<&str>) -> bool {
    let is_lasting =
        |code| ["ValidationException", "SerializationException", "UnknownOperationException"].contains(&code);
    matches!(position, ShardPosition::At(_)) && code.is_some_and(is_lasting)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_was_enabled_later_if_its_table_is_older() {
        let arn = "arn:aws:dynamodb:eu-west-1:123456789012:table/T/stream/2026-02-06T10:00:00.500";
        let table = |time: &str| Timestamp::parse(time);
        let enabled = Timestamp::parse("2026-02-06T10:00:00.500Z");
        assert!(enabled.is_some());
        assert_eq!(enabled_later(arn, table("2026-02-06T09:59:00Z")), enabled);
        for created in ["2026-02-06T10:00:00.500Z", "2026-02-06T09:59:58Z", "2026-02-06T10:00:01Z"] {
            assert_eq!(enabled_later(arn, table(created)), None, "{created}");
        }
        assert_eq!(
            [enabled_later(arn, None), enabled_later("label", table("2026-02-06T09:59:00Z"))],
            [None; 2]
        );
    }

    #[test]
    fn a_stream_of_less_than_a_day_has_every_record() {
        let arn = "arn:aws:dynamodb:ddblocal:000000000000:table/T/stream/2026-02-06T10:00:00.500";
        let has_every_record = |now| has_every_record(arn, Timestamp::parse(now).unwrap());
        assert!(has_every_record("2026-02-06T10:00:01Z") && has_every_record("2026-02-07T08:59:00Z"));
        assert!(!has_every_record("2026-02-07T09:01:00Z") && !has_every_record("2026-02-08T10:00:00Z"));
        assert!(!super::has_every_record("label", Timestamp::from_epoch_ms(0)));
    }
}
