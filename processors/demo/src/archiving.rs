//! The second reader of the streams: every change goes through a delivery stream into an S3, as on AWS, and the archive is
//! read back in the end. Cache keys are invalidated in a cache that only counts them.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use afterwrite_functions::{SourceTables, StreamRelay};
use afterwrite_local::firehose::{DeliveryStreamOptions, EmbeddedFirehose};
use afterwrite_local::s3::EmbeddedS3;
use afterwrite_mapping::EventHandler;
use afterwrite_model::clock::SystemClock;
use afterwrite_model::projection::StaleKey;
use afterwrite_model::table::{Model, ModelNotation};
use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_relay::archive::{ArchiveTotals, ChangeArchiver};
use afterwrite_relay::invalidate::CacheInvalidator;
use afterwrite_services::cloudfront::CloudFront;
use afterwrite_services::firehose::Firehose;
use afterwrite_services::s3::S3Bucket;
use afterwrite_services::sqs::SqsQueue;
use afterwrite_services::{Bucket as _, Cache, InvalidatedKeys};
use flate2::read::MultiGzDecoder;
use futures::TryStreamExt as _;
use serde::{Deserialize, Serialize};

use crate::invocation::{deadline, response_json};

const STREAM: &str = "demo-archive";
const BUCKET: &str = "demo";

/// The relay as the handler of a stream, and the servers that it writes to.
#[derive(Debug)]
pub(crate) struct ArchivingFunction {
    s3: EmbeddedS3,
    firehose: EmbeddedFirehose,
    relay: StreamRelay<CountingCache, CloudFront, SqsQueue, Firehose, S3Bucket, SystemClock>,
    totals: Mutex<RelayTotals>,
}

#[derive(Debug, Default)]
struct RelayTotals {
    archived: ArchiveTotals,
    /// Invalidated keys by the model's rule, each once a batch.
    keys: BTreeMap<usize, usize>,
}

/// An empty cache: every invalidation succeeds at once.
#[derive(Debug)]
struct CountingCache;

impl Cache for CountingCache {
    async fn invalidate(&self, keys: &[StaleKey], _limit: Duration) -> InvalidatedKeys {
        InvalidatedKeys { results: keys.iter().map(|_| Ok(())).collect(), commands: 1 }
    }
}

/// The cache keys that one rule of the model invalidated.
#[derive(Clone, Debug, Serialize)]
pub struct RuleInvalidations {
    /// The entity whose changes the rule is about.
    pub of: String,
    /// The rule's keys, as the model writes them.
    pub keys: Vec<String>,
    /// The number of invalidated keys.
    pub invalidated: usize,
}

/// The archive in the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ArchiveReport {
    /// Objects under `archive/`.
    pub objects: usize,
    /// Their compressed size.
    pub bytes: usize,
    /// The lines in them.
    pub lines: usize,
    /// The different changes among them: a redelivered change may be there twice.
    pub changes: usize,
    /// The changes in the streams.
    pub expected: usize,
    /// Firehose records in units of 5 KB, the unit of Firehose's price.
    pub billed_units: u64,
}

impl ArchiveReport {
    /// Whether no change is missing.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.changes == self.expected
    }
}

impl ArchivingFunction {
    pub(crate) async fn start(model: &Arc<Model>, table_names: &[Arc<str>]) -> Result<Self> {
        let s3 = EmbeddedS3::start().await?;
        s3.create_bucket(BUCKET).await?;
        let options = DeliveryStreamOptions::new(STREAM, BUCKET);
        let firehose = EmbeddedFirehose::start(options, &s3.client()).await?;
        let stream = Firehose::new(&firehose.client(), Arc::from(STREAM));
        let archiver =
            ChangeArchiver::new(stream, S3Bucket::new(&s3.client(), Arc::from(BUCKET)), SystemClock);
        let invalidator = CacheInvalidator::new(Some(CountingCache), None, SystemClock);
        let tables = SourceTables::new(Arc::clone(model), table_names.to_vec());
        let relay = StreamRelay::new(tables, Some(invalidator), Some(archiver), SystemClock);
        Ok(Self { s3, firehose, relay, totals: Mutex::default() })
    }

    /// Flushes the delivery stream and reads the archive back. The streams had `expected` changes.
    pub(crate) async fn read_back(&self, expected: usize) -> Result<ArchiveReport> {
        self.firehose.flush().await?;
        let billed_units = self.totals.lock().unwrap_or_else(PoisonError::into_inner).archived.billed_units;
        let mut report = ArchiveReport { expected, billed_units, ..ArchiveReport::default() };
        let (bucket, mut changes) = (self.bucket(), BTreeSet::new());
        for object in bucket.list("archive/").await? {
            let packed = read_object(&bucket, &object.key).await?;
            report.objects += 1;
            report.bytes += packed.len();
            report.lines += collect_changes(&packed, &mut changes)?;
        }
        report.changes = changes.len();
        Ok(report)
    }

    /// The invalidated cache keys by rule, in the model's order.
    pub(crate) fn invalidated(&self) -> Vec<RuleInvalidations> {
        let model: &Model = self.relay.model();
        let totals = self.totals.lock().unwrap_or_else(PoisonError::into_inner);
        let rules = model.caches.iter().enumerate().filter_map(|(index, rule)| {
            let entity = model.entities.get(rule.of)?;
            let notation = ModelNotation::of(model, rule.of, &[]);
            Some(RuleInvalidations {
                of: entity.name.to_string(),
                keys: rule.keys.iter().map(|key| notation.template(key)).collect(),
                invalidated: totals.keys.get(&index).copied().unwrap_or_default(),
            })
        });
        rules.collect()
    }

    /// The bucket of the archive.
    pub(crate) fn bucket(&self) -> S3Bucket {
        S3Bucket::retrying(self.s3.client(), Arc::from(BUCKET))
    }

    pub(crate) async fn stop(self) -> Result<()> {
        self.firehose.stop().await?;
        self.s3.stop().await
    }
}

impl EventHandler for ArchivingFunction {
    async fn handle(&self, event: Vec<u8>, remaining: Duration) -> Result<Vec<u8>> {
        let relayed = Box::pin(self.relay.handle(&event, deadline(remaining))).await?;
        {
            let mut totals = self.totals.lock().unwrap_or_else(PoisonError::into_inner);
            totals.archived += relayed.archived.unwrap_or_default();
            for (rule, keys) in relayed.invalidated.unwrap_or_default().keys_by_rule {
                *totals.keys.entry(rule).or_default() += keys;
            }
        }
        response_json(&relayed.response)
    }
}

/// The contents of an object; empty if it does not exist.
pub(crate) async fn read_object(bucket: &S3Bucket, key: &str) -> Result<Vec<u8>> {
    let Some(chunks) = bucket.get(key).await? else { return Ok(Vec::new()) };
    Ok(chunks.try_collect::<Vec<_>>().await?.concat())
}

/// Collects the ids of an object's changes; returns the number of its lines.
fn collect_changes(packed: &[u8], changes: &mut BTreeSet<String>) -> Result<usize> {
    #[derive(Deserialize)]
    struct ArchivedChange {
        #[serde(rename = "eventID")]
        event_id: String,
    }
    let mut text = String::new();
    MultiGzDecoder::new(packed).read_to_string(&mut text).map_err(unreadable)?;
    for line in text.lines() {
        changes.insert(serde_json::from_str::<ArchivedChange>(line).map_err(unreadable)?.event_id);
    }
    Ok(text.lines().count())
}

fn unreadable(cause: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::new(ErrorKind::State, "the archive cannot be read back").caused_by(cause)
}
