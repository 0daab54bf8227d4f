//! The streams' second reader in the demo: every change goes through a delivery stream into an S3, as it would on AWS, and
//! what lies there in the end is read back. Cache keys are invalidated in a cache that only counts them.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use afterwrite::clock::{Clock as _, SystemClock};
use afterwrite::projection::StaleKey;
use afterwrite::record::Timestamp;
use afterwrite::relay::archive::{ArchiveTotals, ChangeArchiver};
use afterwrite::relay::invalidate::CacheInvalidator;
use afterwrite::sink::cloudfront::CloudFront;
use afterwrite::sink::firehose::Firehose;
use afterwrite::sink::s3::S3Bucket;
use afterwrite::sink::{Cache, InvalidatedKeys};
use afterwrite::table::{Model, ModelNotation};
use afterwrite::{Error, ErrorKind, Result};
use afterwrite_functions::{SourceTables, StreamRelay};
use flate2::read::MultiGzDecoder;
use serde::{Deserialize, Serialize};

use afterwrite_local::firehose::{DeliveryStreamOptions, EmbeddedFirehose};
use afterwrite_local::poller::EventHandler;
use afterwrite_local::s3::EmbeddedS3;

const STREAM: &str = "demo-archive";
const BUCKET: &str = "demo";
/// What is kept back of an invocation's time, to answer in.
const TO_ANSWER: Duration = Duration::from_millis(500);

/// The relay under its handler, and the servers it writes to.
#[derive(Debug)]
pub(super) struct Archive {
    s3: EmbeddedS3,
    firehose: EmbeddedFirehose,
    relay: StreamRelay<CountingCache, CloudFront, Firehose, S3Bucket, SystemClock>,
    totals: Mutex<ArchiveTotals>,
    /// By rule of the model: how many keys, each once a batch.
    keys: Mutex<BTreeMap<usize, usize>>,
}

/// A cache that holds nothing: every key that goes stale is gone at once.
#[derive(Debug)]
struct CountingCache;

impl Cache for CountingCache {
    async fn invalidate(&self, keys: &[StaleKey], _now: Timestamp, _limit: Duration) -> InvalidatedKeys {
        InvalidatedKeys { results: keys.iter().map(|_| Ok(())).collect(), commands: 1 }
    }
}

/// The cache keys that one rule of the model had go.
#[derive(Clone, Debug, Serialize)]
pub struct InvalidatedByRule {
    /// The entity whose changes the rule is about.
    pub of: String,
    /// The rule's keys, as the model writes them.
    pub keys: Vec<String>,
    /// How many keys went.
    pub invalidated: usize,
}

/// What the archive holds in the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Archived {
    /// Objects under `archive/`.
    pub objects: u64,
    /// Their bytes, packed.
    pub bytes: u64,
    /// The lines in them.
    pub lines: u64,
    /// The different changes among them: a change that was delivered twice may be there twice.
    pub changes: u64,
    /// The changes that the streams had.
    pub expected: u64,
    /// What Firehose would bill: records in units of 5 KB.
    pub billed_units: u64,
}

impl Archived {
    /// Whether no change is missing.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.changes == self.expected
    }
}

impl Archive {
    pub(super) async fn start(model: &Arc<Model>, table_names: &[Arc<str>]) -> Result<Self> {
        let s3 = EmbeddedS3::start().await?;
        s3.create_bucket(BUCKET).await?;
        let firehose =
            EmbeddedFirehose::start(DeliveryStreamOptions::new(STREAM, BUCKET), &s3.client()).await?;
        let stream = Firehose::new(&firehose.client(), Arc::from(STREAM));
        let archiver =
            ChangeArchiver::new(stream, S3Bucket::new(&s3.client(), Arc::from(BUCKET)), SystemClock);
        let invalidator = CacheInvalidator::new(Arc::clone(model), Some(CountingCache), None, SystemClock);
        let tables = SourceTables::new(Arc::clone(model), table_names.to_vec());
        let relay = StreamRelay::new(tables, Some(invalidator), Some(archiver), SystemClock);
        Ok(Self { s3, firehose, relay, totals: Mutex::default(), keys: Mutex::default() })
    }

    /// Writes what is buffered, and reads everything back. The streams had `expected` changes.
    pub(super) async fn read_back(&self, expected: u64) -> Result<Archived> {
        self.firehose.flush().await?;
        let billed_units = self.totals.lock().unwrap_or_else(PoisonError::into_inner).billed_units;
        let mut archived = Archived { expected, billed_units, ..Archived::default() };
        let mut changes = BTreeSet::new();
        let client = self.s3.client();
        let mut pages = client.list_objects_v2().bucket(BUCKET).prefix("archive/").into_paginator().send();
        while let Some(page) = pages.next().await {
            for object in page.map_err(unreadable)?.contents.unwrap_or_default() {
                let got = client.get_object().bucket(BUCKET).set_key(object.key).send();
                let packed = Box::pin(got).await.map_err(unreadable)?.body.collect().await;
                let packed = packed.map_err(unreadable)?.into_bytes();
                archived.objects += 1;
                archived.bytes += u64::try_from(packed.len()).unwrap_or(u64::MAX);
                archived.lines += take_in(&packed, &mut changes)?;
            }
        }
        archived.changes = u64::try_from(changes.len()).unwrap_or(u64::MAX);
        Ok(archived)
    }

    /// The cache keys that went, by rule, in the model's order.
    pub(super) fn invalidated(&self) -> Vec<InvalidatedByRule> {
        let model: &Model = self.relay.model();
        let keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        let rules = model.caches.iter().enumerate().filter_map(|(index, rule)| {
            let entity = model.entities.get(rule.of)?;
            let notation = ModelNotation::of(model, rule.of, &[]);
            Some(InvalidatedByRule {
                of: entity.name.to_string(),
                keys: rule.keys.iter().map(|key| notation.template(key)).collect(),
                invalidated: keys.get(&index).copied().unwrap_or_default(),
            })
        });
        rules.collect()
    }

    /// The bucket that the archive lies in.
    pub(super) fn bucket(&self) -> S3Bucket {
        S3Bucket::retrying(self.s3.client(), Arc::from(BUCKET))
    }

    pub(super) async fn stop(self) -> Result<()> {
        self.firehose.stop().await?;
        self.s3.stop().await
    }
}

impl EventHandler for Archive {
    async fn handle(&self, event: Vec<u8>, remaining: Duration) -> Result<Vec<u8>> {
        let deadline = SystemClock.now().plus(remaining.saturating_sub(TO_ANSWER));
        let relayed = Box::pin(self.relay.handle(&event, deadline)).await?;
        *self.totals.lock().unwrap_or_else(PoisonError::into_inner) += relayed.archived.unwrap_or_default();
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        for (rule, gone) in relayed.invalidated.unwrap_or_default().keys_by_rule {
            *keys.entry(rule).or_default() += gone;
        }
        drop(keys);
        serde_json::to_vec(&relayed.response)
            .map_err(|error| Error::new(ErrorKind::State, "the response cannot be written").caused_by(error))
    }
}

/// Notes the changes in an object; how many lines it has.
fn take_in(packed: &[u8], changes: &mut BTreeSet<String>) -> Result<u64> {
    #[derive(Deserialize)]
    struct Line {
        #[serde(rename = "eventID")]
        event_id: String,
    }
    let mut text = String::new();
    MultiGzDecoder::new(packed).read_to_string(&mut text).map_err(unreadable)?;
    let mut lines = 0;
    for line in text.lines() {
        lines += 1;
        changes.insert(serde_json::from_str::<Line>(line).map_err(unreadable)?.event_id);
    }
    Ok(lines)
}

fn unreadable(cause: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::new(ErrorKind::State, "the archive cannot be read back").caused_by(cause)
}
