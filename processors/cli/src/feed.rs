//! Change records one after the other, from files and buckets or from streams.

use std::collections::VecDeque;
use std::time::Duration;

use afterwrite_input::{InputObject, OpenedInput, RejectedText, TimeRange};
use afterwrite_mapping::tail::TableStream;
use afterwrite_model::Result;
use afterwrite_services::s3::S3Bucket;

/// The pause after a read of all shards that returned nothing. A shard allows five reads a second for all readers.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// A source of records.
pub(crate) enum RecordFeed {
    /// Files and objects.
    Inputs(InputFeed),
    /// Streams, until Ctrl-C.
    Streams(StreamFeed),
}

/// Records of files and objects.
pub(crate) struct InputFeed {
    objects: VecDeque<InputObject<S3Bucket>>,
    range: TimeRange,
    opened: Option<(String, OpenedInput)>,
}

/// Records of streams.
pub(crate) struct StreamFeed {
    streams: Vec<TableStream>,
    range: TimeRange,
    buffered: VecDeque<String>,
}

/// A record, or a text that has none and the name of its input.
pub(crate) type FedRecord = Result<String, (String, RejectedText)>;

impl RecordFeed {
    /// The records of files and objects in a range of time.
    pub(crate) fn of_inputs(objects: Vec<InputObject<S3Bucket>>, range: TimeRange) -> Self {
        Self::Inputs(InputFeed { objects: objects.into(), range, opened: None })
    }

    /// The records of streams in a range of time.
    pub(crate) fn of_streams(streams: Vec<TableStream>, range: TimeRange) -> Self {
        Self::Streams(StreamFeed { streams, range, buffered: VecDeque::new() })
    }

    /// The next record; `None` at the end of all inputs, or after Ctrl-C.
    ///
    /// # Errors
    /// An input or a stream that cannot be read.
    pub(crate) async fn next(&mut self) -> Result<Option<FedRecord>> {
        match self {
            Self::Inputs(feed) => feed.next().await,
            Self::Streams(feed) => tokio::select! {
                next = feed.next() => next.map(|record| Some(Ok(record))),
                _ = tokio::signal::ctrl_c() => Ok(None),
            },
        }
    }
}

impl InputFeed {
    async fn next(&mut self) -> Result<Option<FedRecord>> {
        loop {
            let Some((name, reader)) = &mut self.opened else {
                let Some(object) = self.objects.pop_front() else { return Ok(None) };
                self.opened = Some((object.name(), object.open().await?));
                continue;
            };
            match reader.next_record()? {
                None => self.opened = None,
                Some(Ok(record)) if !self.range.contains_record(&record) => {}
                Some(Ok(record)) => return Ok(Some(Ok(record))),
                Some(Err(rejected)) => return Ok(Some(Err((name.clone(), rejected)))),
            }
        }
    }
}

impl StreamFeed {
    async fn next(&mut self) -> Result<String> {
        loop {
            if let Some(record) = self.buffered.pop_front() {
                return Ok(record);
            }
            for stream in &mut self.streams {
                let records = Box::pin(stream.next_records()).await?;
                self.buffered.extend(records.into_iter().filter(|record| self.range.contains_record(record)));
            }
            if self.buffered.is_empty() {
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        }
    }
}
