//! The shards of a stream, and the position in each.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use afterwrite::{Error, ErrorKind, Result};
use aws_sdk_dynamodb::error::DisplayErrorContext;
use aws_sdk_dynamodbstreams::Client;
use aws_sdk_dynamodbstreams::operation::get_records::GetRecordsOutput;
use aws_sdk_dynamodbstreams::types::{Shard, ShardIteratorType};

use super::record_json::lambda_record;

/// How often the shards are listed: a shard is replaced after about four hours.
const LIST_EVERY: Duration = Duration::from_secs(10);

/// Where the reader starts in the shards that exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamStart {
    /// After the newest record.
    Latest,
    /// At the oldest record, up to 24 hours ago.
    Oldest,
}

/// Follows a table's stream.
#[derive(Debug)]
pub struct TableStream {
    client: Client,
    arn: String,
    start: StreamStart,
    /// The shards that are read.
    cursors: BTreeMap<String, ShardCursor>,
    /// The shards that were read to their end, or that ended before the start.
    ended: BTreeSet<String>,
    listed: Option<Instant>,
}

/// The position in a shard.
#[derive(Debug)]
struct ShardCursor {
    iterator: Option<String>,
    last_read: Option<String>,
    kind: ShardIteratorType,
}

impl TableStream {
    /// The stream of a table.
    ///
    /// # Errors
    /// `Configuration` if the table does not exist, has no stream, or cannot be described.
    pub async fn of_table(
        tables: &aws_sdk_dynamodb::Client,
        client: Client,
        table: &str,
        start: StreamStart,
    ) -> Result<Self> {
        let described = Box::pin(tables.describe_table().table_name(table).send()).await;
        let described = described.map_err(|error| {
            Error::new(ErrorKind::Configuration, "the table cannot be described")
                .with("table", table)
                .hint(
                    "Check the name, AFTERWRITE_TABLES, AWS_REGION and the permission dynamodb:DescribeTable",
                )
                .caused_by(error)
        })?;
        let arn = described.table().and_then(|table| table.latest_stream_arn()).ok_or_else(|| {
            Error::new(ErrorKind::Configuration, "the table has no stream")
                .with("table", table)
                .hint("Enable its stream with NEW_AND_OLD_IMAGES")
        })?;
        let arn = arn.to_owned();
        Ok(Self { client, arn, start, cursors: BTreeMap::new(), ended: BTreeSet::new(), listed: None })
    }

    /// Reads every open shard once; returns the records as Lambda delivers them. Empty if there is nothing new.
    ///
    /// # Errors
    /// `Unavailable` if the stream cannot be read.
    pub async fn next_records(&mut self) -> Result<Vec<String>> {
        if self.listed.is_none_or(|listed| listed.elapsed() >= LIST_EVERY) {
            self.list_shards().await?;
        }
        let mut records = Vec::new();
        let shards: Vec<String> = self.cursors.keys().cloned().collect();
        for shard in shards {
            records.extend(self.read_shard(&shard).await?);
        }
        Ok(records)
    }

    /// Opens the shards whose parent has ended.
    async fn list_shards(&mut self) -> Result<()> {
        let is_first = self.listed.is_none();
        let (mut shards, mut after) = (Vec::<Shard>::new(), None);
        loop {
            let page =
                self.client.describe_stream().stream_arn(&self.arn).set_exclusive_start_shard_id(after);
            let page = Box::pin(page.send())
                .await
                .map_err(|error| self.failed("DescribeStream", &DisplayErrorContext(&error).to_string()))?;
            let description = page.stream_description();
            shards.extend(description.map(|stream| stream.shards().to_vec()).unwrap_or_default());
            after = description.and_then(|stream| stream.last_evaluated_shard_id()).map(str::to_owned);
            if after.is_none() {
                break;
            }
        }
        let ids: BTreeSet<String> =
            shards.iter().filter_map(|shard| shard.shard_id().map(str::to_owned)).collect();
        for shard in &shards {
            let Some(id) = shard.shard_id() else { continue };
            let has_ended =
                shard.sequence_number_range().is_some_and(|range| range.ending_sequence_number().is_some());
            if is_first && self.start == StreamStart::Latest && has_ended && has_child(&shards, id) {
                self.ended.insert(id.to_owned());
                continue;
            }
            let parent_is_read = shard
                .parent_shard_id()
                .is_none_or(|parent| self.ended.contains(parent) || !ids.contains(parent));
            if parent_is_read && !self.ended.contains(id) && !self.cursors.contains_key(id) {
                let is_latest = is_first && self.start == StreamStart::Latest;
                let kind = if is_latest { ShardIteratorType::Latest } else { ShardIteratorType::TrimHorizon };
                self.cursors.insert(id.to_owned(), ShardCursor { iterator: None, last_read: None, kind });
            }
        }
        self.listed = Some(Instant::now());
        Ok(())
    }

    async fn read_shard(&mut self, shard: &str) -> Result<Vec<String>> {
        let Some(mut cursor) = self.cursors.remove(shard) else { return Ok(Vec::new()) };
        let read = match cursor.iterator.take() {
            Some(iterator) => self.read(iterator).await?,
            None => self.read(self.iterator(shard, &cursor).await?).await?,
        };
        let Some(read) = read else {
            // The iterator expired: the next read gets another one.
            self.cursors.insert(shard.to_owned(), cursor);
            return Ok(Vec::new());
        };
        let last = read.records().last().and_then(|record| record.dynamodb()?.sequence_number());
        cursor.last_read = last.map(str::to_owned).or(cursor.last_read);
        let records = read.records().iter().map(|record| lambda_record(record, &self.arn)).collect();
        match read.next_shard_iterator() {
            Some(next) => {
                cursor.iterator = Some(next.to_owned());
                self.cursors.insert(shard.to_owned(), cursor);
            }
            None => {
                self.ended.insert(shard.to_owned());
                // Its children can be read now.
                self.list_shards().await?;
            }
        }
        Ok(records)
    }

    async fn iterator(&self, shard: &str, cursor: &ShardCursor) -> Result<String> {
        let after = ShardIteratorType::AfterSequenceNumber;
        let kind = if cursor.last_read.is_some() { after } else { cursor.kind.clone() };
        let request = self.client.get_shard_iterator().stream_arn(&self.arn).shard_id(shard);
        let request = request.shard_iterator_type(kind).set_sequence_number(cursor.last_read.clone());
        let iterator = Box::pin(request.send())
            .await
            .map_err(|error| self.failed("GetShardIterator", &DisplayErrorContext(&error).to_string()))?;
        let iterator = iterator.shard_iterator().map(str::to_owned);
        iterator.ok_or_else(|| self.failed("GetShardIterator", "the response has no iterator"))
    }

    /// Reads at an iterator; `None` if it has expired.
    async fn read(&self, iterator: String) -> Result<Option<GetRecordsOutput>> {
        match Box::pin(self.client.get_records().shard_iterator(iterator).send()).await {
            Ok(read) => Ok(Some(read)),
            Err(error)
                if error.as_service_error().is_some_and(|error| error.is_expired_iterator_exception()) =>
            {
                Ok(None)
            }
            Err(error) => Err(self.failed("GetRecords", &DisplayErrorContext(&error).to_string())),
        }
    }

    fn failed(&self, action: &str, cause: &str) -> Error {
        Error::new(ErrorKind::Unavailable, format!("{action} failed: {cause}"))
            .with("stream", &self.arn)
            .hint("Check the permissions dynamodb:DescribeStream, dynamodb:GetShardIterator and dynamodb:GetRecords; a shard allows two readers")
    }
}

fn has_child(shards: &[Shard], id: &str) -> bool {
    shards.iter().any(|shard| shard.parent_shard_id() == Some(id))
}
