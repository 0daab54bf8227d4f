//! Reading a stream: shards, and the records of a shard in order.

use std::future::Future;

use afterwrite::{Error, ErrorKind, Result};
use aws_config::SdkConfig;
use aws_sdk_dynamodbstreams::Client;
use aws_sdk_dynamodbstreams::types as aws;

use super::dynamodb::{REGION, not_available};
use super::event::record_json;

/// The most records that one `GetRecords` returns.
const RECORDS_PER_READ: i32 = 1000;

/// A stream, as far as a poller needs it.
pub trait StreamSource: Send + Sync {
    /// Every shard that the stream still shows, closed ones included.
    ///
    /// # Errors
    /// `Unavailable` when throttled or unreachable; `Stream` if the stream is gone.
    fn shards(&self) -> impl Future<Output = Result<Vec<Shard>>> + Send;

    /// An iterator over a shard's records: after a sequence number, or from the oldest that is kept.
    ///
    /// # Errors
    /// As [`StreamSource::shards`]; `Stream` if records after that number are no longer kept.
    fn iterator(&self, shard: &str, after: Option<&str>) -> impl Future<Output = Result<String>> + Send;

    /// The next records, perhaps none.
    ///
    /// # Errors
    /// [`ReadError::Expired`] asks for a new iterator.
    fn read(&self, iterator: &str) -> impl Future<Output = Result<Page, ReadError>> + Send;
}

/// A shard: a stretch of the stream, open at its end or closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Its id.
    pub id: String,
    /// The shard it continues. That one's records come first.
    pub parent: Option<String>,
}

/// What one read gave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// The records, in order.
    pub records: Vec<Record>,
    /// The iterator to go on with; `None` once a closed shard is read to its end.
    pub next: Option<String>,
}

/// One change record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its number in the shard: what a partial batch response names.
    pub sequence_number: String,
    /// The record as Lambda delivers it, JSON.
    pub json: String,
}

/// Why a read gave nothing.
#[derive(Debug)]
pub enum ReadError {
    /// The iterator is older than 15 minutes.
    Expired,
    /// The read failed.
    Failed(Error),
}

/// A stream of DynamoDB, through the AWS SDK.
#[derive(Clone, Debug)]
pub struct AwsStream {
    client: Client,
    arn: String,
}

impl AwsStream {
    /// The stream of this ARN.
    #[must_use]
    pub fn new(config: &SdkConfig, arn: impl Into<String>) -> Self {
        Self { client: Client::new(config), arn: arn.into() }
    }

    /// The stream's ARN.
    #[must_use]
    pub fn arn(&self) -> &str {
        &self.arn
    }

    async fn read_raw(&self, iterator: &str) -> Result<(Vec<aws::Record>, Option<String>), ReadError> {
        let read = self.client.get_records().shard_iterator(iterator).limit(RECORDS_PER_READ).send().await;
        match read.map_err(aws_sdk_dynamodbstreams::error::SdkError::into_service_error) {
            Ok(read) => Ok((read.records.unwrap_or_default(), read.next_shard_iterator)),
            Err(error) if error.is_expired_iterator_exception() => Err(ReadError::Expired),
            Err(error)
                if error.is_trimmed_data_access_exception() || error.is_resource_not_found_exception() =>
            {
                Err(ReadError::Failed(self.gone(error)))
            }
            Err(error) => Err(ReadError::Failed(not_available("reading a stream", &self.arn, error))),
        }
    }

    fn gone(&self, cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
        Error::new(ErrorKind::Stream, "the stream, or the part of it that is wanted, is no longer there")
            .with("stream", &self.arn)
            .hint("DynamoDB keeps a stream's records for 24 hours")
            .caused_by(cause)
    }
}

impl StreamSource for AwsStream {
    async fn shards(&self) -> Result<Vec<Shard>> {
        let mut shards = Vec::new();
        let mut last = None;
        loop {
            let page = self.client.describe_stream().stream_arn(&self.arn).set_exclusive_start_shard_id(last);
            let page = page.send().await.map_err(|error| {
                let error = error.into_service_error();
                if error.is_resource_not_found_exception() {
                    self.gone(error)
                } else {
                    not_available("describing a stream", &self.arn, error)
                }
            })?;
            let description = page.stream_description;
            last = description.as_ref().and_then(|stream| stream.last_evaluated_shard_id.clone());
            shards
                .extend(description.and_then(|stream| stream.shards).into_iter().flatten().filter_map(shard));
            if last.is_none() {
                return Ok(shards);
            }
        }
    }

    async fn iterator(&self, shard: &str, after: Option<&str>) -> Result<String> {
        let start = match after {
            Some(_) => aws::ShardIteratorType::AfterSequenceNumber,
            None => aws::ShardIteratorType::TrimHorizon,
        };
        let request = self.client.get_shard_iterator().stream_arn(&self.arn).shard_id(shard);
        let request = request.shard_iterator_type(start).set_sequence_number(after.map(str::to_owned));
        let given = request.send().await.map_err(|error| {
            let error = error.into_service_error();
            if error.is_trimmed_data_access_exception() || error.is_resource_not_found_exception() {
                self.gone(error)
            } else {
                not_available("opening a shard", &self.arn, error)
            }
        })?;
        given
            .shard_iterator
            .ok_or_else(|| not_available("opening a shard", &self.arn, "no iterator was given"))
    }

    async fn read(&self, iterator: &str) -> Result<Page, ReadError> {
        let (records, next) = self.read_raw(iterator).await?;
        Ok(Page { records: records.iter().filter_map(|raw| record(raw, &self.arn)).collect(), next })
    }
}

/// A stream of the embedded DynamoDB, as AWS would show it.
#[derive(Clone, Debug)]
pub struct EmbeddedStream {
    inner: AwsStream,
    arn: String,
}

impl EmbeddedStream {
    pub(super) fn new(inner: AwsStream) -> Self {
        let arn = arn_of_aws(inner.arn());
        Self { inner, arn }
    }

    /// The stream's ARN, with a region and a label of AWS's form.
    #[must_use]
    pub fn arn(&self) -> &str {
        &self.arn
    }
}

impl StreamSource for EmbeddedStream {
    async fn shards(&self) -> Result<Vec<Shard>> {
        self.inner.shards().await
    }

    async fn iterator(&self, shard: &str, after: Option<&str>) -> Result<String> {
        self.inner.iterator(shard, after).await
    }

    async fn read(&self, iterator: &str) -> Result<Page, ReadError> {
        let (mut raw, mut next) = self.inner.read_raw(iterator).await?;
        let mut was_at_end = raw.is_empty();
        raw.retain(changes_something);
        // An empty page says "no more for now", so a page that is empty only because we dropped all of it is not given.
        while let (true, false, Some(iterator)) = (raw.is_empty(), was_at_end, next.as_deref()) {
            (raw, next) = self.inner.read_raw(iterator).await?;
            was_at_end = raw.is_empty();
            raw.retain(changes_something);
        }
        raw.iter_mut().for_each(as_aws_says);
        Ok(Page { records: raw.iter().filter_map(|raw| record(raw, &self.arn)).collect(), next })
    }
}

/// Whether AWS would emit the record at all.
fn changes_something(record: &aws::Record) -> bool {
    record
        .dynamodb()
        .is_none_or(|change| change.new_image() != change.old_image() || change.new_image().is_none())
}

fn as_aws_says(record: &mut aws::Record) {
    record.aws_region = Some(REGION.to_owned());
    if record.user_identity.is_some() {
        // The embedded server marks nothing but expiry, in names that the SDK does not read.
        let identity = aws::Identity::builder().r#type("Service").principal_id("dynamodb.amazonaws.com");
        record.user_identity = Some(identity.build());
    }
}

/// `arn:…:dynoxide:…/stream/<seconds>.<nanoseconds>` with AWS's region and a label like `2026-02-06T10:00:00.000`.
fn arn_of_aws(arn: &str) -> String {
    let arn = arn.replacen(":dynoxide:", &format!(":{REGION}:"), 1);
    let Some((table, label)) = arn.rsplit_once('/') else { return arn };
    let time = label.split_once('.').and_then(|(seconds, nanoseconds)| {
        let instant = jiff::Timestamp::new(seconds.parse().ok()?, nanoseconds.parse().ok()?).ok()?;
        Some(instant.strftime("%Y-%m-%dT%H:%M:%S%.3f").to_string())
    });
    time.map_or_else(|| arn.clone(), |label| format!("{table}/{label}"))
}

fn shard(shard: aws::Shard) -> Option<Shard> {
    Some(Shard { id: shard.shard_id?, parent: shard.parent_shard_id })
}

/// `None` for a record without a sequence number, which the API never returns.
fn record(raw: &aws::Record, arn: &str) -> Option<Record> {
    let sequence_number = raw.dynamodb()?.sequence_number()?.to_owned();
    Some(Record { sequence_number, json: record_json(raw, arn) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_embedded_servers_arn_gets_a_region_and_a_time() {
        let arn = "arn:aws:dynamodb:dynoxide:000000000000:table/T/stream/1770372000.000123456";
        assert_eq!(
            arn_of_aws(arn),
            "arn:aws:dynamodb:us-east-1:000000000000:table/T/stream/2026-02-06T10:00:00.000"
        );
    }
}
