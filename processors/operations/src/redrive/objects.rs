//! The objects that Lambda writes to an on-failure destination in S3.

use std::sync::Arc;
use std::time::Duration;

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
    /// The prefix of the objects.
    pub prefix: String,
    /// The treatment of processed objects.
    pub settled: SettledObjects,
    /// The clock.
    pub clock: C,
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
    pub(super) async fn list(&self) -> Result<Vec<FailureObject>> {
        let listed = self.bucket.list(&self.prefix).await?.into_iter();
        let listed = listed.filter(|object| object.size > 0 && !object.key.starts_with(REDRIVEN));
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

    /// Delivers the records of an object and settles it; returns the counters, and the first reason why it stays, if it does.
    ///
    /// # Errors
    /// A wrong setting, which would fail every object; a bucket that cannot be reached.
    pub(super) async fn redrive(&self, object: &FailureObject) -> Result<(JobTotals, Option<Error>)> {
        let records = match self.records(object).await {
            Ok(records) => records,
            Err(error) if error.kind() == ErrorKind::Rejected => return Ok((JobTotals::new(), Some(error))),
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
        if reason.is_none() {
            self.settle(&object.key).await?;
        }
        Ok((totals, reason))
    }

    async fn records(&self, object: &FailureObject) -> Result<Vec<String>> {
        let opened = InputObject::Object {
            bucket: Arc::clone(&self.bucket),
            name: Arc::from(""),
            key: object.key.clone(),
            modified: Timestamp::from_epoch_ms(object.modified_ms),
            bytes: object.bytes,
            etag: None,
        };
        let mut reader = opened.open().await?;
        let mut records = Vec::new();
        while let Some(record) = reader.next_record()? {
            records.push(record.map_err(|rejected| not_redrivable(rejected.reason))?);
        }
        Ok(records)
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

fn not_redrivable(reason: &str) -> Error {
    Error::new(ErrorKind::Rejected, format!("the object has no records: {reason}")).hint(
        "Only on-failure destinations in S3 have the event. Records that an SQS or SNS destination names are in the archive: replay their hour",
    )
}
