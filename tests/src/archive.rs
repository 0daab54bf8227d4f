//! An archive to test against: a delivery stream and a bucket inside the process, spoken to over HTTP, and reading back what
//! they hold.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use afterwrite::commit::SystemClock;
use afterwrite::relay::archive::{ArchiveLine, Archiver};
use afterwrite::sink::firehose::{DeliveryStream, Firehose};
use afterwrite::sink::s3::S3Bucket;
use afterwrite::{Error, ErrorKind};
use afterwrite_local::firehose::{DeliveryStreamOptions, EmbeddedFirehose};
use afterwrite_local::s3::EmbeddedS3;
use serde_json::Value;

/// The delivery stream's name.
pub const STREAM: &str = "changes";
/// The bucket's name.
pub const BUCKET: &str = "lake";

/// The embedded servers.
pub struct Archive {
    /// The bucket's server.
    pub s3: EmbeddedS3,
    /// The delivery stream.
    pub firehose: EmbeddedFirehose,
}

impl Archive {
    /// Starts both, the bucket empty.
    ///
    /// # Panics
    /// If one of them cannot start.
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

    /// An archiver behind `stream`.
    pub fn archiver<S: DeliveryStream>(&self, stream: S) -> Archiver<S, S3Bucket, SystemClock> {
        Archiver::new(stream, self.bucket(), SystemClock)
    }

    /// Flushes the delivery stream, and reads every object.
    ///
    /// # Panics
    /// If something cannot be read.
    pub async fn read_back(&self) -> BTreeMap<String, String> {
        self.firehose.flush().await.expect("a flush");
        objects(&self.s3.client(), BUCKET).await
    }
}

/// Every object of a bucket as text, unpacked where it is packed, by key.
///
/// # Panics
/// If something cannot be read.
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

/// What objects hold, by event id, duplicates dropped; how many lines there were in all.
///
/// # Panics
/// If a line is no record, or two lines of one event differ.
pub fn by_event_id<'o>(objects: impl IntoIterator<Item = &'o String>) -> (BTreeMap<String, Value>, usize) {
    let (mut events, mut count) = (BTreeMap::new(), 0);
    for line in objects.into_iter().flat_map(|text| text.lines()) {
        let record: Value = serde_json::from_str(line).expect("a record");
        let id = record["eventID"].as_str().expect("an event id").to_owned();
        count += 1;
        if let Some(earlier) = events.insert(id, record.clone()) {
            assert_eq!(earlier, record, "a duplicate is the same");
        }
    }
    (events, count)
}

/// The `eventID` of a record or a line.
///
/// # Panics
/// If there is none.
#[must_use]
pub fn event_id(record: &str) -> String {
    let record: Value = serde_json::from_str(record).expect("a record");
    record["eventID"].as_str().expect("an event id").to_owned()
}

/// Lines as an archiver takes them.
#[must_use]
pub fn lines(texts: &[(String, String)]) -> Vec<ArchiveLine<'_>> {
    let line = |(index, (event_id, text))| ArchiveLine { index, event_id, text };
    texts.iter().enumerate().map(|(index, (id, text))| line((index, (id.as_str(), text.as_str())))).collect()
}

/// A delivery stream on a bad day: every so-and-so-many-th record is refused, every so-and-so-many-th answer lost, every
/// so-and-so-many-th request throttled.
pub struct Flaky<S> {
    inner: S,
    faults: Faults,
    records: AtomicU64,
    requests: AtomicU64,
}

/// How often what goes wrong: every n-th time; never if nought.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// A record is refused; the others of its request are taken.
    pub refused_record: u64,
    /// All records are taken, and nobody is told.
    pub lost_answer: u64,
    /// A request is refused.
    pub throttle: u64,
}

impl<S> Flaky<S> {
    /// Puts faults before a delivery stream.
    pub fn new(inner: S, faults: Faults) -> Self {
        Self { inner, faults, records: AtomicU64::new(0), requests: AtomicU64::new(0) }
    }
}

fn is_nth(number: u64, nth: u64) -> bool {
    nth > 0 && number % nth == nth - 1
}

impl<S: DeliveryStream> DeliveryStream for Flaky<S> {
    async fn put_batch(&self, records: &[&[u8]]) -> Result<Vec<Result<(), Error>>, Error> {
        let unavailable = || Error::new(ErrorKind::Unavailable, "injected");
        let request = self.requests.fetch_add(1, Ordering::Relaxed);
        if is_nth(request, self.faults.throttle) {
            return Err(unavailable());
        }
        let draw =
            |_: &&[u8]| is_nth(self.records.fetch_add(1, Ordering::Relaxed), self.faults.refused_record);
        let refused: Vec<bool> = records.iter().map(draw).collect();
        let taken: Vec<&[u8]> =
            records.iter().zip(&refused).filter(|(_, refused)| !**refused).map(|(data, _)| *data).collect();
        let answers = if taken.is_empty() { Vec::new() } else { self.inner.put_batch(&taken).await? };
        if is_nth(request, self.faults.lost_answer) {
            return Err(unavailable());
        }
        let mut answers = answers.into_iter();
        let answer = |refused: bool| {
            if refused { Err(unavailable()) } else { answers.next().unwrap_or_else(|| Err(unavailable())) }
        };
        Ok(refused.into_iter().map(answer).collect())
    }
}
