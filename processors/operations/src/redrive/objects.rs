//! The objects that Lambda writes to an on-failure destination in S3.

use std::sync::Arc;
use std::time::Duration;

use afterwrite_datasets::DATASET_PREFIXES;
use afterwrite_input::InputObject;
use afterwrite_model::clock::Clock;
use afterwrite_model::record::Timestamp;
use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_services::Bucket;
use futures::TryStreamExt as _;

use crate::jobs::{JobTotals, count};
use crate::replay::{DeliveryTotal, RecordTarget, TargetOutcome};

/// The prefix to which objects move whose records are processed.
const REDRIVEN: &str = "redriven/";
/// The prefix of the verifier's reports.
const REPORTS: &str = "reports/";
/// The time that the records of one object may take.
const OBJECT_TIME: Duration = Duration::from_secs(120);

/// The treatment of an object whose records are all processed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettledObjects {
    /// It moves to `redriven/<key>`.
    Move,
    /// It is deleted.
    Delete,
    /// It stays: a dry run.
    Keep,
}

/// A redrive of the objects of a prefix.
#[derive(Debug)]
pub struct ObjectRedrive<A, R, B, C> {
    /// The handler that counts.
    pub aggregator: A,
    /// The handler that invalidates and archives.
    pub relay: R,
    /// The bucket.
    pub bucket: Arc<B>,
    /// Its name.
    pub name: Arc<str>,
    /// The prefix of the objects.
    pub prefix: String,
    /// The treatment of processed objects.
    pub settled: SettledObjects,
    /// The clock.
    pub clock: C,
}

/// The end of an object's redrive.
#[derive(Debug)]
pub(super) enum ObjectOutcome {
    /// Its records are processed.
    Processed,
    /// Another redrive has moved it since it was listed.
    Moved,
    /// It stays, for this reason.
    Stays(Error),
}

/// An object of an on-failure destination, ordered by its age.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FailureObject {
    pub(super) modified_ms: i64,
    pub(super) key: String,
    bytes: u64,
}

impl<A: RecordTarget, R: RecordTarget, B: Bucket, C: Clock> ObjectRedrive<A, R, B, C> {
    /// The objects of the prefix, the oldest first.
    ///
    /// # Errors
    /// A prefix that has no on-failure objects; as [`Bucket::list`].
    pub(super) async fn list(&self) -> Result<Vec<FailureObject>> {
        if is_own(&self.prefix) {
            return Err(self.not_failures());
        }
        let listed = self.bucket.list(&self.prefix).await?.into_iter();
        let is_failure = |key: &str| !key.starts_with(REDRIVEN) && !is_own(key);
        let listed = listed.filter(|object| object.size > 0 && is_failure(&object.key));
        let mut objects: Vec<FailureObject> = listed
            .map(|object| FailureObject {
                modified_ms: object.modified.epoch_ms(),
                key: object.key,
                bytes: object.size,
            })
            .collect();
        objects.sort();
        Ok(objects)
    }

    /// Delivers the records of an object and settles it; returns the counters and the end. If the object stays, the end has the first reason.
    ///
    /// # Errors
    /// A wrong setting, which would fail every object; a bucket that cannot be reached.
    pub(super) async fn redrive(&self, object: &FailureObject) -> Result<(JobTotals, ObjectOutcome)> {
        let records = match self.records(object).await {
            Ok(Some(records)) => records,
            Ok(None) => return Ok((JobTotals::new(), self.gone(object).await?)),
            Err(error) if error.kind() == ErrorKind::Rejected => {
                return Ok((JobTotals::new(), ObjectOutcome::Stays(error)));
            }
            Err(error) => return Err(error),
        };
        let event = format!("{{\"Records\":[{}]}}", records.join(",")).into_bytes();
        let deadline = self.clock.now().plus(OBJECT_TIME);
        let counted = self.aggregator.deliver(&event, deadline).await;
        let relayed = match &counted {
            Ok(_) => self.relay.deliver(&event, deadline).await,
            Err(_) => Ok(TargetOutcome::default()),
        };
        let mut totals = JobTotals::from([(DeliveryTotal::Records, count(records.len()))]);
        let mut reason = None;
        for outcome in [counted, relayed] {
            let TargetOutcome { totals: of_target, failed, parked, not_counted } = match outcome {
                Ok(outcome) => outcome,
                Err(error) if concerns_object(&error) => {
                    reason = reason.or(Some(error));
                    continue;
                }
                Err(error) => return Err(error),
            };
            totals.add_all(&of_target);
            totals.add(DeliveryTotal::RollupsNotCounted, not_counted);
            reason = reason.or(failed.into_iter().chain(parked).next().map(|failed| failed.error));
        }
        let Some(reason) = reason else {
            self.settle(&object.key).await?;
            return Ok((totals, ObjectOutcome::Processed));
        };
        Ok((totals, ObjectOutcome::Stays(reason)))
    }

    /// The records of an object; `None` if it is gone since it was listed.
    async fn records(&self, object: &FailureObject) -> Result<Option<Vec<String>>> {
        let listed = InputObject::Object {
            bucket: Arc::clone(&self.bucket),
            name: Arc::clone(&self.name),
            key: object.key.clone(),
            modified: Timestamp::from_epoch_ms(object.modified_ms),
            bytes: object.bytes,
            etag: None,
        };
        let Some(reader) = listed.open_if_present().await? else { return Ok(None) };
        let mut reader = reader.of_failures();
        let mut records = Vec::new();
        while let Some(record) = reader.next_record()? {
            records.push(record.map_err(|rejected| not_redrivable(rejected.reason))?);
        }
        Ok(Some(records))
    }

    fn not_failures(&self) -> Error {
        let name = &self.name;
        Error::new(ErrorKind::Configuration, "the objects of this prefix are not on-failure objects")
            .with("objects", format!("s3://{name}/{}", self.prefix))
            .hint(format!(
                "Name the prefix of the on-failure objects, such as s3://{name}/aws/lambda/. Records of the archive are processed by `afterwrite replay s3://{name}/archive/`"
            ))
    }

    /// An object that is gone since it was listed. Another redrive is expected to move objects of a prefix, but not the one object that the
    /// arguments name.
    async fn gone(&self, object: &FailureObject) -> Result<ObjectOutcome> {
        let moved = format!("{REDRIVEN}{}", object.key);
        let name = format!("s3://{}/{}", self.name, object.key);
        if object.key == self.prefix {
            return Err(Error::new(ErrorKind::Configuration, "the object does not exist any more")
                .with("object", name)
                .hint(format!("If another redrive has moved it, it is s3://{}/{moved}", self.name)));
        }
        let is_moved = self.bucket.list(&moved).await?.iter().any(|listed| listed.key == moved);
        Ok(if is_moved { ObjectOutcome::Moved } else { ObjectOutcome::Stays(lost(name)) })
    }

    async fn settle(&self, key: &str) -> Result<()> {
        match self.settled {
            SettledObjects::Keep => return Ok(()),
            SettledObjects::Delete => {}
            SettledObjects::Move => {
                let Some(chunks) = self.bucket.get(key).await? else { return Ok(()) };
                let content = chunks.try_collect::<Vec<_>>().await?.concat();
                self.bucket.put(&format!("{REDRIVEN}{key}"), content).await?;
            }
        }
        self.bucket.delete(&[key.to_owned()]).await
    }
}

/// Whether functions or commands have written the object with this key: then it is no on-failure object.
fn is_own(key: &str) -> bool {
    DATASET_PREFIXES.iter().chain([&REPORTS]).any(|own| key.starts_with(own))
}

/// Whether an error is a property of the object: another object may succeed.
fn concerns_object(error: &Error) -> bool {
    match error.kind() {
        ErrorKind::Event
        | ErrorKind::Stream
        | ErrorKind::Record
        | ErrorKind::Misfit
        | ErrorKind::Rejected
        | ErrorKind::Unreadable
        | ErrorKind::State => true,
        ErrorKind::Configuration | ErrorKind::Model | ErrorKind::Unavailable | ErrorKind::Conflict => false,
    }
}

fn lost(name: String) -> Error {
    Error::new(ErrorKind::Rejected, "the object is gone since it was listed, and redriven/ does not have it")
        .with("object", name)
        .hint("If another redrive with --delete has processed it, ignore this; otherwise the archive may have its records")
}

fn not_redrivable(reason: &str) -> Error {
    Error::new(ErrorKind::Rejected, format!("the object has no records: {reason}")).hint(
        "Only on-failure destinations in S3 have the event. Records that an SQS or SNS destination names are in the archive: replay their hour",
    )
}
