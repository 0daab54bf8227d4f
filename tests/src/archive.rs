//! An archive to test against: an embedded delivery stream and an embedded bucket, reached over HTTP, and the objects in them.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use afterwrite_local::firehose::{DeliveryStreamOptions, EmbeddedFirehose};
use afterwrite_local::s3::EmbeddedS3;
use afterwrite_model::clock::SystemClock;
use afterwrite_model::{Error, ErrorKind};
use afterwrite_relay::archive::{ArchiveLine, ChangeArchiver};
use afterwrite_services::DeliveryStream;
use afterwrite_services::firehose::Firehose;
use afterwrite_services::s3::S3Bucket;
use serde_json::Value;

/// The delivery stream's name.
pub const STREAM: &str = "changes";
/// The bucket's name.
pub const BUCKET: &str = "lake";

/// The embedded servers.
pub struct EmbeddedArchive {
    /// The bucket's server.
    pub s3: EmbeddedS3,
    /// The delivery stream.
    pub firehose: EmbeddedFirehose,
}

impl EmbeddedArchive {
    /// Starts both servers, with an empty bucket.
    ///
    /// # Panics
    /// If a server cannot start.
    pub async fn start() -> Self {
        let s3 = EmbeddedS3::start().await.expect("the embedded S3");
        s3.create_bucket(BUCKET).await.expect("a bucket");
        let options = DeliveryStreamOptions::new(STREAM, BUCKET);
        let firehose = EmbeddedFirehose::start(options, &s3.client()).await.expect("the delivery stream");
        Self { s3, firehose }
    }

    /// The delivery stream through the AWS SDK.
    #[must_use]
    pub fn stream(&self) -> Firehose {
        Firehose::new(&self.firehose.client(), Arc::from(STREAM))
    }

    /// The bucket through the AWS SDK.
    #[must_use]
    pub fn bucket(&self) -> S3Bucket {
        S3Bucket::new(&self.s3.client(), Arc::from(BUCKET))
    }

    /// An archiver that writes to `stream` and to the bucket.
    pub fn archiver<S: DeliveryStream>(&self, stream: S) -> ChangeArchiver<S, S3Bucket, SystemClock> {
        ChangeArchiver::new(stream, self.bucket(), SystemClock)
    }

    /// Flushes the delivery stream, and reads every object.
    ///
    /// # Panics
    /// If an object cannot be read.
    pub async fn read_back(&self) -> BTreeMap<String, String> {
        self.firehose.flush().await.expect("a flush");
        objects(&self.s3.client(), BUCKET).await
    }
}

/// Every object of a bucket as text, decompressed if it is gzip, by key.
///
/// # Panics
/// If an object cannot be read.
pub async fn objects(client: &aws_sdk_s3::Client, bucket: &str) -> BTreeMap<String, String> {
    let mut keys = Vec::new();
    let mut pages = client.list_objects_v2().bucket(bucket).into_paginator().send();
    while let Some(page) = pages.next().await {
        keys.extend(
            page.expect("a page of keys").contents.into_iter().flatten().filter_map(|object| object.key),
        );
    }
    let mut objects = BTreeMap::new();
    for key in keys {
        let object = client.get_object().bucket(bucket).key(&key).send().await.expect("an object");
        let body = object.body.collect().await.expect("its body").to_vec();
        let mut text = String::new();
        if body.starts_with(&[0x1f, 0x8b]) {
            flate2::read::MultiGzDecoder::new(body.as_slice())
                .read_to_string(&mut text)
                .expect("gzip of text");
        } else {
            text = String::from_utf8(body).expect("text");
        }
        objects.insert(key, text);
    }
    objects
}

/// The records in objects by event id, without duplicates, and the number of all lines.
///
/// # Panics
/// If a line is not a record, or two lines of one event differ.
pub fn by_event_id<'o>(objects: impl IntoIterator<Item = &'o String>) -> (BTreeMap<String, Value>, usize) {
    let (mut events, mut count) = (BTreeMap::new(), 0);
    for line in objects.into_iter().flat_map(|text| text.lines()) {
        let record: Value = serde_json::from_str(line).expect("a record");
        let id = record["eventID"].as_str().expect("an event id").to_owned();
        count += 1;
        if let Some(earlier) = events.insert(id, record.clone()) {
            assert_eq!(earlier, record, "a duplicate differs");
        }
    }
    (events, count)
}

/// The `eventID` of a record or a line.
///
/// # Panics
/// If it is missing.
#[must_use]
pub fn event_id(record: &str) -> String {
    let record: Value = serde_json::from_str(record).expect("a record");
    record["eventID"].as_str().expect("an event id").to_owned()
}

/// Lines as the archiver's input.
#[must_use]
pub fn lines(texts: &[(String, String)]) -> Vec<ArchiveLine<'_>> {
    let line = |(index, (event_id, text))| ArchiveLine { index, event_id, text };
    texts.iter().enumerate().map(|(index, (id, text))| line((index, (id.as_str(), text.as_str())))).collect()
}

/// A delivery stream with injected faults.
pub struct FlakyStream<S> {
    inner: S,
    faults: StreamFaults,
    records: AtomicU64,
    requests: AtomicU64,
}

/// How often each fault happens: every n-th time; 0 means never.
#[derive(Clone, Copy, Debug, Default)]
pub struct StreamFaults {
    /// A record is refused; the other records of its request are accepted.
    pub refused_record: u64,
    /// All records are accepted, but the response is lost.
    pub lost_response: u64,
    /// A request is refused.
    pub throttle: u64,
}

impl<S> FlakyStream<S> {
    /// A delivery stream whose requests meet these faults.
    pub fn new(inner: S, faults: StreamFaults) -> Self {
        Self { inner, faults, records: AtomicU64::new(0), requests: AtomicU64::new(0) }
    }
}

fn injected_error() -> Error {
    Error::new(ErrorKind::Unavailable, "injected")
}

fn is_nth(number: u64, nth: u64) -> bool {
    nth > 0 && number % nth == nth - 1
}

impl<S: DeliveryStream> DeliveryStream for FlakyStream<S> {
    async fn put_batch(&self, records: &[&[u8]]) -> Result<Vec<Result<(), Error>>, Error> {
        let request = self.requests.fetch_add(1, Ordering::Relaxed);
        if is_nth(request, self.faults.throttle) {
            return Err(injected_error());
        }
        let is_refused =
            |_: &&[u8]| is_nth(self.records.fetch_add(1, Ordering::Relaxed), self.faults.refused_record);
        let refused: Vec<bool> = records.iter().map(is_refused).collect();
        let accepted: Vec<&[u8]> =
            records.iter().zip(&refused).filter(|(_, refused)| !**refused).map(|(data, _)| *data).collect();
        let results = if accepted.is_empty() { Vec::new() } else { self.inner.put_batch(&accepted).await? };
        if is_nth(request, self.faults.lost_response) {
            return Err(injected_error());
        }
        let mut results = results.into_iter();
        let mut next_result = || results.next().unwrap_or_else(|| Err(injected_error()));
        let result = |refused| if refused { Err(injected_error()) } else { next_result() };
        Ok(refused.into_iter().map(result).collect())
    }
}
